/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the mint keeps on disk.
 *
 * ca.key holds key and certificate in one file, so that the two cannot part; it appears whole by
 * link(2), and who comes second reads what the first one made. The public files follow from it and
 * from the roots alone: two processes that write them at once write the same.
 */
#include "base/mem.h"
#include "egress/mint_impl.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>

#define AUTHORITY_DAYS 3650
#define FILE_MAX       (8u << 20)
#define ROOTS_MAX      2000

/* ---- files ---- */

/* -ENOENT is left to the caller. */
static int read_file(int dir_fd, const char *name, struct buf *out, struct err *err)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	if (fd < 0)
		return err_sys(err, "open '%s'", name);
	out->cap = FILE_MAX;
	while (n > 0) {
		char *p = buf_reserve(out, 65536);

		if (!p)
			return err_set(err, EFBIG, "read '%s'", name);
		n = read(fd, p, 65536);
		if (n > 0)
			buf_commit(out, (size_t)n);
	}
	return n < 0 ? err_sys(err, "read '%s'", name) : 0;
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		n -= (size_t)r;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* A whole file under a name of its own; the caller renames or links it, then unlinks it. */
static int write_aside(
	int dir_fd, mode_t mode, const struct buf *text, char name[40], struct err *err)
{
	AUTO_FD int fd = -EBADF;
	uint64_t random;
	int r;

	if (RAND_bytes((unsigned char *)&random, sizeof(random)) != 1)
		return err_set(err, EIO, "no random numbers");
	(void)snprintf(name, 40, ".%016llx.new", (unsigned long long)random);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_sys(err, "create a file");
	/* Whatever the umask is: boxes read the public ones. */
	r = fchmod(fd, mode) < 0 ? -errno : write_all(fd, buf_data(text), buf_len(text));
	if (r < 0) {
		(void)unlinkat(dir_fd, name, 0);
		return err_set(err, -r, "write a file");
	}
	return 0;
}

static int replace_file(int dir_fd, const char *name, const struct buf *text, struct err *err)
{
	AUTO_BUF struct buf old = {0};
	struct err ignored = {0};
	char aside[40];
	int r;

	if (read_file(dir_fd, name, &old, &ignored) == 0 && buf_len(&old) == buf_len(text) &&
		memcmp(buf_data(&old), buf_data(text), buf_len(text)) == 0)
		return 0;
	r = write_aside(dir_fd, 0644, text, aside, err);
	if (r < 0)
		return r;
	if (renameat(dir_fd, aside, dir_fd, name) < 0) {
		r = err_sys(err, "rename to '%s'", name);
		(void)unlinkat(dir_fd, aside, 0);
		return r;
	}
	return fsync(dir_fd) < 0 ? err_sys(err, "fsync the directory of '%s'", name) : 0;
}

static int open_dir(int at_fd, const char *path, mode_t mode, struct err *err)
{
	int fd;

	if (mkdirat(at_fd, path, mode) < 0 && errno != EEXIST)
		return err_sys(err, "mkdir '%s'", path);
	fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(err, "open '%s'", path) : fd;
}

/* ---- the authority ---- */

static bool add_ext(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e && X509_add_ext(cert, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

/*
 * Two installations on one machine have different names, so that their roots can stand side by
 * side.
 */
static bool set_name(X509 *cert, const unsigned char serial[16])
{
	X509_NAME *name = X509_get_subject_name(cert);
	char cn[64];

	(void)snprintf(cn, sizeof(cn), "Bawn sandbox authority %02x%02x%02x%02x", serial[1],
		serial[2], serial[3], serial[4]);
	return X509_NAME_add_entry_by_txt(
		       name, "O", MBSTRING_ASC, (const unsigned char *)"Bawn", -1, -1, 0) == 1 &&
	       X509_NAME_add_entry_by_txt(
		       name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, name) == 1;
}

static X509 *make_certificate(EVP_PKEY *key)
{
	X509 *c = X509_new();
	unsigned char serial[16];
	bool ok = c && RAND_bytes(serial, sizeof(serial)) == 1;

	if (ok) {
		serial[0] = (serial[0] & 0x3f) | 0x40;
		ok = X509_set_version(c, 2) == 1 &&
		     ASN1_STRING_set(X509_get_serialNumber(c), serial, sizeof(serial)) == 1 &&
		     X509_gmtime_adj(X509_getm_notBefore(c), -86400) != NULL &&
		     X509_gmtime_adj(X509_getm_notAfter(c), AUTHORITY_DAYS * 86400L) != NULL &&
		     set_name(c, serial) && X509_set_pubkey(c, key) == 1 &&
		     add_ext(c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		     add_ext(c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		     add_ext(c, NID_subject_key_identifier, "hash") &&
		     X509_sign(c, key, EVP_sha256()) > 0;
	}
	if (ok)
		return c;
	X509_free(c);
	return NULL;
}

static bool add_pem(BIO *bio, struct buf *out)
{
	char *p = NULL;
	long n = BIO_get_mem_data(bio, &p);

	return n > 0 && buf_add(out, p, (size_t)n) == 0;
}

static int make_key_file(int dir_fd, struct err *err)
{
	AUTO_BUF struct buf text = {0};
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = key ? make_certificate(key) : NULL;
	BIO *bio = BIO_new(BIO_s_secmem());
	bool ok = cert && bio &&
		  PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 &&
		  PEM_write_bio_X509(bio, cert) == 1 && add_pem(bio, &text);
	char aside[40];
	int r;

	EVP_PKEY_free(key);
	X509_free(cert);
	BIO_free(bio);
	ERR_clear_error();
	if (!ok)
		return err_set(err, EIO, "make a certificate authority");
	r = write_aside(dir_fd, 0600, &text, aside, err);
	OPENSSL_cleanse(text.p, text.size);
	if (r < 0)
		return r;
	/* Not rename(): another process may have put its own there in the meantime. */
	if (linkat(dir_fd, aside, dir_fd, "ca.key", 0) < 0 && errno != EEXIST)
		r = err_sys(err, "link 'ca.key'");
	(void)unlinkat(dir_fd, aside, 0);
	if (r == 0 && fsync(dir_fd) < 0)
		r = err_sys(err, "fsync");
	return r;
}

static int read_key_file(int dir_fd, EVP_PKEY **ret_key, X509 **ret_cert, struct err *err)
{
	AUTO_BUF struct buf text = {0};
	int r = read_file(dir_fd, "ca.key", &text, err);
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	BIO *bio;

	if (r < 0)
		return r;
	bio = mem_must(BIO_new_mem_buf(buf_data(&text), (int)buf_len(&text)));
	key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	cert = key ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	if (text.p)
		OPENSSL_cleanse(text.p, text.size);
	ERR_clear_error();
	if (!cert || X509_check_private_key(cert, key) != 1 ||
		X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
		X509_free(cert);
		EVP_PKEY_free(key);
		ERR_clear_error();
		return err_set(err, EINVAL,
			"'ca.key' is damaged or out of date; remove it, and a new one is made");
	}
	*ret_key = key;
	*ret_cert = cert;
	return 0;
}

int mint_authority(const char *dir, EVP_PKEY **ret_key, X509 **ret_cert, struct err *err)
{
	AUTO_FD int fd = open_dir(AT_FDCWD, dir, 0700, err);
	int r;

	if (fd < 0)
		return fd;
	r = read_key_file(fd, ret_key, ret_cert, err);
	if (r == -ENOENT) {
		r = make_key_file(fd, err);
		if (r == 0)
			r = read_key_file(fd, ret_key, ret_cert, err);
	}
	return r < 0 ? err_wrap(err, "certificate authority in '%s'", dir) : 0;
}

/* ---- what boxes read ---- */

static int read_roots(const char *roots, struct buf *out, struct err *err)
{
	static const char *const systems[] = {
		"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
		"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
		"/etc/ssl/ca-bundle.pem",             /* SUSE */
		"/etc/ssl/cert.pem",                  /* Alpine */
	};
	struct err ignored = {0};

	if (roots)
		return read_file(AT_FDCWD, roots, out, err);
	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
		if (read_file(AT_FDCWD, systems[i], out, &ignored) == 0)
			return 0;
	return 0; /* then ours is the only one */
}

/* One that is not a certificate ends the list: so do the programs that read the bundle. */
static size_t parse_roots(const struct buf *pem, X509 **certs, size_t n, size_t max)
{
	BIO *bio = mem_must(BIO_new_mem_buf(buf_data(pem), (int)buf_len(pem)));

	while (n < max && (certs[n] = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
		n++;
	BIO_free(bio);
	ERR_clear_error();
	return n;
}

static int publish_java(int fd, X509 *authority, const struct buf *roots, struct err *err)
{
	AUTO_BUF struct buf jks = {.cap = FILE_MAX};
	AUTO_FREE X509 **certs = mem_must(calloc(ROOTS_MAX, sizeof(X509 *)));
	size_t n;
	int r;

	certs[0] = authority;
	n = parse_roots(roots, certs, 1, ROOTS_MAX);
	r = jks_write(certs, n, &jks, err);
	while (n > 1)
		X509_free(certs[--n]);
	return r < 0 ? r : replace_file(fd, "cacerts.jks", &jks, err);
}

int mint_publish(const char *dir, const char *roots, X509 *authority, struct err *err)
{
	AUTO_FD int dir_fd = open_dir(AT_FDCWD, dir, 0700, err);
	AUTO_FD int fd = dir_fd < 0 ? -EBADF : open_dir(dir_fd, "public", 0755, err);
	AUTO_BUF struct buf ours = {0};
	AUTO_BUF struct buf bundle = {.cap = FILE_MAX};
	BIO *bio = mem_must(BIO_new(BIO_s_mem()));
	bool ok = PEM_write_bio_X509(bio, authority) == 1 && add_pem(bio, &ours);
	int r = fd < 0 ? -err->code : 0;

	BIO_free(bio);
	if (r == 0 && !ok)
		r = err_set(err, ENOMEM, "write a certificate");
	if (r == 0 && fchmod(fd, 0755) < 0)
		r = err_sys(err, "chmod 'public'");
	if (r == 0)
		r = read_roots(roots, &bundle, err);
	if (r == 0)
		r = publish_java(fd, authority, &bundle, err);
	if (r == 0)
		r = replace_file(fd, "ca.pem", &ours, err);
	if (r == 0 && (buf_add(&bundle, "\n", 1) < 0 ||
			      buf_add(&bundle, buf_data(&ours), buf_len(&ours)) < 0))
		r = err_set(err, EFBIG, "the list of roots is too long");
	if (r == 0)
		r = replace_file(fd, "bundle.pem", &bundle, err);
	return r < 0 ? err_wrap(err, "certificates in '%s/public'", dir) : 0;
}
