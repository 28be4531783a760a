/* SPDX-License-Identifier: Apache-2.0 */

/*
 * httpd [PORT [ADDRESS [PEM]]] - the HTTP layer by itself, so that it can be measured: `wrk`.
 *
 * On 127.0.0.1 unless ADDRESS says otherwise; with PEM (key and certificate) over TLS.
 *
 *   GET  /json        a small JSON answer
 *   GET  /bytes?n=N   N bytes with a length        GET /chunked?n=N   the same in chunks
 *   POST /sink        reads the body, answers its size
 */
#include "base/mem.h"
#include "base/text.h"
#include "io/http.h"
#include "io/tls.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static char block[128 << 10];

struct answer {
	uint64_t left;
};

static void more(struct http_request *r)
{
	struct answer *a = r->state;

	while (a->left > 0 && http_queued(r) <= CONN_HIGH) {
		size_t n = a->left < sizeof(block) ? (size_t)a->left : sizeof(block);

		http_write(r, block, n);
		a->left -= n;
	}
	if (a->left > 0)
		return;
	free(a);
	http_end(r);
}

static void gone(struct http_request *r)
{
	free(r->state);
}

static void data(struct http_request *r, const char *p, size_t n, void *arg)
{
	struct answer *a = arg;

	(void)r;
	(void)p;
	a->left += n;
}

static void end(struct http_request *r, bool is_whole, void *arg)
{
	struct answer *a = arg;
	char text[64];
	int n;

	if (!is_whole)
		return;
	n = snprintf(text, sizeof(text), "{\"bytes\":%llu}", (unsigned long long)a->left);
	free(a);
	http_reply(r, 200, "application/json", text, (size_t)n);
}

static const struct http_sink sink = {data, end};

static void handle(struct http_request *r, void *arg)
{
	static const char json[] = "{\"ok\":true,\"name\":\"sandbox\",\"state\":\"running\"}";
	struct h1_text t;
	struct answer *a;
	char number[24];
	uint64_t n = 0;
	struct err err;

	(void)arg;
	if (h1_is(r->path, "/json")) {
		http_reply(r, 200, "application/json", json, sizeof(json) - 1);
		return;
	}
	a = MEM_NEW(struct answer);
	r->state = a;
	r->gone = gone;
	if (h1_is(r->path, "/sink")) {
		http_stream_body(r, &sink, a);
		return;
	}
	if (h1_query(r->query, "n", &t) && h1_unescape(t.p, t.n, true, number, sizeof(number)) > 0)
		(void)text_parse_u64(number, "n", 0, UINT64_MAX / 2, &n, &err);
	a->left = n;
	http_set_drained(r, more);
	http_begin(r, 200, "application/octet-stream", h1_is(r->path, "/bytes") ? (int64_t)n : -1);
	more(r);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
	struct http_server *s;
	struct tls *tls = NULL;
	struct loop *l;
	struct err err;
	uint64_t port = 0;

	if (argc > 1 && text_parse_u64(argv[1], "port", 0, 65535, &port, &err) < 0)
		return 2;
	if (argc > 2 && inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
		return 2;
	(void)signal(SIGPIPE, SIG_IGN);
	a.sin_port = htons((uint16_t)port);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1024) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
		perror("listen");
		return 1;
	}
	if ((argc > 3 && tls_server(argv[3], argv[3], &tls, &err) < 0) ||
		loop_create(&l, &err) < 0 || http_server_create(l, handle, NULL, &s, &err) < 0 ||
		http_listen(s, fd, tls, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("http%s://127.0.0.1:%u\n", tls ? "s" : "", ntohs(a.sin_port));
	(void)fflush(stdout);
	return loop_run(l, &err);
}
