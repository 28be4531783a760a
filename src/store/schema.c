/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/schema - the tables, as numbered steps from an empty file to today.
 *
 * PRAGMA user_version says how many steps a file has taken. A step that was released is
 * never changed: add one behind it. Each is one transaction with its number.
 */
#include "store/store_impl.h"

#include <stdio.h>

static const char *const steps[] = {
	/* 1: every row belongs to a tenant; events name one that may be gone. */
	"CREATE TABLE tenants ("
	" name TEXT PRIMARY KEY,"
	" made_ms INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"INSERT INTO tenants VALUES ('default', unixepoch() * 1000);"

	"CREATE TABLE keys ("
	" id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" name TEXT NOT NULL,"
	" prefix TEXT NOT NULL,"
	" bucket INTEGER NOT NULL," /* first bytes of the hash: finds candidates, proves nothing */
	" hash BLOB NOT NULL UNIQUE,"
	" made_ms INTEGER NOT NULL,"
	" used_ms INTEGER NOT NULL,"
	" revoked_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX keys_bucket ON keys(bucket);"

	"CREATE TABLE sandboxes ("
	" id TEXT PRIMARY KEY,"
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" name TEXT NOT NULL,"
	" template TEXT NOT NULL,"
	" state TEXT NOT NULL,"
	" reason TEXT NOT NULL,"
	" message TEXT NOT NULL,"
	" spec TEXT NOT NULL,"
	" metadata TEXT NOT NULL,"
	" walls TEXT NOT NULL,"
	" idempotency TEXT NOT NULL,"
	" token TEXT NOT NULL,"
	" traffic_token TEXT NOT NULL,"
	" made_ms INTEGER NOT NULL,"
	" started_ms INTEGER NOT NULL,"
	" ended_ms INTEGER NOT NULL,"
	" end_at_ms INTEGER NOT NULL,"
	" deadline_ms INTEGER NOT NULL,"
	" idle_ms INTEGER NOT NULL,"
	" boot_id TEXT NOT NULL,"
	" cpu_milli INTEGER NOT NULL,"
	" memory_max INTEGER NOT NULL,"
	" disk_max INTEGER NOT NULL,"
	" pids_max INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX sandboxes_name ON sandboxes(tenant, name)"
	" WHERE name <> '' AND state NOT IN ('ended', 'failed');"
	"CREATE UNIQUE INDEX sandboxes_idempotency ON sandboxes(tenant, idempotency)"
	" WHERE idempotency <> '';"
	"CREATE INDEX sandboxes_state ON sandboxes(state, made_ms);"

	"CREATE TABLE execs ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT,"
	" sandbox TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE,"
	" id TEXT NOT NULL,"
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" request TEXT NOT NULL,"
	" pid INTEGER NOT NULL,"
	" made_ms INTEGER NOT NULL,"
	" has_ended INTEGER NOT NULL,"
	" exit_code INTEGER NOT NULL,"
	" signal INTEGER NOT NULL,"
	" is_timed_out INTEGER NOT NULL,"
	" UNIQUE (sandbox, id)"
	") STRICT;"
	"CREATE INDEX execs_open ON execs(number) WHERE NOT has_ended;"

	"CREATE TABLE events ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT,"
	" at_ms INTEGER NOT NULL,"
	" tenant TEXT NOT NULL,"
	" actor TEXT NOT NULL,"
	" action TEXT NOT NULL,"
	" sandbox TEXT NOT NULL,"
	" outcome TEXT NOT NULL,"
	" detail TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX events_tenant ON events(tenant, number);"
	"CREATE INDEX events_sandbox ON events(sandbox, number);"

	"CREATE TABLE webhooks ("
	" id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" url TEXT NOT NULL,"
	" secret TEXT NOT NULL,"
	" actions TEXT NOT NULL,"
	" next INTEGER NOT NULL,"
	" retry_at_ms INTEGER NOT NULL,"
	" failures INTEGER NOT NULL,"
	" is_off INTEGER NOT NULL"
	") STRICT;",

	/* 2: what sandboxes may reach, what they were refused, what people were asked. */
	"ALTER TABLE sandboxes ADD COLUMN profile TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE sandboxes ADD COLUMN policy TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execs ADD COLUMN ended_ms INTEGER NOT NULL DEFAULT 0;"

	"CREATE TABLE violations ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT,"
	" sandbox TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE,"
	" what TEXT NOT NULL," /* what makes two of them the same */
	" record TEXT NOT NULL,"
	" first_ms INTEGER NOT NULL,"
	" last_ms INTEGER NOT NULL,"
	" count INTEGER NOT NULL,"
	" times TEXT NOT NULL," /* of the last few, 14 bytes each, newest first */
	" UNIQUE (sandbox, what)"
	") STRICT;"

	"CREATE TABLE asks ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT,"
	" id TEXT NOT NULL UNIQUE,"
	" sandbox TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE,"
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" engine TEXT NOT NULL," /* what the egress role calls it */
	" record TEXT NOT NULL,"
	" note TEXT NOT NULL,"
	" made_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL,"
	" state TEXT NOT NULL,"
	" scope TEXT NOT NULL,"
	" actor TEXT NOT NULL,"
	" answered_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX asks_tenant ON asks(tenant, number);"
	"CREATE INDEX asks_sandbox ON asks(sandbox, number);"

	"CREATE TABLE profiles ("
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" name TEXT NOT NULL,"
	" version INTEGER NOT NULL,"
	" digest TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" actor TEXT NOT NULL,"
	" made_ms INTEGER NOT NULL,"
	" PRIMARY KEY (tenant, name, version)"
	") STRICT, WITHOUT ROWID;",

	/* 3: secrets, sealed by the egress role, whose key this process never has. */
	"CREATE TABLE secrets ("
	" tenant TEXT NOT NULL REFERENCES tenants(name),"
	" name TEXT NOT NULL,"
	" version INTEGER NOT NULL,"
	" sealed BLOB NOT NULL,"
	" made_ms INTEGER NOT NULL,"
	" changed_ms INTEGER NOT NULL,"
	" PRIMARY KEY (tenant, name)"
	") STRICT, WITHOUT ROWID;",
};

int store_schema_version(void)
{
	return (int)(sizeof(steps) / sizeof(steps[0]));
}

static int version_of(struct store *s, struct err *err)
{
	static const char sql[] = "PRAGMA user_version";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r = statement_step(&t, err);

	return r < 0 ? r : (int)column_int(&t);
}

static int take_step(struct store *s, int step, struct err *err)
{
	char version[64];
	int r = store_exec_sql(s, steps[step], err);

	if (r < 0)
		return err_wrap(err, "migration %d", step + 1);
	(void)snprintf(version, sizeof(version), "PRAGMA user_version = %d", step + 1);
	return store_exec_sql(s, version, err);
}

int store_migrate(struct store *s, struct err *err)
{
	int r = version_of(s, err);

	while (r >= 0 && r < store_schema_version()) {
		r = store_begin(s, err);
		if (r < 0)
			return r;
		/* Again, now alone: another opener may have taken the step meanwhile. */
		r = version_of(s, err);
		if (r >= 0 && r < store_schema_version())
			r = take_step(s, r, err);
		if (r < 0) {
			store_rollback(s);
			return r;
		}
		r = store_commit(s, err);
		if (r == 0)
			r = version_of(s, err);
	}
	if (r > store_schema_version())
		return err_set(err, EPROTO,
			"store: made by a newer bawn (schema %d, this one knows %d)", r,
			store_schema_version());
	return r < 0 ? r : 0;
}
