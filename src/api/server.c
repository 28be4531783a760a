/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The one way in: every request is sent to the data plane of a sandbox or to a route, by itself.
 *
 *   E2b-Sandbox-Id (and -Port)     the sandbox: its guest API on 49983, else a port inside
 *   Host <port>-<id>.…             the same
 *   /files?signature=…             the sandbox whose token signed it
 *   /files, /health with a token   the sandbox whose token it is: the JavaScript SDK 2.7.0 names
 *                                  the sandbox on RPCs only
 *   else                           the E2B dialect, /v1, /health, /metrics, /openapi.json
 */
#include "api/api.h"

#include "api/auth.h"
#include "api/e2b/signature.h"
#include "api/egress.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "api/usage.h"
#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>

#define ENVD_PORT 49983

static void health(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)a, (void)m;
	http_reply(r, 204, NULL, NULL, 0);
}

static void openapi(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)a;
	(void)m;
	http_reply(r, 200, "application/json", openapi_blob, openapi_blob_size);
}

const struct route own_routes[] = {
	{"GET", "/health", health, ROUTE_PUBLIC, "Is the server up and reconciled?"},
	{"GET", "/metrics", metrics_handle, ROUTE_PUBLIC, "Counters for Prometheus"},
	{"GET", "/openapi.json", openapi, ROUTE_PUBLIC, "This document"},
	{0},
};

static void to_sandbox(struct api *a, struct http_request *r, const char *id, unsigned port)
{
	struct sandbox *sb = sandbox_by_id(a, id);

	if (port == ENVD_PORT)
		envd_handle(a, r, sb, id);
	else
		gateway_handle(a, r, sb, id, port);
}

static void by_header(struct api *a, struct http_request *r, struct h1_text value)
{
	const struct h1_field *f = h1_find(&r->head, "E2b-Sandbox-Port");
	unsigned port = ENVD_PORT;
	char id[SANDBOX_ID_MAX];

	if (f && !api_parse_port(f->value, &port)) {
		api_reply_error(r, 400, "invalid", NULL, "E2b-Sandbox-Port is not a port");
		return;
	}
	/* What cannot be an id is as unknown as what is not one. */
	if (!api_parse_id(value, id))
		(void)snprintf(id, sizeof(id), "unknown");
	to_sandbox(a, r, id, port);
}

/* The sandbox whose token made this signature. Looks at all of them, whichever it is. */
static struct sandbox *signer(struct api *a, struct http_request *r)
{
	struct signature_claim claim;
	struct sandbox *found = NULL;
	const char *operation = h1_is(r->head.method, "GET") ? "read" : "write";

	if (!signature_claim_get(r->query, &claim) || !claim.has_signature)
		return NULL;
	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next)
		if (sb->row.state == SANDBOX_RUNNING && sb->row.token[0] &&
			signature_matches(&claim, operation, sb->row.token))
			found = sb;
	return found;
}

static bool is_signed_file(const struct http_request *r)
{
	struct h1_text v;

	return h1_is(r->path, "/files") && h1_query(r->query, "signature", &v);
}

static void by_signature(struct api *a, struct http_request *r)
{
	struct sandbox *sb = signer(a, r);
	unsigned wait = 0;

	if (sb) {
		envd_handle(a, r, sb, sb->row.id);
		return;
	}
	wait = api_keys_failed(a->keys, r->peer, loop_now_ms(a->loop));
	if (wait > 0)
		http_field(r, "Retry-After", "2");
	api_reply_error(r, wait > 0 ? 429 : 401, "unauthenticated", NULL, "invalid signature");
}

static bool has_token_alone(const struct http_request *r, struct h1_text *ret)
{
	const struct h1_field *f = h1_find(&r->head, "X-Access-Token");

	if (!f || !(h1_is(r->path, "/files") || h1_is(r->path, "/health")))
		return false;
	*ret = f->value;
	return true;
}

static void by_token(struct api *a, struct http_request *r, struct h1_text token)
{
	struct sandbox *found = NULL;

	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next)
		if (sb->row.state == SANDBOX_RUNNING && sb->row.token[0] &&
			signature_token_is(sb->row.token, token))
			found = sb;
	/* A token of nobody is one of a sandbox that has ended, as far as anyone can tell. */
	envd_handle(a, r, found, found ? found->row.id : "unknown");
}

static void by_route(struct api *a, struct http_request *r)
{
	static const struct route *const tables[] = {own_routes, e2b_routes, v1_routes};
	struct route_match m = {0};
	char allow[128] = "";
	int verdict = 404;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		int v = route_find(tables[i], r->head.method, r->path, &m, allow, sizeof(allow));

		if (v == 404)
			continue;
		verdict = v;
		if (v != 405)
			break;
	}
	switch (verdict) {
	case 0:
		if (!(m.route->flags & ROUTE_PUBLIC) && api_authenticate(a, r, &m.caller) != 0)
			return;
		m.route->handle(a, r, &m);
		return;
	case 405:
		http_field(r, "Allow", allow);
		api_reply_error(r, 405, "method_not_allowed", NULL, "this path takes %s", allow);
		return;
	case 400: api_reply_error(r, 400, "invalid", NULL, "the path holds a bad escape"); return;
	default: api_reply_error(r, 404, "not_found", "see /openapi.json", "no such path");
	}
}

void api_handle(struct http_request *r, void *api)
{
	struct api *a = api;
	const struct h1_field *f = h1_find(&r->head, "E2b-Sandbox-Id");
	char id[SANDBOX_ID_MAX];
	struct h1_text token;
	unsigned port;

	/* Before rows and kernel agree nothing true can be said of any sandbox: "502, it is dead"
	 * would be a lie. */
	if (!a->is_ready && !h1_is(r->path, "/metrics")) {
		http_field(r, "Retry-After", "1");
		api_reply_error(r, 503, "starting", NULL, "the server is starting; try again");
		return;
	}
	if (f)
		by_header(a, r, f->value);
	else if (api_host_split(r->host, &port, id))
		to_sandbox(a, r, id, port);
	else if (is_signed_file(r))
		by_signature(a, r);
	else if (has_token_alone(r, &token))
		by_token(a, r, token);
	else
		by_route(a, r);
}

/* What came by the local socket says so in its peer's name; nothing else can look like it. */
static void handle_local(struct http_request *r, void *api)
{
	static const char from[] = "unix:";
	char uid[32];

	if (text_starts(r->peer, from)) {
		(void)snprintf(
			uid, sizeof(uid), "%.*s", (int)sizeof(uid) - 1, r->peer + sizeof(from) - 1);
		(void)snprintf(r->peer, sizeof(r->peer), API_LOCAL_PEER "%s", uid);
	}
	api_handle(r, api);
}

static void answered(const struct http_request *r, void *arg)
{
	struct api *a = arg;

	metrics_request(a, r);
	if (a->config.access)
		a->config.access(r);
}

static void warden_connected(void *arg)
{
	sandbox_reconcile(arg);
}

static void warden_lost(void *arg)
{
	(void)arg;
	api_log("warn", "", "the warden is gone; waiting for it to come back");
}

static void warden_ended(const char *id, const char *reason, void *arg)
{
	struct sandbox *sb = sandbox_by_id(arg, id);

	if (sb)
		sandbox_kill(sb, "guest",
			strcmp(reason, "oom") == 0 ? SANDBOX_OOM : SANDBOX_GUEST_GONE, NULL, NULL);
}

static const struct warden_client_events warden_events = {
	.connected = warden_connected,
	.lost = warden_lost,
	.ended = warden_ended,
};

static int read_boot_id(char out[40], struct err *err)
{
	AUTO_FD int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_sys(err, "open the boot id");
	n = read(fd, out, 39);
	if (n < 36)
		return err_set(err, EIO, "read the boot id");
	out[36] = '\0';
	return 0;
}

static int open_all(struct api *a, struct err *err)
{
	AUTO_FREE char *db = text_format("%s/db", a->config.state);
	AUTO_FREE char *socket = warden_socket(a->config.state);
	int r = read_boot_id(a->boot_id, err);

	if (r == 0)
		r = store_open(db, &a->store, err);
	if (r == 0)
		r = sandboxes_create(a, err);
	if (r == 0)
		r = api_egress_create(a, err);
	if (r == 0)
		r = v1_create(a, err);
	if (r == 0)
		r = http_server_create(a->loop, api_handle, a, &a->http, err);
	if (r == 0)
		r = http_server_create(a->loop, handle_local, a, &a->local, err);
	if (r == 0)
		r = warden_client_create(a->loop, socket, &warden_events, a, &a->warden, err);
	return r;
}

int api_create(struct loop *l, const struct api_config *c, struct api **ret, struct err *err)
{
	AUTO(api_free) struct api *a = MEM_NEW(struct api);
	int r;

	a->loop = l;
	a->config = *c;
	a->keys = api_keys_create();
	a->counters = metrics_create();
	r = open_all(a, err);
	if (r < 0)
		return r;
	http_set_log(a->http, answered);
	http_set_log(a->local, answered);
	usage_start(a);
	*ret = TAKE_PTR(a);
	return 0;
}

struct api *api_free(struct api *a)
{
	struct err ignored = {0};

	if (!a)
		return NULL;
	a->http = http_server_free(a->http);
	a->local = http_server_free(a->local);
	a->warden = warden_client_free(a->warden);
	api_egress_free(a);
	/* What was asked is answered with "lost" behind the batch, by callbacks that need us. */
	(void)loop_once(a->loop, 0, &ignored);
	v1_free(a);
	sandboxes_free(a);
	a->store = store_close(a->store);
	a->keys = api_keys_free(a->keys);
	a->counters = metrics_free(a->counters);
	free(a);
	return NULL;
}
