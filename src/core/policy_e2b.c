/* SPDX-License-Identifier: Apache-2.0 */

#include "core/policy_e2b.h"

#include "base/mem.h"
#include "core/policy_build.h"
#include "core/profile_load.h"

#include <stdio.h>
#include <string.h>

static bool is_everything(const char *s)
{
	return strcmp(s, "0.0.0.0/0") == 0 || strcmp(s, "::/0") == 0;
}

static bool denies_everything(const struct policy_e2b *e)
{
	for (size_t i = 0; i < e->deny_out.n; i++) {
		if (is_everything(e->deny_out.v[i]))
			return true;
	}
	return e->no_internet;
}

static int add_ports(const struct policy_e2b *e, struct policy_rule *r, struct err *err)
{
	int q = 0;

	if (e->https_ports_n == 0)
		return 0;
	q = policy_rule_port(r, "443", err);
	if (q >= 0)
		q = policy_rule_port(r, "80", err);
	for (size_t i = 0; q >= 0 && i < e->https_ports_n; i++) {
		char text[8];

		(void)snprintf(text, sizeof(text), "%u", e->https_ports[i]);
		q = policy_rule_port(r, text, err);
	}
	return q;
}

static int add_allow(struct policy *p, const struct policy_e2b *e, size_t at, struct err *err)
{
	const char *s = e->allow_out.v[at];
	struct policy_draft d = {.rule.action = POLICY_ALLOW};
	char id[32], quoted[80];
	int q = policy_rule_host(&d.rule, s, err);

	(void)snprintf(id, sizeof(id), "e2b/allow-%zu", at + 1);
	/* "Everything" there means names as well. */
	if (q >= 0 && is_everything(s))
		q = policy_rule_host(&d.rule, "*", err);
	if (q >= 0 && d.rule.hosts[0].kind == POLICY_HOST_NET) {
		d.rule.protocols = POLICY_TCP;
		q = policy_rule_port(&d.rule, "1-65535", err);
	} else if (q >= 0) {
		q = add_ports(e, &d.rule, err);
	}
	if (q >= 0)
		q = policy_add_rule(p, POLICY_RULES, id, &d, err);
	policy_draft_done(&d);
	return q < 0 ? err_wrap(err, "allow_out '%s'", text_quote(s, quoted, sizeof(quoted))) : 0;
}

static int add_net(struct policy_rule *r, const struct address_net *net, struct err *err)
{
	char base[ADDRESS_TEXT_MAX], text[ADDRESS_TEXT_MAX + 8];

	address_format(&net->base, base);
	(void)snprintf(text, sizeof(text), "%s/%u", base, net->bits);
	return policy_rule_host(r, text, err);
}

/* The half of a network whose first bit below the prefix is `bit`. */
static struct address_net half(const struct address_net *net, bool bit)
{
	struct address_net h = *net;

	if (bit)
		h.base.b[h.bits / 8] |= (uint8_t)(0x80u >> (h.bits % 8));
	h.bits++;
	return h;
}

/* `net` without the networks of allow_out; as deep as an address has bits. */
static int subtract(struct policy_rule *r, const struct address_net *net, const struct policy *p,
	struct err *err)
{
	bool has_part = false;
	struct address_net h;
	int q;

	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_host *host = &p->rules[i].hosts[0];

		if (p->rules[i].action != POLICY_ALLOW || host->kind != POLICY_HOST_NET ||
			!text_starts(p->rules[i].id, "e2b/"))
			continue;
		if (host->net.bits <= net->bits && address_in(&net->base, &host->net))
			return 0;
		has_part |= host->net.bits > net->bits && address_in(&host->net.base, net);
	}
	if (!has_part)
		return add_net(r, net, err);
	h = half(net, false);
	q = subtract(r, &h, p, err);
	if (q < 0)
		return q;
	h = half(net, true);
	return subtract(r, &h, p, err);
}

static int add_deny(struct policy *p, const struct policy_e2b *e, size_t at, struct err *err)
{
	const char *s = e->deny_out.v[at];
	struct policy_draft d = {.rule.action = POLICY_DENY};
	struct address_net net;
	char id[32], quoted[80];
	int q = 0;

	(void)snprintf(id, sizeof(id), "e2b/deny-%zu", at + 1);
	if (!address_net_parse(s, strlen(s), &net))
		q = err_set(err, EINVAL,
			"not an address or a network without bits below its prefix; names cannot "
			"be denied");
	else if (!is_everything(s))
		q = subtract(&d.rule, &net, p, err);
	if (q >= 0 && d.rule.hosts_n > 0)
		q = policy_add_rule(p, POLICY_RULES, id, &d, err);
	policy_draft_done(&d);
	return q < 0 ? err_wrap(err, "deny_out '%s'", text_quote(s, quoted, sizeof(quoted))) : 0;
}

int policy_from_e2b(const struct policy_e2b *e, const struct policy *fallback,
	const struct policy *floor, struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *p = NULL;
	AUTO_FREE char *name = NULL;
	bool is_closed = denies_everything(e);
	int q = 0;

	if (!is_closed && e->allow_out.n == 0 && e->deny_out.n == 0)
		return policy_with_floor(fallback, floor, NULL, ret, err);
	name = is_closed && e->allow_out.n == 0 ? mem_strdup("locked")
	       : is_closed                      ? mem_strdup("e2b")
						: text_format("%.400s+e2b", fallback->name);
	p = policy_create(name);
	if (!is_closed)
		q = policy_append(p, fallback, err);
	for (size_t i = 0; q >= 0 && i < e->allow_out.n; i++)
		q = add_allow(p, e, i, err);
	for (size_t i = 0; q >= 0 && i < e->deny_out.n; i++)
		q = add_deny(p, e, i, err);
	if (q >= 0 && floor)
		q = policy_set_floor(p, floor, err);
	if (q < 0)
		return q;
	policy_finish(p);
	*ret = TAKE_PTR(p);
	return 0;
}
