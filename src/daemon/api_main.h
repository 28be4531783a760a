/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/api_main - the api role: `bawnd role-api`, started by the supervisor only.
 *
 * Options are numbers and descriptors, not meant for people. SIGTERM: drain and end (with
 * --kill-on-exit the sandboxes too). SIGHUP: drain and end, another takes over.
 */
int api_main(int argc, char **argv);
