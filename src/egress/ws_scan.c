/* SPDX-License-Identifier: Apache-2.0 */

/* Over the frames of a WebSocket (RFC 6455 5.2), unmasking what they carry. Pure. */
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
