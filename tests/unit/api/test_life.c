/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of sandboxes with a real store and loop and a warden that says what the test wants:
 * the four functions of run/warden.h used here are the test's own.
 */
#include "api/auth.h"
#include "api/egress.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define QUESTIONS_MAX 64

static struct question {
	struct warden_message m;
	warden_answer_fn answer;
	void *arg;
} questions[QUESTIONS_MAX];
static size_t asked, answered;
static bool is_away;

int warden_ask(struct warden_client *c, const struct warden_message *m, warden_answer_fn answer,
	void *arg, struct err *err)
{
	(void)c;
	if (is_away)
		return err_set(err, ENOTCONN, "no warden");
	questions[asked++ % QUESTIONS_MAX] = (struct question){*m, answer, arg};
	return 0;
}

static const char *guest_socket = "/nonexistent/guest.sock";

char *warden_guest_socket(const char *state, const char *id)
{
	(void)state, (void)id;
	return strdup(guest_socket);
}

char *warden_socket(const char *state)
{
	(void)state;
	return strdup("/nonexistent/warden.sock");
}

static char dir[] = "/tmp/test_life.XXXXXX";
static struct api *a;
static const struct api_caller who = {.tenant = "acme", .actor = "key:test"};
static struct sandbox *made_sb;
static struct err made_err;
static unsigned made_n, gone_n;
static int gone_code;

static void made(struct sandbox *sb, const struct err *err, void *arg)
{
	(void)arg;
	made_sb = sb;
	made_err = err ? *err : (struct err){0};
	made_n++;
}

static void gone(int code, void *arg)
{
	(void)arg;
	gone_code = code;
	gone_n++;
}

static void turn(void)
{
	struct err err = {0};

	(void)loop_once(a->loop, 0, &err);
}

static struct question *last(void)
{
	return &questions[answered % QUESTIONS_MAX];
}

/* Answer the oldest open question. */
static void say(int code, uint32_t op)
{
	struct question q = *last();
	struct warden_message m = q.m;

	answered++;
	memset(&m.spec, 0, sizeof(m.spec));
	m.op = op ? op : q.m.op;
	m.code = code;
	if (code < 0)
		(void)err_set(&m.err, -code, "the warden says no");
	q.answer(&m, q.arg);
	if (a->sandboxes->due)
		turn(); /* who waits is told once it is on the disk */
}

static void say_box(const char *id)
{
	struct question *q = last();
	struct warden_message m = {.op = WARDEN_BOX};

	(void)snprintf(m.id, sizeof(m.id), "%s", id);
	q->answer(&m, q->arg);
}

static void start_api(void)
{
	struct err err = {0};

	a = calloc(1, sizeof(*a));
	a->config = (struct api_config){.state = dir,
		.ttl_default_ms = 300000,
		.ttl_max_ms = 3600000,
		.sandboxes_max = 100};
	(void)snprintf(a->boot_id, sizeof(a->boot_id), "boot-1");
	CHECK(loop_create(&a->loop, &err) == 0);
	CHECK(store_open(dir, &a->store, &err) == 0);
	a->counters = metrics_create();
	CHECK(api_egress_create(a, &err) == 0);
	CHECK(sandboxes_create(a, &err) == 0);
	asked = answered = 0;
	made_n = gone_n = 0;
	made_sb = NULL;
	is_away = false;
}

/* As by SIGKILL: what is not in the store is lost. */
static void stop_api(void)
{
	sandboxes_free(a);
	api_egress_free(a);
	a->counters = metrics_free(a->counters);
	a->store = store_close(a->store);
	a->loop = loop_free(a->loop);
	free(a);
}

/* A list of nothing but these ids (NULL-terminated, or NULL). */
static void reconcile(const char *id)
{
	/* Later than anything that happened: a list judges only what was there before. */
	struct timespec ms = {.tv_nsec = 2000000};

	(void)nanosleep(&ms, NULL);
	turn();
	sandbox_reconcile(a);
	CHECK_INT(last()->m.op, WARDEN_LIST);
	if (id)
		say_box(id);
	say(0, 0);
}

static enum sandbox_state stored(const char *id, enum sandbox_reason *ret_reason)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	enum sandbox_state s = SANDBOX_STATE_COUNT;

	if (store_sandbox_get(a->store, id, &row, &err) == 0) {
		s = row.state;
		if (ret_reason)
			*ret_reason = row.reason;
		store_sandbox_done(&row);
	}
	return s;
}

static int count_event(const struct store_event *e, void *arg)
{
	(void)e;
	++*(int *)arg;
	return 0;
}

static int events(const char *id)
{
	struct err err = {0};
	int n = 0;

	CHECK(store_event_each(a->store, "acme", id, 0, 100, count_event, &n, &err) >= 0);
	return n;
}

static void wish(struct sandbox_wish *w, char id[SANDBOX_ID_MAX])
{
	sandbox_create(a, &who, w, made, NULL);
	id[0] = '\0';
	if (asked > answered)
		(void)snprintf(id, SANDBOX_ID_MAX, "%.31s", last()->m.id);
}

static void create_running(char id[SANDBOX_ID_MAX])
{
	struct sandbox_wish w = {.is_secure = true};

	wish(&w, id);
	say(0, 0);
	CHECK(made_sb && strcmp(made_sb->row.id, id) == 0);
}

/* I1, I2, I7 */
static void a_create_is_an_intent_then_running(void)
{
	struct sandbox_wish w = {.is_secure = true, .timeout_ms = 20000};
	char id[SANDBOX_ID_MAX];

	start_api();
	wish(&w, id);
	CHECK(sandbox_is_id(id));
	CHECK_INT(last()->m.op, WARDEN_START);
	CHECK(stored(id, NULL) == SANDBOX_CREATING); /* durable before the warden has answered */
	CHECK_INT(made_n, 0);
	CHECK(sandbox_by_id(a, id) == NULL); /* and nobody sees it */
	CHECK_INT(events(id), 1);
	say(0, 0);
	CHECK_INT(made_n, 1);
	CHECK(stored(id, NULL) == SANDBOX_RUNNING);
	CHECK_INT(events(id), 2);
	CHECK(strlen(made_sb->row.token) == 64);
	CHECK(strstr(made_sb->row.walls, "\"net\"") != NULL);
	CHECK(sandbox_find(a, "acme", id) == made_sb);
	CHECK(sandbox_find(a, "acme", "i") == made_sb); /* a unique prefix */
	CHECK(sandbox_find(a, "evil", id) == NULL);
	stop_api();
}

static void a_refused_start_is_failed_and_told(void)
{
	struct sandbox_wish w = {0};
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;

	start_api();
	wish(&w, id);
	say(-ENOSPC, 0);
	CHECK_INT(made_n, 1);
	CHECK(!made_sb && made_err.code == ENOSPC);
	CHECK(stored(id, &reason) == SANDBOX_FAILED && reason == SANDBOX_NOT_MADE);
	CHECK(sandbox_any(a, id) == NULL);
	turn();
	stop_api();
}

static void a_kill_is_an_intent_then_ended(void)
{
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;

	start_api();
	create_running(id);
	sandbox_kill(made_sb, "key:test", SANDBOX_KILLED, gone, NULL);
	CHECK(stored(id, &reason) == SANDBOX_ENDING && reason == SANDBOX_KILLED);
	CHECK(sandbox_by_id(a, id) == NULL);
	CHECK_INT(last()->m.op, WARDEN_STOP);
	CHECK_INT(gone_n, 0);
	say(0, 0);
	CHECK(gone_n == 1 && gone_code == 0);
	CHECK(stored(id, &reason) == SANDBOX_ENDED && reason == SANDBOX_KILLED);
	CHECK_INT(events(id), 4);
	turn();
	stop_api();
}

static bool was_cut;

static void cut(struct stream *s)
{
	CHECK(s->sb == NULL);
	was_cut = true;
}

static void a_kill_cuts_streams_before_it_asks(void)
{
	char id[SANDBOX_ID_MAX];
	struct stream s = {.cut = cut};
	size_t before;

	start_api();
	create_running(id);
	sandbox_stream_add(made_sb, &s);
	CHECK_INT(made_sb->busy, 1);
	before = asked;
	was_cut = false;
	sandbox_kill(made_sb, "key:test", SANDBOX_KILLED, gone, NULL);
	CHECK(was_cut);
	CHECK_INT(asked, before + 1);
	sandbox_kill(sandbox_any(a, id), "key:test", SANDBOX_KILLED, gone, NULL); /* joins */
	CHECK_INT(asked, before + 1);
	say(0, 0);
	CHECK_INT(gone_n, 2);
	turn();
	stop_api();
}

static void a_kill_whose_answer_is_lost_is_repeated(void)
{
	char id[SANDBOX_ID_MAX];

	start_api();
	create_running(id);
	sandbox_kill(made_sb, "key:test", SANDBOX_KILLED, gone, NULL);
	say(-ECONNRESET, 0);
	CHECK_INT(gone_n, 0);
	CHECK(stored(id, NULL) == SANDBOX_ENDING);
	reconcile(NULL);
	CHECK_INT(last()->m.op, WARDEN_STOP);
	say(0, 0);
	CHECK(gone_n == 1 && gone_code == 0);
	CHECK(stored(id, NULL) == SANDBOX_ENDED);
	turn();
	stop_api();
}

static void a_start_whose_answer_is_lost_is_looked_up(void)
{
	struct sandbox_wish w = {0};
	char id[SANDBOX_ID_MAX];

	start_api();
	wish(&w, id);
	say(-ECONNRESET, 0);
	CHECK_INT(made_n, 0);
	reconcile(id); /* it is there after all */
	CHECK_INT(made_n, 1);
	CHECK(made_sb && stored(id, NULL) == SANDBOX_RUNNING);
	stop_api();
}

static void a_start_that_never_was_is_asked_again_and_not_for_ever(void)
{
	struct sandbox_wish w = {0};
	char id[SANDBOX_ID_MAX];

	start_api();
	is_away = true;
	sandbox_create(a, &who, &w, made, NULL);
	CHECK_INT(made_n, 0);
	is_away = false;
	(void)snprintf(id, sizeof(id), "%s", a->sandboxes->first->row.id);
	for (int i = 0; i < 3; i++) {
		reconcile(NULL);
		CHECK_INT(last()->m.op, WARDEN_START);
		say(-ECONNRESET, 0);
		CHECK_INT(made_n, 0);
	}
	reconcile(NULL);
	CHECK(made_n == 1 && !made_sb && made_err.code == ENOTCONN);
	CHECK(stored(id, NULL) == SANDBOX_FAILED);
	turn();
	stop_api();
}

/* I4 */
static void a_restart_finds_what_runs(void)
{
	char id[SANDBOX_ID_MAX];
	int64_t deadline;

	start_api();
	create_running(id);
	deadline = made_sb->row.deadline_ms;
	stop_api();
	start_api();
	CHECK(!a->is_ready);
	reconcile(id);
	CHECK(a->is_ready);
	CHECK(sandbox_by_id(a, id) != NULL);
	CHECK_INT(sandbox_by_id(a, id)->row.deadline_ms, deadline);
	CHECK(sandbox_by_id(a, id)->deadline.slot != 0);
	CHECK_INT(asked, answered); /* nothing was stopped or started */
	stop_api();
}

static void a_restart_ends_what_is_gone(void)
{
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;

	start_api();
	create_running(id);
	stop_api();
	start_api();
	reconcile(NULL);
	/* Whatever is left of it outside is cleared away by the same road as ever. */
	while (asked > answered)
		say(0, 0);
	CHECK(stored(id, &reason) == SANDBOX_ENDED && reason == SANDBOX_GUEST_GONE);
	turn();
	stop_api();
}

static void a_reboot_is_told_from_a_crash(void)
{
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;

	start_api();
	create_running(id);
	stop_api();
	start_api();
	(void)snprintf(a->boot_id, sizeof(a->boot_id), "boot-2");
	reconcile(NULL);
	while (asked > answered)
		say(0, 0);
	CHECK(stored(id, &reason) == SANDBOX_ENDED && reason == SANDBOX_HOST_REBOOT);
	turn();
	stop_api();
}

static void a_stray_box_is_stopped(void)
{
	start_api();
	reconcile("istray00000000000000");
	CHECK_INT(asked, answered + 1);
	CHECK_INT(last()->m.op, WARDEN_STOP);
	CHECK_STR(last()->m.id, "istray00000000000000");
	say(0, 0);
	stop_api();
}

/* I6 */
static void a_create_not_answered_before_a_restart_is_destroyed(void)
{
	struct sandbox_wish w = {0};
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;

	start_api();
	wish(&w, id);
	stop_api();
	start_api();
	reconcile(id);
	CHECK_INT(last()->m.op, WARDEN_STOP);
	CHECK(stored(id, NULL) == SANDBOX_CREATING); /* until it is gone */
	say(0, 0);
	CHECK(stored(id, &reason) == SANDBOX_FAILED && reason == SANDBOX_NOT_ANSWERED);
	CHECK_INT(made_n, 0);
	turn();
	stop_api();
}

static void what_changes_while_a_list_is_made_is_left_alone(void)
{
	char id[SANDBOX_ID_MAX];
	struct question list;

	start_api();
	sandbox_reconcile(a);
	list = *last();
	answered++;
	create_running(id);
	list.answer(&(struct warden_message){.op = WARDEN_LIST}, list.arg);
	CHECK(stored(id, NULL) == SANDBOX_RUNNING);
	CHECK_INT(asked, answered);
	stop_api();
}

static void an_idempotency_key_makes_one_sandbox(void)
{
	struct sandbox_wish w = {.idempotency = "once", .timeout_ms = 20000}, other = w;
	char id[SANDBOX_ID_MAX];
	struct sandbox *first;

	start_api();
	wish(&w, id);
	sandbox_create(a, &who, &w, made, NULL); /* while it is made: waits for the same */
	CHECK_INT(asked, answered + 1);
	say(0, 0);
	CHECK_INT(made_n, 2);
	first = made_sb;
	made_sb = NULL;
	sandbox_create(a, &who, &w, made, NULL);
	CHECK(made_n == 3 && made_sb == first);
	other.timeout_ms = 30000;
	sandbox_create(a, &who, &other, made, NULL);
	CHECK(made_n == 4 && !made_sb && made_err.code == EEXIST);
	stop_api();
}

static void bad_wishes_leave_nothing(void)
{
	json_t *number = json_pack("{s:i}", "a", 1), *env = json_pack("{s:s}", "a=b", "x");
	struct sandbox_wish wishes[] = {
		{.template = "nope"},
		{.metadata = number},
		{.env = number},
		{.env = env},
		{.name = "Bad Name"},
		{.name = "-x"},
		{.timeout_ms = 3600001},
	};
	static const int codes[] = {ENOENT, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL};

	start_api();
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		sandbox_create(a, &who, &wishes[i], made, NULL);
		CHECK_INT(made_n, i + 1);
		CHECK_INT(made_err.code, codes[i]);
	}
	CHECK_INT(asked, 0);
	CHECK_INT(a->sandboxes->live, 0);
	json_decref(number);
	json_decref(env);
	stop_api();
}

static void names_and_numbers_are_limited(void)
{
	struct sandbox_wish w = {.name = "mine"};
	char id[SANDBOX_ID_MAX];

	start_api();
	wish(&w, id);
	say(0, 0);
	CHECK(sandbox_find(a, "acme", "mine") == made_sb);
	sandbox_create(a, &who, &w, made, NULL);
	CHECK_INT(made_err.code, EEXIST);
	w.name = NULL;
	a->config.sandboxes_max = a->sandboxes->live;
	sandbox_create(a, &who, &w, made, NULL);
	CHECK_INT(made_err.code, EDQUOT);
	stop_api();
}

static void time_is_up_by_the_monotonic_clock(void)
{
	struct sandbox_wish w = {.timeout_ms = 1};
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;
	struct timespec ms = {.tv_nsec = 5000000};

	start_api();
	wish(&w, id);
	say(0, 0);
	(void)nanosleep(&ms, NULL);
	turn();
	turn();
	CHECK(stored(id, &reason) == SANDBOX_ENDING && reason == SANDBOX_TTL);
	say(0, 0);
	CHECK(stored(id, &reason) == SANDBOX_ENDED && reason == SANDBOX_TTL);
	turn();
	stop_api();
}

static void idle_ends_but_busy_does_not(void)
{
	struct sandbox_wish w = {.timeout_ms = 60000, .idle_ms = 400};
	char id[SANDBOX_ID_MAX];
	enum sandbox_reason reason;
	struct timespec ms = {.tv_nsec = 450000000};
	struct stream s = {.cut = cut};

	start_api();
	wish(&w, id);
	say(0, 0);
	sandbox_stream_add(made_sb, &s);
	(void)nanosleep(&ms, NULL);
	turn();
	turn();
	CHECK(stored(id, NULL) == SANDBOX_RUNNING);
	sandbox_stream_remove(&s);
	(void)nanosleep(&ms, NULL);
	turn();
	(void)nanosleep(&ms, NULL);
	turn();
	CHECK(stored(id, &reason) == SANDBOX_ENDING && reason == SANDBOX_IDLE);
	say(0, 0);
	turn();
	stop_api();
}

static void a_timeout_moves_and_only_extends_if_asked(void)
{
	char id[SANDBOX_ID_MAX];
	struct err err = {0};
	int64_t before;

	start_api();
	create_running(id);
	before = made_sb->row.deadline_ms;
	CHECK_INT(sandbox_set_timeout(made_sb, "key:test", 1000, true, &err), 0);
	CHECK_INT(made_sb->row.deadline_ms, before);
	CHECK_INT(sandbox_set_timeout(made_sb, "key:test", 1000, false, &err), 0);
	CHECK(made_sb->row.deadline_ms < before);
	CHECK_INT(sandbox_set_timeout(made_sb, "key:test", 0, false, &err), -EINVAL);
	CHECK_INT(sandbox_set_timeout(made_sb, "key:test", 3600001, false, &err), -EINVAL);
	stop_api();
}

static int link_code;

static void linked(struct sandbox *sb, int code, void *arg)
{
	(void)sb, (void)arg;
	link_code = code;
}

static void a_guest_that_is_not_there_is_an_error(void)
{
	char id[SANDBOX_ID_MAX];

	start_api();
	create_running(id);
	link_code = 1;
	sandbox_guest(made_sb, linked, NULL);
	CHECK_INT(link_code, -ECONNRESET);
	stop_api();
}

static struct sockaddr_un guest_at = {.sun_family = AF_UNIX};
static int guest_listener;

/* A sandbox whose guest is us; returns our end. */
static int play_guest(void)
{
	char id[SANDBOX_ID_MAX];

	guest_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(guest_at.sun_path, sizeof(guest_at.sun_path), "%s/guest", dir);
	CHECK_INT(bind(guest_listener, (struct sockaddr *)&guest_at, sizeof(guest_at)), 0);
	CHECK_INT(listen(guest_listener, 1), 0);
	guest_socket = guest_at.sun_path;
	start_api();
	create_running(id);
	link_code = 1;
	sandbox_guest(made_sb, linked, NULL);
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	return accept4(guest_listener, NULL, NULL, SOCK_CLOEXEC);
}

static void stop_guest(int guest)
{
	stop_api();
	(void)close(guest);
	(void)close(guest_listener);
	(void)unlink(guest_at.sun_path);
	guest_socket = "/nonexistent/guest.sock";
}

/* MSG_OK and END on a channel, as the guest's answer to what it needs not think about. */
static void guest_says_ok(int guest, uint32_t channel)
{
	char said[2 * FRAME_HEADER + 10] = {0};

	frame_header(said, 2, FRAME_MESSAGE, 0, channel);
	said[FRAME_HEADER] = MSG_OK;
	frame_header(said + FRAME_HEADER + 2, 8, FRAME_END, 0, channel);
	CHECK_INT(write(guest, said, sizeof(said)), (ssize_t)sizeof(said));
}

/* It takes the binding, ends it and breaks the rules, all in one piece: the link goes while the
 * channel of the binding waits to be told that it is over. */
static void a_guest_that_binds_and_lies_at_once_is_gone(void)
{
	char said[FRAME_HEADER];
	int guest = play_guest();

	guest_says_ok(guest, 1);
	frame_header(said, 0, FRAME_END, 0, 0);
	CHECK_INT(write(guest, said, sizeof(said)), (ssize_t)sizeof(said));
	for (int i = 0; i < 5; i++)
		turn();
	CHECK_INT(link_code, -ECONNRESET);
	CHECK(!made_sb->guest && !made_sb->link);
	stop_guest(guest);
}

static int op_code;

static void op_closed(struct mux_channel *c, int code)
{
	(void)c;
	op_code = code;
}

/* Waits for something that never comes, on a link that is looked at often. */
static void wait_for_guest(struct mux_channel *c)
{
	static const struct mux_events events = {.closed = op_closed};
	struct frame_writer w = {0};
	struct err err = {0};

	op_code = -1;
	CHECK_INT(mux_open(made_sb->guest, c, GUEST_USAGE, &w, &events, NULL, &err), 0);
	buf_done(&w.buf);
}

static void a_guest_that_falls_silent_ends_what_waits_for_it(void)
{
	struct mux_channel c = {0};
	int guest = play_guest();

	a->sandboxes->look_ms = 10;
	guest_says_ok(guest, 1);
	while (link_code == 1)
		turn();
	CHECK_INT(link_code, 0);
	wait_for_guest(&c);
	for (int i = 0; i < 5000 && made_sb->link; i++) {
		(void)usleep(1000);
		turn();
	}
	CHECK_INT(op_code, ECONNRESET);
	CHECK(!made_sb->guest && !made_sb->link);
	stop_guest(guest);
}

/* The number of pings among what came; each is answered. */
static unsigned answer_pings(int guest)
{
	static char bytes[65536];
	static size_t have;
	ssize_t n = recv(guest, bytes + have, sizeof(bytes) - have, MSG_DONTWAIT), used;
	size_t at = 0;
	unsigned pings = 0;
	struct frame f;

	have += n > 0 ? (size_t)n : 0;
	while ((used = frame_parse(bytes + at, have - at, &f)) > 0) {
		at += (size_t)used;
		if (f.type != FRAME_OPEN || f.length < 2 || f.payload[0] != GUEST_PING)
			continue;
		guest_says_ok(guest, f.channel);
		pings++;
	}
	have -= at;
	memmove(bytes, bytes + at, have);
	return pings;
}

static void a_guest_that_is_slow_but_there_is_waited_for(void)
{
	struct mux_channel c = {0};
	unsigned pings = 0;
	int guest = play_guest();

	a->sandboxes->look_ms = 200;
	guest_says_ok(guest, 1);
	while (link_code == 1)
		turn();
	wait_for_guest(&c);
	for (int i = 0; i < 5000 && pings < 4; i++) {
		(void)usleep(1000);
		turn();
		pings += answer_pings(guest);
	}
	CHECK_INT(pings, 4);
	CHECK_INT(op_code, -1);
	CHECK(made_sb->guest != NULL);
	mux_drop(&c);
	stop_guest(guest);
}

static void failures_are_counted_per_address_and_forgiven(void)
{
	struct api_keys *k = api_keys_create();
	unsigned n = 0;

	while (n < 1000 && api_keys_failed(k, "192.0.2.1", 1000) == 0)
		n++;
	CHECK_INT(n, 30);
	CHECK(api_keys_failed(k, "192.0.2.1", 1000) > 0);
	CHECK_INT(api_keys_failed(k, "192.0.2.2", 1000), 0);
	CHECK_INT(api_keys_failed(k, "192.0.2.1", 3000), 0);
	CHECK(api_keys_failed(k, "192.0.2.1", 3000) > 0);
	k = api_keys_free(k);
}

static void remove_dir(void)
{
	static const char *const names[] = {"bawn.db", "bawn.db-wal", "bawn.db-shm"};
	int fd = open(dir, O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < 3; i++)
		(void)unlinkat(fd, names[i], 0);
	(void)close(fd);
	(void)rmdir(dir);
}

static void fresh(const char *name, void (*fn)(void))
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test_life.XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	tap_run(name, fn);
	remove_dir();
}
#define FRESH(fn) fresh(#fn, fn)

int main(void)
{
	FRESH(a_create_is_an_intent_then_running);
	FRESH(a_refused_start_is_failed_and_told);
	FRESH(a_kill_is_an_intent_then_ended);
	FRESH(a_kill_cuts_streams_before_it_asks);
	FRESH(a_kill_whose_answer_is_lost_is_repeated);
	FRESH(a_start_whose_answer_is_lost_is_looked_up);
	FRESH(a_start_that_never_was_is_asked_again_and_not_for_ever);
	FRESH(a_restart_finds_what_runs);
	FRESH(a_restart_ends_what_is_gone);
	FRESH(a_reboot_is_told_from_a_crash);
	FRESH(a_stray_box_is_stopped);
	FRESH(a_create_not_answered_before_a_restart_is_destroyed);
	FRESH(what_changes_while_a_list_is_made_is_left_alone);
	FRESH(an_idempotency_key_makes_one_sandbox);
	FRESH(bad_wishes_leave_nothing);
	FRESH(names_and_numbers_are_limited);
	FRESH(time_is_up_by_the_monotonic_clock);
	FRESH(idle_ends_but_busy_does_not);
	FRESH(a_timeout_moves_and_only_extends_if_asked);
	FRESH(a_guest_that_is_not_there_is_an_error);
	FRESH(a_guest_that_binds_and_lies_at_once_is_gone);
	FRESH(a_guest_that_falls_silent_ends_what_waits_for_it);
	FRESH(a_guest_that_is_slow_but_there_is_waited_for);
	RUN(failures_are_counted_per_address_and_forgiven);
	return tap_done();
}
