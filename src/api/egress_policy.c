/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a sandbox may reach, composed: the profile it names (its tenant's own first, then the
 * server's), the network part of its request on top, the operator's floor below everything.
 */
#include "api/egress_impl.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/policy_build.h"
#include "core/policy_e2b.h"
#include "core/profile_load.h"

#include <stdio.h>
#include <string.h>

#define LOCKED "locked"

/* "name@3" to its parts; version 0 = the newest. */
static int split(const char *which, char name[64], int64_t *ret_version, struct err *err)
{
	const char *at = strchr(which, '@');
	size_t n = at ? (size_t)(at - which) : strlen(which);
	uint64_t version = 0;
	char quoted[80];

	/* What ends in ".yaml" would be a file. */
	if (n == 0 || n > 63 || (n > 5 && strncmp(which + n - 5, ".yaml", 5) == 0) ||
		strspn(which, "abcdefghijklmnopqrstuvwxyz0123456789-_.") < n)
		return err_set(err, EINVAL, "profile '%s': a name is 1 to 63 of [a-z0-9._-]",
			text_quote(which, quoted, sizeof(quoted)));
	if (at && text_parse_u64(at + 1, "profile version", 1, INT32_MAX, &version, err) < 0)
		return -err->code;
	(void)snprintf(name, 64, "%.*s", (int)n, which);
	*ret_version = (int64_t)version;
	return 0;
}

static int of_tenant(struct api *a, const char *tenant, const char *name, int64_t version,
	struct policy **ret, struct err *err)
{
	struct store_profile p = {0};
	int r = store_profile_get(a->store, tenant, name, version, &p, err);

	if (r >= 0)
		r = policy_from_json(p.policy, strlen(p.policy), ret, err);
	store_profile_done(&p);
	return r;
}

/* The operator's, or one that came with the program. By name alone: no request names a file. */
static int of_server(struct api *a, const char *name, struct policy **ret, struct err *err)
{
	const struct profile_source source = {.cwd = "/"};
	struct profile profile = {0};
	int r = a->config.places
			? profile_load(name, a->config.places, &source, NULL, &profile, err)
			: err_set(err, ENOENT, "no profile '%s'", name);

	if (r >= 0)
		*ret = policy_ref(profile.policy);
	profile_done(&profile);
	return r == -EACCES ? err_set(err, ENOENT, "no profile '%s'", name) : r;
}

static struct policy *locked(void)
{
	struct policy *p = policy_create(LOCKED);

	policy_finish(p);
	return p;
}

int api_policy_profile(
	struct api *a, const char *tenant, const char *which, struct policy **ret, struct err *err)
{
	int64_t version = 0;
	char name[64];
	int r = split(which, name, &version, err);

	if (r < 0)
		return r;
	r = of_tenant(a, tenant, name, version, ret, err);
	if (r != -ENOENT || version > 0)
		return r;
	*err = (struct err){0};
	if (strcmp(name, LOCKED) == 0) {
		*ret = locked();
		return 0;
	}
	return of_server(a, name, ret, err);
}

int api_policies_create(struct api *a, struct err *err)
{
	const struct api_config *c = &a->config;
	struct api_egress *g = a->egress;
	int r = 0;

	if (c->policy)
		r = policy_from_json(c->policy, strlen(c->policy), &g->fallback, err);
	else
		g->fallback = locked();
	if (r >= 0 && c->floor)
		r = policy_from_json(c->floor, strlen(c->floor), &g->floor, err);
	return r;
}

void api_policies_free(struct api *a)
{
	a->egress->fallback = policy_unref(a->egress->fallback);
	a->egress->floor = policy_unref(a->egress->floor);
}

/* ---- the network part of a request ---- */

/* "HOST", "HOST:PORT", "tcp:HOST:PORT"; HOST as in a rule. */
static int add_target(struct policy *p, const char *text, enum policy_action action, size_t number,
	struct err *err)
{
	struct policy_draft d = {.rule = {.action = action}};
	bool is_tcp = text_starts(text, "tcp:");
	const char *rest = is_tcp ? text + 4 : text;
	const char *colon = strrchr(rest, ':');
	/* Two colons or more are an IPv6 address, unless in brackets. */
	bool has_port = colon && (strchr(rest, ':') == colon || (colon > rest && colon[-1] == ']'));
	AUTO_FREE char *host =
		text_format("%.*s", has_port ? (int)(colon - rest) : (int)strlen(rest), rest);
	AUTO_FREE char *id = text_format("request/%zu", number);
	size_t n = strlen(host);
	char quoted[80];
	int r;

	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		memmove(host, host + 1, n - 2);
		host[n - 2] = '\0';
	}
	r = policy_rule_host(&d.rule, host, err);
	if (r >= 0 && has_port)
		r = policy_rule_port(&d.rule, colon + 1, err);
	if (r >= 0 && is_tcp)
		r = policy_rule_protocol(&d.rule, "tcp", err);
	if (r >= 0)
		r = policy_add_rule(p, POLICY_RULES, id, &d, err);
	policy_draft_done(&d);
	return r < 0 ? err_wrap(err, "network: '%s'", text_quote(text, quoted, sizeof(quoted))) : 0;
}

static int add_list(struct policy *p, const json_t *network, const char *name,
	enum policy_action action, struct err *err)
{
	const json_t *list = json_object_get(network, name), *v;
	size_t i;
	int r = 0;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return err_set(err, EINVAL, "network.%s must be an array of strings", name);
	json_array_foreach(list, i, v)
	{
		if (!json_is_string(v))
			return err_set(err, EINVAL, "network.%s must be an array of strings", name);
		r = add_target(p, json_string_value(v), action, p->rules_n + 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The strings of an array, if it is one; network_check() has refused what is not. */
static int strings_of(const json_t *network, const char *name, struct strv *ret, struct err *err)
{
	json_t *v;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(network, name), i, v)
	{
		if (r >= 0 && json_is_string(v))
			r = strv_add(ret, json_string_value(v), err);
	}
	return r;
}

static size_t ports_of(const json_t *network, uint16_t *ret, size_t max)
{
	size_t n = 0, i;
	json_t *v;

	json_array_foreach(json_object_get(network, "httpsPorts"), i, v)
	{
		if (n < max && json_integer_value(v) > 0 && json_integer_value(v) <= UINT16_MAX)
			ret[n++] = (uint16_t)json_integer_value(v);
	}
	return n;
}

/* What E2B's fields make of the base: itself, if they say nothing. */
static int of_e2b(const struct policy_wish *w, const struct policy *base, struct policy **ret,
	struct err *err)
{
	uint16_t ports[64];
	struct policy_e2b e = {
		.no_internet = w->is_closed ||
			       json_is_false(json_object_get(w->network, "allow_internet_access")),
		.https_ports = ports,
		.https_ports_n = ports_of(w->network, ports, sizeof(ports) / sizeof(ports[0])),
	};
	int r = strings_of(w->network, "allowOut", &e.allow_out, err);

	if (r >= 0)
		r = strings_of(w->network, "denyOut", &e.deny_out, err);
	if (r >= 0)
		r = policy_from_e2b(&e, base, NULL, ret, err);
	strv_done(&e.allow_out);
	strv_done(&e.deny_out);
	return r;
}

int api_policy_make(
	struct api *a, const struct policy_wish *w, struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *base = NULL, *mapped = NULL, *made = NULL;
	AUTO_FREE char *named = NULL; /* without a version */
	int r = 0;

	if (w->profile && *w->profile)
		r = api_policy_profile(a, w->tenant, w->profile, &base, err);
	else
		base = a->egress ? policy_ref(a->egress->fallback) : locked();
	if (r >= 0)
		r = of_e2b(w, base, &mapped, err);
	if (r < 0 || !base)
		return r;
	if (w->profile && *w->profile)
		named = text_format("%.*s", (int)strcspn(w->profile, "@"), w->profile);
	made = policy_create(named ? named : base->name);
	r = policy_append(made, mapped, err);
	if (r >= 0)
		r = add_list(made, w->network, "allow", POLICY_ALLOW, err);
	if (r >= 0)
		r = add_list(made, w->network, "deny", POLICY_DENY, err);
	if (r >= 0 && a->egress && a->egress->floor)
		r = policy_set_floor(made, a->egress->floor, err);
	if (r < 0)
		return r;
	made->ask_timeout_ms = base->ask_timeout_ms;
	policy_finish(made);
	*ret = TAKE_PTR(made);
	return 0;
}
