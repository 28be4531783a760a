/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/connect.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void connect_to_done(struct connect_to *t)
{
	free(t->path);
	free(t->host);
	free(t->port);
	*t = (struct connect_to){0};
}

int connect_parse(const char *url, struct connect_to *ret, struct err *err)
{
	const char *host, *end, *colon;
	char quoted[120];

	*ret = (struct connect_to){.is_tls = text_starts(url, "https://")};
	if (text_starts(url, "unix:")) {
		ret->path = mem_strdup(url + 5);
		return 0;
	}
	if (!ret->is_tls && !text_starts(url, "http://"))
		return err_set(err, EINVAL,
			"'%s' is not a server's address; accepted: http://HOST:PORT, https://HOST, "
			"unix:PATH",
			text_quote(url, quoted, sizeof(quoted)));
	host = strstr(url, "://") + 3;
	end = host + strcspn(host, "/");
	if (end[0] == '/' && end[1] != '\0')
		return err_set(err, EINVAL, "a server's address has no path");
	if (host[0] == '[') {
		size_t n = strcspn(host, "]");

		colon = host[n] == ']' && host[n + 1] == ':' ? host + n + 1 : NULL;
		ret->host = (char *)mem_must(strndup(host + 1, n - 1));
	} else {
		colon = memchr(host, ':', (size_t)(end - host));
		ret->host = (char *)mem_must(strndup(host, (size_t)((colon ? colon : end) - host)));
	}
	ret->port = colon ? (char *)mem_must(strndup(colon + 1, (size_t)(end - colon - 1)))
			  : mem_strdup(ret->is_tls ? "443" : "80");
	if (!*ret->host)
		return err_set(err, EINVAL, "a server's address needs a host");
	return 0;
}

static int open_unix(const char *path, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO_FD int at = -EBADF;

	if (fd < 0)
		return err_sys(err, "socket");
	/* An address holds 107 bytes, a path may have 4095: by way of what it names. */
	if (strlen(path) >= sizeof(a.sun_path)) {
		at = open(path, O_PATH | O_CLOEXEC);
		(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d", at);
	} else {
		(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	}
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		(void)err_sys(err, "no server at '%s'", path);
		return err_hint(err, "start one with 'bawn serve', or name it with --server");
	}
	return TAKE_FD(fd);
}

int connect_open(const struct connect_to *t, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
	int fd = -EBADF, q;

	if (t->path)
		return open_unix(t->path, err);
	q = getaddrinfo(t->host, t->port, &hints, &all);
	if (q != 0)
		return err_set(err, EHOSTUNREACH, "look up '%s': %s", t->host, gai_strerror(q));
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0)
			closep(&fd);
	}
	if (fd < 0)
		(void)err_sys(err, "connect to %s port %s", t->host, t->port);
	freeaddrinfo(all);
	return fd < 0 ? err_hint(err, "is the server up?") : fd;
}
