/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Templates: there is one, `base`. And the typed "not yet" of what comes with other issues.
 */
#include "api/e2b/call.h"
#include "api/e2b/sandboxes.h"
#include "base/text.h"

#include <string.h>

void e2b_template_alias(struct api *a, struct http_request *r, const struct route_match *m)
{
	char quoted[80];

	(void)a;
	if (strcmp(m->params[0], "base") == 0)
		api_reply_json(r, 200, json_pack("{s:s, s:b}", "templateID", "base", "public", 1));
	else
		api_reply_error(r, 404, "not_found", NULL, "template '%s' not found",
			text_quote(m->params[0], quoted, sizeof(quoted)));
}

static const char *comes_with(const char *pattern)
{
	static const struct {
		const char *in_pattern, *sentence;
	} sentences[] = {
		{"/snapshots", "snapshots come with persistence"},
		{"/fork", "fork comes with persistence"},
		{"/pause", "pause comes with persistence"},
		{"/resume", "resume comes with persistence"},
		{"/volumes", "volumes come with persistence"},
		{"/secrets", "secrets come with egress"},
		{"/templates", "templates beyond 'base' come with template builds"},
	};

	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
		if (strstr(pattern, sentences[i].in_pattern))
			return sentences[i].sentence;
	return "this comes with a later version";
}

void e2b_later(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)a;
	api_reply_error(r, 501, "not_implemented", NULL, "%s", comes_with(m->route->pattern));
}

void e2b_later_sandbox(struct api *a, struct http_request *r, const struct route_match *m)
{
	if (e2b_find(a, m->caller.tenant, m->params[0]))
		e2b_later(a, r, m);
	else
		e2b_not_found(r, m->params[0]);
}
