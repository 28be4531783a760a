/* SPDX-License-Identifier: Apache-2.0 */

/*
 * fetch -a ADDRESS [-p PROXY-PORT] [-c CA.pem] URL WHAT [N [CONNECTIONS]] - one number of a road.
 *
 *   download    MB per second of one body
 *   small N     microseconds per request, N of them one after the other on one connection
 *   rate N C    requests per second, N of them divided among C connections at the same time
 *   hold N      makes N connections, one request on each, says "held", waits for the end of its
 *               input
 *
 * -a: what the name stands for (IPv4). -p: an HTTP proxy on that port of 127.0.0.1, by CONNECT also
 * for http. Blocking, so that nothing but the road is measured; ends with 1 when anything is not as
 * it should be.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 8192
#define ROOM     (256 << 10)

struct place {
	char host[256], port[8], path[512];
	bool is_tls;
	const char *address, *proxy, *ca;
};

struct link {
	int fd;
	SSL *ssl;
	char room[ROOM];
};

static struct place place;
static SSL_CTX *tls;

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void parse_url(const char *url)
{
	char scheme[8] = "", authority[256] = "";
	char *colon;

	if (sscanf(url, "%7[a-z]://%255[^/]%511s", scheme, authority, place.path) != 3)
		errx(1, "%s: not scheme://host:port/path", url);
	place.is_tls = strcmp(scheme, "https") == 0;
	colon = strchr(authority, ':');
	if (colon)
		*colon = '\0';
	(void)snprintf(place.host, sizeof(place.host), "%s", authority);
	(void)snprintf(place.port, sizeof(place.port), "%s",
		colon          ? colon + 1
		: place.is_tls ? "443"
			       : "80");
}

static int dial(void)
{
	const char *to = place.proxy ? "127.0.0.1" : place.address;
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	a.sin_port = htons((uint16_t)strtoul(place.proxy ? place.proxy : place.port, NULL, 10));
	if (inet_pton(AF_INET, to, &a.sin_addr) != 1)
		errx(1, "%s: not an address", to);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		err(1, "connect to %s", to);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static size_t get(struct link *l, size_t max)
{
	ssize_t n = l->ssl ? SSL_read(l->ssl, l->room, (int)max) : read(l->fd, l->room, max);

	if (n <= 0)
		errx(1, "the connection ended in the middle of an answer");
	return (size_t)n;
}

static void put(struct link *l, const char *p, size_t n)
{
	ssize_t done = l->ssl ? SSL_write(l->ssl, p, (int)n) : write(l->fd, p, n);

	if (done != (ssize_t)n)
		errx(1, "the connection takes nothing");
}

/* Sends a request and reads the answer to its end; returns the bytes of the body. */
static uint64_t ask(struct link *l, const char *request)
{
	char head[HEAD_MAX + 1];
	size_t n = 0, body;
	char *end = NULL;
	const char *field;
	uint64_t size, left;

	put(l, request, strlen(request));
	while (!end) {
		size_t got = get(l, HEAD_MAX - n);

		memcpy(head + n, l->room, got);
		n += got;
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
		if (!end && n == HEAD_MAX)
			errx(1, "a head without an end");
	}
	if (strncmp(head + 8, " 200", 4) != 0)
		errx(1, "%.300s", head);
	field = strcasestr(head, "\r\nContent-Length:");
	if (!field || field > end)
		return 0; /* the answer to CONNECT */
	size = strtoull(field + 17, NULL, 10);
	body = n - (size_t)(end + 4 - head);
	for (left = size - body; left > 0;)
		left -= get(l, left < ROOM ? left : ROOM);
	return size;
}

static struct link *open_link(void)
{
	struct link *l = calloc(1, sizeof(*l));
	char text[1024];

	if (!l)
		err(1, "memory");
	l->fd = dial();
	if (place.proxy) {
		(void)snprintf(text, sizeof(text), "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n",
			place.host, place.port, place.host, place.port);
		(void)ask(l, text);
	}
	if (!place.is_tls)
		return l;
	l->ssl = SSL_new(tls);
	if (!l->ssl || SSL_set_tlsext_host_name(l->ssl, place.host) != 1 ||
		SSL_set1_host(l->ssl, place.host) != 1 || SSL_set_fd(l->ssl, l->fd) != 1 ||
		SSL_connect(l->ssl) != 1)
		errx(1, "no TLS connection (is the certificate good?)");
	return l;
}

static const char *request(void)
{
	static char text[1536];

	(void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", place.path,
		place.host, place.port);
	return text;
}

static void download(void)
{
	struct link *l = open_link();
	double t = now();
	uint64_t n = ask(l, request());

	printf("%.1f\n", (double)n / 1e6 / (now() - t));
}

static void small(long n)
{
	struct link *l = open_link();
	double t;
	long i;

	(void)ask(l, request()); /* looking up, dialling and certificates are over then */
	t = now();
	for (i = 0; i < n; i++)
		(void)ask(l, request());
	printf("%.1f\n", (now() - t) * 1e6 / (double)n);
}

static void rate(long n, long connections)
{
	int ready[2], go[2], status;
	char byte = 0;
	double t;
	long i;

	if (pipe(ready) < 0 || pipe(go) < 0)
		err(1, "pipe");
	for (i = 0; i < connections; i++) {
		if (fork() == 0) {
			struct link *l = open_link();
			long k;

			(void)close(go[1]);
			(void)ask(l, request());
			if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
				_exit(1);
			for (k = 0; k < n / connections; k++)
				(void)ask(l, request());
			_exit(0);
		}
	}
	for (i = 0; i < connections; i++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "a connection failed");
	t = now();
	(void)close(go[1]);
	while (wait(&status) > 0)
		if (status)
			errx(1, "a connection failed");
	printf("%.1f\n", (double)(n - n % connections) / (now() - t));
}

static void hold(long n)
{
	char c;
	long i;

	for (i = 0; i < n; i++) {
		struct link *l = open_link();

		(void)ask(l, request());
		free(l); /* the descriptor stays */
	}
	printf("held\n");
	(void)fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	long n;
	int o;

	while ((o = getopt(argc, argv, "a:p:c:")) != -1) {
		if (o == 'a')
			place.address = optarg;
		else if (o == 'p')
			place.proxy = optarg;
		else if (o == 'c')
			place.ca = optarg;
		else
			return 2;
	}
	if (argc - optind < 2 || !place.address)
		return 2;
	parse_url(argv[optind]);
	n = argc - optind > 2 ? strtol(argv[optind + 2], NULL, 10) : 1000;
	if (place.is_tls) {
		tls = SSL_CTX_new(TLS_client_method());
		if (!tls || (place.ca ? SSL_CTX_load_verify_file(tls, place.ca)
				      : SSL_CTX_set_default_verify_paths(tls)) != 1)
			errx(1, "no trust");
		SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	}
	if (strcmp(argv[optind + 1], "download") == 0)
		download();
	else if (strcmp(argv[optind + 1], "small") == 0)
		small(n);
	else if (strcmp(argv[optind + 1], "rate") == 0)
		rate(n, argc - optind > 3 ? strtol(argv[optind + 3], NULL, 10) : 32);
	else if (strcmp(argv[optind + 1], "hold") == 0)
		hold(n);
	else
		return 2;
	return 0;
}
