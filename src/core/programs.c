/* SPDX-License-Identifier: Apache-2.0 */

#include "core/programs.h"

#include "base/own.h"
#include "base/text.h"

#include <string.h>
#include <unistd.h>

static int find(const char *const places[2], const char *name, char **ret, struct err *err)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return err_sys(err, "read '/proc/self/exe'");
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < 2; i++) {
		AUTO_FREE char *path = text_format("%s/%s", self, places[i]);

		if (access(path, X_OK) == 0) {
			*ret = TAKE_PTR(path);
			return 0;
		}
	}
	(void)err_set(err, ENOENT, "the program '%s' is neither '%s/%s' nor '%s/%s'", name, self,
		places[0], self, places[1]);
	return err_hint(err, "it comes with bawn; 'make install' puts both in their places");
}

int programs_bawnd(char **ret, struct err *err)
{
	static const char *const places[] = {"bawnd", "../libexec/bawn/bawnd"};

	return find(places, "bawnd", ret, err);
}

int programs_bawn(char **ret, struct err *err)
{
	static const char *const places[] = {"bawn", "../../bin/bawn"};

	return find(places, "bawn", ret, err);
}
