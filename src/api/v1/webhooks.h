/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/v1/webhooks - events delivered by HTTP to whom a tenant names.
 *
 * One delivery at a time per webhook, in order; one event per request, signed:
 *
 *   Bawn-Signature: t=<unix seconds>,v1=<hex of HMAC-SHA-256(secret, "<t>.<body>")>
 *
 * 2xx is delivered; anything else is tried again with back-off, and after WEBHOOK_TRIES in a
 * row the webhook is switched off. How far each got is in the store: a restart loses nothing and
 * may deliver one event twice (Bawn-Event-Number tells).
 */
#include "api/v1/v1.h"

#include <sys/socket.h>

#define WEBHOOK_TRIES      20
#define WEBHOOK_TIMEOUT_MS 10000
#define WEBHOOK_URL_MAX    1024

struct webhook_url {
	bool is_https;
	char host[256]; /* without brackets */
	unsigned port;
	char path[WEBHOOK_URL_MAX];      /* with the query, starts with '/' */
	struct sockaddr_storage address; /* ss_family 0: the host is a name */
};

/* http(s)://HOST[:PORT]/PATH; -EINVAL says what is wrong. Pure. */
int webhook_url_parse(const char *text, struct webhook_url *ret, struct err *err);
void webhook_set_port(struct sockaddr_storage *address, unsigned port);
/* An address of this machine, its network or nobody: not for a tenant to send to. Pure. */
bool webhook_is_private(const struct sockaddr *address);
/* "sandbox.*,exec.end" and an action. Pure. */
bool webhook_matches(const char *globs, const char *action);
/* Hex of the HMAC; out has room for 65. */
void webhook_sign(const char *secret, int64_t unix_s, const char *body, char out[65]);

/* A row changed: look again. */
void webhooks_reload(struct api *a);

/* One request; `done` exactly once, with a status or -errno, from the loop. */
struct webhook_call;
typedef void (*webhook_done_fn)(int status, void *arg);
int webhook_call(struct api *a, const struct webhook_url *url, struct tls *tls, const char *head,
	const char *body, webhook_done_fn done, void *arg, struct webhook_call **ret,
	struct err *err);
/* No callback follows. */
void webhook_call_cancel(struct webhook_call *c);
