/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_meter - a neighbour on the host, timed while a box hogs the processor.
 *
 * One busy process per cpu shows what share a neighbour gets; one that sleeps for
 * a millisecond at a time shows how late it is woken. The share decides (it is the kernel's
 * own account and holds on a loaded machine too); the lateness is told.
 */
#include "base/mem.h"
#include "cli/attack.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define BUSY_MAX 16

struct attack_meter {
	pid_t busy[BUSY_MAX];
	size_t busy_n;
	pid_t sleeper;
	uint64_t start_us;
	uint64_t *late_us; /* shared: the worst so far */
};

static uint64_t now_us(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static _Noreturn void burn(void)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)now_us();
}

static _Noreturn void sleep_and_look(uint64_t *late_us)
{
	struct timespec step = {.tv_nsec = 1000000};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		uint64_t before = now_us(), took;

		(void)nanosleep(&step, NULL);
		took = now_us() - before;
		if (took > 1000 && took - 1000 > *late_us)
			*late_us = took - 1000;
	}
}

struct attack_meter *attack_meter_start(void)
{
	struct attack_meter *m = MEM_NEW(struct attack_meter);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	m->late_us = mmap(NULL, sizeof(*m->late_us), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->late_us == MAP_FAILED) {
		m->late_us = NULL;
		return m;
	}
	m->start_us = now_us();
	m->sleeper = fork();
	if (m->sleeper == 0)
		sleep_and_look(m->late_us);
	while (m->busy_n < BUSY_MAX && (long)m->busy_n < cpus) {
		pid_t pid = fork();

		if (pid == 0)
			burn();
		if (pid < 0)
			break;
		m->busy[m->busy_n++] = pid;
	}
	return m;
}

void attack_meter_stop(struct attack_meter *take_m, uint32_t *ret_milli, uint32_t *ret_late_us)
{
	struct attack_meter *m = take_m;
	uint64_t wall = now_us() - m->start_us, cpu = 0;

	for (size_t i = 0; i < m->busy_n; i++) {
		struct rusage ru = {0};

		(void)kill(m->busy[i], SIGKILL);
		while (wait4(m->busy[i], NULL, 0, &ru) < 0 && errno == EINTR)
			continue;
		cpu += (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
		       (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	}
	if (m->sleeper > 0) {
		(void)kill(m->sleeper, SIGKILL);
		while (waitpid(m->sleeper, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	*ret_milli = (uint32_t)(cpu * 1000 / (wall ? wall : 1));
	*ret_late_us = m->late_us ? (uint32_t)*m->late_us : 0;
	if (m->late_us)
		(void)munmap(m->late_us, sizeof(*m->late_us));
	free(m);
}
