/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/echo - does a server repeat what only it was told?
 *
 * Some answer with the request they got (debugging pages, error messages). Then a credential
 * that egress has put in would reach the box after all. The values of a request are looked for
 * in its answer, as they are; a server that encodes them anew is not caught. Pure.
 */
#include "io/buf.h"

#include <stdbool.h>

#define ECHO_MIN 12 /* bytes; anything shorter occurs by chance */
#define ECHO_MAX 8  /* values */

struct echo { /* zero it to start */
	struct buf values[ECHO_MAX];
	size_t n;
	struct buf held; /* the beginning of a value, maybe; not passed on yet */
};

/* Copied; too short or one too many: ignored. */
void echo_add(struct echo *e, const void *p, size_t n);
/* In one text, apart from the stream. */
bool echo_has(const struct echo *e, const char *p, size_t n);
/*
 * The next piece of a stream. *ret gets what may be passed on (to be eaten by the caller): all
 * but an end that could be the beginning of a value. -EPERM: a value is in it. -E2BIG, -ENOMEM.
 */
int echo_feed(struct echo *e, const char *p, size_t n, struct buf *ret);
/* At the end: what was held back is harmless. */
int echo_rest(struct echo *e, struct buf *ret);
void echo_done(struct echo *e);
