/* SPDX-License-Identifier: Apache-2.0 */

/* core/road_env. Pure; any user. */
#include "core/road_env.h"

#include "sys/road.h"
#include "tap.h"

static struct err err;

static void proxies_name_the_road(void)
{
	AUTO_FREE char *want = text_format("HTTPS_PROXY=http://127.0.0.1:%d", ROAD_PORT);
	struct strv env = {0};

	CHECK_INT(road_env(false, &env, &err), 0);
	CHECK(strv_has(&env, want));
	CHECK(strv_has(&env, "no_proxy=localhost,127.0.0.1,::1"));
	for (size_t i = 0; i < env.n; i++)
		CHECK(strstr(env.v[i], ROAD_CA_DIR) == NULL);
	strv_done(&env);
}

static void certificates_are_named_where_there_are_some(void)
{
	struct strv env = {0};

	CHECK_INT(strv_add(&env, "HOME=/x", &err), 0);
	CHECK_INT(road_env(true, &env, &err), 0);
	CHECK_STR(env.v[0], "HOME=/x");
	CHECK(strv_has(&env, "SSL_CERT_FILE=/run/bawn-ca/bundle.pem"));
	CHECK(strv_has(&env, "NODE_EXTRA_CA_CERTS=/run/bawn-ca/bundle.pem"));
	strv_done(&env);
}

int main(void)
{
	RUN(proxies_name_the_road);
	RUN(certificates_are_named_where_there_are_some);
	return tap_done();
}
