/* SPDX-License-Identifier: Apache-2.0 */

/* The diagnosis as one line of JSON. */
#include "cli/doctor.h"

#include "base/mem.h"
#include "base/text.h"

#include <jansson.h>

/* Text of the machine (a kernel's name, a mount point) need not be UTF-8; JSON must be. */
static json_t *text(const char *s)
{
	char quoted[512];
	json_t *j = json_string(s);

	return j ? j : (json_t *)mem_must(json_string(text_quote(s, quoted, sizeof(quoted))));
}

static void set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		abort(); /* out of memory, as in base/mem */
}

static json_t *facts(const struct diagnosis *d)
{
	json_t *list = (json_t *)mem_must(json_array());

	for (size_t i = 0; i < d->facts_n; i++) {
		const struct diagnosis_fact *f = &d->facts[i];
		json_t *o = (json_t *)mem_must(json_object());

		set(o, "group", text(f->group));
		set(o, "name", text(f->name));
		set(o, "value", text(f->value));
		set(o, "status", text(diagnosis_status_name(f->status)));
		set(o, "detail", text(f->detail));
		set(o, "fix", text(f->fix));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *walls(const struct diagnosis *d)
{
	json_t *list = (json_t *)mem_must(json_array());

	for (size_t i = 0; i < WALL_COUNT; i++) {
		const struct diagnosis_wall *w = &d->walls[i];
		json_t *o = (json_t *)mem_must(json_object());

		set(o, "name", text(wall_name((enum wall)i)));
		set(o, "about", text(wall_about((enum wall)i)));
		set(o, "required", json_boolean(w->is_required));
		set(o, "available", json_boolean(w->is_available));
		set(o, "status", text(diagnosis_status_name(w->status)));
		set(o, "mechanism", text(w->mechanism));
		set(o, "fix", text(w->fix));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *tiers(const struct diagnosis *d)
{
	json_t *list = (json_t *)mem_must(json_array());

	for (size_t i = 0; i < DIAGNOSIS_TIERS; i++) {
		const struct diagnosis_tier *t = &d->tiers[i];
		json_t *o = (json_t *)mem_must(json_object());

		set(o, "name", text(t->name));
		set(o, "available", json_boolean(t->is_available));
		set(o, "why", text(t->why));
		set(o, "fix", text(t->fix));
		(void)json_array_append_new(list, o);
	}
	return list;
}

void doctor_print_json(const struct probe *p, const struct diagnosis *d, FILE *out)
{
	json_t *all = (json_t *)mem_must(json_object());

	set(all, "ok", json_boolean(d->is_ok));
	set(all, "kernel", text(p->kernel));
	set(all, "arch", text(p->arch));
	set(all, "uid", json_integer((json_int_t)p->uid));
	set(all, "root", json_boolean(p->is_root));
	set(all, "facts", facts(d));
	set(all, "walls", walls(d));
	set(all, "tiers", tiers(d));
	(void)json_dumpf(all, out, JSON_COMPACT);
	(void)fputc('\n', out);
	json_decref(all);
}
