/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A credential as a string inside a JSON body, at the place a JSON pointer (RFC 6901) names.
 *
 * The JSON library never holds a value: it puts an unguessable mark in its place, and the mark is
 * replaced in the text it wrote. Writing the whole anew also undoes every escape, so that a
 * placeholder spelt "\u0062awn-ph-…" is seen too.
 */
#include "core/sandbox.h"
#include "egress/vault_impl.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define MARK_BYTES  16
#define POINTER_MAX 512

struct marks {
	char text[POLICY_BINDINGS_MAX][2 * MARK_BYTES + 1];
};

/* One step of the pointer, with ~1 and ~0 undone; false: too long. */
static bool next_token(const char **at, char out[POINTER_MAX])
{
	size_t n = 0;

	for ((*at)++; **at && **at != '/'; (*at)++) {
		char c = **at;

		if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
			c = *++(*at) == '0' ? '~' : '/';
		if (n + 1 >= POINTER_MAX)
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	return true;
}

static json_t *member(json_t *o, const char *token)
{
	uint64_t i = 0;
	struct err ignored = {0};

	if (json_is_object(o))
		return json_object_get(o, token);
	if (!json_is_array(o) || text_parse_u64(token, "index", 0, SIZE_MAX, &i, &ignored) < 0)
		return NULL;
	return json_array_get(o, (size_t)i);
}

static int set_member(json_t *o, const char *token, const char *text)
{
	uint64_t i = 0;
	struct err ignored = {0};

	if (json_is_object(o))
		return json_object_set_new(o, token, json_string(text));
	if (text_parse_u64(token, "index", 0, SIZE_MAX, &i, &ignored) < 0)
		return -1;
	return json_array_set_new(o, (size_t)i, json_string(text));
}

/* Put the mark where the value belongs: 1 = there, 0 = the box has something of its own. */
static int mark(struct inject *in, struct inject_bound *k, json_t *root, const char *text)
{
	char token[POINTER_MAX];
	const char *at = k->b->field, *old;
	json_t *o = root, *there;

	if (*at != '/')
		return 0;
	for (;;) {
		if (!next_token(&at, token))
			return 0;
		if (!*at)
			break;
		o = member(o, token);
	}
	there = member(o, token);
	old = json_string_value(there);
	if (there && (!old || !strstr(old, k->placeholder)))
		return 0;
	if (!there && (!json_is_object(o) || !k->secret))
		return 0;
	if (!k->secret)
		return inject_missing(in, k);
	return set_member(o, token, text) == 0;
}

/* As inside a JSON string; values have no control bytes but the tab. */
static int add_escaped(struct buf *out, const char *p, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (p[i] == '"' || p[i] == '\\')
			r = buf_add(out, "\\", 1);
		if (r == 0 && p[i] == '\t')
			r = buf_add(out, "\\t", 2);
		else if (r == 0)
			r = buf_add(out, p + i, 1);
	}
	return r;
}

/* The text with every mark turned into its value. */
static int fill(struct inject *in, const struct marks *m, const char *text)
{
	size_t n = strlen(text), bound = n + 1;

	for (size_t i = 0; i < in->bound_n; i++)
		if (in->bound[i].is_done)
			bound += 2 * in->bound[i].secret->value.n + 2 * in->bound[i].before_n +
				 2 * strlen(in->bound[i].after);
	if (!buf_reserve(in->out, bound))
		return -E2BIG;
	for (;;) {
		const struct inject_bound *k = NULL;
		const char *at = NULL;
		int r;

		for (size_t i = 0; i < in->bound_n; i++) {
			const char *hit = in->bound[i].is_done ? strstr(text, m->text[i]) : NULL;

			if (hit && (!at || hit < at)) {
				at = hit;
				k = &in->bound[i];
			}
		}
		if (!k)
			return buf_add(in->out, text, strlen(text));
		r = buf_add(in->out, text, (size_t)(at - text));
		if (r == 0)
			r = add_escaped(in->out, k->before, k->before_n);
		if (r == 0)
			r = add_escaped(in->out, k->secret->value.p, k->secret->value.n);
		if (r == 0)
			r = add_escaped(in->out, k->after, strlen(k->after));
		if (r < 0)
			return r;
		text = at + (size_t)2 * MARK_BYTES;
	}
}

static int rewrite(struct inject *in, json_t *root, bool *ret_is_changed)
{
	AUTO_FREE char *text = NULL;
	struct vault_scan s = {0};
	struct marks m = {0};
	int r = 0;

	for (size_t i = 0; i < in->bound_n; i++) {
		struct inject_bound *k = &in->bound[i];

		if (k->b->place != POLICY_JSON)
			continue;
		r = sandbox_random_hex(m.text[i], MARK_BYTES, in->err);
		if (r >= 0)
			r = mark(in, k, root, m.text[i]);
		if (r < 0)
			return r;
		k->is_done = r > 0;
		*ret_is_changed |= k->is_done;
	}
	text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
	if (!text)
		return err_set(in->err, ENOMEM, "the request's body cannot be written anew");
	if (vault_scan_feed(&s, text, strlen(text)))
		return inject_misplaced(in, "body");
	return *ret_is_changed ? fill(in, &m, text) : 0;
}

int vault_inject_body(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const char *body, size_t n, struct buf *out,
	char what[VAULT_WHAT_MAX], struct err *err)
{
	struct inject in = {.out = out, .what = what, .err = err};
	struct vault_scan s = {0};
	json_t *root = NULL;
	bool is_changed = false;
	int r = 0;

	what[0] = '\0';
	inject_bind(&in, v, owner, policy, rule);
	for (size_t i = 0; i < in.bound_n && !root && n > 0; i++)
		if (in.bound[i].b->place == POLICY_JSON)
			root = json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	if (root)
		r = rewrite(&in, root, &is_changed);
	json_decref(root);
	/* Not JSON, or nothing to put into it: as it came, if it is clean. */
	if (r == 0 && !is_changed && vault_scan_feed(&s, body, n))
		r = inject_misplaced(&in, "body");
	if (r == 0 && !is_changed)
		r = buf_add(out, body, n);
	if (r < 0) {
		buf_wipe(out);
		if (err->code == 0)
			(void)err_set(err, -r, "the request's body is too long");
	}
	return r;
}

bool vault_wants_body(
	const struct policy *policy, const struct policy_rule *rule, const struct h1_head *head)
{
	if (head->framing == H1_NO_BODY)
		return false;
	for (size_t i = 0; i < rule->bindings_n; i++) {
		enum policy_place place = policy->bindings[rule->bindings[i]].place;

		if (place == POLICY_JSON ||
			(place == POLICY_SIGV4 && inject_sigv4_wants_body(head)))
			return true;
	}
	return false;
}
