/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/run_network.h"

#include "base/mem.h"
#include "core/policy_build.h"

#include <errno.h>
#include <string.h>

void run_network_done(struct run_network *n)
{
	strv_done(&n->allow);
	strv_done(&n->deny);
	free(n->resolver);
	free(n->upstream_ca);
	free(n->upstream_proxy);
	free(n->no_proxy);
	n->profile = policy_unref(n->profile);
	n->floor = policy_unref(n->floor);
	*n = (struct run_network){0};
}

int run_network_wanted(const struct run_network *n, struct err *err)
{
	bool has_rules = n->allow.n > 0 || n->deny.n > 0;

	if (n->is_none && (n->is_allow || has_rules))
		return err_set(err, EINVAL, "'--net none' and %s exclude each other; keep one",
			n->allow.n > 0  ? "--allow"
			: n->deny.n > 0 ? "--deny"
					: "'--net allow'");
	return !n->is_none && (has_rules || n->is_allow || n->profile);
}

/* "[::1]:80", "::1", "10.0.0.0/8:80", "name", "name:80-90": host and port in fresh memory. */
static void split(const char *word, char **ret_host, char **ret_port)
{
	const char *colon = strrchr(word, ':'), *close = strchr(word, ']');
	bool has_bracket = word[0] == '[' && close;

	/* Several colons and no brackets: an IPv6 address, or a network of them. */
	if (!has_bracket && colon && strchr(word, ':') != colon)
		colon = NULL;
	if (has_bracket && colon && colon < close)
		colon = NULL;
	if (has_bracket)
		*ret_host = (char *)mem_must(strndup(word + 1, (size_t)(close - word) - 1));
	else
		*ret_host = (char *)mem_must(
			strndup(word, colon ? (size_t)(colon - word) : strlen(word)));
	*ret_port = colon ? mem_strdup(colon + 1) : NULL;
}

static int fill(struct policy_rule *rule, const char *word, const char *action, struct err *err)
{
	AUTO_FREE char *host = NULL, *port = NULL;
	bool is_tcp = text_starts(word, "tcp:");
	int r = policy_rule_action(rule, action, err);

	split(is_tcp ? word + 4 : word, &host, &port);
	if (r >= 0 && is_tcp && !port)
		r = err_set(err, EINVAL, "tcp needs a port: tcp:HOST:PORT");
	if (r >= 0 && is_tcp)
		r = policy_rule_protocol(rule, "tcp", err);
	if (r >= 0)
		r = policy_rule_host(rule, host, err);
	if (r >= 0 && port)
		r = policy_rule_port(rule, port, err);
	return r;
}

static int add_words(
	struct policy *p, const struct strv *words, const char *action, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < words->n; i++) {
		struct policy_draft draft = {0};
		char id[64], quoted[100];

		(void)snprintf(id, sizeof(id), "run/%s-%zu", action, i + 1);
		r = fill(&draft.rule, words->v[i], action, err);
		if (r >= 0)
			r = policy_add_rule(p, POLICY_RULES, id, &draft, err);
		if (r < 0)
			(void)err_wrap(err, "--%s '%s'", action,
				text_quote(words->v[i], quoted, sizeof(quoted)));
		policy_draft_done(&draft);
	}
	return r;
}

int run_network_policy(const struct run_network *n, struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *p = policy_create(n->profile ? n->profile->name : "run");
	int r = n->profile ? policy_append(p, n->profile, err) : 0;

	if (r >= 0)
		r = add_words(p, &n->allow, "allow", err);
	if (r >= 0)
		r = add_words(p, &n->deny, "deny", err);
	if (r >= 0 && n->floor)
		r = policy_set_floor(p, n->floor, err);
	if (r < 0)
		return r;
	policy_finish(p);
	*ret = TAKE_PTR(p);
	return 0;
}
