/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tests/unit/run/plan_fixture - a spec, a machine and a caller described by hand, the plan built
 * from them, and ways to look into it. One set for each program: build(), look, done().
 */
#include "run/process/plan.h"

#include "base/mem.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct spec s;
static struct plan_facts f;
static struct host_view v;
static struct plan p;
static struct err err;

static inline void list(struct strv *l, const char *text)
{
	CHECK(strv_add(l, text, &err) >= 0);
}

static inline void add_host_mount(const char *path, const char *type)
{
	f.mounts = mem_must(realloc(f.mounts, (f.mounts_n + 1) * sizeof(*f.mounts)));
	f.mounts[f.mounts_n++] =
		(struct plan_mount){.path = mem_strdup(path), .type = mem_strdup(type)};
}

/* Root of the machine, cgroup v2 with everything, in ~/p of the host view. */
static inline void as_root(void)
{
	memset(&v, 0, sizeof(v));
	memset(&p, 0, sizeof(p));
	err = (struct err){0};
	spec_init(&s);
	s.work_dir = mem_strdup("/home/ann/p");
	list(&s.argv, "true");
	f = (struct plan_facts){
		.is_host_root = true,
		.range_first = 0x70010000,
		.cgroup = CGROUP_V2,
		.cgroup_controllers = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS | CGROUP_IO,
		.landlock_abi = 6,
		.template_fd = -EBADF,
		.has_cpu_dir = true,
		.has_dpkg = true,
		.box_user = mem_strdup("root"),
		.box_home = mem_strdup("/root"),
		.box_shell = mem_strdup("/bin/sh"),
	};
	add_host_mount("/", "ext4");
	list(&v.writable, "/home/ann/p");
}

/* The same as user 1000 without a cgroup to write to. */
static inline void as_user(void)
{
	as_root();
	f.is_host_root = false;
	f.range_first = 0;
	f.uid = f.box_uid = 1000;
	f.gid = f.box_gid = 1001;
	f.cgroup = CGROUP_NONE;
	f.cgroup_controllers = 0;
}

static inline void in_base(uid_t uid)
{
	s.root = SPEC_ROOT_BASE;
	f.template_dir = mem_strdup("/var/lib/bawn/templates/base-1");
	f.box_uid = uid;
	f.box_gid = uid;
	strv_done(&v.writable);
	v.writable = (struct strv){0};
	free(s.work_dir);
	s.work_dir = NULL;
}

static inline int build(void)
{
	return plan_build(&s, &f, &v, true, &p, &err);
}

static inline void done(void)
{
	plan_done(&p);
	plan_facts_done(&f);
	spec_done(&s);
	host_view_done(&v);
}

/* The n-th operation of that kind (path NULL: any path), or NULL. */
static inline const struct op *find_nth(enum op_kind kind, const char *path, size_t n)
{
	for (size_t i = 0; i < p.n; i++) {
		const struct op *op = &p.ops[i];

		if (op->kind != kind || (path && (!op->path || strcmp(op->path, path) != 0)))
			continue;
		if (n-- == 0)
			return op;
	}
	return NULL;
}

static inline const struct op *find(enum op_kind kind, const char *path)
{
	return find_nth(kind, path, 0);
}

/* The one that must be there. */
static inline const struct op *the(enum op_kind kind, const char *path)
{
	static const struct op none = {.kind = OP_COUNT, .slot = -1, .path = NULL};
	const struct op *op = find(kind, path);

	if (!CHECK(op != NULL))
		tap_print("# no '%s' at '%s'\n", op_kind_name(kind), path ? path : "");
	return op ? op : &none;
}

static inline size_t count(enum op_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < p.n; i++)
		n += p.ops[i].kind == kind;
	return n;
}

static inline size_t count_wall(enum wall w)
{
	size_t n = 0;

	for (size_t i = 0; i < p.n; i++)
		n += p.ops[i].wall == w;
	return n;
}

/* True if both are there and the first stands before the second. */
static inline bool before(const struct op *a, const struct op *b)
{
	return a && b && a < b;
}

/* What is attached at path: the operation that made its slot. */
static inline const struct op *maker_of(const char *path)
{
	const struct op *at = find(OP_ATTACH, path);

	for (size_t i = 0; at && i < p.n; i++) {
		const struct op *op = &p.ops[i];

		if (op->slot == at->slot &&
			(op->kind == OP_TREE || op->kind == OP_TMPFS || op->kind == OP_OVERLAY))
			return op;
	}
	return NULL;
}

static inline const struct op *rlimit(int resource)
{
	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].kind == OP_RLIMIT && p.ops[i].number == (unsigned)resource)
			return &p.ops[i];
	return NULL;
}
