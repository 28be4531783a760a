/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/doctor - `bawn doctor`: what this machine can give, and how to get the rest.
 *
 * Measures (sys/probe), judges (core/diagnosis), prints. Changes nothing.
 */
#include "cli/doctor.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/verb.h"
#include "core/state_dir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: bawn doctor [--json]\n"
	"\n"
	"Tries what a sandbox needs on this machine, as the user who asks, and says for\n"
	"each wall and tier what there is, and the command that gets what is missing.\n"
	"Nothing is changed, nothing is left behind.\n"
	"\n"
	"  --json   one line of JSON: ok, kernel, facts, walls, tiers\n"
	"\n"
	"Exit status: 0 if 'bawn run' can build every wall it requires by default,\n"
	"1 if not, 125 for an unknown option.\n";

struct options {
	bool want_json;
	bool want_help;
};

static int parse(int argc, char **argv, struct options *ret, struct err *err)
{
	char quoted[64];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			ret->want_json = true;
		else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			ret->want_help = true;
		else
			return err_set(err, EINVAL,
				"'%s' is not understood; accepted: --json, --help",
				text_quote(argv[i], quoted, sizeof(quoted)));
	}
	return 0;
}

/* https://no-color.org: set and not empty means none. */
static bool want_colour(void)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

int verb_doctor(int argc, char **argv)
{
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);
	AUTO_FREE struct diagnosis *d = MEM_NEW(struct diagnosis);
	AUTO_FREE char *state = NULL;
	struct options o = {0};
	struct err err = {0};

	if (parse(argc, argv, &o, &err) < 0)
		return verb_fail("doctor", &err);
	if (o.want_help) {
		(void)fputs(usage, stdout);
		return 0;
	}
	/* Without a home there is no state directory; what "/" is made of is then the answer. */
	if (state_dir(&state, &err) < 0)
		state = mem_strdup("/");
	probe_run(p, state);
	diagnosis_make(p, d);
	if (o.want_json)
		doctor_print_json(p, d, stdout);
	else
		doctor_print_text(p, d, want_colour(), stdout);
	return d->is_ok ? 0 : 1;
}
