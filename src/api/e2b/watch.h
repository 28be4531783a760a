/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/watch - what WatchDir and CreateWatcher share: the same request, the same refusals.
 */
#include "api/e2b/envd.h"

#define WATCH_OVERFLOW "watcher error: events were lost, there were too many at once"

/* The request to the guest from the call's body; the path is the caller's. False: answered. */
bool watch_put(struct envd_call *c, struct frame_writer *w, char **ret_path);
/* Answer the guest's refusal. */
void watch_fail(struct envd_call *c, int code, const char *path, const char *why);
