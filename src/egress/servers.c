/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/servers.h"

#include "base/own.h"
#include "base/text.h"
#include "core/address.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define CONF_MAX 4096
#define FRESH_MS 5000

/* "1.2.3.4", "1.2.3.4:53", "::1", "[::1]:53" */
static bool parse_server(const char *s, size_t n, struct address *ret, uint16_t *ret_port)
{
	const char *colon = NULL, *end = s + n;
	struct err ignored;
	char digits[8];
	uint64_t port;

	*ret_port = 53;
	if (n > 0 && *s == '[') {
		const char *close = memchr(s, ']', n);

		if (!close || !address_parse(s + 1, (size_t)(close - s) - 1, ret))
			return false;
		if (close + 1 == end)
			return true;
		colon = close + 1;
	} else if (address_parse(s, n, ret)) {
		return true;
	} else {
		colon = memchr(s, ':', n);
		if (!colon || !address_parse(s, (size_t)(colon - s), ret))
			return false;
	}
	if (*colon != ':' || (size_t)(end - colon) - 1 >= sizeof(digits))
		return false;
	memcpy(digits, colon + 1, (size_t)(end - colon) - 1);
	digits[end - colon - 1] = '\0';
	if (text_parse_u64(digits, "port", 1, 65535, &port, &ignored) < 0)
		return false;
	*ret_port = (uint16_t)port;
	return true;
}

static void add(char out[SERVERS_TEXT], const struct address *a, uint16_t port)
{
	size_t n = strlen(out);
	char text[ADDRESS_TEXT_MAX];

	address_format(a, text);
	(void)snprintf(out + n, SERVERS_TEXT - n, a->family == 6 ? "%s[%s]:%u" : "%s%s:%u",
		n > 0 ? "," : "", text, port);
}

void servers_parse(const char *conf, size_t n, char out[SERVERS_TEXT])
{
	static const char word[] = "nameserver";
	const char *end = conf + n;
	unsigned found = 0;

	out[0] = '\0';
	while (conf < end && found < SERVERS_MAX) {
		const char *line = conf;
		const char *stop = memchr(conf, '\n', (size_t)(end - conf));
		struct address a;
		size_t len;

		stop = stop ? stop : end;
		conf = stop < end ? stop + 1 : end;
		if ((size_t)(stop - line) < sizeof(word) ||
			memcmp(line, word, sizeof(word) - 1) != 0)
			continue;
		line += sizeof(word) - 1;
		if (*line != ' ' && *line != '\t')
			continue;
		while (line < stop && (*line == ' ' || *line == '\t'))
			line++;
		len = 0;
		while (line + len < stop && !strchr(" \t\r#;", line[len]))
			len++;
		if (!address_parse(line, len, &a))
			continue;
		add(out, &a, 53);
		found++;
	}
}

static void read_conf(struct servers *s)
{
	AUTO_FD int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char conf[CONF_MAX], text[SERVERS_TEXT];
	ssize_t n = fd >= 0 ? read(fd, conf, sizeof(conf)) : -1;

	if (n < 0)
		return; /* what we knew is better than nothing */
	servers_parse(conf, (size_t)n, text);
	if (text[0])
		memcpy(s->text, text, sizeof(text));
}

int servers_init(struct servers *s, const char *given, struct err *err)
{
	char quoted[128];

	*s = (struct servers){0};
	if (!given) {
		read_conf(s);
		return 0;
	}
	for (unsigned i = 0;; i++) {
		size_t n = strcspn(given, ",");
		struct address a;
		uint16_t port;

		if (i >= SERVERS_MAX || !parse_server(given, n, &a, &port))
			return err_set(err, EINVAL,
				"resolvers: '%s' is no list of at most %d addresses like 10.0.0.2 "
				"or [::1]:5353",
				text_quote(given, quoted, sizeof(quoted)), SERVERS_MAX);
		add(s->text, &a, port);
		if (!given[n])
			break;
		given += n + 1;
	}
	s->read_ms = UINT64_MAX;
	return 0;
}

const char *servers_now(struct servers *s, uint64_t now_ms)
{
	if (s->read_ms != UINT64_MAX && now_ms - s->read_ms >= FRESH_MS) {
		read_conf(s);
		s->read_ms = now_ms;
	}
	return s->text;
}
