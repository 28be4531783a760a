/* SPDX-License-Identifier: Apache-2.0 */

/*
 * After a 101: bytes both ways. What the box sends is masked (RFC 6455 5.3), so frames are walked over and
 * unmasked to look for placeholders; nothing is changed and nothing is held back.
 */
#include "egress/intercept_impl.h"

#define CHUNK 4096

/* How long the frame's head is, once its first two bytes are known. */
static unsigned head_size(const uint8_t *h)
{
	unsigned n = 2, len = h[1] & 0x7f;

	n += len == 126 ? 2 : len == 127 ? 8 : 0;
	return n + (h[1] & 0x80 ? 4 : 0);
}

static void head_whole(struct ws_walk *w)
{
	unsigned len = w->head[1] & 0x7f, bytes = len == 126 ? 2 : len == 127 ? 8 : 0;

	w->left = bytes == 0 ? len : 0;
	for (unsigned i = 0; i < bytes; i++)
		w->left = w->left << 8 | w->head[2 + i];
	for (unsigned i = 0; i < 4; i++)
		w->mask[i] = w->head[1] & 0x80 ? w->head[2 + bytes + i] : 0;
	w->at = 0;
	w->head_n = w->head_size = 0;
}

static bool scan_payload(struct ws_walk *w, struct vault_scan *scan, const char *p, size_t n)
{
	char clear[CHUNK];

	while (n > 0) {
		size_t k = n < CHUNK ? n : CHUNK;

		for (size_t i = 0; i < k; i++)
			clear[i] = (char)(p[i] ^ w->mask[(w->at + i) & 3]);
		if (vault_scan_feed(scan, clear, k))
			return true;
		w->at += k;
		w->left -= k;
		p += k;
		n -= k;
	}
	return false;
}

bool ws_scan(struct ws_walk *w, struct vault_scan *scan, const char *p, size_t n)
{
	while (n > 0) {
		size_t k = 1;

		if (w->left > 0) {
			k = n < w->left ? n : (size_t)w->left;
			if (scan_payload(w, scan, p, k))
				return true;
		} else {
			w->head[w->head_n++] = (uint8_t)*p;
			if (w->head_n == 2)
				w->head_size = head_size(w->head);
			if (w->head_n >= 2 && w->head_n == w->head_size)
				head_whole(w);
		}
		p += k;
		n -= k;
	}
	return false;
}

void ic_raw_begin(struct intercept *ic)
{
	ic->phase = IC_RAW;
	ic->req.scan = (struct vault_scan){0};
	ic->ws = (struct ws_walk){0};
	ic_moved(ic);
	ic_wait(ic, IC_STALL_MS);
	conn_resume(ic->client); /* frames that came with the request */
}

size_t ic_raw_up(struct intercept *ic, const char *p, size_t n)
{
	ic_moved(ic);
	if (ic->flow.box->policy->bindings_n > 0 && ws_scan(&ic->ws, &ic->req.scan, p, n)) {
		ic_deny(ic, DENIAL_PLACEHOLDER, 0,
			"a credential's placeholder stands in a message, where no rule puts it");
		return 0;
	}
	if (!account_bytes(&ic->flow, n, 0)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return 0;
	}
	conn_write(ic->up->conn, p, n);
	if (conn_queued(ic->up->conn) > IC_WINDOW) {
		ic->is_up_blocked = true;
		conn_pause(ic->client);
	}
	return n;
}

size_t ic_raw_down(struct intercept *ic, const char *p, size_t n)
{
	AUTO_BUF struct buf clean = {.is_secret = true};

	ic_moved(ic);
	if (!account_bytes(&ic->flow, 0, n)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return 0;
	}
	if (ic->req.echo.n == 0) {
		conn_write(ic->client, p, n);
	} else {
		if (!ic_unheard(ic, p, n, &clean))
			return 0;
		conn_write(ic->client, buf_data(&clean), buf_len(&clean));
	}
	if (conn_queued(ic->client) > IC_WINDOW) {
		ic->is_down_blocked = true;
		conn_pause(ic->up->conn);
	}
	return n;
}
