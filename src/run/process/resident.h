/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/resident - what the process tier needs once, before its first sandbox.
 */

/*
 * The guest to start in every sandbox: a sealed memfd, borrowed for ever, its number above 15.
 * Its pages are in memory once for all sandboxes.
 */
void resident_use_guest(int exec_fd);
