/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup_v2 - the control files of the unified hierarchy, and making them appear.
 *
 * A child directory has a controller's files only if its parent lists the controller in
 * cgroup.subtree_control, and a cgroup other than the root can list one only while no process
 * sits in it directly ("no internal processes"): hence the move of cgroup_v2_enable().
 */
#include "sys/cgroup_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cgroup_cpu_quota(uint64_t cpu_milli, uint64_t *ret_quota, uint64_t *ret_period)
{
	/*
	 * 100 ms is the kernel's own period. It takes no quota below 1 ms, so shares under
	 * a hundredth of a cpu are spread over the longest period it takes, 1 s.
	 */
	*ret_period = cpu_milli < 10 ? 1000000 : 100000;
	*ret_quota = cpu_milli * (*ret_period / 1000);
}

/* /proc/swaps has a heading line; anything below it is a swap area. */
static bool has_swap(void)
{
	char text[CGROUP_TEXT_MAX];
	const char *line;

	if (cgroup_get("/proc", "swaps", text, sizeof(text)) <= 0)
		return false;
	line = strchr(text, '\n');
	return line && line[1] != '\0';
}

static int apply_memory(const char *leaf, uint64_t max, struct err *err)
{
	struct err swap_err = {0};
	/* Without this the excess over memory.max is paged out, not refused. */
	int r = cgroup_put_number(leaf, "memory.swap.max", 0, &swap_err);

	/* Not there without swap accounting, which is no loss where there is no swap. */
	if (r < 0 && (r != -ENOENT || has_swap())) {
		*err = swap_err;
		return r;
	}
	return cgroup_put_number(leaf, "memory.max", max, err);
}

static int apply_cpu(const char *leaf, uint64_t milli, struct err *err)
{
	char value[64];
	uint64_t quota;
	uint64_t period;

	cgroup_cpu_quota(milli, &quota, &period);
	(void)snprintf(value, sizeof(value), "%" PRIu64 " %" PRIu64, quota, period);
	return cgroup_put(leaf, "cpu.max", value, err);
}

static int apply_io(const char *leaf, uint64_t bps, struct err *err)
{
	struct cgroup_disks disks;
	size_t limited = 0;
	int r = cgroup_disks_read(&disks, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < disks.n; i++) {
		char value[96];
		struct err one = {0};

		(void)snprintf(value, sizeof(value), "%s rbps=%" PRIu64 " wbps=%" PRIu64,
			disks.id[i], bps, bps);
		r = cgroup_put(leaf, "io.max", value, &one);
		/* Gone since the listing, or a driver without a queue to throttle. */
		if (r == -ENODEV || r == -ENXIO)
			continue;
		if (r < 0) {
			*err = one;
			return r;
		}
		limited++;
	}
	if (limited == 0)
		return err_set(err, EOPNOTSUPP, "no block device can be throttled");
	return 0;
}

int cgroup_v2_apply(
	const char *leaf, unsigned controller, const struct cgroup_limits *l, struct err *err)
{
	switch (controller) {
	case CGROUP_MEMORY: return apply_memory(leaf, l->memory_max, err);
	case CGROUP_CPU: return apply_cpu(leaf, l->cpu_milli, err);
	case CGROUP_PIDS: return cgroup_put_number(leaf, "pids.max", l->pids_max, err);
	case CGROUP_IO: return apply_io(leaf, l->io_bps, err);
	default: return err_set(err, EINVAL, "controller bit %#x", controller);
	}
}

static int read_memory(const char *leaf, uint64_t *ret)
{
	uint64_t swap = 0;
	uint64_t max;
	int r = cgroup_get_number(leaf, "memory.max", &max);

	if (r < 0)
		return r;
	r = cgroup_get_number(leaf, "memory.swap.max", &swap);
	if (r == -ENOENT && has_swap())
		swap = UINT64_MAX;
	/* A limit beside which swap may still grow is not the limit we promise. */
	*ret = max == UINT64_MAX || swap != 0 ? 0 : max;
	return 0;
}

/* "20000 100000", or "max 100000" */
static int read_cpu(const char *leaf, uint64_t *ret)
{
	char text[64];
	const char *p = text;
	uint64_t quota;
	uint64_t period;
	int r = cgroup_get(leaf, "cpu.max", text, sizeof(text));

	if (r < 0)
		return r;
	*ret = 0;
	if (strncmp(text, "max ", 4) == 0)
		return 0;
	if (!cgroup_scan_number(&p, &quota) || *p++ != ' ' || !cgroup_scan_number(&p, &period) ||
		period == 0)
		return -EBADMSG;
	*ret = quota * 1000 / period;
	return 0;
}

/* The weakest limit; a device with one side open ("wbps=max") has none. */
static int read_io(const char *leaf, uint64_t *ret)
{
	static const char *const key[] = {" rbps=", " wbps="};
	char text[CGROUP_TEXT_MAX];
	uint64_t weakest = 0;
	int r = cgroup_get(leaf, "io.max", text, sizeof(text));

	if (r < 0)
		return r;
	for (size_t k = 0; k < 2; k++) {
		for (const char *p = strstr(text, key[k]); p; p = strstr(p, key[k])) {
			uint64_t bps;

			p += strlen(key[k]);
			if (!cgroup_scan_number(&p, &bps)) {
				*ret = 0;
				return 0;
			}
			if (bps > weakest)
				weakest = bps;
		}
	}
	*ret = weakest;
	return 0;
}

int cgroup_v2_limit(
	const char *leaf, unsigned controller, struct cgroup_limits *ret, struct err *err)
{
	uint64_t max = 0;
	int r;

	switch (controller) {
	case CGROUP_MEMORY: r = read_memory(leaf, &ret->memory_max); break;
	case CGROUP_CPU: r = read_cpu(leaf, &ret->cpu_milli); break;
	case CGROUP_PIDS:
		r = cgroup_get_number(leaf, "pids.max", &max);
		ret->pids_max = max == UINT64_MAX ? 0 : max;
		break;
	case CGROUP_IO: r = read_io(leaf, &ret->io_bps); break;
	default: r = -EINVAL; break;
	}
	if (r < 0)
		return err_set(err, -r, "read limits of '%s': %s", leaf, strerror(-r));
	return 0;
}

/* "8:0 rbytes=1 wbytes=2 rios=…" per device. */
static uint64_t sum_writes(const char *text)
{
	static const char word[] = " wbytes=";
	uint64_t sum = 0;

	for (const char *p = strstr(text, word); p; p = strstr(p, word)) {
		uint64_t n;

		p += sizeof(word) - 1;
		if (cgroup_scan_number(&p, &n))
			sum += n;
	}
	return sum;
}

void cgroup_v2_usage(const char *leaf, struct cgroup_usage *ret)
{
	char text[CGROUP_TEXT_MAX];
	uint64_t n;

	if (cgroup_get_number(leaf, "memory.current", &n) == 0)
		ret->memory = n;
	if (cgroup_get_number(leaf, "memory.peak", &n) == 0)
		ret->memory_peak = n;
	if (cgroup_get(leaf, "memory.events", text, sizeof(text)) > 0)
		(void)cgroup_find_key(text, "oom_kill", &ret->oom_kills);
	if (cgroup_get(leaf, "cpu.stat", text, sizeof(text)) > 0)
		(void)cgroup_find_key(text, "usage_usec", &ret->cpu_us);
	if (cgroup_get(leaf, "pids.events", text, sizeof(text)) > 0)
		(void)cgroup_find_key(text, "max", &ret->pids_refused);
	if (cgroup_get(leaf, "io.stat", text, sizeof(text)) > 0)
		ret->io_written = sum_writes(text);
}

static int move_aside(struct cgroup_parent *parent, const char *name, struct err *err)
{
	int r;

	(void)snprintf(parent->self, sizeof(parent->self), "%s/%s.self", parent->path, name);
	if (mkdir(parent->self, 0755) < 0)
		return err_sys(err, "mkdir '%s'", parent->self);
	r = cgroup_put(parent->self, "cgroup.procs", "0", err);
	if (r < 0)
		(void)rmdir(parent->self);
	return r;
}

static void move_back(const struct cgroup_parent *parent)
{
	struct err ignored = {0};

	/* Refused when another process has a controller on here: then we stay, harmlessly. */
	(void)cgroup_put(parent->path, "cgroup.procs", "0", &ignored);
	(void)rmdir(parent->self);
}

int cgroup_v2_enable(struct cgroup_parent *parent, const char *name, unsigned controllers,
	unsigned *ret_got, struct err *err)
{
	bool moved = false;
	int r = 0;

	*ret_got = 0;
	if (parent->must_move && parent->movers == 0) {
		r = move_aside(parent, name, err);
		if (r < 0)
			return r;
		moved = true;
	}
	/* One at a time, so that one the kernel refuses does not take the others with it. */
	for (size_t i = 0; i < CGROUP_COUNT; i++) {
		unsigned bit = 1u << i;
		char value[16];

		if ((controllers & bit & ~parent->enabled) == 0)
			continue;
		(void)snprintf(value, sizeof(value), "+%s", cgroup_controller_name[i]);
		r = cgroup_put(parent->path, "cgroup.subtree_control", value, err);
		if (r == 0) {
			parent->enabled |= bit;
			parent->added |= bit;
		}
	}
	*ret_got = controllers & parent->enabled;
	if (moved && *ret_got == 0)
		move_back(parent);
	else if (parent->must_move)
		parent->movers++;
	return *ret_got == controllers ? 0 : r;
}

void cgroup_v2_restore(struct cgroup_parent *parent)
{
	struct err ignored = {0};

	if (!parent->must_move || parent->movers == 0 || --parent->movers > 0)
		return;
	for (size_t i = 0; i < CGROUP_COUNT; i++) {
		unsigned bit = 1u << i;
		char value[16];

		if ((parent->added & bit) == 0)
			continue;
		(void)snprintf(value, sizeof(value), "-%s", cgroup_controller_name[i]);
		if (cgroup_put(parent->path, "cgroup.subtree_control", value, &ignored) == 0)
			parent->enabled &= ~bit;
	}
	parent->added = 0;
	move_back(parent);
}
