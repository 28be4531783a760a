/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_report - what `bawn run` says after the command: to people and to programs.
 *
 * People get lines on stderr, and only if something is worth a line: a wall
 * stopped a command that failed, a limit was hit, a copy-on-write run changed
 * something. Programs get one line of JSON, always of the same shape.
 */
#include "base/err.h"
#include "core/spec.h"
#include "run/process/box.h"

#include <stdio.h>

/* Explain why a wall stopped the command; nothing if none did. */
void run_report_explain(const struct box_result *result, FILE *out);

/* List what a copy-on-write run changed and what can be done with it. */
void run_report_changes(const struct box_result *result, FILE *out);

/*
 * Write the result as one line of JSON. `failure`, if not NULL, is why the sandbox
 * was not made; then only the walls of *result are read. Bytes that are not UTF-8
 * are written as \xNN.
 */
int run_report_json(const struct spec *spec, const struct box_result *result,
	const struct err *failure, FILE *out, struct err *err);
