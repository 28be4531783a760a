/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/learn - `bawn learn`: run a command with the public internet open and written down, make the
 * smallest profile of it, and run the command again on that profile.
 */
#include "core/learn.h"
#include "base/mem.h"
#include "cli/run_start.h"
#include "cli/verb.h"
#include "core/profile_load.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
	"usage: bawn learn [--out FILE] [--name NAME] [--names-only] [--no-replay]\n"
	"                  [options of 'bawn run'] -- CMD [ARG...]\n"
	"\n"
	"Run CMD in a sandbox that may reach every public name, write down what it wanted, make "
	"the\n"
	"smallest profile that allows it, and run CMD once more on that profile. Private "
	"addresses\n"
	"stay closed, and so does what the floor denies.\n"
	"\n"
	"  --out FILE     the profile's file (NAME.yaml); it must not exist\n"
	"  --name NAME    what the profile is called (learnt)\n"
	"  --names-only   do not look into TLS: names and ports, no methods and paths\n"
	"  --no-replay    do not run CMD again\n"
	"\n"
	"Exit status: as of 'bawn run', of the last run.\n";

struct options {
	const char *out, *name;
	bool names_only, no_replay, want_help;
	char **args; /* for run_options_parse(): argv[0], the options of run, "--", the command */
	int args_n;
};

static bool take(char **argv, int *at, const char *name, const char **ret)
{
	size_t n = strlen(name);

	if (strncmp(argv[*at], name, n) != 0)
		return false;
	if (argv[*at][n] == '=') {
		*ret = argv[*at] + n + 1;
		return true;
	}
	if (argv[*at][n] != '\0' || !argv[*at + 1])
		return false;
	*ret = argv[++*at];
	return true;
}

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	static char net[] = "--net=allow";
	int i = 1;

	*o = (struct options){.name = "learnt"};
	o->args = mem_must(calloc((size_t)argc + 3, sizeof(char *)));
	o->args[o->args_n++] = argv[0];
	o->args[o->args_n++] = net;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--names-only") == 0)
			o->names_only = true;
		else if (strcmp(argv[i], "--no-replay") == 0)
			o->no_replay = true;
		else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			o->want_help = true;
		else if (take(argv, &i, "--out", &o->out) || take(argv, &i, "--name", &o->name))
			continue;
		else
			o->args[o->args_n++] = argv[i];
	}
	if (!o->want_help && i + 1 >= argc)
		return err_set(
			err, EINVAL, "say what to run: bawn learn [options] -- CMD [ARG...]");
	for (; i < argc; i++)
		o->args[o->args_n++] = argv[i];
	return 0;
}

/*
 * Made before the command runs, which may not write to it: the list of files that hold its rules
 * is read-only in the box.
 */
static int open_out(const char *path, int *ret, struct err *err)
{
	char quoted[200];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_sys(err, "make '%s'", text_quote(path, quoted, sizeof(quoted)));
	*ret = fd;
	return 0;
}

/* One run of the command on `policy`; what it wanted goes to *l if that is given. */
static int run_on(const struct options *o, const struct run_caller *caller,
	const struct policy *policy, const char *file, struct learn *l, struct err *err)
{
	struct run_options run;
	struct policy *sum = NULL;
	int r = run_options_parse(o->args_n, o->args, caller, &run, err);

	if (r >= 0)
		r = policy_with_floor(policy, run.network.floor, NULL, &sum, err);
	if (r >= 0)
		r = strv_add(&run.spec.policy, file, err);
	if (r >= 0) {
		(void)policy_unref(run.policy);
		run.policy = sum;
		run.learn = l;
		r = run_start(&run);
	}
	run_options_done(&run);
	return r;
}

static int write_profile(int fd, const char *yaml, struct err *err)
{
	size_t n = strlen(yaml), at = 0;

	while (at < n) {
		ssize_t k = write(fd, yaml + at, n - at);

		if (k < 0)
			return err_sys(err, "write the profile");
		at += (size_t)k;
	}
	return 0;
}

/* From what was wanted to the policy that the file now says. */
static int make_profile(const struct options *o, const struct run_caller *caller,
	const struct learn *l, int fd, const char *file, struct profile *ret, struct err *err)
{
	static const struct profile_places nowhere = {0};
	struct profile_source source = {.cwd = caller->cwd, .home = caller->home};
	AUTO_FREE char *yaml = learn_yaml(l, o->name);
	int r = write_profile(fd, yaml, err);

	return r < 0 ? r : profile_load(file, &nowhere, &source, NULL, ret, err);
}

static int learn(const struct options *o, const struct run_caller *caller, const char *file, int fd,
	struct err *err)
{
	AUTO(policy_unref) struct policy *open_policy = NULL;
	struct learn l = {0};
	struct profile p = {0};
	int status = 0, r = learn_policy(!o->names_only, &open_policy, err);
	char quoted[200];

	if (r >= 0)
		r = status = run_on(o, caller, open_policy, file, &l, err);
	if (r >= 0 && status != EXIT_BAWN)
		r = make_profile(o, caller, &l, fd, file, &p, err);
	if (r >= 0 && status != EXIT_BAWN) {
		if (l.lost > 0)
			(void)fprintf(stderr,
				"bawn: learn: %llu wishes came too fast to be written down; the "
				"profile may lack them\n",
				(unsigned long long)l.lost);
		(void)fprintf(stderr, "bawn: learn: %zu rule%s in %s%s\n", p.policy->rules_n,
			p.policy->rules_n == 1 ? "" : "s", text_quote(file, quoted, sizeof(quoted)),
			o->no_replay ? "" : "; once more, on that profile");
		if (!o->no_replay)
			r = status = run_on(o, caller, p.policy, file, NULL, err);
	}
	profile_done(&p);
	learn_done(&l);
	return r < 0 ? r : status;
}

int verb_learn(int argc, char **argv)
{
	AUTO_FREE char *cwd = NULL, *file = NULL, *given = NULL;
	AUTO_FD int fd = -EBADF;
	struct run_caller caller;
	struct options o = {0};
	struct stat st;
	struct err err = {0};
	int r = parse(argc, argv, &o, &err);

	if (r >= 0 && o.want_help) {
		free(o.args);
		(void)fputs(help, stdout);
		return 0;
	}
	if (r >= 0)
		r = run_caller_find(&caller, &cwd, &err);
	if (r >= 0 && o.name[strspn(o.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789._-")] != '\0')
		r = err_set(&err, EINVAL, "--name takes letters, digits, '.', '_' and '-'");
	if (r >= 0) {
		given = o.out ? mem_strdup(o.out) : text_format("./%.64s.yaml", o.name);
		r = text_path_clean(given, cwd, &file, &err);
	}
	if (r >= 0)
		r = open_out(file, &fd, &err);
	if (r >= 0)
		r = learn(&o, &caller, file, fd, &err);
	/* Nothing learnt: leave no empty profile behind. */
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 0)
		(void)unlink(file);
	free(o.args);
	return r < 0 ? verb_fail("learn", &err) : r;
}
