/* SPDX-License-Identifier: Apache-2.0 */

/*
 * bench/spawn - time whole lives of commands, one process per sample, interleaved.
 *
 *   spawn ROUNDS WARMUP SEED [@MNTNS] NAME ARG… [:: [@MNTNS] NAME ARG…]…
 *   spawn ROUNDSxEACHxFLIGHT WARMUP SEED NAME ARG… [:: NAME ARG…]…
 *
 * Every round runs each command once, in an order shuffled afresh, so that whatever
 * else the machine is doing falls on all of them alike. A sample is the time from
 * just before posix_spawn() to the return of wait4(): what a caller waits for. Prints
 * `NAME NANOSECONDS STATUS` per sample; warm-up rounds are not printed.
 *
 * In the second form a sample is EACH lives, divided among FLIGHT processes at work at the same
 * time: what a machine can do in all.
 *
 * A program `api:WHAT` is no program but an operation of bench/api. An ARG `{n}` becomes a
 * number no other sample has (container runtimes want a name). @MNTNS is a path to a mount
 * namespace, entered before the clock starts. The standard streams of the commands are
 * /dev/null.
 */
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUBJECTS_MAX 32
#define ARGS_MAX     63

struct subject {
	const char *name;
	const char *program;
	char **argv;
	int mntns_fd; /* -1: ours */
};

static struct subject subjects[SUBJECTS_MAX];
static size_t subjects_n;
static uint64_t seed;
static FILE *out; /* the caller's standard output */
static int own_mntns_fd = -1;

static void fail(const char *what, const char *name)
{
	(void)fprintf(stderr, "spawn: %s '%s': %s\n", what, name, strerror(errno));
	exit(125);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* xorshift64: repeatable for a given seed. */
static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void shuffle(size_t *order, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)(next_random() % i), held = order[i - 1];

		order[i - 1] = order[j];
		order[j] = held;
	}
}

static void add_subject(char **words)
{
	struct subject *s;

	if (subjects_n == SUBJECTS_MAX) {
		(void)fprintf(stderr, "spawn: more than %d commands\n", SUBJECTS_MAX);
		exit(125);
	}
	s = &subjects[subjects_n++];
	s->mntns_fd = -1;
	if (*words && **words == '@') {
		s->mntns_fd = open(*words + 1, O_RDONLY | O_CLOEXEC);
		if (s->mntns_fd < 0)
			fail("open", *words + 1);
		if (own_mntns_fd < 0)
			own_mntns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
		words++;
	}
	if (!words[0] || !words[1]) {
		(void)fputs("spawn: a command wants NAME ARG…\n", stderr);
		exit(125);
	}
	s->name = words[0];
	s->program = words[1];
	s->argv = words + 1;
}

static void parse(char **words)
{
	char **first = words;

	for (; *words; words++) {
		if (strcmp(*words, "::") != 0)
			continue;
		*words = NULL;
		add_subject(first);
		first = words + 1;
	}
	add_subject(first);
}

/* Our results go elsewhere; what the commands inherit is /dev/null. */
static void quiet(void)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	out = out_fd >= 0 ? fdopen(out_fd, "w") : NULL;
	if (null_fd < 0 || !out)
		fail("open", "/dev/null");
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(null_fd, STDOUT_FILENO) < 0)
		fail("redirect to", "/dev/null");
}

static void enter(int mntns_fd)
{
	if (setns(mntns_fd, CLONE_NEWNS) < 0)
		fail("enter", "mount namespace");
}

/* One life of s, number n; the exit status, and what it took. */
static int live(const struct subject *s, unsigned n, uint64_t *ret_ns)
{
	char number[16], *argv[ARGS_MAX + 1];
	struct rusage usage;
	uint64_t start;
	size_t i = 0;
	int status, r;
	pid_t pid;

	if (strncmp(s->program, "api:", 4) == 0) {
		*ret_ns = api_sample(s->program + 4);
		return 0;
	}
	(void)snprintf(number, sizeof(number), "%u", n);
	for (; i < ARGS_MAX && s->argv[i]; i++)
		argv[i] = strcmp(s->argv[i], "{n}") == 0 ? number : s->argv[i];
	argv[i] = NULL;

	if (s->mntns_fd >= 0)
		enter(s->mntns_fd);
	start = now_ns();
	r = posix_spawn(&pid, s->program, NULL, NULL, argv, environ);
	if (r != 0) {
		errno = r;
		fail("start", s->name);
	}
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			fail("wait for", s->name);
	*ret_ns = now_ns() - start;
	if (s->mntns_fd >= 0)
		enter(own_mntns_fd);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* `each` lives among `flight` processes; the worst exit status. */
static int live_together(
	const struct subject *s, unsigned each, unsigned flight, unsigned n, uint64_t *ret_ns)
{
	uint64_t start = now_ns(), ignored;
	int status, worst = 0;

	for (unsigned w = 0; w < flight; w++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork for", s->name);
		if (pid > 0)
			continue;
		for (unsigned i = w; i < each; i += flight)
			if (live(s, n * each + i, &ignored) != 0)
				_exit(1);
		_exit(0);
	}
	for (unsigned w = 0; w < flight; w++) {
		if (wait(&status) < 0)
			fail("wait for", s->name);
		if (status != 0)
			worst = 1;
	}
	*ret_ns = now_ns() - start;
	return worst;
}

int main(int argc, char **argv)
{
	size_t order[SUBJECTS_MAX] = {0};
	unsigned rounds, warmup, n = 0, each = 1, flight = 0;
	char *rest;

	if (argc < 6) {
		(void)fputs(
			"usage: spawn ROUNDS[xEACHxFLIGHT] WARMUP SEED [@MNTNS] NAME ARG… [:: …]\n",
			stderr);
		return 125;
	}
	rounds = (unsigned)strtoul(argv[1], &rest, 10);
	if (*rest == 'x') {
		each = (unsigned)strtoul(rest + 1, &rest, 10);
		flight = *rest == 'x' ? (unsigned)strtoul(rest + 1, NULL, 10) : 1;
	}
	warmup = (unsigned)strtoul(argv[2], NULL, 10);
	seed = strtoull(argv[3], NULL, 10) | 1;
	parse(argv + 4);
	for (size_t i = 0; i < subjects_n; i++)
		order[i] = i;
	quiet();
	for (unsigned r = 0; r < warmup + rounds; r++) {
		shuffle(order, subjects_n);
		for (size_t i = 0; i < subjects_n; i++) {
			const struct subject *s = &subjects[order[i]];
			uint64_t ns;
			int status =
				flight ? live_together(s, each, flight, n, &ns) : live(s, n, &ns);

			n++;
			if (r >= warmup)
				(void)fprintf(out, "%s %llu %d\n", s->name, (unsigned long long)ns,
					status);
		}
	}
	return fclose(out) == 0 ? 0 : 125;
}
