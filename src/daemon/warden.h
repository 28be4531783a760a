/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/warden - the one privileged role: makes and unmakes sandboxes.
 *
 *   bawn role-warden --state DIR --api-uid N [--guest FILE]
 *
 * Descriptor 3 is the listening SOCK_SEQPACKET socket (run/warden.h). <state>/boxes exists.
 * --guest: start this static program instead of the built-in guest (tests). Ends on
 * SIGTERM; the sandboxes live on.
 */
int warden_main(int argc, char **argv);
