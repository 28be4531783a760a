/* SPDX-License-Identifier: Apache-2.0 */

/* OpenSSL behind the functions of tls_impl.h. */
#include "io/tls.h"

#include "base/mem.h"
#include "io/tls_impl.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct context {
	struct tls tls; /* first */
	SSL_CTX *ctx;
	tls_choose_fn choose; /* servers; NULL: one certificate for all */
	void *arg;
};

struct session {
	SSL *ssl;
	char *peer;    /* for choose(); owned */
	char why[200]; /* of the last failure */
};

/* ---- one connection ---- */

/* What failed, from the queue of this thread, which is then empty. */
static void explain(struct session *s)
{
	unsigned long code = ERR_get_error();
	long verdict = SSL_get_verify_result(s->ssl);

	if (verdict != X509_V_OK)
		(void)snprintf(s->why, sizeof(s->why), "certificate: %s",
			X509_verify_cert_error_string(verdict));
	else if (code != 0)
		(void)snprintf(s->why, sizeof(s->why), "tls: %s",
			ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "error");
	ERR_clear_error();
}

static ssize_t verdict(struct session *s, int r, uint32_t *want)
{
	int saved = errno;

	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ: *want = EPOLLIN; return -EAGAIN;
	case SSL_ERROR_WANT_WRITE: *want = EPOLLOUT; return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: return 0;
	case SSL_ERROR_SYSCALL: ERR_clear_error(); return saved != 0 ? -saved : -ECONNRESET;
	default: explain(s); return -EPROTO;
	}
}

static ssize_t session_read(void *session, void *p, size_t n, uint32_t *want)
{
	struct session *s = session;
	int r;

	/* A stale error of another connection would be taken for one of ours. */
	ERR_clear_error();
	errno = 0;
	r = SSL_read(s->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
	return r > 0 ? r : verdict(s, r, want);
}

static ssize_t session_write(void *session, const void *p, size_t n, uint32_t *want)
{
	struct session *s = session;
	ssize_t v;
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_write(s->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
	if (r > 0)
		return r;
	v = verdict(s, r, want);
	return v == 0 ? -EPIPE : v;
}

static const char *session_why(void *session)
{
	return ((struct session *)session)->why;
}

static void session_shutdown(void *session)
{
	ERR_clear_error();
	(void)SSL_shutdown(((struct session *)session)->ssl); /* the FIN follows either way */
	ERR_clear_error();
}

static void session_close(void *session)
{
	struct session *s = session;

	SSL_free(s->ssl);
	free(s->peer);
	free(s);
}

/* Whom a client wants to reach: the certificate must say the same. */
static bool expect_peer(SSL *ssl, const char *peer)
{
	unsigned char address[16];
	char name[256]; /* OpenSSL's macro casts const away, and clang says so */

	if (inet_pton(AF_INET, peer, address) == 1 || inet_pton(AF_INET6, peer, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), peer) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (snprintf(name, sizeof(name), "%s", peer) >= (int)sizeof(name))
		return false;
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, peer) == 1;
}

static int session_open(
	struct tls *t, int fd, bool is_server, const char *peer, void **ret, struct err *err)
{
	struct context *c = (struct context *)t;
	SSL *ssl = SSL_new(c->ctx);
	struct session *s;

	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return err_set(err, ENOMEM, "make a TLS connection");
	}
	if (is_server) {
		SSL_set_accept_state(ssl);
	} else {
		SSL_set_connect_state(ssl);
		if (!peer || !expect_peer(ssl, peer)) {
			SSL_free(ssl);
			ERR_clear_error();
			return err_set(err, EINVAL, "no name to check the peer's certificate by");
		}
	}
	s = MEM_NEW(struct session);
	s->ssl = ssl;
	if (c->choose && peer)
		s->peer = mem_strdup(peer);
	(void)SSL_set_app_data(ssl, s);
	*ret = s;
	return 0;
}

static const struct tls_ops ops = {
	.open = session_open,
	.read = session_read,
	.write = session_write,
	.why = session_why,
	.shutdown = session_shutdown,
	.close = session_close,
};

/* ---- contexts ---- */

static int fail(struct err *err, const char *what, const char *name)
{
	unsigned long code = ERR_get_error();
	const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(err, EINVAL, "%s '%s': %s", what, name, reason ? reason : "failed");
}

/* http/1.1 if it is among what the client offers; else go on without. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n,
	const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen = NULL;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_n, ours, sizeof(ours) - 1, in, in_n) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static struct context *make_context(const SSL_METHOD *method)
{
	struct context *c = MEM_NEW(struct context);

	/* The library writes without MSG_NOSIGNAL: a peer that left must not end the process. */
	(void)signal(SIGPIPE, SIG_IGN);
	c->tls.ops = &ops;
	c->ctx = mem_must(SSL_CTX_new(method));
	(void)SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
	/* Our queue moves between two tries of one write; idle connections hold no buffers. */
	(void)SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					       SSL_MODE_RELEASE_BUFFERS);
	/* A record in one system call, not its head and then its body; conn reads until there is
	 * no more, so what was read ahead is never forgotten. */
	SSL_CTX_set_read_ahead(c->ctx, 1);
	/* Renegotiation lets a client cost us a handshake whenever it likes. */
	(void)SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION);
	return c;
}

int tls_server(const char *cert_file, const char *key_file, struct tls **ret, struct err *err)
{
	struct context *c = make_context(TLS_server_method());
	int r = 0;

	SSL_CTX_set_alpn_select_cb(c->ctx, choose_protocol, NULL);
	if (SSL_CTX_use_certificate_chain_file(c->ctx, cert_file) != 1)
		r = fail(err, "certificate", cert_file);
	else if (SSL_CTX_use_PrivateKey_file(c->ctx, key_file, SSL_FILETYPE_PEM) != 1)
		r = fail(err, "private key", key_file);
	else if (SSL_CTX_check_private_key(c->ctx) != 1)
		r = fail(err, "private key of another certificate", key_file);
	if (r < 0) {
		(void)tls_free(&c->tls);
		return r;
	}
	*ret = &c->tls;
	return 0;
}

static int choose_certificate(SSL *ssl, void *arg)
{
	struct context *c = arg;
	struct session *s = SSL_get_app_data(ssl);
	const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	return c->choose(ssl, asked, s->peer, c->arg);
}

int tls_server_choosing(tls_choose_fn choose, void *arg, struct tls **ret, struct err *err)
{
	static const unsigned char ours[] = "bawn";
	struct context *c = make_context(TLS_server_method());

	c->choose = choose;
	c->arg = arg;
	SSL_CTX_set_alpn_select_cb(c->ctx, choose_protocol, NULL);
	SSL_CTX_set_cert_cb(c->ctx, choose_certificate, c);
	/* One ticket, held by the client: nothing is kept here for connections that are gone. */
	(void)SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(c->ctx, 1);
	if (SSL_CTX_set_session_id_context(c->ctx, ours, sizeof(ours) - 1) != 1) {
		(void)tls_free(&c->tls);
		return fail(err, "sessions of", "a server");
	}
	*ret = &c->tls;
	return 0;
}

int tls_client(const char *ca_file, struct tls **ret, struct err *err)
{
	struct context *c = make_context(TLS_client_method());
	static const unsigned char ours[] = "\x08http/1.1";
	int r = 0;

	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_alpn_protos(c->ctx, ours, sizeof(ours) - 1);
	if (ca_file && SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
		r = fail(err, "certificates of authorities", ca_file);
	else if (!ca_file && SSL_CTX_set_default_verify_paths(c->ctx) != 1)
		r = fail(err, "certificates of authorities", "the system's");
	if (r < 0) {
		(void)tls_free(&c->tls);
		return r;
	}
	*ret = &c->tls;
	return 0;
}

struct tls *tls_free(struct tls *t)
{
	struct context *c = (struct context *)t;

	if (c)
		SSL_CTX_free(c->ctx);
	free(c);
	return NULL;
}
