/* SPDX-License-Identifier: Apache-2.0 */

/*
 * POST …/exec: the intent is written (E1), the guest is asked, the client waits, follows or goes.
 *
 * An Idempotency-Key makes the exec's id, so the same request sent again finds its row:
 *   ended           the kept exit status, with the output as far as the guest still has it
 *   started         the output from the start, then the exit status
 *   intent only     asked again: the guest knows whether it started it (E3)
 *   other request   409
 */
#include "api/v1/exec.h"

#include "api/egress.h"
#include "base/mem.h"
#include "base/text.h"

#include <openssl/sha.h>
#include <string.h>

#define EVENT_ARGV_MAX 256
#define SURE_MS        (GUEST_REMEMBER_MS - 30000)

json_t *exec_violations(struct api *a, const struct store_exec *row)
{
	const struct sandbox *sb = sandbox_by_id(a, row->sandbox);
	json_t *list;

	/* Most were never refused anything: the store is not asked for each command. */
	if (sb && !sb->has_denied)
		return NULL;
	list = api_told_list(a, row->sandbox, row->made_ms, row->has_ended ? row->ended_ms : 0);
	if (json_array_size(list) > 0)
		return list;
	json_decref(list);
	return NULL;
}

json_t *exec_json(struct api *a, const struct store_exec *row, const char *state)
{
	json_t *request = row->request && *row->request ? json_loads(row->request, 0, NULL) : NULL;
	json_t *o, *violations;

	if (request)
		(void)json_object_del(request, "digest");
	o = json_pack("{s:s, s:s, s:s, s:o, s:O*}", "id", row->id, "sandbox_id", row->sandbox,
		"state", state, "created_at", v1_time(row->made_ms), "request", request);
	json_decref(request);
	if (row->pid > 0)
		(void)json_object_set_new(o, "pid", json_integer((json_int_t)row->pid));
	/* Ended by no signal and without a code: nobody saw it end. */
	if (row->has_ended && (row->exit_code >= 0 || row->signal != 0)) {
		(void)json_object_set_new(o, "exit_code", json_integer((json_int_t)row->exit_code));
		(void)json_object_set_new(o, "signal", json_integer((json_int_t)row->signal));
		(void)json_object_set_new(o, "timed_out", json_boolean(row->is_timed_out));
	}
	violations = exec_violations(a, row);
	if (violations)
		(void)json_object_set_new(o, "violations", violations);
	return o;
}

const char *exec_state(struct api *a, const struct store_exec *row)
{
	if (row->has_ended)
		return row->exit_code < 0 && row->signal == 0 ? "lost" : "exited";
	if (!sandbox_by_id(a, row->sandbox))
		return "killed";
	return row->pid > 0 || run_find(a, row->sandbox, row->id) ? "running" : "starting";
}

/* The id: of the key if there is one, so that it is found again; else random. */
static int make_id(const struct http_request *r, char ret[40], bool *ret_has_key, struct err *err)
{
	const struct h1_field *f = h1_find(&r->head, "Idempotency-Key");
	unsigned char hash[SHA256_DIGEST_LENGTH];

	ret[0] = 'x';
	*ret_has_key = f != NULL;
	if (!f)
		return sandbox_random_hex(ret + 1, 16, err);
	if (f->value.n == 0 || f->value.n > 255)
		return err_set(err, EINVAL, "Idempotency-Key must be 1 to 255 bytes");
	(void)SHA256((const unsigned char *)f->value.p, f->value.n, hash);
	for (size_t i = 0; i < 16; i++)
		(void)snprintf(ret + 1 + 2 * i, 3, "%02x", hash[i]);
	return 0;
}

/* What ran, cut: an event is a line, not an archive. */
static json_t *event_detail(const char *id, char *const *argv)
{
	char text[EVENT_ARGV_MAX + 1] = "";
	size_t n = 0;

	for (; *argv && n < EVENT_ARGV_MAX; argv++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? " " : "", *argv);
	return json_pack("{s:s, s:o}", "exec", id, "command", v1_text(text));
}

static int write_intent(struct sandbox *sb, const struct ask *k, const struct store_exec *row,
	char *const *argv, struct err *err)
{
	json_t *detail = event_detail(row->id, argv);
	AUTO_FREE char *text = detail ? json_dumps(detail, JSON_COMPACT) : NULL;
	struct store *s = sb->api->store;
	struct store_event e = {.tenant = sb->row.tenant,
		.actor = k->who.actor,
		.action = "exec.start",
		.sandbox = sb->row.id,
		.outcome = "ok",
		.detail = text};
	int r = store_begin(s, err);

	json_decref(detail);
	if (r < 0)
		return r;
	r = store_exec_insert(s, row, err);
	if (r == 0)
		r = store_event_append(s, &e, err);
	if (r < 0)
		store_rollback(s);
	return r < 0 ? r : store_commit(s, err);
}

/* Hand the client from the ask to a run, and ask the guest. */
static void start(struct ask *k, struct sandbox *sb, struct store_exec *take_row,
	struct guest_start *s, enum follow_mode mode)
{
	struct run *u = run_new(k->api, sb->row.id, k->who.actor, take_row);
	struct http_request *r = ask_take(k);

	/* Each start watches, also a second client's of the same key: whoever is left records. */
	u->is_watch = true;
	u->kind = GUEST_START;
	s->key = mem_strdup(u->row.id);
	guest_start_put(&u->request, s);
	run_set_client(u, sb, r, mode);
	run_go(u, sb);
}

static void attach(
	struct ask *k, struct sandbox *sb, struct store_exec *take_row, enum follow_mode mode)
{
	struct run *u = run_new(k->api, sb->row.id, k->who.actor, take_row);
	struct http_request *r = ask_take(k);

	if (mode == FOLLOW_BACKGROUND) {
		api_reply_json(r, 200, exec_json(u->api, &u->row, exec_state(u->api, &u->row)));
		run_free(u);
		return;
	}
	run_attach(u, GUEST_FROM_START, NULL);
	run_set_client(u, sb, r, mode);
	run_go(u, sb);
}

static const char *digest_of(json_t *request)
{
	const char *s = json_string_value(json_object_get(request, "digest"));

	return s ? s : "";
}

static bool is_same(const char *a, const char *b)
{
	json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
	bool is_it = x && y && *digest_of(x) && strcmp(digest_of(x), digest_of(y)) == 0;

	json_decref(x);
	json_decref(y);
	return is_it;
}

static void again(struct ask *k, struct sandbox *sb, struct store_exec *take_row,
	struct guest_start *s, const char *request, enum follow_mode mode)
{
	struct http_request *r;

	if (!is_same(take_row->request, request)) {
		r = ask_take(k);
		api_reply_error(r, 409, "idempotency_conflict", "use a new Idempotency-Key",
			"this Idempotency-Key was used for another command");
	} else if (take_row->has_ended || take_row->pid > 0) {
		attach(k, sb, take_row, mode);
	} else if (api_now_unix_ms() - take_row->made_ms < SURE_MS) {
		start(k, sb, take_row, s, mode);
	} else {
		r = ask_take(k);
		api_reply_error(r, 409, "outcome_unknown",
			"look for its effects, then use a new Idempotency-Key",
			"nobody can say whether this command ran: it is not run again");
	}
}

static void exec(struct ask *k, json_t *body)
{
	enum follow_mode mode = follow_mode(k->r);
	struct sandbox *sb = ask_sandbox(k);
	struct store_exec row = {0}, old = {0};
	struct guest_start s = {0};
	AUTO_FREE char *text = NULL;
	bool is_background = false, has_key = false;
	struct err err = {0}, none = {0};
	int r;

	if (!sb)
		return;
	r = exec_parse(body, &s, &text, &err);
	if (r == 0)
		r = v1_get_bool(body, "background", &is_background, &err);
	if (r == 0)
		r = make_id(k->r, row.id, &has_key, &err);
	if (r == 0) {
		mode = is_background ? FOLLOW_BACKGROUND : mode;
		sandbox_touch(sb);
		(void)snprintf(row.sandbox, sizeof(row.sandbox), "%s", sb->row.id);
		row.made_ms = api_now_unix_ms();
		row.request = mem_strdup(text);
		if (has_key && store_exec_get(k->api->store, row.sandbox, row.id, &old, &none) == 0)
			again(k, sb, &old, &s, text, mode);
		else if ((r = write_intent(sb, k, &row, s.argv, &err)) == 0)
			start(k, sb, &row, &s, mode);
	}
	if (r < 0)
		ask_fail(k, &err);
	guest_start_done(&s);
	store_exec_done(&row);
	store_exec_done(&old);
}

void v1_exec_start(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), exec);
}
