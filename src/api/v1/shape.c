/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What things look like in /v1: names in snake_case, times in RFC 3339, sizes in bytes, durations
 * in ms; what is not known or not set is null or absent, never a made-up value.
 */
#include "api/v1/v1.h"
#include "base/mem.h"

#include <string.h>

json_t *v1_time(int64_t unix_ms)
{
	char text[32];

	return unix_ms > 0 ? json_string(api_time(unix_ms, text)) : json_null();
}

json_t *v1_text(const char *s)
{
	json_t *v = json_string(s);
	AUTO_FREE char *copy = NULL;

	if (v)
		return v;
	copy = mem_strdup(s);
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(copy);
}

/* Stored by ourselves; should it not parse, an empty object is better than no answer. */
static json_t *stored(const char *text)
{
	json_t *v = text && *text ? json_loads(text, 0, NULL) : NULL;

	return v ? v : json_object();
}

static json_t *limits(const struct store_sandbox *row)
{
	return json_pack("{s:f, s:I, s:I, s:I}", "cpus", (double)row->cpu_milli / 1000.0,
		"memory_bytes", (json_int_t)row->memory_max, "disk_bytes",
		(json_int_t)row->disk_max, "processes", (json_int_t)row->pids_max);
}

json_t *v1_sandbox_json(const struct store_sandbox *row, bool with_secrets)
{
	json_t *spec = stored(row->spec);
	json_t *o = json_pack("{s:s, s:s*, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:O*}",
		"id", row->id, "name", *row->name ? row->name : NULL, "template", row->template,
		"state", sandbox_state_name(row->state), "labels", stored(row->metadata),
		"created_at", v1_time(row->made_ms), "started_at", v1_time(row->started_ms),
		"ended_at", v1_time(row->ended_ms), "expires_at", v1_time(row->end_at_ms),
		"idle_timeout_ms", (json_int_t)row->idle_ms, "limits", limits(row), "network",
		json_object_get(spec, "network"));

	if (o && row->profile && *row->profile)
		(void)json_object_set_new(o, "profile", json_string(row->profile));
	if (o && row->reason != SANDBOX_NO_REASON)
		(void)json_object_set_new(
			o, "reason", json_string(sandbox_reason_name(row->reason)));
	if (o && *row->message)
		(void)json_object_set_new(o, "message", v1_text(row->message));
	if (o && with_secrets && row->token[0])
		(void)json_object_set_new(o, "access_token", json_string(row->token));
	if (o && with_secrets && row->traffic_token[0])
		(void)json_object_set_new(o, "traffic_token", json_string(row->traffic_token));
	json_decref(spec);
	return o;
}

json_t *v1_entry_json(const struct guest_entry *e)
{
	static const char *const types[] = {"unknown", "file", "directory", "other"};
	json_t *o = json_pack("{s:o, s:o, s:s, s:b, s:i, s:o, s:o, s:I, s:o}", "name",
		v1_text(e->name), "path", v1_text(e->path), "type",
		types[e->type <= GUEST_OTHER ? e->type : 0], "is_link", e->is_link, "mode",
		(int)(e->mode & 07777), "owner", v1_text(e->owner), "group", v1_text(e->group),
		"size", (json_int_t)(e->size & INT64_MAX), "modified_at",
		v1_time((int64_t)(e->mtime_ns / 1000000)));

	if (o && e->link_target && *e->link_target)
		(void)json_object_set_new(o, "link_target", v1_text(e->link_target));
	return o;
}

json_t *v1_event_json(const struct store_event *e)
{
	json_t *o = json_pack("{s:I, s:o, s:o, s:s, s:s, s:s}", "number", (json_int_t)e->number,
		"at", v1_time(e->at_ms), "actor", v1_text(e->actor), "action", e->action,
		"sandbox_id", e->sandbox, "outcome", e->outcome);

	if (o && *e->detail)
		(void)json_object_set_new(o, "detail", stored(e->detail));
	return o;
}

int v1_row(struct api *a, const struct api_caller *who, const char *which,
	struct store_sandbox *ret, struct err *err)
{
	struct sandbox *sb = sandbox_find(a, who->tenant, which);
	int r;

	if (sb)
		return store_sandbox_get(a->store, sb->row.id, ret, err);
	r = store_sandbox_get(a->store, which, ret, err);
	if (r == 0 && strcmp(ret->tenant, who->tenant) != 0) {
		/* Another's is as unknown as one that never was. */
		store_sandbox_done(ret);
		r = err_set(err, ENOENT, "no sandbox '%s'", which);
	}
	return r;
}
