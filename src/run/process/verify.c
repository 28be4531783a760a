/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/verify - requested against enforced: each wall read back from the kernel before
 * the command runs, and a refusal if a required one is not there.
 */
#include "run/process/box_impl.h"
#include "sys/landlock.h"

#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

static void set(struct wall_record *w, enum wall_verdict v, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void set(struct wall_record *w, enum wall_verdict v, const char *fmt, ...)
{
	va_list ap;

	w->enforced = v;
	va_start(ap, fmt);
	(void)vsnprintf(w->detail, sizeof(w->detail), fmt, ap);
	va_end(ap);
}

static enum wall_verdict is(bool held)
{
	return held ? WALL_VERDICT_ENFORCED : WALL_VERDICT_MISSING;
}

static uint64_t inside_number(const struct box *b, int i)
{
	return b->readback.namespaces[i] ? b->readback.namespaces[i] : b->box_namespaces[i];
}

static void namespaces(const struct box *b, struct wall_record *w)
{
	static const enum wall walls[WIRE_NS_COUNT] = {
		[WIRE_NS_USER] = WALL_USER,
		[WIRE_NS_MNT] = WALL_MOUNT,
		[WIRE_NS_PID] = WALL_PID,
		[WIRE_NS_NET] = WALL_NET,
		[WIRE_NS_IPC] = WALL_IPC,
		[WIRE_NS_UTS] = WALL_UTS,
		[WIRE_NS_CGROUP] = WALL_CGROUPNS,
	};

	for (int i = 0; i < WIRE_NS_COUNT; i++) {
		uint64_t outside = b->own_namespaces[i];
		uint64_t inside = inside_number(b, i);
		bool is_own = inside != 0 && outside != 0 && inside != outside;

		set(&w[walls[i]], is(is_own), "%s:[%llu]", wire_namespace_names[i],
			(unsigned long long)inside);
	}
	/* What is not in it: nothing that leads out is up. */
	if (w[WALL_NET].enforced == WALL_VERDICT_ENFORCED)
		set(&w[WALL_NET], is(b->readback.links <= 1), "net:[%llu], %s%s",
			(unsigned long long)inside_number(b, WIRE_NS_NET),
			b->spec->want_loopback ? "lo only" : "empty",
			b->spec->want_road ? ", road" : "");
}

static void ids(const struct box *b, struct wall_record *w)
{
	const struct userns_map *m = &b->plan.map;

	if (m->uid_n == 0)
		set(w, WALL_VERDICT_MISSING, "no id map");
	else if (b->is_unmapped)
		set(w, WALL_VERDICT_FALLBACK,
			"own range %u+%u; host files are nobody's: no id mapping",
			m->uid[0].outside, m->uid[0].count);
	else if (b->facts.is_host_root)
		set(w, is(m->uid[0].outside >= USERNS_RANGE_FIRST), "own range %u+%u, idmapped",
			m->uid[0].outside, m->uid[0].count);
	else if (m->by_helper)
		set(w, WALL_VERDICT_ENFORCED, "subordinate range %u", b->facts.subuid);
	else
		set(w, WALL_VERDICT_ENFORCED, "single id %u as %u", m->uid[0].outside,
			m->uid[0].inside);
}

static void files(const struct box *b, struct wall_record *w)
{
	const struct wire_readback *rb = &b->readback;
	bool is_base = b->spec->root == SPEC_ROOT_BASE;

	if (is_base)
		set(&w[WALL_ROOT], is(rb->root_type == OVERLAYFS_SUPER_MAGIC),
			"overlay of the template");
	else
		set(&w[WALL_ROOT], is(rb->is_root_readonly), "host tree read-only, %zu writable",
			b->view.writable.n);
	set(&w[WALL_MASKS], WALL_VERDICT_ENFORCED, "%zu hidden, %zu protected",
		b->view.hidden_dirs.n + b->view.hidden_files.n, b->view.protect.n);
	set(&w[WALL_PROC], is(rb->proc_type == PROC_SUPER_MAGIC && rb->are_kernel_files_masked),
		"fresh, masked");
	set(&w[WALL_DEV], is(rb->dev_type == TMPFS_MAGIC), "minimal, own devpts");
	set(&w[WALL_SYS], is(rb->sys_type != SYSFS_MAGIC), "absent but for cpu");
	set(&w[WALL_DISK], is(b->spec->limits.disk_max && rb->tmp_size <= b->spec->limits.disk_max),
		"tmpfs of %llu bytes", (unsigned long long)rb->tmp_size);
}

static void privileges(const struct box *b, struct wall_record *w)
{
	const struct wire_readback *rb = &b->readback;
	uint64_t bounding = 0;

	for (size_t i = 0; i < b->plan.n; i++)
		if (b->plan.ops[i].kind == OP_BOUND)
			bounding = b->plan.ops[i].size;
	set(&w[WALL_CAPS],
		is((rb->cap_bounding & ~bounding) == 0 && (rb->cap_effective & ~bounding) == 0),
		"bounding %016llx", (unsigned long long)rb->cap_bounding);
	set(&w[WALL_NNP], is(rb->no_new_privs == 1), "NoNewPrivs %d", rb->no_new_privs);
	set(&w[WALL_SECCOMP], is(rb->seccomp == 2), "Seccomp %d, %s", rb->seccomp,
		b->listener_fd >= 0 ? "violations reported" : "violations not reported");
	set(&w[WALL_LANDLOCK], is(rb->has_landlock), "abi %d: %s", b->facts.landlock_abi,
		landlock_describe(b->facts.landlock_abi, !b->spec->want_loopback));
}

static void limit(
	struct wall_record *w, uint64_t want, uint64_t got, bool has_fallback, const char *fallback)
{
	/* The kernel rounds to pages; a limit below what was asked is still the limit. */
	if (got > 0 && got <= want)
		set(w, WALL_VERDICT_ENFORCED, "cgroup: %llu", (unsigned long long)got);
	else if (has_fallback)
		set(w, WALL_VERDICT_FALLBACK, "no cgroup: %s", fallback);
	else
		set(w, WALL_VERDICT_MISSING, "no cgroup");
}

static void limits(const struct box *b, struct wall_record *w)
{
	const struct spec_limits *want = &b->spec->limits;
	const struct wire_readback *rb = &b->readback;
	struct cgroup_limits got = b->limits;

	limit(&w[WALL_MEMORY], want->memory_max, got.memory_max, rb->data <= want->memory_max,
		b->facts.is_resident ? "per process" : "per process, and the sum polled");
	limit(&w[WALL_CPU], want->cpu_milli, got.cpu_milli, rb->nice > 0, "lower priority only");
	limit(&w[WALL_PIDS], want->pids_max, got.pids_max, rb->nproc <= want->pids_max,
		"RLIMIT_NPROC, counted per id of the box");
	/* With one id in the box that count is the box's count. */
	if (w[WALL_PIDS].enforced == WALL_VERDICT_FALLBACK && !b->plan.map.by_helper &&
		b->plan.map.uid[0].count == 1)
		set(&w[WALL_PIDS], WALL_VERDICT_ENFORCED,
			"RLIMIT_NPROC of the user namespace: %llu", (unsigned long long)rb->nproc);
	limit(&w[WALL_IO], want->io_bps, got.io_bps, false, "");
	set(&w[WALL_RLIMITS], is(rb->core <= 1 && rb->nofile <= want->open_files),
		"%llu open files, no core dumps", (unsigned long long)rb->nofile);
}

static void rest(const struct box *b, struct wall_record *w)
{
	set(&w[WALL_FDS], WALL_VERDICT_ENFORCED, "stdio and %zu listed", b->o->pass_fds_n);
	set(&w[WALL_TTY], WALL_VERDICT_ENFORCED,
		b->master_fd >= 0 ? "own terminal" : "own session, no terminal");
	set(&w[WALL_TIME], WALL_VERDICT_ENFORCED, "%llu ms",
		(unsigned long long)b->spec->limits.timeout_ms);
}

int verify_walls(struct box *b, struct err *err)
{
	struct wall_record *w = b->result->walls;

	namespaces(b, w);
	ids(b, &w[WALL_IDS]);
	files(b, w);
	privileges(b, w);
	limits(b, w);
	rest(b, w);
	for (int i = 0; i < WALL_COUNT; i++) {
		w[i].requested = b->wanted->walls[i];
		if (w[i].requested == WALL_LEVEL_OFF)
			set(&w[i], WALL_VERDICT_OFF, "%s", "");
		else if (b->spec->walls[i] == WALL_LEVEL_OFF)
			set(&w[i], WALL_VERDICT_MISSING, "not to be had on this machine");
	}
	for (int i = 0; i < WALL_COUNT; i++)
		if (w[i].requested == WALL_LEVEL_REQUIRED &&
			(w[i].enforced == WALL_VERDICT_MISSING ||
				w[i].enforced == WALL_VERDICT_FALLBACK))
			return err_set(err, EOPNOTSUPP,
				"wall '%s' is required and not there (%s); %s; or accept without "
				"it: "
				"--wall %s=preferred",
				wall_name((enum wall)i), w[i].detail, wall_remedy((enum wall)i),
				wall_name((enum wall)i));
	return 0;
}
