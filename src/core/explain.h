/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/explain - would this be allowed, and why? One answer for `bawn explain`, `bawn profile test`
 * and GET /v1/explain. Pure: nothing is looked up or tried.
 */
#include "core/policy.h"

struct explain_target {
	char name[POLICY_NAME_MAX + 1]; /* "" = a bare address */
	struct address addr;
	uint16_t port;
	unsigned protocol;
	char method[32], path[1024]; /* "" = not given */
};

/*
 * "https://pypi.org/simple/", "wss://…", "tcp://db.test:5432", "pypi.org", "pypi.org:443/simple/",
 * "[::1]:80". Without a scheme the port says it: 80 is http, 443 or none or a path https, else tcp.
 * `method` NULL: GET where there are requests. A query is cut off. -EINVAL says what is accepted.
 */
int explain_parse(
	const char *method, const char *target, struct explain_target *ret, struct err *err);

struct explain_answer {
	struct policy_answer decision;
	/*
	 * "allow", "deny", "ask"; "depends": a name that is allowed unless it leads to an address
	 * that a rule denies, or a program that is not known.
	 */
	const char *verdict;
	char text[1024]; /* for people, one line */
};
/* `program`: NULL = unknown. */
void explain_decide(const struct policy *p, const struct explain_target *t, const char *program,
	struct explain_answer *ret);

/*
 * {"verdict":…,"target":…,"message":…,"profile":…,"digest":…,"rule":…,"reason":…,"by_floor":…,
 * "intercepted":…,"credentials":[…],"budget":{…},"needs":[…]}; the caller frees.
 */
char *explain_json(const struct policy *p, const struct explain_target *t, const char *program);
