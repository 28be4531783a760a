/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/sandbox - names of states and reasons, the table of transitions, random ids.
 *
 * Pure but for getrandom(); runs in any program.
 */
#include "core/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define ID_LETTERS 20

static const char *const states[] = {
	[SANDBOX_CREATING] = "creating",
	[SANDBOX_RUNNING] = "running",
	[SANDBOX_PAUSED] = "paused",
	[SANDBOX_ENDING] = "ending",
	[SANDBOX_ENDED] = "ended",
	[SANDBOX_FAILED] = "failed",
};
static_assert(sizeof(states) / sizeof(states[0]) == SANDBOX_STATE_COUNT, "a name per state");

static const char *const reasons[] = {
	[SANDBOX_NO_REASON] = "",
	[SANDBOX_KILLED] = "killed",
	[SANDBOX_TTL] = "ttl",
	[SANDBOX_IDLE] = "idle",
	[SANDBOX_GUEST_GONE] = "guest_gone",
	[SANDBOX_OOM] = "oom",
	[SANDBOX_HOST_REBOOT] = "host_reboot",
	[SANDBOX_NOT_MADE] = "not_made",
	[SANDBOX_NOT_ANSWERED] = "not_answered",
	[SANDBOX_SHUTDOWN] = "shutdown",
};
static_assert(sizeof(reasons) / sizeof(reasons[0]) == SANDBOX_REASON_COUNT, "a name per reason");

#define TO(s) (1u << SANDBOX_##s)

/* The diagram in the header, as bit sets. FAILED from RUNNING and PAUSED: it was lost (I4). */
static const unsigned may_go[] = {
	[SANDBOX_CREATING] = TO(RUNNING) | TO(FAILED),
	[SANDBOX_RUNNING] = TO(PAUSED) | TO(ENDING) | TO(FAILED),
	[SANDBOX_PAUSED] = TO(RUNNING) | TO(ENDING) | TO(FAILED),
	[SANDBOX_ENDING] = TO(ENDED),
	[SANDBOX_ENDED] = 0,
	[SANDBOX_FAILED] = 0,
};
static_assert(sizeof(may_go) / sizeof(may_go[0]) == SANDBOX_STATE_COUNT, "a row per state");

const char *sandbox_state_name(enum sandbox_state s)
{
	assert((unsigned)s < SANDBOX_STATE_COUNT);
	return states[s];
}

const char *sandbox_reason_name(enum sandbox_reason r)
{
	assert((unsigned)r < SANDBOX_REASON_COUNT);
	return reasons[r];
}

static int find(const char *const *names, int n, const char *s)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], s) == 0)
			return i;
	return -EINVAL;
}

int sandbox_state_parse(const char *s)
{
	return find(states, SANDBOX_STATE_COUNT, s);
}

int sandbox_reason_parse(const char *s)
{
	return find(reasons, SANDBOX_REASON_COUNT, s);
}

bool sandbox_may(enum sandbox_state a, enum sandbox_state b)
{
	return (unsigned)a < SANDBOX_STATE_COUNT && (unsigned)b < SANDBOX_STATE_COUNT &&
	       (may_go[a] & (1u << b)) != 0;
}

static int random_bytes(unsigned char *p, size_t n, struct err *err)
{
	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "getrandom");
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

int sandbox_new_id(char ret[SANDBOX_ID_MAX], struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned n = 1;

	ret[0] = 'i';
	while (n <= ID_LETTERS) {
		unsigned char bytes[32];
		int r = random_bytes(bytes, sizeof(bytes), err);

		if (r < 0)
			return r;
		/* 252 is 7 times 36: beyond it some letters would be likelier. */
		for (size_t i = 0; i < sizeof(bytes) && n <= ID_LETTERS; i++)
			if (bytes[i] < 252)
				ret[n++] = letters[bytes[i] % 36];
	}
	ret[n] = '\0';
	return 0;
}

bool sandbox_is_id(const char *s)
{
	return s[0] == 'i' && strlen(s) == ID_LETTERS + 1 &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ID_LETTERS + 1;
}

int sandbox_random_hex(char *ret, unsigned n, struct err *err)
{
	static const char digits[] = "0123456789abcdef";

	while (n > 0) {
		unsigned char bytes[32];
		unsigned part = n < sizeof(bytes) ? n : (unsigned)sizeof(bytes);
		int r = random_bytes(bytes, part, err);

		if (r < 0)
			return r;
		for (unsigned i = 0; i < part; i++) {
			*ret++ = digits[bytes[i] >> 4];
			*ret++ = digits[bytes[i] & 15];
		}
		n -= part;
	}
	*ret = '\0';
	return 0;
}
