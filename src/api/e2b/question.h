/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/question - unary requests that are one question to the guest and one JSON answer.
 *
 * A method is a row: how the message becomes a request, how each message of the guest becomes
 * JSON, what stands around them, and the sentences for its errors.
 */
#include "api/e2b/envd.h"

struct question;

struct question_text { /* a sentence: before, the path asked for, after */
	int code;      /* errno; 0 ends the table */
	enum connect_code is;
	const char *before, *after;
};

struct envd_question {
	const char *path; /* "/process.Process/List" */
	uint16_t kind;    /* enum guest_request */
	/* The request from the message (NULL: a GET). False: answered already. May be NULL. */
	bool (*ask)(struct question *q, json_t *msg, struct frame_writer *w);
	/* One message of the guest, appended to q->out. False: malformed. NULL: not looked at. */
	bool (*answer)(struct question *q, uint16_t kind, struct frame_reader *body);
	bool is_single;             /* exactly one message makes the answer */
	const char *before, *after; /* around what `answer` appended */
	const struct question_text *texts;
};

struct question {
	struct envd_call call;
	const struct envd_question *what;
	struct buf out;
	size_t answers;           /* messages so far */
	char *subject;            /* the path, for error texts; owned, may be NULL */
	struct guest_which which; /* the process, for error texts; tag owned */
};

extern const struct envd_question process_questions[]; /* end with path NULL */
extern const struct envd_question filesystem_questions[];

/* NULL if no unary method has this path. */
const struct envd_question *envd_question_find(struct h1_text path);
void envd_question_ask(struct api *a, struct http_request *r, struct sandbox *sb,
	const struct envd_question *what);
/* Without a message, in the plain dialect. */
void envd_question_get(struct api *a, struct http_request *r, struct sandbox *sb,
	const struct envd_question *what);

/* A field of the message was of the wrong type: answer that. Always false. */
bool envd_question_bad(struct question *q, const char *field);

/* True if the request's type is this one, parameters aside; else 415 was answered. */
bool envd_is_type(struct http_request *r, const char *type);
