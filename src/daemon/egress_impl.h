/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/egress_impl - what the files of the egress role share.
 *
 *   egress_main      options, start-up, confinement, signals
 *   egress_control   what the owner says: boxes, policies, answers, secrets
 *   egress_roads     the two sockets of a box, from the warden
 *   egress_events    what the owner is told: in batches, bounded
 *   egress_secrets   sealing and opening; the vault is filled here
 */
#include "egress/control_link.h"
#include "run/warden.h"

#include <sys/queue.h>

struct role_box { /* a box as its owner named it */
	char id[EGRESS_ID_MAX];
	char owner[64];
	uint64_t seen;     /* the connection that named it last */
	bool has_road;     /* it is in the engine */
	bool is_asked;     /* the warden is asked for it */
	bool want_allowed; /* by request, not only by destination */
	/* Until the road is there: */
	struct policy *policy;
	char *limits;
	uint64_t expires_ms;
	uint64_t number; /* of the question to answer then; 0 = none */
	TAILQ_ENTRY(role_box) link;
};

struct egress_role {
	struct loop *loop;
	struct egress *engine;
	struct control_link *owner; /* NULL: not connected */
	uint64_t connections;       /* of owners so far */
	TAILQ_HEAD(role_box_list, role_box) boxes;
	struct role_events *events;
	bool is_run;                  /* of one run, not of a server; its road is here: */
	int tcp, dns;                 /* -EBADF: given away, or of a server */
	struct warden_client *warden; /* of a server */
	struct sealer *sealer;        /* NULL: no secrets here */
	const char *secrets;          /* their directory */
};

/* ---- egress_control ---- */
/* Serve this connection; one before it is hung up on. Takes the descriptor. */
int role_owner_set(struct egress_role *e, int take_fd, struct err *err);
struct role_box *role_box_find(struct egress_role *e, const char *id);
void role_boxes_free(struct egress_role *e);
/* egress_roads: take both (also on failure) and answer the owner's question; tcp < 0: *why. */
void role_box_road(struct egress_role *e, struct role_box *b, int take_tcp, int take_dns,
	const struct err *why);

/* ---- egress_roads ---- */
int role_roads_open(struct egress_role *e, const char *warden_path, struct err *err);
/* role_box_road() follows, perhaps at once. */
void role_road_want(struct egress_role *e, struct role_box *b);

/* ---- egress_events ---- */
extern const struct egress_events role_egress_events; /* arg: the role */
struct role_events *role_events_create(struct egress_role *e);
void role_events_free(struct role_events *v);
/* An owner is there (again): open asks are told once more. */
void role_events_connected(struct role_events *v);
/* This ask is over: it is not told again. False: it was not known. */
bool role_events_answered(struct role_events *v, const char *id);
/* All that waits, now: before a box's last answer. */
void role_events_flush(struct role_events *v);

/* ---- egress_secrets ---- */
/* Before the role confines itself. dir NULL: none. Takes the descriptor of the key, if any. */
int role_secrets_open(struct egress_role *e, const char *dir, int take_key_fd, struct err *err);
void role_secrets_close(struct egress_role *e);
/* CONTROL_SEAL: its answer's body, or NULL. */
json_t *role_seal(struct egress_role *e, const json_t *body, struct err *err);
/* CONTROL_SECRET. */
int role_secret(struct egress_role *e, const json_t *body, struct err *err);
/* Of a run: what its policy binds and the user has set. */
int role_secrets_load(struct egress_role *e, const struct policy *p, struct err *err);
