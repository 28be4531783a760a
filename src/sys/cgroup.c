/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup - the life of a sandbox's leaves: create, enter, read back, kill, remove.
 *
 * Asks cgroup_tree where, cgroup_v1 and cgroup_v2 how, cgroup_reap to end it.
 */
#include "sys/cgroup.h"

#include "base/mem.h"
#include "sys/cgroup_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAMED_PREFIX "bawn-box-" /* never what cgroup_make_name() makes, which the sweep takes */

#define REMOVE_MS 5000 /* a killed tree that has not ended by then is stuck in the kernel */

struct leaf {
	char path[CGROUP_LEAF_MAX];
	struct cgroup_parent *parent; /* borrowed from the tree */
	unsigned controllers;         /* whose limit was written here */
	int fd;                       /* v2: the directory, O_PATH; v1: its "tasks" file; owned */
};

struct cgroup {
	char name[CGROUP_NAME_MAX];
	struct leaf leaf[CGROUP_COUNT];
	size_t n;
	bool is_named; /* others stand beside it that this process does not know of */
};

enum cgroup_kind cgroup_detect(unsigned *ret_controllers)
{
	const struct cgroup_tree *tree = cgroup_tree_get();

	*ret_controllers = tree->controllers;
	return tree->kind;
}

static unsigned wanted_by(const struct cgroup_limits *l)
{
	return (l->memory_max > 0 ? CGROUP_MEMORY : 0u) | (l->cpu_milli > 0 ? CGROUP_CPU : 0u) |
	       (l->pids_max > 0 ? CGROUP_PIDS : 0u) | (l->io_bps > 0 ? CGROUP_IO : 0u);
}

static uint64_t limit_of(const struct cgroup_limits *l, unsigned controller)
{
	switch (controller) {
	case CGROUP_MEMORY: return l->memory_max;
	case CGROUP_CPU: return l->cpu_milli;
	case CGROUP_PIDS: return l->pids_max;
	case CGROUP_IO: return l->io_bps;
	default: return 0;
	}
}

static int refuse_missing(const struct cgroup_tree *tree, unsigned missing, struct err *err)
{
	const char *name = cgroup_controller_name[__builtin_ctz(missing)];

	if ((tree->mounted & missing & -missing) == 0)
		return err_set(err, EOPNOTSUPP, "cgroup controller '%s' is not mounted", name);
	return err_set(err, EACCES, "cgroup controller '%s' is not delegated to uid %u", name,
		(unsigned)geteuid());
}

/* Write each limit; what fails is an error if required, else left out. */
static int apply(struct leaf *leaf, const struct cgroup_limits *limits, unsigned wanted,
	unsigned required, struct err *err)
{
	for (size_t i = 0; i < CGROUP_COUNT; i++) {
		unsigned bit = 1u << i;
		struct err one = {0};
		int r;

		if ((wanted & bit) == 0)
			continue;
		if (limit_of(limits, bit) == 0)
			r = 0; /* only counted */
		else if (leaf->parent->is_v2)
			r = cgroup_v2_apply(leaf->path, bit, limits, &one);
		else
			r = cgroup_v1_apply(leaf->path, bit, limits, &one);
		if (r == 0) {
			leaf->controllers |= bit;
		} else if ((required & bit) != 0) {
			*err = one;
			return r;
		}
	}
	return 0;
}

static int open_entrance(struct leaf *leaf, struct err *err)
{
	char tasks[CGROUP_LEAF_MAX + 8];

	if (leaf->parent->is_v2) {
		leaf->fd = open(leaf->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	} else {
		(void)snprintf(tasks, sizeof(tasks), "%s/tasks", leaf->path);
		leaf->fd = open(tasks, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (leaf->fd < 0)
		return err_sys(err, "open cgroup '%s'", leaf->path);
	return 0;
}

/* Make one leaf. It is kept in cg only if at least one controller came of it. */
static int add_leaf(struct cgroup *cg, struct cgroup_parent *parent,
	const struct cgroup_limits *limits, unsigned wanted, unsigned required, struct err *err)
{
	struct leaf leaf = {.parent = parent, .fd = -EBADF};
	struct err refused = {0};
	unsigned got = wanted;
	int r;

	if (parent->is_v2) {
		r = cgroup_v2_enable(parent, cg->name, wanted, &got, &refused);
		if (r < 0 && (wanted & ~got & required) != 0) {
			*err = refused;
			goto undo_enable;
		}
		if (got == 0)
			return 0;
	}
	(void)snprintf(leaf.path, sizeof(leaf.path), "%s/%s", parent->path, cg->name);
	if (mkdir(leaf.path, 0755) < 0) {
		r = err_sys(&refused, "mkdir '%s'", leaf.path);
		if ((wanted & required) != 0)
			*err = refused;
		else
			r = 0;
		goto undo_enable;
	}
	r = open_entrance(&leaf, err);
	if (r == 0)
		r = apply(&leaf, limits, got, required, err);
	if (r < 0 || leaf.controllers == 0)
		goto undo_mkdir;
	cg->leaf[cg->n++] = leaf;
	return 0;

undo_mkdir:
	closep(&leaf.fd);
	(void)rmdir(leaf.path);
undo_enable:
	if (parent->is_v2 && !cg->is_named)
		cgroup_v2_restore(parent);
	return r;
}

static int create(struct cgroup *take, const struct cgroup_limits *limits, unsigned wanted,
	unsigned required, struct cgroup **ret, struct err *err)
{
	struct cgroup_tree *tree = cgroup_tree_get();
	AUTO(cgroup_free) struct cgroup *cg = take;
	struct err ignored = {0};
	int r = 0;

	if ((required & ~tree->controllers) != 0)
		return refuse_missing(tree, required & ~tree->controllers, err);
	for (size_t i = 0; r == 0 && i < tree->n; i++) {
		unsigned here = wanted & tree->parent[i].controllers;

		if (here != 0)
			r = add_leaf(cg, &tree->parent[i], limits, here, required, err);
	}
	if (r < 0) {
		(void)cgroup_remove(cg, &ignored);
		return err_wrap(err, "cgroup");
	}
	*ret = TAKE_PTR(cg);
	return 0;
}

int cgroup_create(const struct cgroup_limits *limits, unsigned controllers_required,
	struct cgroup **ret, struct err *err)
{
	AUTO(cgroup_free) struct cgroup *cg = MEM_NEW(struct cgroup);
	unsigned wanted = wanted_by(limits);
	int r = cgroup_make_name(cg->name, err);

	if (r < 0)
		return err_wrap(err, "cgroup");
	return create(TAKE_PTR(cg), limits, wanted, wanted & controllers_required, ret, err);
}

static int take_name(struct cgroup *cg, const char *name, struct err *err)
{
	size_t n = strlen(name);

	/* Also keeps a name from leading out of the parent directory. */
	if (strncmp(name, NAMED_PREFIX, strlen(NAMED_PREFIX)) != 0 || n >= sizeof(cg->name) ||
		strchr(name, '/'))
		return err_set(err, EINVAL, "cgroup: not a name for a leaf");
	memcpy(cg->name, name, n + 1);
	cg->is_named = true;
	return 0;
}

int cgroup_create_named(const char *name, const struct cgroup_limits *limits,
	unsigned controllers_required, struct cgroup **ret, struct err *err)
{
	AUTO(cgroup_free) struct cgroup *cg = MEM_NEW(struct cgroup);
	unsigned wanted = wanted_by(limits);
	unsigned counted = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS;
	int r = take_name(cg, name, err);

	if (r < 0)
		return r;
	counted &= cgroup_tree_get()->controllers;
	return create(
		TAKE_PTR(cg), limits, wanted | counted, wanted & controllers_required, ret, err);
}

int cgroup_find(const char *name, struct cgroup **ret, struct err *err)
{
	struct cgroup_tree *tree = cgroup_tree_get();
	AUTO(cgroup_free) struct cgroup *cg = MEM_NEW(struct cgroup);
	int r = take_name(cg, name, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < tree->n; i++) {
		struct leaf leaf = {.parent = &tree->parent[i], .fd = -EBADF};

		(void)snprintf(leaf.path, sizeof(leaf.path), "%s/%s", leaf.parent->path, name);
		leaf.controllers = leaf.parent->controllers;
		if (access(leaf.path, F_OK) == 0)
			cg->leaf[cg->n++] = leaf;
	}
	if (cg->n == 0)
		return err_set(err, ENOENT, "cgroup: no leaf '%s'", name);
	*ret = TAKE_PTR(cg);
	return 0;
}

unsigned cgroup_controllers(const struct cgroup *cg)
{
	unsigned all = 0;

	for (size_t i = 0; i < cg->n; i++)
		all |= cg->leaf[i].controllers;
	return all;
}

const char *cgroup_name(const struct cgroup *cg)
{
	return cg->name;
}

int cgroup_clone_fd(const struct cgroup *cg)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->leaf[i].parent->is_v2)
			return cg->leaf[i].fd;
	return -EBADF;
}

int cgroup_join_self(const struct cgroup *cg, struct err *err)
{
	for (size_t i = 0; i < cg->n; i++) {
		if (cg->leaf[i].parent->is_v2)
			continue;
		/*
		 * "0" in "tasks" moves the writing thread alone, and since 5.16 the kernel then
		 * skips cgroup_threadgroup_rwsem; "cgroup.procs", or a number, does not.
		 */
		if (write(cg->leaf[i].fd, "0", 1) < 0)
			return err_sys(err, "cgroup: join '%s'", cg->leaf[i].path);
	}
	return 0;
}

int cgroup_join(const struct cgroup *cg, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < cg->n; i++) {
		int r = cgroup_put_number(cg->leaf[i].path, "cgroup.procs", (uint64_t)pid, err);

		if (r < 0)
			return err_wrap(err, "cgroup: join");
	}
	return 0;
}

int cgroup_read_limits(const struct cgroup *cg, struct cgroup_limits *ret, struct err *err)
{
	struct cgroup_limits limits = {0};

	for (size_t i = 0; i < cg->n; i++) {
		const struct leaf *leaf = &cg->leaf[i];

		for (unsigned bit = 1; bit < 1u << CGROUP_COUNT; bit <<= 1) {
			int r = 0;

			if ((leaf->controllers & bit) == 0)
				continue;
			r = leaf->parent->is_v2 ? cgroup_v2_limit(leaf->path, bit, &limits, err)
						: cgroup_v1_limit(leaf->path, bit, &limits, err);
			if (r < 0)
				return err_wrap(err, "cgroup");
		}
	}
	*ret = limits;
	return 0;
}

int cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret, struct err *err)
{
	struct cgroup_usage usage = {0};

	for (size_t i = 0; i < cg->n; i++) {
		const struct leaf *leaf = &cg->leaf[i];

		if (access(leaf->path, F_OK) < 0)
			return err_sys(err, "cgroup: read usage of '%s'", leaf->path);
		if (leaf->parent->is_v2)
			cgroup_v2_usage(leaf->path, &usage);
		else
			cgroup_v1_usage(
				leaf->path, leaf->controllers, leaf->parent->has_cpuacct, &usage);
	}
	*ret = usage;
	return 0;
}

bool cgroup_contains(const struct cgroup *cg, pid_t pid)
{
	return cgroup_pid_in(pid, cg->name, cg->n);
}

int cgroup_kill(const struct cgroup *cg, struct err *err)
{
	uint64_t deadline_ms = cgroup_now_ms() + REMOVE_MS;
	int r = 0;

	for (size_t i = 0; r == 0 && i < cg->n; i++)
		r = cgroup_kill_leaf(
			cg->leaf[i].path, cg->name, cg->leaf[i].parent->is_v2, deadline_ms, err);
	return r < 0 ? err_wrap(err, "cgroup") : 0;
}

int cgroup_remove(struct cgroup *cg, struct err *err)
{
	uint64_t deadline_ms = cgroup_now_ms() + REMOVE_MS;
	int result = 0;
	size_t kept = 0;

	/* One that will not go must not keep the others here. */
	for (size_t i = 0; i < cg->n; i++) {
		struct leaf *leaf = &cg->leaf[i];
		struct err one = {0};
		int r = cgroup_remove_leaf(
			leaf->path, cg->name, leaf->parent->is_v2, deadline_ms, &one);

		if (r < 0) {
			if (result == 0)
				*err = one;
			result = r;
			cg->leaf[kept++] = *leaf;
			continue;
		}
		closep(&leaf->fd);
		if (leaf->parent->is_v2 && !cg->is_named)
			cgroup_v2_restore(leaf->parent);
	}
	cg->n = kept;
	return result < 0 ? err_wrap(err, "cgroup") : 0;
}

struct cgroup *cgroup_free(struct cgroup *cg)
{
	for (size_t i = 0; cg && i < cg->n; i++)
		closep(&cg->leaf[i].fd);
	free(cg);
	return NULL;
}
