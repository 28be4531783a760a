/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/filters.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int filters_text(struct h1_text query, const char *name, char *out, size_t size, struct err *err)
{
	struct h1_text v;

	if (!h1_query(query, name, &v))
		return 0;
	if (h1_unescape(v.p, v.n, true, out, size) < 0)
		return err_set(err, EINVAL, "%s is malformed or too long", name);
	return 1;
}

int filters_number(struct h1_text query, const char *name, uint64_t min, uint64_t max,
	uint64_t *ret, struct err *err)
{
	char text[32];
	int r = filters_text(query, name, text, sizeof(text), err);

	if (r <= 0)
		return r;
	r = text_parse_u64(text, name, min, max, ret, err);
	return r < 0 ? err_set(err, EINVAL,
			       "%s must be an integer between %" PRIu64 " and %" PRIu64, name, min,
			       max)
		     : 1;
}

/* "k=v" with both escaped once more. */
static int add_pair(json_t *to, const char *pair, size_t n, struct err *err)
{
	char key[FILTERS_TEXT_MAX], value[FILTERS_TEXT_MAX];
	const char *eq = memchr(pair, '=', n);
	size_t key_n = eq ? (size_t)(eq - pair) : n;
	size_t value_n = eq ? n - key_n - 1 : 0;
	json_t *v;

	if (h1_unescape(pair, key_n, true, key, sizeof(key)) < 0 ||
		h1_unescape(eq ? eq + 1 : pair, value_n, true, value, sizeof(value)) < 0)
		return err_set(err, EINVAL, "metadata is malformed");
	v = json_string(value);
	if (!v || json_object_set_new(to, key, v) < 0)
		return err_set(err, EINVAL, "metadata is not UTF-8");
	return 0;
}

/*
 * The SDKs encode each key and value, join them, encode the whole, and their HTTP client
 * encodes the parameter: three layers, undone in that order.
 */
static int parse_metadata(struct h1_text query, json_t **ret, struct err *err)
{
	char once[FILTERS_TEXT_MAX], twice[FILTERS_TEXT_MAX];
	size_t pairs = 0;
	int r = filters_text(query, "metadata", once, sizeof(once), err);

	if (r <= 0)
		return r;
	if (h1_unescape(once, strlen(once), true, twice, sizeof(twice)) < 0)
		return err_set(err, EINVAL, "metadata is malformed");
	*ret = json_object();
	for (const char *p = twice; *p;) {
		size_t n = strcspn(p, "&");

		if (++pairs > FILTERS_PAIRS_MAX)
			return err_set(
				err, EINVAL, "metadata: more than %d pairs", FILTERS_PAIRS_MAX);
		r = n > 0 ? add_pair(*ret, p, n, err) : 0;
		if (r < 0)
			return r;
		p += n + (p[n] == '&');
	}
	return 1;
}

static int parse_states(struct h1_text query, unsigned *ret, struct err *err)
{
	char text[64];
	int r = filters_text(query, "state", text, sizeof(text), err);

	if (r <= 0)
		return r;
	*ret = 0;
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, ",");

		if (n == 7 && memcmp(p, "running", n) == 0)
			*ret |= 1u << SANDBOX_RUNNING;
		else if (n == 6 && memcmp(p, "paused", n) == 0)
			*ret |= 1u << SANDBOX_PAUSED;
		else
			return err_set(err, EINVAL, "state must be of 'running' and 'paused'");
		p += n + (p[n] == ',');
	}
	return 1;
}

static int parse_order(struct h1_text query, bool *ret, struct err *err)
{
	char text[8];
	int r = filters_text(query, "order", text, sizeof(text), err);

	if (r <= 0)
		return r;
	*ret = strcmp(text, "asc") == 0;
	if (!*ret && strcmp(text, "desc") != 0)
		return err_set(err, EINVAL, "order must be 'asc' or 'desc'");
	return 1;
}

/* "+02:00", "-0730" or "Z" as minutes east. */
static bool parse_zone(const char *s, int *ret)
{
	int sign = *s == '-' ? -1 : 1, h, m;

	if ((s[0] == 'Z' || s[0] == 'z') && !s[1]) {
		*ret = 0;
		return true;
	}
	if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':' ||
		strspn(s + 1, "0123456789") != 2 || strspn(s + 4, "0123456789") != 2)
		return false;
	h = (s[1] - '0') * 10 + (s[2] - '0');
	m = (s[4] - '0') * 10 + (s[5] - '0');
	*ret = sign * (h * 60 + m);
	return h < 24 && m < 60;
}

bool filters_time(const char *text, int64_t *ret_ms)
{
	struct tm tm = {0};
	const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t ms = 0, scale = 100;
	int east;

	if (!p)
		return false;
	if (*p == '.') {
		if (strspn(++p, "0123456789") == 0)
			return false;
		for (; *p >= '0' && *p <= '9'; p++, scale /= 10)
			ms += (*p - '0') * scale;
	}
	if (!parse_zone(p, &east))
		return false;
	*ret_ms = ((int64_t)timegm(&tm) - (int64_t)east * 60) * 1000 + ms;
	return true;
}

static int parse_after(struct h1_text query, int64_t *ret, struct err *err)
{
	char text[64];
	struct h1_text v;

	/* A '+' of a zone that was not escaped is no space. */
	if (!h1_query(query, "startedAfter", &v))
		return 0;
	if (h1_unescape(v.p, v.n, false, text, sizeof(text)) < 0 || !filters_time(text, ret))
		return err_set(err, EINVAL, "startedAfter must be a time: 2026-01-31T12:00:00Z");
	return 1;
}

void filters_token(int64_t started_ms, const char *id, char out[64])
{
	(void)snprintf(out, 64, "%" PRIx64 "-%.31s", (uint64_t)started_ms, id);
}

static int parse_token(struct h1_text query, struct filters *f, struct err *err)
{
	char text[64];
	const char *p = text;
	uint64_t ms;
	int r = filters_text(query, "nextToken", text, sizeof(text), err);

	if (r <= 0)
		return r;
	if (text_scan_hex(&p, &ms) < 0 || *p != '-' || !sandbox_is_id(p + 1) || ms > INT64_MAX)
		return err_set(err, EINVAL, "nextToken was not given by this server");
	f->has_token = true;
	f->token_ms = (int64_t)ms;
	(void)snprintf(f->token_id, sizeof(f->token_id), "%s", p + 1);
	return 1;
}

int filters_parse(struct h1_text query, struct filters *ret, struct err *err)
{
	uint64_t limit = 100;
	int r;

	*ret = (struct filters){.states = 1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED};
	r = parse_metadata(query, &ret->metadata, err);
	if (r >= 0)
		r = parse_states(query, &ret->states, err);
	if (r >= 0)
		r = parse_order(query, &ret->is_ascending, err);
	if (r >= 0)
		r = parse_after(query, &ret->started_after_ms, err);
	if (r >= 0)
		r = filters_text(query, "template", ret->template, sizeof(ret->template), err);
	if (r >= 0)
		r = filters_number(query, "limit", 1, 100, &limit, err);
	if (r >= 0)
		r = parse_token(query, ret, err);
	ret->limit = (size_t)limit;
	return r < 0 ? r : 0;
}

void filters_done(struct filters *f)
{
	json_decref(f->metadata);
	f->metadata = NULL;
}

static bool has_all(const char *metadata, json_t *wanted)
{
	json_t *has = json_loads(metadata, 0, NULL), *v;
	const char *key;
	bool ok = true;

	json_object_foreach(wanted, key, v) ok = ok && json_equal(json_object_get(has, key), v);
	json_decref(has);
	return ok;
}

bool filters_match(const struct filters *f, enum sandbox_state state, int64_t started_ms,
	const char *template, const char *metadata)
{
	if (!(f->states & 1u << state) || started_ms < f->started_after_ms)
		return false;
	if (f->template[0] && strcmp(f->template, template) != 0)
		return false;
	return json_object_size(f->metadata) == 0 || has_all(metadata, f->metadata);
}

bool filters_is_behind(const struct filters *f, int64_t started_ms, const char *id)
{
	int order;

	if (!f->has_token)
		return true;
	order = started_ms != f->token_ms ? (started_ms < f->token_ms ? -1 : 1)
					  : strcmp(id, f->token_id);
	return f->is_ascending ? order > 0 : order < 0;
}
