/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The signatures AWS published: its test suite for signature version 4, and the examples in the
 * documentation of S3 and IAM.
 */
#include "egress/sigv4.h"

#include "tap.h"

#include <stdlib.h>

#define SUITE_KEY "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_KEY    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EMPTY     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct vector {
	const char *method, *path, *query;
	const char *fields[14]; /* name, value, … */
	const char *payload;
	const char *names, *signature;
};

static struct h1_text text(const char *s)
{
	return (struct h1_text){s, strlen(s)};
}

static void sign(const struct vector *v, const char *id, const char *key, const char *date,
	const char *region, const char *service, char out[1024])
{
	struct h1_field fields[6];
	struct sigv4_request q = {.method = text(v->method),
		.path = text(v->path),
		.query = text(v->query),
		.fields = fields,
		.payload = v->payload,
		.date = date,
		.region = region,
		.service = service};
	struct sigv4_key k = {text(id), text(key)};
	struct err err = {0};
	AUTO_BUF struct buf b = {0};

	for (size_t i = 0; v->fields[i]; i += 2)
		fields[q.fields_n++] =
			(struct h1_field){text(v->fields[i]), text(v->fields[i + 1])};
	CHECK_INT(sigv4_sign(&q, &k, &b, &err), 0);
	(void)snprintf(out, 1024, "%.*s", (int)buf_len(&b), buf_data(&b));
}

static void suite(const struct vector *v)
{
	char got[1024], want[1024];

	sign(v, "AKIDEXAMPLE", SUITE_KEY, "20150830T123600Z", "us-east-1", "service", got);
	(void)snprintf(want, sizeof(want),
		"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
		"SignedHeaders=%s, Signature=%s",
		v->names, v->signature);
	CHECK_STR(got, want);
}

#define HOST "Host", "example.amazonaws.com"
#define DATE "X-Amz-Date", "20150830T123600Z"

static void the_suite_of_aws_agrees(void)
{
	static const char token[] =
		"AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeM"
		"icRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZa"
		"mpKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr"
		"7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR"
		"/oLxBA==";
	const struct vector all[] = {
		{"GET", "/", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"GET", "/", "Param2=value2&Param1=value1", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"GET", "//example//", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
		{"GET", "/./", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"GET", "/example/..", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"GET", "/example1/example2/../..", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"GET", "/\xe1\x88\xb4", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		{"GET", "/example space/", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
		{"GET", "/", "",
			{HOST, "My-Header1", "value4", "My-Header1", "value1", "My-Header1",
				"value3", "My-Header1", "value2", DATE},
			EMPTY, "host;my-header1;x-amz-date",
			"08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
		{"GET", "/", "",
			{HOST, "My-Header1", "value1", "My-Header2", "\"a   b   c\"", DATE}, EMPTY,
			"host;my-header1;my-header2;x-amz-date",
			"acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		{"POST", "/", "", {HOST, DATE}, EMPTY, "host;x-amz-date",
			"5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"POST", "/", "", {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE},
			"9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
			"content-type;host;x-amz-date",
			"ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
		{"POST", "/", "", {HOST, "My-Header1", "value1", DATE}, EMPTY,
			"host;my-header1;x-amz-date",
			"c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		{"POST", "/", "", {HOST, DATE, "X-Amz-Security-Token", token}, EMPTY,
			"host;x-amz-date;x-amz-security-token",
			"85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		suite(&all[i]);
}

static void check_end(const struct vector *v, const char *service, const char *date, const char *id,
	const char *key)
{
	char got[1024], want[200];

	sign(v, id, key, date, "us-east-1", service, got);
	(void)snprintf(
		want, sizeof(want), "SignedHeaders=%s, Signature=%s", v->names, v->signature);
	if (!CHECK(strstr(got, want)))
		tap_print("# %s, expected %s\n", got, want);
}

#define S3_HOST "Host", "examplebucket.s3.amazonaws.com"
#define S3_DATE "x-amz-date", "20130524T000000Z"
#define S3_HASH "x-amz-content-sha256"

static void the_examples_of_s3_agree(void)
{
	static const char put[] =
		"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	const struct vector all[] = {
		{"GET", "/test.txt", "", {S3_HOST, "Range", "bytes=0-9", S3_HASH, EMPTY, S3_DATE},
			EMPTY, "host;range;x-amz-content-sha256;x-amz-date",
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test$file.text", "",
			{S3_HOST, "Date", "Fri, 24 May 2013 00:00:00 GMT", S3_DATE,
				"x-amz-storage-class", "REDUCED_REDUNDANCY", S3_HASH, put},
			put, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/", "lifecycle", {S3_HOST, S3_DATE, S3_HASH, EMPTY}, EMPTY,
			"host;x-amz-content-sha256;x-amz-date",
			"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/", "max-keys=2&prefix=J", {S3_HOST, S3_DATE, S3_HASH, EMPTY}, EMPTY,
			"host;x-amz-content-sha256;x-amz-date",
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		check_end(&all[i], "s3", "20130524T000000Z", "AKIAIOSFODNN7EXAMPLE", S3_KEY);
}

static void the_example_of_iam_agrees(void)
{
	const struct vector v = {"GET", "/", "Action=ListUsers&Version=2010-05-08",
		{"content-type", "application/x-www-form-urlencoded; charset=utf-8", "host",
			"iam.amazonaws.com", "x-amz-date", "20150830T123600Z"},
		EMPTY, "content-type;host;x-amz-date",
		"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"};

	check_end(&v, "iam", "20150830T123600Z", "AKIDEXAMPLE", SUITE_KEY);
}

/* However a client escapes a key or a parameter, S3 sees the same one. */
static void escapes_are_written_one_way(void)
{
	const struct vector a = {
		"GET", "/a(b)%7e%2f", "x=%2a&b=a%20b", {S3_HOST, S3_DATE}, EMPTY, "", ""};
	const struct vector b = {
		"GET", "/a%28b%29~/", "b=a+b&x=*", {S3_HOST, S3_DATE}, EMPTY, "", ""};
	char one[1024], two[1024];

	sign(&a, "ID", S3_KEY, "20130524T000000Z", "us-east-1", "s3", one);
	sign(&b, "ID", S3_KEY, "20130524T000000Z", "us-east-1", "s3", two);
	CHECK_STR(one, two);
}

static void too_many_parameters_are_refused(void)
{
	char query[2 * SIGV4_QUERY_MAX + 8];
	struct sigv4_request q = {.method = text("GET"),
		.path = text("/"),
		.payload = EMPTY,
		.date = "20130524T000000Z",
		.region = "r",
		.service = "s"};
	struct sigv4_key k = {text("ID"), text("KEY")};
	struct err err = {0};
	AUTO_BUF struct buf b = {0};
	size_t n = 0;

	while (n + 2 < sizeof(query)) {
		query[n++] = 'a';
		query[n++] = '&';
	}
	q.query = (struct h1_text){query, n};
	CHECK_INT(sigv4_sign(&q, &k, &b, &err), -E2BIG);
	CHECK_INT(buf_len(&b), 0);
}

int main(void)
{
	RUN(the_suite_of_aws_agrees);
	RUN(the_examples_of_s3_agree);
	RUN(the_example_of_iam_agrees);
	RUN(escapes_are_written_one_way);
	RUN(too_many_parameters_are_refused);
	return tap_done();
}
