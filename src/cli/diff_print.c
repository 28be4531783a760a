/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/diff_print.h"

#include "base/mem.h"
#include "cli/cow_args.h"
#include "core/line_diff.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* One side of a comparison. */
struct side {
	char *bytes; /* owned */
	size_t n;
	mode_t mode; /* 0: not there */
	bool is_large;
};

static int read_side(int fd, struct side *s, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, "stat");
	s->mode = st.st_mode;
	if (!S_ISREG(st.st_mode))
		return 0;
	if (st.st_size > LINE_DIFF_MAX) {
		s->is_large = true;
		return 0;
	}
	s->bytes = mem_must(malloc((size_t)st.st_size + 1));
	while (s->n < (size_t)st.st_size) {
		ssize_t n = read(fd, s->bytes + s->n, (size_t)st.st_size - s->n);

		if (n < 0)
			return err_sys(err, "read");
		if (n == 0)
			break;
		s->n += (size_t)n;
	}
	return 0;
}

static void set_link(struct side *s, const char *target, size_t n)
{
	s->bytes = mem_must(malloc(n + 1));
	memcpy(s->bytes, target, n);
	s->n = n;
	s->mode = S_IFLNK | 0777;
}

/* What the target has now. Missing or unreadable is an empty side. */
static int read_old(
	const struct diff_print *p, const struct cow_entry *e, struct side *s, struct err *err)
{
	AUTO_FD int path = tree_open(p->target_fd, e->path, O_PATH | O_NOFOLLOW, 0);
	AUTO_FD int fd = -EBADF;
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (path < 0 || fstat(path, &st) < 0)
		return 0;
	s->mode = st.st_mode;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(path, "", target, sizeof(target));
		if (n >= 0)
			set_link(s, target, (size_t)n);
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return 0;
	fd = tree_open(p->target_fd, e->path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0) {
		s->is_large = true; /* not readable: nothing to show line by line */
		return 0;
	}
	return read_side(fd, s, err);
}

static int read_new(
	const struct diff_print *p, const struct cow_entry *e, struct side *s, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	int r;

	if (e->link) {
		set_link(s, e->link, strlen(e->link));
		return 0;
	}
	if (!e->file) {
		s->mode = e->mode;
		return 0;
	}
	fd = cow_open_content(p->run, e, err);
	if (fd < 0)
		return fd;
	r = read_side(fd, s, err);
	s->mode = e->mode;
	return r;
}

static void put_name(const struct diff_print *p, const char *prefix, const char *path)
{
	/* git quotes such names too; a newline in one must not start a line of the patch. */
	bool is_odd = false;

	for (const char *c = path; *c; c++)
		is_odd |= (unsigned char)*c < 0x20 || *c == 0x7f || *c == '"' || *c == '\\';
	if (is_odd) {
		char *quoted = mem_must(malloc((size_t)4 * PATH_MAX));

		(void)fprintf(
			p->out, "\"%s%s\"", prefix, text_quote(path, quoted, (size_t)4 * PATH_MAX));
		free(quoted);
		return;
	}
	(void)fputs(prefix, p->out);
	cow_args_put(p->out, p->is_terminal, path, strlen(path));
}

static void colour(const struct diff_print *p, const char *code)
{
	if (p->want_colour)
		(void)fprintf(p->out, "\x1b[%sm", code);
}

static void put_line(char mark, const char *bytes, size_t n, void *arg)
{
	const struct diff_print *p = arg;

	colour(p, mark == '+' ? "32" : mark == '-' ? "31" : mark == '@' ? "36" : "0");
	if (mark != '@')
		(void)fputc(mark, p->out);
	cow_args_put(p->out, p->is_terminal, bytes, n);
	colour(p, "0");
	(void)fputc('\n', p->out);
}

static void put_head(const struct diff_print *p, const struct cow_entry *e, mode_t old, mode_t new)
{
	colour(p, "1");
	(void)fputs("diff --git ", p->out);
	put_name(p, "a/", e->path);
	(void)fputc(' ', p->out);
	put_name(p, "b/", e->path);
	colour(p, "0");
	(void)fputc('\n', p->out);
	if (old == 0)
		(void)fprintf(p->out, "new file mode %06o\n", (unsigned)new);
	else if (new == 0)
		(void)fprintf(p->out, "deleted file mode %06o\n", (unsigned)old);
	else if (old != new)
		(void)fprintf(
			p->out, "old mode %06o\nnew mode %06o\n", (unsigned)old, (unsigned)new);
}

static void put_names(const struct diff_print *p, const struct cow_entry *e, mode_t old, mode_t new)
{
	(void)fputs("--- ", p->out);
	put_name(p, old ? "a/" : "", old ? e->path : "/dev/null");
	(void)fputs("\n+++ ", p->out);
	put_name(p, new ? "b/" : "", new ? e->path : "/dev/null");
	(void)fputc('\n', p->out);
}

static bool is_text(const struct side *s)
{
	return !s->is_large && (s->n == 0 || !memchr(s->bytes, '\0', s->n));
}

/* Compare two sides of one type; either may be missing. */
static int print_sides(const struct diff_print *p, const struct cow_entry *e,
	const struct side *old, const struct side *new, struct diff_stat *ret, struct err *err)
{
	struct line_diff_text a = {.bytes = old->bytes ? old->bytes : "", .n = old->n};
	struct line_diff_text b = {.bytes = new->bytes ? new->bytes : "", .n = new->n};
	struct line_diff_count count = {0};
	struct diff_print copy = *p;
	int r = 0;

	if (p->out)
		put_head(p, e, old->mode, new->mode);
	if (!is_text(old) || !is_text(new) || line_diff(&a, &b, NULL, NULL, &count, err) < 0) {
		ret->is_binary = true;
		if (p->out) {
			(void)fputs("Binary files ", p->out);
			put_name(p, old->mode ? "a/" : "", old->mode ? e->path : "/dev/null");
			(void)fputs(" and ", p->out);
			put_name(p, new->mode ? "b/" : "", new->mode ? e->path : "/dev/null");
			(void)fputs(" differ\n", p->out);
		}
		return 0;
	}
	ret->added += count.added;
	ret->deleted += count.deleted;
	if (p->out && count.added + count.deleted > 0) {
		put_names(p, e, old->mode, new->mode);
		r = line_diff(&a, &b, put_line, &copy, &count, err);
	}
	return r;
}

static void print_directory(const struct diff_print *p, const struct cow_entry *e)
{
	if (!p->out)
		return;
	colour(p, "1");
	(void)fprintf(p->out, "directory %s: ", cow_kind_name(e->kind));
	put_name(p, "", e->path);
	colour(p, "0");
	if (e->mode)
		(void)fprintf(p->out, " (mode %04o)", (unsigned)(e->mode & 07777));
	(void)fputc('\n', p->out);
}

int diff_print_entry(const struct diff_print *p, const struct cow_entry *e, struct diff_stat *ret,
	struct err *err)
{
	struct side old = {0};
	struct side new = {0};
	struct side none = {0};
	int r = read_old(p, e, &old, err);

	*ret = (struct diff_stat){0};
	if (r == 0)
		r = read_new(p, e, &new, err);
	if (r == 0 && (S_ISDIR(e->mode) || (e->kind == COW_DELETED && S_ISDIR(e->base_mode)))) {
		print_directory(p, e);
	} else if (r == 0 && old.mode && new.mode && (old.mode & S_IFMT) != (new.mode &S_IFMT)) {
		/* Another type: git shows it as one file gone and another made. */
		if (!S_ISDIR(old.mode))
			r = print_sides(p, e, &old, &none, ret, err);
		if (r == 0)
			r = print_sides(p, e, &none, &new, ret, err);
	} else if (r == 0 && (old.mode || new.mode)) {
		r = print_sides(p, e, &old, &new, ret, err);
	}
	free(old.bytes);
	free(new.bytes);
	return r;
}
