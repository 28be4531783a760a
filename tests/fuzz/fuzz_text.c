/* SPDX-License-Identifier: Apache-2.0 */

/*
 * base/text on hostile strings: nothing reads or writes past an end, and what comes out keeps the
 * promises of the header.
 */
#include "base/text.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void quote(const char *s)
{
	char out[37];

	for (size_t room = 0; room <= sizeof(out); room++) {
		(void)text_quote(s, out, room);
		assert(room == 0 || memchr(out, '\0', room));
		for (size_t i = 0; room > 0 && out[i]; i++)
			assert((unsigned char)out[i] >= 0x20 && out[i] != 0x7f && out[i] != '\'');
	}
}

static void path(const char *s)
{
	AUTO_FREE char *once = NULL, *twice = NULL;
	struct err err = {0};

	if (text_path_clean(s, "/a/b", &once, &err) < 0)
		return;
	assert(once[0] == '/' && !strstr(once, "//") && !strstr(once, "/../"));
	assert(text_path_below(once, "/"));
	assert(text_path_clean(once, "/elsewhere", &twice, &err) == 0);
	assert(strcmp(once, twice) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"seccomp", "landlock", "memory", "pids"};
	AUTO_FREE char *s = malloc(size + 1);
	struct err err = {0};
	uint64_t n;

	assert(s);
	if (size > 0)
		memcpy(s, data, size);
	s[size] = '\0';
	quote(s);
	path(s);
	(void)text_parse_size(s, "size", &n, &err);
	(void)text_parse_duration(s, "time", &n, &err);
	if (text_parse_u64(s, "number", 3, 99, &n, &err) == 0)
		assert(n >= 3 && n <= 99);
	(void)text_closest(s, names, sizeof(names) / sizeof(names[0]));
	return 0;
}
