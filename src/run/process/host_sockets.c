/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/host_sockets - services of the host that listen on a path in the box's view.
 *
 * A read-only mount does not keep anybody from connecting to a socket on it, and
 * Landlock (up to ABI 7) has no say in it: the kernel's own list of bound sockets tells
 * which paths to cover. A service that starts during the run is not covered.
 */
#include "base/own.h"
#include "run/process/box_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SOCKETS_MAX 256

static bool is_shared(const struct host_view *v, const char *path)
{
	for (size_t i = 0; i < v->writable.n; i++)
		if (text_path_below(path, v->writable.v[i]))
			return true;
	for (size_t i = 0; i < v->readonly.n; i++)
		if (text_path_below(path, v->readonly.v[i]))
			return true;
	return false;
}

int host_sockets_hide(struct host_view *v, struct err *err)
{
	/* Replaced in every box: what is bound there is out of sight already. */
	static const char *const own[] = {
		"/run", "/var/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"};
	AUTO_FILE FILE *f = fopen("/proc/net/unix", "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0, found = 0;

	if (!f)
		return 0; /* a kernel without unix sockets has none to hide */
	while (getline(&line, &room, f) > 0 && found < SOCKETS_MAX) {
		char *path = strchr(line, '/');
		bool is_own = false;
		struct stat st;
		int r;

		if (!path || path == line || path[-1] != ' ')
			continue; /* unnamed or abstract: the network namespace covers those */
		path[strcspn(path, "\n")] = 0;
		for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			is_own |= text_path_below(path, own[i]);
		if (is_own || is_shared(v, path) || strv_has(&v->hidden_files, path))
			continue;
		if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		r = strv_add(&v->hidden_files, path, err);
		if (r < 0)
			return r;
		found++;
	}
	return 0;
}
