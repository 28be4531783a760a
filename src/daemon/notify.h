/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/notify - tell the service manager how we are (the protocol of sd_notify(3), by hand).
 *
 * A datagram to the socket named by $NOTIFY_SOCKET; without one nothing happens. Never fails
 * the caller: a manager that does not listen is not our trouble.
 */

/* Take the address out of the environment, so that no child can speak for us. */
void notify_init(void);
void notify_send(const char *state); /* "READY=1\nSTATUS=…" */
/* RELOADING=1 with the time stamp that Type=notify-reload wants. */
void notify_reloading(void);
