/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Delivery: for each webhook that is on, the next event it wants, one at a time.
 */
#include "api/v1/dns.h"
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
	/* A delivery under way: first the address, then the call. */
	bool is_busy;
	struct dns_ask *asking;
	struct webhook_call *call;
	struct webhook_url url;
	char *head, *body;
	int64_t number; /* of the event it carries */
	bool is_seen;   /* by this reload */
	struct hook *next;
};

struct webhooks {
	struct hook *first;
	struct tls *tls; /* made when the first https one is called */
	bool want_reload;
	unsigned in_flight;
};

/* The delivery is over, however it went. */
static void idle(struct webhooks *ws, struct hook *h)
{
	if (!h->is_busy)
		return;
	h->is_busy = false;
	ws->in_flight--;
	free(TAKE_PTR(h->head));
	free(TAKE_PTR(h->body));
}

static void hook_free(struct webhooks *ws, struct hook *h)
{
	if (h->asking)
		dns_cancel(h->asking);
	if (h->call)
		webhook_call_cancel(h->call);
	idle(ws, h);
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

	if (store_webhook_progress(h->api->store, &h->row, &err) < 0)
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
	idle(h->api->v1->webhooks, h);
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

static void give_up(struct hook *h, const struct err *err)
{
	api_log("warn", "", "webhook %" PRId64 ": %s", h->row.id, err->msg);
	idle(h->api->v1->webhooks, h);
	failed(h, -err->code);
}

/* The address is known; it is judged here, and nothing is looked up behind this. */
static void dial(struct hook *h)
{
	struct webhooks *ws = h->api->v1->webhooks;
	struct err err = {0};
	int r = 0;

	if (!h->api->config.webhooks_private &&
		webhook_is_private((const struct sockaddr *)&h->url.address))
		r = err_set(&err, EPERM, "'%s' is a private address", h->url.host);
	if (r == 0 && h->url.is_https && !ws->tls)
		r = tls_client(NULL, &ws->tls, &err);
	if (r == 0)
		r = webhook_call(
			h->api, &h->url, ws->tls, h->head, h->body, answered, h, &h->call, &err);
	if (r < 0)
		give_up(h, &err);
}

static void found(int code, const struct dns_found *f, void *arg)
{
	struct hook *h = arg;
	struct err err = {0};
	size_t i = 0;

	h->asking = NULL;
	if (code < 0) {
		(void)err_set(&err, -code, "'%s' cannot be looked up", h->url.host);
		give_up(h, &err);
		return;
	}
	/* A name with one public address among private ones is dialled there and only there. */
	while (i + 1 < f->n && !h->api->config.webhooks_private &&
		webhook_is_private((const struct sockaddr *)&f->address[i]))
		i++;
	h->url.address = f->address[i];
	webhook_set_port(&h->url.address, h->url.port);
	dial(h);
}

static char *make_head(const struct hook *h, const struct store_event *e)
{
	const struct webhook_url *u = &h->url;
	bool is_v6 = u->address.ss_family == AF_INET6;
	int64_t now = api_now_unix_ms() / 1000;
	char mac[65] = "";

	webhook_sign(h->row.secret, now, h->body, mac);
	return text_format("POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\n"
			   "User-Agent: bawn/" BAWN_VERSION "\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\nBawn-Event: %s\r\n"
			   "Bawn-Event-Number: %" PRId64 "\r\n"
			   "Bawn-Signature: t=%" PRId64 ",v1=%s\r\n\r\n",
		u->path, is_v6 ? "[" : "", u->host, is_v6 ? "]" : "", u->port, strlen(h->body),
		e->action, e->number, now, mac);
}

static void deliver(struct hook *h, const struct store_event *e)
{
	json_t *o = v1_event_json(e);
	struct err err = {0};

	h->is_busy = true;
	h->api->v1->webhooks->in_flight++;
	h->number = e->number;
	h->body = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!h->body)
		(void)err_set(&err, ENOMEM, "the event cannot be written");
	else if (webhook_url_parse(h->row.url, &h->url, &err) == 0) {
		h->head = make_head(h, e);
		if (h->url.address.ss_family == 0)
			(void)dns_ask(h->api->loop, h->url.host, found, h, &h->asking, &err);
	}
	if (err.code)
		give_up(h, &err);
	else if (!h->asking)
		dial(h);
}

struct wanted {
	struct hook *h;
	struct store_event e; /* number 0: none */
	char *texts[6];       /* what e points to */
};

static const char *keep(struct wanted *w, size_t i, const char *text)
{
	w->texts[i] = mem_strdup(text);
	return w->texts[i];
}

static int consider(const struct store_event *e, void *arg)
{
	struct wanted *w = arg;

	if (!webhook_matches(w->h->row.actions, e->action)) {
		/* Not wanted: passed over in memory; the next delivery writes it down. */
		w->h->row.next = e->number;
		return 0;
	}
	w->e = *e;
	w->e.tenant = keep(w, 0, e->tenant);
	w->e.actor = keep(w, 1, e->actor);
	w->e.action = keep(w, 2, e->action);
	w->e.sandbox = keep(w, 3, e->sandbox);
	w->e.outcome = keep(w, 4, e->outcome);
	w->e.detail = keep(w, 5, e->detail);
	return -ECANCELED;
}

/* The store may be written to only when its loop is over: so the event is copied out first. */
static void turn(struct hook *h)
{
	struct wanted w = {.h = h};
	struct webhooks *ws = h->api->v1->webhooks;
	struct err ignored = {0};

	/* Changed and not yet read again: it may be off, or go elsewhere. */
	if (h->is_busy || h->row.is_off || ws->want_reload || ws->in_flight >= IN_FLIGHT ||
		h->row.retry_at_ms > api_now_unix_ms())
		return;
	(void)store_event_each(
		h->api->store, h->row.tenant, NULL, h->row.next, SCAN, consider, &w, &ignored);
	if (w.e.number > 0)
		deliver(h, &w.e);
	for (size_t i = 0; i < sizeof(w.texts) / sizeof(w.texts[0]); i++)
		free(w.texts[i]);
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
