/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/envd - the way into the data plane: whose request it is, and which file answers it.
 */
#include "api/e2b/envd.h"
#include "api/e2b/question.h"
#include "api/e2b/signature.h"

#include <string.h>

static void health(struct api *a, struct http_request *r, struct sandbox *sb)
{
	(void)a;
	(void)sb;
	http_reply(r, 204, NULL, NULL, 0);
}

enum { PUBLIC = 1u << 0 /* no token: its own check, or nothing to protect */ };

static const struct {
	const char *method, *path;
	envd_handler_fn handle;
	unsigned flags;
} table[] = {
	{"GET", "/health", health, PUBLIC},
	{"GET", "/files", envd_files_get, PUBLIC},
	{"POST", "/files", envd_files_post, PUBLIC},
	{"POST", "/init", health, PUBLIC}, /* the orchestrator's; we bind the guest ourselves */
	{"GET", "/metrics", envd_metrics, 0},
	{"GET", "/envs", envd_envs, 0},
	{"POST", "/process.Process/Start", envd_start, 0},
	{"POST", "/process.Process/Connect", envd_connect, 0},
	{"POST", "/process.Process/SendInput", envd_send_input, 0},
	{"POST", "/process.Process/StreamInput", envd_stream_input, 0},
	{"POST", "/filesystem.Filesystem/WatchDir", envd_watch_dir, 0},
	{"POST", "/filesystem.Filesystem/CreateWatcher", envd_create_watcher, 0},
	{"POST", "/filesystem.Filesystem/GetWatcherEvents", envd_watcher_events, 0},
	{"POST", "/filesystem.Filesystem/RemoveWatcher", envd_remove_watcher, 0},
};

static bool may_enter(struct http_request *r, const struct sandbox *sb)
{
	const struct h1_field *f = h1_find(&r->head, "x-access-token");

	return sb->row.token[0] == '\0' || (f && signature_token_is(sb->row.token, f->value));
}

static void refuse(struct http_request *r)
{
	envd_plain_error(r, 401,
		"unauthorized access, please provide a valid access token or method signing if "
		"supported");
}

/* The path is one of ours with another method, or nothing we know. */
static void unknown(struct http_request *r, const char *allow)
{
	if (allow) {
		http_field(r, "Allow", allow);
		envd_plain_error(r, 405, "method not allowed");
	} else {
		envd_plain_error(r, 404, "404 page not found");
	}
}

void envd_handle(struct api *a, struct http_request *r, struct sandbox *sb, const char *id)
{
	const struct envd_question *q;
	const char *allow = NULL;

	if (!sb) {
		envd_dead(r, id);
		return;
	}
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!h1_is(r->path, table[i].path))
			continue;
		if (!h1_is(r->head.method, table[i].method)) {
			allow = table[i].method;
			continue;
		}
		if (!(table[i].flags & PUBLIC) && !may_enter(r, sb))
			refuse(r);
		else
			table[i].handle(a, r, sb);
		return;
	}
	q = envd_question_find(r->path);
	if (!may_enter(r, sb))
		refuse(r);
	else if (!q)
		unknown(r, allow);
	else if (!h1_is(r->head.method, "POST"))
		unknown(r, "POST");
	else
		envd_question_ask(a, r, sb, q);
}
