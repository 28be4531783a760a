/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/signals.h"

#include "base/text.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
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

	uint64_t number = 0;

	if (text_starts(status, "signal: "))
		status += strlen("signal: ");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (text_starts(status, table[i].name))
			return table[i].number;
	}
	/* "signal 31": one that has no name there. */
	if (text_starts(status, "signal ")) {
		status += strlen("signal ");
		if (text_scan_u64(&status, &number) == 0 && number > 0 && number <= 64)
			return (int)number;
	}
	return 0;
}
