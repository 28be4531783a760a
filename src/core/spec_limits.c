/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/spec_limits - the limits as a table: how each is written, its range, its wall.
 *
 * Pure; runs in any program, never blocks.
 */
#include "core/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define KIB  (UINT64_C(1) << 10)
#define MIB  (UINT64_C(1) << 20)
#define TIB  (UINT64_C(1) << 40)
#define HOUR (UINT64_C(3600) * 1000)

typedef int (*parse_fn)(const char *s, const char *what, uint64_t *ret, struct err *err);

struct limit {
	size_t offset; /* of the field in struct spec_limits */
	enum wall wall;
	parse_fn parse;
	uint64_t min;
	uint64_t max;
	const char *accepted;
	bool is_fixed; /* "none" makes no sense */
};

/* Thousandths of a cpu: "2", "1.5", "0.25". */
static int parse_cpus(const char *s, const char *what, uint64_t *ret, struct err *err)
{
	uint64_t whole = 0, milli = 0, unit = 100;
	const char *p = s;
	char quoted[64];

	for (; isdigit((unsigned char)*p) && p - s < 9; p++)
		whole = whole * 10 + (uint64_t)(*p - '0');
	if (p > s && *p == '.' && isdigit((unsigned char)p[1])) {
		for (p++; isdigit((unsigned char)*p) && unit > 0; p++, unit /= 10)
			milli += unit * (uint64_t)(*p - '0');
	}
	if (p == s || *p != '\0')
		return err_set(err, EINVAL, "%s '%s' is not a number of cpus such as 2 or 0.5",
			what, text_quote(s, quoted, sizeof(quoted)));
	*ret = whole * 1000 + milli;
	return 0;
}

static int parse_count(const char *s, const char *what, uint64_t *ret, struct err *err)
{
	return text_parse_u64(s, what, 0, UINT64_MAX, ret, err);
}

/* Bytes per second; the "/s" that people write is accepted. */
static int parse_rate(const char *s, const char *what, uint64_t *ret, struct err *err)
{
	char number[32];
	size_t n = strlen(s);

	if (n > 2 && strcmp(s + n - 2, "/s") == 0 && n - 2 < sizeof(number)) {
		memcpy(number, s, n - 2);
		number[n - 2] = '\0';
		return text_parse_size(number, what, ret, err);
	}
	return text_parse_size(s, what, ret, err);
}

static const char *const names[] = {
	"memory",
	"cpus",
	"pids",
	"disk",
	"io",
	"timeout",
	"kill_after",
	"open_files",
};
#define LIMIT_COUNT (sizeof(names) / sizeof(names[0]))

#define FIELD(f) offsetof(struct spec_limits, f)

/* In the order of names[]. */
static const struct limit limits[] = {
	/* Below 4 MiB the kernel kills the command before its first instruction. */
	{FIELD(memory_max), WALL_MEMORY, text_parse_size, 4 * MIB, 64 * TIB, "4M to 64T, or none",
		false},
	/* The scheduler's smallest quota is 1 ms in its period of 100 ms. */
	{FIELD(cpu_milli), WALL_CPU, parse_cpus, 10, 1024 * 1000, "0.01 to 1024, or none", false},
	/* Two: the box's init and the command. The ceiling is the kernel's PID_MAX_LIMIT. */
	{FIELD(pids_max), WALL_PIDS, parse_count, 2, 4194304, "2 to 4194304, or none", false},
	{FIELD(disk_max), WALL_DISK, text_parse_size, 1 * MIB, 64 * TIB, "1M to 64T, or none",
		false},
	{FIELD(io_bps), WALL_IO, parse_rate, 4 * KIB, 1 * TIB, "4K to 1T bytes a second, or none",
		false},
	{FIELD(timeout_ms), WALL_TIME, text_parse_duration, 1, 365 * 24 * HOUR,
		"1ms to 365d, or none", false},
	{FIELD(kill_after_ms), WALL_TIME, text_parse_duration, 0, HOUR, "0 to 1h", true},
	{FIELD(open_files), WALL_RLIMITS, parse_count, 16, 1048576, "16 to 1048576", true},
};
_Static_assert(sizeof(limits) / sizeof(limits[0]) == LIMIT_COUNT, "a limit without a name");

/* "--kill-after" and "kill_after" are one name. */
static const struct limit *find(const char *name)
{
	if (text_starts(name, "--"))
		name += 2;
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		size_t j = 0;

		while (names[i][j] != '\0' &&
			(name[j] == names[i][j] || (name[j] == '-' && names[i][j] == '_')))
			j++;
		if (names[i][j] == '\0' && name[j] == '\0')
			return &limits[i];
	}
	return NULL;
}

enum wall spec_limit_wall(const char *name)
{
	const struct limit *l = find(name);

	return l ? l->wall : WALL_COUNT;
}

int spec_set_limit(struct spec *s, const char *name, const char *value, struct err *err)
{
	const struct limit *l = find(name);
	struct err why = {0};
	uint64_t n = 0;
	char quoted[64];
	bool is_none;

	if (!l)
		return err_set(err, EINVAL, "no limit is called '%s'",
			text_quote(name, quoted, sizeof(quoted)));
	is_none = !l->is_fixed && strcmp(value, "none") == 0;
	/* The parser's own reason is dropped: one sentence with the range serves better. */
	if (!is_none && (l->parse(value, name, &n, &why) < 0 || n < l->min || n > l->max))
		return err_set(err, EINVAL, "%s '%s' is not accepted; accepted: %s", name,
			text_quote(value, quoted, sizeof(quoted)), l->accepted);

	*(uint64_t *)(void *)((char *)&s->limits + l->offset) = n;
	if (!l->is_fixed && !s->walls_set[l->wall])
		s->walls[l->wall] = is_none ? WALL_LEVEL_OFF : WALL_LEVEL_REQUIRED;
	return 0;
}
