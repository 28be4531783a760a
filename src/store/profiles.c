/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/profiles - the profiles that tenants keep on the server: every version stays.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <inttypes.h>
#include <string.h>

#define POLICY_MAX   (900u << 10)
#define PROFILES_MAX 1000 /* names and versions of one tenant */
#define COLUMNS      "tenant, name, version, digest, policy, actor, made_ms"

void store_profile_done(struct store_profile *p)
{
	free(TAKE_PTR(p->tenant));
	free(TAKE_PTR(p->name));
	free(TAKE_PTR(p->policy));
}

static void read_row(struct statement *t, struct store_profile *ret)
{
	*ret = (struct store_profile){0};
	ret->tenant = column_text(t);
	ret->name = column_text(t);
	ret->version = column_int(t);
	column_copy(t, ret->digest, sizeof(ret->digest));
	ret->policy = column_text(t);
	column_copy(t, ret->actor, sizeof(ret->actor));
	ret->made_ms = column_int(t);
}

int store_profile_get(struct store *s, const char *tenant, const char *name, int64_t version,
	struct store_profile *ret, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM profiles WHERE tenant = ?1 AND name = ?2"
				  " AND (?3 = 0 OR version = ?3) ORDER BY version DESC LIMIT 1";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[80];
	int r;

	bind_text(&t, tenant);
	bind_text(&t, name);
	bind_int(&t, version);
	r = statement_step(&t, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(
			err, ENOENT, "no profile '%s'", text_quote(name, quoted, sizeof(quoted)));
	read_row(&t, ret);
	return 0;
}

static int64_t count(struct store *s, const char *tenant, struct err *err)
{
	static const char sql[] = "SELECT count(*) FROM profiles WHERE tenant = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	r = statement_step(&t, err);
	return r < 0 ? r : column_int(&t);
}

static int insert(struct store *s, const struct store_profile *p, struct err *err)
{
	static const char sql[] = "INSERT INTO profiles (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, p->tenant);
	bind_text(&t, p->name);
	bind_int(&t, p->version);
	bind_text(&t, p->digest);
	bind_text(&t, p->policy);
	bind_text(&t, p->actor);
	bind_int(&t, p->made_ms);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

static int put(struct store *s, struct store_profile *p, struct err *err)
{
	struct store_profile last = {0};
	struct err none = {0};
	int64_t n;
	int r = store_tenant_need(s, p->tenant, err);

	if (r < 0)
		return r;
	r = store_profile_get(s, p->tenant, p->name, 0, &last, &none);
	p->version = r == 0 ? last.version + 1 : 1;
	p->made_ms = store_now_ms();
	if (r == 0 && strcmp(last.digest, p->digest) == 0) {
		p->version = last.version;
		p->made_ms = last.made_ms;
		store_profile_done(&last);
		return 0;
	}
	store_profile_done(&last);
	if (r < 0 && r != -ENOENT) {
		*err = none;
		return r;
	}
	n = count(s, p->tenant, err);
	if (n < 0)
		return (int)n;
	if (n >= PROFILES_MAX)
		return err_set(
			err, EDQUOT, "at most %d versions of profiles per tenant", PROFILES_MAX);
	return insert(s, p, err);
}

int store_profile_put(struct store *s, struct store_profile *p, struct err *err)
{
	bool is_mine = false;
	int r;

	if (strlen(p->policy) > POLICY_MAX)
		return err_set(err, E2BIG, "profile: at most %u bytes", POLICY_MAX);
	r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	return store_tx_end(s, is_mine, put(s, p, err), err);
}

int store_profile_each(struct store *s, const char *tenant,
	int (*each)(const struct store_profile *p, void *arg), void *arg, struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM profiles p WHERE tenant = ?1 AND version = (SELECT"
		" max(version) FROM profiles q WHERE q.tenant = p.tenant AND q.name = p.name)"
		" ORDER BY name";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_profile p;

		read_row(&t, &p);
		r = each(&p, arg);
		store_profile_done(&p);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}
