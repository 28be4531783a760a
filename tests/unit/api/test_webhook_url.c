/* SPDX-License-Identifier: Apache-2.0 */

#include "api/v1/webhooks.h"
#include "tap.h"

static void good_urls_are_taken_apart(void)
{
	struct webhook_url u;
	struct err err = {0};

	CHECK_INT(webhook_url_parse("https://203.0.113.9/hooks?a=b", &u, &err), 0);
	CHECK(u.is_https && u.port == 443);
	CHECK_STR(u.host, "203.0.113.9");
	CHECK_STR(u.path, "/hooks?a=b");
	CHECK_INT(webhook_url_parse("http://[2606:4700::1]:8080", &u, &err), 0);
	CHECK(!u.is_https && u.port == 8080);
	CHECK_STR(u.host, "2606:4700::1");
	CHECK_STR(u.path, "/");
	CHECK_INT(webhook_url_parse("http://1.2.3.4?x", &u, &err), 0);
	CHECK_STR(u.path, "/?x");
	CHECK_INT(u.address.ss_family, AF_INET);
	CHECK_INT(webhook_url_parse("https://hooks.example:8443/x", &u, &err), 0);
	CHECK_STR(u.host, "hooks.example");
	CHECK(u.port == 8443 && u.address.ss_family == 0);
}

static void bad_urls_are_refused(void)
{
	static const char *const bad[] = {"", "ftp://1.2.3.4/", "http://", "http:///x",
		"http://name..example/", "http://-/", "http://a_b.example/", "http://1.2.3/",
		"http://0x7f.1/", "http://2130706433/", "http://1.2.3.4:0/",
		"http://1.2.3.4:65536/", "http://1.2.3.4:/", "http://1.2.3.4:8x/",
		"http://user@1.2.3.4/", "http://1.2.3.4/a b", "http://1.2.3.4/\r\nX: y",
		"http://1.2.3.4/#f", "http://[::1", "http://[1.2.3.4]/", "http://::1/",
		"http://1.2.3.4/\xc3\xa4", "http://[fe80::1%25eth0]/"};
	struct webhook_url u;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {0};

		if (!CHECK(webhook_url_parse(bad[i], &u, &err) == -EINVAL))
			tap_print("# '%s'\n", bad[i]);
	}
}

static bool is_private(const char *host)
{
	char text[100];
	struct webhook_url u;
	struct err err = {0};

	(void)snprintf(text, sizeof(text), strchr(host, ':') ? "http://[%s]/" : "http://%s/", host);
	CHECK_INT(webhook_url_parse(text, &u, &err), 0);
	return webhook_is_private((const struct sockaddr *)&u.address);
}

static void addresses_of_the_machine_and_its_network_are_private(void)
{
	static const char *const hidden[] = {"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3",
		"10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.168.0.1", "192.0.0.8", "198.18.0.1",
		"198.19.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "fc00::1",
		"fd12::1", "fe80::1", "ff02::1",
		"2002:7f00:1::", "2002:a00:1::", "2001:0:1::", "2001:db8::1", "100::1"};
	static const char *const open[] = {"8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.1",
		"100.63.255.255", "100.128.0.1", "169.253.1.1", "172.15.0.1", "172.32.0.1",
		"192.167.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.1", "2606:4700::1",
		"2a00:1450::1", "2002:808:808::"};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (!CHECK(is_private(hidden[i])))
			tap_print("# %s\n", hidden[i]);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (!CHECK(!is_private(open[i])))
			tap_print("# %s\n", open[i]);
}

static void actions_match_by_glob(void)
{
	CHECK(webhook_matches("*", "sandbox.create"));
	CHECK(webhook_matches("exec.end,sandbox.*", "sandbox.create"));
	CHECK(webhook_matches("exec.end", "exec.end"));
	CHECK(!webhook_matches("exec.end", "exec.ending"));
	CHECK(!webhook_matches("exec.*", "sandbox.create"));
	CHECK(!webhook_matches("", "x"));
}

/* Known answer: `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret`. */
static void the_signature_is_hmac_sha_256(void)
{
	char mac[65];

	webhook_sign("secret", 1700000000, "{}", mac);
	CHECK_STR(mac, "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163");
}

int main(void)
{
	RUN(good_urls_are_taken_apart);
	RUN(bad_urls_are_refused);
	RUN(addresses_of_the_machine_and_its_network_are_private);
	RUN(actions_match_by_glob);
	RUN(the_signature_is_hmac_sha_256);
	return tap_done();
}
