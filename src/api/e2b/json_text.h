/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/json_text - JSON written by hand, for answers that are built per message or per file.
 *
 * File names and messages of a guest are any bytes: what is not UTF-8 becomes U+FFFD, so that an
 * answer always is JSON. Pure.
 */
#include "io/buf.h"

/* A quoted string with everything escaped that needs it. -E2BIG, -ENOMEM as buf_add(). */
int json_text_add(struct buf *b, const char *s);
int json_text_addn(struct buf *b, const char *s, size_t n);
