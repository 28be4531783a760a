/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Secrets of the egress role, the only place where they are in clear: it seals what the api role
 * is to store, opens what that gives back, and in a run reads the user's own files.
 */
#include "base/mem.h"
#include "daemon/egress_impl.h"
#include "egress/guard.h"
#include "egress/seal.h"
#include "egress/secret_files.h"
#include "egress/vault.h"

#include <errno.h>
#include <string.h>

int role_secrets_open(struct egress_role *e, const char *dir, int take_key_fd, struct err *err)
{
	struct sealer_config c = {.dir = dir, .key_fd = take_key_fd, .may_make = !e->is_run};

	guard_json();
	e->secrets = dir;
	if (!dir) {
		closep(&take_key_fd);
		return 0;
	}
	return sealer_open(&c, &e->sealer, err);
}

/* A hex field of a message as bytes; wiped when they are done with. */
static int hex_field(const json_t *body, const char *name, struct buf *out, struct err *err)
{
	const char *text = NULL;
	int r = control_string(body, name, &text, err);
	size_t n = r < 0 ? 0 : strlen(text);
	char *room;

	if (r < 0)
		return r;
	out->is_secret = true;
	room = buf_reserve(out, n / 2 + 1);
	if (!room || !secret_unhex(text, n, room))
		return err_set(err, EBADMSG, "control: '%s' is not hex", name);
	buf_commit(out, n / 2);
	return 0;
}

struct about { /* whose, which, which version */
	const char *owner, *name;
	uint64_t version;
};

static int read_about(struct egress_role *e, const json_t *body, struct about *ret, struct err *err)
{
	json_int_t version = json_integer_value(json_object_get(body, "version"));
	int r = control_string(body, "owner", &ret->owner, err);

	if (r >= 0)
		r = control_string(body, "name", &ret->name, err);
	if (r >= 0 && (version < 1 || !placeholder_is_name(ret->name) || strlen(ret->owner) >= 64))
		r = err_set(err, EBADMSG, "control: not an owner, name and version");
	if (r >= 0 && !e->sealer)
		r = err_set(err, EOPNOTSUPP, "this egress role keeps no secrets");
	ret->version = (uint64_t)version;
	return r;
}

json_t *role_seal(struct egress_role *e, const json_t *body, struct err *err)
{
	AUTO(vault_free) struct vault *probe = NULL;
	AUTO_BUF struct buf value = {0};
	AUTO_BUF struct buf sealed = {0};
	AUTO_FREE char *hex = NULL;
	struct about a;
	int r = read_about(e, body, &a, err);

	if (r >= 0)
		r = hex_field(body, "value", &value, err);
	/* What no request could carry is refused now, not when it is needed. */
	if (r >= 0)
		r = vault_create(&probe, err);
	if (r >= 0)
		r = vault_set(probe, a.owner, a.name, buf_data(&value), buf_len(&value), err);
	if (r >= 0)
		r = sealer_seal(e->sealer, a.owner, a.name, a.version, buf_data(&value),
			buf_len(&value), &sealed, err);
	if (r < 0)
		return NULL;
	hex = mem_must(malloc(2 * buf_len(&sealed) + 1));
	secret_hex(buf_data(&sealed), buf_len(&sealed), hex);
	return json_pack("{s:s}", "sealed", hex);
}

static int unseal(
	struct egress_role *e, const struct about *a, const struct buf *sealed, struct err *err)
{
	AUTO_BUF struct buf value = {0};
	int r = sealer_unseal(e->sealer, a->owner, a->name, a->version, buf_data(sealed),
		buf_len(sealed), &value, err);

	return r < 0 ? r
		     : vault_set(egress_vault(e->engine), a->owner, a->name, buf_data(&value),
			       buf_len(&value), err);
}

int role_secret(struct egress_role *e, const json_t *body, struct err *err)
{
	AUTO_BUF struct buf sealed = {0};
	struct about a;
	int r = read_about(e, body, &a, err);

	if (r >= 0)
		r = hex_field(body, "sealed", &sealed, err);
	return r < 0 ? r : unseal(e, &a, &sealed, err);
}

int role_secrets_load(struct egress_role *e, const struct policy *p, struct err *err)
{
	int r = 0;

	for (size_t i = 0; e->is_run && e->sealer && r >= 0 && i < p->bindings_n; i++) {
		struct secret_file f = {0};
		struct about a = {.owner = "", .name = p->bindings[i].secret};

		if (!secret_files_has(e->secrets, a.name) ||
			vault_find(egress_vault(e->engine), "", a.name))
			continue;
		r = secret_files_get(e->secrets, a.name, &f, err);
		a.version = f.version;
		if (r >= 0)
			r = unseal(e, &a, &f.sealed, err);
		buf_done(&f.sealed);
	}
	return r < 0 ? r : 0;
}

void role_secrets_close(struct egress_role *e)
{
	e->sealer = sealer_free(e->sealer);
}
