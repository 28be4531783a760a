/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan_print - a plan for people and for programs.
 */
#include "base/own.h"
#include "run/process/plan.h"
#include "sys/mount.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <string.h>

static const char *const kind_names[OP_COUNT] = {
	[OP_TREE] = "tree",
	[OP_TMPFS] = "tmpfs",
	[OP_OVERLAY] = "overlay",
	[OP_DIR] = "dir",
	[OP_EMPTY] = "empty",
	[OP_SYMLINK] = "symlink",
	[OP_NODE] = "node",
	[OP_SEAL] = "seal",
	[OP_PRIVATE] = "private",
	[OP_ROOT] = "root",
	[OP_ATTACH] = "attach",
	[OP_MASK] = "mask",
	[OP_PIN] = "pin",
	[OP_RDONLY] = "rdonly",
	[OP_PROC] = "proc",
	[OP_DEVPTS] = "devpts",
	[OP_PIVOT] = "pivot",
	[OP_HOSTNAME] = "hostname",
	[OP_LOOPBACK] = "loopback",
	[OP_ROAD] = "road",
	[OP_SYSCTL] = "sysctl",
	[OP_OWN] = "own",
	[OP_CGROUPNS] = "cgroupns",
	[OP_SESSION] = "session",
	[OP_RLIMIT] = "rlimit",
	[OP_NICE] = "nice",
	[OP_BOUND] = "bound",
	[OP_IDS] = "ids",
	[OP_CAPS] = "caps",
	[OP_CHDIR] = "chdir",
	[OP_FDS] = "fds",
	[OP_NNP] = "nnp",
	[OP_LANDLOCK_ALLOW] = "landlock-allow",
	[OP_LANDLOCK] = "landlock",
	[OP_SECCOMP] = "seccomp",
	[OP_EXEC] = "exec",
};

const char *op_kind_name(enum op_kind k)
{
	return kind_names[k];
}

const char *op_side_name(enum op_side s)
{
	static const char *const names[] = {
		[OP_SIDE_HOST] = "host",
		[OP_SIDE_EARLY] = "early",
		[OP_SIDE_INIT] = "init",
		[OP_SIDE_COMMAND] = "command",
	};

	return names[s];
}

static void attrs_text(unsigned attrs, char *out, size_t size)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
		{MOUNT_RDONLY, "ro"},
		{MOUNT_NOSUID, "nosuid"},
		{MOUNT_NODEV, "nodev"},
		{MOUNT_NOEXEC, "noexec"},
		{MOUNT_RECURSIVE, "recursive"},
	};
	size_t used = 0;

	out[0] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (attrs & names[i].bit)
			used += (size_t)snprintf(
				out + used, size - used, "%s%s", used ? "," : "", names[i].name);
}

static void print_line(const struct op *op, FILE *out)
{
	char attrs[64], quoted[300];

	attrs_text(op->attrs, attrs, sizeof(attrs));
	(void)fprintf(out, "%-7s  %-9s  %-14s", op_side_name(op->side), wall_name(op->wall),
		op_kind_name(op->kind));
	if (op->path)
		(void)fprintf(out, "  %s", text_quote(op->path, quoted, sizeof(quoted)));
	if (op->text)
		(void)fprintf(out, "  <- %s", text_quote(op->text, quoted, sizeof(quoted)));
	if (op->slot >= 0)
		(void)fprintf(out, "  #%d", op->slot);
	if (op->lower >= 0)
		(void)fprintf(out, " over #%d", op->lower);
	if (attrs[0])
		(void)fprintf(out, "  %s", attrs);
	if (op->idmap)
		(void)fprintf(out, "  idmapped");
	if (op->kind == OP_IDS)
		(void)fprintf(out, "  uid %u gid %u", op->uid, op->gid);
	if (op->size)
		(void)fprintf(out,
			op->kind == OP_BOUND || op->kind == OP_CAPS ? "  0x%llx" : "  %llu",
			(unsigned long long)op->size);
	(void)fprintf(out, "\n");
}

/* A path need not be UTF-8; JSON must be. */
static json_t *text_json(const char *s)
{
	char quoted[PATH_MAX];
	json_t *j = json_string(s);

	return j ? j : json_string(text_quote(s, quoted, sizeof(quoted)));
}

static json_t *op_json(const struct op *op)
{
	json_t *j = json_pack("{s:s, s:s, s:s}", "side", op_side_name(op->side), "wall",
		wall_name(op->wall), "op", op_kind_name(op->kind));
	char attrs[64];

	attrs_text(op->attrs, attrs, sizeof(attrs));
	if (op->path)
		(void)json_object_set_new(j, "path", text_json(op->path));
	if (op->text)
		(void)json_object_set_new(j, "text", text_json(op->text));
	if (op->slot >= 0)
		(void)json_object_set_new(j, "slot", json_integer(op->slot));
	if (op->lower >= 0)
		(void)json_object_set_new(j, "lower", json_integer(op->lower));
	if (attrs[0])
		(void)json_object_set_new(j, "attrs", json_string(attrs));
	if (op->idmap)
		(void)json_object_set_new(j, "idmap", json_true());
	if (op->size)
		(void)json_object_set_new(j, "size", json_integer((json_int_t)op->size));
	if (op->number)
		(void)json_object_set_new(j, "number", json_integer(op->number));
	if (op->kind == OP_IDS) {
		(void)json_object_set_new(j, "uid", json_integer(op->uid));
		(void)json_object_set_new(j, "gid", json_integer(op->gid));
	}
	return j;
}

static int print_json(const struct plan *p, FILE *out, struct err *err)
{
	json_t *all = json_array();
	int r = 0;

	for (size_t i = 0; i < p->n; i++)
		(void)json_array_append_new(all, op_json(&p->ops[i]));
	if (json_dumpf(all, out, JSON_COMPACT) < 0 || fputc('\n', out) == EOF)
		r = err_set(err, EIO, "write the plan");
	json_decref(all);
	return r;
}

int plan_print(const struct plan *p, bool as_json, FILE *out, struct err *err)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} spaces[] = {
		{CLONE_NEWUSER, "user"},
		{CLONE_NEWNS, "mount"},
		{CLONE_NEWPID, "pid"},
		{CLONE_NEWNET, "net"},
		{CLONE_NEWIPC, "ipc"},
		{CLONE_NEWUTS, "uts"},
		{CLONE_NEWCGROUP, "cgroup"},
	};

	if (as_json)
		return print_json(p, out, err);
	(void)fprintf(out, "namespaces:");
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if (p->namespaces & spaces[i].bit)
			(void)fprintf(out, " %s", spaces[i].name);
	(void)fprintf(out, "\n");
	for (unsigned i = 0; i < p->map.uid_n; i++)
		(void)fprintf(out, "ids: %u is %u outside, %u of them\n", p->map.uid[i].inside,
			p->map.uid[i].outside, p->map.uid[i].count);
	if (p->want_cgroup)
		(void)fprintf(out,
			"cgroup: memory %llu, cpu %llu/1000, pids %llu, io %llu/s (0 = no limit)\n",
			(unsigned long long)p->cgroup_limits.memory_max,
			(unsigned long long)p->cgroup_limits.cpu_milli,
			(unsigned long long)p->cgroup_limits.pids_max,
			(unsigned long long)p->cgroup_limits.io_bps);
	(void)fprintf(out, "%-7s  %-9s  %-14s\n", "side", "wall", "operation");
	for (size_t i = 0; i < p->n; i++)
		print_line(&p->ops[i], out);
	return 0;
}
