/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/shape - a sandbox as the E2B dialect shows it.
 */
#include "api/sandbox.h"

#define E2B_ENVD_VERSION "0.6.13" /* what the SDKs switch features by */

/* `Sandbox`: what create and connect answer. */
json_t *shape_sandbox(struct sandbox *sb, const struct http_request *r);
/* `SandboxDetail`, as text: it is asked for in loops. */
void shape_detail(struct buf *b, const struct sandbox *sb, const struct http_request *r);
/* `ListedSandbox`, as text: there may be thousands. */
void shape_listed(struct buf *b, const struct sandbox *sb);

unsigned shape_cpu_count(const struct sandbox *sb);
uint64_t shape_memory(const struct sandbox *sb); /* bytes */
