/* SPDX-License-Identifier: Apache-2.0 */

/*
 * After a 101: bytes both ways. What the box sends is masked (RFC 6455 5.3), so frames are
 * walked over and unmasked to look for placeholders; nothing is changed and nothing is held
 * back.
 */
#include "egress/intercept_impl.h"

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
