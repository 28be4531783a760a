/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/run_options - the options of `bawn run` as a table, and its interpreter.
 *
 * No getopt: its messages name neither what is accepted nor the closest option.
 * Runs in: the bawn process, before anything is made.
 */
#include "cli/run_options.h"

#include "base/mem.h"
#include "core/profile_load.h"

#include <errno.h>
#include <string.h>

typedef int (*take_fn)(struct run_options *o, const char *name, const char *value, struct err *err);

struct option {
	const char *name; /* with its dashes; NULL: `help` is a heading */
	const char *arg;  /* what it takes, for the help; NULL = nothing */
	const char *help;
	take_fn take;
	bool is_arg_optional; /* only as --opt=value */
};

/* One option as it was given. */
struct given {
	size_t option;     /* index in options[] */
	const char *value; /* NULL = none; borrowed from argv */
};

static int take_help(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	(void)value;
	(void)err;
	o->want_help = true;
	return 0;
}

static int take_root(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	return spec_set_root(&o->spec, value, err);
}

static int take_switch(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	if (strcmp(name, "--cow") == 0)
		o->spec.cow = true;
	else if (strcmp(name, "--no-protect") == 0)
		o->spec.no_protect = true;
	else if (strcmp(name, "--allow-sudo") == 0)
		o->spec.allow_sudo = true;
	else if (strcmp(name, "--loopback") == 0)
		o->spec.want_loopback = true;
	else if (strcmp(name, "--no-loopback") == 0)
		o->spec.want_loopback = false;
	else if (strcmp(name, "--plan") == 0)
		o->want_plan = true;
	else if (strcmp(name, "--no-explain") == 0)
		o->want_explain = false;
	else /* --quiet, -q */
		o->is_quiet = true;
	return 0;
}

static int take_path(struct run_options *o, const char *name, const char *value, struct err *err)
{
	enum spec_path_mode mode = SPEC_PATH_HIDE;

	if (strcmp(name, "--rw") == 0)
		mode = SPEC_PATH_RW;
	else if (strcmp(name, "--ro") == 0)
		mode = SPEC_PATH_RO;
	return spec_add_user_path(&o->spec, mode, value, o->caller->cwd, o->caller->home, err);
}

static int take_env(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	return spec_add_env(&o->spec, value, err);
}

static int take_pass_env(
	struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	return strv_add(&o->spec.pass_env, value, err);
}

static int take_user(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	return spec_set_string(&o->spec.user, "the user", value, err);
}

static int take_cwd(struct run_options *o, const char *name, const char *value, struct err *err)
{
	AUTO_FREE char *clean = NULL;
	int r = text_path_clean(value, o->caller->cwd, &clean, err);

	(void)name;
	return r < 0 ? r : spec_set_string(&o->spec.cwd, "the directory", clean, err);
}

static int take_hostname(
	struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	return spec_set_string(&o->spec.hostname, "the name", value, err);
}

static int take_limit(struct run_options *o, const char *name, const char *value, struct err *err)
{
	enum wall wall = spec_limit_wall(name);

	/* A limit asked for now is not undone by a level that the profile set. */
	if (!o->wall_given[wall])
		o->spec.walls_set[wall] = false;
	return spec_set_limit(&o->spec, name, value, err);
}

static int take_wall(struct run_options *o, const char *name, const char *value, struct err *err)
{
	int r = spec_set_wall(&o->spec, value, err);
	AUTO_FREE char *wall = NULL;
	enum wall w;

	(void)name;
	if (r < 0)
		return r;
	wall = (char *)mem_must(strndup(value, strcspn(value, "=")));
	r = wall_parse(wall, &w, err);
	if (r >= 0)
		o->wall_given[w] = true;
	return r;
}

static int take_net(struct run_options *o, const char *name, const char *value, struct err *err)
{
	char quoted[64];

	(void)name;
	if (strcmp(value, "none") == 0)
		o->network.is_none = true;
	else if (strcmp(value, "allow") == 0)
		o->network.is_allow = true;
	else
		return err_set(err, EINVAL, "'%s' is not a network; accepted: none, allow",
			text_quote(value, quoted, sizeof(quoted)));
	return 0;
}

static int take_rule(struct run_options *o, const char *name, const char *value, struct err *err)
{
	return strv_add(
		strcmp(name, "--allow") == 0 ? &o->network.allow : &o->network.deny, value, err);
}

static int take_upstream(
	struct run_options *o, const char *name, const char *value, struct err *err)
{
	AUTO_FREE char *clean = NULL;
	int r;

	if (strcmp(name, "--resolver") == 0)
		return spec_set_string(&o->network.resolver, "the list", value, err);
	if (strcmp(name, "--upstream-proxy") == 0)
		return spec_set_string(&o->network.upstream_proxy, "the address", value, err);
	if (strcmp(name, "--no-proxy") == 0)
		return spec_set_string(&o->network.no_proxy, "the list", value, err);
	r = text_path_clean(value, o->caller->cwd, &clean, err);
	return r < 0 ? r : spec_set_string(&o->network.upstream_ca, "the file", clean, err);
}

static int take_json(struct run_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	o->want_json = true;
	return value ? spec_set_string(&o->json_file, "the file", value, err) : 0;
}

static int take_profile(struct run_options *o, const char *name, const char *value, struct err *err)
{
	struct profile_source source = {.cwd = o->caller->cwd, .home = o->caller->home};
	struct profile_places places = {0};
	struct profile p = {0};
	int r;

	(void)name;
	if (o->has_profile)
		return err_set(err, EINVAL, "given twice; a run has one profile");
	o->has_profile = true;
	profile_places_find(o->caller->home, &places);
	r = profile_load(value, &places, &source, &o->spec, &p, err);
	for (size_t i = 0; r >= 0 && i < p.files.n; i++)
		r = strv_add(&o->spec.policy, p.files.v[i], err);
	/* Without a rule there is nobody to talk to: no road. */
	if (r >= 0 && p.policy->rules_n > 0)
		o->network.profile = policy_ref(p.policy);
	profile_done(&p);
	profile_places_done(&places);
	return r;
}

static int take_floor(struct run_options *o, const char *name, const char *value, struct err *err)
{
	AUTO_FREE char *path = NULL;
	int r;

	if (o->network.floor)
		return err_set(err, EINVAL, "given twice; a run stands on one floor");
	(void)name;
	r = text_path_clean(value, o->caller->cwd, &path, err);
	if (r >= 0)
		r = profile_load_floor(path, &o->network.floor, err);
	return r < 0 ? r : strv_add(&o->spec.policy, path, err);
}

/* The operator's floor holds for everybody; a caller may add one only where there is none. */
static int add_floor(struct run_options *o, struct err *err)
{
	struct policy *floor = NULL;
	int r = access(PROFILE_FLOOR_FILE, F_OK);

	if (r < 0 && errno == ENOENT)
		return 0;
	r = profile_load_floor(PROFILE_FLOOR_FILE, &floor, err);
	if (r < 0)
		return r;
	if (o->network.floor) {
		floor = policy_unref(floor);
		return err_set(
			err, EEXIST, "--floor: this machine has its floor, " PROFILE_FLOOR_FILE);
	}
	o->network.floor = floor;
	return 0;
}

static const struct option options[] = {
	{NULL, NULL, "Files", NULL, false},
	{"--root", "host|base",
		"what the command sees as /: your system, read-only and "
		"without your keys\n"
		"(host, the default), or a clean one (base)",
		take_root, false},
	{"--cow", NULL,
		"keep changes to the current directory apart; afterwards 'bawn "
		"diff', 'bawn\n"
		"apply' or 'bawn discard' them",
		take_switch, false},
	{"--rw", "PATH", "also let it write to PATH", take_path, false},
	{"--ro", "PATH", "let it read PATH even if it is hidden by default", take_path, false},
	{"--hide", "PATH", "hide PATH; * ? [] and ** match as in a shell", take_path, false},
	{"--no-protect", NULL,
		"let it change .git/hooks, shell and editor settings below "
		"writable paths",
		take_switch, false},
	{"--cwd", "PATH", "start in PATH", take_cwd, false},
	{NULL, NULL, "Environment", NULL, false},
	{"--env", "NAME=VALUE", "set a variable", take_env, false},
	{"--pass-env", "NAME", "pass a variable of yours; NAME* passes all that begin so",
		take_pass_env, false},
	{"--user", "USER", "run as USER of the box, a name or a number", take_user, false},
	{"--hostname", "NAME", "host name inside (bawn)", take_hostname, false},
	{NULL, NULL, "Limits ('none' lifts one; one that is asked for is required)", NULL, false},
	{"--memory", "SIZE", "memory, no swap (4G, at most 3/4 of the machine's)", take_limit,
		false},
	{"--cpus", "N", "processors, such as 1.5 (none)", take_limit, false},
	{"--pids", "N", "processes and threads (4096)", take_limit, false},
	{"--disk", "SIZE", "what the box may store: /tmp, copy-on-write, its own root (1G)",
		take_limit, false},
	{"--io", "SIZE", "bytes a second to and from block devices, each way (none)", take_limit,
		false},
	{"--open-files", "N", "open files per process (65536)", take_limit, false},
	{"--timeout", "TIME", "end it after TIME: 90, 300ms, 5m, 2h (none); exit status 124",
		take_limit, false},
	{"--kill-after", "TIME", "then wait TIME between SIGTERM and SIGKILL (5s)", take_limit,
		false},
	{NULL, NULL, "Network", NULL, false},
	{"--allow", "HOST[:PORT]",
		"let it reach HOST by https and http: a name, *.NAME, an address or\n"
		"network; tcp:HOST:PORT for anything else. Nothing else gets out",
		take_rule, false},
	{"--deny", "HOST[:PORT]", "but not HOST; wins over every --allow", take_rule, false},
	{"--floor", "FILE", "nothing that this profile does not allow, whatever else is said",
		take_floor, false},
	{"--net", "none|allow", "no road out (the default), or what --allow and the profile say",
		take_net, false},
	{"--resolver", "LIST", "name servers for the names that are allowed (the system's)",
		take_upstream, false},
	{"--upstream-ca", "FILE", "certificates that servers are checked by (the system's)",
		take_upstream, false},
	{"--upstream-proxy", "URL", "go out through http://… or socks5://…", take_upstream, false},
	{"--no-proxy", "LIST", "but not to these hosts and networks", take_upstream, false},
	{"--loopback", NULL, "the box has its own localhost (the default)", take_switch, false},
	{"--no-loopback", NULL, "not even that", take_switch, false},
	{NULL, NULL, "Walls", NULL, false},
	{"--wall", "NAME=LEVEL", "required, preferred or off; the names are in bawn-run(1)",
		take_wall, false},
	{"--allow-sudo", NULL, "let setuid programs inside gain root over the box (wall nnp off)",
		take_switch, false},
	{"--profile", "NAME|FILE", "take all this from a YAML file; options override it",
		take_profile, false},
	{NULL, NULL, "Result", NULL, false},
	{"--json", "[=FILE]",
		"after the command's output, one line of JSON: status, use, "
		"violations, walls",
		take_json, true},
	{"--plan", NULL, "print what would be done and do nothing; with --json as JSON",
		take_switch, false},
	{"--no-explain", NULL, "do not watch for refused writes and connections to explain them",
		take_switch, false},
	{"--quiet", NULL, "no explanations on stderr (-q)", take_switch, false},
	{"--help", NULL, "this page (-h)", take_help, false},
};
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static const struct option *find(const char *name, size_t size)
{
	if (size == 2 && strncmp(name, "-h", 2) == 0)
		return find("--help", strlen("--help"));
	if (size == 2 && strncmp(name, "-q", 2) == 0)
		return find("--quiet", strlen("--quiet"));
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const char *have = options[i].name;

		if (have && strlen(have) == size && strncmp(have, name, size) == 0)
			return &options[i];
	}
	return NULL;
}

static int unknown_option(const char *word, size_t size, struct err *err)
{
	AUTO_FREE char *name = (char *)mem_must(strndup(word, size < 64 ? size : 64));
	const char *names[OPTION_COUNT];
	const char *near;
	char quoted[80];
	size_t n = 0;

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		if (options[i].name)
			names[n++] = options[i].name + 2;
	}
	near = text_closest(name + strspn(name, "-"), names, n);
	(void)text_quote(name, quoted, sizeof(quoted));
	if (near)
		return err_set(
			err, EINVAL, "unknown option '%s'; did you mean '--%s'?", quoted, near);
	return err_set(err, EINVAL, "unknown option '%s'; 'bawn run --help' lists them", quoted);
}

/* Read the option at argv[*at] and its value; moves *at past both. */
static int read_option(int argc, char **argv, int *at, struct given *ret, struct err *err)
{
	const char *word = argv[*at];
	size_t size = strcspn(word, "=");
	const struct option *opt = find(word, size);
	const char *value = word[size] == '=' ? word + size + 1 : NULL;
	char quoted[64];

	if (!opt)
		return unknown_option(word, size, err);
	(*at)++;
	if (!opt->arg && value)
		return err_set(err, EINVAL, "%s takes no value", opt->name);
	if (opt->arg && !opt->is_arg_optional && !value) {
		if (*at >= argc || strcmp(argv[*at], "--") == 0)
			return err_set(err, EINVAL, "%s needs a value: %s %s", opt->name, opt->name,
				opt->arg);
		value = argv[*at];
		if (text_starts(value, "--"))
			return err_set(err, EINVAL,
				"%s needs a value, but '%s' follows; write %s=%s if it is meant",
				opt->name, text_quote(value, quoted, sizeof(quoted)), opt->name,
				quoted);
		(*at)++;
	}
	*ret = (struct given){.option = (size_t)(opt - options), .value = value};
	return 0;
}

static int apply(struct run_options *o, const struct given *g, struct err *err)
{
	const char *name = options[g->option].name;
	int r = options[g->option].take(o, name, g->value, err);

	/* Errors of limits already begin with the option. */
	if (r < 0 && !text_starts(err->msg, name))
		(void)err_wrap(err, "%s", name);
	return r;
}

static int apply_all(struct run_options *o, const struct given *given, size_t n, struct err *err)
{
	size_t profile_paths;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (options[given[i].option].take == take_profile)
			r = apply(o, &given[i], err);
	}
	profile_paths = o->spec.paths_n;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (options[given[i].option].take != take_profile)
			r = apply(o, &given[i], err);
	}
	if (r >= 0)
		spec_override_paths(&o->spec, profile_paths);
	return r;
}

/*
 * Is `dir` a directory that the command may get to write to because the caller
 * stands in it? Not the system's own directories: nobody who runs a command in / or
 * /etc means to hand those over. Not /tmp itself: the box has a private one.
 */
static bool is_work_dir(const char *dir)
{
	static const char *const exact[] = {"/", "/bin", "/boot", "/etc", "/home", "/lib", "/lib32",
		"/lib64", "/libx32", "/media", "/mnt", "/opt", "/sbin", "/srv", "/tmp", "/usr",
		"/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var", "/var/lib",
		"/var/tmp"};
	static const char *const below[] = {"/dev", "/proc", "/run", "/sys"};

	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		if (strcmp(dir, exact[i]) == 0)
			return false;
	}
	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
		if (text_path_below(dir, below[i]))
			return false;
	}
	return true;
}

/* What the caller's place decides. */
static void place(struct run_options *o)
{
	struct spec *s = &o->spec;
	bool is_shared = s->root == SPEC_ROOT_HOST || s->cow;

	if (is_shared && is_work_dir(o->caller->cwd))
		s->work_dir = mem_strdup(o->caller->cwd);
	/* In the clean root the command starts in /workspace, which is the directory with --cow. */
	if (!s->cwd && s->root == SPEC_ROOT_HOST)
		s->cwd = mem_strdup(o->caller->cwd);
}

int run_options_parse(int argc, char **argv, const struct run_caller *caller,
	struct run_options *ret, struct err *err)
{
	AUTO_FREE struct given *given =
		(struct given *)mem_must(calloc((size_t)argc + 1, sizeof(struct given)));
	size_t n = 0;
	int at = 1;
	int r = 0;

	*ret = (struct run_options){.caller = caller, .want_explain = true};
	spec_init(&ret->spec);
	/* A default above what the machine has would let one box push the host into swap. */
	if (caller->memory > 0 && caller->memory / 4 * 3 < ret->spec.limits.memory_max)
		ret->spec.limits.memory_max = caller->memory / 4 * 3;
	while (r >= 0 && at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
		if (strcmp(argv[at], "--") == 0) {
			at++;
			break;
		}
		r = read_option(argc, argv, &at, &given[n], err);
		if (r >= 0 && options[given[n].option].take == take_help) {
			ret->want_help = true;
			return 0;
		}
		n++;
	}
	if (r >= 0)
		r = apply_all(ret, given, n, err);
	for (; r >= 0 && at < argc; at++)
		r = strv_add(&ret->spec.argv, argv[at], err);
	if (r < 0)
		return r;
	place(ret);
	r = run_network_wanted(&ret->network, err);
	if (r > 0) {
		ret->spec.want_road = true;
		r = add_floor(ret, err);
		if (r >= 0)
			r = run_network_policy(&ret->network, &ret->policy, err);
	}
	return r < 0 ? r : spec_validate(&ret->spec, err);
}

void run_options_done(struct run_options *o)
{
	spec_done(&o->spec);
	run_network_done(&o->network);
	o->policy = policy_unref(o->policy);
	free(o->json_file);
	o->json_file = NULL;
}

void run_options_help(FILE *out)
{
	(void)fputs("bawn run - run a command in a fresh sandbox\n"
		    "\n"
		    "  bawn run [options] -- CMD [ARG...]\n",
		out);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option *o = &options[i];
		AUTO_FREE char *left = NULL;
		const char *text = o->help;

		if (!o->name) {
			(void)fprintf(out, "\n%s\n", o->help);
			continue;
		}
		left = text_format("%s%s%s", o->name, o->arg && !o->is_arg_optional ? " " : "",
			o->arg ? o->arg : "");
		(void)fprintf(out, "  %-19s ", left);
		for (; strchr(text, '\n'); text = strchr(text, '\n') + 1)
			(void)fprintf(out, "%.*s\n%22s", (int)strcspn(text, "\n"), text, "");
		(void)fprintf(out, "%s\n", text);
	}
	(void)fputs("\nExit status: the command's own; 124 its time was up; 125 bawn failed and "
		    "ran nothing;\n126 not executable; 127 not found; 128+N signal N. More: "
		    "bawn-run(1).\n",
		out);
}
