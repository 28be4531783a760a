/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy_build - the fields of a rule from their texts, and rules into a policy.
 *
 * Sizes are bounded by the caps of policy.h before anything grows. Pure.
 */
#include "core/policy_build.h"

#include "base/mem.h"
#include "base/sha256.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define QUOTED 80

static int refuse(struct err *err, const char *what, const char *s, const char *accepted)
{
	char quoted[QUOTED];

	return err_set(err, EINVAL, "%s '%s' is not accepted; accepted: %s", what,
		text_quote(s, quoted, sizeof(quoted)), accepted);
}

static const char *const actions[] = {"deny", "allow", "ask"};

const char *policy_action_name(enum policy_action a)
{
	return actions[a];
}

int policy_rule_action(struct policy_rule *r, const char *s, struct err *err)
{
	for (size_t i = 0; i < 3; i++) {
		if (strcmp(actions[i], s) == 0) {
			r->action = (enum policy_action)i;
			return 0;
		}
	}
	return refuse(err, "action", s, "allow, deny, ask");
}

static const char *const protocols[] = {"https", "http", "ws", "tcp"};

const char *policy_protocol_name(unsigned one_bit)
{
	for (size_t i = 0; i < 4; i++) {
		if (one_bit == 1u << i)
			return protocols[i];
	}
	return one_bit & POLICY_WS ? "ws" : "";
}

int policy_rule_protocol(struct policy_rule *r, const char *s, struct err *err)
{
	for (size_t i = 0; i < 4; i++) {
		if (strcmp(protocols[i], s) == 0) {
			r->protocols |= 1u << i;
			return 0;
		}
	}
	return refuse(err, "protocol", s, "https, http, ws, tcp");
}

/* Room for one more element; the capacity is the power of two at or above n. */
static void *grow(void *v, size_t n, size_t size)
{
	if ((n & (n - 1)) != 0)
		return v;
	return mem_must(reallocarray(v, n ? n * 2 : 1, size));
}

static int cap(size_t n, const char *what, struct err *err)
{
	if (n < POLICY_HOSTS_MAX)
		return 0;
	return err_set(err, E2BIG, "more than %d %s in one rule", POLICY_HOSTS_MAX, what);
}

static int parse_host(const char *s, struct policy_host *ret, struct err *err)
{
	char name[POLICY_NAME_MAX + 1];
	const char *rest = s;
	size_t n = strlen(s);

	*ret = (struct policy_host){.kind = POLICY_HOST_EXACT};
	if (strcmp(s, "*") == 0) {
		ret->kind = POLICY_HOST_ANY;
		ret->name = mem_strdup("");
		return 0;
	}
	if (address_net_parse(s, n, &ret->net)) {
		ret->kind = POLICY_HOST_NET;
		ret->name = mem_strdup(s);
		return 0;
	}
	if (text_starts(s, "*.")) {
		ret->kind = POLICY_HOST_SUFFIX;
		rest += 2;
	}
	if (policy_clean_name(rest, strlen(rest), name) < 0)
		return refuse(err, "host", s,
			"a name (pypi.org), names below one (*.pypi.org), an address, a network "
			"(10.0.0.0/8, no bits below the prefix), or *");
	ret->name = mem_strdup(name);
	return 0;
}

int policy_rule_host(struct policy_rule *r, const char *s, struct err *err)
{
	struct policy_host h;
	int q = cap(r->hosts_n, "hosts", err);

	if (q >= 0)
		q = parse_host(s, &h, err);
	if (q < 0)
		return q;
	r->hosts = grow(r->hosts, r->hosts_n, sizeof(*r->hosts));
	r->hosts[r->hosts_n++] = h;
	return 0;
}

static bool parse_port(const char *s, size_t n, uint16_t *ret)
{
	unsigned v = 0;

	if (n == 0 || n > 5 || s[0] == '0')
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = (uint16_t)v;
	return v <= UINT16_MAX;
}

int policy_rule_port(struct policy_rule *r, const char *s, struct err *err)
{
	const char *dash = strchr(s, '-');
	size_t n = dash ? (size_t)(dash - s) : strlen(s);
	struct policy_ports p;
	int q = cap(r->ports_n, "ports", err);

	if (q < 0)
		return q;
	if (!parse_port(s, n, &p.first) ||
		!parse_port(dash ? dash + 1 : s, strlen(dash ? dash + 1 : s), &p.last) ||
		p.first > p.last)
		return refuse(err, "port", s, "1 to 65535, or a range as 8000-8999");
	r->ports = grow(r->ports, r->ports_n, sizeof(*r->ports));
	r->ports[r->ports_n++] = p;
	return 0;
}

int policy_rule_method(struct policy_rule *r, const char *s, struct err *err)
{
	size_t n = strlen(s);
	char upper[32];
	int q = cap(r->methods.n, "methods", err);

	if (q < 0)
		return q;
	if (n == 0 || n >= sizeof(upper) ||
		strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != n)
		return refuse(err, "method", s, "a method's name, as GET");
	for (size_t i = 0; i <= n; i++)
		upper[i] = s[i] >= 'a' && s[i] <= 'z' ? (char)(s[i] - 0x20) : s[i];
	return strv_has(&r->methods, upper) ? 0 : strv_add(&r->methods, upper, err);
}

/* One line of UTF-8: what JSON can carry and a terminal can show. */
static bool is_plain(const char *s, size_t max)
{
	size_t n = strnlen(s, max + 1);

	return n > 0 && n <= max && text_is_line(s);
}

static bool has_dot_segment(const char *s)
{
	while (*s) {
		size_t n = strcspn(s, "/");

		if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return true;
		s += n;
		s += *s == '/';
	}
	return false;
}

int policy_rule_path(struct policy_rule *r, const char *s, struct err *err)
{
	int q = cap(r->paths.n, "paths", err);

	if (q < 0)
		return q;
	if (!is_plain(s, POLICY_GLOB_MAX) || (s[0] != '/' && s[0] != '*') || strstr(s, "//") ||
		strpbrk(s, "\\#") || has_dot_segment(s))
		return refuse(err, "path", s,
			"a glob that begins with / or *, without . and .. (a query is not part of "
			"a path)");
	return strv_add(&r->paths, s, err);
}

int policy_rule_program(struct policy_rule *r, const char *s, struct err *err)
{
	int q = cap(r->programs.n, "programs", err);

	if (q < 0)
		return q;
	if (!is_plain(s, POLICY_GLOB_MAX) || s[0] != '/' || strstr(s, "//") || has_dot_segment(s))
		return refuse(err, "program", s, "an absolute path or glob, as /usr/bin/git");
	return strv_add(&r->programs, s, err);
}

int policy_rule_reason(struct policy_rule *r, const char *s, struct err *err)
{
	if (!is_plain(s, POLICY_REASON_MAX))
		return err_set(
			err, EINVAL, "a reason is one line of 1 to %d bytes", POLICY_REASON_MAX);
	free(r->reason);
	r->reason = mem_strdup(s);
	return 0;
}

void policy_rule_done(struct policy_rule *r)
{
	for (size_t i = 0; i < r->hosts_n; i++)
		free(r->hosts[i].name);
	free(r->hosts);
	free(r->ports);
	free(r->bindings);
	free(r->id);
	free(r->reason);
	strv_done(&r->methods);
	strv_done(&r->paths);
	strv_done(&r->programs);
	*r = (struct policy_rule){0};
}

static const char *const places[] = {"header", "basic", "query", "json", "sigv4"};

int policy_place_parse(const char *s, enum policy_place *ret)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i], s) == 0) {
			*ret = (enum policy_place)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *policy_place_name(enum policy_place p)
{
	return places[p];
}

static bool is_word(const char *s, const char *also)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    strchr(also, c)))
			return false;
	}
	return n > 0 && n <= 128;
}

static int check_field(const struct policy_binding *b, struct err *err)
{
	switch (b->place) {
	case POLICY_HEADER:
		if (!is_word(b->field, "-_"))
			return refuse(err, "header", b->field, "a field's name, as Authorization");
		break;
	case POLICY_BASIC:
		if (b->field[0] && (!is_plain(b->field, 128) || strchr(b->field, ':')))
			return refuse(err, "basic", b->field, "a user's name, without ':'");
		break;
	case POLICY_QUERY:
		if (!is_word(b->field, "-_.~"))
			return refuse(err, "query", b->field, "a parameter's name, as key");
		break;
	case POLICY_JSON:
		if (!is_plain(b->field, 256) || b->field[0] != '/')
			return refuse(err, "json", b->field, "a JSON pointer, as /auth/token");
		break;
	case POLICY_SIGV4:
		if (b->field[0] && (!is_word(b->field, "-/") || !strchr(b->field, '/')))
			return refuse(err, "sigv4", b->field, "region/service, or nothing");
		break;
	}
	return 0;
}

int policy_binding_check(const struct policy_binding *b, struct err *err)
{
	if (!b->secret)
		return err_set(err, EINVAL, "a credential needs 'secret', its name in the vault");
	if (!is_word(b->secret, "._-"))
		return refuse(
			err, "secret", b->secret, "1 to 128 letters, digits, '.', '_' and '-'");
	if (!b->field)
		return err_set(err, EINVAL,
			"a credential needs its place: header, basic, query, json or sigv4");
	if (check_field(b, err) < 0)
		return -err->code;
	if (b->format && (!is_plain(b->format, 256) || !strstr(b->format, "{}")))
		return refuse(err, "format", b->format, "a text with {} where the secret goes");
	if (b->env && (!is_word(b->env, "_") || (b->env[0] >= '0' && b->env[0] <= '9')))
		return refuse(err, "env", b->env, "a variable's name");
	if (b->file && (!is_plain(b->file, 512) || (b->file[0] != '/' && b->file[0] != '~') ||
			       has_dot_segment(b->file)))
		return refuse(err, "file", b->file, "a path that begins with / or ~/");
	return 0;
}

void policy_binding_done(struct policy_binding *b)
{
	free(b->secret);
	free(b->field);
	free(b->format);
	free(b->env);
	free(b->file);
	strv_done(&b->hosts);
	*b = (struct policy_binding){0};
}

void policy_draft_done(struct policy_draft *d)
{
	policy_rule_done(&d->rule);
	for (size_t i = 0; i < d->bindings_n; i++)
		policy_binding_done(&d->bindings[i]);
	free(d->bindings);
	*d = (struct policy_draft){0};
}

struct policy *policy_create(const char *name)
{
	struct policy *p = MEM_NEW(struct policy);

	p->refs = 1;
	p->name = mem_strdup(name);
	p->ask_timeout_ms = POLICY_ASK_TIMEOUT_MS;
	return p;
}

static int check_bindings(const struct policy_draft *d, enum policy_list list, struct err *err)
{
	const struct policy_rule *r = &d->rule;

	if (d->bindings_n == 0)
		return 0;
	if (list == POLICY_FLOOR)
		return err_set(err, EINVAL, "a floor holds no credentials");
	if (r->action == POLICY_DENY)
		return err_set(err, EINVAL, "a rule that denies has no use for credentials");
	for (size_t i = 0; i < r->hosts_n; i++) {
		if (r->hosts[i].kind == POLICY_HOST_ANY)
			return err_set(err, EINVAL,
				"credentials need hosts by name: '*' would give them to anybody");
	}
	for (size_t i = 0; i < d->bindings_n; i++) {
		if (policy_binding_check(&d->bindings[i], err) < 0)
			return -err->code;
	}
	return 0;
}

static bool has_budget(const struct policy_budget *b)
{
	return b->bytes_up || b->bytes_down || b->requests;
}

static int check_rule(const struct policy_draft *d, enum policy_list list, struct err *err)
{
	const struct policy_rule *r = &d->rule;
	bool is_open = r->action != POLICY_DENY;

	if (r->hosts_n == 0)
		return err_set(err, EINVAL, "a rule needs 'hosts' ('*' for every name)");
	if (is_open && (r->protocols & POLICY_TCP) && r->ports_n == 0)
		return err_set(err, EINVAL, "a rule with protocol tcp needs 'ports'");
	if (is_open && (r->protocols & POLICY_TCP) &&
		(r->methods.n || r->paths.n || d->bindings_n || r->budget.requests))
		return err_set(err, EINVAL,
			"methods, paths, credentials and requests cannot be seen in protocol tcp; "
			"make it a rule of its own");
	if (d->rule.is_approved && d->rule.action != POLICY_ALLOW)
		return err_set(err, EINVAL, "only a rule that allows can be approved");
	if (has_budget(&r->budget) && (list == POLICY_FLOOR || !is_open))
		return err_set(err, EINVAL, "a budget belongs to a rule that allows or asks%s",
			list == POLICY_FLOOR ? "; a floor bounds all by 'network.budget'" : "");
	if (r->budget.per_ms && !has_budget(&r->budget))
		return err_set(err, EINVAL, "a budget needs bytes_up, bytes_down or requests");
	return check_bindings(d, list, err);
}

static void defaults(struct policy_draft *d)
{
	struct policy_rule *r = &d->rule;

	if (r->protocols)
		return;
	if (r->action == POLICY_DENY)
		r->protocols = POLICY_ANY_PROTOCOL;
	else if (d->bindings_n > 0) /* a secret travels in clear only when asked to */
		r->protocols = POLICY_HTTPS | POLICY_WS;
	else
		r->protocols = POLICY_HTTPS | POLICY_HTTP | POLICY_WS;
}

static int move_bindings(struct policy *p, struct policy_draft *d, struct err *err)
{
	struct policy_rule *r = &d->rule;

	if (p->bindings_n + d->bindings_n > POLICY_BINDINGS_MAX)
		return err_set(err, E2BIG, "more than %d credentials", POLICY_BINDINGS_MAX);
	for (size_t i = 0; i < d->bindings_n; i++) {
		struct policy_binding *b = &d->bindings[i];

		strv_done(&b->hosts);
		for (size_t j = 0; j < r->hosts_n; j++) {
			char text[POLICY_NAME_MAX + 8];

			policy_host_format(&r->hosts[j], text);
			if (strv_add(&b->hosts, text, err) < 0)
				return -err->code;
		}
		r->bindings = grow(r->bindings, r->bindings_n, sizeof(*r->bindings));
		r->bindings[r->bindings_n++] = p->bindings_n;
		p->bindings = grow(p->bindings, p->bindings_n, sizeof(*p->bindings));
		p->bindings[p->bindings_n++] = *b;
		*b = (struct policy_binding){0};
	}
	return 0;
}

int policy_add_rule(struct policy *p, enum policy_list list, const char *id,
	struct policy_draft *take, struct err *err)
{
	struct policy_rule **rules = list == POLICY_RULES ? &p->rules : &p->floor;
	size_t *n = list == POLICY_RULES ? &p->rules_n : &p->floor_n;
	int q = 0;

	if (p->rules_n + p->floor_n >= POLICY_RULES_MAX)
		q = err_set(err, E2BIG, "more than %d rules", POLICY_RULES_MAX);
	else if (!is_plain(id, POLICY_ID_MAX))
		q = err_set(err, EINVAL, "a rule's id is 1 to %d bytes", POLICY_ID_MAX);
	if (q >= 0)
		q = check_rule(take, list, err);
	if (q >= 0)
		q = move_bindings(p, take, err);
	if (q >= 0) {
		defaults(take);
		free(take->rule.id);
		take->rule.id = mem_strdup(id);
		*rules = grow(*rules, *n, sizeof(**rules));
		(*rules)[(*n)++] = take->rule;
		take->rule = (struct policy_rule){0};
	}
	policy_draft_done(take);
	return q;
}

static char *copy_of(const char *s)
{
	return s ? mem_strdup(s) : NULL;
}

static int copy_strv(struct strv *to, const struct strv *from, struct err *err)
{
	for (size_t i = 0; i < from->n; i++) {
		if (strv_add(to, from->v[i], err) < 0)
			return -err->code;
	}
	return 0;
}

static int copy_rule(const struct policy *from, const struct policy_rule *r,
	struct policy_draft *ret, struct err *err)
{
	struct policy_rule *to = &ret->rule;

	to->action = r->action;
	to->is_approved = r->is_approved;
	to->protocols = r->protocols;
	to->budget = r->budget;
	to->reason = copy_of(r->reason);
	for (size_t i = 0; i < r->hosts_n; i++) {
		to->hosts = grow(to->hosts, to->hosts_n, sizeof(*to->hosts));
		to->hosts[to->hosts_n] = r->hosts[i];
		to->hosts[to->hosts_n++].name = mem_strdup(r->hosts[i].name);
	}
	for (size_t i = 0; i < r->ports_n; i++) {
		to->ports = grow(to->ports, to->ports_n, sizeof(*to->ports));
		to->ports[to->ports_n++] = r->ports[i];
	}
	for (size_t i = 0; i < r->bindings_n; i++) {
		const struct policy_binding *b = &from->bindings[r->bindings[i]];

		ret->bindings = grow(ret->bindings, ret->bindings_n, sizeof(*ret->bindings));
		ret->bindings[ret->bindings_n++] = (struct policy_binding){
			.secret = copy_of(b->secret),
			.place = b->place,
			.field = copy_of(b->field),
			.format = copy_of(b->format),
			.env = copy_of(b->env),
			.file = copy_of(b->file),
		};
	}
	if (copy_strv(&to->methods, &r->methods, err) < 0 ||
		copy_strv(&to->paths, &r->paths, err) < 0 ||
		copy_strv(&to->programs, &r->programs, err) < 0)
		return -err->code;
	return 0;
}

static int append_list(struct policy *p, enum policy_list to, const struct policy *from,
	enum policy_list which, struct err *err)
{
	const struct policy_rule *rules = which == POLICY_RULES ? from->rules : from->floor;
	size_t n = which == POLICY_RULES ? from->rules_n : from->floor_n;

	for (size_t i = 0; i < n; i++) {
		struct policy_draft d = {0};

		if (copy_rule(from, &rules[i], &d, err) < 0) {
			policy_draft_done(&d);
			return -err->code;
		}
		if (policy_add_rule(p, to, rules[i].id, &d, err) < 0)
			return -err->code;
	}
	return 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Two periods cannot be compared: then the one of `bound` counts. */
static void bound_budget(struct policy_budget *b, const struct policy_budget *bound)
{
	if (!has_budget(bound))
		return;
	if (has_budget(b) && b->per_ms == bound->per_ms) {
		b->bytes_up = smaller(b->bytes_up, bound->bytes_up);
		b->bytes_down = smaller(b->bytes_down, bound->bytes_down);
		b->requests = smaller(b->requests, bound->requests);
		return;
	}
	*b = *bound;
}

/* Two floors in one list would allow what either does. */
static int one_floor(const struct policy *p, struct err *err)
{
	if (p->floor_n == 0)
		return 0;
	return err_set(err, EEXIST, "'%s' stands on a floor already", p->name);
}

int policy_append(struct policy *p, const struct policy *from, struct err *err)
{
	if (from->floor_n > 0 && one_floor(p, err) < 0)
		return -err->code;
	if (append_list(p, POLICY_RULES, from, POLICY_RULES, err) < 0 ||
		append_list(p, POLICY_FLOOR, from, POLICY_FLOOR, err) < 0)
		return -err->code;
	if (from->ask_timeout_ms != POLICY_ASK_TIMEOUT_MS)
		p->ask_timeout_ms = from->ask_timeout_ms;
	bound_budget(&p->budget, &from->budget);
	return 0;
}

int policy_set_floor(struct policy *p, const struct policy *floor, struct err *err)
{
	struct policy_draft nothing = {0};

	if (one_floor(p, err) < 0 || one_floor(floor, err) < 0 ||
		append_list(p, POLICY_FLOOR, floor, POLICY_RULES, err) < 0)
		return -err->code;
	/* A floor without rules allows nothing; a list without rules would be no floor. */
	if (floor->rules_n == 0 &&
		(policy_rule_host(&nothing.rule, "*", err) < 0 ||
			policy_add_rule(p, POLICY_FLOOR, "floor/nothing", &nothing, err) < 0))
		return -err->code;
	bound_budget(&p->budget, &floor->budget);
	return 0;
}

void policy_finish(struct policy *p)
{
	AUTO_FREE char *json = NULL;

	for (size_t i = 0; i < p->rules_n; i++)
		p->rules[i].must_intercept =
			p->rules[i].bindings_n > 0 || p->rules[i].budget.requests > 0;
	json = policy_to_json(p);
	sha256_hex(json, strlen(json), p->digest);
}

void policy_host_format(const struct policy_host *h, char out[POLICY_NAME_MAX + 8])
{
	(void)snprintf(out, POLICY_NAME_MAX + 8, "%s%s",
		h->kind == POLICY_HOST_ANY      ? "*"
		: h->kind == POLICY_HOST_SUFFIX ? "*."
						: "",
		h->name);
}

void policy_ports_format(const struct policy_ports *p, char out[16])
{
	if (p->first == p->last)
		(void)snprintf(out, 16, "%u", p->first);
	else
		(void)snprintf(out, 16, "%u-%u", p->first, p->last);
}
