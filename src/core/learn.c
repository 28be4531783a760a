/* SPDX-License-Identifier: Apache-2.0 */

#include "core/learn.h"

#include "base/mem.h"
#include "core/policy_build.h"
#include "core/policy_path.h"

#include <stdio.h>
#include <string.h>

static bool is_wish(const struct learn_wish *w, const struct denial *d, unsigned protocol)
{
	return w->port == d->port && w->protocol == protocol && strcmp(w->name, d->name) == 0 &&
	       strcmp(w->method, d->method) == 0 && strcmp(w->path, d->path) == 0;
}

void learn_note(struct learn *l, const struct denial *d)
{
	struct policy_rule scratch = {0};
	struct err ignored = {0};
	char name[POLICY_NAME_MAX + 1];

	if (policy_rule_protocol(&scratch, d->protocol, &ignored) < 0 || d->port == 0 ||
		policy_clean_name(d->name, strlen(d->name), name) < 0)
		return;
	for (size_t i = 0; i < l->wishes_n; i++) {
		if (is_wish(&l->wishes[i], d, scratch.protocols))
			return;
	}
	if (l->wishes_n >= LEARN_MAX) {
		l->lost++;
		return;
	}
	if ((l->wishes_n & (l->wishes_n - 1)) == 0)
		l->wishes = mem_must(reallocarray(
			l->wishes, l->wishes_n ? l->wishes_n * 2 : 1, sizeof(*l->wishes)));
	l->wishes[l->wishes_n++] = (struct learn_wish){.name = mem_strdup(name),
		.port = d->port,
		.protocol = scratch.protocols,
		.method = mem_strdup(d->method),
		.path = mem_strdup(d->path)};
}

void learn_done(struct learn *l)
{
	for (size_t i = 0; i < l->wishes_n; i++) {
		free(l->wishes[i].name);
		free(l->wishes[i].method);
		free(l->wishes[i].path);
	}
	free(l->wishes);
	*l = (struct learn){0};
}

static int add_rule(struct policy *p, const char *id, bool is_web, bool want_paths, struct err *err)
{
	static const char *const web_ports[] = {"80", "443", "3000-3999", "5000-5999", "8000-9999"};
	struct policy_draft d = {.rule.action = POLICY_ALLOW};
	int r = policy_rule_host(&d.rule, "*", err);

	if (!is_web) {
		d.rule.protocols = POLICY_TCP;
		if (r >= 0)
			r = policy_rule_port(&d.rule, "1-65535", err);
	}
	for (size_t i = 0; r >= 0 && is_web && i < sizeof(web_ports) / sizeof(web_ports[0]); i++)
		r = policy_rule_port(&d.rule, web_ports[i], err);
	/* A budget of requests, however large, is counted inside TLS. */
	if (is_web && want_paths)
		d.rule.budget.requests = INT32_MAX;
	if (r >= 0)
		r = policy_add_rule(p, POLICY_RULES, id, &d, err);
	policy_draft_done(&d);
	return r;
}

int learn_policy(bool want_paths, struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *p = policy_create("learn");
	int r = add_rule(p, "learn/web", true, want_paths, err);

	if (r >= 0)
		r = add_rule(p, "learn/other", false, want_paths, err);
	if (r < 0)
		return r;
	policy_finish(p);
	*ret = TAKE_PTR(p);
	return 0;
}

/* ---- from wishes to rules */

/* Which rule of its host a wish belongs to. */
static const char *group_of(const struct learn_wish *w)
{
	if (w->protocol == POLICY_TCP || !w->method[0])
		return "";
	if (strcmp(w->method, "GET") == 0 || strcmp(w->method, "HEAD") == 0 ||
		strcmp(w->method, "OPTIONS") == 0)
		return "GET";
	return w->method;
}

static int compare(const void *a, const void *b)
{
	const struct learn_wish *x = *(const struct learn_wish *const *)a;
	const struct learn_wish *y = *(const struct learn_wish *const *)b;
	int c = strcmp(x->name, y->name);

	if (c == 0)
		c = (int)x->port - (int)y->port;
	if (c == 0)
		c = strcmp(group_of(x), group_of(y));
	if (c == 0)
		c = strcmp(x->method, y->method);
	return c ? c : strcmp(x->path, y->path);
}

static bool is_together(const struct learn_wish *a, const struct learn_wish *b)
{
	return a->port == b->port && strcmp(a->name, b->name) == 0 &&
	       strcmp(group_of(a), group_of(b)) == 0;
}

static void add_once(struct strv *list, const char *s)
{
	struct err ignored = {0};

	if (!strv_has(list, s))
		(void)strv_add(list, s, &ignored); /* LEARN_MAX is far below its cap */
}

/* The first segment and all below it; what has one segment stays. */
static char *sum_up(const char *path)
{
	size_t n = path[0] == '/' ? 1 + strcspn(path + 1, "/") : 0;

	if (n == 0 || (path[n] == '\0' && n > 1) || n >= 200)
		return mem_strdup(n == 0 || n >= 200 ? "/**" : path);
	return n == 1 ? mem_strdup(path[1] ? "/**" : "/") : text_format("%.*s/**", (int)n, path);
}

/* As a glob for itself; what a rule would not match is summed up. */
static char *glob_of(const char *path)
{
	AUTO_FREE char *glob = mem_strdup(path);
	struct policy_rule scratch = {0};
	struct err ignored = {0};
	bool is_plain;

	for (char *c = glob; *c; c++)
		*c = *c == '*' ? '?' : *c;
	is_plain = strlen(glob) < 240 && policy_path_is_clear(path) &&
		   policy_rule_path(&scratch, glob, &ignored) >= 0;
	policy_rule_done(&scratch);
	if (is_plain)
		return TAKE_PTR(glob);
	return mem_strdup("/**");
}

static void list_paths(struct learn_wish *const *w, size_t n, struct strv *ret)
{
	for (int turn = 0; turn < 2; turn++) {
		strv_done(ret);
		for (size_t i = 0; i < n; i++) {
			AUTO_FREE char *exact = glob_of(w[i]->path);
			AUTO_FREE char *wide = sum_up(exact);

			if (!w[i]->path[0]) { /* not seen: nothing to say about paths */
				strv_done(ret);
				return;
			}
			add_once(ret, turn == 0 ? exact : wide);
		}
		if (ret->n <= LEARN_PATHS_MAX)
			break;
	}
	if (ret->n > LEARN_PATHS_MAX || strv_has(ret, "/**"))
		strv_done(ret);
}

static void put_text(FILE *out, const char *s)
{
	(void)fputc('\'', out);
	for (; *s; s++)
		(void)fprintf(out, *s == '\'' ? "''" : "%c", *s);
	(void)fputc('\'', out);
}

static void put_list(FILE *out, const char *key, const struct strv *list)
{
	if (list->n == 0)
		return;
	(void)fprintf(out, "      %s: [", key);
	for (size_t i = 0; i < list->n; i++) {
		(void)fputs(i ? ", " : "", out);
		put_text(out, list->v[i]);
	}
	(void)fputs("]\n", out);
}

static void put_name(FILE *out, const struct learn_wish *w)
{
	const char *group = group_of(w);
	char port[8] = "";

	if (strlen(w->name) > 40 || strlen(group) > 12) /* then its number tells it apart */
		return;
	if (w->port != 443)
		(void)snprintf(port, sizeof(port), "-%u", w->port);
	(void)fprintf(out, "name: %s%s", w->name, port);
	if (group[0] && strcmp(group, "GET") != 0) {
		(void)fputc('-', out);
		for (; *group; group++)
			(void)fputc(*group >= 'A' && *group <= 'Z' ? *group | 0x20 : *group, out);
	}
	(void)fputs("\n      ", out);
}

/* Wishes w[0] to w[n-1] are one rule. */
static void put_rule(FILE *out, struct learn_wish *const *w, size_t n)
{
	struct strv protocols = {0}, methods = {0}, paths = {0};
	unsigned bits = 0;

	for (size_t i = 0; i < n; i++) {
		bits |= w[i]->protocol;
		if (w[i]->method[0])
			add_once(&methods, w[i]->method);
	}
	if (bits & POLICY_TCP)
		bits = POLICY_TCP;
	for (unsigned bit = 1; bit <= POLICY_TCP; bit <<= 1) {
		if (bits & bit)
			add_once(&protocols, policy_protocol_name(bit));
	}
	list_paths(w, n, &paths);
	(void)fputs("    - ", out);
	put_name(out, w[0]);
	(void)fprintf(out, "hosts: [%s]\n", w[0]->name);
	if ((bits & POLICY_TCP) || !((bits & ~(unsigned)POLICY_WS) == POLICY_HTTPS
						   ? w[0]->port == 443
						   : bits == POLICY_HTTP && w[0]->port == 80))
		(void)fprintf(out, "      ports: [%u]\n", w[0]->port);
	put_list(out, "protocols", &protocols);
	if (!(bits & POLICY_TCP)) {
		put_list(out, "methods", &methods);
		put_list(out, "paths", &paths);
	}
	strv_done(&protocols);
	strv_done(&methods);
	strv_done(&paths);
}

char *learn_yaml(const struct learn *l, const char *profile)
{
	AUTO_FREE struct learn_wish **order =
		mem_must(calloc(l->wishes_n + 1, sizeof(struct learn_wish *)));
	char *text = NULL;
	size_t size = 0;
	FILE *out = mem_must(open_memstream(&text, &size));

	for (size_t i = 0; i < l->wishes_n; i++)
		order[i] = &l->wishes[i];
	qsort(order, l->wishes_n, sizeof(*order), compare);
	(void)fprintf(out,
		"# Learnt by 'bawn learn': what one run wanted, and nothing else. Read it "
		"before you use it.\n");
	(void)fprintf(out, "name: %s\nversion: 1\nnetwork:\n  rules:%s\n", profile,
		l->wishes_n ? "" : " []");
	for (size_t i = 0, n; i < l->wishes_n; i += n) {
		for (n = 1; i + n < l->wishes_n && is_together(order[i], order[i + n]); n++)
			;
		put_rule(out, order + i, n);
	}
	if (fclose(out) != 0)
		abort();
	return text;
}
