/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/sandboxes - one row per sandbox, from the intent to make it until a day after its end.
 *
 * The table of transitions is core/sandbox's; this file refuses what it forbids.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <string.h>

#define COLUMNS                                                                                    \
	"id, tenant, name, template, state, reason, message, spec, metadata, walls, idempotency,"  \
	" token, traffic_token, made_ms, started_ms, ended_ms, end_at_ms, deadline_ms, idle_ms,"   \
	" boot_id, cpu_milli, memory_max, disk_max, pids_max, profile, policy"

#define TEXT_MAX   (256u << 10) /* spec, metadata, walls: the API's own caps are below this */
#define POLICY_MAX (900u << 10) /* it must fit into one message to the egress role */

void store_sandbox_done(struct store_sandbox *r)
{
	free(TAKE_PTR(r->tenant));
	free(TAKE_PTR(r->name));
	free(TAKE_PTR(r->template));
	free(TAKE_PTR(r->message));
	free(TAKE_PTR(r->spec));
	free(TAKE_PTR(r->metadata));
	free(TAKE_PTR(r->walls));
	free(TAKE_PTR(r->idempotency));
	free(TAKE_PTR(r->profile));
	free(TAKE_PTR(r->policy));
}

/* A word this program does not know was written by another one: treat the row as damaged. */
static int read_words(struct statement *t, struct store_sandbox *ret, struct err *err)
{
	int state = sandbox_state_parse(column_peek(t));
	int reason = sandbox_reason_parse(column_peek(t));

	if (state < 0 || reason < 0)
		return err_set(err, EBADMSG, "store: sandbox '%s': unknown state", ret->id);
	ret->state = (enum sandbox_state)state;
	ret->reason = (enum sandbox_reason)reason;
	return 0;
}

static int read_row(struct statement *t, struct store_sandbox *ret, struct err *err)
{
	int r;

	*ret = (struct store_sandbox){0};
	column_copy(t, ret->id, sizeof(ret->id));
	ret->tenant = column_text(t);
	ret->name = column_text(t);
	ret->template = column_text(t);
	r = read_words(t, ret, err);
	if (r < 0) {
		store_sandbox_done(ret);
		return r;
	}
	ret->message = column_text(t);
	ret->spec = column_text(t);
	ret->metadata = column_text(t);
	ret->walls = column_text(t);
	ret->idempotency = column_text(t);
	column_copy(t, ret->token, sizeof(ret->token));
	column_copy(t, ret->traffic_token, sizeof(ret->traffic_token));
	ret->made_ms = column_int(t);
	ret->started_ms = column_int(t);
	ret->ended_ms = column_int(t);
	ret->end_at_ms = column_int(t);
	ret->deadline_ms = column_int(t);
	ret->idle_ms = column_int(t);
	column_copy(t, ret->boot_id, sizeof(ret->boot_id));
	ret->cpu_milli = column_int(t);
	ret->memory_max = column_int(t);
	ret->disk_max = column_int(t);
	ret->pids_max = column_int(t);
	ret->profile = column_text(t);
	ret->policy = column_text(t);
	return 0;
}

static void bind_row(struct statement *t, const struct store_sandbox *r)
{
	bind_text(t, r->id);
	bind_text(t, r->tenant);
	bind_text(t, r->name);
	bind_text(t, r->template);
	bind_text(t, sandbox_state_name(r->state));
	bind_text(t, sandbox_reason_name(r->reason));
	bind_text(t, r->message);
	bind_text(t, r->spec);
	bind_text(t, r->metadata);
	bind_text(t, r->walls);
	bind_text(t, r->idempotency);
	bind_text(t, r->token);
	bind_text(t, r->traffic_token);
	bind_int(t, r->made_ms ? r->made_ms : store_now_ms());
	bind_int(t, r->started_ms);
	bind_int(t, r->ended_ms);
	bind_int(t, r->end_at_ms);
	bind_int(t, r->deadline_ms);
	bind_int(t, r->idle_ms);
	bind_text(t, r->boot_id);
	bind_int(t, r->cpu_milli);
	bind_int(t, r->memory_max);
	bind_int(t, r->disk_max);
	bind_int(t, r->pids_max);
	bind_text(t, r->profile);
	bind_text(t, r->policy);
}

static int check_text(const char *v, const char *what, struct err *err)
{
	if (v && strlen(v) > TEXT_MAX)
		return err_set(err, E2BIG, "sandbox %s: at most %u bytes", what, TEXT_MAX);
	return 0;
}

int store_sandbox_insert(struct store *s, const struct store_sandbox *row, struct err *err)
{
	static const char sql[] =
		"INSERT INTO sandboxes (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
		" ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	bool is_mine = false;
	int r = check_text(row->spec, "spec", err);

	if (r == 0)
		r = check_text(row->metadata, "metadata", err);
	if (r == 0)
		r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	r = store_tenant_need(s, row->tenant, err);
	if (r == 0) {
		bind_row(&t, row);
		r = statement_run(&t, err);
	}
	return store_tx_end(s, is_mine, r < 0 ? r : 0, err);
}

static int unknown(const char *id, struct err *err)
{
	char quoted[80];

	return err_set(err, ENOENT, "no sandbox '%s'", text_quote(id, quoted, sizeof(quoted)));
}

static int state_of(struct store *s, const char *id, struct err *err)
{
	static const char sql[] = "SELECT state FROM sandboxes WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, id);
	r = statement_step(&t, err);
	if (r <= 0)
		return r < 0 ? r : unknown(id, err);
	r = sandbox_state_parse(column_peek(&t));
	return r < 0 ? err_set(err, EBADMSG, "store: sandbox '%s': unknown state", id) : r;
}

static int write_state(struct store *s, const char *id, enum sandbox_state state,
	enum sandbox_reason reason, const char *message, struct err *err)
{
	/* The first start and the end are written once; a resume does not move the start. */
	static const char sql[] =
		"UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4,"
		" started_ms = iif(?2 = 'running' AND started_ms = 0, ?5, started_ms),"
		" ended_ms = iif(?2 IN ('ended', 'failed'), ?5, ended_ms) WHERE id = ?1";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, id);
	bind_text(&t, sandbox_state_name(state));
	bind_text(&t, sandbox_reason_name(reason));
	bind_text(&t, message);
	bind_int(&t, store_now_ms());
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

int store_sandbox_set_state(struct store *s, const char *id, enum sandbox_state state,
	enum sandbox_reason reason, const char *message, struct err *err)
{
	bool is_mine = false;
	int r = store_tx_begin(s, &is_mine, err);

	if (r < 0)
		return r;
	r = state_of(s, id, err);
	if (r >= 0 && !sandbox_may((enum sandbox_state)r, state))
		r = err_set(err, EINVAL, "sandbox '%s' is %s and cannot become %s", id,
			sandbox_state_name((enum sandbox_state)r), sandbox_state_name(state));
	if (r >= 0)
		r = write_state(s, id, state, reason, message, err);
	return store_tx_end(s, is_mine, r, err);
}

static int changed_one(struct statement *t, const char *id, struct err *err)
{
	int r = statement_run(t, err);

	if (r < 0)
		return r;
	return r == 0 ? unknown(id, err) : 0;
}

static int set_text(struct store *s, const char *sql, const char *id, const char *v,
	const char *what, struct err *err)
{
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r = check_text(v, what, err);

	if (r < 0)
		return r;
	bind_text(&t, v);
	bind_text(&t, id);
	return changed_one(&t, id, err);
}

int store_sandbox_set_walls(struct store *s, const char *id, const char *walls, struct err *err)
{
	static const char sql[] = "UPDATE sandboxes SET walls = ? WHERE id = ?";

	return set_text(s, sql, id, walls, "walls", err);
}

int store_sandbox_set_spec(struct store *s, const char *id, const char *spec, struct err *err)
{
	static const char sql[] = "UPDATE sandboxes SET spec = ? WHERE id = ?";

	return set_text(s, sql, id, spec, "spec", err);
}

int store_sandbox_set_metadata(struct store *s, const char *id, const char *json, struct err *err)
{
	static const char sql[] = "UPDATE sandboxes SET metadata = ? WHERE id = ?";

	return set_text(s, sql, id, json, "metadata", err);
}

int store_sandbox_set_deadline(
	struct store *s, const char *id, int64_t end_at_ms, int64_t deadline_ms, struct err *err)
{
	static const char sql[] =
		"UPDATE sandboxes SET end_at_ms = ?, deadline_ms = ? WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);

	bind_int(&t, end_at_ms);
	bind_int(&t, deadline_ms);
	bind_text(&t, id);
	return changed_one(&t, id, err);
}

int store_sandbox_set_policy(struct store *s, const char *id, const char *spec, const char *profile,
	const char *policy, struct err *err)
{
	static const char sql[] =
		"UPDATE sandboxes SET spec = ?, profile = ?, policy = ? WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r = check_text(spec, "spec", err);

	if (r == 0 && strlen(policy) > POLICY_MAX)
		r = err_set(err, E2BIG, "sandbox policy: at most %u bytes", POLICY_MAX);
	if (r < 0)
		return r;
	bind_text(&t, spec);
	bind_text(&t, profile);
	bind_text(&t, policy);
	bind_text(&t, id);
	return changed_one(&t, id, err);
}

int store_sandbox_get(struct store *s, const char *id, struct store_sandbox *ret, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM sandboxes WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, id);
	r = statement_step(&t, err);
	if (r <= 0)
		return r < 0 ? r : unknown(id, err);
	return read_row(&t, ret, err);
}

int store_sandbox_by_key(struct store *s, const char *tenant, const char *idempotency,
	struct store_sandbox *ret, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM sandboxes"
				  " WHERE tenant = ? AND idempotency = ? AND idempotency <> ''";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	bind_text(&t, idempotency);
	r = statement_step(&t, err);
	if (r <= 0)
		return r < 0 ? r : err_set(err, ENOENT, "no sandbox was made under this key");
	return read_row(&t, ret, err);
}

int store_sandbox_each(struct store *s, unsigned states,
	int (*each)(const struct store_sandbox *r, void *arg), void *arg, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM sandboxes"
				  " WHERE state IN (?, ?, ?, ?, ?, ?) ORDER BY made_ms, id";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
		if (states & (1u << i))
			bind_text(&t, sandbox_state_name((enum sandbox_state)i));
		else
			bind_null(&t);
	}
	while ((r = statement_step(&t, err)) > 0) {
		struct store_sandbox row;

		r = read_row(&t, &row, err);
		if (r < 0)
			return r;
		r = each(&row, arg);
		store_sandbox_done(&row);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}

int store_sandbox_prune(struct store *s, int64_t before_ms, struct err *err)
{
	static const char sql[] =
		"DELETE FROM sandboxes WHERE state IN ('ended', 'failed') AND ended_ms < ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);

	bind_int(&t, before_ms);
	return statement_run(&t, err);
}
