/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/client.h"

#include "base/mem.h"
#include "cli/remote/connect.h"
#include "core/state_dir.h"
#include "io/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX (64u << 20) /* of a whole answer */

struct client {
	struct loop *loop;
	struct tls *tls;
	struct connect_to to;
	char *url;
	char *key; /* or NULL */
};

struct client_stream {
	struct client *client;
	struct conn *conn; /* NULL: over */
	struct client_events events;
	void *arg;
	struct loop_task bury;
	struct buf head; /* while the head is incomplete */
	size_t scan;
	bool has_head, is_chunking, is_over;
	struct h1_body body;
	char method[8];
};

struct loop *client_loop(struct client *c)
{
	return c->loop;
}

int client_connect(struct client *c, const struct conn_events *events, void *arg, struct conn **ret,
	struct err *err)
{
	int fd = connect_open(&c->to, err);

	return fd < 0 ? fd
		      : conn_create(c->loop, fd, c->tls, false, c->to.host, events, arg, ret, err);
}

/* The addresses file that the supervisor keeps beside its sockets. */
static char *first_address(const char *socket_path)
{
	AUTO_FREE char *path = text_format(
		"%.*s/addresses", (int)(strrchr(socket_path, '/') - socket_path), socket_path);
	AUTO_FILE FILE *f = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (text_starts(line, "http"))
			return TAKE_PTR(line);
	}
	return NULL;
}

const char *client_url(struct client *c)
{
	if (c->to.path && text_starts(c->url, "unix:")) {
		char *url = strchr(c->to.path, '/') ? first_address(c->to.path) : NULL;

		if (url) {
			free(c->url);
			c->url = url;
		}
	}
	return c->url;
}

static int find_server(const struct args *a, char **ret, struct err *err)
{
	const char *given = a->server;
	AUTO_FREE char *state = NULL;
	int r;

	if (!given && !a->state)
		given = getenv("BAWN_SERVER");
	if ((!given || !*given) && !a->state)
		given = getenv("E2B_API_URL");
	if (given && *given) {
		*ret = mem_strdup(given);
		return 0;
	}
	if (a->state) {
		AUTO_FREE char *cwd = getcwd(NULL, 0);

		r = text_path_clean(a->state, cwd ? cwd : "/", &state, err);
	} else {
		r = state_dir(&state, err);
	}
	if (r < 0)
		return r;
	*ret = text_format("unix:%s/run/api.sock", state);
	return 0;
}

int client_open(const struct args *a, struct client **ret, struct err *err)
{
	AUTO(client_close) struct client *c = MEM_NEW(struct client);
	const char *key = a->key;
	int r = find_server(a, &c->url, err);

	if (!key)
		key = getenv("BAWN_API_KEY");
	if (!key)
		key = getenv("E2B_API_KEY");
	if (key && *key) {
		if (!h1_is_value(key, strlen(key)))
			return err_set(err, EINVAL, "the key holds bytes that no key has");
		c->key = mem_strdup(key);
	}
	if (r >= 0)
		r = connect_parse(c->url, &c->to, err);
	if (r >= 0)
		r = loop_create(&c->loop, err);
	if (r >= 0 && c->to.is_tls)
		r = tls_client(getenv("SSL_CERT_FILE"), &c->tls, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

struct client *client_close(struct client *c)
{
	if (!c)
		return NULL;
	c->loop = loop_free(c->loop);
	c->tls = tls_free(c->tls);
	connect_to_done(&c->to);
	free(c->url);
	free(c->key);
	free(c);
	return NULL;
}

/* ---- one request ---- */

static void bury(struct loop_task *t)
{
	struct client_stream *s =
		(struct client_stream *)((char *)t - offsetof(struct client_stream, bury));

	buf_done(&s->head);
	free(s);
}

static void over(struct client_stream *s, const struct err *err)
{
	if (s->is_over)
		return;
	s->is_over = true;
	if (s->conn)
		conn_abort(s->conn);
	s->conn = NULL;
	loop_defer(s->client->loop, &s->bury);
	s->events.end(s->arg, err);
}

static void broken(struct client_stream *s, const char *what)
{
	struct err err = {0};

	(void)err_set(&err, EPROTO, "the server's answer cannot be read: %s", what);
	over(s, &err);
}

/* Returns how many bytes were used. */
static size_t read_body(struct client_stream *s, const char *p, size_t n)
{
	const struct err fine = {0};
	size_t at = 0;

	while (at < n && !s->body.is_done && !s->is_over) {
		const char *out = NULL;
		size_t out_n = 0;
		ssize_t used = h1_body_feed(&s->body, p + at, n - at, &out, &out_n);

		if (used < 0) {
			broken(s, "malformed body");
			return n;
		}
		at += (size_t)used;
		if (out_n > 0 && s->events.data)
			s->events.data(s->arg, out, out_n);
		if (used == 0 && out_n == 0)
			break;
	}
	if (s->body.is_done && !s->is_over)
		over(s, &fine);
	return n;
}

static void read_head(struct client_stream *s)
{
	size_t end = h1_head_end(buf_data(&s->head), buf_len(&s->head), &s->scan);
	AUTO_FREE struct h1_head *head = MEM_NEW(struct h1_head);
	struct h1_text method = {s->method, strlen(s->method)};
	int refused;

	if (end == 0)
		return;
	refused =
		end == (size_t)-1 ? 502 : h1_parse_response(buf_data(&s->head), end, method, head);
	if (refused) {
		broken(s, "malformed head");
		return;
	}
	if (head->status == 100) {
		buf_eat(&s->head, end);
		s->scan = 0;
		read_head(s);
		return;
	}
	s->has_head = true;
	h1_body_init(&s->body, head);
	if (s->events.head)
		s->events.head(s->arg, head->status, head);
	if (!s->is_over) {
		size_t n = buf_len(&s->head) - end;
		AUTO_FREE char *rest = (char *)mem_must(malloc(n + 1));

		memcpy(rest, buf_data(&s->head) + end, n);
		buf_done(&s->head);
		s->head = (struct buf){0};
		(void)read_body(s, rest, n);
	}
}

static size_t on_read(struct conn *conn, const char *p, size_t n, void *arg)
{
	struct client_stream *s = arg;

	(void)conn;
	if (s->is_over)
		return n;
	if (s->has_head)
		return read_body(s, p, n);
	if (buf_add(&s->head, p, n) < 0)
		broken(s, "the head is too long");
	else
		read_head(s);
	return n;
}

static void on_drained(struct conn *conn, void *arg)
{
	struct client_stream *s = arg;

	(void)conn;
	if (!s->is_over && s->events.drained)
		s->events.drained(s->arg);
}

static void on_closed(struct conn *conn, const struct err *why, void *arg)
{
	struct client_stream *s = arg;
	struct err err = *why;

	(void)conn;
	s->conn = NULL;
	if (s->is_over)
		return;
	if (s->has_head && s->body.framing == H1_UNTIL_CLOSE && why->code == 0) {
		over(s, why);
		return;
	}
	if (err.code == 0)
		(void)err_set(&err, ECONNRESET, "the server closed the connection");
	over(s, &err);
}

static int add_head(
	struct client *c, const struct client_request *r, struct buf *out, struct err *err)
{
	/* The name that others know it by, also when we come through its socket file. */
	const char *host = strstr(client_url(c), "://");
	int q = buf_addf(out, "%s %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: bawn\r\n", r->method,
		r->path, host ? (int)strcspn(host + 3, "/") : 9, host ? host + 3 : "localhost");

	if (q >= 0 && c->key)
		q = buf_addf(out, "X-API-KEY: %s\r\n", c->key);
	for (size_t i = 0; q >= 0 && r->fields && r->fields[i]; i++)
		q = buf_addf(out, "%s\r\n", r->fields[i]);
	if (q >= 0 && r->type)
		q = buf_addf(out, "Content-Type: %s\r\n", r->type);
	if (q >= 0 && r->is_streaming)
		q = buf_addf(out, "Transfer-Encoding: chunked\r\n");
	else if (q >= 0 && (r->body || strcmp(r->method, "GET") != 0))
		q = buf_addf(out, "Content-Length: %zu\r\n", r->body_n);
	if (q >= 0)
		q = buf_addf(out, "Connection: close\r\n\r\n");
	if (q >= 0 && r->body)
		q = buf_add(out, r->body, r->body_n);
	return q < 0 ? err_set(err, -q, "the request is too long") : 0;
}

int client_start(struct client *c, const struct client_request *r, const struct client_events *e,
	void *arg, struct client_stream **ret, struct err *err)
{
	static const struct conn_events events = {
		.read = on_read, .drained = on_drained, .closed = on_closed};
	AUTO_BUF struct buf out = {.cap = ANSWER_MAX};
	struct client_stream *s;
	int q = add_head(c, r, &out, err);

	if (q < 0)
		return q;
	s = MEM_NEW(struct client_stream);
	s->client = c;
	s->events = *e;
	s->arg = arg;
	s->bury.run = bury;
	s->is_chunking = r->is_streaming;
	(void)snprintf(s->method, sizeof(s->method), "%s", r->method);
	q = client_connect(c, &events, s, &s->conn, err);
	if (q < 0) {
		free(s);
		return q;
	}
	conn_write(s->conn, buf_data(&out), buf_len(&out));
	*ret = s;
	return 0;
}

void client_write(struct client_stream *s, const void *p, size_t n)
{
	char line[24];
	int k;

	if (!s->conn || n == 0)
		return;
	k = snprintf(line, sizeof(line), "%zx\r\n", n);
	conn_write(s->conn, line, (size_t)k);
	conn_write(s->conn, p, n);
	conn_write(s->conn, "\r\n", 2);
}

size_t client_queued(const struct client_stream *s)
{
	return s->conn ? conn_queued(s->conn) : 0;
}

void client_finish(struct client_stream *s)
{
	if (s->conn && s->is_chunking)
		conn_write(s->conn, "0\r\n\r\n", 5);
	s->is_chunking = false;
}

void client_pause(struct client_stream *s)
{
	if (s->conn)
		conn_pause(s->conn);
}

void client_resume(struct client_stream *s)
{
	if (s->conn)
		conn_resume(s->conn);
}

void client_drop(struct client_stream *s)
{
	if (s->is_over)
		return;
	s->is_over = true;
	if (s->conn)
		conn_abort(s->conn);
	s->conn = NULL;
	loop_defer(s->client->loop, &s->bury);
}
