/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/run_secrets.h"

#include "base/own.h"
#include "core/placeholder.h"
#include "egress/secret_files.h"

#include <string.h>

struct known {
	const char *dir;
	bool is_any; /* one of those asked for is set */
};

static bool is_set(const char *secret, void *arg)
{
	struct known *k = arg;
	bool has = secret_files_has(k->dir, secret);

	k->is_any |= has;
	return has;
}

static bool has_variable(const struct strv *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], assignment, n) == 0)
			return true;
	return false;
}

int run_secrets_prepare(
	const struct policy *policy, struct spec *spec, char **ret_dir, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	struct placeholder_files files = {0};
	struct strv env = {0};
	struct known k = {0};
	int r;

	*ret_dir = NULL;
	if (policy->bindings_n == 0)
		return 0;
	r = secret_files_dir(&dir, err);
	k.dir = dir;
	if (r >= 0)
		r = placeholder_for_box(policy, "", is_set, &k, &env, &files, err);
	for (size_t i = 0; r >= 0 && i < env.n; i++)
		if (!has_variable(&spec->env, env.v[i]))
			r = spec_add_env(spec, env.v[i], err);
	if (r >= 0 && k.is_any)
		*ret_dir = TAKE_PTR(dir);
	placeholder_files_done(&files);
	strv_done(&env);
	return r;
}
