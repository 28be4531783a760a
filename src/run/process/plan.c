/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan - the array of operations: how it grows, is ordered, and is freed.
 *
 * Which operations a sandbox gets is decided in plan_fs.c (mounts) and
 * plan_command.c (the command's own walls). Pure; runs in any program.
 */
#include "run/process/plan.h"

#include "base/mem.h"
#include "base/own.h"
#include "run/process/plan_build.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct op *plan_add(struct plan *p, enum op_kind kind, enum op_side side, enum wall wall)
{
	static struct op spill; /* writes past the cap land here; plan_build reports it */
	struct op *op = &spill;

	if (p->n < PLAN_OPS_MAX) {
		if ((p->n & (p->n - 1)) == 0) {
			size_t room = p->n ? p->n * 2 : 16;

			p->ops = mem_must(realloc(p->ops, room * sizeof(*p->ops)));
		}
		op = &p->ops[p->n];
	}
	p->n++;
	*op = (struct op){
		.kind = kind,
		.side = side,
		.wall = wall,
		.seq = p->n,
		.slot = -1,
		.lower = -1,
		.upper = -1,
	};
	return op;
}

int plan_slot(struct plan *p)
{
	return p->slots++;
}

/* Depth in components: mounts go from the outside in. */
static int depth(const char *path)
{
	int n = 0;

	for (const char *c = path; *c; c++)
		n += *c == '/' && c[1] != 0;
	return n;
}

/*
 * Phases: every tree is cloned before anything is mounted over it, every file system
 * is filled before it is a layer, the new root stands before anything is attached to it.
 */
static int phase(const struct op *op)
{
	int base = op->side == OP_SIDE_HOST ? 0 : 10;

	if (op->side == OP_SIDE_EARLY)
		return 9;
	if (op->side == OP_SIDE_COMMAND)
		return 30;
	switch (op->kind) {
	case OP_PRIVATE: return base;
	case OP_TREE: return base + 1;
	case OP_TMPFS:
	case OP_DIR:
	case OP_EMPTY:
	case OP_SYMLINK:
	case OP_NODE:
	case OP_SEAL: return base + 2;
	case OP_OVERLAY: return base + 3;
	case OP_ROOT: return base + 4;
	case OP_ATTACH:
	case OP_MASK:
	case OP_PIN:
	case OP_RDONLY:
	case OP_PROC:
	case OP_DEVPTS: return base + 5;
	default: return base + 6;
	}
}

static int compare(const void *va, const void *vb)
{
	const struct op *a = va, *b = vb;
	int d = phase(a) - phase(b);

	if (d == 0 && phase(a) == 15)
		d = depth(a->path) - depth(b->path);
	if (d == 0)
		d = a->seq < b->seq ? -1 : 1;
	return d;
}

static void choose_map(const struct spec *s, const struct plan_facts *f, struct plan *p)
{
	struct userns_map *m = &p->map;
	uint32_t u = f->box_uid, g = f->box_gid;

	if (s->walls[WALL_USER] == WALL_LEVEL_OFF)
		return;
	m->uid_n = m->gid_n = 1;
	if (f->is_host_root && s->walls[WALL_IDS] != WALL_LEVEL_OFF) {
		m->uid[0] = m->gid[0] =
			(struct userns_extent){0, f->range_first, USERNS_RANGE_SIZE};
		p->id_base = f->range_first;
	} else if (f->is_host_root) {
		/* ids=off: root in the box is root outside; only `bawn attack` has a use for it. */
		m->uid[0] = m->gid[0] = (struct userns_extent){0, 0, USERNS_RANGE_SIZE};
	} else if (f->subuid && f->subgid) {
		/*
		 * The command's user is the caller, so that shared directories fit; the rest is
		 * subordinate.
		 */
		m->uid_n = m->gid_n = 0;
		if (u > 0)
			m->uid[m->uid_n++] = (struct userns_extent){0, f->subuid, u};
		m->uid[m->uid_n++] = (struct userns_extent){u, f->uid, 1};
		m->uid[m->uid_n++] =
			(struct userns_extent){u + 1, f->subuid + u, USERNS_RANGE_SIZE - 1 - u};
		if (g > 0)
			m->gid[m->gid_n++] = (struct userns_extent){0, f->subgid, g};
		m->gid[m->gid_n++] = (struct userns_extent){g, f->gid, 1};
		m->gid[m->gid_n++] =
			(struct userns_extent){g + 1, f->subgid + g, USERNS_RANGE_SIZE - 1 - g};
		m->by_helper = true;
	} else {
		m->uid[0] = (struct userns_extent){u, f->uid, 1};
		m->gid[0] = (struct userns_extent){g, f->gid, 1};
	}
}

static void choose_namespaces(const struct spec *s, const struct plan_facts *f, struct plan *p)
{
	static const struct {
		enum wall wall;
		uint64_t flag;
	} bits[] = {
		{WALL_USER, CLONE_NEWUSER},
		{WALL_MOUNT, CLONE_NEWNS},
		{WALL_PID, CLONE_NEWPID},
		{WALL_NET, CLONE_NEWNET},
		{WALL_IPC, CLONE_NEWIPC},
		{WALL_UTS, CLONE_NEWUTS},
		{WALL_CGROUPNS, CLONE_NEWCGROUP},
	};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (s->walls[bits[i].wall] != WALL_LEVEL_OFF)
			p->namespaces |= bits[i].flag;
	/*
	 * A v1 leaf is joined after clone, and the namespace's root is where one stands when it is
	 * made.
	 */
	if ((p->namespaces & CLONE_NEWCGROUP) && p->want_cgroup && f->cgroup == CGROUP_V1) {
		p->namespaces &= ~(uint64_t)CLONE_NEWCGROUP;
		p->late_cgroupns = true;
	}
}

static void choose_cgroup(const struct spec *s, const struct plan_facts *f, struct plan *p)
{
	const struct {
		enum wall wall;
		unsigned bit;
		uint64_t limit;
		uint64_t *to;
		unsigned watch; /* what looks after it without the controller */
	} rows[] = {
		{WALL_MEMORY, CGROUP_MEMORY, s->limits.memory_max, &p->cgroup_limits.memory_max,
			PLAN_WATCH_MEMORY},
		{WALL_CPU, CGROUP_CPU, s->limits.cpu_milli, &p->cgroup_limits.cpu_milli,
			PLAN_WATCH_CPU},
		{WALL_PIDS, CGROUP_PIDS, s->limits.pids_max, &p->cgroup_limits.pids_max,
			PLAN_WATCH_PIDS},
		{WALL_IO, CGROUP_IO, s->limits.io_bps, &p->cgroup_limits.io_bps, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool has = f->cgroup_controllers & rows[i].bit;

		if (rows[i].limit == 0 || s->walls[rows[i].wall] == WALL_LEVEL_OFF)
			continue;
		if (has)
			*rows[i].to = rows[i].limit;
		/* io has no stand-in; the others fall back to rlimits (plan_command.c). */
		if (!has && rows[i].wall == WALL_IO && s->walls[WALL_IO] == WALL_LEVEL_REQUIRED)
			p->cgroup_required |= rows[i].bit;
		if (!has && !f->is_resident)
			p->watch |= rows[i].watch;
		p->want_cgroup |= has;
	}
	/* To count and to kill by, limits or not. */
	if (f->is_resident && (f->cgroup_controllers & (CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS)))
		p->want_cgroup = true;
}

int plan_build(const struct spec *spec, const struct plan_facts *facts,
	const struct host_view *view, bool want_explain, struct plan *ret, struct err *err)
{
	struct plan p = {.store_slot = -1};
	int r;

	choose_cgroup(spec, facts, &p);
	choose_namespaces(spec, facts, &p);
	choose_map(spec, facts, &p);
	if (p.cgroup_required)
		r = err_set(err, EOPNOTSUPP,
			"wall 'io' is required and there is no io controller; %s",
			wall_remedy(WALL_IO));
	else
		r = plan_add_filesystem(&p, spec, facts, view, err);
	if (r >= 0)
		r = plan_add_command(&p, spec, facts, view, want_explain, err);
	if (r >= 0 && (p.n > PLAN_OPS_MAX || p.slots > PLAN_SLOTS_MAX))
		r = err_set(err, E2BIG,
			"this sandbox needs %zu operations and %d mounts; at most %d and %d "
			"are accepted: give fewer paths",
			p.n, p.slots, PLAN_OPS_MAX, PLAN_SLOTS_MAX);
	if (r < 0) {
		if (p.n > PLAN_OPS_MAX)
			p.n = PLAN_OPS_MAX;
		plan_done(&p);
		return r;
	}
	qsort(p.ops, p.n, sizeof(*p.ops), compare);
	*ret = p;
	return 0;
}

void plan_set_range(struct plan *p, uint32_t first)
{
	if (p->id_base == 0)
		return;
	p->map.uid[0].outside = p->map.gid[0].outside = p->id_base = first;
}

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->ops[i].path);
		free(p->ops[i].text);
	}
	free(p->ops);
	free(p->cwd);
	strv_done(&p->argv);
	strv_done(&p->env);
	*p = (struct plan){.store_slot = -1};
}

void plan_facts_done(struct plan_facts *f)
{
	for (size_t i = 0; i < f->mounts_n; i++) {
		free(f->mounts[i].path);
		free(f->mounts[i].type);
	}
	free(f->mounts);
	free(f->template_dir);
	closep(&f->template_fd);
	free(f->box_user);
	free(f->box_home);
	free(f->box_shell);
	*f = (struct plan_facts){.template_fd = -EBADF};
}
