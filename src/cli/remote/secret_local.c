/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The secrets of this user, for `bawn run`: sealed files in the state directory.
 */
#include "base/own.h"
#include "cli/remote/secret.h"
#include "core/placeholder.h"
#include "egress/seal.h"
#include "egress/secret_files.h"
#include "egress/vault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static json_t *about(const struct secret_file *f)
{
	char placeholder[PLACEHOLDER_LEN + 1];

	placeholder_make("", f->name, placeholder);
	return json_pack("{s:s, s:I, s:I, s:s}", "name", f->name, "version", (json_int_t)f->version,
		"changed_ms", (json_int_t)f->changed_ms, "placeholder", placeholder);
}

/* `arg`: one that was entered a moment ago, or NULL. */
static int ask(char out[SEAL_PASSPHRASE_MAX], void *arg, struct err *err)
{
	if (arg) {
		memcpy(out, arg, SEAL_PASSPHRASE_MAX);
		return 0;
	}
	return secret_read_passphrase(out, SEAL_PASSPHRASE_MAX, false, err);
}

/* The version before, 0 if there is none. */
static int version_before(const char *dir, const char *name, uint64_t *ret, struct err *err)
{
	struct secret_file old = {0};
	struct err why = {0};
	int r = secret_files_get(dir, name, &old, &why);

	buf_done(&old.sealed);
	*ret = r < 0 ? 0 : old.version;
	if (r < 0 && r != -ENOENT)
		*err = why;
	return r == -ENOENT ? 0 : r;
}

/* What no request could carry is refused now. */
static int check_value(const char *name, const struct buf *value, struct err *err)
{
	AUTO(vault_free) struct vault *v = NULL;
	int r = vault_create(&v, err);

	return r < 0 ? r : vault_set(v, "", name, buf_data(value), buf_len(value), err);
}

static int prepare(const char *dir, bool want_passphrase, struct sealer **ret, struct err *err)
{
	char passphrase[SEAL_PASSPHRASE_MAX] = "";
	struct sealer_config c = {.dir = dir,
		.key_fd = -EBADF,
		.ask = ask,
		.arg = want_passphrase ? passphrase : NULL,
		.may_make = true};
	int r = secret_files_make_dir(dir, err); /* the key wants it before the first file does */

	if (r >= 0 && want_passphrase)
		r = secret_read_passphrase(passphrase, sizeof(passphrase), true, err);
	if (r >= 0 && want_passphrase)
		r = sealer_make_passphrase(dir, passphrase, err);
	if (r >= 0)
		r = sealer_open(&c, ret, err);
	explicit_bzero(passphrase, sizeof(passphrase));
	return r;
}

int secret_local_set(const char *name, const struct buf *value, bool must_exist,
	bool want_passphrase, json_t **ret, struct err *err)
{
	AUTO(sealer_free) struct sealer *s = NULL;
	AUTO_FREE char *dir = NULL;
	struct secret_file f = {0};
	struct timespec now;
	int r = check_value(name, value, err);

	if (r >= 0)
		r = secret_files_dir(&dir, err);
	if (r >= 0)
		r = version_before(dir, name, &f.version, err);
	if (r >= 0 && must_exist && f.version == 0)
		r = err_set(
			err, ENOENT, "no secret '%s' to rotate; 'bawn secret set' makes it", name);
	if (r >= 0)
		r = prepare(dir, want_passphrase, &s, err);
	if (r < 0)
		return r;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)snprintf(f.name, sizeof(f.name), "%s", name);
	f.version++;
	f.changed_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	r = sealer_seal(s, "", name, f.version, buf_data(value), buf_len(value), &f.sealed, err);
	if (r >= 0)
		r = secret_files_put(dir, &f, err);
	if (r >= 0)
		*ret = about(&f);
	buf_done(&f.sealed);
	return r;
}

static int add(const struct secret_file *f, void *arg)
{
	(void)json_array_append_new(arg, about(f));
	return 0;
}

int secret_local_list(json_t **ret, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	json_t *all = json_array();
	int r = secret_files_dir(&dir, err);

	if (r >= 0)
		r = secret_files_each(dir, add, all, err);
	if (r >= 0)
		*ret = json_pack("{s:O}", "secrets", all);
	json_decref(all);
	return r;
}

int secret_local_get(const char *name, json_t **ret, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	struct secret_file f = {0};
	int r = secret_files_dir(&dir, err);

	if (r >= 0)
		r = secret_files_get(dir, name, &f, err);
	if (r >= 0)
		*ret = about(&f);
	buf_done(&f.sealed);
	return r;
}

int secret_local_remove(const char *name, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	int r = secret_files_dir(&dir, err);

	return r < 0 ? r : secret_files_remove(dir, name, err);
}
