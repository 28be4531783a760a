/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/profile_args.h"

#include "base/mem.h"
#include "core/policy_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int load_floor(const char *file, struct policy **ret, struct err *err)
{
	AUTO_FREE char *cwd = NULL, *path = NULL;
	int r;

	if (!file) {
		if (access(PROFILE_FLOOR_FILE, F_OK) < 0)
			return 0;
		return profile_load_floor(PROFILE_FLOOR_FILE, ret, err);
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return err_sys(err, "find the working directory");
	r = text_path_clean(file, cwd, &path, err);
	return r < 0 ? r : profile_load_floor(path, ret, err);
}

int profile_args_load(const char *what, const char *floor, struct profile *ret, struct err *err)
{
	AUTO(policy_unref) struct policy *under = NULL;
	AUTO(policy_unref) struct policy *sum = NULL;
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	struct profile_source source = {.cwd = cwd, .home = getenv("HOME")};
	struct profile_places places = {0};
	struct profile p = {0};
	int r;

	if (!cwd)
		return err_sys(err, "find the working directory");
	if (source.home && source.home[0] != '/')
		source.home = NULL;
	profile_places_find(source.home, &places);
	r = profile_load(what, &places, &source, NULL, &p, err);
	profile_places_done(&places);
	if (r >= 0)
		r = load_floor(floor, &under, err);
	if (r >= 0)
		r = policy_with_floor(p.policy, under, NULL, &sum, err);
	if (r < 0) {
		profile_done(&p);
		return r;
	}
	(void)policy_unref(p.policy);
	p.policy = TAKE_PTR(sum);
	*ret = p;
	return 0;
}

static void add_list(FILE *out, const char *before, const struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		(void)fprintf(out, "%s%s%s", i == 0 ? before : "", " ", s->v[i]);
}

static void add_budget(FILE *out, const struct policy_budget *b)
{
	if (b->bytes_up)
		(void)fprintf(out, " bytes_up %" PRIu64, b->bytes_up);
	if (b->bytes_down)
		(void)fprintf(out, " bytes_down %" PRIu64, b->bytes_down);
	if (b->requests)
		(void)fprintf(out, " requests %" PRIu64, b->requests);
	if (b->per_ms)
		(void)fprintf(out, " per %" PRIu64 "s", b->per_ms / 1000);
}

char *profile_args_rule_line(const struct policy *p, const struct policy_rule *r)
{
	char *line = NULL, text[POLICY_NAME_MAX + 8];
	size_t size = 0;
	FILE *out = mem_must(open_memstream(&line, &size));
	const char *gap = " ";

	(void)fprintf(out, "%s", policy_action_name(r->action));
	for (unsigned bit = 1; bit <= POLICY_TCP; bit <<= 1) {
		if (r->protocols & bit) {
			(void)fprintf(out, "%s%s", gap, policy_protocol_name(bit));
			gap = ",";
		}
	}
	for (size_t i = 0; i < r->hosts_n; i++) {
		policy_host_format(&r->hosts[i], text);
		(void)fprintf(out, " %s", text);
	}
	for (size_t i = 0; i < r->ports_n; i++) {
		policy_ports_format(&r->ports[i], text);
		(void)fprintf(out, "%s%s", i == 0 ? " ports " : ",", text);
	}
	add_list(out, "", &r->methods);
	add_list(out, "", &r->paths);
	add_list(out, " programs", &r->programs);
	add_budget(out, &r->budget);
	for (size_t i = 0; i < r->bindings_n; i++)
		(void)fprintf(out, "%s %s", i == 0 ? " credentials" : "",
			p->bindings[r->bindings[i]].secret);
	if (r->is_approved)
		(void)fputs(" approved", out);
	if (fclose(out) != 0)
		abort();
	return line;
}
