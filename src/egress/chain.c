/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/chain.h"

#include "base/mem.h"
#include "base/text.h"
#include "core/policy.h"
#include "io/h1.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CHAIN_MS   10000
#define HEAD_MAX   8192 /* of a proxy's answer to CONNECT */
#define SECRET_MAX 255  /* user, password: what SOCKS5 can carry */
#define SKIPS_MAX  64

enum step { HTTP_HEAD, SOCKS_METHOD, SOCKS_AUTH, SOCKS_REPLY };

struct skip {
	bool is_any, is_net;
	struct address_net net;
	char name[POLICY_NAME_MAX + 1]; /* it and what is below it */
	bool is_below;                  /* "*.": only what is below */
};

struct chain {
	struct loop *loop;
	bool is_socks;
	char host[POLICY_NAME_MAX + 1];
	struct address addr; /* family 0: host is a name */
	uint16_t port;
	bool has_user;
	char user[SECRET_MAX + 1], pass[SECRET_MAX + 1];
	struct skip *skips;
	size_t skips_n;
};

/* ---- configuration ---- */

static int bad(struct err *err)
{
	return err_set(err, EINVAL,
		"upstream proxy: write it as http://HOST:PORT or socks5://HOST:PORT, with "
		"USER:PASSWORD@ in front of HOST where it wants them");
}

static int parse_login(struct chain *c, const char *s, size_t n, struct err *err)
{
	const char *colon = memchr(s, ':', n);
	size_t user_n = colon ? (size_t)(colon - s) : n;

	c->has_user = true;
	if (h1_unescape(s, user_n, false, c->user, sizeof(c->user)) < 0 ||
		(colon && h1_unescape(colon + 1, n - user_n - 1, false, c->pass, sizeof(c->pass)) <
				  0))
		return bad(err);
	return 0;
}

static int parse_host(struct chain *c, const char *s, struct err *err)
{
	const char *colon = strrchr(s, ':');
	size_t n = colon ? (size_t)(colon - s) : 0;
	uint64_t port;

	if (!colon || text_parse_u64(colon + 1, "port", 1, 65535, &port, err) < 0)
		return bad(err);
	c->port = (uint16_t)port;
	if (n > 2 && s[0] == '[' && s[n - 1] == ']')
		return address_parse(s + 1, n - 2, &c->addr) ? 0 : bad(err);
	if (address_parse(s, n, &c->addr))
		return 0;
	return policy_clean_name(s, n, c->host) < 0 ? bad(err) : 0;
}

static int parse_url(struct chain *c, const char *url, struct err *err)
{
	AUTO_FREE char *rest = NULL;
	char *at;
	size_t n;
	int r = 0;

	c->is_socks = !text_starts(url, "http://");
	if (!c->is_socks)
		url += strlen("http://");
	else if (text_starts(url, "socks5h://"))
		url += strlen("socks5h://");
	else if (text_starts(url, "socks5://"))
		url += strlen("socks5://");
	else
		return bad(err);
	rest = mem_strdup(url);
	n = strlen(rest);
	if (n > 0 && rest[n - 1] == '/')
		rest[n - 1] = '\0';
	at = strrchr(rest, '@');
	if (at)
		r = parse_login(c, rest, (size_t)(at - rest), err);
	if (r == 0)
		r = parse_host(c, at ? at + 1 : rest, err);
	explicit_bzero(rest, n);
	return r;
}

static int add_skip(struct chain *c, const char *s, size_t n, struct err *err)
{
	struct skip *k = &c->skips[c->skips_n];
	char text[64], quoted[100];

	if (n == 0)
		return 0;
	if (c->skips_n >= SKIPS_MAX)
		return err_set(err, E2BIG, "no-proxy: more than %d entries", SKIPS_MAX);
	c->skips_n++;
	if (n == 1 && *s == '*') {
		k->is_any = true;
		return 0;
	}
	k->is_net = address_net_parse(s, n, &k->net);
	if (k->is_net)
		return 0;
	if (n > 2 && s[0] == '*' && s[1] == '.') {
		k->is_below = true;
		s += 2;
		n -= 2;
	} else if (s[0] == '.') {
		s++;
		n--;
	}
	if (policy_clean_name(s, n, k->name) == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(n < 60 ? n : 60), s);
	return err_set(err, EINVAL, "no-proxy: '%s' is no name, address or network",
		text_quote(text, quoted, sizeof(quoted)));
}

static int parse_skips(struct chain *c, const char *s, struct err *err)
{
	c->skips = mem_must(calloc(SKIPS_MAX, sizeof(*c->skips)));
	for (;;) {
		size_t n;

		s += strspn(s, ", ");
		n = strcspn(s, ", ");
		if (n == 0)
			return 0;
		if (add_skip(c, s, n, err) < 0)
			return -err->code;
		s += n;
	}
}

int chain_create(
	struct loop *l, const char *url, const char *no_proxy, struct chain **ret, struct err *err)
{
	AUTO(chain_free) struct chain *c = MEM_NEW(struct chain);
	int r;

	c->loop = l;
	r = parse_url(c, url, err);
	if (r == 0 && no_proxy)
		r = parse_skips(c, no_proxy, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

struct chain *chain_free(struct chain *c)
{
	if (!c)
		return NULL;
	free(c->skips);
	explicit_bzero(c, sizeof(*c));
	free(c);
	return NULL;
}

bool chain_addr(const struct chain *c, struct address *ret)
{
	*ret = c->addr;
	return c->addr.family != 0;
}

const char *chain_host(const struct chain *c)
{
	return c->host;
}

uint16_t chain_port(const struct chain *c)
{
	return c->port;
}

static bool skip_fits(const struct skip *k, const char *name, const struct address *addr)
{
	size_t n, m;

	if (k->is_any)
		return true;
	if (!name)
		return k->is_net && address_in(addr, &k->net);
	if (k->is_net)
		return false; /* a name is not looked up to find out */
	n = strlen(name);
	m = strlen(k->name);
	if (n == m)
		return !k->is_below && strcmp(name, k->name) == 0;
	return n > m && name[n - m - 1] == '.' && strcmp(name + n - m, k->name) == 0;
}

bool chain_skips(const struct chain *c, const char *name, const struct address *addr)
{
	for (size_t i = 0; i < c->skips_n; i++)
		if (skip_fits(&c->skips[i], name, addr))
			return true;
	return false;
}

/* ---- the conversation ---- */

static void stop(struct chain_wait *w)
{
	struct err ignored;

	(void)loop_watch_set(w->chain->loop, &w->watch, 0, &ignored);
	loop_timer_cancel(w->chain->loop, &w->timer);
	if (w->out.p)
		explicit_bzero(w->out.p, w->out.size);
	buf_done(&w->out);
	w->chain = NULL;
}

static void finish(struct chain_wait *w, const char *why)
{
	int fd;

	stop(w);
	fd = TAKE_FD(w->watch.fd);
	if (why)
		closep(&fd);
	w->done(w, fd, why ? why : "");
}

void chain_cancel(struct chain_wait *w)
{
	if (!w->chain)
		return;
	stop(w);
	closep(&w->watch.fd);
}

static void timer_fired(struct loop_timer *t)
{
	finish((struct chain_wait *)((char *)t - offsetof(struct chain_wait, timer)),
		"the upstream proxy did not answer in time");
}

static void add_base64(struct buf *b, const unsigned char *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);
		char four[4] = {digits[v >> 18], digits[v >> 12 & 63],
			i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '='};

		(void)buf_add(b, four, 4);
	}
}

static void put_connect(const struct chain *c, struct buf *b, const struct chain_target *t)
{
	char host[POLICY_NAME_MAX + 16], text[ADDRESS_TEXT_MAX];

	if (t->name) {
		(void)snprintf(host, sizeof(host), "%s:%u", t->name, t->port);
	} else {
		address_format(t->addr, text);
		(void)snprintf(host, sizeof(host), t->addr->family == 6 ? "[%s]:%u" : "%s:%u", text,
			t->port);
	}
	(void)buf_addf(b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", host, host);
	if (c->has_user) {
		char login[2 * SECRET_MAX + 2];
		int n = snprintf(login, sizeof(login), "%s:%s", c->user, c->pass);

		(void)buf_addf(b, "Proxy-Authorization: Basic ");
		add_base64(b, (const unsigned char *)login, (size_t)n);
		(void)buf_add(b, "\r\n", 2);
		explicit_bzero(login, sizeof(login));
	}
	(void)buf_add(b, "\r\n", 2);
}

static void put_socks(const struct chain *c, struct chain_wait *w, const struct chain_target *t)
{
	char *p = w->request;
	size_t n = 0;

	(void)buf_add(&w->out, c->has_user ? "\5\1\2" : "\5\1\0", 3);
	memcpy(p, "\5\1\0", 3);
	n = 3;
	if (t->name) {
		size_t len = strlen(t->name);

		p[n++] = 3;
		p[n++] = (char)len;
		memcpy(p + n, t->name, len);
		n += len;
	} else {
		size_t len = t->addr->family == 4 ? 4 : 16;

		p[n++] = t->addr->family == 4 ? 1 : 4;
		memcpy(p + n, t->addr->b, len);
		n += len;
	}
	p[n++] = (char)(t->port >> 8);
	p[n++] = (char)t->port;
	w->request_n = n;
}

static void put_login(const struct chain *c, struct buf *b)
{
	char n;

	(void)buf_add(b, "\1", 1);
	n = (char)strlen(c->user);
	(void)buf_add(b, &n, 1);
	(void)buf_add(b, c->user, strlen(c->user));
	n = (char)strlen(c->pass);
	(void)buf_add(b, &n, 1);
	(void)buf_add(b, c->pass, strlen(c->pass));
}

/* Exactly n bytes and not one more: 1, 0 for "not yet", -1 at the end. */
static int take(int fd, char *p, size_t n)
{
	ssize_t got = recv(fd, p, n, MSG_PEEK);

	if (got == (ssize_t)n)
		return recv(fd, p, n, 0) == (ssize_t)n ? 1 : -1;
	return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;
}

static const char gone[] = "the upstream proxy closed the connection";

/* True: done with, one way or the other. */
static bool read_head(struct chain_wait *w)
{
	char head[HEAD_MAX];
	struct h1_head h;
	struct h1_text method = {"CONNECT", 7};
	ssize_t n = recv(w->watch.fd, head, sizeof(head), MSG_PEEK);
	size_t scan = 0, end;
	char why[80];

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	end = n > 0 ? h1_head_end(head, (size_t)n, &scan) : 0;
	if (n <= 0 || end == (size_t)-1 || (end == 0 && n == (ssize_t)sizeof(head))) {
		finish(w, n <= 0 ? gone : "the upstream proxy's answer is malformed");
		return true;
	}
	if (end == 0) {
		int low = (int)n + 1; /* wake up for more than this only */

		(void)setsockopt(w->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
		return false;
	}
	if (h1_parse_response(head, end, method, &h) != 0) {
		finish(w, "the upstream proxy's answer is malformed");
	} else if (h.status < 200 || h.status > 299) {
		(void)snprintf(why, sizeof(why), "the upstream proxy said %d", h.status);
		finish(w, why);
	} else {
		int low = 1;

		(void)setsockopt(w->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
		finish(w, recv(w->watch.fd, head, end, 0) == (ssize_t)end ? NULL : gone);
	}
	return true;
}

static const char *socks_error(unsigned char code)
{
	switch (code) {
	case 2: return "the upstream proxy does not allow it";
	case 3:
	case 4: return "the upstream proxy cannot reach it";
	case 5: return "the upstream proxy's connection was refused";
	default: return "the upstream proxy could not connect";
	}
}

/* The reply's length depends on its fifth byte. */
static bool read_reply(struct chain_wait *w)
{
	unsigned char p[5 + 255 + 2];
	ssize_t got = recv(w->watch.fd, p, 5, MSG_PEEK);
	size_t n = 0;
	int r;

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		finish(w, gone);
		return true;
	}
	if (got < 5)
		return false;
	if (p[3] == 1)
		n = 10;
	else if (p[3] == 4)
		n = 22;
	else if (p[3] == 3)
		n = 7u + p[4];
	if (p[0] != 5 || n == 0 || p[1] != 0) {
		finish(w, p[0] == 5 && p[1] != 0 ? socks_error(p[1])
						 : "the upstream proxy's answer is malformed");
		return true;
	}
	r = take(w->watch.fd, (char *)p, n);
	if (r != 0)
		finish(w, r > 0 ? NULL : gone);
	return r != 0;
}

static bool read_method(struct chain_wait *w)
{
	char p[2];
	int r = take(w->watch.fd, p, 2);

	if (r == 0)
		return false;
	if (r < 0 || p[0] != 5 || (p[1] != 0 && (p[1] != 2 || !w->chain->has_user))) {
		finish(w, r < 0 ? gone : "the upstream proxy wants another way to log in");
		return true;
	}
	if (p[1] == 2) {
		put_login(w->chain, &w->out);
		w->step = SOCKS_AUTH;
	} else {
		(void)buf_add(&w->out, w->request, w->request_n);
		w->step = SOCKS_REPLY;
	}
	return true;
}

static bool read_auth(struct chain_wait *w)
{
	char p[2];
	int r = take(w->watch.fd, p, 2);

	if (r == 0)
		return false;
	if (r < 0 || p[1] != 0) {
		finish(w, r < 0 ? gone : "the upstream proxy refused the user or password");
		return true;
	}
	(void)buf_add(&w->out, w->request, w->request_n);
	w->step = SOCKS_REPLY;
	return true;
}

static bool step(struct chain_wait *w)
{
	switch (w->step) {
	case HTTP_HEAD: return read_head(w);
	case SOCKS_METHOD: return read_method(w);
	case SOCKS_AUTH: return read_auth(w);
	default: return read_reply(w);
	}
}

/* False: it failed, and that was told. */
static bool flush(struct chain_wait *w)
{
	while (buf_len(&w->out) > 0) {
		ssize_t n = send(w->watch.fd, buf_data(&w->out), buf_len(&w->out), MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0 && errno != EINTR) {
			finish(w, gone);
			return false;
		}
		if (n > 0)
			buf_eat(&w->out, (size_t)n);
	}
	return true;
}

static void go_on(struct chain_wait *w)
{
	struct err err;

	/* Each step that is complete may have something to say. */
	while (flush(w) && buf_len(&w->out) == 0 && step(w) && w->chain)
		;
	if (!w->chain)
		return;
	if (loop_watch_set(w->chain->loop, &w->watch,
		    buf_len(&w->out) > 0 ? EPOLLOUT : EPOLLIN | EPOLLRDHUP | EPOLLET, &err) < 0)
		finish(w, err.msg);
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	go_on((struct chain_wait *)((char *)watch - offsetof(struct chain_wait, watch)));
}

void chain_start(
	const struct chain *c, struct chain_wait *w, int take_fd, const struct chain_target *t)
{
	struct err err;

	w->chain = c;
	w->watch = (struct loop_watch){.fd = take_fd, .ready = ready};
	w->timer.fire = timer_fired;
	w->out = (struct buf){.cap = 4096};
	loop_timer_set(c->loop, &w->timer, CHAIN_MS);
	if (c->is_socks) {
		put_socks(c, w, t);
		w->step = SOCKS_METHOD;
	} else {
		put_connect(c, &w->out, t);
		w->step = HTTP_HEAD;
	}
	/* Writable at once: the first bytes go from the loop. */
	if (loop_watch_set(c->loop, &w->watch, EPOLLOUT, &err) < 0)
		loop_timer_set(c->loop, &w->timer, 0);
}
