/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/servers - which name servers to ask: a given list, or those of /etc/resolv.conf as it is
 * now (looked at again every few seconds, since machines move between networks).
 */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define SERVERS_MAX  3 /* as resolv.conf(5) */
#define SERVERS_TEXT (SERVERS_MAX * 64)

struct servers {
	char text[SERVERS_TEXT]; /* "10.0.0.2:53,[::1]:5353" */
	uint64_t read_ms;        /* when last; UINT64_MAX = given, never read again */
};

/* -EINVAL: a given list that has something else in it. */
int servers_init(struct servers *s, const char *given, struct err *err);
const char *servers_now(struct servers *s, uint64_t now_ms);

/* Pure: the `nameserver` lines of a resolv.conf; "" if there is none. */
void servers_parse(const char *conf, size_t n, char out[SERVERS_TEXT]);
