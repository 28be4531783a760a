/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/run - `bawn run`: options to spec, spec to sandbox, sandbox to report.
 *
 * Runs in: the bawn process, single-threaded; blocks until the sandbox is gone.
 */
#include "base/own.h"
#include "base/text.h"
#include "cli/run_egress.h"
#include "cli/run_options.h"
#include "cli/run_report.h"
#include "cli/run_start.h"
#include "cli/verb.h"
#include "run/process/box.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static uint64_t machine_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return 0;
	return (uint64_t)info.totalram * info.mem_unit;
}

/*
 * Opened before the command starts: afterwards the name may be a link that the
 * command left there for us to write through. A link left by an earlier run is
 * refused too; below /dev no box can write, and /dev/stderr is a link.
 */
static int open_json(const char *path, FILE **ret, struct err *err)
{
	int follow = text_starts(path, "/dev/") ? 0 : O_NOFOLLOW;
	AUTO_FD int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | follow, 0666);
	char quoted[200];
	FILE *f;

	(void)text_quote(path, quoted, sizeof(quoted));
	if (fd < 0)
		return err_sys(err, "--json: open '%s'", quoted);
	f = fdopen(fd, "we");
	if (!f)
		return err_sys(err, "--json: open '%s'", quoted);
	(void)TAKE_FD(fd);
	*ret = f;
	return 0;
}

static int run_box(struct run_options *o, FILE *json)
{
	/* Static: some 40 KiB with its violations, and a verb runs one at a time. */
	static struct box_result result;
	struct run_egress egress = {.fd = -EBADF, .pidfd = -EBADF};
	struct box_options box;
	struct err err = {0};
	int r;

	result = (struct box_result){0};
	box_options_init(&box);
	box.environ = environ;
	box.want_explain = o->want_explain;
	r = o->policy ? run_egress_prepare(&egress, &o->network, o->policy, &o->spec, &err) : 0;
	egress.learn = o->learn;
	if (r >= 0 && o->policy)
		box.road = &egress.road;
	if (r >= 0)
		r = box_run(&o->spec, &box, &result, &err);
	run_egress_done(&egress);
	if (json) {
		struct err why = {0};

		/* The command may have written to the file: only the result stays in it. */
		if (json != stdout && ftruncate(fileno(json), 0) < 0 && errno != EINVAL) {
			(void)err_sys(&why, "--json: truncate");
			return verb_fail("run", &why);
		}
		if (run_report_json(&o->spec, &result, r < 0 ? &err : NULL, json, &why) < 0)
			return verb_fail("run", &why);
	}
	if (r < 0)
		return verb_fail("run", &err);
	if (result.exec_error.code)
		(void)verb_fail("run", &result.exec_error);
	if (!o->is_quiet) {
		run_report_explain(&result, stderr);
		if (o->spec.cow)
			run_report_changes(&result, stderr);
	}
	return result.exit_status;
}

static int print_plan(struct run_options *o)
{
	struct box_options box;
	struct err err = {0};

	if (o->spec.want_road && run_egress_public(&o->spec.ca_dir, &err) < 0)
		return verb_fail("run", &err);
	box_options_init(&box);
	box.environ = environ;
	box.want_explain = o->want_explain;
	if (box_plan(&o->spec, &box, o->want_json, stdout, &err) < 0)
		return verb_fail("run", &err);
	return 0;
}

int run_start(struct run_options *o)
{
	AUTO_FILE FILE *file = NULL;
	struct err err = {0};

	if (o->want_help) {
		run_options_help(stdout);
		return 0;
	}
	if (o->want_plan)
		return print_plan(o);
	if (o->json_file && open_json(o->json_file, &file, &err) < 0)
		return verb_fail("run", &err);
	return run_box(o, o->want_json && !file ? stdout : file);
}

int run_caller_find(struct run_caller *ret, char **ret_cwd, struct err *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);

	/* A directory outside our root is reported as "(unreachable)/...". */
	if (!cwd || cwd[0] != '/')
		return err_set(err, ENOENT, "the current directory is gone; cd to one that exists");
	*ret = (struct run_caller){.cwd = cwd, .home = getenv("HOME"), .memory = machine_memory()};
	*ret_cwd = TAKE_PTR(cwd);
	return 0;
}

int verb_run(int argc, char **argv)
{
	AUTO_FREE char *cwd = NULL;
	struct run_caller caller;
	struct run_options o;
	struct err err = {0};
	int status;

	if (run_caller_find(&caller, &cwd, &err) < 0)
		return verb_fail("run", &err);
	if (run_options_parse(argc, argv, &caller, &o, &err) < 0)
		status = verb_fail("run", &err);
	else
		status = run_start(&o);
	run_options_done(&o);
	return status;
}
