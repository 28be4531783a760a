/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/secret_files.h"

#include "base/text.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct err err;
static char top[64], dir[128];

static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/test_secrets.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
	(void)snprintf(dir, sizeof(dir), "%s/a/b", top);
	err = (struct err){0};
}

static void end(void)
{
	AUTO_FREE char *middle = text_format("%s/a", top);

	(void)rmdir(dir);
	(void)rmdir(middle);
	CHECK_INT(rmdir(top), 0);
}

static int put(const char *name, uint64_t version, const char *sealed)
{
	struct secret_file f = {.version = version, .changed_ms = 5};
	int r;

	(void)snprintf(f.name, sizeof(f.name), "%s", name);
	CHECK_INT(buf_add(&f.sealed, sealed, strlen(sealed)), 0);
	r = secret_files_put(dir, &f, &err);
	buf_done(&f.sealed);
	return r;
}

static int collect(const struct secret_file *f, void *arg)
{
	size_t n = strlen(arg);

	(void)snprintf((char *)arg + n, 64 - n, "%s@%d ", f->name, (int)f->version);
	return 0;
}

static void what_was_put_is_there(void)
{
	struct secret_file f = {0};
	AUTO_FREE char *path = NULL;
	char all[64] = "";
	struct stat st;

	begin();
	CHECK(!secret_files_has(dir, "KEY"));
	CHECK_INT(secret_files_each(dir, collect, all, &err), 0);
	CHECK_INT(secret_files_get(dir, "KEY", &f, &err), -ENOENT);
	CHECK_INT(put("KEY", 1, "one"), 0);
	CHECK_INT(put("KEY", 2, "\x01\xff two"), 0);
	CHECK_INT(put("ALSO.this", 9, "three"), 0);
	CHECK(secret_files_has(dir, "KEY"));
	CHECK_INT(secret_files_get(dir, "KEY", &f, &err), 0);
	CHECK(f.version == 2 && f.changed_ms == 5 && buf_len(&f.sealed) == 6 &&
		memcmp(buf_data(&f.sealed), "\x01\xff two", 6) == 0);
	buf_done(&f.sealed);
	path = text_format("%s/KEY.json", dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(stat(dir, &st) == 0 && (st.st_mode & 07777) == 0700);
	CHECK_INT(secret_files_each(dir, collect, all, &err), 0);
	CHECK_STR(all, "ALSO.this@9 KEY@2 ");
	CHECK_INT(secret_files_remove(dir, "KEY", &err), 0);
	CHECK_INT(secret_files_remove(dir, "KEY", &err), -ENOENT);
	CHECK_INT(secret_files_remove(dir, "ALSO.this", &err), 0);
	end();
}

static void a_name_cannot_lead_elsewhere(void)
{
	struct secret_file f = {0};

	begin();
	CHECK_INT(put("../KEY", 1, "x"), -EINVAL);
	CHECK_INT(secret_files_get(dir, "../../etc/passwd", &f, &err), -ENOENT);
	CHECK_INT(secret_files_remove(dir, "a/b", &err), -ENOENT);
	CHECK(!secret_files_has(dir, ".."));
	end();
}

static void damage_is_told(void)
{
	static const char *const bad[] = {"", "{}", "[]",
		"{\"name\":\"OTHER\",\"version\":1,\"sealed\":\"00\"}",
		"{\"name\":\"KEY\",\"version\":0,\"sealed\":\"00\"}",
		"{\"name\":\"KEY\",\"version\":1,\"sealed\":\"0\"}",
		"{\"name\":\"KEY\",\"version\":1,\"sealed\":\"zz\"}",
		"{\"name\":\"KEY\",\"version\":1,\"sealed\":\"\"}"};
	AUTO_FREE char *path = NULL;

	begin();
	CHECK_INT(put("KEY", 1, "x"), 0);
	path = text_format("%s/KEY.json", dir);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		AUTO_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		struct secret_file f = {0};

		CHECK_INT(write(fd, bad[i], strlen(bad[i])), (ssize_t)strlen(bad[i]));
		CHECK_INT(secret_files_get(dir, "KEY", &f, &err), -EBADMSG);
		CHECK(f.sealed.p == NULL);
	}
	CHECK_INT(secret_files_remove(dir, "KEY", &err), 0);
	end();
}

int main(void)
{
	RUN(what_was_put_is_there);
	RUN(a_name_cannot_lead_elsewhere);
	RUN(damage_is_told);
	return tap_done();
}
