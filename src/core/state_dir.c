/* SPDX-License-Identifier: Apache-2.0 */

#include "core/state_dir.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int state_dir_choose(const struct state_dir_env *env, char **ret, struct err *err)
{
	if (env->override && env->override[0] != '\0') {
		if (env->override[0] != '/')
			return err_set(err, EINVAL, "BAWN_STATE_DIR: must be an absolute path");
		return text_path_clean(env->override, "/", ret, err);
	}
	if (env->is_root) {
		*ret = text_format("/var/lib/bawn");
		return 0;
	}
	/* The standard says: a relative value is to be ignored. */
	if (env->xdg && env->xdg[0] == '/') {
		*ret = text_format("%s/bawn", env->xdg);
		return 0;
	}
	if (env->home && env->home[0] == '/') {
		*ret = text_format("%s/.local/state/bawn", env->home);
		return 0;
	}
	return err_set(
		err, ENOENT, "no place for state: set HOME, XDG_STATE_HOME or BAWN_STATE_DIR");
}

int state_dir(char **ret, struct err *err)
{
	struct state_dir_env env = {
		.override = getenv("BAWN_STATE_DIR"),
		.xdg = getenv("XDG_STATE_HOME"),
		.home = getenv("HOME"),
		/* Under `unshare -r` the user id is 0 and /var/lib is somebody else's. */
		.is_root = geteuid() == 0 && faccessat(AT_FDCWD, "/var/lib", W_OK, AT_EACCESS) == 0,
	};

	return state_dir_choose(&env, ret, err);
}
