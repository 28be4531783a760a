/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/webhooks - where events are delivered to, and how far each receiver has got.
 *
 * `secret` has to be readable to sign with; the database file is its owner's alone (0600).
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <inttypes.h>
#include <string.h>

#define WEBHOOKS_PER_TENANT 32

void store_webhook_done(struct store_webhook *w)
{
	free(TAKE_PTR(w->tenant));
	free(TAKE_PTR(w->url));
	free(TAKE_PTR(w->secret));
	free(TAKE_PTR(w->actions));
}

static int64_t count(struct store *s, const char *tenant, struct err *err)
{
	static const char sql[] = "SELECT count(*) FROM webhooks WHERE tenant = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	r = statement_step(&t, err);
	return r < 0 ? r : column_int(&t);
}

static int insert(struct store *s, struct store_webhook *w, struct err *err)
{
	static const char sql[] = "INSERT INTO webhooks (tenant, url, secret, actions, next,"
				  " retry_at_ms, failures, is_off) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, w->tenant);
	bind_text(&t, w->url);
	bind_text(&t, w->secret);
	bind_text(&t, w->actions);
	bind_int(&t, w->next);
	bind_int(&t, w->retry_at_ms);
	bind_int(&t, w->failures);
	bind_int(&t, w->is_off);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	w->id = sqlite3_last_insert_rowid(s->db);
	return 0;
}

int store_webhook_create(struct store *s, struct store_webhook *w, struct err *err)
{
	bool is_mine = false;
	int64_t n;
	int r = store_tx_begin(s, &is_mine, err);

	if (r < 0)
		return r;
	r = store_tenant_need(s, w->tenant, err);
	n = r < 0 ? r : count(s, w->tenant, err);
	if (n < 0)
		r = (int)n;
	else if (n >= WEBHOOKS_PER_TENANT)
		r = err_set(err, EDQUOT, "at most %d webhooks per tenant", WEBHOOKS_PER_TENANT);
	else
		r = insert(s, w, err);
	return store_tx_end(s, is_mine, r, err);
}

int store_webhook_each(struct store *s, const char *tenant,
	int (*each)(const struct store_webhook *w, void *arg), void *arg, struct err *err)
{
	static const char sql[] =
		"SELECT id, tenant, url, secret, actions, next, retry_at_ms, failures, is_off"
		" FROM webhooks WHERE ?1 = '' OR tenant = ?1 ORDER BY id";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_webhook w = {.id = column_int(&t)};

		w.tenant = column_text(&t);
		w.url = column_text(&t);
		w.secret = column_text(&t);
		w.actions = column_text(&t);
		w.next = column_int(&t);
		w.retry_at_ms = column_int(&t);
		w.failures = column_int(&t);
		w.is_off = column_int(&t) != 0;
		r = each(&w, arg);
		store_webhook_done(&w);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}

int store_webhook_update(struct store *s, const struct store_webhook *w, struct err *err)
{
	static const char sql[] =
		"UPDATE webhooks SET url = ?, secret = ?, actions = ?, next = ?, retry_at_ms = ?,"
		" failures = ?, is_off = ? WHERE tenant = ? AND id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, w->url);
	bind_text(&t, w->secret);
	bind_text(&t, w->actions);
	bind_int(&t, w->next);
	bind_int(&t, w->retry_at_ms);
	bind_int(&t, w->failures);
	bind_int(&t, w->is_off);
	bind_text(&t, w->tenant);
	bind_int(&t, w->id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no webhook %" PRId64, w->id) : 0;
}

int store_webhook_progress(struct store *s, const struct store_webhook *w, struct err *err)
{
	static const char sql[] =
		"UPDATE webhooks SET next = ?, retry_at_ms = ?, failures = ?, is_off = is_off OR ?"
		" WHERE tenant = ? AND id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_int(&t, w->next);
	bind_int(&t, w->retry_at_ms);
	bind_int(&t, w->failures);
	bind_int(&t, w->is_off);
	bind_text(&t, w->tenant);
	bind_int(&t, w->id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no webhook %" PRId64, w->id) : 0;
}

int store_webhook_remove(struct store *s, const char *tenant, int64_t id, struct err *err)
{
	static const char sql[] = "DELETE FROM webhooks WHERE tenant = ? AND id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	bind_int(&t, id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no webhook %" PRId64, id) : 0;
}
