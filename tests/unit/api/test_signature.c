/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/signature and the pure part of files: signed URLs, ranges.
 */
#include "api/e2b/files.h"
#include "api/e2b/signature.h"

#include "tap.h"

#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"

static bool claim(const char *query, struct signature_claim *ret)
{
	return signature_claim_get((struct h1_text){query, strlen(query)}, ret);
}

static void the_test_vector_of_the_sdk(void)
{
	struct signature_claim c;
	char text[SIGNATURE_TEXT];

	CHECK(claim("path=hello.txt&username=user", &c));
	CHECK(c.has_path && !c.has_signature && !c.has_expiration);
	signature_make(&c, "read", TOKEN, text);
	CHECK_STR(text, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

static void a_signature_is_for_one_path_user_and_operation(void)
{
	static const char good[] = "path=hello.txt&username=user&signature="
				   "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
	struct signature_claim c;

	CHECK(claim(good, &c) && signature_matches(&c, "read", TOKEN));
	CHECK(!signature_matches(&c, "write", TOKEN));
	CHECK(!signature_matches(&c, "read", "another"));
	CHECK(claim(good, &c));
	c.path[0] = 'H';
	CHECK(!signature_matches(&c, "read", TOKEN));
	CHECK(claim(good, &c));
	c.user[0] = '\0';
	CHECK(!signature_matches(&c, "read", TOKEN));
	CHECK(claim(good, &c));
	c.has_expiration = true; /* an expiration that was not signed */
	c.expires = 1;
	CHECK(!signature_matches(&c, "read", TOKEN));
	CHECK(claim("path=hello.txt&username=user&signature=v1_", &c));
	CHECK(!signature_matches(&c, "read", TOKEN));
}

static void expirations_are_numbers(void)
{
	struct signature_claim c;

	CHECK(claim("path=a&signature=x&signature_expiration=1700000000", &c));
	CHECK(c.has_expiration);
	CHECK_INT(c.expires, 1700000000);
	CHECK(!claim("path=a&signature_expiration=soon", &c));
	CHECK(!claim("path=a&signature_expiration=", &c));
	CHECK(!claim("path=a&signature_expiration=-1", &c));
	CHECK(!claim("path=a&signature_expiration=99999999999999999999", &c));
}

static void malformed_queries_are_refused(void)
{
	struct signature_claim c;

	CHECK(!claim("path=%zz", &c));
	CHECK(!claim("path=a%00b", &c));
	CHECK(claim("path=", &c) && c.has_path && c.path[0] == '\0');
	CHECK(claim("", &c) && !c.has_path);
}

static void tokens_are_compared_whole(void)
{
	CHECK(signature_token_is("abc", (struct h1_text){"abc", 3}));
	CHECK(!signature_token_is("abc", (struct h1_text){"ab", 2}));
	CHECK(!signature_token_is("abc", (struct h1_text){"abcd", 4}));
	CHECK(!signature_token_is("", (struct h1_text){"", 0})); /* no token is no key */
}

static bool range(const char *s, struct files_range *r)
{
	return files_range_get((struct h1_text){s, strlen(s)}, r);
}

static void one_range_or_none(void)
{
	struct files_range r;

	CHECK(range("bytes=0-0", &r) && r.from == 0 && r.to == 0 && !r.is_suffix);
	CHECK(range("bytes=5-", &r) && r.from == 5 && r.to == UINT64_MAX);
	CHECK(range("BYTES=-7", &r) && r.is_suffix && r.from == 7);
	CHECK(!range("bytes=", &r));
	CHECK(!range("bytes=-", &r));
	CHECK(!range("bytes=5-4", &r));
	CHECK(!range("bytes=1-2,4-5", &r));
	CHECK(!range("bytes=a-b", &r));
	CHECK(!range("lines=1-2", &r));
	CHECK(!range("bytes=99999999999999999999-", &r));
}

int main(void)
{
	RUN(the_test_vector_of_the_sdk);
	RUN(a_signature_is_for_one_path_user_and_operation);
	RUN(expirations_are_numbers);
	RUN(malformed_queries_are_refused);
	RUN(tokens_are_compared_whole);
	RUN(one_range_or_none);
	return tap_done();
}
