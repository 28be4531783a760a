/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack - the verb: attack a fresh sandbox and tell which walls held.
 *
 * Chooses the attacks, sets the stage, fills sandboxes with batches, runs the
 * controls, prints. Runs as the caller, root or not; leaves nothing behind.
 */
#include "cli/attack.h"
#include "cli/attack_print.h"
#include "cli/verb.h"
#include "sys/cgroup.h"
#include "sys/landlock.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define LANDLOCK_ABI_SCOPES 6

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

struct run {
	struct attack_options o;
	struct attack_setup setup;
	struct attack_ctx ctx;
	struct attack_stage *stage;
	struct attack_board board; /* what is shown */
	struct attack_report reports[ATTACKS_MAX];
};

static int take_option(
	struct attack_options *o, const char *name, const char *value, struct err *err)
{
	struct spec probe;
	int r;

	if (strcmp(name, "--only") == 0)
		return strv_add(&o->only, value, err);
	spec_init(&probe);
	if (strcmp(name, "--wall") == 0) {
		r = spec_set_wall(&probe, value, err);
		if (r >= 0)
			r = strv_add(&o->walls, value, err);
	} else {
		r = spec_set_root(&probe, value, err);
		o->root = probe.root;
	}
	spec_done(&probe);
	return r;
}

static int parse(struct attack_options *o, int argc, char **argv, struct err *err)
{
	static const char *const with_value[] = {"--only", "--wall", "--root"};
	static const char *const all[] = {
		"--json", "--list", "--only", "--wall", "--root", "--help"};
	int r = 0;

	for (int i = 1; r >= 0 && i < argc; i++) {
		const char *arg = argv[i], *value = NULL, *near;
		char quoted[64];
		size_t k;

		for (k = 0; k < sizeof(with_value) / sizeof(with_value[0]); k++) {
			size_t n = strlen(with_value[k]);

			if (strncmp(arg, with_value[k], n) == 0 && (arg[n] == '=' || !arg[n]))
				break;
		}
		if (k < sizeof(with_value) / sizeof(with_value[0])) {
			value = strchr(arg, '=');
			value = value ? value + 1 : argv[++i];
			if (!value)
				return err_set(err, EINVAL, "%s needs a value", with_value[k]);
			r = take_option(o, with_value[k], value, err);
		} else if (strcmp(arg, "--json") == 0) {
			o->as_json = true;
		} else if (strcmp(arg, "--list") == 0) {
			o->want_list = true;
		} else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
			o->want_help = true;
		} else {
			near = text_closest(arg, all, sizeof(all) / sizeof(all[0]));
			(void)text_quote(arg, quoted, sizeof(quoted));
			return err_set(err, EINVAL,
				"unknown option '%s'; %s%s%saccepted: --json, --list, --only GLOB, "
				"--wall NAME=LEVEL, --root base|host",
				quoted, near ? "did you mean '" : "", near ? near : "",
				near ? "'? " : "");
		}
	}
	return r;
}

static bool is_chosen(const struct attack_options *o, const struct attack *a)
{
	if (o->only.n == 0)
		return true;
	for (size_t i = 0; i < o->only.n; i++)
		if (fnmatch(o->only.v[i], a->name, 0) == 0)
			return true;
	return false;
}

/* The io limit is for disks: it needs a controller, and a shared directory on a block device. */
static bool has_disk_limit(void)
{
	unsigned controllers = 0;
	struct stat st;

	if (cgroup_detect(&controllers) == CGROUP_NONE || !(controllers & CGROUP_IO))
		return false;
	return stat(attack_stage_parent(), &st) == 0 && major(st.st_dev) != 0;
}

static int choose(struct run *run, struct err *err)
{
	struct attack_board *b = &run->board;
	bool has_disk = has_disk_limit(), has_scopes = landlock_abi() >= LANDLOCK_ABI_SCOPES;
	size_t n = 0;

	for (size_t i = 0; i < attack_count(); i++) {
		const struct attack *a = attack_at(i);

		if (!is_chosen(&run->o, a))
			continue;
		n++;
		if ((a->flags & ATTACK_NEEDS_IO) && !has_disk)
			b->entry[i].why_not =
				"no io controller for this user, or no disk below /tmp";
		else if ((a->flags & ATTACK_NEEDS_SCOPES) && !has_scopes)
			b->entry[i].why_not = "this kernel's Landlock has no scopes (Linux 6.12)";
		else if ((a->flags & ATTACK_BASE_ONLY) && run->o.root == SPEC_ROOT_HOST)
			b->entry[i].why_not = "with --root host the tree is there to be read";
		b->entry[i].is_chosen = true;
	}
	if (n == 0)
		return err_set(err, EINVAL,
			"no attack matches '--only %s'; 'bawn attack --list' shows their names",
			run->o.only.v[0]);
	return 0;
}

static bool is_pending(const struct run *run, size_t i)
{
	return run->board.entry[i].is_chosen && !run->board.entry[i].why_not;
}

/* The same function outside of any sandbox, in a throwaway child. */
static bool control(struct run *run, const struct attack *a, struct attack_report *r)
{
	struct attack_ctx c = run->ctx;

	if (!(a->flags & ATTACK_CONTROL))
		return false;
	c.role = ATTACK_ROLE_CONTROL;
	c.report_fd = c.hold_fd = c.ctx_fd = -1;
	(void)memset(r, 0, sizeof(*r));
	attack_run_child(a, &c, a->control_ns, r);
	return true;
}

static void conclude(struct run *run, size_t i, const struct box_result *result)
{
	const struct attack *a = attack_at(i);
	struct attack_report *r = &run->reports[i], outside;
	bool has_control = false;

	if (a->judge)
		a->judge(a, &run->ctx, result, r);
	if (r->verdict == ATTACK_REFUSED)
		has_control = control(run, a, &outside);
	attack_judge(a, r, has_control ? &outside : NULL, &result->violations,
		&run->board.entry[i].outcome);
	attack_print_progress(&run->board, i);
}

static void run_batch(struct run *run, const int32_t *index, size_t n)
{
	const struct attack *first = attack_at((size_t)index[0]);
	struct attack_cast cast = {.role = ATTACK_ROLE_BATCH,
		.flags = first->flags,
		.tune = first->tune,
		.index = index,
		.n = n};
	AUTO(attack_box_close) struct attack_box *box = NULL;
	struct attack_meter *meter = first->flags & ATTACK_METER ? attack_meter_start() : NULL;
	static struct box_result result;
	struct err err = {0};
	int r;

	(void)memset(&result, 0, sizeof(result));
	r = attack_box_open(&run->setup, run->stage, &run->ctx, &cast, &box, &err);
	if (r >= 0)
		r = attack_box_collect(box, run->reports, ATTACKS_MAX, &result, &err);
	if (meter)
		attack_meter_stop(meter, &run->ctx.meter_milli, &run->ctx.meter_late_us);
	for (size_t k = 0; k < n && !interrupted; k++) {
		struct attack_outcome *out = &run->board.entry[index[k]].outcome;

		if (r >= 0) {
			conclude(run, (size_t)index[k], &result);
			continue;
		}
		out->is_held = false;
		(void)snprintf(out->detail, sizeof(out->detail),
			"not attempted: no sandbox: %.300s", err.msg);
		attack_print_progress(&run->board, (size_t)index[k]);
	}
}

/* Attacks that want the same kind of sandbox share one, unless they want it for themselves. */
static void run_all(struct run *run)
{
	const unsigned kind = ATTACK_AS_ROOT | ATTACK_HOST_VIEW | ATTACK_TTY | ATTACK_ROAD;
	bool is_done[ATTACKS_MAX] = {false};

	for (size_t i = 0; i < attack_count() && !interrupted; i++) {
		const struct attack *a = attack_at(i);
		int32_t index[ATTACK_BATCH_MAX] = {0};
		size_t n = 0;

		if (is_done[i] || !is_pending(run, i))
			continue;
		for (size_t k = i; k < attack_count() && n < ATTACK_BATCH_MAX; k++) {
			const struct attack *b = attack_at(k);

			if (is_done[k] || !is_pending(run, k) ||
				(b->flags & kind) != (a->flags & kind))
				continue;
			if (((a->flags | b->flags) & ATTACK_OWN_BOX) && k != i)
				continue;
			is_done[k] = true;
			index[n++] = (int32_t)k;
		}
		run_batch(run, index, n);
	}
}

static bool needs_neighbour(const struct run *run)
{
	for (size_t i = 0; i < attack_count(); i++)
		if (is_pending(run, i) && text_starts(attack_at(i)->name, "neighbours/other-"))
			return true;
	return false;
}

static int attack_with_stage(struct run *run, struct err *err)
{
	AUTO(attack_box_close) struct attack_box *neighbour = NULL;
	struct attack_cast cast = {.role = ATTACK_ROLE_NEIGHBOUR};
	pid_t pid = 0;
	int r = 0;

	if (needs_neighbour(run)) {
		r = attack_box_open(&run->setup, run->stage, &run->ctx, &cast, &neighbour, err);
		if (r >= 0)
			r = attack_box_wait_ready(neighbour, &pid, err);
		if (r < 0)
			return err_wrap(err, "the neighbour sandbox");
		run->ctx.neighbour_pid = pid;
	}
	run_all(run);
	return r;
}

static int attack_all(struct run *run, struct err *err)
{
	AUTO(attack_stage_close) struct attack_stage *stage = NULL;
	AUTO_FD int program = attack_box_program(err);
	int r = program;

	if (r >= 0)
		r = attack_stage_open(&stage, &run->ctx, err);
	if (r < 0)
		return r;
	run->stage = stage;
	run->setup = (struct attack_setup){.root = run->o.root,
		.walls = run->o.walls.v,
		.walls_n = run->o.walls.n,
		.exec_fd = program};
	attack_box_limits(&run->ctx.limits);
	return attack_with_stage(run, err);
}

/* So that Ctrl-C ends with the stage removed; a second one is not needed, batches are short. */
static void catch_signals(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal};

	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		(void)sigaction(sigs[i], &sa, NULL);
}

int verb_attack(int argc, char **argv)
{
	static struct run run;
	struct err err = {0};
	int r;

	run.o.root = SPEC_ROOT_BASE;
	r = parse(&run.o, argc, argv, &err);
	if (r >= 0 && run.o.want_help)
		return attack_print_help();
	if (r >= 0)
		r = choose(&run, &err);
	if (r >= 0 && run.o.want_list)
		return attack_print_list(&run.board, run.o.as_json);
	if (r >= 0) {
		catch_signals();
		r = attack_all(&run, &err);
	}
	strv_done(&run.o.only);
	strv_done(&run.o.walls);
	if (r < 0)
		return verb_fail("attack", &err);
	if (interrupted)
		return 128 + interrupted;
	return attack_print_board(&run.board, run.o.as_json);
}
