/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/sandbox - ids and the life of a sandbox as a state machine. Pure.
 *
 *              created            kill, ttl, idle, guest gone
 *   CREATING ----------> RUNNING -----------------------------> ENDING ----> ENDED
 *      |                    ^  |                                   ^
 *      |        resumed     |  | pause                             |
 *      |                    |  v                                   |
 *      |                   PAUSED ---------------------------------+
 *      +--> FAILED (never came up, or was lost; keeps its reason)
 *
 * Invariants, cited by tests (I1…):
 *  I1  A row is RUNNING only after the warden said the sandbox is up.
 *  I2  The intent (CREATING, ENDING) is durable before the warden is asked.
 *  I3  An id is never given twice.
 *  I4  After reconcile every sandbox the kernel has is RUNNING or PAUSED in the store, and the
 *      other way round; what is only in the kernel is destroyed, what is only in the store is
 *      ENDED or FAILED with a reason.
 *  I5  ENDED and FAILED are final; nothing leaves them but `recover`, which makes a new sandbox.
 *  I6  A sandbox whose create was not answered is destroyed by reconcile.
 *  I7  Every transition appends one event in the same transaction.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define SANDBOX_ID_MAX 32 /* with NUL; ids are 'i' and 20 of [a-z0-9] */

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSED,
	SANDBOX_ENDING,
	SANDBOX_ENDED,
	SANDBOX_FAILED,
	SANDBOX_STATE_COUNT
};

enum sandbox_reason { /* why it ended or failed */
	SANDBOX_NO_REASON,
	SANDBOX_KILLED,       /* by request */
	SANDBOX_TTL,          /* its time was up */
	SANDBOX_IDLE,         /* nobody used it */
	SANDBOX_GUEST_GONE,   /* its pid 1 or guest ended by itself */
	SANDBOX_OOM,          /* the kernel killed it at its memory limit */
	SANDBOX_HOST_REBOOT,  /* the machine was restarted */
	SANDBOX_NOT_MADE,     /* it could not be made; the message says why */
	SANDBOX_NOT_ANSWERED, /* the server was restarted before its create was answered */
	SANDBOX_SHUTDOWN,     /* the server ended with --kill-on-exit */
	SANDBOX_REASON_COUNT
};

const char *sandbox_state_name(enum sandbox_state s);   /* "running" */
const char *sandbox_reason_name(enum sandbox_reason r); /* "killed", "ttl", … */
int sandbox_state_parse(const char *s);                 /* -EINVAL */
int sandbox_reason_parse(const char *s);

/* May a row go from a to b? */
bool sandbox_may(enum sandbox_state a, enum sandbox_state b);

/* A fresh random id: 'i' + 20 of [a-z0-9]. */
int sandbox_new_id(char ret[SANDBOX_ID_MAX], struct err *err);
bool sandbox_is_id(const char *s);
/* n random bytes as lower-case hex into ret[2n+1]. */
int sandbox_random_hex(char *ret, unsigned n, struct err *err);
