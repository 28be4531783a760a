/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy - life of a policy, and host names. Deciding is in policy_decide.c, making one in
 * policy_build.c, its JSON in policy_json.c, paths in policy_path.c.
 */
#include "core/policy.h"

#include "base/mem.h"
#include "core/policy_build.h"

#include <assert.h>
#include <string.h>

struct policy *policy_ref(struct policy *p)
{
	assert(p->refs > 0);
	p->refs++;
	return p;
}

static void rules_done(struct policy_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++)
		policy_rule_done(&rules[i]);
	free(rules);
}

struct policy *policy_unref(struct policy *p)
{
	if (!p || --p->refs > 0)
		return NULL;
	rules_done(p->rules, p->rules_n);
	rules_done(p->floor, p->floor_n);
	for (size_t i = 0; i < p->bindings_n; i++)
		policy_binding_done(&p->bindings[i]);
	free(p->bindings);
	free(p->name);
	free(p);
	return NULL;
}

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Resolvers take "2130706433", "0x7f.1" and "127.1" for addresses: so must we. */
static bool ends_in_number(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last ? last + 1 : name;
	if (strspn(last, "0123456789") == strlen(last))
		return true;
	return text_starts(last, "0x") && strspn(last + 2, "0123456789abcdef") == strlen(last + 2);
}

int policy_clean_name(const char *s, size_t n, char out[POLICY_NAME_MAX + 1])
{
	char name[POLICY_NAME_MAX + 1];
	size_t label = 0;

	if (n > 0 && s[n - 1] == '.')
		n--;
	if (n == 0 || n > POLICY_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		name[i] = c;
		if (c == '.') {
			if (label == 0 || name[i - 1] == '-')
				return -EINVAL;
			label = 0;
			continue;
		}
		if (!is_label_char(c) || (label == 0 && c == '-') || ++label > 63)
			return -EINVAL;
	}
	name[n] = '\0';
	if (label == 0 || name[n - 1] == '-' || ends_in_number(name))
		return -EINVAL;
	memcpy(out, name, n + 1);
	return 0;
}
