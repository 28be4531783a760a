/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/files.h"

#include <string.h>
#include <time.h>

static const char *refusal(const struct http_request *r, const struct sandbox *sb,
	const char *operation, const struct signature_claim *claim)
{
	const struct h1_field *token = h1_find(&r->head, "x-access-token");

	if (sb->row.token[0] == '\0')
		return NULL;
	if (token && token->value.n > 0)
		return signature_token_is(sb->row.token, token->value)
			       ? NULL
			       : "access token present in header but does not match";
	if (!claim->has_signature)
		return "missing signature query parameter";
	if (!signature_matches(claim, operation, sb->row.token))
		return "invalid signature";
	/* Only now: who cannot sign learns nothing about times. */
	if (claim->has_expiration && claim->expires < api_now_unix_ms() / 1000)
		return "signature is already expired";
	return NULL;
}

bool files_authorize(struct http_request *r, const struct sandbox *sb, const char *operation,
	struct signature_claim *ret)
{
	const char *why;

	if (!signature_claim_get(r->query, ret)) {
		envd_plain_error(r, 400, "a query parameter is malformed or too long");
		return false;
	}
	why = refusal(r, sb, operation, ret);
	if (why)
		envd_plain_error(r, 401, why);
	return !why;
}

/* Digits of p[*at..n) as a number; false if there are none or it does not fit. */
static bool number(const char *p, size_t n, size_t *at, uint64_t *ret)
{
	size_t from = *at;
	uint64_t v = 0;

	for (; *at < n && p[*at] >= '0' && p[*at] <= '9'; (*at)++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(p[*at] - '0');
	}
	*ret = v;
	return *at > from;
}

bool files_range_get(struct h1_text t, struct files_range *ret)
{
	size_t at = 6;

	*ret = (struct files_range){.to = UINT64_MAX};
	if (t.n < 8 || strncasecmp(t.p, "bytes=", 6) != 0)
		return false;
	if (t.p[at] == '-') {
		at++;
		ret->is_suffix = true;
		return number(t.p, t.n, &at, &ret->from) && at == t.n;
	}
	if (!number(t.p, t.n, &at, &ret->from) || at == t.n || t.p[at++] != '-')
		return false;
	if (at == t.n)
		return true;
	return number(t.p, t.n, &at, &ret->to) && at == t.n && ret->to >= ret->from;
}
