/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/run_report - the result of a run, for people and for programs.
 *
 * Runs in: the bawn process, after the sandbox is gone. What it prints came from
 * inside the box and is hostile: texts are quoted, lists are cut.
 */
#include "cli/run_report.h"

#include "base/mem.h"
#include "cli/verb.h"
#include "run/process/cow.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define EXPLAIN_MAX 3  /* lines about refusals; the latest are the useful ones */
#define CHANGES_MAX 50 /* lines */

static bool is_limit(enum wall w)
{
	return w == WALL_MEMORY || w == WALL_CPU || w == WALL_PIDS || w == WALL_IO ||
	       w == WALL_DISK || w == WALL_TIME || w == WALL_RLIMITS;
}

/* A protected name that the command made: it was moved out of the tree after the run. */
static bool is_held_back(const struct violation *v)
{
	return strcmp(v->kind, "held") == 0 || strcmp(v->kind, "fell") == 0 ||
	       strcmp(v->kind, "scan") == 0;
}

/* The texts are quoted where they are made; a control byte that slipped through stops here. */
static void put_plain(const char *s, FILE *out)
{
	for (; *s; s++)
		(void)fputc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, out);
}

static void explain_one(const struct violation *v, FILE *out)
{
	const char *did = "refused";

	if (is_limit(v->wall))
		did = "was hit:";
	else if (is_held_back(v))
		did = strcmp(v->kind, "fell") == 0   ? "was opened:"
		      : strcmp(v->kind, "scan") == 0 ? "did not search all of"
						     : "held back";
	(void)fprintf(out, "bawn: wall '%s' %s ", wall_name(v->wall), did);
	put_plain(v->tried, out);
	if (v->count > 1)
		(void)fprintf(out, " (%" PRIu64 " times)", v->count);
	if (v->instead[0])
		(void)fputs(": ", out);
	put_plain(v->instead, out);
	(void)fputc('\n', out);
}

void run_report_explain(const struct box_result *result, FILE *out)
{
	const struct violation_list *l = &result->violations;
	uint64_t unsaid = l->total;
	size_t said = 0;

	/*
	 * Said even if the command succeeded: a limit that was hit, and what is no longer where
	 * the command put it.
	 */
	for (size_t i = 0; i < l->n; i++) {
		if (!is_limit(l->v[i].wall) && !is_held_back(&l->v[i]))
			continue;
		explain_one(&l->v[i], out);
		unsaid -= l->v[i].count;
		said++;
	}
	if (result->exit_status == 0)
		return;
	/* Latest first: what was refused last is the likeliest cause. */
	for (size_t i = l->n; i > 0 && said < EXPLAIN_MAX; i--) {
		if (is_limit(l->v[i - 1].wall) || is_held_back(&l->v[i - 1]))
			continue;
		explain_one(&l->v[i - 1], out);
		unsaid -= l->v[i - 1].count;
		said++;
	}
	if (unsaid > 0)
		(void)fprintf(out, "bawn: and %" PRIu64 " more; --json lists them\n", unsaid);
}

void run_report_changes(const struct box_result *result, FILE *out)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	struct err err = {0};
	const char *id = result->run_id;
	size_t n;

	if (result->changes == 0) {
		(void)fprintf(out, "bawn: nothing changed\n");
		return;
	}
	if (cow_load(id, &run, &err) < 0) {
		(void)fprintf(out, "bawn: run %s: %s\n", id, err.msg);
		return;
	}
	n = run->n < CHANGES_MAX ? run->n : CHANGES_MAX;
	(void)fprintf(out, "bawn: %zu change%s, not made yet:\n", run->n, run->n == 1 ? "" : "s");
	for (size_t i = 0; i < n; i++) {
		char quoted[512];

		(void)fprintf(out, "  %c %s\n", cow_kind_letter(run->entries[i].kind),
			text_quote(run->entries[i].path, quoted, sizeof(quoted)));
	}
	if (n < run->n)
		(void)fprintf(out, "  ... and %zu more\n", run->n - n);
	(void)fprintf(out,
		"bawn: 'bawn diff %s' shows them, 'bawn apply %s' makes them, "
		"'bawn discard %s' forgets them\n",
		id, id, id);
}

/* jansson refuses what is not UTF-8; a file name may be anything. */
static json_t *json_text(const char *s)
{
	AUTO_FREE char *escaped = NULL;
	json_t *j = json_string(s);
	char *p;

	if (j)
		return j;
	p = escaped = (char *)mem_must(malloc(strlen(s) * 4 + 1));
	for (; *s; s++) {
		if ((unsigned char)*s < 0x80)
			*p++ = *s;
		else
			p += snprintf(p, 5, "\\x%02x", (unsigned char)*s);
	}
	*p = '\0';
	return json_string(escaped);
}

static json_t *json_violations(const struct violation_list *l)
{
	json_t *all = json_array();

	for (size_t i = 0; i < l->n; i++) {
		const struct violation *v = &l->v[i];

		(void)json_array_append_new(
			all, json_pack("{s:s, s:o, s:s, s:o, s:I}", "kind", v->kind, "tried",
				     json_text(v->tried), "wall", wall_name(v->wall), "instead",
				     json_text(v->instead), "count", (json_int_t)v->count));
	}
	return all;
}

static json_t *json_walls(const struct wall_record *walls)
{
	json_t *all = json_array();

	for (size_t i = 0; i < WALL_COUNT; i++) {
		(void)json_array_append_new(
			all, json_pack("{s:s, s:s, s:s, s:o}", "name", wall_name((enum wall)i),
				     "requested", wall_level_name(walls[i].requested), "enforced",
				     wall_verdict_name(walls[i].enforced), "detail",
				     json_text(walls[i].detail)));
	}
	return all;
}

static json_t *json_ran(const struct spec *spec, const struct box_result *r)
{
	/* A command that could not be executed has not exited. */
	bool has_exit = r->signal == 0 && r->exec_error.code == 0;
	json_t *j = json_object();

	(void)json_object_set_new(j, "exit", has_exit ? json_integer(r->exit_code) : json_null());
	(void)json_object_set_new(j, "signal", r->signal ? json_integer(r->signal) : json_null());
	(void)json_object_set_new(j, "status", json_integer(r->exit_status));
	(void)json_object_set_new(j, "timed_out", json_boolean(r->timed_out));
	(void)json_object_set_new(j, "oom_killed", json_boolean(r->oom_killed));
	(void)json_object_set_new(j, "wall_ms", json_real((double)r->wall_us / 1000));
	(void)json_object_set_new(j, "cpu_ms", json_real((double)r->cpu_us / 1000));
	(void)json_object_set_new(j, "memory_peak", json_integer((json_int_t)r->memory_peak));
	(void)json_object_set_new(j, "bytes_written", json_integer((json_int_t)r->bytes_written));
	(void)json_object_set_new(j, "violations", json_violations(&r->violations));
	(void)json_object_set_new(
		j, "violations_total", json_integer((json_int_t)r->violations.total));
	if (r->exec_error.code)
		(void)json_object_set_new(j, "error", json_text(r->exec_error.msg));
	if (spec->cow) {
		(void)json_object_set_new(
			j, "run", r->changes > 0 ? json_text(r->run_id) : json_null());
		(void)json_object_set_new(j, "changes", json_integer((json_int_t)r->changes));
	}
	return j;
}

int run_report_json(const struct spec *spec, const struct box_result *result,
	const struct err *failure, FILE *out, struct err *err)
{
	AUTO_FREE char *text = NULL;
	json_t *j;

	if (failure)
		j = json_pack("{s:n, s:n, s:i, s:o}", "exit", "signal", "status", EXIT_BAWN,
			"error", json_text(failure->msg));
	else
		j = json_ran(spec, result);
	if (spec->profile)
		(void)json_object_set_new(j, "profile", json_text(spec->profile));
	(void)json_object_set_new(j, "walls", json_walls(result->walls));
	/* ASCII only: a terminal shows this too, and bidi controls are not for it. */
	text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
	json_decref(j);
	if (!text)
		return err_set(err, ENOMEM, "out of memory for the result");
	if (fprintf(out, "%s\n", text) < 0 || fflush(out) != 0)
		return err_sys(err, "write the result");
	return 0;
}
