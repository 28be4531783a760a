/* SPDX-License-Identifier: Apache-2.0 */

/* A server with a certificate made here, and clients that trust it or do not. */
#include "io/tls.h"

#include "http_world.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

static char dir[] = "/tmp/test_tls.XXXXXX";
static char cert_file[100], key_file[100], other_key[100];

static void write_key(EVP_PKEY *key, const char *path)
{
	FILE *f = fopen(path, "we");

	CHECK(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
	if (f)
		(void)fclose(f);
}

static void write_cert(EVP_PKEY *key, const char *path)
{
	X509 *c = X509_new();
	X509_EXTENSION *san =
		X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:bawn.test,IP:127.0.0.1");
	FILE *f = fopen(path, "we");

	CHECK(X509_set_version(c, 2) == 1);
	CHECK(ASN1_INTEGER_set(X509_get_serialNumber(c), 1) == 1);
	CHECK(X509_gmtime_adj(X509_getm_notBefore(c), -3600) != NULL);
	CHECK(X509_gmtime_adj(X509_getm_notAfter(c), 3600) != NULL);
	CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
		      (const unsigned char *)"test", -1, -1, 0) == 1);
	CHECK(X509_set_issuer_name(c, X509_get_subject_name(c)) == 1);
	CHECK(X509_set_pubkey(c, key) == 1 && X509_add_ext(c, san, -1) == 1);
	CHECK(X509_sign(c, key, EVP_sha256()) > 0);
	CHECK(f && PEM_write_X509(f, c) == 1);
	if (f)
		(void)fclose(f);
	X509_EXTENSION_free(san);
	X509_free(c);
}

static void make_files(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");

	CHECK(mkdtemp(dir) && key && other);
	(void)snprintf(cert_file, sizeof(cert_file), "%s/cert.pem", dir);
	(void)snprintf(key_file, sizeof(key_file), "%s/key.pem", dir);
	(void)snprintf(other_key, sizeof(other_key), "%s/other.pem", dir);
	write_key(key, key_file);
	write_key(other, other_key);
	write_cert(key, cert_file);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
}

#define BIG (8u << 20)
static char block[65536];

static void echo(struct http_request *r, const char *body, size_t n, void *arg)
{
	(void)arg;
	http_reply(r, 200, NULL, body, n);
}

static size_t big_left;

static void more(struct http_request *r)
{
	while (big_left > 0 && http_queued(r) <= CONN_HIGH) {
		http_write(r, block, sizeof(block));
		big_left -= sizeof(block);
	}
	if (big_left == 0)
		http_end(r);
}

static void handle(struct http_request *r, void *arg)
{
	(void)arg;
	CHECK(r->is_tls);
	if (h1_is(r->path, "/big")) {
		big_left = BIG;
		http_set_drained(r, more);
		http_begin(r, 200, NULL, BIG);
		more(r);
		return;
	}
	http_collect(r, 2u << 20, echo, NULL);
}

struct client {
	struct conn *conn;
	size_t n;       /* bytes that came */
	char head[600]; /* the first of them */
	bool is_closed, has_paused;
	struct err why;
};

static size_t client_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct client *k = arg;

	for (size_t i = 0; i < n && k->n + i < sizeof(k->head) - 1; i++)
		k->head[k->n + i] = p[i];
	k->n += n;
	/* Once in the middle: what the library holds must come without a new event. */
	if (k->n > 100000 && !k->has_paused) {
		k->has_paused = true;
		conn_pause(c);
	}
	return n;
}

static void client_closed(struct conn *c, const struct err *err, void *arg)
{
	struct client *k = arg;

	(void)c;
	k->is_closed = true;
	k->why = *err;
}

static const struct conn_events client_events = {.read = client_read, .closed = client_closed};

static void start(struct world *w, struct client *k, struct tls *tls, const char *name)
{
	*k = (struct client){0};
	CHECK_INT(conn_create(w->loop, world_connect(w), tls, false, name, &client_events, k,
			  &k->conn, &k->why),
		0);
}

static void turn_until(struct world *w, struct client *k, size_t n)
{
	struct err err;

	for (int i = 0; i < 20000 && k->n < n && !k->is_closed; i++) {
		(void)loop_once(w->loop, 10, &err);
		if (k->has_paused)
			conn_resume(k->conn);
	}
}

static void requests_go_through(void)
{
	struct tls *server = NULL, *client = NULL;
	struct world w;
	struct client k;
	struct err err = {0};
	size_t head_n;

	if (!CHECK_INT(tls_server(cert_file, key_file, &server, &err), 0) ||
		!CHECK_INT(tls_client(cert_file, &client, &err), 0)) {
		tap_print("# %s\n", err.msg);
		return;
	}
	w = world_make(handle, server);
	for (int i = 0; i < 2; i++) {
		start(&w, &k, client, i == 0 ? "bawn.test" : "127.0.0.1");
		conn_write(
			k.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 52);
		turn_until(&w, &k, 60);
		if (!CHECK(strncmp(k.head, "HTTP/1.1 200 OK\r\n", 17) == 0))
			tap_print("# %d %zu %s: %s\n", k.is_closed, k.n, k.why.msg, k.head);
		CHECK(strstr(k.head, "\r\n\r\nhello"));
		if (!k.is_closed)
			conn_finish(k.conn);
	}
	start(&w, &k, client, "bawn.test");
	conn_write(k.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n", 53);
	for (int i = 0; i < 16; i++)
		conn_write(k.conn, block, sizeof(block));
	turn_until(&w, &k, 1048576 + 50);
	CHECK(k.n > 1048576 && k.n < 1048576 + 600 && !k.is_closed);
	k.n = 0;
	k.has_paused = false;
	conn_write(k.conn, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 30);
	turn_until(&w, &k, BIG + 50);
	head_n = (size_t)(strstr(k.head, "\r\n\r\n") + 4 - k.head);
	turn_until(&w, &k, BIG + head_n);
	CHECK_INT(k.n, BIG + head_n);
	conn_finish(k.conn);
	world_turn(&w);
	world_done(&w);
	(void)tls_free(server);
	(void)tls_free(client);
}

static void wrong_names_and_strangers_are_refused(void)
{
	struct tls *server = NULL, *client = NULL, *system = NULL;
	struct world w;
	struct client k;
	struct err err = {0};

	CHECK_INT(tls_server(cert_file, key_file, &server, &err), 0);
	CHECK_INT(tls_client(cert_file, &client, &err), 0);
	CHECK_INT(tls_client(NULL, &system, &err), 0);
	w = world_make(handle, server);
	start(&w, &k, client, "other.test");
	turn_until(&w, &k, 1);
	CHECK(k.is_closed && k.why.code == EPROTO && strstr(k.why.msg, "certificate: "));
	start(&w, &k, client, "127.0.0.2");
	turn_until(&w, &k, 1);
	CHECK(k.is_closed && strstr(k.why.msg, "certificate: "));
	start(&w, &k, system, "bawn.test");
	turn_until(&w, &k, 1);
	CHECK(k.is_closed && strstr(k.why.msg, "certificate: "));
	/* And one that speaks no TLS at all gets nothing from us. */
	start(&w, &k, NULL, NULL);
	conn_write(k.conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
	turn_until(&w, &k, 1000);
	CHECK(k.is_closed && strncmp(k.head, "HTTP", 4) != 0);
	world_done(&w);
	(void)tls_free(server);
	(void)tls_free(client);
	(void)tls_free(system);
}

static void bad_files_are_named(void)
{
	struct tls *t = NULL;
	struct err err = {0};

	CHECK_INT(tls_server("/nowhere.pem", key_file, &t, &err), -EINVAL);
	CHECK(strstr(err.msg, "certificate '/nowhere.pem'"));
	CHECK_INT(tls_server(cert_file, cert_file, &t, &err), -EINVAL);
	CHECK_INT(tls_server(cert_file, other_key, &t, &err), -EINVAL);
	CHECK_INT(tls_client("/nowhere.pem", &t, &err), -EINVAL);
	CHECK(t == NULL);
}

int main(void)
{
	make_files();
	RUN(requests_go_through);
	RUN(wrong_names_and_strangers_are_refused);
	RUN(bad_files_are_named);
	(void)unlink(cert_file);
	(void)unlink(key_file);
	(void)unlink(other_key);
	(void)rmdir(dir);
	return tap_done();
}
