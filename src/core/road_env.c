/* SPDX-License-Identifier: Apache-2.0 */

#include "core/road_env.h"

/* ROAD_PORT of sys/road.h, as text. */
#define PROXY "http://127.0.0.1:979"
#define OWN   "localhost,127.0.0.1,::1"

#define BUNDLE ROAD_CA_DIR "/bundle.pem"

/* Some programs read only the one or only the other. */
static const char *const proxies[] = {
	"HTTP_PROXY=" PROXY,
	"HTTPS_PROXY=" PROXY,
	"ALL_PROXY=" PROXY,
	"NO_PROXY=" OWN,
	"http_proxy=" PROXY,
	"https_proxy=" PROXY,
	"all_proxy=" PROXY,
	"no_proxy=" OWN,
};

static const char *const certificates[] = {
	"SSL_CERT_FILE=" BUNDLE, /* OpenSSL, Go, Python's ssl and httpx */
	"CURL_CA_BUNDLE=" BUNDLE,
	"REQUESTS_CA_BUNDLE=" BUNDLE,
	"PIP_CERT=" BUNDLE,
	"GIT_SSL_CAINFO=" BUNDLE,
	"AWS_CA_BUNDLE=" BUNDLE,
	"CARGO_HTTP_CAINFO=" BUNDLE,
	"npm_config_cafile=" BUNDLE,
	/* Beside the roots that are built in, which know nothing of the machine's own. */
	"NODE_EXTRA_CA_CERTS=" BUNDLE,
	"DENO_CERT=" BUNDLE,
	"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" ROAD_CA_DIR
	"/cacerts.jks -Djavax.net.ssl.trustStorePassword=changeit",
};

int road_env(bool has_ca, struct strv *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(proxies) / sizeof(proxies[0]); i++)
		r = strv_add(ret, proxies[i], err);
	for (size_t i = 0; has_ca && r >= 0 && i < sizeof(certificates) / sizeof(certificates[0]);
		i++)
		r = strv_add(ret, certificates[i], err);
	return r;
}
