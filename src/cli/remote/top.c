/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/top - `bawn top`: the sandboxes and what they use, drawn again and again.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS_MAX 500

static int last_sample(struct client *c, const char *id, json_t **ret)
{
	AUTO_FREE char *escaped = client_escape(id);
	AUTO_FREE char *path = text_format("/v1/sandboxes/%s/metrics", escaped);
	struct err ignored = {0};
	json_t *answer = NULL;
	int r = client_json(c, "GET", path, NULL, &answer, &ignored);
	const json_t *samples = json_object_get(answer, "samples");
	size_t n = json_array_size(samples);

	*ret = r >= 0 && n > 0 ? json_incref(json_array_get(samples, n - 1)) : NULL;
	json_decref(answer);
	return *ret ? 0 : -ENOENT;
}

static const char *megabytes(const json_t *sample, const char *name, char out[32])
{
	const json_t *v = json_object_get(sample, name);

	if (json_is_integer(v))
		(void)snprintf(out, 32, "%.1fM", (double)json_integer_value(v) / (1 << 20));
	else
		(void)snprintf(out, 32, "-");
	return out;
}

static void print_row(const json_t *o, const json_t *sample, bool is_live)
{
	char id[40], name[40], state[16], cpu[32], memory[32], disk[32], age[32], left[32];

	(void)snprintf(cpu, sizeof(cpu), "%.1f%%",
		json_number_value(json_object_get(sample, "cpu_percent")));
	(void)printf("%-22s %-16s %-8s %8s %10s %10s %8s %8s%s\n",
		list_text(o, "id", id, sizeof(id)), list_text(o, "name", name, sizeof(name)),
		list_text(o, "state", state, sizeof(state)), sample ? cpu : "-",
		megabytes(sample, "memory_bytes", memory), megabytes(sample, "disk_bytes", disk),
		list_since(json_string_value(json_object_get(o, "created_at")), age),
		list_until(json_string_value(json_object_get(o, "expires_at")), left),
		is_live ? "\033[K" : "");
}

/* One picture, at most as high as the terminal. */
static int draw(struct client *c, bool is_live, struct err *err)
{
	struct winsize w = {0};
	json_t *all = NULL;
	size_t rows, n;
	int r = list_all(c, false, &all, err);

	if (r < 0)
		return r;
	n = json_array_size(all);
	rows = n < ROWS_MAX ? n : ROWS_MAX;
	if (is_live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 3 &&
		rows > w.ws_row - 3u)
		rows = w.ws_row - 3u;
	if (is_live)
		(void)printf("\033[H");
	(void)printf("%zu sandbox%s at %s%s\n%-22s %-16s %-8s %8s %10s %10s %8s %8s%s\n", n,
		n == 1 ? "" : "es", client_url(c), is_live ? "\033[K" : "", "ID", "NAME", "STATE",
		"CPU", "MEMORY", "DISK", "AGE", "LEFT", is_live ? "\033[K" : "");
	for (size_t i = 0; i < rows; i++) {
		const json_t *o = json_array_get(all, i);
		const char *id = json_string_value(json_object_get(o, "id"));
		json_t *sample = NULL;

		(void)last_sample(c, id ? id : "", &sample);
		print_row(o, sample, is_live);
		json_decref(sample);
	}
	if (is_live)
		(void)printf("\033[J");
	(void)fflush(stdout);
	json_decref(all);
	return 0;
}

static int dump(struct client *c, struct err *err)
{
	json_t *all = NULL;
	int r = list_all(c, false, &all, err);

	for (size_t i = 0; r >= 0 && i < json_array_size(all); i++) {
		json_t *o = json_array_get(all, i), *sample = NULL;
		const char *id = json_string_value(json_object_get(o, "id"));

		if (last_sample(c, id ? id : "", &sample) == 0)
			(void)json_object_set_new(o, "usage", sample);
	}
	if (r >= 0)
		(void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII),
			(void)printf("\n");
	json_decref(all);
	return r;
}

int verb_top(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const char *every = "2";
	bool is_once = false;
	const struct arg table[] = {
		{"--once", '1', NULL, "draw once and end", ARG_FLAG, &is_once},
		{"--every", 0, "TIME", "how often to draw (2s)", ARG_TEXT, &every},
	};
	const struct args_verb v = {.name = "top",
		.usage = "[options]",
		.about = "Your sandboxes and what they use, live. ^C ends it. Once only if the\n"
			 "output is no terminal.\n",
		.table = table,
		.table_n = 2};
	struct args a;
	struct err err = {0};
	uint64_t ms = 0;
	bool is_live;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && a.want_help)
		return 0;
	if (r >= 0)
		r = text_parse_duration(every, "--every", &ms, &err);
	if (r >= 0)
		r = client_open(&a, &c, &err);
	is_live = !is_once && !a.want_json && isatty(STDOUT_FILENO);
	if (r >= 0 && a.want_json)
		r = dump(c, &err);
	else if (r >= 0 && is_live)
		(void)printf("\033[2J");
	while (r >= 0 && !a.want_json) {
		r = draw(c, is_live, &err);
		if (!is_live || r < 0)
			break;
		(void)usleep((useconds_t)(ms < 200 ? 200 : ms > 60000 ? 60000 : ms) * 1000);
	}
	return r < 0 ? args_fail("top", &err) : 0;
}
