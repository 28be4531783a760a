/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/seal.h"

#include "base/text.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct err err;
static char dir[64];

static void make_dir(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test_seal.XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)unsetenv("CREDENTIALS_DIRECTORY");
	(void)unsetenv("BAWN_PASSPHRASE_FILE");
	err = (struct err){0};
}

static void remove_dir(void)
{
	static const char *const names[] = {
		"key", "key.scrypt", "bawn-secrets-key", "bawn-secrets-passphrase", "pass"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		AUTO_FREE char *path = text_format("%s/%s", dir, names[i]);

		(void)unlink(path);
	}
	CHECK_INT(rmdir(dir), 0); /* nothing else was left */
}

static void put(const char *name, const char *text, mode_t mode)
{
	AUTO_FREE char *path = text_format("%s/%s", dir, name);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static struct sealer *open_sealer(bool may_make, int want)
{
	struct sealer_config c = {.dir = dir, .key_fd = -EBADF, .may_make = may_make};
	struct sealer *s = NULL;

	err = (struct err){0};
	CHECK_INT(sealer_open(&c, &s, &err), want);
	return s;
}

static bool opens(const struct sealer *s, const char *owner, const char *name, uint64_t version,
	const struct buf *sealed, const char *want)
{
	AUTO_BUF struct buf out = {0};
	int r = sealer_unseal(
		s, owner, name, version, buf_data(sealed), buf_len(sealed), &out, &err);

	if (r < 0)
		CHECK(r == -EBADMSG && buf_len(&out) == 0 && !strstr(err.msg, want));
	return r == 0 && buf_len(&out) == strlen(want) &&
	       memcmp(buf_data(&out), want, strlen(want)) == 0;
}

static void it_opens_only_as_what_it_is(void)
{
	AUTO(sealer_free) struct sealer *s = NULL;
	AUTO_BUF struct buf one = {0};
	AUTO_BUF struct buf two = {0};

	make_dir();
	s = open_sealer(true, 0);
	CHECK_INT(sealer_seal(s, "t", "KEY", 1, "the value", 9, &one, &err), 0);
	CHECK_INT(sealer_seal(s, "t", "KEY", 1, "the value", 9, &two, &err), 0);
	CHECK_INT(buf_len(&one), 9 + SEAL_OVERHEAD);
	CHECK(memcmp(buf_data(&one), buf_data(&two), buf_len(&one)) != 0);
	CHECK(!memmem(buf_data(&one), buf_len(&one), "the value", 9));
	CHECK(opens(s, "t", "KEY", 1, &one, "the value"));
	CHECK(!opens(s, "u", "KEY", 1, &one, "the value"));
	CHECK(!opens(s, "t", "KE", 1, &one, "the value"));
	CHECK(!opens(s, "tK", "EY", 1, &one, "the value"));
	CHECK(!opens(s, "t", "KEY", 2, &one, "the value"));
	remove_dir();
}

static void a_changed_byte_is_noticed(void)
{
	AUTO(sealer_free) struct sealer *s = NULL;
	AUTO_BUF struct buf b = {0};

	make_dir();
	s = open_sealer(true, 0);
	CHECK_INT(sealer_seal(s, "", "KEY", 7, "v", 1, &b, &err), 0);
	for (size_t i = 0; i < buf_len(&b); i++) {
		b.p[b.at + i] ^= 1;
		CHECK(!opens(s, "", "KEY", 7, &b, "v"));
		b.p[b.at + i] ^= 1;
	}
	CHECK(opens(s, "", "KEY", 7, &b, "v"));
	for (size_t n = buf_len(&b); n > 0; n--) {
		b.end--;
		CHECK(!opens(s, "", "KEY", 7, &b, "v"));
	}
	remove_dir();
}

static void the_key_file_is_made_once_and_private(void)
{
	AUTO(sealer_free) struct sealer *s = NULL;
	AUTO(sealer_free) struct sealer *again = NULL;
	AUTO_BUF struct buf b = {0};
	AUTO_FREE char *path = NULL;
	struct stat st;

	make_dir();
	CHECK(!open_sealer(false, -ENOKEY));
	s = open_sealer(true, 0);
	again = open_sealer(false, 0);
	CHECK_INT(sealer_seal(s, "", "KEY", 1, "v", 1, &b, &err), 0);
	CHECK(opens(again, "", "KEY", 1, &b, "v"));
	path = text_format("%s/key", dir);
	CHECK(stat(path, &st) == 0 && st.st_size == 32 && (st.st_mode & 07777) == 0600);
	CHECK_INT(chmod(path, 0640), 0);
	CHECK(!open_sealer(false, -EPERM));
	CHECK_INT(chmod(path, 0600), 0);
	CHECK_INT(truncate(path, 31), 0);
	CHECK(!open_sealer(true, -EBADMSG));
	remove_dir();
}

static void a_passphrase_is_a_key(void)
{
	AUTO(sealer_free) struct sealer *s = NULL;
	AUTO(sealer_free) struct sealer *again = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf b = {0};

	make_dir();
	CHECK_INT(sealer_make_passphrase(dir, "short", &err), -EINVAL);
	CHECK_INT(sealer_make_passphrase(dir, "correct horse", &err), 0);
	CHECK_INT(sealer_make_passphrase(dir, "another horse", &err), -EEXIST);
	CHECK(!open_sealer(true, -ENOKEY));
	CHECK(strstr(err.msg, "BAWN_PASSPHRASE_FILE"));
	path = text_format("%s/pass", dir);
	put("pass", "correct horse\nmore", 0600);
	(void)setenv("BAWN_PASSPHRASE_FILE", path, 1);
	s = open_sealer(true, 0);
	again = open_sealer(false, 0);
	CHECK_INT(sealer_seal(s, "", "KEY", 1, "v", 1, &b, &err), 0);
	CHECK(opens(again, "", "KEY", 1, &b, "v"));
	put("pass", "wrong horse", 0600);
	CHECK(!open_sealer(true, -EKEYREJECTED));
	CHECK(!strstr(err.msg, "horse"));
	remove_dir();
}

static void a_credential_of_systemd_comes_first(void)
{
	AUTO(sealer_free) struct sealer *file = NULL;
	AUTO(sealer_free) struct sealer *credential = NULL;
	AUTO_BUF struct buf b = {0};

	make_dir();
	file = open_sealer(true, 0);
	(void)setenv("CREDENTIALS_DIRECTORY", dir, 1);
	put("bawn-secrets-key", "too short", 0600);
	CHECK(!open_sealer(true, -EINVAL));
	put("bawn-secrets-key", "0123456789012345678901234567890123456789", 0600);
	credential = open_sealer(false, 0);
	CHECK_INT(sealer_seal(credential, "", "KEY", 1, "v", 1, &b, &err), 0);
	CHECK(!opens(file, "", "KEY", 1, &b, "v"));
	CHECK(opens(credential, "", "KEY", 1, &b, "v"));
	remove_dir();
}

int main(void)
{
	RUN(it_opens_only_as_what_it_is);
	RUN(a_changed_byte_is_noticed);
	RUN(the_key_file_is_made_once_and_private);
	RUN(a_passphrase_is_a_key);
	RUN(a_credential_of_systemd_comes_first);
	return tap_done();
}
