/* SPDX-License-Identifier: Apache-2.0 */

#include "io/guest_proto.h"

#include <string.h>

#define NAME_MAX_BYTES 4096 /* keys, tags, users: short texts; ids and host names are shorter */

/* u64 per stream number. */
static void put_offsets(struct frame_writer *w, const uint64_t v[4])
{
	for (int i = 0; i < 4; i++)
		frame_put_u64(w, v[i]);
}

static void get_offsets(struct frame_reader *r, uint64_t ret[4])
{
	for (int i = 0; i < 4; i++)
		ret[i] = frame_get_u64(r);
}

/* A number out of its range is as bad as a missing one. */
static uint8_t get_up_to(struct frame_reader *r, uint8_t max)
{
	uint8_t v = frame_get_u8(r);

	if (v > max)
		r->failed = true;
	return v;
}

static char *get_name(struct frame_reader *r)
{
	return frame_get_string(r, NAME_MAX_BYTES);
}

static char *get_path(struct frame_reader *r)
{
	return frame_get_string(r, GUEST_PATH_MAX);
}

static char **get_args(struct frame_reader *r)
{
	return frame_get_strings(r, GUEST_ARGS_MAX, GUEST_STRING_MAX);
}

/* A path that was asked for: too long is for the guest to say, not malformed. */
static char *get_any_path(struct frame_reader *r)
{
	return frame_get_string(r, GUEST_STRING_MAX);
}

/* "key", "value", …: pairs. */
static char **get_pairs(struct frame_reader *r)
{
	char **v = get_args(r);
	size_t n = 0;

	while (v[n])
		n++;
	if (n % 2 != 0)
		r->failed = true;
	return v;
}

void guest_bind_put(struct frame_writer *w, const struct guest_bind *v)
{
	frame_put_string(w, v->id);
	frame_put_string(w, v->hostname);
	frame_put_string(w, v->user);
	frame_put_string(w, v->cwd);
	frame_put_strings(w, v->env);
}

bool guest_bind_get(struct frame_reader *r, struct guest_bind *ret)
{
	*ret = (struct guest_bind){0};
	ret->id = get_name(r);
	ret->hostname = get_name(r);
	ret->user = get_name(r);
	ret->cwd = get_any_path(r);
	ret->env = get_args(r);
	return !r->failed;
}

void guest_bind_done(struct guest_bind *v)
{
	free(v->id);
	free(v->hostname);
	free(v->user);
	free(v->cwd);
	frame_free_strings(v->env);
	*v = (struct guest_bind){0};
}

void guest_start_put(struct frame_writer *w, const struct guest_start *v)
{
	frame_put_string(w, v->key);
	frame_put_string(w, v->tag);
	frame_put_strings(w, v->argv);
	frame_put_strings(w, v->env);
	frame_put_string(w, v->cwd);
	frame_put_string(w, v->user);
	frame_put_u32(w, v->flags);
	frame_put_u16(w, v->cols);
	frame_put_u16(w, v->rows);
	frame_put_u64(w, v->timeout_ms);
	frame_put_u64(w, v->memory_max);
	frame_put_u32(w, v->open_files);
	frame_put_u32(w, v->processes);
}

bool guest_start_get(struct frame_reader *r, struct guest_start *ret)
{
	*ret = (struct guest_start){0};
	ret->key = get_name(r);
	ret->tag = get_name(r);
	ret->argv = get_args(r);
	ret->env = get_args(r);
	ret->cwd = get_any_path(r);
	ret->user = get_name(r);
	ret->flags = frame_get_u32(r);
	ret->cols = frame_get_u16(r);
	ret->rows = frame_get_u16(r);
	ret->timeout_ms = frame_get_u64(r);
	ret->memory_max = frame_get_u64(r);
	ret->open_files = frame_get_u32(r);
	ret->processes = frame_get_u32(r);
	return !r->failed;
}

void guest_start_done(struct guest_start *v)
{
	free(v->key);
	free(v->tag);
	frame_free_strings(v->argv);
	frame_free_strings(v->env);
	free(v->cwd);
	free(v->user);
	*v = (struct guest_start){0};
}

void guest_which_put(struct frame_writer *w, const struct guest_which *v)
{
	frame_put_u32(w, v->pid);
	frame_put_string(w, v->key);
	frame_put_string(w, v->tag);
}

bool guest_which_get(struct frame_reader *r, struct guest_which *ret)
{
	*ret = (struct guest_which){0};
	ret->pid = frame_get_u32(r);
	ret->key = get_name(r);
	ret->tag = get_name(r);
	return !r->failed;
}

void guest_which_done(struct guest_which *v)
{
	free(v->key);
	free(v->tag);
	*v = (struct guest_which){0};
}

void guest_attach_put(struct frame_writer *w, const struct guest_attach *v)
{
	guest_which_put(w, &v->which);
	frame_put_u8(w, v->from);
	put_offsets(w, v->offset);
}

bool guest_attach_get(struct frame_reader *r, struct guest_attach *ret)
{
	*ret = (struct guest_attach){0};
	(void)guest_which_get(r, &ret->which);
	ret->from = get_up_to(r, GUEST_FROM_OFFSET);
	get_offsets(r, ret->offset);
	return !r->failed;
}

void guest_attach_done(struct guest_attach *v)
{
	guest_which_done(&v->which);
}

void guest_started_put(struct frame_writer *w, const struct guest_started *v)
{
	frame_put_u32(w, v->pid);
	frame_put_u8(w, v->is_new);
	put_offsets(w, v->offset);
}

bool guest_started_get(struct frame_reader *r, struct guest_started *ret)
{
	*ret = (struct guest_started){0};
	ret->pid = frame_get_u32(r);
	ret->is_new = get_up_to(r, 1);
	get_offsets(r, ret->offset);
	return !r->failed;
}

void guest_started_done(struct guest_started *v)
{
	*v = (struct guest_started){0};
}

void guest_exit_put(struct frame_writer *w, const struct guest_exit *v)
{
	frame_put_u32(w, (uint32_t)v->exit_code);
	frame_put_u32(w, v->signal);
	frame_put_u8(w, v->is_timed_out);
	frame_put_u8(w, v->has_core);
	put_offsets(w, v->end);
	frame_put_u64(w, v->cpu_us);
	frame_put_u64(w, v->wall_ms);
	frame_put_u64(w, v->rss_peak);
}

bool guest_exit_get(struct frame_reader *r, struct guest_exit *ret)
{
	*ret = (struct guest_exit){0};
	ret->exit_code = (int32_t)frame_get_u32(r);
	ret->signal = frame_get_u32(r);
	ret->is_timed_out = get_up_to(r, 1);
	ret->has_core = get_up_to(r, 1);
	get_offsets(r, ret->end);
	ret->cpu_us = frame_get_u64(r);
	ret->wall_ms = frame_get_u64(r);
	ret->rss_peak = frame_get_u64(r);
	/* What no kernel reports: the caller shows these numbers to people and to shells. */
	if (ret->exit_code < -1 || ret->exit_code > 255 || ret->signal > 64)
		r->failed = true;
	return !r->failed;
}

void guest_exit_done(struct guest_exit *v)
{
	*v = (struct guest_exit){0};
}

void guest_process_put(struct frame_writer *w, const struct guest_process *v)
{
	frame_put_u32(w, v->pid);
	frame_put_string(w, v->key);
	frame_put_string(w, v->tag);
	frame_put_strings(w, v->argv);
	frame_put_strings(w, v->env);
	frame_put_string(w, v->cwd);
	frame_put_string(w, v->user);
	frame_put_u32(w, v->flags);
	frame_put_u8(w, v->is_running);
	frame_put_u64(w, v->started_ms);
	guest_exit_put(w, &v->exit);
}

bool guest_process_get(struct frame_reader *r, struct guest_process *ret)
{
	*ret = (struct guest_process){0};
	ret->pid = frame_get_u32(r);
	ret->key = get_name(r);
	ret->tag = get_name(r);
	ret->argv = get_args(r);
	ret->env = get_args(r);
	ret->cwd = get_path(r);
	ret->user = get_name(r);
	ret->flags = frame_get_u32(r);
	ret->is_running = get_up_to(r, 1);
	ret->started_ms = frame_get_u64(r);
	(void)guest_exit_get(r, &ret->exit);
	return !r->failed;
}

void guest_process_done(struct guest_process *v)
{
	free(v->key);
	free(v->tag);
	frame_free_strings(v->argv);
	frame_free_strings(v->env);
	free(v->cwd);
	free(v->user);
	*v = (struct guest_process){0};
}

void guest_entry_put(struct frame_writer *w, const struct guest_entry *v)
{
	frame_put_string(w, v->name);
	frame_put_string(w, v->path);
	frame_put_u8(w, v->type);
	frame_put_u8(w, v->is_link);
	frame_put_u32(w, v->mode);
	frame_put_string(w, v->owner);
	frame_put_string(w, v->group);
	frame_put_u64(w, v->size);
	frame_put_u64(w, v->mtime_ns);
	frame_put_string(w, v->link_target);
	frame_put_strings(w, v->metadata);
}

bool guest_entry_get(struct frame_reader *r, struct guest_entry *ret)
{
	*ret = (struct guest_entry){0};
	ret->name = get_path(r);
	ret->path = frame_get_string(r, 2 * GUEST_PATH_MAX);
	ret->type = get_up_to(r, GUEST_OTHER);
	ret->is_link = get_up_to(r, 1);
	ret->mode = frame_get_u32(r);
	if (ret->mode > 07777)
		r->failed = true;
	ret->owner = get_name(r);
	ret->group = get_name(r);
	ret->size = frame_get_u64(r);
	ret->mtime_ns = frame_get_u64(r);
	ret->link_target = frame_get_string(r, 2 * GUEST_PATH_MAX);
	ret->metadata = get_pairs(r);
	return !r->failed;
}

void guest_entry_done(struct guest_entry *v)
{
	free(v->name);
	free(v->path);
	free(v->owner);
	free(v->group);
	free(v->link_target);
	frame_free_strings(v->metadata);
	*v = (struct guest_entry){0};
}

void guest_write_put(struct frame_writer *w, const struct guest_write *v)
{
	frame_put_string(w, v->user);
	frame_put_string(w, v->path);
	frame_put_u32(w, v->mode);
	frame_put_strings(w, v->metadata);
}

bool guest_write_get(struct frame_reader *r, struct guest_write *ret)
{
	*ret = (struct guest_write){0};
	ret->user = get_name(r);
	ret->path = get_any_path(r);
	ret->mode = frame_get_u32(r);
	ret->metadata = get_pairs(r);
	return !r->failed;
}

void guest_write_done(struct guest_write *v)
{
	free(v->user);
	free(v->path);
	frame_free_strings(v->metadata);
	*v = (struct guest_write){0};
}

void guest_change_put(struct frame_writer *w, const struct guest_change *v)
{
	frame_put_string(w, v->name);
	frame_put_u8(w, v->type);
	frame_put_u8(w, v->has_entry);
	if (v->has_entry)
		guest_entry_put(w, &v->entry);
}

bool guest_change_get(struct frame_reader *r, struct guest_change *ret)
{
	*ret = (struct guest_change){0};
	ret->name = frame_get_string(r, 2 * GUEST_PATH_MAX);
	ret->type = get_up_to(r, GUEST_OVERFLOW);
	ret->has_entry = get_up_to(r, 1);
	if (ret->type < GUEST_CREATE)
		r->failed = true;
	if (ret->has_entry)
		(void)guest_entry_get(r, &ret->entry);
	return !r->failed;
}

void guest_change_done(struct guest_change *v)
{
	free(v->name);
	guest_entry_done(&v->entry);
	*v = (struct guest_change){0};
}

void guest_usage_put(struct frame_writer *w, const struct guest_usage *v)
{
	frame_put_u32(w, v->cpu_count);
	frame_put_u64(w, v->cpu_us);
	frame_put_u64(w, v->mem_used);
	frame_put_u64(w, v->mem_total);
	frame_put_u64(w, v->mem_cache);
	frame_put_u64(w, v->disk_used);
	frame_put_u64(w, v->disk_total);
	frame_put_u32(w, v->processes);
	frame_put_u64(w, v->idle_ms);
}

bool guest_usage_get(struct frame_reader *r, struct guest_usage *ret)
{
	*ret = (struct guest_usage){0};
	ret->cpu_count = frame_get_u32(r);
	ret->cpu_us = frame_get_u64(r);
	ret->mem_used = frame_get_u64(r);
	ret->mem_total = frame_get_u64(r);
	ret->mem_cache = frame_get_u64(r);
	ret->disk_used = frame_get_u64(r);
	ret->disk_total = frame_get_u64(r);
	ret->processes = frame_get_u32(r);
	ret->idle_ms = frame_get_u64(r);
	return !r->failed;
}

void guest_usage_done(struct guest_usage *v)
{
	*v = (struct guest_usage){0};
}
