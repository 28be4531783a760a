/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a sandbox comes to be: a wish is checked, its row is CREATING and durable (I2), the
 * warden is asked, and when it says the sandbox is up the row is RUNNING and the wisher told (I1).
 *
 *   sandbox_create -> sandbox_ask_start -> started -> sandbox_is_up      RUNNING
 *                                             |-----> sandbox_is_failed  FAILED
 *                                             `-----> (answer lost)      reconcile decides
 */
#include "api/egress.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define STRINGS_MAX  256         /* entries of metadata or env */
#define STRINGS_SIZE (64u << 10) /* bytes of all of them: a guest's request must fit a frame */
#define ASKS_MAX     3           /* starts of one sandbox, if wardens die under it */

static int check_strings(json_t *object, const char *what, struct err *err)
{
	const char *key;
	size_t size = 0;
	json_t *v;

	if (!object)
		return 0;
	if (!json_is_object(object))
		return err_set(err, EINVAL, "%s must be an object of strings", what);
	json_object_foreach(object, key, v)
	{
		if (!json_is_string(v))
			return err_set(err, EINVAL, "%s: every value must be a string", what);
		size += strlen(key) + json_string_length(v) + 2;
	}
	if (json_object_size(object) > STRINGS_MAX)
		return err_set(err, EINVAL, "%s: more than %d entries", what, STRINGS_MAX);
	if (size > STRINGS_SIZE)
		return err_set(err, EINVAL, "%s: more than %u bytes", what, STRINGS_SIZE);
	return 0;
}

static int check_env(json_t *env, struct err *err)
{
	const char *key;
	json_t *v;
	int r = check_strings(env, "envVars", err);

	if (r < 0 || !env)
		return r;
	json_object_foreach(env, key, v) if (!key[0] || strchr(key, '=')) return err_set(
		err, EINVAL, "envVars: a name is empty or holds '='");
	return 0;
}

static int check_name(struct api *a, const char *tenant, const char *name, struct err *err)
{
	char quoted[100];
	size_t n = strlen(name);

	if (n > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != n ||
		name[0] == '-' || sandbox_is_id(name))
		return err_set(err, EINVAL,
			"name '%s' must be 1 to 63 of [a-z0-9-], not start with '-', and not look "
			"like an id",
			text_quote(name, quoted, sizeof(quoted)));
	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next)
		if (strcmp(sb->row.tenant, tenant) == 0 && strcmp(sb->row.name, name) == 0)
			return err_set(err, EEXIST, "name '%s' is taken", name);
	return 0;
}

static int check_wish(
	struct api *a, const char *tenant, const struct sandbox_wish *w, struct err *err)
{
	char quoted[100];
	int r;

	if (w->template && strcmp(w->template, "base") != 0)
		return err_set(err, ENOENT, "template '%s' not found",
			text_quote(w->template, quoted, sizeof(quoted)));
	if (w->timeout_ms > a->config.ttl_max_ms)
		return err_set(err, EINVAL, "timeout cannot be greater than %llu seconds",
			(unsigned long long)(a->config.ttl_max_ms / 1000));
	if (a->sandboxes->live >= a->config.sandboxes_max)
		return err_set(err, EDQUOT, "%u sandboxes exist, the most this server holds",
			a->sandboxes->live);
	r = check_strings(w->metadata, "metadata", err);
	if (r == 0)
		r = check_env(w->env, err);
	if (r == 0 && w->name && w->name[0])
		r = check_name(a, tenant, w->name, err);
	return r;
}

static char *dump_object(json_t *v)
{
	char *s = v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	return s ? s : mem_strdup("{}");
}

static int make_spec(const struct sandbox_wish *w, char **ret, struct err *err)
{
	json_t *spec = json_pack("{s:O*, s:O*, s:O*, s:I, s:s*}", "env", w->env, "network",
		w->network, "extra", w->extra, "timeoutMs", (json_int_t)w->timeout_ms, "profile",
		w->profile);
	AUTO_FREE char *text = dump_object(spec);

	json_decref(spec);
	if (strlen(text) > SANDBOX_SPEC_MAX)
		return err_set(err, E2BIG, "the request is too large to be kept");
	*ret = TAKE_PTR(text);
	return 0;
}

/* What it may reach, decided now: a profile that changes later changes new sandboxes. */
static int make_policy(struct api *a, const char *tenant, const struct sandbox_wish *w,
	struct store_sandbox *row, struct err *err)
{
	AUTO(policy_unref) struct policy *policy = NULL;
	struct policy_wish p = {.profile = w->profile,
		.network = w->network,
		.tenant = tenant,
		.is_closed = json_is_false(json_object_get(w->extra, "allowInternetAccess"))};
	int r = api_policy_make(a, &p, &policy, err);

	if (r < 0)
		return r;
	row->profile = mem_strdup(policy->name);
	row->policy = policy_to_json(policy);
	return 0;
}

static int make_secrets(const struct sandbox_wish *w, struct store_sandbox *row, struct err *err)
{
	int r = sandbox_new_id(row->id, err);

	if (r == 0 && w->is_secure)
		r = sandbox_random_hex(row->token, 32, err);
	if (r == 0 && w->is_private)
		r = sandbox_random_hex(row->traffic_token, 32, err);
	return r;
}

static int make_row(struct api *a, const char *tenant, const struct sandbox_wish *w,
	struct store_sandbox *ret, struct err *err)
{
	const struct api_config *c = &a->config;
	uint64_t ttl_ms = w->timeout_ms ? w->timeout_ms : c->ttl_default_ms;
	int r = make_secrets(w, ret, err);

	if (r == 0)
		r = make_spec(w, &ret->spec, err);
	if (r == 0)
		r = make_policy(a, tenant, w, ret, err);
	if (r < 0)
		return r;
	ret->tenant = mem_strdup(tenant);
	ret->name = mem_strdup(w->name ? w->name : "");
	ret->template = mem_strdup(w->template ? w->template : "base");
	ret->message = mem_strdup("");
	ret->walls = mem_strdup("");
	ret->idempotency = mem_strdup(w->idempotency ? w->idempotency : "");
	ret->metadata = dump_object(w->metadata);
	ret->state = SANDBOX_CREATING;
	ret->made_ms = api_now_unix_ms();
	ret->started_ms = ret->made_ms;
	ret->end_at_ms = ret->made_ms + (int64_t)ttl_ms;
	ret->deadline_ms = (int64_t)(loop_now_ms(a->loop) + ttl_ms);
	ret->idle_ms = (int64_t)w->idle_ms;
	memcpy(ret->boot_id, a->boot_id, sizeof(ret->boot_id));
	ret->cpu_milli = (int64_t)(w->cpu_milli ? w->cpu_milli : c->cpu_milli);
	ret->memory_max = (int64_t)(w->memory_max ? w->memory_max : c->memory_max);
	ret->disk_max = (int64_t)(w->disk_max ? w->disk_max : c->disk_max);
	ret->pids_max = (int64_t)(w->pids_max ? w->pids_max : c->pids_max);
	return 0;
}

static void add_wait(struct sandbox *sb, sandbox_made_fn made, void *arg)
{
	struct sandbox_made_wait *w = MEM_NEW(struct sandbox_made_wait);

	w->made = made;
	w->arg = arg;
	w->next = sb->mades;
	sb->mades = w;
}

void sandbox_tell_up(struct sandbox *sb, const struct err *err)
{
	struct sandbox_made_wait *w;

	while ((w = sb->mades)) {
		sb->mades = w->next;
		w->made(err ? NULL : sb, err, w->arg);
		free(w);
	}
}

/* Is this the request the row was made by? What it may reach may have changed since. */
static bool is_same(const struct store_sandbox *row, const struct sandbox_wish *w)
{
	AUTO_FREE char *metadata = dump_object(w->metadata), *asked = NULL, *kept = NULL;
	json_t *spec = json_loads(row->spec, 0, NULL);
	struct err err = {0};
	json_t *wished;

	if (make_spec(w, &asked, &err) < 0) {
		json_decref(spec);
		return false;
	}
	wished = json_loads(asked, 0, NULL);
	(void)json_object_del(spec, "network");
	(void)json_object_del(wished, "network");
	(void)json_object_del(spec, "profile");
	(void)json_object_del(wished, "profile");
	free(TAKE_PTR(asked));
	asked = dump_object(wished);
	kept = dump_object(spec);
	json_decref(spec);
	json_decref(wished);
	return strcmp(asked, kept) == 0 && strcmp(metadata, row->metadata) == 0 &&
	       strcmp(w->template ? w->template : "base", row->template) == 0;
}

/* The same create again: its sandbox, once it is up. 0 if there was none. */
static int made_before(struct api *a, const char *tenant, const struct sandbox_wish *w,
	sandbox_made_fn made, void *arg, struct err *err)
{
	struct store_sandbox row = {0};
	struct sandbox *sb;
	bool same;
	int r;

	if (!w->idempotency || !w->idempotency[0])
		return 0;
	r = store_sandbox_by_key(a->store, tenant, w->idempotency, &row, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	sb = sandbox_any(a, row.id);
	same = is_same(&row, w);
	store_sandbox_done(&row);
	if (!same)
		return err_set(err, EEXIST, "the idempotency key was used for a different request");
	if (sb && sb->row.state == SANDBOX_CREATING)
		add_wait(sb, made, arg);
	else if (sb && sb->row.state != SANDBOX_ENDING)
		made(sb, NULL, arg);
	else
		return err_set(err, EEXIST, "the sandbox made with this idempotency key has ended");
	return 1;
}

void sandbox_create(struct api *a, const struct api_caller *who, const struct sandbox_wish *wish,
	sandbox_made_fn made, void *arg)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	struct sandbox *sb;
	int r = made_before(a, who->tenant, wish, made, arg, &err);

	if (r > 0)
		return;
	if (r == 0)
		r = check_wish(a, who->tenant, wish, &err);
	if (r == 0)
		r = make_row(a, who->tenant, wish, &row, &err);
	if (r < 0) {
		store_sandbox_done(&row);
		made(NULL, &err, arg);
		return;
	}
	sb = sandbox_add(a, &row);
	r = sandbox_move(sb, SANDBOX_CREATING, SANDBOX_NO_REASON, "", who->actor,
		json_pack("{s:s}", "template", sb->row.template), &err);
	if (r < 0) {
		sandbox_remove(sb);
		made(NULL, &err, arg);
		return;
	}
	add_wait(sb, made, arg);
	sandbox_arm(sb);
	sandbox_ask_start(sb);
}

static void started(const struct warden_message *m, void *arg)
{
	struct sandbox *sb = arg;

	/* Killed meanwhile: the answer to that is still to come, and settles the row. */
	if (sb->row.state == SANDBOX_ENDING) {
		struct err err = {0};

		(void)err_set(&err, ECANCELED, "the sandbox was ended while it was made");
		sandbox_tell_up(sb, &err);
		return;
	}
	sb->is_asked = false;
	if (m->code == 0)
		sandbox_is_up(sb, m);
	else if (m->code == -ECONNRESET)
		sandbox_audit_in(sb->api, 0); /* a new warden knows whether it is there */
	else
		sandbox_is_failed(sb, SANDBOX_NOT_MADE, &m->err);
}

void sandbox_ask_start(struct sandbox *sb)
{
	const struct store_sandbox *row = &sb->row;
	struct warden_message m = {.op = WARDEN_START};
	struct err err = {0};

	if (sb->asked >= ASKS_MAX) {
		(void)err_set(
			&err, ENOTCONN, "the warden ended %u times while it was made", sb->asked);
		sandbox_is_failed(sb, SANDBOX_NOT_MADE, &err);
		return;
	}
	(void)snprintf(m.id, sizeof(m.id), "%s", row->id);
	(void)snprintf(m.spec.tier, sizeof(m.spec.tier), "process");
	(void)snprintf(m.spec.template, sizeof(m.spec.template), "%s", row->template);
	(void)snprintf(
		m.spec.hostname, sizeof(m.spec.hostname), "%s", row->name[0] ? row->name : row->id);
	m.spec.memory_max = (uint64_t)row->memory_max;
	m.spec.cpu_milli = (uint64_t)row->cpu_milli;
	m.spec.pids_max = (uint64_t)row->pids_max;
	m.spec.disk_max = (uint64_t)row->disk_max;
	m.spec.open_files = sb->api->config.open_files;
	m.spec.allow_sudo = 1;
	m.spec.want_loopback = 1;
	m.spec.want_road = 1;
	/* Nobody there to ask: reconcile comes back here once there is. */
	if (warden_ask(sb->api->warden, &m, started, sb, &err) < 0)
		return;
	sb->is_asked = true;
	sb->asked++;
}

/* The walls as another program counted them: no number is an index before it is checked. */
static json_t *wall_json(const struct warden_message *m, int i)
{
	unsigned level = m->walls.requested[i], verdict = m->walls.enforced[i];
	char detail[WARDEN_DETAIL_MAX];

	(void)snprintf(detail, sizeof(detail), "%.*s", WARDEN_DETAIL_MAX - 1, m->walls.detail[i]);
	return json_pack("{s:s, s:s, s:s}", "requested",
		level <= WALL_LEVEL_REQUIRED ? wall_level_name((enum wall_level)level) : "unknown",
		"enforced",
		verdict <= WALL_VERDICT_MISSING ? wall_verdict_name((enum wall_verdict)verdict)
						: "unknown",
		"detail", detail);
}

static char *walls_json(const struct warden_message *m)
{
	json_t *walls = json_object();
	char *text;

	for (int i = 0; i < WALL_COUNT; i++)
		(void)json_object_set_new(walls, wall_name((enum wall)i), wall_json(m, i));
	text = dump_object(walls);
	json_decref(walls);
	return text;
}

void sandbox_is_up(struct sandbox *sb, const struct warden_message *m)
{
	struct err err = {0};
	int r;

	free(sb->row.walls);
	sb->row.walls = walls_json(m);
	r = sandbox_move(sb, SANDBOX_RUNNING, SANDBOX_NO_REASON, "", "system", NULL, &err);
	if (r < 0) {
		/* Not durable is not running. Reconcile destroys what nobody waits for. */
		api_log("error", "", "sandbox %s: %s", sb->row.id, err.msg);
		sandbox_tell_up(sb, &err);
		sandbox_audit_in(sb->api, 5000);
		return;
	}
	sandbox_touch(sb);
	sandbox_arm(sb);
	api_egress_box(sb);
	metrics_created(sb->api, (uint64_t)(api_now_unix_ms() - sb->row.made_ms));
	sb->is_up_due = true;
	sandbox_tell_later(sb);
}

void sandbox_is_failed(struct sandbox *sb, enum sandbox_reason reason, const struct err *why)
{
	struct err err = {0}, told = *why;

	api_log("error", "", "sandbox %s was not made: %s", sb->row.id, why->msg);
	if (sandbox_move(sb, SANDBOX_FAILED, reason, why->msg, "system",
		    json_pack("{s:s?}", "message", why->msg), &err) < 0) {
		api_log("error", "", "sandbox %s: %s", sb->row.id, err.msg);
		sandbox_tell_up(sb, &told);
		sandbox_audit_in(sb->api, 5000);
		return;
	}
	metrics_failed(sb->api);
	sandbox_tell_up(sb, &told);
	sandbox_remove(sb);
}
