/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/api_main.h"

#include "api/api.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/profile_load.h"
#include "daemon/confine.h"
#include "daemon/log.h"
#include "egress/guard.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTEN_MAX      40
#define DRAIN_MS        5000
#define KILL_ALL_MS     55000 /* below the supervisor's patience */
#define READY_LOOK_MS   2
#define HEAP_SPARE      (4 << 20) /* bytes */
#define POLICY_TEXT_MAX (1 << 20)

struct role {
	struct loop *loop;
	struct api *api;
	struct api_config config;
	struct tls *tls;
	int plain[LISTEN_MAX], secure[LISTEN_MAX];
	size_t plain_n, secure_n;
	int local, cert, key, ready, policy, floor; /* descriptors; -1: not given */
	char *policy_text, *floor_text;
	struct profile_places places;
	bool json_log;
	bool is_draining;
	struct loop_timer ready_look; /* is the api ready? */
	struct loop_timer drain_end;
};

static struct role *self; /* for the callbacks that get no argument */

static int take_fd(int *fds, size_t *n, int fd, struct err *err)
{
	if (*n >= LISTEN_MAX)
		return err_set(err, E2BIG, "too many sockets");
	fds[(*n)++] = fd;
	return 0;
}

static int take_number(struct role *r, const char *name, uint64_t n, struct err *err)
{
	struct {
		const char *name;
		uint64_t *field;
	} const numbers[] = {
		{"--ttl", &r->config.ttl_default_ms},
		{"--ttl-max", &r->config.ttl_max_ms},
		{"--memory", &r->config.memory_max},
		{"--disk", &r->config.disk_max},
		{"--pids", &r->config.pids_max},
		{"--cpu-milli", &r->config.cpu_milli},
		{"--open-files", &r->config.open_files},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].field = n;
			return 0;
		}
	}
	if (n > INT32_MAX)
		return err_set(err, EINVAL, "%s: out of range", name);
	if (strcmp(name, "--http") == 0)
		return take_fd(r->plain, &r->plain_n, (int)n, err);
	if (strcmp(name, "--https") == 0)
		return take_fd(r->secure, &r->secure_n, (int)n, err);
	if (strcmp(name, "--sandboxes") == 0)
		r->config.sandboxes_max = (unsigned)n;
	else if (strcmp(name, "--local") == 0)
		r->local = (int)n;
	else if (strcmp(name, "--cert") == 0)
		r->cert = (int)n;
	else if (strcmp(name, "--key") == 0)
		r->key = (int)n;
	else if (strcmp(name, "--ready") == 0)
		r->ready = (int)n;
	else if (strcmp(name, "--policy") == 0)
		r->policy = (int)n;
	else if (strcmp(name, "--floor") == 0)
		r->floor = (int)n;
	else
		return err_set(err, EINVAL, "unknown option '%s'", name);
	return 0;
}

static int parse(int argc, char **argv, struct role *r, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];
		uint64_t n = 0;
		int q;

		if (strcmp(name, "--kill-on-exit") == 0) {
			r->config.kill_on_exit = true;
			continue;
		}
		if (strcmp(name, "--webhooks-private") == 0) {
			r->config.webhooks_private = true;
			continue;
		}
		if (strcmp(name, "--json-log") == 0) {
			r->json_log = true;
			continue;
		}
		if (++i >= argc)
			return err_set(err, EINVAL, "%s needs a value", name);
		if (strcmp(name, "--state") == 0) {
			r->config.state = argv[i];
			continue;
		}
		if (strcmp(name, "--domain") == 0) {
			r->config.domain = argv[i];
			continue;
		}
		q = text_parse_u64(argv[i], name, 0, INT64_MAX, &n, err);
		if (q >= 0)
			q = take_number(r, name, n, err);
		if (q < 0)
			return q;
	}
	if (!r->config.state || r->ready < 0)
		return err_set(err, EINVAL, "role-api is started by 'bawn serve'");
	return 0;
}

static void log_to(const char *level, const char *request, const char *text)
{
	enum role_log_level l = strcmp(level, "error") == 0 ? ROLE_LOG_ERROR
				: level[0] == 'w'           ? ROLE_LOG_WARN
							    : ROLE_LOG_INFO;

	role_log(l, "message", "request", request && *request ? request : NULL, "text", text);
}

/* The query is left out: signed URLs carry their right there. */
static void log_request(const struct http_request *r)
{
	char status[16], took[24];
	AUTO_FREE char *path = NULL, *method = NULL;

	/* Traffic that works is counted in /metrics; logged is what somebody must look at. */
	if (r->status < 500 || r->status == 503)
		return; /* 503 is said while starting, and the client comes again */
	path = text_format("%.*s", (int)(r->path.n < 200 ? r->path.n : 200), r->path.p);
	method = text_format(
		"%.*s", (int)(r->head.method.n < 16 ? r->head.method.n : 16), r->head.method.p);
	(void)snprintf(status, sizeof(status), "%d", r->status);
	(void)snprintf(took, sizeof(took), "%" PRIu64, loop_now_ms(self->loop) - r->started_ms);
	role_log(ROLE_LOG_WARN, "request", "request", r->id, "peer", r->peer, "method", method,
		"path", path, "status", status, "ms", took);
}

static void look_ready(struct loop_timer *t)
{
	if (!self->api->is_ready) {
		loop_timer_set(self->loop, t, READY_LOOK_MS);
		return;
	}
	(void)write(self->ready, "r", 1);
	closep(&self->ready);
}

static void drained(void *arg)
{
	(void)arg;
	loop_stop(self->loop, 0);
}

static void drain_over(struct loop_timer *t)
{
	(void)t;
	loop_stop(self->loop, 0);
}

static void hear(int sig, void *arg)
{
	(void)arg;
	if (self->is_draining)
		return;
	self->is_draining = true;
	/* Replaced, not ended: whatever the option says, the sandboxes have a server. */
	if (sig == SIGHUP)
		self->api->config.kill_on_exit = false;
	self->drain_end.fire = drain_over;
	loop_timer_set(self->loop, &self->drain_end,
		self->api->config.kill_on_exit ? KILL_ALL_MS : DRAIN_MS);
	api_drain(self->api, drained, NULL);
}

static int listen_all(struct role *r, struct err *err)
{
	int q = 0;

	for (size_t i = 0; q >= 0 && i < r->plain_n; i++)
		q = http_listen(r->api->http, r->plain[i], NULL, err);
	for (size_t i = 0; q >= 0 && i < r->secure_n; i++)
		q = http_listen(r->api->http, r->secure[i], r->tls, err);
	if (q >= 0 && r->local >= 0)
		q = http_listen(r->api->local, r->local, NULL, err);
	return q;
}

static int load_tls(struct role *r, struct err *err)
{
	AUTO_FREE char *cert = text_format("/proc/self/fd/%d", r->cert);
	AUTO_FREE char *key = text_format("/proc/self/fd/%d", r->key);
	int q = r->cert < 0 ? 0 : tls_server(cert, key, &r->tls, err);

	closep(&r->cert);
	closep(&r->key);
	return q < 0 ? err_wrap(err, "--tls-cert, --tls-key") : 0;
}

/* What the supervisor wrote, whole. */
static int read_text(int *fd, char **ret, struct err *err)
{
	struct stat st;
	char *text;

	if (*fd < 0)
		return 0;
	if (fstat(*fd, &st) < 0 || st.st_size > POLICY_TEXT_MAX)
		return err_set(err, EINVAL, "a policy that is too long");
	text = mem_must(calloc(1, (size_t)st.st_size + 1));
	if (pread(*fd, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return err_set(err, EIO, "a policy cannot be read");
	}
	closep(fd);
	*ret = text;
	return 0;
}

static int read_policies(struct role *r, struct err *err)
{
	const char *home = getenv("HOME");
	int q = read_text(&r->policy, &r->policy_text, err);

	if (q >= 0)
		q = read_text(&r->floor, &r->floor_text, err);
	r->config.policy = r->policy_text;
	r->config.floor = r->floor_text;
	/* A role of another user has no home of its own. */
	profile_places_find(home && access(home, R_OK | X_OK) == 0 ? home : NULL, &r->places);
	r->config.places = &r->places;
	return q;
}

static int hear_signals(struct role *r, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	return loop_signals(r->loop, &set, hear, NULL, err);
}

static int start(struct role *r, struct err *err)
{
	bool has_landlock = false;
	int q = loop_create(&r->loop, err);

	if (q >= 0)
		q = hear_signals(r, err);
	if (q >= 0)
		q = load_tls(r, err);
	if (q >= 0)
		q = read_policies(r, err);
	if (q >= 0) {
		const char *const profiles[] = {r->places.user, r->places.site, r->places.shipped};

		q = confine_api(r->config.state, profiles, 3, &has_landlock, err);
	}
	if (q >= 0 && !has_landlock)
		role_log(ROLE_LOG_WARN, "confine", "missing", "landlock");
	/* From here on nothing is trusted: not the store, not the warden, not a client. */
	r->config.access = log_request;
	if (q >= 0)
		q = api_create(r->loop, &r->config, &r->api, err);
	if (q < 0)
		return q;
	r->ready_look.fire = look_ready;
	loop_timer_set(r->loop, &r->ready_look, 0);
	return listen_all(r, err);
}

int api_main(int argc, char **argv)
{
	struct role r = {
		.local = -1, .cert = -1, .key = -1, .ready = -1, .policy = -1, .floor = -1};
	struct err err = {0};
	int q = parse(argc, argv, &r, &err);

	self = &r;
	role_log_init("api", r.json_log);
	api_log_to = log_to;
	(void)prctl(PR_SET_NAME, "bawnd-api", 0, 0, 0);
	/* Else the heap's top goes back to the kernel, and is asked for again soon. */
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_SPARE);
	(void)mallopt(M_TOP_PAD, HEAP_SPARE / 4);
	guard_json(); /* secrets pass through on their way to be sealed */
	if (q >= 0)
		q = start(&r, &err);
	if (q >= 0)
		q = loop_run(r.loop, &err);
	if (q < 0)
		role_log(ROLE_LOG_ERROR, "failed", "error", err.msg);
	r.api = api_free(r.api);
	r.tls = tls_free(r.tls);
	r.loop = loop_free(r.loop);
	closep(&r.ready);
	profile_places_done(&r.places);
	free(r.policy_text);
	free(r.floor_text);
	return q < 0 ? 1 : 0;
}
