/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The register of sandboxes in memory, and what every change of one has in common: row and
 * event in one transaction. How they come and go is in sandbox_create.c and sandbox_kill.c.
 */
#include "api/egress.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "api/usage.h"
#include "base/mem.h"

#include <string.h>

static struct sandbox **bucket_of(struct api *a, const char *id)
{
	size_t h = 5381;

	while (*id)
		h = h * 33 ^ (unsigned char)*id++;
	return &a->sandboxes->buckets[h % SANDBOX_BUCKETS];
}

struct sandbox *sandbox_add(struct api *a, struct store_sandbox *take_row)
{
	struct sandbox *sb = MEM_NEW(struct sandbox);
	struct sandbox **bucket = bucket_of(a, take_row->id);

	sb->row = *take_row;
	*take_row = (struct store_sandbox){0};
	sb->api = a;
	sb->used_ms = sb->since_ms = loop_now_ms(a->loop);
	sb->bucket_next = *bucket;
	*bucket = sb;
	sb->next = a->sandboxes->first;
	sb->prev = &a->sandboxes->first;
	if (sb->next)
		sb->next->prev = &sb->next;
	a->sandboxes->first = sb;
	a->sandboxes->live++;
	return sb;
}

static void free_sandbox(struct sandbox *sb)
{
	struct sandbox_made_wait *made;
	struct sandbox_gone_wait *gone;

	/* Still waited for only when the program ends: nobody is told any more. */
	while ((made = sb->mades)) {
		sb->mades = made->next;
		free(made);
	}
	while ((gone = sb->gones)) {
		sb->gones = gone->next;
		free(gone);
	}
	usage_ring_free(sb->usage);
	store_sandbox_done(&sb->row);
	free(sb);
}

static void free_later(struct loop_task *t)
{
	free_sandbox((struct sandbox *)((char *)t - offsetof(struct sandbox, to_free)));
}

void sandbox_remove(struct sandbox *sb)
{
	struct api *a = sb->api;

	for (struct sandbox **p = bucket_of(a, sb->row.id); *p; p = &(*p)->bucket_next)
		if (*p == sb) {
			*p = sb->bucket_next;
			break;
		}
	*sb->prev = sb->next;
	if (sb->next)
		sb->next->prev = sb->prev;
	a->sandboxes->live--;
	loop_timer_cancel(a->loop, &sb->deadline);
	sb->to_free.run = free_later;
	loop_defer(a->loop, &sb->to_free);
}

struct sandbox *sandbox_any(struct api *a, const char *id)
{
	for (struct sandbox *sb = *bucket_of(a, id); sb; sb = sb->bucket_next)
		if (strcmp(sb->row.id, id) == 0)
			return sb;
	return NULL;
}

static bool is_live(const struct sandbox *sb)
{
	return sb->row.state == SANDBOX_RUNNING || sb->row.state == SANDBOX_PAUSED;
}

struct sandbox *sandbox_by_id(struct api *a, const char *id)
{
	struct sandbox *sb = sandbox_any(a, id);

	return sb && is_live(sb) ? sb : NULL;
}

struct sandbox *sandbox_find(struct api *a, const char *tenant, const char *which)
{
	struct sandbox *found = sandbox_by_id(a, which);
	size_t n = strlen(which);

	if (found)
		return strcmp(found->row.tenant, tenant) == 0 ? found : NULL;
	if (n == 0)
		return NULL;
	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next)
		if (is_live(sb) && strcmp(sb->row.tenant, tenant) == 0 &&
			strcmp(sb->row.name, which) == 0)
			return sb;
	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next) {
		if (!is_live(sb) || strcmp(sb->row.tenant, tenant) != 0 ||
			strncmp(sb->row.id, which, n) != 0)
			continue;
		if (found)
			return NULL;
		found = sb;
	}
	return found;
}

int sandbox_each(
	struct api *a, const char *tenant, int (*each)(struct sandbox *sb, void *arg), void *arg)
{
	int r = 0;

	for (struct sandbox *sb = a->sandboxes->first, *next; sb && r >= 0; sb = next) {
		next = sb->next;
		if (is_live(sb) && (!tenant || strcmp(sb->row.tenant, tenant) == 0))
			r = each(sb, arg);
	}
	return r < 0 ? r : 0;
}

/* What the event of a transition is called, by the state it leads to. */
static const char *action_of(enum sandbox_state state)
{
	switch (state) {
	case SANDBOX_CREATING: return "sandbox.create";
	case SANDBOX_RUNNING: return "sandbox.start";
	case SANDBOX_PAUSED: return "sandbox.pause";
	case SANDBOX_ENDING: return "sandbox.kill";
	case SANDBOX_FAILED: return "sandbox.fail";
	default: return "sandbox.end";
	}
}

/* What `detail` points to is the caller's. */
static struct store_event event_of(const struct sandbox *sb, const char *actor, const char *action,
	const char *outcome, const char *detail)
{
	return (struct store_event){
		.tenant = sb->row.tenant,
		.actor = actor,
		.action = action,
		.sandbox = sb->row.id,
		.outcome = outcome,
		.detail = detail ? detail : "",
	};
}

static int append(struct sandbox *sb, const char *actor, const char *action, const char *outcome,
	json_t *take_detail, struct err *err)
{
	AUTO_FREE char *detail = take_detail ? json_dumps(take_detail, JSON_COMPACT) : NULL;
	struct store_event e = event_of(sb, actor, action, outcome, detail);

	json_decref(take_detail);
	return store_event_append(sb->api->store, &e, err);
}

static void settle_due(struct loop_timer *t)
{
	struct api_sandboxes *all =
		(struct api_sandboxes *)((char *)t - offsetof(struct api_sandboxes, settle));
	struct err err = {0};

	if (store_settle(all->api->store, &err) < 0) {
		metrics_store_error(all->api);
		api_log("error", "", "events wait: %s", err.msg);
		loop_timer_set(all->api->loop, t, 10 * EVENTS_MS);
	}
}

void sandbox_event(struct sandbox *sb, const char *actor, const char *action, const char *outcome,
	json_t *take_detail)
{
	AUTO_FREE char *detail = take_detail ? json_dumps(take_detail, JSON_COMPACT) : NULL;
	struct store_event e = event_of(sb, actor, action, outcome, detail);
	struct loop_timer *t = &sb->api->sandboxes->settle;
	struct err err = {0};

	json_decref(take_detail);
	/* An fsync for each command would be most of what the command costs. */
	if (store_event_later(sb->api->store, &e, &err) < 0)
		api_log("error", "", "event '%s' of sandbox %s: %s", action, sb->row.id, err.msg);
	t->fire = settle_due;
	if (t->slot == 0)
		loop_timer_set(sb->api->loop, t, EVENTS_MS);
}

static int write_move(struct sandbox *sb, enum sandbox_state state, enum sandbox_reason reason,
	const char *message, struct err *err)
{
	struct store *s = sb->api->store;
	int r;

	/* The first one: there is no row yet. */
	if (state == SANDBOX_CREATING)
		return store_sandbox_insert(s, &sb->row, err);
	r = store_sandbox_set_state(s, sb->row.id, state, reason, message, err);
	if (r == 0 && state == SANDBOX_RUNNING)
		r = store_sandbox_set_walls(s, sb->row.id, sb->row.walls, err);
	return r;
}

/* The time of its start as the row has it: the same before and after a restart. */
static void read_start(struct sandbox *sb)
{
	struct store_sandbox row = {0};
	struct err err = {0};

	if (store_sandbox_get(sb->api->store, sb->row.id, &row, &err) == 0)
		sb->row.started_ms = row.started_ms;
	store_sandbox_done(&row);
}

int sandbox_move(struct sandbox *sb, enum sandbox_state state, enum sandbox_reason reason,
	const char *message, const char *actor, json_t *take_detail, struct err *err)
{
	struct store *s = sb->api->store;
	/* An intent's outcome is synced before anybody hears of it; the usual two, with others. */
	bool may_wait = state == SANDBOX_CREATING || state == SANDBOX_ENDING ||
			state == SANDBOX_RUNNING || state == SANDBOX_ENDED;
	int r = may_wait ? store_begin_unsynced(s, err) : store_begin(s, err);

	if (r < 0) {
		json_decref(take_detail);
		return r;
	}
	r = write_move(sb, state, reason, message, err);
	if (r < 0)
		json_decref(take_detail);
	else
		r = append(sb, actor, action_of(state),
			reason == SANDBOX_NO_REASON ? "ok" : sandbox_reason_name(reason),
			take_detail, err);
	if (r < 0) {
		store_rollback(s);
		metrics_store_error(sb->api);
		return r;
	}
	r = store_commit(s, err);
	if (r < 0) {
		metrics_store_error(sb->api);
		return r;
	}
	sb->row.state = state;
	sb->row.reason = reason;
	sb->since_ms = loop_now_ms(sb->api->loop);
	if (state == SANDBOX_RUNNING)
		read_start(sb);
	return 0;
}

/* Spec, policy and event in one transaction. */
static int write_network(struct sandbox *sb, const char *actor, const char *spec,
	const struct policy *policy, const char *json, struct err *err)
{
	struct store *s = sb->api->store;
	int r = store_begin(s, err);

	if (r < 0)
		return r;
	r = store_sandbox_set_policy(s, sb->row.id, spec, policy->name, json, err);
	if (r == 0)
		r = append(sb, actor, "network.updated", "ok",
			json_pack("{s:s, s:s}", "profile", policy->name, "digest", policy->digest),
			err);
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	return store_commit(s, err);
}

int sandbox_set_network(struct sandbox *sb, const char *actor, const char *profile, json_t *network,
	struct err *err)
{
	AUTO(policy_unref) struct policy *policy = NULL;
	json_t *spec = json_loads(sb->row.spec, 0, NULL);
	struct policy_wish w = {.tenant = sb->row.tenant};
	AUTO_FREE char *text = NULL, *json = NULL;
	int r = 0;

	if (!spec)
		spec = json_object();
	if (profile)
		(void)json_object_set_new(spec, "profile", json_string(profile));
	if (network)
		(void)json_object_set(spec, "network", network);
	w.profile = json_string_value(json_object_get(spec, "profile"));
	w.network = json_object_get(spec, "network");
	/* What the create said about access is replaced by what this says. */
	w.is_closed = !network && json_is_false(json_object_get(
					  json_object_get(spec, "extra"), "allowInternetAccess"));
	r = api_policy_make(sb->api, &w, &policy, err);
	if (r >= 0)
		text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(spec);
	if (r < 0)
		return r;
	if (!text || strlen(text) > SANDBOX_SPEC_MAX)
		return err_set(err, E2BIG, "the rules are too large to be kept");
	json = policy_to_json(policy);
	r = write_network(sb, actor, text, policy, json, err);
	if (r < 0)
		return r;
	free(sb->row.spec);
	free(sb->row.profile);
	free(sb->row.policy);
	sb->row.spec = TAKE_PTR(text);
	sb->row.profile = mem_strdup(policy->name);
	sb->row.policy = TAKE_PTR(json);
	return 0;
}

void sandbox_touch(struct sandbox *sb)
{
	sb->used_ms = loop_now_ms(sb->api->loop);
}

void sandbox_stream_add(struct sandbox *sb, struct stream *s)
{
	s->sb = sb;
	s->next = sb->streams;
	s->prev = &sb->streams;
	if (s->next)
		s->next->prev = &s->next;
	sb->streams = s;
	sb->busy++;
	sandbox_touch(sb);
}

void sandbox_stream_remove(struct stream *s)
{
	if (!s->sb)
		return;
	*s->prev = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->sb->busy--;
	sandbox_touch(s->sb);
	s->sb = NULL;
	s->next = NULL;
	s->prev = NULL;
}

static int load(const struct store_sandbox *r, void *arg)
{
	struct store_sandbox row = *r;
	struct sandbox *sb;

	row.tenant = mem_strdup(r->tenant);
	row.name = mem_strdup(r->name);
	row.template = mem_strdup(r->template);
	row.message = mem_strdup(r->message);
	row.spec = mem_strdup(r->spec);
	row.metadata = mem_strdup(r->metadata);
	row.walls = mem_strdup(r->walls);
	row.idempotency = mem_strdup(r->idempotency);
	row.profile = mem_strdup(r->profile);
	row.policy = mem_strdup(r->policy);
	sb = sandbox_add(arg, &row);
	/* It was there before any list that will be asked for: reconcile may judge it. */
	sb->since_ms = 0;
	sb->has_denied = true;
	return 0;
}

int sandboxes_create(struct api *a, struct err *err)
{
	unsigned states = 1u << SANDBOX_CREATING | 1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED |
			  1u << SANDBOX_ENDING;

	a->sandboxes = MEM_NEW(struct api_sandboxes);
	a->sandboxes->api = a;
	a->sandboxes->look_ms = LINK_LOOK_MS;
	return store_sandbox_each(a->store, states, load, a, err);
}

void sandboxes_free(struct api *a)
{
	struct sandbox *sb;

	if (!a->sandboxes)
		return;
	while ((sb = a->sandboxes->first)) {
		sandbox_link_close(sb);
		loop_timer_cancel(a->loop, &sb->deadline);
		a->sandboxes->first = sb->next;
		free_sandbox(sb);
	}
	usage_stop(a);
	loop_timer_cancel(a->loop, &a->sandboxes->audit);
	loop_timer_cancel(a->loop, &a->sandboxes->settle);
	free(a->sandboxes->reconcile);
	free(a->sandboxes);
	a->sandboxes = NULL;
}
