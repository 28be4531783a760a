/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/seal - secrets at rest: AES-256-GCM under the installation's key.
 *
 * A sealed secret says whose it is, which, and which version, by way of the additional data: put in
 * the place of another it does not open. The key is, in this order,
 *
 *   a descriptor that was inherited (a systemd credential, handed on by the supervisor)
 *   $CREDENTIALS_DIRECTORY/bawn-secrets-key: at least 32 bytes
 *   <dir>/key.scrypt, a salt: the key is made of it and the passphrase (scrypt), which is the first
 *     line of $BAWN_PASSPHRASE_FILE or of $CREDENTIALS_DIRECTORY/bawn-secrets-passphrase
 *   <dir>/key, made on first use, 0600
 *
 * It is read once, and from then on in memory as every secret is (egress/guard).
 */
#include "base/err.h"
#include "base/own.h"
#include "io/buf.h"

#include <stddef.h>
#include <stdint.h>

#define SEAL_OVERHEAD       29 /* bytes: format, nonce, tag */
#define SEAL_PASSPHRASE_MAX 1024

struct sealer;

struct sealer_config {
	const char *dir;
	int key_fd; /* or -EBADF; taken */
	/* Asked if a passphrase is needed and none of the files is named; NULL: -ENOKEY. */
	int (*ask)(char out[SEAL_PASSPHRASE_MAX], void *arg, struct err *err);
	void *arg;
	bool may_make; /* a key file if there is no key; otherwise -ENOKEY */
};

/* -ENOKEY: no key, or the passphrase is missing; -EKEYREJECTED: it is not the right one. */
int sealer_open(const struct sealer_config *c, struct sealer **ret, struct err *err);
struct sealer *sealer_free(struct sealer *s);
DEFINE_AUTO(struct sealer *, sealer_free)

/* Have the key of `dir` come from a passphrase. -EEXIST: it has a key already. */
int sealer_make_passphrase(const char *dir, const char *passphrase, struct err *err);

int sealer_seal(const struct sealer *s, const char *owner, const char *name, uint64_t version,
	const void *value, size_t n, struct buf *out, struct err *err);
/* Into *out, which is wiped when it is done with. -EBADMSG: not sealed here, or not as this one. */
int sealer_unseal(const struct sealer *s, const char *owner, const char *name, uint64_t version,
	const void *sealed, size_t n, struct buf *out, struct err *err);
