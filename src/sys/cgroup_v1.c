/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup_v1 - the control files of v1 hierarchies (also the v1 half of a hybrid machine).
 *
 * Knows files, not directories: sys/cgroup decides where a leaf is. No state.
 */
#include "sys/cgroup_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int apply_memory(const char *leaf, uint64_t max, struct err *err)
{
	struct err swap_err = {0};
	int r = cgroup_put_number(leaf, "memory.limit_in_bytes", max, err);

	/* What the limit pushes out must not go to swap: a sandbox that swaps harms everyone. */
	if (r == 0)
		r = cgroup_put_number(leaf, "memory.swappiness", 0, err);
	if (r < 0)
		return r;
	/*
	 * memory + swap together, so the same number leaves no room for swap. It must not be
	 * below memory.limit_in_bytes at any moment, so it comes second. Absent without
	 * swapaccount; swappiness 0 then stands alone.
	 */
	r = cgroup_put_number(leaf, "memory.memsw.limit_in_bytes", max, &swap_err);
	if (r < 0 && r != -ENOENT && r != -EOPNOTSUPP) {
		*err = swap_err;
		return r;
	}
	return 0;
}

static int apply_cpu(const char *leaf, uint64_t milli, struct err *err)
{
	uint64_t quota;
	uint64_t period;
	int r = 0;

	cgroup_cpu_quota(milli, &quota, &period);
	if (period != 100000) /* a fresh leaf has 100 ms */
		r = cgroup_put_number(leaf, "cpu.cfs_period_us", period, err);
	if (r == 0)
		r = cgroup_put_number(leaf, "cpu.cfs_quota_us", quota, err);
	return r;
}

static int apply_io(const char *leaf, uint64_t bps, struct err *err)
{
	static const char *const file[] = {
		"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"};
	struct cgroup_disks disks;
	size_t limited = 0;
	int r = cgroup_disks_read(&disks, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < disks.n; i++) {
		char value[64];

		(void)snprintf(value, sizeof(value), "%s %" PRIu64, disks.id[i], bps);
		for (size_t k = 0; k < 2; k++) {
			struct err one = {0};

			r = cgroup_put(leaf, file[k], value, &one);
			/* Gone since the listing, or a driver without a queue to throttle. */
			if (r == -ENODEV || r == -ENXIO)
				continue;
			if (r < 0) {
				*err = one;
				return r;
			}
			limited++;
		}
	}
	if (limited == 0)
		return err_set(err, EOPNOTSUPP, "no block device can be throttled");
	return 0;
}

int cgroup_v1_apply(
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
	uint64_t with_swap;
	uint64_t max;
	int r = cgroup_get_number(leaf, "memory.limit_in_bytes", &max);

	if (r < 0)
		return r;
	/* "No limit" reads as the largest page-aligned 63-bit number. */
	if (max >= (uint64_t)INT64_MAX - 65536)
		max = 0;
	/* A limit beside which swap may still grow is not the limit we promise. */
	if (cgroup_get_number(leaf, "memory.memsw.limit_in_bytes", &with_swap) == 0 &&
		with_swap > max)
		max = 0;
	*ret = max;
	return 0;
}

static int read_cpu(const char *leaf, uint64_t *ret)
{
	uint64_t quota = 0;
	uint64_t period = 0;
	int r = cgroup_get_number(leaf, "cpu.cfs_quota_us", &quota);

	if (r == 0)
		r = cgroup_get_number(leaf, "cpu.cfs_period_us", &period);
	if (r < 0)
		return r;
	*ret = quota == UINT64_MAX || period == 0 ? 0 : quota * 1000 / period;
	return 0;
}

/* The weakest limit among the devices named; 0 if none is. Lines are "8:0 1048576". */
static int read_io(const char *leaf, const char *file, uint64_t *ret)
{
	char text[CGROUP_TEXT_MAX];
	uint64_t weakest = 0;
	int r = cgroup_get(leaf, file, text, sizeof(text));

	if (r < 0)
		return r;
	for (const char *p = strchr(text, ' '); p; p = strchr(p, ' ')) {
		uint64_t bps;

		p++;
		if (cgroup_scan_number(&p, &bps) && bps > weakest)
			weakest = bps;
	}
	*ret = weakest;
	return 0;
}

int cgroup_v1_limit(
	const char *leaf, unsigned controller, struct cgroup_limits *ret, struct err *err)
{
	uint64_t max = 0;
	uint64_t reading = 0;
	uint64_t writing = 0;
	int r;

	switch (controller) {
	case CGROUP_MEMORY: r = read_memory(leaf, &ret->memory_max); break;
	case CGROUP_CPU: r = read_cpu(leaf, &ret->cpu_milli); break;
	case CGROUP_PIDS:
		r = cgroup_get_number(leaf, "pids.max", &max);
		ret->pids_max = max == UINT64_MAX ? 0 : max;
		break;
	case CGROUP_IO:
		r = read_io(leaf, "blkio.throttle.read_bps_device", &reading);
		if (r == 0)
			r = read_io(leaf, "blkio.throttle.write_bps_device", &writing);
		ret->io_bps = reading == 0 || writing == 0 ? 0
			      : reading > writing          ? reading
							   : writing;
		break;
	default: r = -EINVAL; break;
	}
	if (r < 0)
		return err_set(err, -r, "read limits of '%s': %s", leaf, strerror(-r));
	return 0;
}

/* Lines are "8:0 Write 4096"; the last is the "Total" of all. */
static uint64_t sum_writes(const char *text)
{
	static const char word[] = " Write ";
	uint64_t sum = 0;

	for (const char *p = strstr(text, word); p; p = strstr(p, word)) {
		uint64_t n;

		p += sizeof(word) - 1;
		if (cgroup_scan_number(&p, &n))
			sum += n;
	}
	return sum;
}

void cgroup_v1_usage(
	const char *leaf, unsigned controllers, bool has_cpuacct, struct cgroup_usage *ret)
{
	char text[CGROUP_TEXT_MAX];
	uint64_t n;

	if ((controllers & CGROUP_MEMORY) != 0) {
		if (cgroup_get_number(leaf, "memory.usage_in_bytes", &n) == 0)
			ret->memory = n;
		if (cgroup_get_number(leaf, "memory.max_usage_in_bytes", &n) == 0)
			ret->memory_peak = n;
		if (cgroup_get(leaf, "memory.oom_control", text, sizeof(text)) > 0)
			(void)cgroup_find_key(text, "oom_kill", &ret->oom_kills);
	}
	if ((controllers & CGROUP_PIDS) != 0 &&
		cgroup_get(leaf, "pids.events", text, sizeof(text)) > 0)
		(void)cgroup_find_key(text, "max", &ret->pids_refused);
	if ((controllers & CGROUP_IO) != 0 &&
		cgroup_get(leaf, "blkio.throttle.io_service_bytes", text, sizeof(text)) > 0)
		ret->io_written = sum_writes(text);
	/* In nanoseconds, unlike its v2 cousin. */
	if (has_cpuacct && cgroup_get_number(leaf, "cpuacct.usage", &n) == 0)
		ret->cpu_us = n / 1000;
}
