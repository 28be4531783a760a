/* SPDX-License-Identifier: Apache-2.0 */

/* One file as the protocol shows it. */
#include "guest/files.h"

#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

#define XATTR_PREFIX "user.e2b."
#define XATTRS_MAX   (16u << 10) /* bytes of names, and of one value, that are looked at */

static uint8_t type_of(mode_t mode)
{
	if (S_ISREG(mode))
		return GUEST_FILE;
	return S_ISDIR(mode) ? GUEST_DIR : GUEST_OTHER;
}

/* "key", "value", … of the extended attributes under our prefix. */
static char **metadata_of(const char *path)
{
	struct strv out = {0};
	AUTO_FREE char *names = NULL, *value = NULL;
	struct err err;
	ssize_t n = llistxattr(path, NULL, 0);

	if (n <= 0 || n > (ssize_t)XATTRS_MAX)
		return NULL;
	names = mem_must(malloc((size_t)n));
	n = llistxattr(path, names, (size_t)n);
	for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t len;

		if (!text_starts(p, XATTR_PREFIX))
			continue;
		if (!value)
			value = mem_must(malloc(XATTRS_MAX + 1));
		len = lgetxattr(path, p, value, XATTRS_MAX);
		if (len < 0)
			continue;
		value[len] = '\0';
		(void)strv_add(&out, p + strlen(XATTR_PREFIX), &err);
		(void)strv_add(&out, value, &err);
	}
	return out.v;
}

int entry_make(struct accounts *a, const char *path, struct guest_entry *ret, struct err *err)
{
	char owner[256], group[256], quoted[256];
	const char *slash = strrchr(path, '/');
	struct stat st, target;

	if (lstat(path, &st) < 0) {
		int code = errno;

		(void)text_quote(path, quoted, sizeof(quoted));
		if (code == ENOENT || code == ENOTDIR)
			return err_set(err, ENOENT, "path not found: %s", quoted);
		errno = code;
		return err_sys(err, "'%s'", quoted);
	}
	*ret = (struct guest_entry){
		.name = mem_strdup(slash && slash[1] ? slash + 1 : "/"),
		.path = mem_strdup(path),
		.type = type_of(st.st_mode),
		.mode = st.st_mode & 07777,
		.owner = mem_strdup(account_user_name(a, st.st_uid, owner, sizeof(owner))),
		.group = mem_strdup(account_group_name(a, st.st_gid, group, sizeof(group))),
		.size = (uint64_t)st.st_size,
		.mtime_ns =
			(uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
		.metadata = metadata_of(path),
	};
	if (S_ISLNK(st.st_mode)) {
		ret->is_link = 1;
		ret->type = stat(path, &target) == 0 ? type_of(target.st_mode) : GUEST_UNKNOWN;
		ret->link_target = realpath(path, NULL);
	}
	return 0;
}

int entry_write(struct accounts *a, const char *path, struct frame_writer *w, struct err *err)
{
	struct guest_entry entry = {0};
	int r = entry_make(a, path, &entry, err);

	if (r >= 0)
		guest_entry_put(w, &entry);
	guest_entry_done(&entry);
	return r;
}

void entry_reply(struct request *q, struct accounts *a, const char *path)
{
	struct frame_writer w = {0};
	struct err err = {0};

	if (entry_write(a, path, &w, &err) < 0)
		request_fail(q, &err);
	else
		mux_reply(q->mux, q->id, MSG_ENTRY, &w);
	buf_done(&w.buf);
}
