/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/entry - a guest's entries and changes as filesystem.EntryInfo and FilesystemEvent. Pure.
 */
#include "api/e2b/envd.h"
#include "api/e2b/json_text.h"

#include <inttypes.h>
#include <time.h>

/* As Go prints a FileMode: kind and special bits as letters, then the nine permissions. */
static const char *permissions(const struct guest_entry *e, char out[16])
{
	static const char bits[] = "rwxrwxrwx";
	uint32_t mode = e->is_link ? 0777 : e->mode; /* a link's own are always these */
	size_t n = 0;

	if (!e->is_link && e->type == GUEST_DIR)
		out[n++] = 'd';
	if (e->is_link)
		out[n++] = 'L';
	if (!e->is_link && e->type != GUEST_DIR && e->type != GUEST_FILE)
		out[n++] = '?';
	if (mode & 04000)
		out[n++] = 'u';
	if (mode & 02000)
		out[n++] = 'g';
	if (mode & 01000)
		out[n++] = 't';
	if (n == 0)
		out[n++] = '-';
	for (size_t i = 0; i < 9; i++)
		out[n++] = mode & (0400u >> i) ? bits[i] : '-';
	out[n] = '\0';
	return out;
}

static const char *timestamp(uint64_t ns, char out[64])
{
	time_t seconds = (time_t)(ns / 1000000000u);
	struct tm tm;
	size_t n;

	if (!gmtime_r(&seconds, &tm) || tm.tm_year > 8099)
		return "1970-01-01T00:00:00Z"; /* the guest may say anything */
	n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(out + n, 64 - n, ".%09uZ", (unsigned)(ns % 1000000000u));
	return out;
}

static int text(struct buf *b, const char *name, const char *value)
{
	int r = buf_addf(b, ",\"%s\":", name);

	return r < 0 ? r : json_text_add(b, value);
}

int envd_metadata_add(struct buf *b, char *const *v)
{
	int r = 0;

	if (!v || !v[0])
		return 0;
	r = buf_add(b, ",\"metadata\":{", 13);
	for (size_t i = 0; r >= 0 && v[i] && v[i + 1]; i += 2) {
		r = i > 0 ? buf_add(b, ",", 1) : 0;
		if (r >= 0)
			r = json_text_add(b, v[i]);
		if (r >= 0)
			r = buf_add(b, ":", 1);
		if (r >= 0)
			r = json_text_add(b, v[i + 1]);
	}
	return r < 0 ? r : buf_add(b, "}", 1);
}

int envd_entry_add(struct buf *b, const struct guest_entry *e)
{
	const char *type = e->type == GUEST_DIR    ? "FILE_TYPE_DIRECTORY"
			   : e->type == GUEST_FILE ? "FILE_TYPE_FILE"
						   : "FILE_TYPE_UNSPECIFIED";
	char mode[16], when[64];
	int r = buf_add(b, "{\"name\":", 8);

	if (r >= 0)
		r = json_text_add(b, e->name);
	if (r >= 0)
		r = buf_addf(b, ",\"type\":\"%s\",\"size\":\"%" PRIu64 "\",\"mode\":%u", type,
			e->size & INT64_MAX, e->mode & 0777);
	if (r >= 0)
		r = text(b, "path", e->path);
	if (r >= 0)
		r = text(b, "permissions", permissions(e, mode));
	if (r >= 0)
		r = text(b, "owner", e->owner);
	if (r >= 0)
		r = text(b, "group", e->group);
	if (r >= 0)
		r = text(b, "modifiedTime", timestamp(e->mtime_ns, when));
	/* Upstream: a link that leads nowhere names itself. */
	if (r >= 0 && e->is_link)
		r = text(b, "symlinkTarget", e->link_target[0] ? e->link_target : e->path);
	if (r >= 0)
		r = envd_metadata_add(b, e->metadata);
	return r < 0 ? r : buf_add(b, "}", 1);
}

int envd_change_add(struct buf *b, const struct guest_change *c)
{
	static const char *const types[] = {
		[GUEST_CREATE] = "CREATE",
		[GUEST_WROTE] = "WRITE",
		[GUEST_REMOVED] = "REMOVE",
		[GUEST_RENAMED] = "RENAME",
		[GUEST_CHMOD] = "CHMOD",
	};
	int r;

	if (c->type >= sizeof(types) / sizeof(types[0]) || !types[c->type])
		return -ENODATA;
	r = buf_add(b, "{\"name\":", 8);
	if (r >= 0)
		r = json_text_add(b, c->name);
	if (r >= 0)
		r = buf_addf(b, ",\"type\":\"EVENT_TYPE_%s\"", types[c->type]);
	if (r >= 0 && c->has_entry) {
		r = buf_add(b, ",\"entry\":", 9);
		if (r >= 0)
			r = envd_entry_add(b, &c->entry);
	}
	return r < 0 ? r : buf_add(b, "}", 1);
}
