/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/mux - channels with credit over one stream connection; both ends of the guest protocol.
 *
 * A channel is opened by one side with a request, carries messages and data both ways, and is
 * over when both sides have sent END (or the connection is gone). A side may send DATA only
 * as far as it was given credit: MUX_CREDIT at the start, more when the other side has consumed.
 * END with code 0 is "I have no more to send". END with an errno is "I am not interested any
 * more" and may also follow an END with 0: mux_drop() sends it, so that the other side lets go.
 * Everything that arrives is hostile: a violated rule ends the connection, never the process.
 * Caps: MUX_CHANNELS_MAX open channels, CONN_QUEUE bytes queued.
 */
#include "io/conn.h"
#include "io/frame.h"

#define MUX_CHANNELS_MAX 4096
#define MUX_CREDIT       (1u << 20)

struct mux;

struct mux_channel {
	struct mux *mux; /* NULL: not open (any more) */
	uint32_t id;
	void *arg;
	const struct mux_events *events;
	uint32_t may_send;        /* credit left for our DATA */
	uint32_t may_come;        /* what the other side may still send */
	uint32_t eaten;           /* consumed and not yet given back */
	bool has_ended;           /* we sent END */
	bool was_ended;           /* the other side did */
	bool is_over;             /* both: only `closed` is still to come */
	struct mux_channel *next; /* kept by mux */
};

/* Channels are embedded in their owner and may be freed from `closed`. */
struct mux_events {
	void (*message)(struct mux_channel *c, uint16_t kind, struct frame_reader *body);
	/* Bytes came; call mux_consumed() when they have been passed on, now or later. */
	void (*data)(struct mux_channel *c, uint8_t stream, const char *p, size_t n);
	/* More may be sent: credit came, or the connection's queue has room again. May be NULL. */
	void (*writable)(struct mux_channel *c);
	/*
	 * The other side is done: code 0, or its errno and reason. We may still send. Comes twice
	 * if an errno follows a 0. NULL: our side is ended too.
	 */
	void (*ended)(struct mux_channel *c, int code, const char *why);
	/*
	 * The channel is gone: both ended (code 0), or the connection went (code ECONNRESET).
	 * Never from inside mux_end(): it comes after the current batch of events.
	 */
	void (*closed)(struct mux_channel *c, int code);
};

struct mux_owner {
	/*
	 * The other side opens a channel: take it with mux_accept(), or settle it with
	 * mux_reply() or mux_refuse(); else it is refused. NULL: nobody may open any.
	 */
	void (*opened)(
		struct mux *m, uint32_t id, uint16_t kind, struct frame_reader *body, void *arg);
	/* The connection is gone; all channels were closed before. The mux is freed afterwards. */
	void (*closed)(struct mux *m, const struct err *why, void *arg);
};

/* Takes fd. is_client: opens odd channels; the guest's side opens even ones. */
int mux_create(struct loop *l, int take_fd, bool is_client, const struct mux_owner *owner,
	void *arg, struct mux **ret, struct err *err);
/*
 * Close the connection and every channel: `closed` of each channel and of the owner (code 0) run
 * before this returns; the mux is freed after the current batch of events.
 */
void mux_close(struct mux *m);
/* Bytes waiting to be sent on the whole connection. */
size_t mux_queued(const struct mux *m);
size_t mux_channels(const struct mux *m);

/* Open a channel with a request. -EMFILE past the cap, -E2BIG: the request does not fit a frame. */
int mux_open(struct mux *m, struct mux_channel *c, uint16_t kind, const struct frame_writer *body,
	const struct mux_events *events, void *arg, struct err *err);
/* Inside `opened`: take the channel. */
void mux_accept(struct mux *m, uint32_t id, struct mux_channel *c, const struct mux_events *events,
	void *arg);
/* Inside `opened`: one message and END, or END with an errno; no channel comes to be. */
void mux_reply(struct mux *m, uint32_t id, uint16_t kind, const struct frame_writer *body);
void mux_refuse(struct mux *m, uint32_t id, int code, const char *why);
/* True while mux_data() would take something and messages do not pile up. */
bool mux_has_room(const struct mux *m);

void mux_message(struct mux_channel *c, uint16_t kind, const struct frame_writer *body);
/* Sends min(n, may_send, and what the connection's queue has room for) bytes; returns how many. */
size_t mux_data(struct mux_channel *c, uint8_t stream, const void *p, size_t n);
void mux_consumed(struct mux_channel *c, size_t n);
/* We are done: code 0, or errno and reason. Nothing may be sent after it. */
void mux_end(struct mux_channel *c, int code, const char *why);
/*
 * Forget it: no callback to this owner follows, the channel may be freed. The other side is told
 * by END with ECANCELED unless it is done too. Fine for a channel that is not open.
 */
void mux_drop(struct mux_channel *c);
