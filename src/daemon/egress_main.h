/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/egress_main - the egress role: `bawnd role-egress`, started by the supervisor or by
 * `bawn run`.
 *
 *   bawnd role-egress --control FD --ready FD --warden PATH [options]
 *       of a server: the roads of boxes come from the warden
 *   bawnd role-egress --run [options]
 *       of one run: 3 = its end of the control socket, 4 = the box's TCP socket, 5 = its DNS
 *       socket; ends when the other end hangs up
 *   bawnd role-egress --make-ca --ca DIR
 *       make the certificate authority if there is none, and end
 *
 * Options: --ca DIR, --secrets DIR, --resolver LIST, --upstream-ca FILE, --upstream-proxy-fd FD
 * (its URL may hold a password: never on a command line), --upstream-proxy URL, --no-proxy LIST,
 * --own NET, --json-log.
 */
int egress_main(int argc, char **argv);
