/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where a box's two sockets come from: passed at start in one run, asked of the warden in a server.
 *
 * While there is no warden the question waits: its client connects for ever, and then all that is
 * still wanted is asked. A road that cannot be had for another reason is the owner's to want again.
 */
#include "base/mem.h"
#include "daemon/egress_impl.h"
#include "daemon/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct wanted { /* a question under way; the box may be gone when it is answered */
	struct egress_role *role;
	char id[EGRESS_ID_MAX];
};

static void take_own(struct egress_role *e, struct role_box *b)
{
	int tcp = TAKE_FD(e->tcp), dns = TAKE_FD(e->dns);
	struct err err = {0};

	if (tcp < 0)
		(void)err_set(&err, EEXIST, "a run has one box");
	role_box_road(e, b, tcp, dns, &err);
}

static void got_road(int take_tcp, int take_dns, const struct err *err, void *arg)
{
	struct wanted *w = arg;
	struct role_box *b = role_box_find(w->role, w->id);

	/* Removed meanwhile, or named twice: there is nobody to give it to. */
	if (!b || b->has_road) {
		closep(&take_tcp);
		closep(&take_dns);
	} else if (take_tcp < 0 && err->code == ECONNRESET) {
		b->is_asked = false; /* the next warden is asked */
	} else {
		role_box_road(w->role, b, take_tcp, take_dns, err);
	}
	free(w);
}

static void ask(struct egress_role *e, struct role_box *b)
{
	struct wanted *w = MEM_NEW(struct wanted);
	struct err err = {0};

	w->role = e;
	(void)snprintf(w->id, sizeof(w->id), "%s", b->id);
	b->is_asked = warden_ask_road(e->warden, b->id, got_road, w, &err) >= 0;
	if (!b->is_asked)
		free(w); /* nobody there: on_connected() comes back here */
}

void role_road_want(struct egress_role *e, struct role_box *b)
{
	if (e->is_run)
		take_own(e, b);
	else
		ask(e, b);
}

static void on_connected(void *arg)
{
	struct egress_role *e = arg;
	struct role_box *b;

	for (b = TAILQ_FIRST(&e->boxes); b; b = TAILQ_NEXT(b, link)) {
		if (!b->has_road && !b->is_asked)
			ask(e, b);
	}
}

static void on_lost(void *arg)
{
	(void)arg;
	role_log(ROLE_LOG_WARN, "warden-lost");
}

int role_roads_open(struct egress_role *e, const char *warden_path, struct err *err)
{
	static const struct warden_client_events events = {
		.connected = on_connected, .lost = on_lost};

	return warden_client_create(e->loop, warden_path, &events, e, &e->warden, err);
}
