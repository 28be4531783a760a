/* SPDX-License-Identifier: Apache-2.0 */

#include "io/guest_proto.h"

#include "tap.h"

#define T(text) ((char[]){text}) /* a string that is not const */

static char *const args[] = {T("a"), T(""), NULL};
static char *const env[] = {T("K=v"), NULL};
static char *const pairs[] = {T("k"), T("v"), NULL};

static struct frame_reader reader(const struct frame_writer *w)
{
	return (struct frame_reader){.p = buf_data(&w->buf), .n = buf_len(&w->buf)};
}

/*
 * One value through put and get; then the same bytes cut at every length: each cut must fail,
 * and leave something that done() can free.
 */
#define ROUND(name, value, got)                                                                    \
	do {                                                                                       \
		struct frame_writer w_ = {0};                                                      \
		struct frame_reader r_;                                                            \
		struct guest_##name cut_;                                                          \
		guest_##name##_put(&w_, value);                                                    \
		CHECK(!w_.failed);                                                                 \
		r_ = reader(&w_);                                                                  \
		CHECK(guest_##name##_get(&r_, got) && frame_ok(&r_));                              \
		for (size_t n_ = 0; n_ < buf_len(&w_.buf); n_++) {                                 \
			r_ = reader(&w_);                                                          \
			r_.n = n_;                                                                 \
			CHECK(!guest_##name##_get(&r_, &cut_));                                    \
			guest_##name##_done(&cut_);                                                \
		}                                                                                  \
		buf_done(&w_.buf);                                                                 \
	} while (0)

static void binding_comes_back(void)
{
	struct guest_bind v = {.id = T("i1"), .hostname = T("h"), .user = T("user")};
	struct guest_bind got;

	v.cwd = T("/w");
	v.env = (char **)(uintptr_t)env;
	ROUND(bind, &v, &got);
	CHECK_STR(got.id, "i1");
	CHECK_STR(got.hostname, "h");
	CHECK_STR(got.user, "user");
	CHECK_STR(got.cwd, "/w");
	CHECK_STR(got.env[0], "K=v");
	guest_bind_done(&got);
}

static void a_start_comes_back(void)
{
	struct guest_start got, v = {.key = T("k"),
					.tag = T("t"),
					.argv = (char **)(uintptr_t)args,
					.env = (char **)(uintptr_t)env,
					.cwd = T("/c"),
					.user = T("root"),
					.flags = GUEST_START_PTY,
					.cols = 80,
					.rows = 24,
					.timeout_ms = 1ull << 40,
					.memory_max = 1ull << 41,
					.open_files = 7,
					.processes = 8};

	ROUND(start, &v, &got);
	CHECK_STR(got.key, "k");
	CHECK_STR(got.tag, "t");
	CHECK_STR(got.argv[0], "a");
	CHECK_STR(got.argv[1], "");
	CHECK(!got.argv[2]);
	CHECK_STR(got.cwd, "/c");
	CHECK_STR(got.user, "root");
	CHECK_INT(got.flags, GUEST_START_PTY);
	CHECK_INT(got.cols, 80);
	CHECK_INT(got.rows, 24);
	CHECK_INT(got.timeout_ms, 1ll << 40);
	CHECK_INT(got.memory_max, 1ll << 41);
	CHECK_INT(got.open_files, 7);
	CHECK_INT(got.processes, 8);
	guest_start_done(&got);
}

static void attaching_comes_back(void)
{
	struct guest_attach got, v = {.which = {.pid = 9, .key = T("k"), .tag = T("t")},
					 .from = GUEST_FROM_OFFSET,
					 .offset = {1, 2, 3, 4}};
	struct guest_started got_started, started = {.pid = 3, .is_new = 1, .offset = {5, 6, 7, 8}};

	ROUND(attach, &v, &got);
	CHECK_INT(got.which.pid, 9);
	CHECK_STR(got.which.key, "k");
	CHECK_STR(got.which.tag, "t");
	CHECK_INT(got.from, GUEST_FROM_OFFSET);
	CHECK_INT(got.offset[3], 4);
	guest_attach_done(&got);
	ROUND(started, &started, &got_started);
	CHECK_INT(got_started.pid, 3);
	CHECK_INT(got_started.is_new, 1);
	CHECK_INT(got_started.offset[0], 5);
}

static void a_process_and_its_end_come_back(void)
{
	struct guest_process got, v = {.pid = 4,
					  .key = T("k"),
					  .tag = T("t"),
					  .argv = (char **)(uintptr_t)args,
					  .env = (char **)(uintptr_t)env,
					  .cwd = T("/"),
					  .user = T("u"),
					  .flags = 2,
					  .is_running = 0,
					  .started_ms = 77,
					  .exit = {.exit_code = -1,
						  .signal = 9,
						  .is_timed_out = 1,
						  .has_core = 1,
						  .end = {1, 2, 3, 4},
						  .cpu_us = 5,
						  .wall_ms = 6,
						  .rss_peak = 7}};

	ROUND(process, &v, &got);
	CHECK_INT(got.exit.exit_code, -1);
	CHECK_INT(got.exit.signal, 9);
	CHECK_INT(got.exit.end[2], 3);
	CHECK_INT(got.exit.rss_peak, 7);
	CHECK_INT(got.started_ms, 77);
	CHECK_STR(got.user, "u");
	guest_process_done(&got);
}

static void entries_and_changes_come_back(void)
{
	struct guest_entry got, v = {.name = T("n"),
					.path = T("/p/n"),
					.type = GUEST_DIR,
					.is_link = 1,
					.mode = 04755,
					.owner = T("o"),
					.group = T("g"),
					.size = 1ull << 50,
					.mtime_ns = 123,
					.link_target = T("/t"),
					.metadata = (char **)(uintptr_t)pairs};
	struct guest_change got_change, change = {.name = T("n"), .type = GUEST_CREATE};

	ROUND(entry, &v, &got);
	CHECK_STR(got.name, "n");
	CHECK_STR(got.path, "/p/n");
	CHECK_INT(got.type, GUEST_DIR);
	CHECK_INT(got.mode, 04755);
	CHECK_INT(got.size, 1ll << 50);
	CHECK_STR(got.link_target, "/t");
	CHECK_STR(got.metadata[1], "v");
	guest_entry_done(&got);

	ROUND(change, &change, &got_change);
	CHECK_INT(got_change.has_entry, 0);
	CHECK(got_change.entry.name == NULL);
	guest_change_done(&got_change);
	change.has_entry = 1;
	change.entry = v;
	ROUND(change, &change, &got_change);
	CHECK_STR(got_change.entry.owner, "o");
	guest_change_done(&got_change);
}

static void writes_and_usage_come_back(void)
{
	struct guest_write got, v = {.user = T("u"),
					.path = T("/p"),
					.mode = 0600,
					.metadata = (char **)(uintptr_t)pairs};
	struct guest_usage got_usage, usage = {1, 2, 3, 4, 5, 6, 7, 8, 9};

	ROUND(write, &v, &got);
	CHECK_STR(got.path, "/p");
	CHECK_INT(got.mode, 0600);
	CHECK_STR(got.metadata[0], "k");
	guest_write_done(&got);
	ROUND(usage, &usage, &got_usage);
	CHECK_INT(got_usage.cpu_count, usage.cpu_count);
	CHECK_INT(got_usage.cpu_us, usage.cpu_us);
	CHECK_INT(got_usage.mem_used, usage.mem_used);
	CHECK_INT(got_usage.mem_total, usage.mem_total);
	CHECK_INT(got_usage.mem_cache, usage.mem_cache);
	CHECK_INT(got_usage.disk_used, usage.disk_used);
	CHECK_INT(got_usage.disk_total, usage.disk_total);
	CHECK_INT(got_usage.processes, usage.processes);
	CHECK_INT(got_usage.idle_ms, usage.idle_ms);
}

static void values_out_of_range_are_refused(void)
{
	struct guest_entry entry = {.mode = 010000};
	struct guest_exit ended = {.exit_code = 256};
	struct guest_attach attach = {.from = 3};
	struct guest_change change = {.type = 0};
	char *odd[] = {T("k"), NULL};
	struct guest_write write = {.metadata = odd};
	struct frame_writer w = {0};
	struct frame_reader r;

#define REFUSED(name, v)                                                                           \
	do {                                                                                       \
		struct guest_##name got_;                                                          \
		guest_##name##_put(&w, &(v));                                                      \
		r = reader(&w);                                                                    \
		CHECK(!guest_##name##_get(&r, &got_));                                             \
		guest_##name##_done(&got_);                                                        \
		buf_done(&w.buf);                                                                  \
		w = (struct frame_writer){0};                                                      \
	} while (0)
	REFUSED(entry, entry);
	REFUSED(exit, ended);
	ended = (struct guest_exit){.signal = 65};
	REFUSED(exit, ended);
	REFUSED(attach, attach);
	REFUSED(change, change);
	REFUSED(write, write);
}

int main(void)
{
	RUN(binding_comes_back);
	RUN(a_start_comes_back);
	RUN(attaching_comes_back);
	RUN(a_process_and_its_end_come_back);
	RUN(entries_and_changes_come_back);
	RUN(writes_and_usage_come_back);
	RUN(values_out_of_range_are_refused);
	return tap_done();
}
