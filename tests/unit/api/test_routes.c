/* SPDX-License-Identifier: Apache-2.0 */

#include "api/api.h"
#include "tap.h"

static void nothing(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)a, (void)r, (void)m;
}

static const struct route table[] = {
	{"GET", "/things", nothing, 0, ""},
	{"POST", "/things", nothing, 0, ""},
	{"GET", "/things/all", nothing, 0, ""},
	{"GET", "/things/{id}", nothing, 0, ""},
	{"DELETE", "/things/{id}/parts/{part}", nothing, 0, ""},
	{0},
};

static struct route_match got;
static char allow[64];

static int find(const char *method, const char *path)
{
	got = (struct route_match){0};
	allow[0] = '\0';
	return route_find(table, (struct h1_text){method, strlen(method)},
		(struct h1_text){path, strlen(path)}, &got, allow, sizeof(allow));
}

static void literals_are_found_before_parameters(void)
{
	CHECK_INT(find("GET", "/things"), 0);
	CHECK(got.route == &table[0]);
	CHECK_INT(find("GET", "/things/all"), 0);
	CHECK(got.route == &table[2]);
	CHECK_INT(find("GET", "/things/x"), 0);
	CHECK(got.route == &table[3]);
	CHECK_STR(got.params[0], "x");
}

static void parameters_are_decoded_one_segment_each(void)
{
	CHECK_INT(find("DELETE", "/things/a%2Fb%20c/parts/%C3%A4"), 0);
	CHECK_INT(got.params_n, 2);
	CHECK_STR(got.params[0], "a/b c");
	CHECK_STR(got.params[1], "\xc3\xa4");
	CHECK_INT(find("GET", "/things/%zz"), 400);
	CHECK_INT(find("GET", "/things/%00"), 400);
}

static void other_paths_are_not_found(void)
{
	static const char *const paths[] = {"/", "", "/thing", "/things/", "/things//",
		"/things/x/", "/things/x/parts", "/things/x/parts/", "/things/x/parts/y/z",
		"//things", "things", "/THINGS"};
	char path[300];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (!CHECK_INT(find("GET", paths[i]), 404))
			tap_print("# %s\n", paths[i]);
	(void)snprintf(path, sizeof(path), "/things/%0250d", 0);
	CHECK_INT(find("GET", path), 404); /* longer than any id of ours */
}

static void wrong_methods_name_the_right_ones(void)
{
	CHECK_INT(find("PUT", "/things"), 405);
	CHECK_STR(allow, "GET, POST");
	CHECK_INT(find("HEAD", "/things"), 0);
	CHECK_INT(find("get", "/things"), 405);
}

static bool split(const char *host, unsigned *port, char id[SANDBOX_ID_MAX])
{
	return api_host_split((struct h1_text){host, strlen(host)}, port, id);
}

static void a_host_names_a_port_and_a_sandbox(void)
{
	char id[SANDBOX_ID_MAX];
	unsigned port;

	CHECK(split("3000-iabc.example.com", &port, id) && port == 3000);
	CHECK_STR(id, "iabc");
	CHECK(split("49983-IABC.localhost", &port, id) && port == 49983);
	CHECK_STR(id, "iabc");
	CHECK(!split("example.com", &port, id));
	CHECK(!split("my-host.example.com", &port, id));
	CHECK(!split("0-iabc.example.com", &port, id));
	CHECK(!split("65536-iabc.example.com", &port, id));
	CHECK(!split("123456-iabc.example.com", &port, id));
	CHECK(!split("-iabc.example.com", &port, id));
	CHECK(!split("3000-.example.com", &port, id));
	CHECK(!split("3000-a-b.example.com", &port, id));
	CHECK(!split("3000-iabc", &port, id));
	CHECK(!split("3000-iaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.x", &port, id));
	CHECK(!split("", &port, id));
}

static void every_errno_has_a_status_and_a_word(void)
{
	CHECK_INT(api_status(ENOENT), 404);
	CHECK_INT(api_status(EINVAL), 400);
	CHECK_INT(api_status(EDQUOT), 429);
	CHECK_INT(api_status(ENOSPC), 507);
	CHECK_INT(api_status(EOPNOTSUPP), 501);
	CHECK_INT(api_status(ENOTCONN), 503);
	CHECK_INT(api_status(EXDEV), 500);
	CHECK_STR(api_code(ENOENT), "not_found");
	CHECK_STR(api_code(EXDEV), "internal");
}

static void times_are_rfc_3339(void)
{
	char out[32];

	CHECK_STR(api_time(0, out), "1970-01-01T00:00:00.000Z");
	CHECK_STR(api_time(1767225599001, out), "2025-12-31T23:59:59.001Z");
}

int main(void)
{
	RUN(literals_are_found_before_parameters);
	RUN(parameters_are_decoded_one_segment_each);
	RUN(other_paths_are_not_found);
	RUN(wrong_methods_name_the_right_ones);
	RUN(a_host_names_a_port_and_a_sandbox);
	RUN(every_errno_has_a_status_and_a_word);
	RUN(times_are_rfc_3339);
	return tap_done();
}
