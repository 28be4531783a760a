/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/usage - what each sandbox has used: a sample every five seconds, the last five minutes.
 */
#include "api/sandbox.h"

#define USAGE_SAMPLES   60
#define USAGE_PERIOD_MS 5000

struct usage_sample {
	int64_t at_ms; /* unix */
	uint64_t cpu_us, memory, disk;
	double cpu_percent; /* of all its cpus, since the sample before */
	bool has_memory, has_disk;
};

struct usage_ring {
	struct usage_sample samples[USAGE_SAMPLES];
	unsigned at, n;   /* where the next one goes; how many there are */
	uint64_t last_ms; /* loop time of the newest */
};

struct usage_ring *usage_ring_free(struct usage_ring *r);

/* Sample every running sandbox from now on, a few at a time. */
void usage_start(struct api *a);
void usage_stop(struct api *a);

/* Take one now. `done` once: sb NULL if it has ended meanwhile; then the ring is as full as it
 * can be, which may be empty if nothing can be measured. */
void usage_take(struct sandbox *sb, void (*done)(struct sandbox *sb, void *arg), void *arg);

/* Oldest first; each < 0 stops. */
int usage_each(
	const struct sandbox *sb, int (*each)(const struct usage_sample *s, void *arg), void *arg);
