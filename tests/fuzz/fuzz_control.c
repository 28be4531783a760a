/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What strangers put into the control plane's requests before anybody looks at their key: paths,
 * hosts, queries; and the network rules of a body. The first byte says which.
 */
#include "api/api.h"
#include "api/e2b/filters.h"
#include "api/e2b/network.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void path(struct h1_text text)
{
	struct route_match m = {0};
	char allow[128] = "";
	int v = route_find(e2b_routes, (struct h1_text){"GET", 3}, text, &m, allow, sizeof(allow));

	assert(v == 0 || v == 400 || v == 404 || v == 405);
	assert(m.params_n <= ROUTE_PARAMS_MAX);
	if (v != 0)
		return;
	assert(m.route && strcmp(m.route->method, "GET") == 0);
	for (size_t i = 0; i < m.params_n; i++)
		assert(memchr(m.params[i], '\0', sizeof(m.params[i])));
}

static void host(struct h1_text text)
{
	char id[SANDBOX_ID_MAX];
	unsigned port;

	if (!api_host_split(text, &port, id))
		return;
	assert(port >= 1 && port <= 65535);
	assert(id[0] && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(id));
}

static void query(struct h1_text text)
{
	struct filters f;
	struct err err = {0};
	int r = filters_parse(text, &f, &err);

	if (r == 0) {
		assert(f.limit >= 1 && f.limit <= 100);
		assert(!f.has_token || sandbox_is_id(f.token_id));
		assert(!f.has_token || !filters_is_behind(&f, f.token_ms, f.token_id));
		(void)filters_match(&f, SANDBOX_RUNNING, 1, "base", "{\"a\":\"b\"}");
	} else {
		assert(r == -EINVAL && err.msg[0]);
	}
	filters_done(&f);
}

static void network(struct h1_text text)
{
	json_t *v = json_loadb(text.p, text.n, 0, NULL);
	struct err err = {0};

	if (json_is_object(v))
		assert(network_check(v, &err) == 0 || err.code == EINVAL);
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const all[])(struct h1_text) = {path, host, query, network};
	struct h1_text text = {(const char *)data + 1, size - 1};

	if (size == 0)
		return 0;
	all[data[0] % 4](text);
	return 0;
}
