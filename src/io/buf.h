/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/buf - bytes that grow up to a cap and are eaten from the front.
 *
 * For everything whose size a tenant, a guest or a remote server decides. An
 * empty buffer holds no memory. A write past the cap fails with -E2BIG and
 * changes nothing. No I/O, no loop.
 */
#include "base/own.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;        /* allocation, or NULL */
	size_t at;      /* first unread byte */
	size_t end;     /* behind the last byte */
	size_t size;    /* of the allocation */
	size_t cap;     /* most unread bytes; 0 is BUF_CAP_DEFAULT */
	bool is_secret; /* zeroed before its memory is given back */
};

#define BUF_CAP_DEFAULT (1u << 20)

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->at;
}

static inline const char *buf_data(const struct buf *b)
{
	return b->p ? b->p + b->at : "";
}

/* Append; -E2BIG past the cap, -ENOMEM; then nothing was added. */
int buf_add(struct buf *b, const void *data, size_t n);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for n more bytes, to be filled by the caller and then counted by buf_commit(). */
char *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

/* Drop n bytes from the front; the memory goes when the last byte goes. */
void buf_eat(struct buf *b, size_t n);

void buf_done(struct buf *b);

static inline void buf_donep(struct buf *b)
{
	buf_done(b);
}
#define AUTO_BUF __attribute__((cleanup(buf_donep)))
