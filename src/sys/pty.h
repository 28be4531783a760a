/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/pty - pseudo terminals: make a pair in a given devpts, relay settings, raw mode.
 */
#include "base/err.h"

#include <stdbool.h>
#include <termios.h>

/*
 * Open a pair in the devpts mounted at dir ("/dev/pts"). Both CLOEXEC; the slave is not yet
 * anyone's terminal.
 */
int pty_open(const char *dir, int *ret_master, int *ret_slave, struct err *err);

/* Copy window size (and, the first time, terminal settings) from one terminal to another. */
void pty_copy_size(int from, int to);
void pty_copy_settings(int from, int to);

/* Put a terminal in raw mode, remembering what it was. */
int pty_raw(int fd, struct termios *ret_saved, struct err *err);
void pty_restore(int fd, const struct termios *saved);
