/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Delivery: for each webhook that is on, the next event it wants, one at a time.
 */
#include "api/v1/webhooks.h"
#include "base/mem.h"
#include "base/text.h"
#include "config.h"

#include <inttypes.h>
#include <string.h>

#define SCAN       500 /* events looked at per turn and webhook */
#define BACKOFF_MS 1000
#define RETRY_MAX  3600000
#define IN_FLIGHT  64

struct hook {
	struct store_webhook row;
	struct api *api;
	struct webhook_call *call; /* under way, or NULL */
	int64_t number;            /* of the event it carries */
	bool is_seen;              /* by this reload */
	struct hook *next;
};

struct webhooks {
	struct hook *first;
	struct tls *tls; /* made when the first https one is called */
	bool want_reload;
	unsigned in_flight;
};

static void hook_free(struct webhooks *ws, struct hook *h)
{
	if (h->call) {
		webhook_call_cancel(h->call);
		ws->in_flight--;
	}
	store_webhook_done(&h->row);
	free(h);
}

static void copy_row(struct store_webhook *to, const struct store_webhook *from)
{
	store_webhook_done(to);
	*to = *from;
	to->tenant = mem_strdup(from->tenant);
	to->url = mem_strdup(from->url);
	to->secret = mem_strdup(from->secret);
	to->actions = mem_strdup(from->actions);
}

static int take_row(const struct store_webhook *w, void *arg)
{
	struct api *a = arg;
	struct hook *h = a->v1->webhooks->first;

	while (h && h->row.id != w->id)
		h = h->next;
	if (!h) {
		h = MEM_NEW(struct hook);
		h->api = a;
		h->next = a->v1->webhooks->first;
		a->v1->webhooks->first = h;
	}
	copy_row(&h->row, w);
	h->is_seen = true;
	return 0;
}

static void reload(struct api *a)
{
	struct webhooks *ws = a->v1->webhooks;
	struct err err = {0};

	for (struct hook *h = ws->first; h; h = h->next)
		h->is_seen = false;
	if (store_webhook_each(a->store, NULL, take_row, a, &err) < 0) {
		api_log("error", "", "webhooks: %s", err.msg);
		return;
	}
	ws->want_reload = false;
	for (struct hook **p = &ws->first; *p;) {
		struct hook *h = *p;

		if (h->is_seen) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		hook_free(ws, h);
	}
}

/* ---- one delivery ---- */

static void save(struct hook *h)
{
	struct err err = {0};

	if (store_webhook_update(h->api->store, &h->row, &err) < 0)
		api_log("error", "", "webhook %" PRId64 ": %s", h->row.id, err.msg);
}

static void failed(struct hook *h, int status)
{
	uint64_t wait = BACKOFF_MS;

	for (int64_t i = 0; i < h->row.failures && wait < RETRY_MAX; i++)
		wait *= 2;
	h->row.failures++;
	h->row.retry_at_ms = api_now_unix_ms() + (int64_t)(wait < RETRY_MAX ? wait : RETRY_MAX);
	h->row.is_off = h->row.failures >= WEBHOOK_TRIES;
	api_log("warn", "", "webhook %" PRId64 ": event %" PRId64 " was not taken (%d)%s",
		h->row.id, h->number, status, h->row.is_off ? "; switched off" : "");
	save(h);
}

static void turn(struct hook *h);

static void answered(int status, void *arg)
{
	struct hook *h = arg;

	h->call = NULL;
	h->api->v1->webhooks->in_flight--;
	if (status < 200 || status > 299) {
		failed(h, status);
		return;
	}
	h->row.next = h->number;
	h->row.failures = 0;
	h->row.retry_at_ms = 0;
	save(h);
	turn(h);
}

static int call(struct hook *h, const struct store_event *e, struct err *err)
{
	struct webhooks *ws = h->api->v1->webhooks;
	json_t *o = v1_event_json(e);
	AUTO_FREE char *body = o ? json_dumps(o, JSON_COMPACT) : NULL;
	AUTO_FREE char *head = NULL;
	struct webhook_url u;
	char mac[65] = "";
	int64_t now = api_now_unix_ms() / 1000;
	int r = webhook_url_parse(h->row.url, &u, err);

	json_decref(o);
	if (r < 0 || !body)
		return r < 0 ? r : err_set(err, ENOMEM, "event");
	/* The operator may have changed the rule since it was made. */
	if (!h->api->config.webhooks_private &&
		webhook_is_private((const struct sockaddr *)&u.address))
		return err_set(err, EPERM, "a private address");
	if (u.is_https && !ws->tls)
		r = tls_client(NULL, &ws->tls, err);
	if (r < 0)
		return r;
	webhook_sign(h->row.secret, now, body, mac);
	head = text_format("POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\n"
			   "User-Agent: bawn/" BAWN_VERSION "\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\nBawn-Event: %s\r\n"
			   "Bawn-Event-Number: %" PRId64 "\r\n"
			   "Bawn-Signature: t=%" PRId64 ",v1=%s\r\n\r\n",
		u.path, u.address.ss_family == AF_INET6 ? "[" : "", u.host,
		u.address.ss_family == AF_INET6 ? "]" : "", u.port, strlen(body), e->action,
		e->number, now, mac);
	h->number = e->number;
	return webhook_call(h->api, &u, ws->tls, head, body, answered, h, &h->call, err);
}

struct scan {
	struct hook *h;
	struct err err;
	int r; /* of the call; 1: none was made */
};

static int consider(const struct store_event *e, void *arg)
{
	struct scan *s = arg;

	if (webhook_matches(s->h->row.actions, e->action)) {
		s->h->number = e->number;
		s->r = call(s->h, e, &s->err);
		return -ECANCELED;
	}
	/* Not wanted: passed over in memory; the next delivery writes it down. */
	s->h->row.next = e->number;
	return 0;
}

static void turn(struct hook *h)
{
	struct webhooks *ws = h->api->v1->webhooks;
	struct scan s = {.h = h, .r = 1};
	struct err err = {0};

	if (h->call || h->row.is_off || ws->in_flight >= IN_FLIGHT ||
		h->row.retry_at_ms > api_now_unix_ms())
		return;
	(void)store_event_each(
		h->api->store, h->row.tenant, NULL, h->row.next, SCAN, consider, &s, &err);
	if (s.r == 0)
		ws->in_flight++;
	if (s.r < 0) {
		api_log("warn", "", "webhook %" PRId64 ": %s", h->row.id, s.err.msg);
		failed(h, s.r);
	}
}

void v1_webhooks_tick(struct api *a)
{
	struct webhooks *ws = a->v1->webhooks;

	if (ws->want_reload)
		reload(a);
	for (struct hook *h = ws->first; h; h = h->next)
		turn(h);
}

void webhooks_reload(struct api *a)
{
	a->v1->webhooks->want_reload = true;
}

int v1_webhooks_create(struct api *a, struct err *err)
{
	(void)err;
	a->v1->webhooks = MEM_NEW(struct webhooks);
	a->v1->webhooks->want_reload = true;
	return 0;
}

void v1_webhooks_free(struct api *a)
{
	struct webhooks *ws = TAKE_PTR(a->v1->webhooks);

	while (ws && ws->first) {
		struct hook *h = ws->first;

		ws->first = h->next;
		hook_free(ws, h);
	}
	if (ws)
		ws->tls = tls_free(ws->tls);
	free(ws);
}
