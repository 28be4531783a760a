/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finding placeholders where none may be: in streams of bytes and in names asked of the DNS stub.
 */
#include "egress/vault.h"

#include <ctype.h>
#include <string.h>

#define PREFIX_N (PLACEHOLDER_LEN - 40)

bool vault_scan_feed(struct vault_scan *s, const void *data, size_t n)
{
	static const char prefix[] = PLACEHOLDER_PREFIX;
	const unsigned char *p = data;
	size_t matched = s->matched;

	_Static_assert(sizeof(prefix) - 1 == PREFIX_N, "40 digits follow the prefix");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = p[i];

		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (matched == PREFIX_N && isxdigit(c))
			return true;
		/* Its first byte occurs nowhere else in it: no table of restarts is needed. */
		if (matched < PREFIX_N && c == (unsigned char)prefix[matched])
			matched++;
		else
			matched = c == (unsigned char)prefix[0];
	}
	s->matched = matched;
	return false;
}

/* Without what cuts a name into pieces. */
static size_t squeeze(const char *name, char out[POLICY_NAME_MAX + 1])
{
	size_t n = 0;

	for (; *name && n < POLICY_NAME_MAX; name++)
		if (isalnum((unsigned char)*name))
			out[n++] = (char)tolower((unsigned char)*name);
	out[n] = '\0';
	return n;
}

bool vault_scan_name(const char *dns_name)
{
	static const char *const coded[] = {
		"6261776e2d70682d", /* the prefix in hex */
		"mjqxo3rnobuc",     /* and in base32, as far as the next byte does not matter */
	};
	struct vault_scan plain = {0}, joined = {0};
	char letters[POLICY_NAME_MAX + 1];
	const char *at;

	if (vault_scan_feed(&plain, dns_name, strlen(dns_name)))
		return true;
	/* Dots taken away: "bawn-ph.-01.23…". */
	for (const char *p = dns_name; *p; p++)
		if (*p != '.' && vault_scan_feed(&joined, p, 1))
			return true;
	(void)squeeze(dns_name, letters);
	for (size_t i = 0; i < sizeof(coded) / sizeof(coded[0]); i++)
		if (strstr(letters, coded[i]))
			return true;
	/* Hyphens taken away too; enough digits that no word is mistaken for one. */
	for (at = letters; (at = strstr(at, "bawnph")); at++)
		if (strspn(at + 6, "0123456789abcdef") >= 16)
			return true;
	return false;
}
