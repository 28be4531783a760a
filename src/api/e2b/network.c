/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/network.h"

#include "api/e2b/call.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>

#define RULES_MAX 1024 /* entries of each list */

bool network_is_address(const char *s)
{
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	unsigned char raw[16];
	char text[64];
	uint64_t bits;
	struct err err = {0};
	bool is_six;

	if (n == 0 || n >= sizeof(text))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	is_six = strchr(text, ':') != NULL;
	if (inet_pton(is_six ? AF_INET6 : AF_INET, text, raw) != 1)
		return false;
	return !slash ||
	       text_parse_u64(slash + 1, "prefix", 0, is_six ? 128 : 32, &bits, &err) == 0;
}

/* A name or "*.name" of an allow rule, or "*". */
static bool is_domain(const char *s)
{
	size_t n = strlen(s);

	if (strcmp(s, "*") == 0)
		return true;
	if (text_starts(s, "*."))
		s += 2, n -= 2;
	return n > 0 && n <= 253 && s[0] != '.' && s[0] != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == n;
}

static int check_list(json_t *network, const char *name, bool may_name, struct err *err)
{
	json_t *list = NULL, *entry;
	char quoted[80];
	size_t i;
	int r = field_strings(network, name, &list, err);

	if (r <= 0)
		return r;
	if (json_array_size(list) > RULES_MAX)
		return err_set(err, EINVAL, "network.%s: more than %d entries", name, RULES_MAX);
	json_array_foreach(list, i, entry)
	{
		const char *s = json_string_value(entry);

		if (network_is_address(s) || (may_name && is_domain(s)))
			continue;
		return err_set(err, EINVAL, "network.%s: '%s' is not %s", name,
			text_quote(s, quoted, sizeof(quoted)),
			may_name ? "an address, a CIDR block or a domain"
				 : "an address or a CIDR block; domains cannot be denied");
	}
	return 0;
}

static int check_rules(json_t *network, struct err *err)
{
	json_t *rules = NULL, *list;
	const char *domain;
	int r = field_object(network, "rules", &rules, err);

	if (r <= 0)
		return r;
	if (json_object_size(rules) > RULES_MAX)
		return err_set(err, EINVAL, "network.rules: more than %d entries", RULES_MAX);
	json_object_foreach(rules, domain,
		list) if (!is_domain(domain) || !json_is_array(list)) return err_set(err, EINVAL,
		"network.rules must be an object of domains, each with an array");
	return 0;
}

static int check_proxy(json_t *network, struct err *err)
{
	json_t *proxy = NULL;
	const char *s = NULL;
	int r = field_object(network, "egressProxy", &proxy, err);

	if (r <= 0)
		return r;
	r = field_string(proxy, "address", &s, err);
	if (r < 0)
		return r;
	if (!s || !strchr(s, ':'))
		return err_set(err, EINVAL, "network.egressProxy.address must be host:port");
	r = field_string(proxy, "username", &s, err);
	if (r >= 0)
		r = field_string(proxy, "password", &s, err);
	return r < 0 ? r : 0;
}

static int check_ports(json_t *network, struct err *err)
{
	json_t *ports = json_object_get(network, "httpsPorts"), *entry;
	size_t i;

	if (!ports || json_is_null(ports))
		return 0;
	if (!json_is_array(ports))
		return err_set(err, EINVAL, "network.httpsPorts must be an array of ports");
	json_array_foreach(
		ports, i, entry) if (!json_is_integer(entry) || json_integer_value(entry) < 1 ||
				     json_integer_value(entry) > 65535) return err_set(err, EINVAL,
		"network.httpsPorts must be an array of ports");
	return 0;
}

int network_check(json_t *network, struct err *err)
{
	const char *s = NULL;
	bool b = false;
	int r = check_list(network, "allowOut", true, err);

	if (r >= 0)
		r = check_list(network, "denyOut", false, err);
	if (r >= 0)
		r = field_bool(network, "allowPublicTraffic", &b, err);
	if (r >= 0)
		r = field_bool(network, "allow_internet_access", &b, err);
	if (r >= 0)
		r = field_string(network, "maskRequestHost", &s, err);
	if (r >= 0)
		r = check_rules(network, err);
	if (r >= 0)
		r = check_proxy(network, err);
	if (r >= 0)
		r = check_ports(network, err);
	return r < 0 ? r : 0;
}
