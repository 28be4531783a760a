/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A box, its intercepting egress, and the world: a name server that sends every name to
 * 127.0.0.1 and a server there with an authority of its own. All in one process and one loop; tests
 * say what either end says, piece by piece, and wait for what comes out at the other.
 */
#include "egress/egress_impl.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define SERVED_MAX 16

struct side {
	struct conn *conn; /* NULL: none, or closed */
	struct buf got;
	bool is_closed;
	struct err why;
};

struct world {
	char dir[64], ca[100], cert[100], key[100];
	struct loop *loop;
	struct egress *engine;
	struct egress_box *box;
	struct tls *server_tls, *client_tls;
	struct loop_watch plain, tls, dns;
	uint16_t plain_port, tls_port;
	struct side served[SERVED_MAX];
	size_t served_n;
	struct denial denied; /* the last */
	unsigned denied_n, allowed_n, asked_n;
	struct egress_ask asked;
	uint64_t up, down; /* of what was allowed last */
	char resolver[40];
};

static struct world w;

/* ---- both ends ---- */

static size_t side_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct side *s = arg;

	(void)c;
	CHECK_INT(buf_add(&s->got, p, n), 0);
	return n;
}

static void side_closed(struct conn *c, const struct err *err, void *arg)
{
	struct side *s = arg;

	(void)c;
	s->conn = NULL;
	s->is_closed = true;
	s->why = *err;
}

static const struct conn_events side_events = {.read = side_read, .closed = side_closed};

static void turn(void)
{
	struct err err;

	(void)loop_once(w.loop, 5, &err);
}

/* The rest of what was said, as text; "" if nothing. */
static inline const char *said(struct side *s)
{
	static char text[1u << 16];
	size_t n = buf_len(&s->got) < sizeof(text) ? buf_len(&s->got) : sizeof(text) - 1;

	memcpy(text, buf_data(&s->got), n);
	text[n] = '\0';
	return text;
}

/* Wait until `text` was said; eat everything up to its end. */
static inline bool hears(struct side *s, const char *text)
{
	for (int i = 0; i < 600; i++) {
		const char *at = memmem(buf_data(&s->got), buf_len(&s->got), text, strlen(text));

		if (at) {
			buf_eat(&s->got, (size_t)(at - buf_data(&s->got)) + strlen(text));
			return true;
		}
		if (s->is_closed)
			break;
		turn();
	}
	tap_print("# waited for \"%s\" and heard \"%s\"%s %s\n", text, said(s),
		s->is_closed ? " and its end:" : "", s->why.msg);
	return false;
}

static inline bool ends(struct side *s)
{
	for (int i = 0; i < 600 && !s->is_closed; i++)
		turn();
	return s->is_closed;
}

static inline void quiet(void)
{
	for (int i = 0; i < 8; i++)
		turn();
}

static inline void say(struct side *s, const char *text)
{
	if (CHECK(s->conn != NULL))
		conn_write(s->conn, text, strlen(text));
}

static inline void hang_up(struct side *s)
{
	if (s->conn)
		conn_finish(s->conn);
	s->conn = NULL;
}

static inline void side_done(struct side *s)
{
	if (s->conn)
		conn_abort(s->conn);
	buf_done(&s->got);
	*s = (struct side){0};
}

/* ---- the server and the name server ---- */

static void take(struct loop_watch *watch, struct tls *tls)
{
	/* cppcheck-suppress nullPointer ; nobody asks who connects */
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct side *s = &w.served[w.served_n];
	struct err err = {0};

	if (fd < 0)
		return;
	if (!CHECK(w.served_n < SERVED_MAX)) {
		(void)close(fd);
		return;
	}
	w.served_n++;
	*s = (struct side){.got.cap = 64u << 20};
	CHECK_INT(conn_create(w.loop, fd, tls, true, NULL, &side_events, s, &s->conn, &err), 0);
}

static void plain_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	take(watch, NULL);
}

static void tls_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	take(watch, w.server_tls);
}

/* Waits for the n-th connection of this world (from 1). */
static inline struct side *served(size_t n)
{
	for (int i = 0; i < 600 && w.served_n < n; i++)
		turn();
	CHECK(w.served_n >= n);
	return &w.served[n - 1];
}

/* Every name is 127.0.0.1; nothing has an IPv6 address. */
static void dns_ready(struct loop_watch *watch, uint32_t events)
{
	unsigned char m[600];
	struct sockaddr_in from;
	socklen_t from_n = sizeof(from);
	ssize_t n = recvfrom(watch->fd, m, 500, 0, (struct sockaddr *)&from, &from_n);
	static const unsigned char a[16] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1};
	size_t q = 12;

	(void)events;
	if (n < 17)
		return;
	while (q < (size_t)n && m[q])
		q += m[q] + 1u;
	q += 5;
	m[2] = 0x81;
	m[3] = 0x80;
	m[7] = m[q - 3] == 1; /* an answer, if it asks for A */
	m[9] = m[11] = 0;
	if (m[7])
		memcpy(m + q, a, sizeof(a));
	(void)sendto(watch->fd, m, q + (m[7] ? sizeof(a) : 0), 0, (struct sockaddr *)&from, from_n);
}

static inline int local_socket(int type, uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0);
	CHECK(type != SOCK_STREAM || listen(fd, 64) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static inline void make_certificate(const char *names, const char *cert_file, const char *key_file)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *c = X509_new();
	X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
	FILE *f;

	CHECK(X509_set_version(c, 2) && ASN1_INTEGER_set(X509_get_serialNumber(c), 1));
	CHECK(X509_gmtime_adj(X509_getm_notBefore(c), -3600) &&
		X509_gmtime_adj(X509_getm_notAfter(c), 3600));
	CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
		(const unsigned char *)"world", -1, -1, 0));
	CHECK(X509_set_issuer_name(c, X509_get_subject_name(c)) && X509_set_pubkey(c, key));
	CHECK(X509_add_ext(c, san, -1) && X509_sign(c, key, EVP_sha256()));
	f = fopen(cert_file, "we");
	CHECK(f && PEM_write_X509(f, c));
	if (f)
		(void)fclose(f);
	f = fopen(key_file, "we");
	CHECK(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
	if (f)
		(void)fclose(f);
	X509_EXTENSION_free(san);
	X509_free(c);
	EVP_PKEY_free(key);
}

/* ---- the box ---- */

static void on_denied(const char *box, const struct denial *d, void *arg)
{
	(void)box;
	(void)arg;
	w.denied = *d;
	w.denied_n++;
}

static void on_allowed(
	const char *box, const struct denial *d, uint64_t up, uint64_t down, void *arg)
{
	(void)box;
	(void)d;
	(void)arg;
	w.allowed_n++;
	w.up = up;
	w.down = down;
}

static void on_asked(const struct egress_ask *a, void *arg)
{
	(void)arg;
	w.asked = *a;
	w.asked_n++;
}

static inline struct policy *policy_of(const char *rules)
{
	AUTO_FREE char *json = NULL;
	struct policy *p = NULL;
	struct err err = {0};

	CHECK(asprintf(&json, "{\"rules\":[%s]}", rules) > 0);
	if (!CHECK_INT(policy_from_json(json, strlen(json), &p, &err), 0))
		tap_print("# %s\n", err.msg);
	return p;
}

/* `rules` as JSON, with @P for the plain port, @T for that of TLS. 127.0.0.1 may be reached. */
static inline struct policy *policy_here(const char *rules)
{
	AUTO_BUF struct buf out = {0};
	struct policy *p;

	for (; *rules; rules++) {
		if (rules[0] == '@' && (rules[1] == 'P' || rules[1] == 'T'))
			CHECK_INT(buf_addf(&out, "%u", *++rules == 'P' ? w.plain_port : w.tls_port),
				0);
		else
			CHECK_INT(buf_add(&out, rules, 1), 0);
	}
	CHECK_INT(buf_add(&out, "", 1), 0);
	p = policy_of(buf_data(&out));
	return p;
}

static inline void world_make(const char *rules, const char *names)
{
	static const struct egress_events events = {
		.denied = on_denied, .allowed = on_allowed, .asked = on_asked};
	struct egress_config config = {0};
	struct policy *p;
	struct err err = {0};
	uint16_t port;
	int tcp, dns;

	w = (struct world){0};
	(void)snprintf(w.dir, sizeof(w.dir), "/tmp/test_intercept.XXXXXX");
	CHECK(mkdtemp(w.dir) != NULL);
	(void)snprintf(w.ca, sizeof(w.ca), "%s/ca", w.dir);
	(void)snprintf(w.cert, sizeof(w.cert), "%s/cert.pem", w.dir);
	(void)snprintf(w.key, sizeof(w.key), "%s/key.pem", w.dir);
	make_certificate(
		names ? names : "DNS:site.test,DNS:*.site.test,IP:127.0.0.1", w.cert, w.key);
	CHECK_INT(loop_create(&w.loop, &err), 0);
	CHECK_INT(tls_server(w.cert, w.key, &w.server_tls, &err), 0);
	w.plain = (struct loop_watch){local_socket(SOCK_STREAM, &w.plain_port), 0, plain_ready};
	w.tls = (struct loop_watch){local_socket(SOCK_STREAM, &w.tls_port), 0, tls_ready};
	w.dns = (struct loop_watch){local_socket(SOCK_DGRAM, &port), 0, dns_ready};
	(void)loop_watch_set(w.loop, &w.plain, EPOLLIN, &err);
	(void)loop_watch_set(w.loop, &w.tls, EPOLLIN, &err);
	(void)loop_watch_set(w.loop, &w.dns, EPOLLIN, &err);
	(void)snprintf(w.resolver, sizeof(w.resolver), "127.0.0.1:%u", port);
	config.ca_dir = w.ca;
	config.upstream_ca = w.cert;
	config.resolvers = w.resolver;
	if (!CHECK_INT(egress_create(w.loop, &config, &events, NULL, &w.engine, &err), 0))
		tap_print("# %s\n", err.msg);
	(void)snprintf(w.ca, sizeof(w.ca), "%s/ca/public/ca.pem", w.dir);
	CHECK_INT(tls_client(w.ca, &w.client_tls, &err), 0);
	p = policy_here(rules);
	tcp = local_socket(SOCK_STREAM, &port);
	dns = local_socket(SOCK_DGRAM, &port);
	CHECK_INT(egress_box_add(w.engine, "box", "", tcp, dns, p, &err), 0);
	(void)policy_unref(p);
	w.box = box_find(w.engine, "box");
}

static inline void world_done(void)
{
	static const char *const files[] = {"ca/public/ca.pem", "ca/public/bundle.pem",
		"ca/public/cacerts.jks", "ca/ca.key", "cert.pem", "key.pem"};
	static const char *const dirs[] = {"ca/public", "ca", ""};
	char path[160];

	for (size_t i = 0; i < w.served_n; i++)
		side_done(&w.served[i]);
	w.engine = egress_free(w.engine);
	quiet();
	(void)close(w.plain.fd);
	(void)close(w.tls.fd);
	(void)close(w.dns.fd);
	w.loop = loop_free(w.loop);
	w.server_tls = tls_free(w.server_tls);
	w.client_tls = tls_free(w.client_tls);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w.dir, files[i]);
		(void)unlink(path);
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w.dir, dirs[i]);
		(void)rmdir(path);
	}
}

/* One connection of the box: the client's end, and the target it stands for. */
static inline int pair(int *ret_other)
{
	uint16_t port;
	int l = local_socket(SOCK_STREAM, &port),
	    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port)};

	CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	/* cppcheck-suppress nullPointer ; nobody asks who connects */
	*ret_other = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK(*ret_other >= 0);
	(void)close(l);
	return fd;
}

enum { TLS = 1, PROXY = 2, BARE = 4 };

static inline struct flow_target target_of(const char *name, unsigned flags)
{
	struct flow_target t = {.port = flags & TLS ? w.tls_port : w.plain_port,
		.is_tls = flags & TLS,
		.is_proxy = flags & PROXY};

	if (flags & BARE)
		CHECK(address_parse(name, strlen(name), &t.addr));
	else
		(void)snprintf(t.name, sizeof(t.name), "%s", name);
	return t;
}

static inline void open_client(struct side *s, int fd, const char *name, bool is_tls)
{
	struct err err = {0};

	*s = (struct side){.got.cap = 64u << 20};
	CHECK_INT(conn_create(w.loop, fd, is_tls ? w.client_tls : NULL, false, name, &side_events,
			  s, &s->conn, &err),
		0);
}

static inline void client_open(struct side *s, const char *name, unsigned flags)
{
	struct flow_target t = target_of(name, flags);
	int far, fd = pair(&far);

	intercept_start(w.box, far, &t);
	open_client(s, fd, name, flags & TLS);
}
