/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A value goes to its place and nowhere else. KEY is set, GONE is not; @KEY and @GONE in a request
 * stand for their placeholders, @OTHER for that of a secret no rule binds.
 */
#include "base/text.h"
#include "egress/vault.h"
#include "tap.h"

#include <openssl/evp.h>

#define OWNER "tenant"
#define VALUE "sk-real-\"0&1+"

static struct vault *vault;
static struct err err;
static char what[VAULT_WHAT_MAX];

static char n_key[] = "KEY", n_gone[] = "GONE", n_aws[] = "AWS";
static char f_auth[] = "Authorization", f_api[] = "X-Api-Key", f_bot[] = "bot", f_key[] = "key";
static char f_none[] = "", f_pointer[] = "/auth/0/t~1k", f_pin[] = "eu-west-1/sts";
static char t_bearer[] = "Bearer {}";

static struct policy_binding bearer = {.secret = n_key,
	.place = POLICY_HEADER,
	.field = f_auth,
	.format = t_bearer};
static struct policy_binding in_place = {.secret = n_key, .place = POLICY_HEADER, .field = f_auth};
static struct policy_binding api_key = {.secret = n_key, .place = POLICY_HEADER, .field = f_api};
static struct policy_binding gone = {.secret = n_gone, .place = POLICY_HEADER, .field = f_api};
static struct policy_binding basic = {.secret = n_key, .place = POLICY_BASIC, .field = f_bot};
static struct policy_binding basic_any = {.secret = n_key, .place = POLICY_BASIC, .field = f_none};
static struct policy_binding query = {.secret = n_key, .place = POLICY_QUERY, .field = f_key};
static struct policy_binding json = {.secret = n_key, .place = POLICY_JSON, .field = f_pointer};
static struct policy_binding aws = {.secret = n_aws, .place = POLICY_SIGV4, .field = f_none};
static struct policy_binding aws_pinned = {.secret = n_aws, .place = POLICY_SIGV4, .field = f_pin};

/* "@NAME" becomes that secret's placeholder. */
static char *expand(const char *s)
{
	static const char *const names[] = {"KEY", "GONE", "OTHER", "AWS"};
	char ph[PLACEHOLDER_LEN + 1];
	char *out = text_format("%s", s);

	for (size_t i = 0; i < 4; i++) {
		char mark[16], *at;

		(void)snprintf(mark, sizeof(mark), "@%s", names[i]);
		placeholder_make(OWNER, names[i], ph);
		while ((at = strstr(out, mark))) {
			char *next = text_format(
				"%.*s%s%s", (int)(at - out), out, ph, at + strlen(mark));

			free(out);
			out = next;
		}
	}
	return out;
}

static char *base64(const char *s)
{
	AUTO_FREE char *clear = expand(s);
	char *out = malloc(strlen(clear) * 2 + 8);

	(void)EVP_EncodeBlock(
		(unsigned char *)out, (const unsigned char *)clear, (int)strlen(clear));
	return out;
}

/* The head that goes out, or NULL; err and what say why. */
static char *send_with(struct policy_binding *b, size_t n, const char *request, const char *body)
{
	size_t indexes[4] = {0, 1, 2, 3};
	struct policy_rule rule = {.bindings = indexes, .bindings_n = n};
	struct policy p = {.bindings = b, .bindings_n = n, .rules = &rule, .rules_n = 1};
	AUTO_FREE char *text = expand(request);
	struct h1_head head;
	struct buf out = {0};
	char *ret = NULL;
	int r;

	err = (struct err){0};
	if (!CHECK_INT(h1_parse_request(text, strlen(text), &head), 0))
		return NULL;
	r = body ? vault_sign(vault, OWNER, &p, &rule, &head, "a.example", body, strlen(body), &out,
			   what, &err)
		 : vault_inject_head(vault, OWNER, &p, &rule, &head, "a.example", &out, what, &err);
	if (r == 0)
		ret = text_format("%.*s", (int)buf_len(&out), buf_data(&out));
	else
		CHECK(buf_len(&out) == 0 && !strstr(err.msg, "sk-real") && err.code == -r);
	buf_wipe(&out);
	return ret;
}

/* One request line and one field each. */
static void goes_out(struct policy_binding *b, const char *line, const char *field,
	const char *want_line, const char *want_field)
{
	AUTO_FREE char *request = text_format(
		"%s HTTP/1.1\r\nHost: a.example\r\n%s%s\r\n", line, field, *field ? "\r\n" : "");
	AUTO_FREE char *want = text_format("%s HTTP/1.1\r\nHost: a.example\r\n%s%s", want_line,
		want_field, *want_field ? "\r\n" : "");
	AUTO_FREE char *want_text = expand(want);
	AUTO_FREE char *got = send_with(b, b ? 1 : 0, request, NULL);

	CHECK_STR(got, want_text);
}

static void is_refused(
	struct policy_binding *b, const char *line, const char *field, int code, const char *where)
{
	AUTO_FREE char *request = text_format(
		"%s HTTP/1.1\r\nHost: a.example\r\n%s%s\r\n", line, field, *field ? "\r\n" : "");
	AUTO_FREE char *got = send_with(b, b ? 1 : 0, request, NULL);

	if (!CHECK(got == NULL))
		tap_print("# %s\n", got);
	CHECK_INT(err.code, code);
	CHECK_STR(what, where);
}

static void a_header_gets_the_value(void)
{
	goes_out(&bearer, "GET /", "authorization: Bearer @KEY", "GET /",
		"authorization: Bearer " VALUE);
	goes_out(&bearer, "GET /", "Authorization: @KEY", "GET /", "Authorization: Bearer " VALUE);
	goes_out(&bearer, "GET /", "", "GET /", "Authorization: Bearer " VALUE);
	goes_out(&in_place, "GET /", "Authorization: token @KEY; x", "GET /",
		"Authorization: token " VALUE "; x");
	goes_out(&in_place, "GET /", "", "GET /", "Authorization: " VALUE);
	goes_out(&api_key, "GET /", "x-api-key: @KEY", "GET /", "x-api-key: " VALUE);
}

static void a_credential_of_the_box_stays(void)
{
	goes_out(&bearer, "GET /", "Authorization: Bearer mine", "GET /",
		"Authorization: Bearer mine");
	goes_out(&basic, "GET /", "Authorization: Basic bWU6bWluZQ==", "GET /",
		"Authorization: Basic bWU6bWluZQ==");
	goes_out(&query, "GET /?key=mine", "", "GET /?key=mine", "");
}

static void basic_credentials_are_made_anew(void)
{
	AUTO_FREE char *want = base64("bot:" VALUE), *other = base64("me:" VALUE);
	AUTO_FREE char *alone = base64(":" VALUE);
	AUTO_FREE char *me = base64("me:@KEY"), *user = base64("@KEY:x-oauth-basic");
	AUTO_FREE char *sent_me = text_format("Authorization: Basic %s", me);
	AUTO_FREE char *sent_user = text_format("Authorization: basic  %s", user);
	AUTO_FREE char *bot = text_format("Authorization: Basic %s", want);
	AUTO_FREE char *as_me = text_format("Authorization: Basic %s", other);
	AUTO_FREE char *as_none = text_format("Authorization: Basic %s", alone);

	goes_out(&basic, "GET /", sent_me, "GET /", bot);
	goes_out(&basic, "GET /", sent_user, "GET /", bot);
	goes_out(&basic, "GET /", "Authorization: Bearer @KEY", "GET /", bot);
	goes_out(&basic, "GET /", "", "GET /", bot);
	goes_out(&basic_any, "GET /", sent_me, "GET /", as_me);
	goes_out(&basic_any, "GET /", sent_user, "GET /", as_none);
	goes_out(&in_place, "GET /", sent_me, "GET /", as_me);
	goes_out(&bearer, "GET /", sent_me, "GET /", "Authorization: Bearer " VALUE);
}

static void a_query_gets_the_value(void)
{
	static const char escaped[] = "sk-real-%220%261%2B";
	AUTO_FREE char *only = text_format("GET /x?key=%s", escaped);
	AUTO_FREE char *last = text_format("GET /x?a=b&key=%s", escaped);
	AUTO_FREE char *first = text_format("GET /x?k%%65y=%s&a", escaped);

	goes_out(&query, "GET /x?key=@KEY", "", only, "");
	goes_out(&query, "GET /x", "", only, "");
	goes_out(&query, "GET /x?a=b", "", last, "");
	goes_out(&query, "GET /x?k%65y=@KEY&a", "", first, "");
	goes_out(NULL, "GET /x?", "", "GET /x?", "");
	goes_out(NULL, "GET /x?a&&b=&", "", "GET /x?a&&b=&", "");
}

static void the_request_line_is_in_origin_form(void)
{
	goes_out(NULL, "GET http://a.example/x?y=z", "", "GET /x?y=z", "");
	goes_out(NULL, "GET http://a.example", "", "GET /", "");
	goes_out(NULL, "GET http://a.example?x=/", "", "GET /?x=/", "");
	goes_out(NULL, "OPTIONS *", "", "OPTIONS *", "");
}

static void a_placeholder_elsewhere_stops_it(void)
{
	AUTO_FREE char *coded = base64("me:@KEY");
	AUTO_FREE char *in_basic = text_format("Authorization: Basic %s", coded);
	AUTO_FREE char *in_other = text_format("X-Other: Basic %s", coded);

	is_refused(NULL, "GET /", "Authorization: Bearer @KEY", EPERM, "header Authorization");
	is_refused(NULL, "GET /", in_basic, EPERM, "header Authorization");
	is_refused(&bearer, "GET /", in_other, EPERM, "header X-Other");
	is_refused(&bearer, "GET /", "Cookie: a=@KEY", EPERM, "header Cookie");
	is_refused(&bearer, "GET /", "@KEY: x", EPERM, "name of a header");
	is_refused(&bearer, "GET /@KEY", "", EPERM, "path");
	is_refused(&bearer, "GET /%62awn-ph-00", "", EPERM, "path");
	is_refused(&bearer, "GET /%2562awn-ph-00", "", EPERM, "path");
	is_refused(&bearer, "GET /BAWN-PH-00", "", EPERM, "path");
	is_refused(&bearer, "GET /?x=@KEY", "", EPERM, "query");
	is_refused(&bearer, "GET /?key=@KEY", "", EPERM, "query");
	is_refused(&query, "GET /?other=@KEY", "", EPERM, "query");
	is_refused(&query, "GET /?@KEY=@KEY", "", EPERM, "query");
	is_refused(&query, "GET /?key=@KEY&key=@KEY", "", EPERM, "query");
	is_refused(&query, "GET /", "key: @KEY", EPERM, "header key");
	is_refused(&bearer, "GET /", "Authorization: Bearer @OTHER", EPERM, "header Authorization");
	is_refused(&query, "GET /?key=@OTHER", "", EPERM, "query");
	is_refused(&bearer, "bawn-ph-0 /", "", EPERM, "method");
	is_refused(
		&bearer, "GET /", "Proxy-Authorization: @KEY", EPERM, "fields of the connection");
	is_refused(&in_place, "GET /", "Authorization: @KEY @KEY", EPERM, "same header twice");
	is_refused(&in_place, "GET /", "Authorization: @KEY @OTHER", EPERM, "same header twice");
	is_refused(&bearer, "GET /", "Authorization: @KEY\r\nAuthorization: @KEY", EPERM,
		"same header twice");
}

static void a_revoked_secret_is_told(void)
{
	is_refused(&gone, "GET /", "X-Api-Key: @GONE", ENOKEY, "secret GONE");
	CHECK(strstr(err.msg, "revoked"));
	/* Nobody used it: the request goes on without. */
	goes_out(&gone, "GET /", "", "GET /", "");
	goes_out(&gone, "GET /", "X-Api-Key: mine", "GET /", "X-Api-Key: mine");
}

static void the_placeholder_chooses_among_bindings(void)
{
	struct policy_binding both[] = {gone, api_key};
	AUTO_FREE char *got =
		send_with(both, 2, "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: @KEY\r\n\r\n", NULL);
	AUTO_FREE char *absent = send_with(both, 2, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
	AUTO_FREE char *missing =
		send_with(both, 2, "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: @GONE\r\n\r\n", NULL);

	CHECK_STR(got, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: " VALUE "\r\n");
	CHECK_STR(absent, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: " VALUE "\r\n");
	CHECK(!missing);
}

static void framing_stays_here(void)
{
	AUTO_FREE char *got = send_with(&bearer, 1,
		"POST /x HTTP/1.1\r\nHost: a.example:443\r\nContent-Length: 3\r\nAccept: */*\r\n"
		"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n"
		"Expect: 100-continue\r\nProxy-Connection: x\r\nAuthorization: mine\r\n\r\n",
		NULL);

	CHECK_STR(got, "POST /x HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n"
		       "Authorization: mine\r\n");
}

/* ---- JSON ---- */

static char *body_with(struct policy_binding *b, const char *body)
{
	size_t index = 0;
	struct policy_rule rule = {.bindings = &index, .bindings_n = 1};
	struct policy p = {.bindings = b, .bindings_n = 1, .rules = &rule, .rules_n = 1};
	AUTO_FREE char *text = expand(body);
	struct buf out = {0};
	char *ret = NULL;
	int r;

	err = (struct err){0};
	r = vault_inject_body(vault, OWNER, &p, &rule, text, strlen(text), &out, what, &err);
	if (r == 0)
		ret = text_format("%.*s", (int)buf_len(&out), buf_data(&out));
	else
		CHECK(buf_len(&out) == 0);
	buf_wipe(&out);
	return ret;
}

static void becomes(const char *body, const char *want)
{
	AUTO_FREE char *got = body_with(&json, body);

	CHECK_STR(got, want);
}

static void body_is_refused(struct policy_binding *b, const char *body)
{
	AUTO_FREE char *got = body_with(b, body);

	CHECK(!got);
	CHECK_INT(err.code, EPERM);
	CHECK_STR(what, "body");
}

static void a_json_field_gets_the_value(void)
{
	becomes("{\"z\":1, \"auth\":[{\"t/k\":\"@KEY\"}], \"a\":1.5}",
		"{\"z\":1,\"auth\":[{\"t/k\":\"sk-real-\\\"0&1+\"}],\"a\":1.5}");
	becomes("{\"auth\":[{}]}", "{\"auth\":[{\"t/k\":\"sk-real-\\\"0&1+\"}]}");
	/* Nothing to do: to the byte as it came. */
	becomes("{\"auth\":[{\"t/k\":\"mine\"}],  \"n\":1.10}",
		"{\"auth\":[{\"t/k\":\"mine\"}],  \"n\":1.10}");
	becomes("{\"auth\": {}}", "{\"auth\": {}}");
	becomes("[1,2]", "[1,2]");
	becomes("not json", "not json");
	becomes("", "");
}

static void a_placeholder_elsewhere_in_json_stops_it(void)
{
	body_is_refused(&json, "{\"auth\":[{\"t/k\":\"@KEY\"}],\"x\":\"@KEY\"}");
	body_is_refused(&json, "{\"auth\":[{\"t/k\":\"@KEY\"}],\"@KEY\":1}");
	body_is_refused(&json, "{\"auth\":[{\"t/k\":\"@OTHER\"}]}");
	body_is_refused(&json, "{\"x\":\"\\u0062awn-ph-0\"}");
	body_is_refused(&json, "{\"x\":\"@KEY\"");
	body_is_refused(&bearer, "key=@KEY");
}

static void bodies_are_wanted_only_where_they_count(void)
{
	static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
	static const char hashed[] = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
				     "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\r\n";
	static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct policy_binding all[] = {json, aws, bearer};
	size_t index = 0;
	struct policy_rule rule = {.bindings = &index, .bindings_n = 1};
	struct policy p = {.bindings = all, .bindings_n = 3};
	struct h1_head head;

	CHECK_INT(h1_parse_request(post, strlen(post), &head), 0);
	CHECK(vault_wants_body(&p, &rule, &head));
	index = 1;
	CHECK(vault_wants_body(&p, &rule, &head));
	index = 2;
	CHECK(!vault_wants_body(&p, &rule, &head));
	CHECK_INT(h1_parse_request(hashed, strlen(hashed), &head), 0);
	index = 1;
	CHECK(!vault_wants_body(&p, &rule, &head));
	CHECK_INT(h1_parse_request(get, strlen(get), &head), 0);
	index = 0;
	CHECK(!vault_wants_body(&p, &rule, &head));
}

/* ---- SigV4 ---- */

#define SIGNED(scope, names)                                                                       \
	"Authorization: AWS4-HMAC-SHA256 Credential=@AWS/20150830/" scope                          \
	"/aws4_request, SignedHeaders=" names ", Signature=00\r\n"

static void a_signature_is_made_anew(void)
{
	AUTO_FREE char *got = send_with(&aws, 1,
		"GET /?Param2=value2&Param1=value1 HTTP/1.1\r\nHost: a.example\r\n"
		"X-Amz-Date: 20150830T123600Z\r\nUser-Agent: sdk\r\n" SIGNED(
			"us-east-1/service", "host;x-amz-date") "\r\n",
		NULL);

	/* Computed apart from this code, with the key AKIDEXAMPLE of AWS's suite. */
	CHECK_STR(got,
		"GET /?Param2=value2&Param1=value1 HTTP/1.1\r\nHost: a.example\r\n"
		"X-Amz-Date: 20150830T123600Z\r\nUser-Agent: sdk\r\n"
		"X-Amz-Security-Token: to:ken\r\n"
		"Authorization: AWS4-HMAC-SHA256 "
		"Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
		"SignedHeaders=host;x-amz-date;x-amz-security-token, "
		"Signature=8baa43ae749e8493070c1f068149bc68c993080a8470a9d19e49e6045fe9209d\r\n");
}

static void a_body_is_hashed_and_the_region_pinned(void)
{
	AUTO_FREE char *got = send_with(&aws_pinned, 1,
		"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 13\r\n"
		"Content-Type: application/x-www-form-urlencoded\r\n"
		"X-Amz-Security-Token: @AWS\r\nX-Amz-Date: 20150830T123600Z\r\n" SIGNED(
			"us-east-1/service", "content-length;content-type;host;x-amz-date") "\r\n",
		"Param1=value1");

	CHECK_STR(got,
		"POST / HTTP/1.1\r\nHost: a.example\r\n"
		"Content-Type: application/x-www-form-urlencoded\r\n"
		"X-Amz-Date: 20150830T123600Z\r\nX-Amz-Security-Token: to:ken\r\n"
		"Authorization: AWS4-HMAC-SHA256 "
		"Credential=AKIDEXAMPLE/20150830/eu-west-1/sts/aws4_request, "
		"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
		"Signature=33dff430e3c2ae8827a109da34827527908018ebd3712a3f17680a1ab3d6692c\r\n");
}

static void what_cannot_be_signed_again_says_why(void)
{
	static const char *const hostile[] = {
		"Authorization: AWS4-ECDSA-P256-SHA256 "
		"Credential=@AWS/20150830/s3/aws4_request\r\n",
		"Authorization: AWS4-HMAC-SHA256 Credential=@AWS\r\n",
		"Authorization: AWS4-HMAC-SHA256 Credential=@AWS/1/us east/s3/x\r\n",
		"Authorization: AWS4-HMAC-SHA256 Credential=@AWS/1//s3/x\r\n",
		"Authorization: AWS4-HMAC-SHA256 Credential=@AWS/1/r/@AWS/aws4_request\r\n",
		"Authorization: Bearer @AWS\r\n",
		"X-Amz-Date: 2015\r\n" SIGNED("us-east-1/s3", "host"),
		"X-Amz-Date: 20150830T123600Z\r\nX-Amz-Date: 20150830T123600Z\r\n" SIGNED(
			"us-east-1/s3", "host"),
		"x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n" SIGNED(
			"us-east-1/s3", "host"),
	};

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		AUTO_FREE char *request =
			text_format("PUT / HTTP/1.1\r\nHost: a\r\n%s\r\n", hostile[i]);
		AUTO_FREE char *got = send_with(&aws, 1, request, NULL);

		CHECK(!got);
		CHECK_INT(err.code, EOPNOTSUPP);
		CHECK(!strstr(err.msg, "wJalr"));
	}
}

static void a_request_without_signature_gets_one_if_pinned(void)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
	AUTO_FREE char *pinned = send_with(&aws_pinned, 1, get, NULL);
	AUTO_FREE char *open = send_with(&aws, 1, get, NULL);

	CHECK(pinned && strstr(pinned, "\r\nX-Amz-Date: 2") &&
		strstr(pinned, "/eu-west-1/sts/aws4_request, "
			       "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="));
	CHECK_STR(open, "GET / HTTP/1.1\r\nHost: a.example\r\n");
}

static void presigned_urls_are_refused(void)
{
	is_refused(&aws, "GET /?X-Amz-Credential=@AWS%2F20150830&X-Amz-Signature=0", "", EPERM,
		"query");
}

int main(void)
{
	static const char pair[] = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY:to:ken";

	if (vault_create(&vault, &err) < 0 ||
		vault_set(vault, OWNER, "KEY", VALUE, strlen(VALUE), &err) < 0 ||
		vault_set(vault, OWNER, "AWS", pair, strlen(pair), &err) < 0)
		return 1;
	RUN(a_header_gets_the_value);
	RUN(a_credential_of_the_box_stays);
	RUN(basic_credentials_are_made_anew);
	RUN(a_query_gets_the_value);
	RUN(the_request_line_is_in_origin_form);
	RUN(a_placeholder_elsewhere_stops_it);
	RUN(a_revoked_secret_is_told);
	RUN(the_placeholder_chooses_among_bindings);
	RUN(framing_stays_here);
	RUN(a_json_field_gets_the_value);
	RUN(a_placeholder_elsewhere_in_json_stops_it);
	RUN(bodies_are_wanted_only_where_they_count);
	RUN(a_signature_is_made_anew);
	RUN(a_body_is_hashed_and_the_region_pinned);
	RUN(what_cannot_be_signed_again_says_why);
	RUN(a_request_without_signature_gets_one_if_pinned);
	RUN(presigned_urls_are_refused);
	vault = vault_free(vault);
	return tap_done();
}
