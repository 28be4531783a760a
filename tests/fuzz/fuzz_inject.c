/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request of a box, with a rule that binds a secret by one of the places. Whatever it is, the
 * value stands once at most, and only behind a field or parameter that is bound; no placeholder
 * goes out. The first byte chooses the place; the placeholder is written "@".
 */
#include "egress/vault.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define VALUE "VaLuE0123456789"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct policy_binding binding_of(unsigned which)
{
	static char name[] = "KEY", auth[] = "Authorization", bot[] = "bot", key[] = "key";
	static char pointer[] = "/a/0/b", none[] = "", pin[] = "r/s", bearer[] = "Bearer {}";
	static const enum policy_place places[] = {POLICY_HEADER, POLICY_HEADER, POLICY_BASIC,
		POLICY_QUERY, POLICY_JSON, POLICY_SIGV4, POLICY_SIGV4};
	char *const fields[] = {auth, auth, bot, key, pointer, none, pin};

	return (struct policy_binding){.secret = name,
		.place = places[which],
		.field = fields[which],
		.format = which == 1 ? bearer : NULL};
}

static size_t count(const char *p, size_t n, const char *what)
{
	size_t k = 0;

	for (const char *at = p; (at = memmem(at, n - (size_t)(at - p), what, strlen(what))); at++)
		k++;
	return k;
}

/* "@" becomes the placeholder. */
static void expand(struct buf *out, const uint8_t *p, size_t n)
{
	char placeholder[PLACEHOLDER_LEN + 1];

	placeholder_make("", "KEY", placeholder);
	for (size_t i = 0; i < n; i++)
		(void)(p[i] == '@' ? buf_add(out, placeholder, PLACEHOLDER_LEN)
				   : buf_add(out, p + i, 1));
}

static void check(const struct buf *out, enum policy_place place)
{
	struct vault_scan s = {0};

	assert(!vault_scan_feed(&s, buf_data(out), buf_len(out)));
	/* Of a signature's key only what it signed goes out; of Basic credentials the base64. */
	assert(count(buf_data(out), buf_len(out), VALUE) <=
		(place == POLICY_HEADER || place == POLICY_QUERY || place == POLICY_JSON));
	assert(count(buf_data(out), buf_len(out), "SeCrEt") == 0);
}

static void inject(const struct vault *v, struct policy_binding *b, const char *p, size_t n)
{
	static struct h1_head head;
	size_t index = 0, scan = 0, end = h1_head_end(p, n, &scan);
	struct policy_rule rule = {.bindings = &index, .bindings_n = 1};
	struct policy policy = {.bindings = b, .bindings_n = 1, .rules = &rule, .rules_n = 1};
	struct buf out = {0};
	char what[VAULT_WHAT_MAX];
	struct err err = {0};

	if (end == 0 || end == (size_t)-1 || h1_parse_request(p, end, &head) != 0)
		return;
	(void)vault_wants_body(&policy, &rule, &head);
	if (vault_sign(v, "", &policy, &rule, &head, "a.example", p + end, n - end, &out, what,
		    &err) == 0)
		check(&out, b->place);
	assert(!strstr(err.msg, VALUE) && !strstr(what, VALUE));
	buf_wipe(&out);
	err = (struct err){0};
	if (vault_inject_body(v, "", &policy, &rule, p + end, n - end, &out, what, &err) == 0)
		check(&out, b->place);
	buf_wipe(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct vault *v;
	struct policy_binding b;
	struct buf text = {0};
	struct err err = {0};
	const char *value;

	if (size < 1 || size > 8192)
		return 0;
	if (!v && vault_create(&v, &err) < 0)
		abort();
	b = binding_of(data[0] % 7);
	value = b.place == POLICY_SIGV4 ? "ID:SeCrEt:token" : VALUE;
	if (vault_set(v, "", "KEY", value, strlen(value), &err) < 0)
		abort();
	expand(&text, data + 1, size - 1);
	if (!memmem(buf_data(&text), buf_len(&text), VALUE, strlen(VALUE)) &&
		!memmem(buf_data(&text), buf_len(&text), "SeCrEt", 6))
		inject(v, &b, buf_data(&text), buf_len(&text));
	buf_done(&text);
	return 0;
}
