/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * bench/api - the least client of a server: what one request costs, without an interpreter.
 *
 * The server is named by the environment: API_PORT (on 127.0.0.1), API_KEY, and for "exec"
 * API_BOX and API_TOKEN (a sandbox that runs). One connection per process, kept open.
 * Blocking; ends the program when the server does not answer as it should.
 */
#include <stdint.h>

/*
 * Nanoseconds of one operation:
 *   "life"   create a sandbox, start a command, see the first byte it prints; the kill that
 *            follows is not counted
 *   "whole"  the same with the kill counted
 *   "exec"   run `true` in a sandbox that is up, until its end is reported
 */
uint64_t api_sample(const char *what);
