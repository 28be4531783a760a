/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/seal_key.h"

#include "base/text.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>

#define SALT        16
#define CHECK       8 /* bytes of a hash of the key: a wrong passphrase is told at once */
#define FILE_KEY    "key"
#define FILE_SCRYPT "key.scrypt"

/* 64 MiB and about a fifth of a second, once per start. */
#define SCRYPT_N   (1u << 16)
#define SCRYPT_R   8
#define SCRYPT_P   1
#define SCRYPT_MAX (96u << 20)

/* All there is, up to size bytes; -E2BIG if it is more. */
static ssize_t read_all(int fd, void *p, size_t size, const char *what, struct err *err)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = read(fd, (char *)p + n, size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "read '%s'", what);
		if (got == 0)
			return (ssize_t)n;
		n += (size_t)got;
	}
	return err_set(err, E2BIG, "'%s' is too long", what);
}

/* A key from elsewhere may be of any length: what we use is a hash of it. */
static int key_from(int fd, const char *what, unsigned char key[SEAL_KEY], struct err *err)
{
	static const char about[] = "bawn secrets key";
	unsigned char text[4096];
	ssize_t n;

	memcpy(text, about, sizeof(about));
	n = read_all(fd, text + sizeof(about), sizeof(text) - sizeof(about), what, err);
	if (n >= 0 && n < SEAL_KEY)
		n = err_set(err, EINVAL, "'%s' is shorter than %d bytes", what, SEAL_KEY);
	if (n >= 0)
		(void)SHA256(text, sizeof(about) + (size_t)n, key);
	OPENSSL_cleanse(text, sizeof(text));
	return n < 0 ? (int)n : 0;
}

/* $CREDENTIALS_DIRECTORY/name, or -ENOENT without an error. */
static int open_credential(const char *name)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	AUTO_FREE char *path = dir && *dir ? text_format("%s/%s", dir, name) : NULL;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	return fd < 0 ? -ENOENT : fd;
}

/* ---- passphrase ---- */

static int get_passphrase(
	const struct sealer_config *c, char out[SEAL_PASSPHRASE_MAX], struct err *err)
{
	const char *path = getenv("BAWN_PASSPHRASE_FILE");
	AUTO_FD int fd = -EBADF;
	ssize_t n;

	if (path && *path) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(err, "open BAWN_PASSPHRASE_FILE");
	} else {
		fd = open_credential("bawn-secrets-passphrase");
	}
	if (fd < 0 && c->ask)
		return c->ask(out, c->arg, err);
	if (fd < 0) {
		(void)err_set(err, ENOKEY, "secrets are sealed with a passphrase");
		return err_hint(err, "name a file that holds it in BAWN_PASSPHRASE_FILE");
	}
	n = read_all(fd, out, SEAL_PASSPHRASE_MAX - 1, "the passphrase", err);
	if (n < 0)
		return (int)n;
	out[n] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	return 0;
}

static int stretch(const char *passphrase, const unsigned char salt[SALT],
	unsigned char key[SEAL_KEY], struct err *err)
{
	if (EVP_PBE_scrypt(passphrase, strlen(passphrase), salt, SALT, SCRYPT_N, SCRYPT_R, SCRYPT_P,
		    SCRYPT_MAX, key, SEAL_KEY) != 1)
		return err_set(err, ENOMEM, "the passphrase cannot be turned into a key");
	return 0;
}

static void check_of(const unsigned char key[SEAL_KEY], unsigned char out[SHA256_DIGEST_LENGTH])
{
	unsigned char text[SEAL_KEY + 5] = "check";

	memcpy(text + 5, key, SEAL_KEY);
	(void)SHA256(text, sizeof(text), out);
	OPENSSL_cleanse(text, sizeof(text));
}

static int key_from_passphrase(
	const struct sealer_config *c, int fd, unsigned char key[SEAL_KEY], struct err *err)
{
	unsigned char file[SALT + CHECK + 1], check[SHA256_DIGEST_LENGTH];
	char passphrase[SEAL_PASSPHRASE_MAX];
	ssize_t n = read_all(fd, file, sizeof(file), FILE_SCRYPT, err);
	int r;

	if (n < 0)
		return (int)n;
	if (n != SALT + CHECK)
		return err_set(err, EBADMSG, "'%s/" FILE_SCRYPT "' is damaged", c->dir);
	r = get_passphrase(c, passphrase, err);
	if (r >= 0)
		r = stretch(passphrase, file, key, err);
	OPENSSL_cleanse(passphrase, sizeof(passphrase));
	if (r < 0)
		return r;
	check_of(key, check);
	if (CRYPTO_memcmp(check, file + SALT, CHECK) != 0)
		return err_set(err, EKEYREJECTED, "the passphrase is not the right one");
	return 0;
}

/* ---- files ---- */

/* Whole, durable, and never over one that is there: -EEXIST. */
static int write_new(int dir, const char *name, const unsigned char *p, size_t n, struct err *err)
{
	AUTO_FD int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	AUTO_FREE char *fresh = NULL;
	bool is_named = false;
	int r = 0;

	if (fd < 0) { /* a file system without nameless files */
		fresh = text_format(".%s.%d", name, getpid());
		fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		is_named = true;
	}
	if (fd < 0 || write(fd, p, n) != (ssize_t)n || fsync(fd) < 0)
		r = err_sys(err, "write '%s'", name);
	if (r == 0 && !is_named)
		fresh = text_format("/proc/self/fd/%d", fd);
	if (r == 0 && linkat(is_named ? dir : AT_FDCWD, fresh, dir, name,
			      is_named ? 0 : AT_SYMLINK_FOLLOW) < 0)
		r = err_sys(err, "make '%s'", name);
	if (is_named)
		(void)unlinkat(dir, fresh, 0);
	if (r == 0 && fsync(dir) < 0)
		r = err_sys(err, "make '%s'", name);
	return r;
}

static int open_dir(const char *path, bool may_make, struct err *err)
{
	int fd;

	if (may_make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "make the directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(err, "open the directory '%s'", path) : fd;
}

/* The key file, made if it is missing; two at once: the first one's stands. */
static int key_from_file(
	const struct sealer_config *c, int dir, unsigned char key[SEAL_KEY], struct err *err)
{
	AUTO_FD int fd = openat(dir, FILE_KEY, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && errno == ENOENT && c->may_make) {
		int r;

		if (RAND_bytes(key, SEAL_KEY) != 1)
			return err_set(err, EIO, "no random numbers for a key");
		r = write_new(dir, FILE_KEY, key, SEAL_KEY, err);
		if (r != -EEXIST)
			return r;
		fd = openat(dir, FILE_KEY, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	if (fd < 0 && errno == ENOENT)
		return err_set(err, ENOKEY, "no secrets were set yet: '%s' has no key", c->dir);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open '%s/" FILE_KEY "'", c->dir);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0)
		return err_set(err, EPERM, "'%s/" FILE_KEY "' can be read by others: chmod 600 it",
			c->dir);
	if (read(fd, key, SEAL_KEY) != SEAL_KEY || st.st_size != SEAL_KEY)
		return err_set(err, EBADMSG, "'%s/" FILE_KEY "' is damaged", c->dir);
	return 0;
}

int seal_key_find(const struct sealer_config *c, unsigned char key[SEAL_KEY], struct err *err)
{
	AUTO_FD int given = c->key_fd;
	AUTO_FD int credential = -EBADF;
	AUTO_FD int dir = -EBADF;
	AUTO_FD int salt = -EBADF;

	if (given >= 0)
		return key_from(given, "the key that was handed on", key, err);
	credential = open_credential("bawn-secrets-key");
	if (credential >= 0)
		return key_from(credential, "bawn-secrets-key", key, err);
	dir = open_dir(c->dir, c->may_make, err);
	if (dir < 0)
		return dir;
	salt = openat(dir, FILE_SCRYPT, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (salt >= 0)
		return key_from_passphrase(c, salt, key, err);
	return key_from_file(c, dir, key, err);
}

int sealer_make_passphrase(const char *dir, const char *passphrase, struct err *err)
{
	AUTO_FD int fd = open_dir(dir, true, err);
	unsigned char file[SALT + SHA256_DIGEST_LENGTH], key[SEAL_KEY];
	int r;

	if (fd < 0)
		return fd;
	if (faccessat(fd, FILE_KEY, F_OK, 0) == 0 || faccessat(fd, FILE_SCRYPT, F_OK, 0) == 0)
		return err_set(err, EEXIST, "'%s' has a key already", dir);
	if (strlen(passphrase) < 8)
		return err_set(err, EINVAL, "a passphrase has at least 8 bytes");
	if (RAND_bytes(file, SALT) != 1)
		return err_set(err, EIO, "no random numbers for a salt");
	r = stretch(passphrase, file, key, err);
	if (r == 0) {
		check_of(key, file + SALT);
		r = write_new(fd, FILE_SCRYPT, file, SALT + CHECK, err);
	}
	OPENSSL_cleanse(key, sizeof(key));
	return r;
}
