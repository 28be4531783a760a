/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy_decide: a table of decisions, and the promise that a sure one never flips.
 */
#include "core/policy.h"
#include "tap.h"

#include <stdio.h>

static struct policy *policy(const char *json)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (!CHECK_INT(policy_from_json(json, strlen(json), &p, &err), 0))
		tap_print("# %s\n", err.msg);
	return p;
}

static struct address address(const char *s)
{
	struct address a = {0};

	CHECK(address_parse(s, strlen(s), &a));
	return a;
}

/* "name port protocol method path", "-" for unknown; a name that reads as an address is one. */
static struct policy_answer ask(const struct policy *p, const char *text)
{
	char name[256], protocol[8], method[16], path[256];
	struct policy_answer a;
	struct address addr;
	unsigned port = 0;

	CHECK_INT(sscanf(text, "%255s %u %7s %15s %255s", name, &port, protocol, method, path), 5);
	bool is_bare = address_parse(name, strlen(name), &addr);
	struct policy_question q = {
		.name = is_bare ? NULL : name,
		.addr = is_bare ? &addr : NULL,
		.port = (uint16_t)port,
		.protocol = strcmp(protocol, "https") == 0  ? POLICY_HTTPS
			    : strcmp(protocol, "http") == 0 ? POLICY_HTTP
			    : strcmp(protocol, "tcp") == 0  ? POLICY_TCP
			    : strcmp(protocol, "wss") == 0  ? POLICY_HTTPS | POLICY_WS
			    : strcmp(protocol, "ws") == 0   ? POLICY_HTTP | POLICY_WS
							    : 0,
		.method = method[0] == '-' ? NULL : method,
		.path = path[0] == '-' ? NULL : path,
		.program = "/usr/bin/curl",
	};
	policy_decide(p, &q, &a);
	return a;
}

struct expectation {
	const char *question;
	int action; /* enum policy_action, or -needs */
};

static void expect(const char *json, const struct expectation *e, size_t n)
{
	AUTO(policy_unref) struct policy *p = policy(json);

	for (size_t i = 0; p && i < n; i++) {
		struct policy_answer a = ask(p, e[i].question);
		int got = a.needs ? -(int)a.needs : (int)a.action;

		if (!CHECK_INT(got, e[i].action))
			tap_print("# %s\n", e[i].question);
	}
}
#define EXPECT(json, ...)                                                                          \
	expect(json, (const struct expectation[]){__VA_ARGS__},                                    \
		sizeof((const struct expectation[]){__VA_ARGS__}) / sizeof(struct expectation))

static void nothing_is_allowed_by_nothing(void)
{
	EXPECT("{\"rules\":[]}", {"a.test 0 - - -", POLICY_DENY},
		{"a.test 443 https GET /", POLICY_DENY}, {"8.8.8.8 53 tcp - -", POLICY_DENY});
}

static void hosts_match_by_name(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\",\"*.b.test\"]}]}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"x.a.test 443 https - -", POLICY_DENY},
		{"xa.test 443 https - -", POLICY_DENY}, {"b.test 443 https - -", POLICY_DENY},
		{"x.b.test 443 https - -", POLICY_ALLOW}, {"y.x.b.test 80 http - -", POLICY_ALLOW},
		{"xb.test 443 https - -", POLICY_DENY},
		{"a.test.b.test 443 https - -", POLICY_ALLOW},
		{"b.test.evil.test 443 https - -", POLICY_DENY},
		{"1.2.3.4 443 https - -", POLICY_DENY});
}

static void any_host_is_any_name_and_no_address(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"]}]}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"8.8.8.8 443 https - -", POLICY_DENY});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"8.0.0.0/8\"]},{\"action\":\"deny\","
	       "\"hosts\":[\"*\"]}]}",
		{"a.test 443 https - -", POLICY_DENY}, {"8.8.8.8 443 https - -", POLICY_DENY});
}

static void networks_are_for_bare_addresses(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"10.1.0.0/16\",\"0.0.0.0/"
	       "0\",\"::1\"]}"
	       "]}",
		{"10.1.2.3 443 https - -", POLICY_ALLOW}, {"10.2.0.1 443 https - -", POLICY_DENY},
		{"8.8.8.8 443 https - -", POLICY_ALLOW}, {"127.0.0.1 443 https - -", POLICY_DENY},
		{"169.254.169.254 80 http - -", POLICY_DENY}, {"::1 80 http - -", POLICY_ALLOW},
		{"::ffff:10.1.2.3 80 http - -", POLICY_ALLOW},
		{"::ffff:169.254.169.254 80 http - -", POLICY_DENY},
		{"a.test 443 https - -", POLICY_DENY});
}

static void ports_that_go_without_saying_are_those_of_the_protocol(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"]}]}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"a.test 80 http - -", POLICY_ALLOW},
		{"a.test 80 https - -", POLICY_DENY}, {"a.test 443 http - -", POLICY_DENY},
		{"a.test 8443 https - -", POLICY_DENY}, {"a.test 443 tcp - -", POLICY_DENY},
		{"a.test 22 - - -", POLICY_DENY}, {"a.test 443 wss GET /", POLICY_ALLOW},
		{"a.test 80 ws GET /", POLICY_ALLOW}, {"a.test 443 - - -", -POLICY_NEEDS_PROTOCOL},
		{"a.test 0 https - -", -POLICY_NEEDS_PORT},
		{"a.test 0 - - -", -(POLICY_NEEDS_PORT | POLICY_NEEDS_PROTOCOL)});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"ports\":[\"8000-8002\","
	       "443]}]}",
		{"a.test 8001 https - -", POLICY_ALLOW}, {"a.test 8002 http - -", POLICY_ALLOW},
		{"a.test 8003 https - -", POLICY_DENY}, {"a.test 80 http - -", POLICY_DENY},
		{"a.test 443 http - -", POLICY_ALLOW});
}

static void a_tcp_rule_is_sure_before_a_byte_is_seen(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"db.test\"],\"protocols\":[\"tcp\"],"
	       "\"ports\":[5432]}]}",
		{"db.test 5432 - - -", POLICY_ALLOW}, {"db.test 5432 tcp - -", POLICY_ALLOW},
		{"db.test 5432 https - -", POLICY_ALLOW}, {"db.test 5432 http GET /", POLICY_ALLOW},
		{"db.test 5433 - - -", POLICY_DENY}, {"db.test 0 - - -", -POLICY_NEEDS_PORT},
		{"x.test 5432 - - -", POLICY_DENY});
}

static void https_covers_websockets_and_ws_is_nothing_else(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"protocols\":[\"https\"]}"
	       "]"
	       "}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"a.test 443 wss GET /", POLICY_ALLOW},
		{"a.test 80 http - -", POLICY_DENY}, {"a.test 80 ws GET /", POLICY_DENY});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"protocols\":[\"ws\"]}]}",
		{"a.test 443 https - -", -POLICY_NEEDS_REQUEST},
		{"a.test 443 wss GET /", POLICY_ALLOW}, {"a.test 443 https GET /", POLICY_DENY},
		{"a.test 80 ws GET /", POLICY_ALLOW}, {"a.test 443 tcp - -", POLICY_DENY});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"]},{\"action\":\"deny\","
	       "\"hosts\":[\"a.test\"],\"protocols\":[\"ws\"]}]}",
		{"a.test 443 https - -", -POLICY_NEEDS_REQUEST},
		{"a.test 443 wss GET /", POLICY_DENY}, {"a.test 443 https GET /", POLICY_ALLOW});
}

static void ws_beside_https_stays_inside_tls(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"protocols\":[\"https\","
	       "\"ws\"]}]}",
		{"a.test 443 wss GET /", POLICY_ALLOW}, {"a.test 80 ws GET /", POLICY_DENY},
		{"a.test 80 http GET /", POLICY_DENY});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"protocols\":[\"ws\"]}]}",
		{"a.test 443 wss GET /", POLICY_ALLOW}, {"a.test 80 ws GET /", POLICY_ALLOW});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"]},{\"action\":\"deny\","
	       "\"hosts\":[\"a.test\"],\"protocols\":[\"https\",\"ws\"]}]}",
		{"a.test 80 ws GET /", POLICY_DENY}, {"a.test 80 http GET /", POLICY_ALLOW});
}

static void methods_and_paths_need_the_request(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"methods\":[\"GET\","
	       "\"HEAD\"],\"paths\":[\"/pub/**\"]}]}",
		{"a.test 443 https - -", -POLICY_NEEDS_REQUEST},
		{"a.test 443 https GET -", -POLICY_NEEDS_REQUEST},
		{"a.test 443 https POST -", POLICY_DENY}, {"a.test 443 https - /x", POLICY_DENY},
		{"a.test 443 https GET /pub/x", POLICY_ALLOW},
		{"a.test 443 https get /pub/x", POLICY_DENY},
		{"a.test 443 https GET /x", POLICY_DENY},
		{"a.test 443 https GET /pub/../x", POLICY_DENY},
		{"a.test 443 https GET /pub/%2e%2e/x", POLICY_DENY},
		{"a.test 443 tcp - -", POLICY_DENY},
		{"a.test 443 - - -", -(POLICY_NEEDS_PROTOCOL | POLICY_NEEDS_REQUEST)});
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"]},{\"action\":\"deny\","
	       "\"hosts\":[\"a.test\"],\"paths\":[\"/admin/**\"]}]}",
		{"a.test 443 https - -", -POLICY_NEEDS_REQUEST},
		{"a.test 443 https GET /x", POLICY_ALLOW},
		{"a.test 443 https GET /admin/x", POLICY_DENY},
		{"a.test 443 https GET //admin/x", POLICY_DENY},
		{"a.test 443 https GET /x/../admin/", POLICY_DENY});
}

static void deny_wins_over_ask_and_ask_over_allow(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"]},{\"action\":\"ask\",\"hosts\":"
	       "["
	       "\"*.ask.test\"]},{\"action\":\"deny\",\"hosts\":[\"bad.ask.test\"]}]}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"x.ask.test 443 https - -", POLICY_ASK},
		{"bad.ask.test 443 https - -", POLICY_DENY}, {"bad.ask.test 0 - - -", POLICY_DENY},
		{"bad.ask.test 8443 https - -", POLICY_DENY});
}

static void what_a_person_approved_wins_over_ask_alone(void)
{
	EXPECT("{\"rules\":[{\"action\":\"ask\",\"hosts\":[\"*\"]},"
	       "{\"action\":\"allow\",\"approved\":true,\"hosts\":[\"a.test\",\"bad.test\"]},"
	       "{\"action\":\"deny\",\"hosts\":[\"bad.test\"]}]}",
		{"a.test 443 https - -", POLICY_ALLOW}, {"b.test 443 https - -", POLICY_ASK},
		{"bad.test 443 https - -", POLICY_DENY});
	EXPECT("{\"floor\":[{\"action\":\"ask\",\"hosts\":[\"*\"]}],\"rules\":["
	       "{\"action\":\"allow\",\"approved\":true,\"hosts\":[\"a.test\"]}]}",
		{"a.test 443 https - -", POLICY_ASK});
}

static void a_deny_rule_without_ports_means_all_of_them(void)
{
	EXPECT("{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"],\"protocols\":[\"tcp\"],"
	       "\"ports\":[\"1-65535\"]},{\"action\":\"deny\",\"hosts\":[\"evil.test\"]}]}",
		{"evil.test 25 tcp - -", POLICY_DENY}, {"evil.test 0 - - -", POLICY_DENY},
		{"good.test 25 - - -", POLICY_ALLOW}, {"good.test 0 - - -", POLICY_ALLOW});
}

static void the_floor_only_takes_away(void)
{
	static const char json[] =
		"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\",\"10.0.0.0/8\"]},{\"action\":"
		"\"deny\",\"hosts\":[\"no.test\"]}],\"floor\":[{\"action\":\"allow\",\"hosts\":["
		"\"*.test\"],\"id\":\"floor/ok\"},{\"action\":\"deny\",\"hosts\":[\"bad.test\"],"
		"\"id\":\"floor/bad\"},{\"action\":\"ask\",\"hosts\":[\"hm.test\"]}]}";
	AUTO(policy_unref) struct policy *p = policy(json);
	struct policy_answer a;

	EXPECT(json, {"a.test 443 https - -", POLICY_ALLOW}, {"a.other 443 https - -", POLICY_DENY},
		{"bad.test 443 https - -", POLICY_DENY}, {"hm.test 443 https - -", POLICY_ASK},
		{"no.test 443 https - -", POLICY_DENY}, {"10.0.0.1 443 https - -", POLICY_DENY});
	a = ask(p, "bad.test 443 https - -");
	CHECK(a.by_floor && a.rule);
	CHECK_STR(a.rule->id, "floor/bad");
	a = ask(p, "a.other 443 https - -");
	CHECK(a.by_floor && !a.rule);
	a = ask(p, "no.test 443 https - -");
	CHECK(!a.by_floor && a.rule == &p->rules[1]);
	a = ask(p, "hm.test 443 https - -");
	CHECK(a.rule == &p->rules[0]);
}

static void where_a_name_leads_can_deny_it_and_needs_a_name_for_private_ones(void)
{
	static const char json[] =
		"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*.corp.test\",\"pub.test\"]},{"
		"\"action\":\"allow\",\"hosts\":[\"10.1.0.0/16\"]},{\"action\":\"deny\",\"hosts\":"
		"[\"10.1.66.0/24\",\"93.184.0.0/16\"]}]}";
	AUTO(policy_unref) struct policy *p = policy(json);
	struct policy_question q = {.name = "db.corp.test", .port = 443, .protocol = POLICY_HTTPS};
	struct policy_answer a;
	static const struct {
		const char *address;
		bool may;
		enum policy_action action;
	} table[] = {
		{"10.1.2.3", true, POLICY_ALLOW},
		{"10.2.2.3", false, POLICY_ALLOW},
		{"10.1.66.1", false, POLICY_DENY},
		{"93.184.216.34", false, POLICY_DENY},
		{"8.8.8.8", true, POLICY_ALLOW},
		{"127.0.0.1", false, POLICY_ALLOW},
		{"169.254.169.254", false, POLICY_ALLOW},
		{"64:ff9b::a01:203", false, POLICY_ALLOW},
		{"::1", false, POLICY_ALLOW},
	};

	policy_decide(p, &q, &a);
	CHECK_INT(a.needs, POLICY_NEEDS_ADDRESS);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct address to = address(table[i].address);

		if (!CHECK(policy_may_dial(p, &q, &to, &a) == table[i].may) ||
			!CHECK_INT(a.action, table[i].action))
			tap_print("# %s\n", table[i].address);
	}
	/* What nothing allows is refused without a look-up. */
	q.name = "other.test";
	policy_decide(p, &q, &a);
	CHECK(a.needs == 0 && a.action == POLICY_DENY);
	/* Another port than the network's rule has. */
	q.name = "db.corp.test";
	q.port = 0;
	policy_decide(p, &q, &a);
	CHECK(a.needs && !(a.needs & POLICY_NEEDS_ADDRESS));
}

static void programs_count_when_known(void)
{
	static const char json[] =
		"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"programs\":[\"/usr/bin/"
		"git\","
		"\"/usr/lib/git-core/"
		"*\"]},{\"action\":\"deny\",\"hosts\":[\"b.test\"],\"programs\":["
		"\"/tmp/**\"]},{\"action\":\"allow\",\"hosts\":[\"b.test\"]}]}";
	AUTO(policy_unref) struct policy *p = policy(json);
	struct policy_question q = {.name = "a.test", .port = 443, .protocol = POLICY_HTTPS};
	struct policy_answer a;
	static const struct {
		const char *name, *program;
		int action;
	} table[] = {
		{"a.test", NULL, -POLICY_NEEDS_PROGRAM},
		{"a.test", "/usr/bin/git", POLICY_ALLOW},
		{"a.test", "/usr/lib/git-core/git-remote-https", POLICY_ALLOW},
		{"a.test", "/usr/bin/curl", POLICY_DENY},
		{"a.test", "", POLICY_DENY},
		{"b.test", NULL, -POLICY_NEEDS_PROGRAM},
		{"b.test", "/tmp/x/y", POLICY_DENY},
		{"b.test", "", POLICY_DENY},
		{"b.test", "/usr/bin/curl", POLICY_ALLOW},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		q.name = table[i].name;
		q.program = table[i].program;
		policy_decide(p, &q, &a);
		CHECK_INT(a.needs ? -(int)a.needs : (int)a.action, table[i].action);
	}
}

static void credentials_and_request_budgets_want_to_look_inside(void)
{
	static const char json[] =
		"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"]},{\"action\":\"allow\","
		"\"hosts\":["
		"\"api.test\"],\"credentials\":[{\"secret\":\"s\",\"header\":\"A\"}]},{\"action\":"
		"\"allow\",\"hosts\":[\"post.test\"],\"methods\":[\"POST\"],\"credentials\":[{"
		"\"secret\":\"s\",\"header\":\"A\"}]},{\"action\":\"allow\",\"hosts\":[\"few."
		"test\"],"
		"\"budget\":{\"requests\":1}}]}";
	AUTO(policy_unref) struct policy *p = policy(json);
	struct policy_answer a = ask(p, "x.test 443 https - -");

	CHECK(a.action == POLICY_ALLOW && !a.must_intercept && a.rule == &p->rules[0]);
	a = ask(p, "api.test 443 https - -");
	CHECK(a.action == POLICY_ALLOW && a.must_intercept && a.rule == &p->rules[1]);
	a = ask(p, "post.test 443 https - -");
	CHECK(a.needs == 0 && a.must_intercept);
	a = ask(p, "post.test 443 https POST /");
	CHECK(a.rule == &p->rules[2]);
	a = ask(p, "post.test 443 https GET /");
	CHECK(a.rule == &p->rules[0]);
	a = ask(p, "few.test 443 https - -");
	CHECK(a.must_intercept);
	/* Plain HTTP to the same host: not where the credential goes. */
	a = ask(p, "api.test 80 http GET /");
	CHECK(a.rule == &p->rules[0] && !a.must_intercept);
}

/* ---- the promise, by enumeration */

static const char *const names[] = {"a.test", "x.b.test", "c.other"};
static const char *const addresses[] = {NULL, "10.1.2.3", "93.184.216.34", "8.8.8.8"};
static const uint16_t ports[] = {0, 443, 80, 22};
/* What is spoken, and when it is known: before or with the request. */
static const struct {
	unsigned protocol;
	const char *method, *path;
} speech[] = {
	{0, NULL, NULL},
	{POLICY_TCP, NULL, NULL},
	{POLICY_HTTPS, NULL, NULL},
	{POLICY_HTTP, NULL, NULL},
	{POLICY_HTTPS, "GET", NULL},
	{POLICY_HTTPS, "GET", "/pub/x"},
	{POLICY_HTTPS, "GET", "/x/../pub"},
	{POLICY_HTTPS, "POST", "/pub/x"},
	{POLICY_HTTPS | POLICY_WS, "GET", "/pub/x"},
	{POLICY_HTTP, "GET", "/x"},
	{POLICY_HTTP | POLICY_WS, "GET", "/x"},
};
static const char *const programs[] = {NULL, "", "/usr/bin/git", "/tmp/x"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* May knowledge `a` become knowledge `b`? */
static bool speech_becomes(size_t a, size_t b)
{
	unsigned pa = speech[a].protocol, pb = speech[b].protocol;

	if (pa && pa != pb && !(speech[a].method == NULL && (pa | POLICY_WS) == pb))
		return false;
	if (speech[a].method &&
		(!speech[b].method || strcmp(speech[a].method, speech[b].method) != 0))
		return false;
	if (speech[a].path && (!speech[b].path || strcmp(speech[a].path, speech[b].path) != 0))
		return false;
	/* A request that is seen shows whether it is an upgrade. */
	return !(speech[a].method && pa != pb);
}

struct state {
	size_t address, port, speech, program;
};

static struct state nth(size_t i)
{
	struct state s;

	s.address = i % COUNT(addresses);
	i /= COUNT(addresses);
	s.port = i % COUNT(ports);
	i /= COUNT(ports);
	s.speech = i % COUNT(speech);
	s.program = i / COUNT(speech);
	return s;
}

#define STATES (COUNT(addresses) * COUNT(ports) * COUNT(speech) * COUNT(programs))

static bool becomes(const struct state *a, const struct state *b)
{
	return (a->address == 0 || a->address == b->address) &&
	       (a->port == 0 || a->port == b->port) && speech_becomes(a->speech, b->speech) &&
	       (a->program == 0 || a->program == b->program);
}

static struct policy_answer answer(const struct policy *p, const char *name, const struct state *s)
{
	struct policy_answer a;
	struct address addr;
	struct policy_question q = {.name = name,
		.port = ports[s->port],
		.protocol = speech[s->speech].protocol,
		.method = speech[s->speech].method,
		.path = speech[s->speech].path,
		.program = programs[s->program]};

	if (addresses[s->address]) {
		addr = address(addresses[s->address]);
		q.addr = &addr;
	}
	policy_decide(p, &q, &a);
	return a;
}

static bool is_all_known(const struct state *s)
{
	return s->address && s->port && s->program &&
	       (speech[s->speech].protocol == POLICY_TCP || speech[s->speech].path);
}

static size_t check_name(const struct policy *p, const char *name)
{
	static struct policy_answer all[STATES];
	size_t bad = 0;

	for (size_t i = 0; i < STATES; i++) {
		struct state s = nth(i);

		all[i] = answer(p, name, &s);
		if (is_all_known(&s) && all[i].needs)
			bad++;
		if ((all[i].needs & POLICY_NEEDS_ADDRESS) && all[i].needs != POLICY_NEEDS_ADDRESS)
			bad++;
	}
	for (size_t i = 0; i < STATES; i++) {
		struct state a = nth(i);

		for (size_t j = 0; !all[i].needs && j < STATES; j++) {
			struct state b = nth(j);

			if (becomes(&a, &b) && (all[j].needs || all[j].action != all[i].action))
				bad++;
		}
	}
	return bad;
}

/* Every pair of a dozen rules, with and without a floor of a third: no sure answer ever flips. */
static void a_sure_answer_never_flips(void)
{
	static const char *const pieces[] = {
		"{\"action\":\"allow\",\"hosts\":[\"*\"]}",
		"{\"action\":\"allow\",\"hosts\":[\"a.test\"],\"methods\":[\"GET\"]}",
		"{\"action\":\"allow\",\"hosts\":[\"*.b.test\"],\"protocols\":[\"tcp\"],\"ports\":["
		"22,443]}",
		"{\"action\":\"allow\",\"hosts\":[\"*\"],\"protocols\":[\"ws\"],\"paths\":[\"/pub/"
		"**\"]}",
		"{\"action\":\"allow\",\"hosts\":[\"*\"],\"programs\":[\"/usr/bin/*\"]}",
		"{\"action\":\"deny\",\"hosts\":[\"*.b.test\"],\"paths\":[\"/pub/**\"]}",
		"{\"action\":\"deny\",\"hosts\":[\"10.0.0.0/8\",\"8.8.8.8\"]}",
		"{\"action\":\"deny\",\"hosts\":[\"*\"],\"protocols\":[\"ws\"]}",
		"{\"action\":\"deny\",\"hosts\":[\"*\"],\"programs\":[\"/tmp/"
		"**\"],\"ports\":[443]}",
		"{\"action\":\"ask\",\"hosts\":[\"*\"],\"methods\":[\"POST\"]}",
		"{\"action\":\"allow\",\"approved\":true,\"hosts\":[\"a.test\"],\"paths\":["
		"\"/pub/**\"]}",
		"{\"action\":\"ask\",\"hosts\":[\"a.test\",\"10.0.0.0/"
		"8\"],\"protocols\":[\"https\"]}",
	};

	for (size_t i = 0; i < COUNT(pieces); i++) {
		for (size_t j = i; j < COUNT(pieces); j++) {
			size_t k = (i * 7 + j * 3) % (COUNT(pieces) + 1);
			AUTO(policy_unref) struct policy *p = NULL;
			char json[1024];

			(void)snprintf(json, sizeof(json), "{\"rules\":[%s,%s]%s%s%s}", pieces[i],
				pieces[j], k < COUNT(pieces) ? ",\"floor\":[" : "",
				k < COUNT(pieces) ? pieces[k] : "", k < COUNT(pieces) ? "]" : "");
			p = policy(json);
			for (size_t n = 0; p && n < COUNT(names); n++) {
				if (!CHECK_INT(check_name(p, names[n]), 0))
					tap_print("# %s with %s\n", names[n], json);
			}
		}
	}
}

int main(void)
{
	RUN(nothing_is_allowed_by_nothing);
	RUN(hosts_match_by_name);
	RUN(any_host_is_any_name_and_no_address);
	RUN(networks_are_for_bare_addresses);
	RUN(ports_that_go_without_saying_are_those_of_the_protocol);
	RUN(a_tcp_rule_is_sure_before_a_byte_is_seen);
	RUN(https_covers_websockets_and_ws_is_nothing_else);
	RUN(ws_beside_https_stays_inside_tls);
	RUN(methods_and_paths_need_the_request);
	RUN(deny_wins_over_ask_and_ask_over_allow);
	RUN(what_a_person_approved_wins_over_ask_alone);
	RUN(a_deny_rule_without_ports_means_all_of_them);
	RUN(the_floor_only_takes_away);
	RUN(where_a_name_leads_can_deny_it_and_needs_a_name_for_private_ones);
	RUN(programs_count_when_known);
	RUN(credentials_and_request_budgets_want_to_look_inside);
	RUN(a_sure_answer_never_flips);
	return tap_done();
}
