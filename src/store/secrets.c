/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/secrets - what tenants' credentials are, sealed: nothing here can open them.
 */
#include "base/text.h"
#include "store/store_impl.h"

#define COLUMNS "tenant, name, version, made_ms, changed_ms"

static void read_secret(struct statement *t, struct store_secret *ret)
{
	*ret = (struct store_secret){0};
	column_copy(t, ret->tenant, sizeof(ret->tenant));
	column_copy(t, ret->name, sizeof(ret->name));
	ret->version = column_int(t);
	ret->made_ms = column_int(t);
	ret->changed_ms = column_int(t);
}

static int insert(struct store *s, const struct store_secret *r, struct err *err)
{
	static const char sql[] = "INSERT INTO secrets SELECT ?1, ?2, 1, ?3, ?4, ?4"
				  " WHERE (SELECT count(*) FROM secrets WHERE tenant = ?1) < ?5";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int n;

	bind_text(&t, r->tenant);
	bind_text(&t, r->name);
	bind_blob(&t, r->sealed, r->sealed_n);
	bind_int(&t, store_now_ms());
	bind_int(&t, STORE_SECRETS_PER_TENANT);
	n = statement_run(&t, err);
	if (n == 0)
		return err_set(err, EDQUOT, "at most %d secrets", STORE_SECRETS_PER_TENANT);
	return n < 0 ? n : 0;
}

static int replace(struct store *s, const struct store_secret *r, struct err *err)
{
	static const char sql[] = "UPDATE secrets SET version = ?, sealed = ?, changed_ms = ?"
				  " WHERE tenant = ? AND name = ? AND version = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int n;

	bind_int(&t, r->version);
	bind_blob(&t, r->sealed, r->sealed_n);
	bind_int(&t, store_now_ms());
	bind_text(&t, r->tenant);
	bind_text(&t, r->name);
	bind_int(&t, r->version - 1);
	n = statement_run(&t, err);
	if (n == 0)
		return err_set(err, ENOENT, "secret '%s' was changed meanwhile", r->name);
	return n < 0 ? n : 0;
}

int store_secret_put(struct store *s, const struct store_secret *r, struct err *err)
{
	bool is_mine = false;
	int q;

	if (r->version < 1 || r->sealed_n == 0 || r->sealed_n > STORE_SEALED_MAX)
		return err_set(err, EINVAL, "secret '%s': not a sealed value", r->name);
	q = store_tx_begin(s, &is_mine, err);
	if (q < 0)
		return q;
	q = store_tenant_need(s, r->tenant, err);
	if (q == 0)
		q = r->version == 1 ? insert(s, r, err) : replace(s, r, err);
	return store_tx_end(s, is_mine, q, err);
}

int store_secret_get(struct store *s, const char *tenant, const char *name,
	struct store_secret *ret, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM secrets WHERE tenant = ? AND name = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[80];
	int r;

	bind_text(&t, tenant);
	bind_text(&t, name);
	r = statement_step(&t, err);
	if (r == 0)
		return err_set(
			err, ENOENT, "no secret '%s'", text_quote(name, quoted, sizeof(quoted)));
	if (r > 0)
		read_secret(&t, ret);
	return r < 0 ? r : 0;
}

int store_secret_remove(struct store *s, const char *tenant, const char *name, struct err *err)
{
	static const char sql[] = "DELETE FROM secrets WHERE tenant = ? AND name = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[80];
	int n;

	bind_text(&t, tenant);
	bind_text(&t, name);
	n = statement_run(&t, err);
	if (n == 0)
		return err_set(
			err, ENOENT, "no secret '%s'", text_quote(name, quoted, sizeof(quoted)));
	return n < 0 ? n : 0;
}

int store_secret_each(struct store *s, const char *tenant,
	int (*each)(const struct store_secret *r, void *arg), void *arg, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS ", sealed FROM secrets"
				  " WHERE ?1 = '' OR tenant = ?1 ORDER BY tenant, name";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_secret one;

		read_secret(&t, &one);
		one.sealed = column_blob(&t, &one.sealed_n);
		r = each(&one, arg);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}
