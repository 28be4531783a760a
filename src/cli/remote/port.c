/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/port - `bawn port`: the address of a port inside a sandbox, or a way to it from here.
 *
 * Forwarding is HTTP: every request that comes to the local port gets the fields that lead to
 * the sandbox and goes to the server, which routes each by itself; behind an Upgrade
 * (WebSocket) bytes pass as they are. What the server answers passes untouched.
 */
#include "base/mem.h"
#include "cli/remote/client.h"
#include "cli/remote/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct forward {
	struct client *client;
	struct loop_watch listener;
	char fields[400]; /* "E2b-Sandbox-Id: …\r\n…" */
};

struct pair {
	struct forward *f;
	struct conn *near, *far; /* NULL: gone */
	struct buf head;         /* of the next request, while it is incomplete */
	size_t scan;
	struct h1_body body; /* of the current request */
	bool is_in_body, is_raw;
	struct loop_task bury;
};

static void bury(struct loop_task *t)
{
	struct pair *p = (struct pair *)((char *)t - offsetof(struct pair, bury));

	buf_done(&p->head);
	free(p);
}

static void closed(struct conn *c, const struct err *err, void *arg)
{
	struct pair *p = arg;
	struct conn **other = c == p->near ? &p->far : &p->near;

	(void)err;
	*(c == p->near ? &p->near : &p->far) = NULL;
	if (*other)
		conn_finish(*other); /* no callback follows */
	*other = NULL;
	loop_defer(client_loop(p->f->client), &p->bury);
}

static void refuse(struct pair *p)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: "
				   "close\r\n\r\n";

	conn_write(p->near, text, strlen(text));
	conn_finish(p->near);
	p->near = NULL;
	if (p->far)
		conn_abort(p->far);
	p->far = NULL;
	loop_defer(client_loop(p->f->client), &p->bury);
}

/* The head goes on with our fields behind its first line. Returns false if it was refused. */
static bool send_head(struct pair *p)
{
	const char *data = buf_data(&p->head);
	size_t end = h1_head_end(data, buf_len(&p->head), &p->scan);
	AUTO_FREE struct h1_head *h = NULL;
	const char *line;

	if (end == 0)
		return true;
	h = MEM_NEW(struct h1_head);
	if (end == (size_t)-1 || h1_parse_request(data, end, h) != 0) {
		refuse(p);
		return false;
	}
	line = (const char *)memchr(data, '\n', end) + 1;
	conn_write(p->far, data, (size_t)(line - data));
	conn_write(p->far, p->f->fields, strlen(p->f->fields));
	conn_write(p->far, line, end - (size_t)(line - data));
	h1_body_init(&p->body, h);
	p->is_raw = h->wants_upgrade;
	p->is_in_body = !p->body.is_done && h->framing != H1_NO_BODY;
	buf_eat(&p->head, end);
	p->scan = 0;
	return true;
}

static size_t send_body(struct pair *p, const char *data, size_t n)
{
	size_t at = 0;

	while (at < n && !p->body.is_done) {
		const char *out;
		size_t out_n;
		ssize_t used = h1_body_feed(&p->body, data + at, n - at, &out, &out_n);

		if (used < 0) {
			refuse(p);
			return n;
		}
		if (used == 0)
			break;
		at += (size_t)used;
	}
	conn_write(p->far, data, at);
	p->is_in_body = !p->body.is_done;
	return at;
}

static size_t near_read(struct conn *c, const char *data, size_t n, void *arg)
{
	struct pair *p = arg;
	size_t at = 0;

	while (p->near && p->far && at < n) {
		if (p->is_raw) {
			conn_write(p->far, data + at, n - at);
			at = n;
		} else if (p->is_in_body) {
			at += send_body(p, data + at, n - at);
		} else {
			size_t before = buf_len(&p->head), rest;

			if (buf_add(&p->head, data + at, n - at) < 0) {
				refuse(p);
				return n;
			}
			if (!send_head(p))
				return n;
			rest = buf_len(&p->head);
			if (p->scan != 0 || rest == before + n - at)
				return n; /* incomplete: kept */
			/* What is behind the head is looked at again as a body or a head. */
			buf_eat(&p->head, rest);
			at = n - rest;
		}
	}
	if (p->far && conn_queued(p->far) > CONN_HIGH)
		conn_pause(c);
	return n;
}

static size_t far_read(struct conn *c, const char *data, size_t n, void *arg)
{
	struct pair *p = arg;

	if (!p->near)
		return n;
	conn_write(p->near, data, n);
	if (conn_queued(p->near) > CONN_HIGH)
		conn_pause(c);
	return n;
}

static void near_drained(struct conn *c, void *arg)
{
	struct pair *p = arg;

	(void)c;
	if (p->far)
		conn_resume(p->far);
}

static void far_drained(struct conn *c, void *arg)
{
	struct pair *p = arg;

	(void)c;
	if (p->near)
		conn_resume(p->near);
}

static void accept_one(struct loop_watch *w, uint32_t events)
{
	static const struct conn_events near_events = {near_read, NULL, near_drained, closed};
	static const struct conn_events far_events = {far_read, NULL, far_drained, closed};
	struct forward *f = (struct forward *)((char *)w - offsetof(struct forward, listener));
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
	struct pair *p;
	struct err err = {0};

	(void)events;
	if (fd < 0)
		return;
	p = MEM_NEW(struct pair);
	p->f = f;
	p->bury.run = bury;
	p->head.cap = H1_HEAD_MAX + (256u << 10);
	if (conn_create(client_loop(f->client), fd, NULL, true, "", &near_events, p, &p->near,
		    &err) < 0) {
		free(p);
		return;
	}
	if (client_connect(f->client, &far_events, p, &p->far, &err) < 0) {
		(void)fprintf(stderr, "bawn: port: %s\n", err.msg);
		refuse(p);
	}
}

static int listen_here(uint16_t port, uint16_t *ret_port, struct err *err)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(a);
	int on = 1;

	if (fd < 0)
		return err_sys(err, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		return err_sys(err, "listen on port %u here", port);
	*ret_port = ntohs(a.sin_port);
	return TAKE_FD(fd);
}

static int forward(struct client *c, const struct client_box *b, unsigned port, uint16_t local,
	bool want_json, struct err *err)
{
	const char *token = json_string_value(json_object_get(b->detail, "traffic_token"));
	struct forward f = {.client = c};
	AUTO_FD int fd = listen_here(local, &local, err);
	int r = fd;

	if (r < 0)
		return r;
	(void)snprintf(f.fields, sizeof(f.fields),
		"E2b-Sandbox-Id: %.40s\r\nE2b-Sandbox-Port: %u\r\n%s%.100s%s", b->id, port,
		token ? "E2b-Traffic-Access-Token: " : "", token ? token : "", token ? "\r\n" : "");
	f.listener = (struct loop_watch){.fd = fd, .ready = accept_one};
	r = loop_watch_set(client_loop(c), &f.listener, EPOLLIN, err);
	if (r >= 0 && want_json)
		(void)printf("{\"url\":\"http://127.0.0.1:%u\"}\n", local);
	else if (r >= 0)
		(void)printf(
			"http://127.0.0.1:%u -> port %u of %s; ^C ends it\n", local, port, b->id);
	(void)fflush(stdout);
	return r < 0 ? r : loop_run(client_loop(c), err);
}

/* What the server calls it: its domain, or the address we came by under *.localhost. */
static int print_url(struct client *c, const struct client_box *b, unsigned port, bool want_json,
	struct err *err)
{
	AUTO_FREE char *path = text_format("/sandboxes/%s", b->id);
	const char *scheme = text_starts(client_url(c), "https") ? "https" : "http";
	json_t *detail = NULL;
	const char *domain;
	char quoted[300];
	int r = client_json(c, "GET", path, NULL, &detail, err);

	domain = json_string_value(json_object_get(detail, "domain"));
	if (r >= 0)
		(void)printf(want_json ? "{\"url\":\"%s://%u-%s.%s\"}\n" : "%s://%u-%s.%s\n",
			scheme, port, b->id,
			client_clean(domain ? domain : "localhost", quoted, sizeof(quoted)));
	json_decref(detail);
	return r;
}

static const char about[] =
	"Print the address under which the server shows a port of a sandbox. With LOCAL,\n"
	"forward a port of this machine to it (0 picks a free one) until ^C.\n";

int verb_port(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const struct args_verb v = {.name = "port",
		.usage = "SANDBOX PORT [LOCAL]",
		.about = about,
		.min = 2,
		.max = 3};
	struct args a;
	struct err err = {0};
	struct client_box b = {0};
	uint64_t port = 0, local = 0;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("port", &err) : 0;
	r = text_parse_u64(a.rest[1], "the port", 1, 65535, &port, &err);
	if (r >= 0 && a.rest_n > 2)
		r = text_parse_u64(a.rest[2], "the local port", 0, 65535, &local, &err);
	if (r >= 0)
		r = client_open(&a, &c, &err);
	if (r >= 0)
		r = client_box_live(c, a.rest[0], &b, &err);
	if (r >= 0 && a.rest_n > 2)
		r = forward(c, &b, (unsigned)port, (uint16_t)local, a.want_json, &err);
	else if (r >= 0)
		r = print_url(c, &b, (unsigned)port, a.want_json, &err);
	client_box_done(&b);
	return r < 0 ? args_fail("port", &err) : 0;
}
