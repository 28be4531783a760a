/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/supervisor - `bawn serve`: holds the sockets, starts the roles, restarts them for ever.
 *
 *              SIGHUP                     drained
 *   SERVING ------------> RELOADING ------------------> SERVING (a fresh api role)
 *      |                      |
 *      | SIGTERM, SIGINT      |
 *      v                      v
 *   STOPPING_API ----------------> STOPPING_REST ------> the end
 *      api has drained or its time is up       warden and egress are gone
 *
 * Reads no tenant's bytes. Sandboxes are nobody's children by then and stay.
 */

/* The verb. */
int serve_main(int argc, char **argv);
