/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A git config that a box wrote. Whatever is called safe must not hold, on any
 * line of its own, a key that is known to start a program.
 */
#include "core/masks.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* True if a line, after blanks, starts with the word. */
static bool has_line(const char *s, const char *word)
{
	size_t n = strlen(word);

	for (; s; s = strchr(s, '\n')) {
		s += strspn(s, "\n \t\r");
		if (strncasecmp(s, word, n) == 0 &&
			!strchr("abcdefghijklmnopqrstuvwxyz-", s[n] | 0x20))
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const bad[] = {"fsmonitor", "hookspath", "pager", "sshcommand", "editor",
		"uploadpack", "receivepack", "templatedir", "helper", "program", "smudge", "path"};
	char *s = malloc(size + 1);
	bool is_safe;

	assert(s);
	if (size > 0)
		memcpy(s, data, size);
	s[size] = '\0';
	is_safe = masks_git_config_is_safe(s, size, 0);
	assert(!is_safe || masks_git_config_is_safe(s, size, MASKS_GIT_MODULE));
	for (size_t i = 0; is_safe && i < sizeof(bad) / sizeof(bad[0]); i++)
		assert(!has_line(s, bad[i]));
	(void)masks_why_protected(s);
	(void)masks_is_sample_hook(s);
	(void)masks_is_env_file(s);
	free(s);
	return 0;
}
