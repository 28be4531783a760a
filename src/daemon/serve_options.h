/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/serve_options - how the server should be: `bawn serve` options and the config file.
 *
 * One table for both: the keys of the file are the long options. What the command line says
 * wins over the file. Strict: an unknown key or option is an error that names the line and the
 * closest known one. Runs in: the supervisor, at start and on SIGHUP.
 */
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SERVE_CONFIG_MAX  (64 * 1024) /* bytes of YAML */
#define SERVE_LISTEN_MAX  16
#define SERVE_LISTEN_HERE "127.0.0.1:7070"

struct serve_options {
	struct strv listen; /* "ADDR:PORT", "[ADDR]:PORT", "unix:PATH" */
	bool is_listen_given;
	char *config;             /* file, absolute; NULL = none */
	char *state;              /* directory, absolute */
	char *domain;             /* or NULL */
	char *tls_cert, *tls_key; /* files, absolute; both or neither */
	bool kill_on_exit;        /* sandboxes end with the server */
	bool webhooks_private;    /* webhooks may reach private addresses */
	bool json_log;
	uint64_t ttl_ms, ttl_max_ms;
	uint64_t memory, disk, pids, cpu_milli, open_files; /* of each sandbox */
	uint64_t spares;    /* sandboxes kept up for whoever asks next */
	uint64_t sandboxes; /* running at once */
	/* The road out; NULL: not given. */
	char *profile, *floor; /* names or absolute files */
	char *resolver;        /* "10.0.0.2,[::1]:5353" */
	char *upstream_ca;     /* file, absolute */
	char *upstream_proxy, *no_proxy;
	bool want_help;
};

/* argv[0] is the verb. On failure *ret is good for serve_options_done() only. */
int serve_options_parse(int argc, char **argv, struct serve_options *ret, struct err *err);
void serve_options_done(struct serve_options *o);
void serve_options_help(FILE *out);

/* Take one setting by its long name; a switch takes "true" or "false". */
int serve_option_set(struct serve_options *o, const char *key, const char *value, struct err *err);

/* daemon/serve_config.c: every field of a YAML text, through serve_option_set(). Pure. */
int serve_config_parse(
	const char *yaml, size_t size, const char *file, struct serve_options *o, struct err *err);
