/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Control groups: where each controller lives, which of them we may use, and whether
 * swap is counted. What we may use is sys/cgroup's own answer.
 */
#include "sys/probe_impl.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the order of v1_mount and of the CGROUP_ bits. */
static const char *const v1_names[] = {"memory", "cpu", "pids", "blkio"};
static const char *const v2_names[] = {"memory", "cpu", "pids", "io"};

/* A whole word of a list with that separator. */
static bool has_word(const char *list, const char *word, char separator)
{
	size_t n = strlen(word);

	for (const char *at = list; at;
		at = strchr(at, separator) ? strchr(at, separator) + 1 : NULL)
		if (strncmp(at, word, n) == 0 &&
			(at[n] == separator || at[n] == '\0' || at[n] == '\n'))
			return true;
	return false;
}

/* Spaces, tabs, newlines and backslashes are written \ooo. */
static void unescape(char *s)
{
	char *to = s;

	for (const char *from = s; *from; to++)
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
			from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
			*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0');
			from += 4;
		} else {
			*to = *from++;
		}
	*to = '\0';
}

/* proc(5): id parent dev root POINT options [tags] - TYPE source SUPER */
static void parse_line(char *line, struct probe *p)
{
	struct probe_cgroup *ret = &p->cgroup;
	char *tail = strstr(line, " - ");
	char *point = line, *end, *type, *super;

	for (int i = 0; i < 4 && point; i++)
		point = strchr(point, ' ') ? strchr(point, ' ') + 1 : NULL;
	if (!tail || !point || point > tail)
		return;
	end = strchr(point, ' ');
	type = tail + 3;
	super = strchr(type, ' ') ? strchr(strchr(type, ' ') + 1, ' ') : NULL;
	if (!end || !super || (size_t)(end - point) >= sizeof(ret->v2_mount))
		return;
	*end = '\0';
	unescape(point);
	/* Where binfmt_misc goes is a directory that is always empty: it covers nothing. */
	if (strncmp(point, "/proc/", 6) == 0 && strcmp(point, "/proc/sys/fs/binfmt_misc") != 0 &&
		!p->proc_cover[0])
		(void)snprintf(p->proc_cover, sizeof(p->proc_cover), "%s", point);
	if (strncmp(type, "cgroup2 ", 8) == 0 && !ret->v2_mount[0])
		(void)snprintf(ret->v2_mount, sizeof(ret->v2_mount), "%s", point);
	if (strncmp(type, "cgroup ", 7) != 0)
		return;
	for (size_t i = 0; i < 4; i++)
		if (has_word(super + 1, v1_names[i], ',') && !ret->v1_mount[i][0])
			(void)snprintf(ret->v1_mount[i], sizeof(ret->v1_mount[i]), "%s", point);
}

void probe_parse_mounts(const char *mountinfo, struct probe *p)
{
	char line[1024];

	while (*mountinfo) {
		size_t n = strcspn(mountinfo, "\n");

		/* A longer line is an overlay with many layers, not one we look for. */
		if (n < sizeof(line)) {
			memcpy(line, mountinfo, n);
			line[n] = '\0';
			parse_line(line, p);
		}
		mountinfo += n + (mountinfo[n] == '\n');
	}
}

static enum probe_swap look_at_swap(const struct probe_cgroup *cg)
{
	char path[192];
	char text[512];
	const char *second;

	if (probe_read("/proc/swaps", text, sizeof(text)) < 0)
		return PROBE_SWAP_UNKNOWN;
	second = strchr(text, '\n');
	if (!second || !second[1])
		return PROBE_SWAP_NONE;
	if (cg->v1_mount[0][0]) {
		(void)snprintf(
			path, sizeof(path), "%s/memory.memsw.limit_in_bytes", cg->v1_mount[0]);
		return access(path, F_OK) == 0 ? PROBE_SWAP_ACCOUNTED : PROBE_SWAP_UNACCOUNTED;
	}
	/* v2 counts swap unless told not to at boot; its root has no memory.swap.max to see. */
	if (!(cg->v2_controllers & CGROUP_MEMORY))
		return PROBE_SWAP_UNKNOWN;
	if (probe_read("/proc/cmdline", text, sizeof(text)) > 0 && strstr(text, "swapaccount=0"))
		return PROBE_SWAP_UNACCOUNTED;
	return PROBE_SWAP_ACCOUNTED;
}

void probe_cgroups(struct probe *p)
{
	static char mountinfo[1 << 18]; /* a machine full of containers has thousands of lines */
	struct probe_cgroup *cg = &p->cgroup;
	char path[192];
	char list[256];

	if (probe_read("/proc/self/mountinfo", mountinfo, sizeof(mountinfo)) > 0)
		probe_parse_mounts(mountinfo, p);
	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", cg->v2_mount);
	if (cg->v2_mount[0] && probe_read(path, list, sizeof(list)) > 0)
		for (size_t i = 0; i < 4; i++)
			if (has_word(list, v2_names[i], ' '))
				cg->v2_controllers |= 1u << i;
	cg->usable = cgroup_detect(&cg->controllers);
	cg->swap = look_at_swap(cg);
}
