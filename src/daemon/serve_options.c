/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/serve_options.h"

#include "base/mem.h"
#include "core/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct setting {
	const char *name; /* without dashes; NULL: `help` is a heading */
	const char *arg;  /* NULL: a switch */
	const char *help;
	int (*take)(struct serve_options *o, const char *name, const char *value, struct err *err);
};

static int take_path(char **field, const char *value, struct err *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	char *clean = NULL;
	int r;

	if (!cwd)
		return err_sys(err, "the working directory");
	r = text_path_clean(value, cwd, &clean, err);
	if (r < 0)
		return r;
	free(*field);
	*field = clean;
	return 0;
}

static int take_listen(
	struct serve_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	if (o->listen.n >= SERVE_LISTEN_MAX)
		return err_set(err, E2BIG, "at most %d addresses", SERVE_LISTEN_MAX);
	if (!strchr(value, ':'))
		return err_set(err, EINVAL,
			"an address is ADDR:PORT, [ADDR]:PORT or unix:PATH, such as %s",
			SERVE_LISTEN_HERE);
	o->is_listen_given = true;
	return strv_add(&o->listen, value, err);
}

static int take_file(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	char **field = strcmp(name, "state") == 0      ? &o->state
		       : strcmp(name, "tls-cert") == 0 ? &o->tls_cert
		       : strcmp(name, "tls-key") == 0  ? &o->tls_key
						       : &o->upstream_ca;

	return take_path(field, value, err);
}

static int take_domain(
	struct serve_options *o, const char *name, const char *value, struct err *err)
{
	(void)name;
	if (!*value || strlen(value) > 253 ||
		value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789.-:")] != '\0')
		return err_set(err, EINVAL,
			"accepted: a host name in lower case, with :PORT if it is not 443");
	free(o->domain);
	o->domain = mem_strdup(value);
	return 0;
}

static int take_switch(
	struct serve_options *o, const char *name, const char *value, struct err *err)
{
	bool is_on = strcmp(value, "true") == 0;

	if (!is_on && strcmp(value, "false") != 0)
		return err_set(err, EINVAL, "accepted: true, false");
	if (strcmp(name, "kill-on-exit") == 0)
		o->kill_on_exit = is_on;
	else if (strcmp(name, "webhooks-private") == 0)
		o->webhooks_private = is_on;
	else
		o->json_log = is_on;
	return 0;
}

static int take_time(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	uint64_t ms = 0;
	int r = text_parse_duration(value, name, &ms, err);

	if (r < 0)
		return r;
	if (ms < 1000)
		return err_set(err, EINVAL, "at least one second");
	*(strcmp(name, "ttl") == 0 ? &o->ttl_ms : &o->ttl_max_ms) = ms;
	return 0;
}

static int take_size(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	uint64_t bytes = 0;
	int r = text_parse_size(value, name, &bytes, err);

	if (r < 0)
		return r;
	if (bytes < (UINT64_C(1) << 20))
		return err_set(err, EINVAL, "at least 1M");
	*(name[0] == 'm' ? &o->memory : &o->disk) = bytes;
	return 0;
}

static int take_count(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	uint64_t *field = strcmp(name, "pids") == 0         ? &o->pids
			  : strcmp(name, "open-files") == 0 ? &o->open_files
							    : &o->sandboxes;

	return text_parse_u64(value, name, 1, 1000000, field, err);
}

static int take_spares(
	struct serve_options *o, const char *name, const char *value, struct err *err)
{
	return text_parse_u64(value, name, 0, 64, &o->spares, err);
}

static int take_cpus(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	/* A number of seconds in milliseconds is a number in thousandths. */
	if (!*value || value[strspn(value, "0123456789.")] != '\0' ||
		text_parse_duration(value, name, &o->cpu_milli, err) < 0 || o->cpu_milli < 10)
		return err_set(err, EINVAL, "accepted: a number such as 2 or 0.5");
	return 0;
}

/* A profile is a name, or a file if there is a slash in it. */
static int take_profile(
	struct serve_options *o, const char *name, const char *value, struct err *err)
{
	char **field = strcmp(name, "profile") == 0 ? &o->profile : &o->floor;

	if (strchr(value, '/'))
		return take_path(field, value, err);
	if (!*value || strlen(value) > 63)
		return err_set(err, EINVAL, "accepted: the name of a profile, or a file");
	free(*field);
	*field = mem_strdup(value);
	return 0;
}

static int take_road(struct serve_options *o, const char *name, const char *value, struct err *err)
{
	char **field = strcmp(name, "resolver") == 0   ? &o->resolver
		       : strcmp(name, "no-proxy") == 0 ? &o->no_proxy
						       : &o->upstream_proxy;

	if (strlen(value) > 1000)
		return err_set(err, E2BIG, "at most 1000 characters");
	if (field == &o->upstream_proxy && *value && !text_starts(value, "http://") &&
		!text_starts(value, "https://") && !text_starts(value, "socks5://"))
		return err_set(err, EINVAL, "accepted: http://… or socks5://…");
	free(*field);
	*field = *value ? mem_strdup(value) : NULL;
	return 0;
}

static const struct setting settings[] = {
	{NULL, NULL, "Where", NULL},
	{"listen", "ADDR:PORT",
		"serve HTTP here; may be given again; [ADDR]:PORT for IPv6, unix:PATH for\n"
		"a socket file (" SERVE_LISTEN_HERE ", or what systemd passes)",
		take_listen},
	{"domain", "NAME", "what clients put behind PORT-ID. to reach a port inside", take_domain},
	{"tls-cert", "FILE", "certificate chain, PEM: serve HTTPS on the TCP addresses", take_file},
	{"tls-key", "FILE", "its private key, PEM", take_file},
	{"state", "DIR",
		"where everything is kept (/var/lib/bawn, or the user's own state\n"
		"directory)",
		take_file},
	{NULL, NULL, "Sandboxes", NULL},
	{"ttl", "TIME", "how long one lives unless it says (5m)", take_time},
	{"ttl-max", "TIME", "the most it may ask for (24h)", take_time},
	{"memory", "SIZE", "memory of each (512M)", take_size},
	{"disk", "SIZE", "what each may store (1G)", take_size},
	{"pids", "N", "processes and threads of each (1024)", take_count},
	{"cpus", "N", "processors of each, such as 1.5 (2)", take_cpus},
	{"open-files", "N", "open files per process (65536)", take_count},
	{"max-sandboxes", "N", "running at once (2000)", take_count},
	{"spares", "N", "kept up for whoever asks next (2; 0: none)", take_spares},
	{NULL, NULL, "The road out", NULL},
	{"profile", "NAME", "what a sandbox may reach unless it says (locked: nothing)",
		take_profile},
	{"floor", "FILE", "what no sandbox may go beyond, whatever its profile says", take_profile},
	{"resolver", "LIST", "who looks names up, such as 10.0.0.2,[::1]:5353 (the system's)",
		take_road},
	{"upstream-proxy", "URL",
		"go through this proxy: http://[USER:PASSWORD@]HOST:PORT or socks5://…; with\n"
		"a password put it into the config file",
		take_road},
	{"no-proxy", "LIST", "reach these names and networks without it", take_road},
	{"upstream-ca", "FILE", "roots to verify servers by, instead of the system's", take_file},
	{NULL, NULL, "How", NULL},
	{"kill-on-exit", NULL, "end all sandboxes with the server; by default they stay up",
		take_switch},
	{"webhooks-private", NULL, "let webhooks go to private and local addresses too",
		take_switch},
	{"json-log", NULL, "log lines as JSON, not key=value", take_switch},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const struct setting *find(const char *key)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		if (settings[i].name && strcmp(settings[i].name, key) == 0)
			return &settings[i];
	}
	return NULL;
}

static int unknown(const char *what, const char *dashes, const char *key, struct err *err)
{
	const char *names[SETTINGS + 2];
	const char *near;
	char quoted[64];
	size_t n = 0;

	for (size_t i = 0; i < SETTINGS; i++) {
		if (settings[i].name)
			names[n++] = settings[i].name;
	}
	if (*dashes)
		names[n++] = "config"; /* a file does not name another */
	near = text_closest(key, names, n);
	(void)text_quote(key, quoted, sizeof(quoted));
	if (near)
		return err_set(err, EINVAL, "unknown %s '%s%s'; did you mean '%s%s'?", what, dashes,
			quoted, dashes, near);
	return err_set(err, EINVAL, "unknown %s '%s%s'; 'bawn serve --help' lists them", what,
		dashes, quoted);
}

int serve_option_set(struct serve_options *o, const char *key, const char *value, struct err *err)
{
	const struct setting *s = find(key);

	if (!s)
		return unknown("field", "", key, err);
	return s->take(o, s->name, value, err) < 0 ? err_wrap(err, "%s", s->name) : 0;
}

static int read_config(struct serve_options *o, struct err *err)
{
	const size_t room = SERVE_CONFIG_MAX + 1; /* one more, to notice what is too long */
	AUTO_FREE char *yaml = (char *)mem_must(malloc(room));
	AUTO_FD int fd = open(o->config, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char quoted[200];
	struct stat st;
	size_t n = 0;

	(void)text_quote(o->config, quoted, sizeof(quoted));
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "--config: open '%s'", quoted);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "--config: '%s' is not a regular file", quoted);
	while (n < room) {
		ssize_t k = read(fd, yaml + n, room - n);

		if (k < 0)
			return err_sys(err, "--config: read '%s'", quoted);
		if (k == 0)
			break;
		n += (size_t)k;
	}
	return serve_config_parse(yaml, n, quoted, o, err);
}

/* The option at argv[*at] as name and value; moves *at past both. */
static int split(
	int argc, char **argv, int *at, char **ret_name, const char **ret_value, struct err *err)
{
	const char *word = argv[*at];
	size_t size = strcspn(word, "=");
	AUTO_FREE char *name = NULL;
	const struct setting *s;
	char quoted[64];

	if (!text_starts(word, "--"))
		return err_set(err, EINVAL,
			"unexpected '%s'; 'bawn serve --help' lists the options",
			text_quote(word, quoted, sizeof(quoted)));
	name = (char *)mem_must(strndup(word + 2, size > 2 ? size - 2 : 0));
	s = find(name);
	if (!s && strcmp(name, "config") != 0)
		return unknown("option", "--", name, err);
	(*at)++;
	if (s && !s->arg) {
		if (word[size] == '=')
			return err_set(err, EINVAL, "--%s takes no value", name);
		*ret_value = "true";
	} else if (word[size] == '=') {
		*ret_value = word + size + 1;
	} else if (*at < argc) {
		*ret_value = argv[(*at)++];
	} else {
		return err_set(err, EINVAL, "--%s needs a value: --%s %s", name, name,
			s ? s->arg : "FILE");
	}
	*ret_name = TAKE_PTR(name);
	return 0;
}

/* One walk over argv: the first for --config alone, the second for the rest. */
static int walk(int argc, char **argv, bool is_config, struct serve_options *o, struct err *err)
{
	int at = 1;

	while (at < argc) {
		AUTO_FREE char *name = NULL;
		const char *value = NULL;
		int r = split(argc, argv, &at, &name, &value, err);

		if (r < 0 || !name)
			return r;
		if (strcmp(name, "config") == 0) {
			if (is_config && take_path(&o->config, value, err) < 0)
				return err_wrap(err, "--config");
		} else if (!is_config && serve_option_set(o, name, value, err) < 0) {
			return err_wrap(err, "option");
		}
	}
	return 0;
}

static int settle(struct serve_options *o, struct err *err)
{
	if (!o->tls_cert != !o->tls_key)
		return err_set(err, EINVAL, "--tls-cert and --tls-key go together");
	if (o->ttl_ms > o->ttl_max_ms)
		return err_set(err, EINVAL, "ttl is above ttl-max");
	return o->state ? 0 : state_dir(&o->state, err);
}

int serve_options_parse(int argc, char **argv, struct serve_options *ret, struct err *err)
{
	int r;

	*ret = (struct serve_options){
		.ttl_ms = 300 * 1000,
		.ttl_max_ms = UINT64_C(24) * 3600 * 1000,
		.memory = UINT64_C(512) << 20,
		.disk = UINT64_C(1) << 30,
		.pids = 1024,
		.cpu_milli = 2000,
		.open_files = 65536,
		.spares = 2,
		.sandboxes = 2000,
	};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			ret->want_help = true;
			return 0;
		}
	}
	r = walk(argc, argv, true, ret, err);
	if (r >= 0 && ret->config)
		r = read_config(ret, err);
	if (r >= 0) {
		struct strv of_file = ret->listen;
		bool was_given = ret->is_listen_given;

		/* Addresses on the command line replace those of the file, not add to them. */
		ret->listen = (struct strv){0};
		ret->is_listen_given = false;
		r = walk(argc, argv, false, ret, err);
		if (r >= 0 && !ret->is_listen_given) {
			strv_done(&ret->listen);
			ret->listen = of_file;
			ret->is_listen_given = was_given;
		} else {
			strv_done(&of_file);
		}
	}
	return r < 0 ? r : settle(ret, err);
}

void serve_options_done(struct serve_options *o)
{
	strv_done(&o->listen);
	free(o->config);
	free(o->state);
	free(o->domain);
	free(o->tls_cert);
	free(o->tls_key);
	free(o->profile);
	free(o->floor);
	free(o->resolver);
	free(o->upstream_ca);
	free(o->upstream_proxy);
	free(o->no_proxy);
	*o = (struct serve_options){0};
}

void serve_options_help(FILE *out)
{
	(void)fputs("bawn serve - run the server that the E2B SDKs, curl and bawn itself talk to\n"
		    "\n"
		    "  bawn serve [--config FILE] [options]\n",
		out);
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		AUTO_FREE char *left = NULL;
		const char *text = s->help;

		if (!s->name) {
			(void)fprintf(out, "\n%s\n", s->help);
			continue;
		}
		left = text_format("--%s%s%s", s->name, s->arg ? " " : "", s->arg ? s->arg : "");
		(void)fprintf(out, "  %-19s ", left);
		for (; strchr(text, '\n'); text = strchr(text, '\n') + 1)
			(void)fprintf(out, "%.*s\n%22s", (int)strcspn(text, "\n"), text, "");
		(void)fprintf(out, "%s\n", text);
	}
	(void)fputs(
		"  --config FILE       take all this from a YAML file, 'option: value' a line;\n"
		"                      options override it\n"
		"\n"
		"Make a key with 'bawn key create'. SIGTERM stops the server and leaves the\n"
		"sandboxes running; SIGHUP reads the file again. More: bawn-serve(1).\n",
		out);
}
