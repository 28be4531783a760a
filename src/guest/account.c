/* SPDX-License-Identifier: Apache-2.0 */

#include "guest/account.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX   (1u << 20) /* of /etc/passwd and /etc/group that are looked at */
#define FIELDS_MAX 7

struct line {
	const char *field[FIELDS_MAX];
	size_t len[FIELDS_MAX];
	size_t n;
};

/* A file of the box, cut at FILE_MAX; "" if it cannot be read. */
static char *slurp(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	size_t room, n = 0;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return mem_strdup("");
	room = st.st_size > 0 && st.st_size < FILE_MAX ? (size_t)st.st_size : FILE_MAX;
	text = malloc(room + 1);
	if (!text)
		return mem_strdup("");
	while (n < room) {
		ssize_t r = read(fd, text + n, room - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	text[n] = '\0';
	return text;
}

static bool next_line(const char **at, struct line *ret)
{
	const char *p = *at;
	size_t n;

	if (*p == '\0')
		return false;
	for (ret->n = 0; ret->n < FIELDS_MAX; p += n + 1) {
		n = strcspn(p, ":\n");
		ret->field[ret->n] = p;
		ret->len[ret->n++] = n;
		if (p[n] != ':')
			break;
	}
	n = strcspn(*at, "\n");
	*at += n + ((*at)[n] == '\n');
	return true;
}

static bool field_is(const struct line *l, size_t i, const char *s)
{
	return i < l->n && strlen(s) == l->len[i] && memcmp(l->field[i], s, l->len[i]) == 0;
}

static bool field_id(const struct line *l, size_t i, unsigned *ret)
{
	const char *p;
	uint64_t v;

	if (i >= l->n || l->len[i] == 0)
		return false;
	p = l->field[i];
	if (text_scan_u64(&p, &v) < 0 || p != l->field[i] + l->len[i] || v >= 0xffffffffu)
		return false;
	*ret = (unsigned)v;
	return true;
}

static char *field_copy(const struct line *l, size_t i)
{
	return mem_must(i < l->n ? strndup(l->field[i], l->len[i]) : strdup(""));
}

static const char *passwd_of(struct accounts *a)
{
	if (!a->passwd)
		a->passwd = slurp("/etc/passwd");
	return a->passwd;
}

static const char *group_of(struct accounts *a)
{
	if (!a->group)
		a->group = slurp("/etc/group");
	return a->group;
}

/* Is `name` in the comma-separated list? */
static bool is_member(const struct line *l, const char *name)
{
	size_t want = strlen(name);
	const char *p, *end;

	if (l->n < 4)
		return false;
	p = l->field[3];
	end = p + l->len[3];
	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t n = (size_t)((comma ? comma : end) - p);

		if (n == want && memcmp(p, name, n) == 0)
			return true;
		p += n + 1;
	}
	return false;
}

static void find_groups(struct accounts *a, struct account *user)
{
	const char *at = group_of(a);
	struct line l;
	gid_t gid;

	user->groups[user->groups_n++] = user->gid;
	while (user->groups_n < ACCOUNT_GROUPS_MAX && next_line(&at, &l))
		if (is_member(&l, user->name) && field_id(&l, 2, &gid) && gid != user->gid)
			user->groups[user->groups_n++] = gid;
}

int account_find(struct accounts *a, const char *who, struct account *ret, struct err *err)
{
	const char *at = passwd_of(a);
	char quoted[64];
	struct line l;

	while (next_line(&at, &l)) {
		unsigned uid, gid;

		if (!field_id(&l, 2, &uid) || !field_id(&l, 3, &gid))
			continue;
		if (!field_is(&l, 0, who) && !field_is(&l, 2, who))
			continue;
		*ret = (struct account){
			.name = field_copy(&l, 0),
			.home = field_copy(&l, 5),
			.shell = field_copy(&l, 6),
			.uid = uid,
			.gid = gid,
		};
		if (ret->home[0] != '/') {
			free(ret->home);
			ret->home = mem_strdup("/");
		}
		find_groups(a, ret);
		return 0;
	}
	return err_set(err, EKEYREJECTED, "user '%s' does not exist",
		text_quote(who, quoted, sizeof(quoted)));
}

void account_done(struct account *v)
{
	free(v->name);
	free(v->home);
	free(v->shell);
	*v = (struct account){0};
}

static const char *name_of(const char *at, unsigned id, char *out, size_t size)
{
	struct line l;
	unsigned found;

	while (next_line(&at, &l)) {
		if (!field_id(&l, 2, &found) || found != id)
			continue;
		(void)snprintf(out, size, "%.*s", (int)l.len[0], l.field[0]);
		return out;
	}
	(void)snprintf(out, size, "%u", id);
	return out;
}

const char *account_user_name(struct accounts *a, uid_t uid, char *out, size_t size)
{
	return name_of(passwd_of(a), uid, out, size);
}

const char *account_group_name(struct accounts *a, gid_t gid, char *out, size_t size)
{
	return name_of(group_of(a), gid, out, size);
}

void accounts_done(struct accounts *a)
{
	free(a->passwd);
	free(a->group);
	*a = (struct accounts){0};
}

/* Written once, before there was a guest. */
static const char *uid_map(void)
{
	static char text[4096]; /* the kernel's own limit is one page */
	AUTO_FD int fd = -EBADF;
	ssize_t n;

	if (text[0])
		return text;
	fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

bool account_is_mapped(uid_t uid)
{
	const char *p = uid_map();
	uint64_t inside, outside, count;

	if (*p == '\0')
		return true;
	while (text_scan_u64(&p, &inside) == 0 && text_scan_u64(&p, &outside) == 0 &&
		text_scan_u64(&p, &count) == 0) {
		if (uid >= inside && uid - inside < count)
			return true;
		p += strspn(p, " \n");
	}
	return false;
}

int account_path(struct accounts *a, const struct account *user, const char *path, char **ret,
	struct err *err)
{
	AUTO_FREE char *name = NULL, *joined = NULL;
	struct account other = {0};
	size_t n;
	int r;

	if (path[0] != '~')
		return text_path_clean(path[0] ? path : ".", user->home, ret, err);
	n = strcspn(path + 1, "/");
	if (n == 0) {
		joined = text_format("./%s", path + 1);
		return text_path_clean(joined, user->home, ret, err);
	}
	name = mem_must(strndup(path + 1, n));
	r = account_find(a, name, &other, err);
	if (r < 0)
		return r;
	joined = text_format("./%s", path + 1 + n);
	r = text_path_clean(joined, other.home, ret, err);
	account_done(&other);
	return r;
}
