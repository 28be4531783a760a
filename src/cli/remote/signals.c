/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/signals.h"

#include "base/text.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

int signals_number(const char *status)
{
	/* The names that E2B's own data plane, written in Go, gives them. */
	static const struct {
		const char *name;
		int number;
	} table[] = {
		{"hangup", SIGHUP},
		{"interrupt", SIGINT},
		{"quit", SIGQUIT},
		{"illegal instruction", SIGILL},
		{"trace/breakpoint trap", SIGTRAP},
		{"aborted", SIGABRT},
		{"bus error", SIGBUS},
		{"floating point exception", SIGFPE},
		{"killed", SIGKILL},
		{"user defined signal 1", SIGUSR1},
		{"segmentation fault", SIGSEGV},
		{"user defined signal 2", SIGUSR2},
		{"broken pipe", SIGPIPE},
		{"alarm clock", SIGALRM},
		{"terminated", SIGTERM},
	};

	if (text_starts(status, "signal: "))
		status += strlen("signal: ");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (text_starts(status, table[i].name))
			return table[i].number;
	}
	return 0;
}
