/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A store in a directory of its own, gone afterwards. */
#include "base/text.h"
#include "store/store.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
	char dir[64];
	struct store *s;
	struct err err;
};

static inline void fixture_reopen(struct fixture *f)
{
	f->s = store_close(f->s);
	CHECK_INT(store_open(f->dir, &f->s, &f->err), 0);
}

static inline void fixture_init(struct fixture *f)
{
	*f = (struct fixture){.dir = "/tmp/test_store.XXXXXX"};
	CHECK(mkdtemp(f->dir) != NULL);
	fixture_reopen(f);
}

static inline void fixture_done(struct fixture *f)
{
	static const char *const files[] = {"bawn.db", "bawn.db-wal", "bawn.db-shm"};

	f->s = store_close(f->s);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		AUTO_FREE char *path = text_format("%s/%s", f->dir, files[i]);

		(void)unlink(path);
	}
	CHECK_INT(rmdir(f->dir), 0);
}

static inline struct store_sandbox fixture_row(const char *id, const char *tenant)
{
	static char texts[][24] = {"base", "{\"a\":1}", "{\"k\":\"v\"}", ""};
	struct store_sandbox r = {
		.template = texts[0],
		.spec = texts[1],
		.metadata = texts[2],
		.name = texts[3],
		.made_ms = 1000,
		.end_at_ms = 2000,
		.deadline_ms = 77,
		.idle_ms = 5,
		.boot_id = "11111111-2222-3333-4444-555555555555",
		.token = "aa",
		.cpu_milli = 2000,
		.memory_max = 512,
		.disk_max = 1024,
		.pids_max = 64,
	};

	(void)snprintf(r.id, sizeof(r.id), "%s", id);
	r.tenant = strdup(tenant); /* the caller frees */
	return r;
}
