/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/control_link - one end of the control connection on a loop: questions with their
 * answers, events.
 *
 * The same code at both ends. Whatever the other end sends that is no message ends the
 * connection. Callbacks come from the loop only. The link frees itself behind `closed`.
 */
#include "egress/control.h"

struct control_link;

struct control_link_events {
	/*
	 * A question (number > 0) or an event (0); answer the former with control_link_reply(),
	 * once.
	 */
	void (*message)(struct control_link *k, const struct control_message *m, void *arg);
	/* err->code 0: the other end hung up. Never from inside a call made here. */
	void (*closed)(struct control_link *k, const struct err *err, void *arg);
	void (*drained)(struct control_link *k, void *arg); /* may be NULL */
};

/* Called exactly once; the connection was lost: err.code ECONNRESET, body NULL. */
typedef void (*control_answer_fn)(const struct control_message *m, void *arg);

int control_link_create(struct loop *l, int take_fd, const struct control_link_events *events,
	void *arg, struct control_link **ret, struct err *err);
/* Close now: `closed` is not called any more, questions under way are answered from here. */
void control_link_close(struct control_link *k);
/* Send what is queued, then close likewise. */
void control_link_finish(struct control_link *k);

/* On failure (-E2BIG) `answer` is not called. answer may be NULL: nobody wants to know. */
int control_link_ask(struct control_link *k, enum control_op op, json_t *take_body,
	control_answer_fn answer, void *arg, struct err *err);
/* Forget whoever waits with this arg. */
void control_link_forget(struct control_link *k, const void *arg);
void control_link_reply(struct control_link *k, enum control_op op, uint64_t number,
	const struct err *why, json_t *take_body);
int control_link_event(
	struct control_link *k, enum control_op op, json_t *take_body, struct err *err);
size_t control_link_queued(const struct control_link *k); /* bytes not yet taken */
