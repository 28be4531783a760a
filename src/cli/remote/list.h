/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cli/remote/list - all sandboxes of ours, page by page. */
#include "cli/remote/client.h"

/* A JSON array of what GET /v1/sandboxes gives; the caller drops the reference. */
int list_all(struct client *c, bool with_ended, json_t **ret, struct err *err);
/* How long until an RFC 3339 time, "4m10s"; "-" if it cannot be read. */
const char *list_until(const char *when, char out[32]);
/* How long since. */
const char *list_since(const char *when, char out[32]);
/* A string field, "" if missing, made safe for a terminal. */
const char *list_text(const json_t *o, const char *name, char *out, size_t size);
