/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4000 /* below PIPE_BUF: a line is never torn by another role's */

struct line {
	char text[LINE_MAX_BYTES + 8];
	size_t n;
};

static struct {
	const char *role;
	bool is_json;
} self = {.role = "bawn"};

void role_log_init(const char *role, bool is_json)
{
	self.role = role;
	self.is_json = is_json;
}

static void put(struct line *l, const char *s)
{
	while (*s && l->n < LINE_MAX_BYTES)
		l->text[l->n++] = *s++;
}

/* Quoted, with control bytes, quotes, backslashes and anything beyond ASCII escaped. */
static void put_quoted(struct line *l, const char *s)
{
	put(l, "\"");
	for (; *s && l->n < LINE_MAX_BYTES - 16; s++) {
		unsigned char c = (unsigned char)*s;
		char escaped[8];

		if (c == '"' || c == '\\')
			(void)snprintf(escaped, sizeof(escaped), "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			(void)snprintf(escaped, sizeof(escaped), "\\u%04x", c);
		else
			(void)snprintf(escaped, sizeof(escaped), "%c", c);
		put(l, escaped);
	}
	put(l, "\"");
}

static bool is_plain(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s <= ' ' || *s >= 0x7f || *s == '"' || *s == '=' || *s == '\\')
			return false;
	}
	return true;
}

static void put_pair(struct line *l, const char *key, const char *value)
{
	if (self.is_json) {
		put(l, l->n > 1 ? "," : "");
		put_quoted(l, key);
		put(l, ":");
		put_quoted(l, value);
		return;
	}
	put(l, l->n > 0 ? " " : "");
	put(l, key);
	put(l, "=");
	if (is_plain(value))
		put(l, value);
	else
		put_quoted(l, value);
}

static void put_time(struct line *l)
{
	struct timespec now = {0};
	struct tm tm = {0};
	char date[32], full[48];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(full, sizeof(full), "%s.%03ldZ", date, now.tv_nsec / 1000000);
	put_pair(l, "time", full);
}

void role_log_write(enum role_log_level level, const char *event, ...)
{
	static const char *const levels[] = {"info", "warn", "error"};
	struct line l = {.n = 0};
	const char *key;
	va_list ap;

	put(&l, self.is_json ? "{" : "");
	put_time(&l);
	put_pair(&l, "level", levels[level]);
	put_pair(&l, "role", self.role);
	put_pair(&l, "event", event);
	va_start(ap, event);
	while ((key = va_arg(ap, const char *)) != NULL) {
		const char *value = va_arg(ap, const char *);

		if (value)
			put_pair(&l, key, value);
	}
	va_end(ap);
	/* put() stops short of the buffer's end: these always fit. */
	if (self.is_json)
		l.text[l.n++] = '}';
	l.text[l.n++] = '\n';
	(void)write(STDERR_FILENO, l.text, l.n);
}
