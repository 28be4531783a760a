/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/shape.h"

#include "api/e2b/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB        (1u << 20)
#define DOMAIN_MAX 300

/*
 * What stands behind "<port>-<id>." in the address of a port. An address of this machine
 * cannot carry such a name, but every "*.localhost" leads to it. NULL: nobody knows.
 */
static const char *domain_of(
	const struct sandbox *sb, const struct http_request *r, char out[DOMAIN_MAX])
{
	const struct h1_field *f = h1_find(&r->head, "Host");
	const char *colon;
	int port_n;

	if (sb->api->config.domain)
		return sb->api->config.domain;
	if (!f || f->value.n == 0 || f->value.n >= DOMAIN_MAX - 16)
		return NULL;
	colon = memrchr(f->value.p, ':', f->value.n);
	port_n = colon && r->host.n < f->value.n ? (int)(f->value.n - (size_t)(colon - f->value.p))
						 : 0;
	if (h1_is(r->host, "127.0.0.1") || h1_is(r->host, "[::1]"))
		(void)snprintf(out, DOMAIN_MAX, "localhost%.*s", port_n, colon ? colon : "");
	else
		(void)snprintf(out, DOMAIN_MAX, "%.*s", (int)f->value.n, f->value.p);
	return out;
}

static json_t *common(const struct sandbox *sb)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "templateID", sb->row.template, "alias",
		sb->row.template, "sandboxID", sb->row.id, "clientID", "bawn", "envdVersion",
		E2B_ENVD_VERSION);
}

json_t *shape_sandbox(struct sandbox *sb, const struct http_request *r)
{
	json_t *v = common(sb);
	char text[DOMAIN_MAX];
	const char *domain = domain_of(sb, r, text);

	if (sb->row.token[0])
		(void)json_object_set_new(v, "envdAccessToken", json_string(sb->row.token));
	if (sb->row.traffic_token[0])
		(void)json_object_set_new(
			v, "trafficAccessToken", json_string(sb->row.traffic_token));
	if (domain)
		(void)json_object_set_new(v, "domain", json_string(domain));
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

/* Everything but the closing brace. */
static void put_listed(struct buf *b, const struct sandbox *sb)
{
	const struct store_sandbox *row = &sb->row;
	char from[32], to[32];

	(void)buf_addf(b, "{\"templateID\":");
	(void)json_text_add(b, row->template);
	(void)buf_addf(b, ",\"alias\":");
	(void)json_text_add(b, row->template);
	(void)buf_addf(b,
		",\"sandboxID\":\"%s\",\"clientID\":\"bawn\",\"envdVersion\":\"" E2B_ENVD_VERSION
		"\",\"startedAt\":\"%s\",\"endAt\":\"%s\",\"cpuCount\":%u,\"memoryMB\":%" PRIu64
		",\"diskSizeMB\":%" PRIu64 ",\"state\":\"%s\",\"metadata\":%s",
		row->id, api_time(row->started_ms, from), api_time(sandbox_end_at(sb), to),
		shape_cpu_count(sb), shape_memory(sb) / MIB, (uint64_t)row->disk_max / MIB,
		row->state == SANDBOX_PAUSED ? "paused" : "running",
		row->metadata[0] ? row->metadata : "{}");
}

void shape_listed(struct buf *b, const struct sandbox *sb)
{
	put_listed(b, sb);
	(void)buf_add(b, "}", 1);
}

static void put_value(struct buf *b, const char *name, json_t *value)
{
	AUTO_FREE char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (text)
		(void)buf_addf(b, ",\"%s\":%s", name, text);
}

/* What is in the spec alone. Most have none of it, and then it need not be parsed. */
static bool put_spec(struct buf *b, const char *text)
{
	json_t *spec, *extra;
	bool is_resumed;

	if (!strstr(text, "\"network\":") && !strstr(text, "\"allowInternetAccess\":") &&
		!strstr(text, "\"autoResume\":"))
		return false;
	spec = json_loads(text, 0, NULL);
	extra = json_object_get(spec, "extra");
	put_value(b, "network", json_object_get(spec, "network"));
	put_value(b, "allowInternetAccess", json_object_get(extra, "allowInternetAccess"));
	is_resumed = json_is_true(json_object_get(extra, "autoResume"));
	json_decref(spec);
	return is_resumed;
}

void shape_detail(struct buf *b, const struct sandbox *sb, const struct http_request *r)
{
	char text[DOMAIN_MAX];
	const char *domain = domain_of(sb, r, text);
	bool is_resumed;

	put_listed(b, sb);
	if (sb->row.token[0])
		(void)buf_addf(b, ",\"envdAccessToken\":\"%s\"", sb->row.token);
	if (domain) {
		(void)buf_addf(b, ",\"domain\":");
		(void)json_text_add(b, domain);
	}
	is_resumed = put_spec(b, sb->row.spec);
	(void)buf_addf(b, ",\"lifecycle\":{\"autoResume\":%s,\"onTimeout\":\"kill\"}}",
		is_resumed ? "true" : "false");
}
