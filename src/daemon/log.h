/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/log - one line per event on stderr: key=value, or JSON.
 *
 * Shared by the roles; each says once who it is. Values are escaped here, so that what a
 * stranger sent cannot forge a line. Callers put no secret in: keys appear as their prefix,
 * tokens not at all. One write() per line: the roles share the descriptor.
 */
#include <stdbool.h>
#include <stddef.h>

enum role_log_level {
	ROLE_LOG_INFO,
	ROLE_LOG_WARN,
	ROLE_LOG_ERROR,
};

/* Who writes, and how. `role` is borrowed for ever. */
void role_log_init(const char *role, bool is_json);

/* role_log(level, event, key, value, …): strings. A NULL value leaves its pair out. */
#define role_log(level, ...) role_log_write(level, __VA_ARGS__, (const char *)NULL)
void role_log_write(enum role_log_level level, const char *event, ...) __attribute__((sentinel));
