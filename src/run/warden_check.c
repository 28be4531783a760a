/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/warden_check - is this packet a question that the api role could have asked?
 *
 * The only parser in the role that has privilege: fixed layout, every byte accounted for. Pure.
 * A number that this machine cannot give is not judged here; what no honest asker sends is.
 */
#include "run/warden.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SIZE_TOP (1ull << 50) /* bytes: more than any machine has */

static_assert(offsetof(struct warden_message, spec) == 48, "the head has no holes");
static_assert(sizeof(struct warden_spec) == 192, "the spec has no holes");

static bool is_zero(const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		if (c[i] != 0)
			return false;
	return true;
}

/* A NUL-terminated text of these characters, the rest of its field zero. */
static bool is_text(const char *s, size_t size, const char *also)
{
	size_t n = strnlen(s, size);

	if (n == size)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool is_plain = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');

		if (!is_plain && !strchr(also, s[i]))
			return false;
	}
	return is_zero(s + n, size - n);
}

static bool is_hostname(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	if (!is_text(s, size, "-.ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		return false;
	return n == 0 || (s[0] != '-' && s[0] != '.' && s[n - 1] != '-');
}

static int check_spec(const struct warden_spec *s, struct err *err)
{
	const struct {
		const char *name;
		uint64_t value, max;
	} numbers[] = {
		{"memory_max", s->memory_max, SIZE_TOP},
		{"cpu_milli", s->cpu_milli, 1000 * 65536},
		{"pids_max", s->pids_max, 1 << 22},
		{"disk_max", s->disk_max, SIZE_TOP},
		{"open_files", s->open_files, 1 << 24},
	};

	if (!is_text(s->tier, sizeof(s->tier), "-") || s->tier[0] == 0)
		return err_set(err, EINVAL, "bad field 'tier'");
	if (!is_text(s->template, sizeof(s->template), "-._ABCDEFGHIJKLMNOPQRSTUVWXYZ") ||
		s->template[0] == 0)
		return err_set(err, EINVAL, "bad field 'template'");
	if (!is_hostname(s->hostname, sizeof(s->hostname)))
		return err_set(err, EINVAL, "bad field 'hostname'");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].value > numbers[i].max)
			return err_set(err, EINVAL, "bad field '%s'", numbers[i].name);
	if (s->allow_sudo > 1)
		return err_set(err, EINVAL, "bad field 'allow_sudo'");
	if (s->want_loopback > 1)
		return err_set(err, EINVAL, "bad field 'want_loopback'");
	if (s->want_road > s->want_loopback)
		return err_set(err, EINVAL, "bad field 'want_road'");
	return is_zero(s->zero, sizeof(s->zero)) ? 0 : err_set(err, EINVAL, "bad field 'zero'");
}

int warden_check(const void *packet, size_t n, struct warden_message *ret, struct err *err)
{
	const size_t head = offsetof(struct warden_message, spec);
	struct warden_message m;
	size_t used = head;
	int r = 0;

	if (n != sizeof(m))
		return err_set(err, EINVAL, "%zu bytes instead of %zu", n, sizeof(m));
	memcpy(&m, packet, sizeof(m));
	if (m.op < WARDEN_START || m.op > WARDEN_ROAD)
		return err_set(err, EINVAL, "bad field 'op'");
	if (m.code != 0)
		return err_set(err, EINVAL, "bad field 'code'");
	if (m.number == 0)
		return err_set(err, EINVAL, "bad field 'number'");
	if (!is_text(m.id, sizeof(m.id), "") || (m.id[0] == 0) != (m.op == WARDEN_LIST))
		return err_set(err, EINVAL, "bad field 'id'");
	if (m.op == WARDEN_START) {
		used += sizeof(m.spec);
		r = check_spec(&m.spec, err);
	}
	if (r >= 0 && !is_zero((const char *)&m + used, sizeof(m) - used))
		r = err_set(err, EINVAL, "bytes after the last field");
	if (r >= 0)
		*ret = m;
	return r;
}
