/* SPDX-License-Identifier: Apache-2.0 */

#include "api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ID_MAX    64
#define TOKEN_MAX 256

struct box {
	char id[ID_MAX], token[TOKEN_MAX];
};

static int fd = -1;
static char text[65536]; /* the answer being read, NUL-terminated */
static size_t text_n;

static void give_up(const char *what)
{
	(void)fprintf(stderr, "api: %s: %.300s\n", what, text_n ? text : strerror(errno));
	exit(125);
}

static const char *setting(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		(void)fprintf(stderr, "api: %s is not set\n", name);
		exit(125);
	}
	return value;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void connect_once(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int on = 1;

	if (fd >= 0)
		return;
	to.sin_port = htons((uint16_t)strtoul(setting("API_PORT"), NULL, 10));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		give_up("connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void send_all(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

		if (done <= 0)
			give_up("send");
		p += done;
		n -= (size_t)done;
	}
}

static void read_more(void)
{
	ssize_t n = recv(fd, text + text_n, sizeof(text) - 1 - text_n, 0);

	if (n <= 0)
		give_up("the connection ended");
	text_n += (size_t)n;
	text[text_n] = '\0';
}

/* Bytes of a Connect frame are not text; what we look for is never split by a NUL inside JSON. */
static bool has(const char *what)
{
	return memmem(text, text_n, what, strlen(what)) != NULL;
}

static void expect(const char *status)
{
	text_n = 0;
	text[0] = '\0';
	while (!has("\r\n\r\n"))
		read_more();
	if (strncmp(text, status, strlen(status)) != 0)
		give_up(status);
}

/* The rest of an answer that says its length, or has none. */
static void read_body(void)
{
	const char *head_end = strstr(text, "\r\n\r\n") + 4;
	const char *field = strcasestr(text, "\r\ncontent-length:");
	size_t want = field && field < head_end ? strtoul(field + 17, NULL, 10) : 0;

	if ((size_t)(head_end - text) + want >= sizeof(text))
		give_up("too long an answer");
	while (text_n < (size_t)(head_end - text) + want)
		read_more();
}

static void copy_field(const char *name, char *out, size_t size)
{
	char key[64];
	const char *p;
	size_t n;

	(void)snprintf(key, sizeof(key), "\"%s\":", name);
	p = strstr(text, key);
	p = p ? strchr(p + strlen(key), '"') : NULL;
	n = p ? strcspn(p + 1, "\"") : 0;
	if (n == 0 || n >= size)
		give_up(name);
	memcpy(out, p + 1, n);
	out[n] = '\0';
}

static void create(struct box *box)
{
	static const char body[] = "{\"templateID\":\"base\",\"timeout\":600}";
	char request[1024];
	int n = snprintf(request, sizeof(request),
		"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: %s\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		setting("API_KEY"), sizeof(body) - 1, body);

	send_all(request, (size_t)n);
	expect("HTTP/1.1 201");
	read_body();
	copy_field("sandboxID", box->id, sizeof(box->id));
	copy_field("envdAccessToken", box->token, sizeof(box->token));
}

static void destroy(const struct box *box)
{
	char request[512];
	int n = snprintf(request, sizeof(request),
		"DELETE /sandboxes/%s HTTP/1.1\r\nHost: x\r\nX-API-KEY: %s\r\n\r\n", box->id,
		setting("API_KEY"));

	send_all(request, (size_t)n);
	expect("HTTP/1.1 204");
}

static void start(const struct box *box, const char *command, const char *argument)
{
	char body[512], request[2048];
	int size = snprintf(body, sizeof(body),
		"{\"process\":{\"cmd\":\"%s\",\"args\":[%s]},\"stdin\":false}", command, argument);
	int n = snprintf(request, sizeof(request),
		"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\n"
		"E2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\nConnect-Protocol-Version: 1\r\n"
		"Content-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n",
		box->id, box->token, size + 5);

	request[n++] = 0;
	request[n++] = 0;
	request[n++] = 0;
	request[n++] = (char)(size >> 8);
	request[n++] = (char)size;
	memcpy(request + n, body, (size_t)size);
	send_all(request, (size_t)n + (size_t)size);
}

static void read_until(const char *what)
{
	while (!has(what))
		read_more();
}

static uint64_t life(bool is_whole)
{
	uint64_t started = now_ns(), seen, gone;
	struct box box;

	create(&box);
	start(&box, "/bin/echo", "\"x\"");
	expect("HTTP/1.1 200");
	read_until("\"stdout\"");
	seen = now_ns();
	read_until("\r\n0\r\n\r\n");
	destroy(&box);
	gone = now_ns();
	return (is_whole ? gone : seen) - started;
}

static uint64_t exec_true(void)
{
	static struct box box;
	uint64_t started;

	(void)snprintf(box.id, sizeof(box.id), "%s", setting("API_BOX"));
	(void)snprintf(box.token, sizeof(box.token), "%s", setting("API_TOKEN"));
	started = now_ns();
	start(&box, "/bin/true", "");
	expect("HTTP/1.1 200");
	read_until("\"end\"");
	started = now_ns() - started;
	read_until("\r\n0\r\n\r\n");
	return started;
}

uint64_t api_sample(const char *what)
{
	connect_once();
	if (strcmp(what, "exec") == 0)
		return exec_true();
	if (strcmp(what, "life") == 0 || strcmp(what, "whole") == 0)
		return life(*what == 'w');
	(void)fprintf(stderr, "api: no operation '%s'\n", what);
	exit(125);
}
