/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/shape.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

/*
 * What stands behind "<port>-<id>." in the address of a port. An address of this machine
 * cannot carry such a name, but every "*.localhost" leads to it.
 */
static void put_domain(json_t *to, const struct sandbox *sb, const struct http_request *r)
{
	const struct h1_field *f = h1_find(&r->head, "Host");
	const char *domain = sb->api->config.domain;
	char text[300];

	if (!domain && f && f->value.n > 0 && f->value.n < 256) {
		const char *colon = memrchr(f->value.p, ':', f->value.n);
		int port_n = colon ? (int)(f->value.n - (size_t)(colon - f->value.p)) : 0;

		if (h1_is(r->host, "127.0.0.1") || h1_is(r->host, "[::1]"))
			(void)snprintf(text, sizeof(text), "localhost%.*s",
				r->host.n < f->value.n ? port_n : 0, colon ? colon : "");
		else
			(void)snprintf(text, sizeof(text), "%.*s", (int)f->value.n, f->value.p);
		domain = text;
	}
	if (domain)
		(void)json_object_set_new(to, "domain", json_string(domain));
}

static json_t *common(const struct sandbox *sb)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "templateID", sb->row.template, "alias",
		sb->row.template, "sandboxID", sb->row.id, "clientID", "bawn", "envdVersion",
		E2B_ENVD_VERSION);
}

static void put_token(json_t *to, const struct sandbox *sb)
{
	if (sb->row.token[0])
		(void)json_object_set_new(to, "envdAccessToken", json_string(sb->row.token));
}

json_t *shape_sandbox(struct sandbox *sb, const struct http_request *r)
{
	json_t *v = common(sb);

	put_token(v, sb);
	if (sb->row.traffic_token[0])
		(void)json_object_set_new(
			v, "trafficAccessToken", json_string(sb->row.traffic_token));
	put_domain(v, sb, r);
	return v;
}

unsigned shape_cpu_count(const struct sandbox *sb)
{
	static long all; /* asking costs four system calls */

	if (sb->row.cpu_milli > 0)
		return (unsigned)((sb->row.cpu_milli + 999) / 1000);
	if (all == 0)
		all = sysconf(_SC_NPROCESSORS_ONLN);
	return all > 0 ? (unsigned)all : 1;
}

uint64_t shape_memory(const struct sandbox *sb)
{
	if (sb->row.memory_max > 0)
		return (uint64_t)sb->row.memory_max;
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

json_t *shape_listed(struct sandbox *sb)
{
	json_t *v = common(sb), *metadata = json_loads(sb->row.metadata, 0, NULL);
	char from[32], to[32];

	(void)json_object_update_new(
		v, json_pack("{s:s, s:s, s:i, s:I, s:I, s:s, s:o}", "startedAt",
			   api_time(sb->row.started_ms, from), "endAt",
			   api_time(sandbox_end_at(sb), to), "cpuCount", (int)shape_cpu_count(sb),
			   "memoryMB", (json_int_t)(shape_memory(sb) / MIB), "diskSizeMB",
			   (json_int_t)(sb->row.disk_max / MIB), "state",
			   sb->row.state == SANDBOX_PAUSED ? "paused" : "running", "metadata",
			   metadata ? metadata : json_object()));
	return v;
}

json_t *shape_detail(struct sandbox *sb, const struct http_request *r)
{
	json_t *v = shape_listed(sb), *spec = json_loads(sb->row.spec, 0, NULL);
	json_t *extra = json_object_get(spec, "extra");
	json_t *network = json_object_get(spec, "network");
	json_t *internet = json_object_get(extra, "allowInternetAccess");

	put_token(v, sb);
	put_domain(v, sb, r);
	if (network)
		(void)json_object_set(v, "network", network);
	if (internet)
		(void)json_object_set(v, "allowInternetAccess", internet);
	(void)json_object_set_new(v, "lifecycle",
		json_pack("{s:b, s:s}", "autoResume",
			json_is_true(json_object_get(extra, "autoResume")), "onTimeout", "kill"));
	json_decref(spec);
	return v;
}
