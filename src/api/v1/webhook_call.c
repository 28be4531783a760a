/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One POST to a webhook's receiver: connect, send, read the status line, close.
 *
 * The receiver is a stranger: its head is bounded and parsed strictly, its body is not read, and
 * all of it has WEBHOOK_TIMEOUT_MS.
 */
#include "api/v1/webhooks.h"
#include "base/mem.h"

#include <string.h>

struct webhook_call {
	struct loop *loop;
	struct conn *conn;
	struct loop_timer timer;
	struct loop_task to_free;
	size_t scan;
	webhook_done_fn done;
	void *arg;
};

static void free_later(struct loop_task *t)
{
	free((char *)t - offsetof(struct webhook_call, to_free));
}

static void release(struct webhook_call *c)
{
	loop_timer_cancel(c->loop, &c->timer);
	if (c->conn)
		conn_abort(TAKE_PTR(c->conn));
	c->to_free.run = free_later;
	loop_defer(c->loop, &c->to_free);
}

static void finish(struct webhook_call *c, int status)
{
	webhook_done_fn done = c->done;

	if (!done)
		return;
	c->done = NULL;
	done(status, c->arg);
	release(c);
}

void webhook_call_cancel(struct webhook_call *c)
{
	c->done = NULL;
	release(c);
}

static size_t got_bytes(struct conn *conn, const char *p, size_t n, void *arg)
{
	struct webhook_call *c = arg;
	struct h1_head *head;
	size_t end = h1_head_end(p, n, &c->scan);
	int status;

	(void)conn;
	if (!c->done)
		return n;
	if (end == 0 && n < H1_HEAD_MAX)
		return 0;
	if (end == 0 || end == (size_t)-1) {
		finish(c, -EPROTO);
		return n;
	}
	head = mem_must(calloc(1, sizeof(*head)));
	status = h1_parse_response(p, end, (struct h1_text){"POST", 4}, head) == 0 ? head->status
										   : -EPROTO;
	free(head);
	finish(c, status);
	return n;
}

static void got_closed(struct conn *conn, const struct err *err, void *arg)
{
	struct webhook_call *c = arg;

	(void)conn;
	c->conn = NULL;
	finish(c, err->code ? -err->code : -ECONNRESET);
}

static void too_late(struct loop_timer *t)
{
	finish((struct webhook_call *)((char *)t - offsetof(struct webhook_call, timer)),
		-ETIMEDOUT);
}

static const struct conn_events events = {.read = got_bytes, .closed = got_closed};

int webhook_call(struct api *a, const struct webhook_url *url, struct tls *tls, const char *head,
	const char *body, webhook_done_fn done, void *arg, struct webhook_call **ret,
	struct err *err)
{
	AUTO_FD int fd =
		socket(url->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct webhook_call *c;
	int r;

	if (fd < 0)
		return err_sys(err, "socket");
	if (connect(fd, (const struct sockaddr *)&url->address, sizeof(url->address)) < 0 &&
		errno != EINPROGRESS)
		return err_sys(err, "connect to '%s'", url->host);
	c = MEM_NEW(struct webhook_call);
	c->loop = a->loop;
	c->done = done;
	c->arg = arg;
	r = conn_create(a->loop, TAKE_FD(fd), url->is_https ? tls : NULL, false, url->host, &events,
		c, &c->conn, err);
	if (r < 0) {
		free(c);
		return r;
	}
	c->timer.fire = too_late;
	loop_timer_set(a->loop, &c->timer, WEBHOOK_TIMEOUT_MS);
	conn_write(c->conn, head, strlen(head));
	conn_write(c->conn, body, strlen(body));
	*ret = c;
	return 0;
}
