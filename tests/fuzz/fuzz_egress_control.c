/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz egress/control: any bytes are refused with a reason, ask for more, or are a message whose
 * bodies can be read as each kind there is; what was read is written and read again as the same.
 */
#include "egress/control.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_bodies(const json_t *body)
{
	struct control_box box;
	struct denial d;
	struct egress_ask ask;
	struct egress_usage usage;
	struct egress_totals totals;
	const char *id = NULL;
	uint64_t up, down;
	struct err err = {0};

	if (control_box_get(body, &box, &err) == 0)
		assert(box.id[0] && strlen(box.id) < EGRESS_ID_MAX && box.owner);
	if (control_denial_get(body, &id, &d, &err) == 0)
		assert(id && d.kind < DENIAL_KIND_COUNT &&
			strnlen(d.path, sizeof(d.path)) < sizeof(d.path));
	(void)control_allowed_get(body, &id, &d, &up, &down, &err);
	if (control_ask_get(body, &ask, &err) == 0)
		assert(ask.id[0] && ask.box[0]);
	(void)control_usage_get(json_array_get(json_object_get(body, "usage"), 0), &usage);
	control_totals_get(body, &totals);
}

static void again(const struct control_message *m)
{
	AUTO_BUF struct buf out = {.cap = 4 * CONTROL_MAX};
	struct control_message back = {0};
	struct err err = {0};
	size_t used = 0;
	int r = m->is_answer
			? control_reply(&out, m->op, m->number, &m->err, json_incref(m->body), &err)
			: control_ask(&out, m->op, m->number, json_incref(m->body), &err);

	if (r < 0)
		return; /* longer when written than it was when read: numbers, escapes */
	assert(control_next(buf_data(&out), buf_len(&out), &used, &back, &err) == 1);
	assert(used == buf_len(&out) && back.op == m->op && back.number == m->number);
	assert(json_equal(back.body, m->body));
	control_message_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;

	while (size > 0) {
		struct control_message m = {0};
		struct err err = {0};
		size_t used = 0;
		int r = control_next(p, size, &used, &m, &err);

		assert((r < 0) == (err.code != 0));
		if (r <= 0)
			break;
		assert(used > 0 && used <= size && json_is_object(m.body));
		read_bodies(m.body);
		again(&m);
		control_message_done(&m);
		p += used;
		size -= used;
	}
	return 0;
}
