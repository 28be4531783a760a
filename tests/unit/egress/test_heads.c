/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/heads.h"

#include "tap.h"

#include <stdlib.h>

static struct h1_text text(const char *s)
{
	return (struct h1_text){s, strlen(s)};
}

static struct h1_head head;

static bool parse(const char *s)
{
	return CHECK_INT(h1_parse_request(s, strlen(s), &head), 0);
}

static void authorities_are_names_or_addresses(void)
{
	static const char *const bad[] = {"", ":80", "a:", "a:0", "a:65536", "a:1x", "a:b@c", "a@b",
		"[::1", "::1", "[1.2.3.4]", "[::1]x", "[::1]:", "a b", "a..b", "-", "a/b",
		"1.2.3.4.5:x"};
	struct heads_goal g;

	CHECK(heads_authority(text("PyPI.org."), &g) && g.port == 0);
	CHECK_STR(g.name, "pypi.org");
	CHECK(heads_authority(text("a.b:8080"), &g) && g.port == 8080);
	CHECK(heads_authority(text("1.2.3.4:80"), &g) && !g.name[0] && g.addr.family == 4);
	CHECK(heads_authority(text("[2001:db8::1]:443"), &g) && g.addr.family == 6 &&
		g.port == 443);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!CHECK(!heads_authority(text(bad[i]), &g)))
			tap_print("# %s\n", bad[i]);
}

static void hosts_agree_by_name_and_port(void)
{
	struct heads_goal own = {.name = "a.test", .port = 8080};
	struct heads_goal bare = {.port = 80};

	CHECK(heads_is_for(text("A.test"), &own) && heads_is_for(text("a.test:8080"), &own));
	CHECK(!heads_is_for(text("a.test:80"), &own) && !heads_is_for(text("b.test"), &own));
	CHECK(!heads_is_for(text("x.a.test"), &own) && !heads_is_for(text("1.2.3.4"), &own));
	CHECK(address_parse("10.0.0.1", 8, &bare.addr));
	CHECK(heads_is_for(text("10.0.0.1"), &bare) && heads_is_for(text("10.0.0.1:80"), &bare));
	CHECK(heads_is_for(text("[::ffff:10.0.0.1]"), &bare)); /* the same address */
	CHECK(!heads_is_for(text("10.0.0.2"), &bare) && !heads_is_for(text("a.test"), &bare));
}

static void targets_are_split(void)
{
	struct heads_target t = {0};

	CHECK(parse("GET /a/b?c=/d HTTP/1.1\r\nHost: x\r\n\r\n") && heads_target(&head, &t));
	CHECK(t.authority.n == 0 && h1_is(t.origin, "/a/b?c=/d") && h1_is(t.path, "/a/b"));
	CHECK(parse("GET HTTP://a.test:80/p?q HTTP/1.1\r\nHost: x\r\n\r\n") &&
		heads_target(&head, &t));
	CHECK(h1_is(t.authority, "a.test:80") && !t.is_https && h1_is(t.path, "/p"));
	CHECK(parse("GET https://a.test HTTP/1.1\r\nHost: x\r\n\r\n") && heads_target(&head, &t));
	CHECK(t.is_https && h1_is(t.origin, "/"));
	CHECK(parse("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n") && heads_target(&head, &t));
	CHECK(parse("GET * HTTP/1.1\r\nHost: x\r\n\r\n") && !heads_target(&head, &t));
	CHECK(parse("GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n") && !heads_target(&head, &t));
	CHECK(parse("GET ftp://a/ HTTP/1.1\r\nHost: x\r\n\r\n") && !heads_target(&head, &t));
	CHECK(parse("GET a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n") && !heads_target(&head, &t));
	CHECK(parse("GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n") && !heads_target(&head, &t));
}

static void dot_segments_are_refused_in_any_spelling(void)
{
	static const char *const bad[] = {"/a/../b", "/..", "/.", "/a/./b", "/a/%2e%2e/b",
		"/a/.%2E/b", "/a%2f..%2fb", "/a/..%2fb", "/a\\..\\b", "/a/..;x=1/b",
		"/a/%252e%252e/b", "/a%00b", "/a/%2e", "/%5c..%5c", "/a/..%5cb"};
	static const char *const fine[] = {"/", "/a..b", "/...", "/a/..b/c", "/.git/config",
		"/a/b.", "/%7Euser", "/a%", "/a%2", "/@scope%2fname", "*"};
	char *plain;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!CHECK_INT(heads_plain_path(text(bad[i]), &plain), -EINVAL))
			tap_print("# %s\n", bad[i]);
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		plain = NULL;
		if (!CHECK_INT(heads_plain_path(text(fine[i]), &plain), 0))
			tap_print("# %s\n", fine[i]);
		free(plain);
	}
}

static void a_path_is_also_read_the_plain_way(void)
{
	static const struct {
		const char *sent, *plain;
	} list[] = {
		{"/a/b", NULL},
		{"//a//b", "/a/b"},
		{"/%61dmin", "/admin"},
		{"/a%2Fb", NULL}, /* an escaped slash is none */
		{"/a%20b", NULL},
		{"/%41%2d%7e//", "/A-~/"},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		char *plain = NULL;

		CHECK_INT(heads_plain_path(text(list[i].sent), &plain), 0);
		CHECK_STR(plain, list[i].plain);
		free(plain);
	}
}

static void json_is_for_who_takes_it(void)
{
	CHECK(parse("GET / HTTP/1.1\r\nHost: x\r\n\r\n") && heads_wants_json(&head));
	CHECK(parse("GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n") && heads_wants_json(&head));
	CHECK(parse("GET / HTTP/1.1\r\nHost: x\r\nAccept: application/vnd.x+json\r\n\r\n") &&
		heads_wants_json(&head));
	CHECK(parse("GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html,*/*;q=0.8\r\n\r\n") &&
		!heads_wants_json(&head));
	CHECK(parse("GET / HTTP/1.1\r\nHost: x\r\nAccept: image/png\r\n\r\n") &&
		!heads_wants_json(&head));
}

static void check_answer(const char *raw, const char *method, struct heads_client c,
	const char *want, bool is_chunked)
{
	AUTO_BUF struct buf out = {0};
	bool got = false;

	CHECK_INT(h1_parse_response(raw, strlen(raw), text(method), &head), 0);
	CHECK_INT(heads_answer(&head, raw, strlen(raw), &c, &out, &got), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	CHECK_STR(buf_data(&out), want);
	CHECK_INT(got, is_chunked);
}

static void answers_are_framed_anew(void)
{
	struct heads_client now = {.minor = 1}, old = {.minor = 0, .closes = true};

	check_answer("HTTP/1.0 200 Fine indeed\r\nContent-Length: 5\r\nA: b\r\n\r\n", "GET", now,
		"HTTP/1.1 200 Fine indeed\r\nA: b\r\nContent-Length: 5\r\n\r\n", false);
	check_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: D\r\n\r\n", "GET",
		now, "HTTP/1.1 200 OK\r\nTrailer: D\r\nTransfer-Encoding: chunked\r\n\r\n", true);
	check_answer("HTTP/1.1 200 OK\r\n\r\n", "GET", now,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true);
	check_answer("HTTP/1.1 200 OK\r\n\r\n", "GET", old,
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false);
	check_answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD", now,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false);
	check_answer("HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n", "GET", now,
		"HTTP/1.1 204 \r\n\r\n", false);
	check_answer("HTTP/1.1 304 N\r\nContent-Length: 7\r\n\r\n", "GET", now,
		"HTTP/1.1 304 N\r\nContent-Length: 7\r\n\r\n", false);
}

static void what_belongs_to_the_connection_stays(void)
{
	struct heads_client now = {.minor = 1, .closes = true};

	check_answer(
		"HTTP/1.1 200 OK\r\nConnection: close, X-Private\r\nX-Private: 1\r\nKeep-Alive: "
		"5\r\n"
		"Upgrade: h2c\r\nAlt-Svc: h3=\":443\"\r\nProxy-Authenticate: x\r\nX-Kept: 2\r\n"
		"Content-Length: 0\r\n\r\n",
		"GET", now,
		"HTTP/1.1 200 OK\r\nX-Kept: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		false);
}

static void trailers_never_decide_anything(void)
{
	AUTO_BUF struct buf in = {0};
	AUTO_BUF struct buf out = {0};
	static const char lines[] = "Digest: x\r\nContent-Length: 5\r\nhost: evil\r\nX-Sum: 1\r\n"
				    "AUTHORIZATION: y\r\n";

	CHECK_INT(buf_add(&in, lines, sizeof(lines) - 1), 0);
	CHECK_INT(heads_trailers(&in, &out), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	CHECK_STR(buf_data(&out), "Digest: x\r\nX-Sum: 1\r\n");
}

static void denials_speak_in_every_line(void)
{
	AUTO_BUF struct buf out = {0};
	struct denial d = {.kind = DENIAL_RULE, .name = "a.test", .port = 443};
	struct heads_client c = {.minor = 1};
	const char *p;

	(void)snprintf(d.rule, sizeof(d.rule), "packages/3");
	(void)snprintf(d.reason, sizeof(d.reason), "read-only");
	CHECK_INT(heads_denial(&d, 0, true, &c, &out), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	p = buf_data(&out);
	CHECK(strncmp(p, "HTTP/1.1 403 Forbidden (bawn: rule)\r\n", 37) == 0);
	CHECK(strstr(p, "\r\nBawn-Denied: rule; rule=packages/3\r\n") != NULL);
	CHECK(strstr(p, "application/json") && strstr(p, "egress_denied") &&
		strstr(p, "read-only"));
	buf_done(&out);
	c.is_head = true;
	CHECK_INT(heads_denial(&d, 504, false, &c, &out), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	p = buf_data(&out);
	CHECK(strncmp(p, "HTTP/1.1 504 ", 13) == 0 && strstr(p, "text/plain"));
	CHECK_STR(strstr(p, "\r\n\r\n"), "\r\n\r\n");
	/* A rule's name can forge no field. */
	buf_done(&out);
	(void)snprintf(d.rule, sizeof(d.rule), "x\r\nSet-Cookie: a=b");
	CHECK_INT(heads_denial(&d, 0, false, &c, &out), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	CHECK(!strstr(buf_data(&out), "Set-Cookie"));
}

static void requests_end_with_our_own_framing(void)
{
	static const struct {
		struct heads_framing f;
		const char *want;
	} list[] = {
		{{.framing = H1_NO_BODY}, "\r\n"},
		{{.framing = H1_NO_BODY, .has_length = true}, "Content-Length: 0\r\n\r\n"},
		{{.framing = H1_LENGTH, .length = 7, .expects_continue = true},
			"Content-Length: 7\r\nExpect: 100-continue\r\n\r\n"},
		{{.framing = H1_CHUNKED, .wants_trailers = true},
			"Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n"},
		{{.is_websocket = true}, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		AUTO_BUF struct buf out = {0};

		CHECK_INT(heads_end_request(&list[i].f, &out), 0);
		CHECK_INT(buf_add(&out, "", 1), 0);
		CHECK_STR(buf_data(&out), list[i].want);
	}
}

int main(void)
{
	RUN(authorities_are_names_or_addresses);
	RUN(hosts_agree_by_name_and_port);
	RUN(targets_are_split);
	RUN(dot_segments_are_refused_in_any_spelling);
	RUN(a_path_is_also_read_the_plain_way);
	RUN(json_is_for_who_takes_it);
	RUN(answers_are_framed_anew);
	RUN(what_belongs_to_the_connection_stays);
	RUN(trailers_never_decide_anything);
	RUN(denials_speak_in_every_line);
	RUN(requests_end_with_our_own_framing);
	return tap_done();
}
