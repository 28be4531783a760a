/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Heads on their way through egress. A path that was accepted has no dot segment left in any
 * reading, a request is for one host or for none, and what is written to the box is an answer that
 * our own strict parser takes, framed as was meant. Frames of a WebSocket are walked over, however
 * they are cut.
 */
#include "egress/intercept_impl.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct h1_head head, again;

static void check_path(struct h1_text path)
{
	char *plain = NULL, *second = NULL;

	if (heads_plain_path(path, &plain) < 0 || !plain)
		return;
	assert(strlen(plain) <= path.n);
	/* Undone once it may look escaped again, but never like a dot segment. */
	assert(heads_plain_path((struct h1_text){plain, strlen(plain)}, &second) == 0);
	free(second);
	free(plain);
}

static void check_request(const char *b, size_t n)
{
	struct heads_goal g, own = {.name = "site.test", .port = 443};
	struct heads_target t;
	const struct h1_field *host;

	if (h1_parse_request(b, n, &head) != 0)
		return;
	(void)heads_wants_json(&head);
	(void)heads_is_websocket(&head);
	host = h1_find(&head, "host");
	if (host && heads_is_for(host->value, &own))
		assert(heads_authority(host->value, &g) && strcmp(g.name, "site.test") == 0);
	if (!heads_target(&head, &t))
		return;
	assert(t.path.n <= t.origin.n);
	if (t.authority.n > 0 && heads_authority(t.authority, &g))
		assert((g.name[0] != '\0') != (g.addr.family != 0));
	check_path(t.path);
}

static void check_answer(const char *b, size_t n, bool is_old)
{
	AUTO_BUF struct buf out = {.cap = 4 * H1_HEAD_MAX};
	struct heads_client c = {.minor = !is_old, .closes = is_old};
	bool is_chunked = false;
	enum h1_framing want;

	if (h1_parse_response(b, n, (struct h1_text){"GET", 3}, &head) != 0 || head.status < 200)
		return;
	want = head.framing == H1_UNTIL_CLOSE && !is_old ? H1_CHUNKED : head.framing;
	if (head.framing == H1_CHUNKED && is_old)
		want = H1_UNTIL_CLOSE;
	if (heads_answer(&head, b, n, &c, &out, &is_chunked) < 0 || buf_len(&out) > H1_HEAD_MAX ||
		head.fields_n > H1_FIELDS_MAX - 4)
		return;
	assert(h1_parse_response(
		       buf_data(&out), buf_len(&out), (struct h1_text){"GET", 3}, &again) == 0);
	assert(again.status == head.status && again.framing == want);
	assert(is_chunked == (want == H1_CHUNKED));
	assert(want != H1_LENGTH || again.length == head.length);
	assert(!h1_find(&again, "keep-alive") && !h1_find(&again, "upgrade"));
}

static void check_frames(const char *b, size_t n, size_t step)
{
	struct ws_walk whole = {0}, parts = {0};
	struct vault_scan s1 = {0}, s2 = {0};
	bool hit = ws_scan(&whole, &s1, b, n), hit_parts = false;

	for (size_t i = 0; i < n && !hit_parts; i += step)
		hit_parts = ws_scan(&parts, &s2, b + i, n - i < step ? n - i : step);
	assert(hit == hit_parts);
	assert(hit || (whole.left == parts.left && whole.head_n == parts.head_n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *b;

	if (size < 1 || size > H1_HEAD_MAX)
		return 0;
	b = malloc(size); /* a copy of its own: reading past it is found */
	assert(b);
	memcpy(b, data + 1, size - 1);
	check_request(b, size - 1);
	check_answer(b, size - 1, data[0] & 1);
	check_frames(b, size - 1, (size_t)(data[0] >> 1) + 1);
	check_path((struct h1_text){b, size - 1});
	free(b);
	return 0;
}
