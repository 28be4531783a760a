/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/mint.h"

#include "egress/mint_impl.h"
#include "io/conn.h"
#include "tap.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/test_mint.XXXXXX";

static char *in_dir(const char *name)
{
	static char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static X509 *read_pem(const char *path)
{
	FILE *f = fopen(path, "re");
	X509 *c = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;

	if (f)
		(void)fclose(f);
	return c;
}

static void many_at_once_make_one_authority(void)
{
	struct stat st;
	struct err err = {0};
	struct mint *m = NULL;
	X509 *key_cert, *pem;
	EVP_PKEY *key = NULL;

	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(mint_open(dir, NULL, &m, &err) == 0 ? 0 : 1);
	}
	for (int i = 0; i < 4; i++) {
		int status = 1;

		CHECK(wait(&status) > 0 && status == 0);
	}
	CHECK(stat(in_dir("ca.key"), &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(stat(in_dir("public/ca.pem"), &st) == 0 && (st.st_mode & 07777) == 0644);
	CHECK(stat(in_dir("public/bundle.pem"), &st) == 0);
	CHECK(stat(in_dir("public/cacerts.jks"), &st) == 0);
	CHECK_INT(mint_authority(dir, &key, &key_cert, &err), 0);
	pem = read_pem(in_dir("public/ca.pem"));
	CHECK(pem && X509_cmp(pem, key_cert) == 0 && X509_check_ca(pem) == 1);
	X509_free(pem);
	X509_free(key_cert);
	EVP_PKEY_free(key);
}

static void a_damaged_key_is_said_to_be_one(void)
{
	char other[] = "/tmp/test_mint_bad.XXXXXX";
	char path[100];
	struct mint *m = NULL;
	struct err err = {0};
	int fd;

	CHECK(mkdtemp(other) != NULL);
	(void)snprintf(path, sizeof(path), "%s/ca.key", other);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, "junk\n", 5) == 5);
	(void)close(fd);
	CHECK_INT(mint_open(other, NULL, &m, &err), -EINVAL);
	CHECK(strstr(err.msg, "damaged") != NULL && m == NULL);
	CHECK(unlink(path) == 0 && rmdir(other) == 0);
}

/* ---- the Java store ---- */

struct reader {
	const unsigned char *p;
	size_t n;
};

static uint64_t get(struct reader *r, unsigned bytes)
{
	uint64_t v = 0;

	if (!CHECK(r->n >= bytes))
		return 0;
	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | r->p[i];
	r->p += bytes;
	r->n -= bytes;
	return v;
}

static struct reader get_bytes(struct reader *r, size_t n)
{
	struct reader part = {r->p, n};

	if (!CHECK(r->n >= n))
		return (struct reader){r->p, 0};
	r->p += n;
	r->n -= n;
	return part;
}

static void java_reads_what_was_written(void)
{
	AUTO_BUF struct buf out = {0};
	X509 *ca = read_pem(in_dir("public/ca.pem")), *list[2] = {ca, ca};
	struct err err = {0};
	struct reader r;
	unsigned char digest[20];
	static const unsigned char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (!CHECK(ca != NULL))
		return;
	CHECK_INT(jks_write(list, 2, &out, &err), 0);
	r = (struct reader){(const unsigned char *)buf_data(&out), buf_len(&out)};
	CHECK(EVP_DigestInit_ex(md, EVP_sha1(), NULL) &&
		EVP_DigestUpdate(md, salt, sizeof(salt) - 1) &&
		EVP_DigestUpdate(md, r.p, r.n - 20) && EVP_DigestFinal_ex(md, digest, NULL));
	EVP_MD_CTX_free(md);
	CHECK(memcmp(r.p + r.n - 20, digest, 20) == 0);
	CHECK_INT(get(&r, 4), 0xfeedfeed);
	CHECK_INT(get(&r, 4), 2);
	CHECK_INT(get(&r, 4), 2);
	for (int i = 0; i < 2; i++) {
		struct reader alias, der;
		const unsigned char *p;
		X509 *c;

		CHECK_INT(get(&r, 4), 2);
		alias = get_bytes(&r, get(&r, 2));
		CHECK(i == 0 ? alias.n == 4 && memcmp(alias.p, "bawn", 4) == 0
			     : alias.n == 6 && memcmp(alias.p, "root-1", 6) == 0);
		CHECK(get(&r, 8) > 1500000000000);
		CHECK(get_bytes(&r, get(&r, 2)).n == 5);
		der = get_bytes(&r, get(&r, 4));
		p = der.p;
		c = d2i_X509(NULL, &p, (long)der.n);
		CHECK(c && X509_cmp(c, ca) == 0);
		X509_free(c);
	}
	CHECK_INT(r.n, 20);
	X509_free(ca);
}

/* ---- handshakes ---- */

struct side {
	struct conn *conn;
	size_t n;
	bool is_closed;
	struct err why;
};

static size_t on_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct side *s = arg;

	(void)c;
	(void)p;
	s->n += n;
	return n;
}

static void on_closed(struct conn *c, const struct err *err, void *arg)
{
	struct side *s = arg;

	(void)c;
	s->is_closed = true;
	s->why = *err;
}

static const struct conn_events events = {.read = on_read, .closed = on_closed};

/* True if a client that trusts the authority takes the leaf for `verify`. */
static bool shakes(struct mint *m, const char *verify, const char *peer)
{
	struct loop *l = NULL;
	struct tls *trusting = NULL;
	struct side client = {0}, server = {0};
	struct err err = {0};
	int sv[2];
	bool ok;

	CHECK(loop_create(&l, &err) == 0 &&
		tls_client(in_dir("public/ca.pem"), &trusting, &err) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	CHECK(conn_create(l, sv[0], mint_server(m), true, peer, &events, &server, &server.conn,
		      &err) == 0);
	CHECK(conn_create(l, sv[1], trusting, false, verify, &events, &client, &client.conn,
		      &err) == 0);
	conn_write(client.conn, "hello", 5);
	for (int i = 0; i < 200 && server.n < 5 && !client.is_closed && !server.is_closed; i++)
		(void)loop_once(l, 20, &err);
	ok = server.n == 5;
	if (!client.is_closed)
		conn_abort(client.conn);
	if (!server.is_closed)
		conn_abort(server.conn);
	(void)loop_free(l);
	(void)tls_free(trusting);
	return ok;
}

static struct mint *mint;

static void leaves_are_for_the_name_in_the_hello(void)
{
	uint64_t before = mint_count(mint);

	CHECK(shakes(mint, "pypi.org", "other.test"));
	CHECK(shakes(mint, "PyPI.org", "other.test"));
	CHECK_INT(mint_count(mint), before + 1);
	CHECK(shakes(mint,
		"a-very-long-label-that-would-not-fit-into-a-common-name.of-sixty-four.bytes."
		"example.test",
		NULL));
	CHECK_INT(mint_count(mint), before + 2);
}

static void a_bare_address_is_an_address_in_the_leaf(void)
{
	CHECK(shakes(mint, "93.184.216.34", "93.184.216.34"));
	CHECK(shakes(mint, "2001:db8::1", "2001:db8::1"));
	CHECK(!shakes(mint, "93.184.216.34", "93.184.216.35"));
}

static void strange_names_get_no_leaf(void)
{
	uint64_t before = mint_count(mint);

	CHECK(!shakes(mint, "bad name.test", "fine.test"));
	CHECK(!shakes(mint, "a..b", "fine.test"));
	CHECK(!shakes(mint, "<script>.test", "fine.test"));
	CHECK_INT(mint_count(mint), before);
}

static void the_cache_is_bounded(void)
{
	uint64_t before = mint_count(mint);
	char name[40];

	for (int i = 0; i < 1100; i++) {
		(void)snprintf(name, sizeof(name), "h%d.test", i);
		if (i % 50 == 0 || i > 1090) /* a handshake each would only take time */
			CHECK(shakes(mint, name, NULL));
	}
	CHECK(mint_count(mint) > before);
	CHECK(shakes(mint, "h0.test", NULL));
}

static void other_roots_stand_in_the_bundle(void)
{
	AUTO_FREE char *roots = strdup(in_dir("public/ca.pem"));
	char other[] = "/tmp/test_mint_roots.XXXXXX", path[100], line[300];
	struct mint *m = NULL;
	struct err err = {0};
	int n = 0;
	FILE *f;

	CHECK(mkdtemp(other) != NULL);
	CHECK_INT(mint_open(other, roots, &m, &err), 0);
	(void)mint_free(m);
	(void)snprintf(path, sizeof(path), "%s/public/bundle.pem", other);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		n += strncmp(line, "-----BEGIN CERT", 15) == 0;
	if (f)
		(void)fclose(f);
	CHECK_INT(n, 2);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"ca.pem", "bundle.pem", "cacerts.jks"};

		(void)snprintf(path, sizeof(path), "%s/public/%s", other, names[i]);
		CHECK(unlink(path) == 0);
	}
	(void)snprintf(path, sizeof(path), "%s/public", other);
	CHECK(rmdir(path) == 0);
	(void)snprintf(path, sizeof(path), "%s/ca.key", other);
	CHECK(unlink(path) == 0 && rmdir(other) == 0); /* and nothing else was there */
}

int main(void)
{
	struct err err = {0};

	CHECK(mkdtemp(dir) != NULL);
	RUN(many_at_once_make_one_authority);
	RUN(a_damaged_key_is_said_to_be_one);
	RUN(java_reads_what_was_written);
	CHECK_INT(mint_open(dir, NULL, &mint, &err), 0);
	RUN(leaves_are_for_the_name_in_the_hello);
	RUN(a_bare_address_is_an_address_in_the_leaf);
	RUN(strange_names_get_no_leaf);
	RUN(the_cache_is_bounded);
	RUN(other_roots_stand_in_the_bundle);
	mint = mint_free(mint);
	(void)unlink(in_dir("public/ca.pem"));
	(void)unlink(in_dir("public/bundle.pem"));
	(void)unlink(in_dir("public/cacerts.jks"));
	(void)rmdir(in_dir("public"));
	(void)unlink(in_dir("ca.key"));
	CHECK(rmdir(dir) == 0);
	return tap_done();
}
