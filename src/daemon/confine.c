/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/confine.h"

#include "base/own.h"
#include "base/text.h"
#include "sys/caps.h"
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct right {
	const char *path;
	unsigned access;
};

/* Right for right, and why it is kept. What is missing on this machine is left out. */
static const struct right host_rights[] = {
	{"/etc/ssl", LANDLOCK_READ},                        /* roots that webhooks verify by */
	{"/usr/lib/ssl", LANDLOCK_READ},                    /* links into the former */
	{"/usr/share/ca-certificates", LANDLOCK_READ},      /* what the links point to */
	{"/etc/resolv.conf", LANDLOCK_READ},                /* names of webhooks */
	{"/etc/hosts", LANDLOCK_READ},                      /* likewise */
	{"/proc/sys/kernel/random/boot_id", LANDLOCK_READ}, /* is a deadline of this boot? */
	{"/proc/meminfo", LANDLOCK_READ},                   /* /metrics, capabilities */
	{"/proc/self", LANDLOCK_READ}, /* own memory and descriptors, /metrics */
	{"/dev/null", LANDLOCK_READ | LANDLOCK_WRITE_FILE}, /* libraries open it */
	{"/dev/urandom", LANDLOCK_READ}, /* OpenSSL, where getrandom is missing */
};
static const struct right state_rights[] = {
	{"db", LANDLOCK_READ | LANDLOCK_WRITE}, /* the store, its journal and its lock */
	{"run", LANDLOCK_READ},                 /* the warden's socket */
	{"boxes", LANDLOCK_READ},               /* the guests' sockets */
};

static int allow(int ruleset, const char *path, unsigned access, struct err *err)
{
	AUTO_FD int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == EACCES))
		return 0;
	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	return landlock_allow(ruleset, fd, access, err) < 0 ? err_wrap(err, "'%s'", path) : 0;
}

/*
 * The egress role: roots that upstreams are verified by, names, nothing of the state but its
 * own.
 */
static const struct right egress_rights[] = {
	{"/etc/ssl", LANDLOCK_READ},                   /* roots that upstreams are verified by */
	{"/usr/lib/ssl", LANDLOCK_READ},               /* links into the former */
	{"/usr/share/ca-certificates", LANDLOCK_READ}, /* what the links point to */
	{"/etc/resolv.conf", LANDLOCK_READ},           /* who looks names up */
	{"/proc/self", LANDLOCK_READ},                 /* own memory and descriptors */
	{"/dev/null", LANDLOCK_READ | LANDLOCK_WRITE_FILE}, /* libraries open it */
	{"/dev/urandom", LANDLOCK_READ}, /* OpenSSL, where getrandom is missing */
};

static int allow_all(int ruleset, const struct right *rights, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = allow(ruleset, rights[i].path, rights[i].access, err);
	return r;
}

static int enter_landlock(
	const char *state, const char *const *profiles, size_t profiles_n, struct err *err)
{
	AUTO_FD int ruleset = landlock_open(false, err); /* webhooks connect */
	int r = ruleset;

	if (r >= 0)
		r = allow_all(
			ruleset, host_rights, sizeof(host_rights) / sizeof(host_rights[0]), err);
	for (size_t i = 0; r >= 0 && i < sizeof(state_rights) / sizeof(state_rights[0]); i++) {
		AUTO_FREE char *path = text_format("%s/%s", state, state_rights[i].path);

		r = allow(ruleset, path, state_rights[i].access, err);
	}
	for (size_t i = 0; r >= 0 && i < profiles_n; i++) {
		if (profiles[i])
			r = allow(ruleset, profiles[i], LANDLOCK_READ, err);
	}
	return r < 0 ? r : landlock_enter(ruleset, err);
}

static int enter_landlock_egress(const struct confine_egress *c, struct err *err)
{
	const struct right own[] = {
		{c->upstream_ca, LANDLOCK_READ}, /* roots instead of the system's */
		{c->secrets, LANDLOCK_READ},     /* sealed values of a run */
		{c->warden, LANDLOCK_READ},      /* the socket: new boxes' roads */
	};
	AUTO_FD int ruleset = landlock_open(false, err); /* connecting is what it is for */
	int r = ruleset;

	if (r >= 0)
		r = allow_all(ruleset, egress_rights,
			sizeof(egress_rights) / sizeof(egress_rights[0]), err);
	for (size_t i = 0; r >= 0 && i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i].path)
			r = allow(ruleset, own[i].path, own[i].access, err);
	}
	return r < 0 ? r : landlock_enter(ruleset, err);
}

static int limit(int resource, rlim_t value, struct err *err)
{
	struct rlimit r = {value, value};

	return setrlimit((__rlimit_resource_t)resource, &r) < 0 ? err_sys(err, "setrlimit") : 0;
}

/* Connections of clients, of guests and of boxes: as many as the system lets us. */
void confine_raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

/* What goes for every role that reads strangers' bytes. */
static int give_up(struct err *err)
{
	int r = limit(RLIMIT_CORE, 0, err); /* tokens and keys are in memory */

	confine_raise_files();
	if (r >= 0)
		r = limit(RLIMIT_NPROC, 0, err); /* it starts nothing */
	/* The supervisor did both; said again for a role that was started by hand. */
	if (r >= 0)
		r = caps_set(0, err);
	if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = err_sys(err, "no_new_privs");
	/* No neighbour with our user id may read our memory. */
	if (r >= 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = err_sys(err, "dumpable");
	return r;
}

int confine_api(const char *state, const char *const *profiles, size_t profiles_n,
	bool *ret_has_landlock, struct err *err)
{
	int r = give_up(err);

	*ret_has_landlock = landlock_abi() > 0;
	if (r >= 0 && *ret_has_landlock)
		r = enter_landlock(state, profiles, profiles_n, err);
	return r < 0 ? err_wrap(err, "confine") : 0;
}

int confine_egress(const struct confine_egress *c, bool *ret_has_landlock, struct err *err)
{
	int r = give_up(err);

	*ret_has_landlock = landlock_abi() > 0;
	if (r >= 0 && *ret_has_landlock)
		r = enter_landlock_egress(c, err);
	return r < 0 ? err_wrap(err, "confine") : 0;
}
