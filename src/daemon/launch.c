/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/launch.h"

#include "base/mem.h"
#include "core/profile_load.h"
#include "core/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEM_MAX (1 << 20)

static int make_env(struct launch *l, struct err *err)
{
	/* What a role may need from whoever started us; nothing else goes on. */
	static const char *const kept[] = {"PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"ASAN_OPTIONS", "UBSAN_OPTIONS"};
	AUTO_FREE char *state = text_format("BAWN_STATE_DIR=%s", l->options.state);
	/* The store may need room beside its file, and the role may write nowhere else. */
	AUTO_FREE char *tmp = text_format("SQLITE_TMPDIR=%s/db", l->options.state);
	int r = strv_add(&l->env, state, err);

	if (r >= 0)
		r = strv_add(&l->env, tmp, err);
	for (size_t i = 0; r >= 0 && i < sizeof(kept) / sizeof(kept[0]); i++) {
		const char *value = getenv(kept[i]);
		AUTO_FREE char *pair = value ? text_format("%s=%s", kept[i], value) : NULL;

		if (pair)
			r = strv_add(&l->env, pair, err);
	}
	return r;
}

/* A text for a role, sealed: nothing can change under the reader. */
static int text_fd(const char *name, const char *text, struct err *err)
{
	AUTO_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t n = strlen(text);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) <
			0)
		return err_sys(err, "%s", name);
	return TAKE_FD(fd);
}

static int policy_fd(const struct policy *p, struct err *err)
{
	AUTO_FREE char *json = policy_to_json(p);

	return text_fd("bawn-policy", json, err);
}

/*
 * By us, who may read the operator's files: a slip of the pen is told at once, and nothing
 * starts.
 */
static int read_profile(const char *what, int *ret, struct err *err)
{
	const struct profile_source source = {.cwd = "/"};
	struct profile_places places;
	struct profile profile = {0};
	int r;

	profile_places_find(geteuid() == 0 ? NULL : getenv("HOME"), &places);
	r = profile_load(what, &places, &source, NULL, &profile, err);
	profile_places_done(&places);
	if (r >= 0)
		r = policy_fd(profile.policy, err);
	if (r >= 0)
		*ret = r;
	profile_done(&profile);
	return r < 0 ? err_wrap(err, "--profile") : 0;
}

static int read_floor(const char *file, int *ret, struct err *err)
{
	AUTO(policy_unref) struct policy *floor = NULL;
	int r = profile_load_floor(file ? file : PROFILE_FLOOR_FILE, &floor, err);

	if (r == -ENOENT && !file) {
		*err = (struct err){0};
		return 0; /* no operator's floor on this machine */
	}
	if (r >= 0)
		r = policy_fd(floor, err);
	if (r >= 0)
		*ret = r;
	return r < 0 ? err_wrap(err, "--floor") : 0;
}

static int read_policies(
	const struct serve_options *o, int *ret_policy, int *ret_floor, struct err *err)
{
	AUTO_FD int policy = -EBADF;
	int r = o->profile ? read_profile(o->profile, &policy, err) : 0;

	if (r >= 0)
		r = read_floor(o->floor, ret_floor, err);
	if (r >= 0)
		*ret_policy = TAKE_FD(policy);
	return r;
}

int launch_init(struct launch *l, struct err *err)
{
	int r = programs_bawnd(&l->bawnd, err);

	l->cert = l->key = l->policy = l->floor = -EBADF;
	l->local.fd = l->warden.fd = l->egress.fd = -EBADF;
	l->ids = state_api_ids();
	l->egress_ids = state_egress_ids();
	if (r >= 0)
		r = read_policies(&l->options, &l->policy, &l->floor, err);
	return r < 0 ? r : make_env(l, err);
}

/* A sealed copy in memory of a file that only we may read: nothing can change under the reader. */
static int copy_pem(const char *path, const char *option, int *ret, struct err *err)
{
	AUTO_FD int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO_FD int to = -EBADF;
	char part[4096];
	size_t total = 0;
	ssize_t n;

	if (from < 0)
		return err_sys(err, "--%s: open '%s'", option, path);
	to = memfd_create("bawn-pem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0)
		return err_sys(err, "memfd_create");
	while ((n = read(from, part, sizeof(part))) > 0) {
		total += (size_t)n;
		if (total > PEM_MAX)
			return err_set(err, E2BIG, "--%s: '%s' is too long", option, path);
		if (write(to, part, (size_t)n) != n)
			return err_sys(err, "--%s: copy '%s'", option, path);
	}
	if (n < 0)
		return err_sys(err, "--%s: read '%s'", option, path);
	if (fcntl(to, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return err_sys(err, "--%s: seal the copy", option);
	*ret = TAKE_FD(to);
	return 0;
}

static int read_tls(const struct serve_options *o, int *ret_cert, int *ret_key, struct err *err)
{
	AUTO_FD int cert = -EBADF;
	int r;

	if (!o->tls_cert)
		return 0;
	r = copy_pem(o->tls_cert, "tls-cert", &cert, err);
	if (r >= 0)
		r = copy_pem(o->tls_key, "tls-key", ret_key, err);
	if (r >= 0)
		*ret_cert = TAKE_FD(cert);
	return r;
}

static int open_all(struct launch *l, struct err *err)
{
	bool is_tls = l->options.tls_cert != NULL;
	int r = listener_inherited(l->listeners, SERVE_LISTEN_MAX, is_tls, err);

	if (r < 0)
		return r;
	l->listeners_n = (size_t)r;
	if (!l->options.is_listen_given && l->listeners_n == 0) {
		r = strv_add(&l->options.listen, SERVE_LISTEN_HERE, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < l->options.listen.n; i++) {
		r = listener_open(
			l->options.listen.v[i], is_tls, &l->listeners[l->listeners_n], err);
		if (r < 0)
			return r;
		l->listeners_n++;
	}
	return 0;
}

int launch_listen(struct launch *l, struct err *err)
{
	AUTO_FREE char *local = text_format("%s/run/api.sock", l->options.state);
	AUTO_FREE char *warden = text_format("%s/run/warden.sock", l->options.state);
	AUTO_FREE char *egress = text_format("%s/run/egress.sock", l->options.state);
	const gid_t nobody = (gid_t)-1;
	bool is_alone = l->egress_ids.uid == l->ids.uid;
	int r = open_all(l, err);

	if (r >= 0)
		r = listener_private(local, SOCK_STREAM, geteuid(), nobody, &l->local, err);
	/*
	 * Only the api role may ask the warden; the egress role, which it knows, for roads
	 * alone.
	 */
	if (r >= 0)
		r = listener_private(warden, SOCK_SEQPACKET, l->ids.uid,
			is_alone ? nobody : l->egress_ids.gid, &l->warden, err);
	/* Only the api role says what boxes may do. */
	if (r >= 0)
		r = listener_private(egress, SOCK_STREAM, l->ids.uid, nobody, &l->egress, err);
	return r < 0 ? r : read_tls(&l->options, &l->cert, &l->key, err);
}

/* The old listener for an address that stays; it is emptied at its old place. */
static bool take_old(struct launch *l, const char *spec, bool is_same_kind, struct listener *ret)
{
	for (size_t i = 0; i < l->listeners_n; i++) {
		struct listener *have = &l->listeners[i];

		if (!have->spec || strcmp(have->spec, spec) != 0 ||
			(!have->is_unix && !is_same_kind))
			continue;
		*ret = *have;
		*have = (struct listener){.fd = -EBADF};
		return true;
	}
	return false;
}

static int move_listeners(struct launch *l, struct serve_options *fresh, struct err *err)
{
	struct listener made[LAUNCH_LISTENERS_MAX];
	bool is_tls = fresh->tls_cert != NULL;
	bool is_same_kind = is_tls == (l->options.tls_cert != NULL);
	size_t n = 0;
	int r = 0;

	while (take_old(l, "systemd", true, &made[n]))
		n++;
	if (!fresh->is_listen_given && n == 0)
		r = strv_add(&fresh->listen, SERVE_LISTEN_HERE, err);
	for (size_t i = 0; r >= 0 && i < fresh->listen.n; i++) {
		const char *spec = fresh->listen.v[i];

		if (take_old(l, spec, is_same_kind, &made[n])) {
			n++;
			continue;
		}
		/* http becomes https at the same address: the old socket leaves first. */
		struct listener old = {.fd = -EBADF};

		if (take_old(l, spec, true, &old))
			listener_close(&old);
		r = listener_open(spec, is_tls, &made[n], err);
		n += r >= 0;
	}
	/* On failure the old ones that nobody took stay in service. */
	for (size_t i = 0; i < l->listeners_n; i++) {
		struct listener *old = &l->listeners[i];

		if (r < 0 && old->spec && n < LAUNCH_LISTENERS_MAX)
			made[n++] = *old;
		else if (old->spec)
			listener_close(old);
	}
	memcpy(l->listeners, made, n * sizeof(made[0]));
	l->listeners_n = n;
	return r;
}

static bool is_other(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) != 0 : a != b;
}

/* Does the egress role have to be started again for these? */
static bool is_other_egress(const struct serve_options *a, const struct serve_options *b)
{
	return is_other(a->resolver, b->resolver) || is_other(a->upstream_ca, b->upstream_ca) ||
	       is_other(a->upstream_proxy, b->upstream_proxy) || is_other(a->no_proxy, b->no_proxy);
}

int launch_reload(struct launch *l, int argc, char **argv, bool *ret_is_egress, struct err *err)
{
	struct serve_options fresh = {0};
	AUTO_FD int cert = -EBADF, key = -EBADF, policy = -EBADF, floor = -EBADF;
	int r = serve_options_parse(argc, argv, &fresh, err);

	if (r >= 0 && strcmp(fresh.state, l->options.state) != 0)
		r = err_set(err, EINVAL, "the state directory cannot change while serving");
	if (r >= 0)
		r = read_tls(&fresh, &cert, &key, err);
	if (r >= 0)
		r = read_policies(&fresh, &policy, &floor, err);
	if (r >= 0)
		r = move_listeners(l, &fresh, err);
	if (r < 0) {
		serve_options_done(&fresh);
		return r;
	}
	closep(&l->cert);
	closep(&l->key);
	l->cert = TAKE_FD(cert);
	l->key = TAKE_FD(key);
	closep(&l->policy);
	closep(&l->floor);
	l->policy = TAKE_FD(policy);
	l->floor = TAKE_FD(floor);
	*ret_is_egress = is_other_egress(&l->options, &fresh);
	serve_options_done(&l->options);
	l->options = fresh;
	return 0;
}

void launch_done(struct launch *l)
{
	for (size_t i = 0; i < l->listeners_n; i++)
		listener_close(&l->listeners[i]);
	listener_close(&l->local);
	listener_close(&l->warden);
	listener_close(&l->egress);
	closep(&l->cert);
	closep(&l->key);
	closep(&l->policy);
	closep(&l->floor);
	strv_done(&l->env);
	free(l->bawnd);
	serve_options_done(&l->options);
}

/* The words of a role's command line, and the descriptors they speak of. */
struct words {
	struct strv argv;
	int fds[ROLE_FDS_MAX];
	size_t fds_n;
	int r; /* the first failure */
	struct err *err;
};

static void word(struct words *w, const char *text)
{
	if (w->r >= 0)
		w->r = strv_add(&w->argv, text, w->err);
}

static void word_number(struct words *w, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	word(w, name);
	word(w, text);
}

static void word_fd(struct words *w, const char *name, int fd)
{
	if (w->fds_n >= ROLE_FDS_MAX)
		w->r = err_set(w->err, E2BIG, "too many descriptors for a role");
	if (w->r < 0)
		return;
	word_number(w, name, 3 + w->fds_n);
	w->fds[w->fds_n++] = fd;
}

static void api_words(const struct launch *l, struct words *w)
{
	const struct serve_options *o = &l->options;

	word(w, "bawnd");
	word(w, "role-api");
	word(w, "--state");
	word(w, o->state);
	for (size_t i = 0; i < l->listeners_n; i++)
		word_fd(w, o->tls_cert && !l->listeners[i].is_unix ? "--https" : "--http",
			l->listeners[i].fd);
	word_fd(w, "--local", l->local.fd);
	if (l->cert >= 0) {
		word_fd(w, "--cert", l->cert);
		word_fd(w, "--key", l->key);
	}
	if (l->policy >= 0)
		word_fd(w, "--policy", l->policy);
	if (l->floor >= 0)
		word_fd(w, "--floor", l->floor);
	if (o->domain) {
		word(w, "--domain");
		word(w, o->domain);
	}
	word_number(w, "--ttl", o->ttl_ms);
	word_number(w, "--ttl-max", o->ttl_max_ms);
	word_number(w, "--memory", o->memory);
	word_number(w, "--disk", o->disk);
	word_number(w, "--pids", o->pids);
	word_number(w, "--cpu-milli", o->cpu_milli);
	word_number(w, "--open-files", o->open_files);
	word_number(w, "--sandboxes", o->sandboxes);
	if (o->kill_on_exit)
		word(w, "--kill-on-exit");
	if (o->webhooks_private)
		word(w, "--webhooks-private");
	if (o->json_log)
		word(w, "--json-log");
}

static pid_t start(const struct launch *l, struct words *w, const char *path,
	const struct state_ids *ids, struct err *err)
{
	AUTO_FD int program = -EBADF;
	pid_t pid = w->r;

	if (pid >= 0) {
		program = open(path, O_PATH | O_CLOEXEC);
		pid = program < 0 ? err_sys(err, "open '%s'", path) : 0;
	}
	if (pid >= 0)
		pid = role_start(&(struct role_launch){.program = program,
					 .argv = w->argv.v,
					 .env = l->env.v,
					 .fds = w->fds,
					 .fds_n = w->fds_n,
					 .ids = ids},
			err);
	strv_done(&w->argv);
	return pid;
}

pid_t launch_api(const struct launch *l, int *ret_ready, struct err *err)
{
	AUTO_FD int ours = -EBADF, theirs = -EBADF;
	struct words w = {.err = err};
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(err, "pipe");
	ours = ends[0];
	theirs = ends[1];
	api_words(l, &w);
	word_fd(&w, "--ready", theirs);
	pid = start(l, &w, l->bawnd, &l->ids, err);
	if (pid >= 0)
		*ret_ready = TAKE_FD(ours);
	return pid;
}

pid_t launch_warden(const struct launch *l, struct err *err)
{
	struct words w = {.err = err};

	word(&w, "bawn");
	word(&w, "role-warden");
	word(&w, "--state");
	word(&w, l->options.state);
	word_number(&w, "--api-uid", l->ids.uid);
	word_number(&w, "--egress-uid", l->egress_ids.uid);
	word_number(&w, "--spares", l->options.spares);
	if (l->options.json_log)
		word(&w, "--json-log");
	w.fds[w.fds_n++] = l->warden.fd;
	return start(l, &w, "/proc/self/exe", NULL, err);
}

static void word_text(struct words *w, const char *name, const char *text)
{
	if (!text)
		return;
	word(w, name);
	word(w, text);
}

static void egress_words(const struct launch *l, struct words *w)
{
	const struct serve_options *o = &l->options;
	AUTO_FREE char *ca = text_format("%s/ca", o->state);
	AUTO_FREE char *secrets = text_format("%s/secrets", o->state);

	word(w, "bawnd");
	word(w, "role-egress");
	word_text(w, "--ca", ca);
	word_text(w, "--secrets", secrets);
	word_text(w, "--upstream-ca", o->upstream_ca);
	word_text(w, "--resolver", o->resolver);
	word_text(w, "--no-proxy", o->no_proxy);
	if (o->json_log)
		word(w, "--json-log");
}

/* systemd shows a credential to us alone: the role gets it open. */
static int open_secrets_key(void)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	AUTO_FREE char *path = dir && *dir ? text_format("%s/bawn-secrets-key", dir) : NULL;

	return path ? open(path, O_RDONLY | O_CLOEXEC) : -EBADF;
}

pid_t launch_egress(const struct launch *l, int *ret_ready, struct err *err)
{
	AUTO_FREE char *warden = text_format("%s/run/warden.sock", l->options.state);
	AUTO_FD int ours = -EBADF, theirs = -EBADF, proxy = -EBADF;
	AUTO_FD int key = open_secrets_key();
	struct words w = {.err = err};
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(err, "pipe");
	ours = ends[0];
	theirs = ends[1];
	egress_words(l, &w);
	word_text(&w, "--warden", warden);
	word_fd(&w, "--control", l->egress.fd);
	word_fd(&w, "--ready", theirs);
	if (key >= 0)
		word_fd(&w, "--secrets-key-fd", key);
	if (l->options.upstream_proxy) {
		/* The URL may hold a password, and a command line is everybody's to read. */
		proxy = text_fd("bawn-proxy", l->options.upstream_proxy, err);
		if (proxy < 0) {
			strv_done(&w.argv);
			return proxy;
		}
		word_fd(&w, "--upstream-proxy-fd", proxy);
	}
	pid = start(l, &w, l->bawnd, &l->egress_ids, err);
	if (pid >= 0)
		*ret_ready = TAKE_FD(ours);
	return pid;
}

int launch_make_ca(const struct launch *l, struct err *err)
{
	struct words w = {.err = err};
	int status = 0;
	pid_t pid;

	egress_words(l, &w);
	word(&w, "--make-ca");
	pid = start(l, &w, l->bawnd, &l->egress_ids, err);
	if (pid < 0)
		return pid;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, "wait for the certificate authority");
	if (status != 0)
		return err_set(err, EIO, "the certificate authority in '%s/ca' cannot be made",
			l->options.state);
	return 0;
}

char *launch_addresses(const struct launch *l, const char *end)
{
	char *all = mem_strdup("");

	for (size_t i = 0; i < l->listeners_n; i++) {
		char *longer = text_format("%s%s%s", all, i ? end : "", l->listeners[i].url);

		free(all);
		all = longer;
	}
	return all;
}
