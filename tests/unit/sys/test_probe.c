/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/probe.h"

#include "base/mem.h"
#include "base/own.h"
#include "sys/probe_impl.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static void cgroup_mounts_are_found_wherever_they_are(void)
{
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);

	probe_parse_mounts(
		"22 27 0:21 / /proc rw - proc proc rw\n"
		"32 31 0:29 / /cg/cpu\\040here rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n"
		"35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
		"36 31 0:32 / /second/memory rw - cgroup cgroup rw,memory\n"
		"38 31 0:35 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
		"41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
		p);
	CHECK_STR(p->cgroup.v1_mount[0], "/cg/memory");
	CHECK_STR(p->cgroup.v1_mount[1], "/cg/cpu here");
	CHECK_STR(p->cgroup.v1_mount[2], "");
	CHECK_STR(p->cgroup.v1_mount[3], "");
	CHECK_STR(p->cgroup.v2_mount, "/cg/unified");
	CHECK_STR(p->proc_cover, "");
}

static void a_mount_below_proc_covers_it(void)
{
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);

	probe_parse_mounts("50 22 0:40 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
			   "51 22 0:41 / /processes rw - tmpfs tmpfs rw\n",
		p);
	CHECK_STR(p->proc_cover, "");
	probe_parse_mounts("52 22 0:42 / /proc/kcore rw - tmpfs tmpfs rw\n", p);
	CHECK_STR(p->proc_cover, "/proc/kcore");
}

static void hostile_mount_lines_are_passed_over(void)
{
	static const char *const lines[] = {
		"",
		"\n\n\n",
		" - ",
		"1 2 3 - cgroup2",
		"1 2 3 4 5 - cgroup2 ",
		"1 2 3 4 - cgroup - memory\n",
		"- - - - - - - - -",
		"1 2 3:4 / /a\\ rw - cgroup2",
		"1 2 3:4 / /a\\04",
		"cgroup cgroup cgroup memory",
	};
	AUTO_FREE char *big = mem_must(malloc(70000));
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		probe_parse_mounts(lines[i], p);
	memset(big, 'a', 69999);
	big[69999] = '\0';
	probe_parse_mounts(big, p);
	memcpy(big, "1 2 3:4 / /", 11);
	memcpy(big + 600, " rw - cgroup2 x y\n", 18);
	probe_parse_mounts(big, p);
	CHECK_STR(p->cgroup.v2_mount, "");
	for (size_t i = 0; i < 4; i++)
		CHECK_STR(p->cgroup.v1_mount[i], "");
}

static void free_ids_begin_past_every_range(void)
{
	CHECK_INT(probe_parse_subid_end("", 100000), 100000);
	CHECK_INT(probe_parse_subid_end("a:100000:65536\nb:165536:65536\n", 100000), 231072);
	CHECK_INT(probe_parse_subid_end("a:1:2", 100000), 100000);
	CHECK_INT(probe_parse_subid_end("a\n:\n::\na:b:c\na:200000\na:-1:5\n", 7), 7);
	CHECK_INT(probe_parse_subid_end("a:4294967295:4294967295\n", 7), 7);
}

static int succeed(const void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	return 0;
}

static int fail(const void *arg, struct err *err)
{
	errno = EXDEV;
	return err_sys(err, "link '%s'", (const char *)arg);
}

static int hang(const void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	(void)signal(SIGALRM, SIG_IGN);
	while (pause() < 0)
		;
	return 0;
}

static int die(const void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	(void)raise(SIGKILL);
	return 0;
}

static void a_try_tells_success_failure_and_death(void)
{
	struct probe_try t = {.code = 77};

	probe_try(&t, 0, succeed, NULL);
	CHECK_INT(t.code, 0);
	CHECK_STR(t.step, "");
	probe_try(&t, 0, fail, "x");
	CHECK_INT(t.code, EXDEV);
	CHECK_STR(t.step, "link 'x'");
	probe_try(&t, 0, die, NULL);
	CHECK_INT(t.code, EIO);
}

static void a_try_that_hangs_is_ended(void)
{
	struct probe_try t = {0};

	probe_try(&t, 0, hang, NULL);
	CHECK_INT(t.code, ETIMEDOUT);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static int open_descriptors(void)
{
	AUTO_DIR DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void measuring_leaves_nothing(void)
{
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);
	AUTO_FREE char *before = mem_must(malloc(1 << 16));
	AUTO_FREE char *after = mem_must(malloc(1 << 16));
	char host[65], host_after[65];
	int fds = open_descriptors();

	/* Where we may, in a mount namespace of our own: other tests come and go beside us. */
	if (unshare(CLONE_NEWNS) == 0)
		CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(probe_read("/proc/self/mountinfo", before, 1 << 16) > 0);
	CHECK(gethostname(host, sizeof(host)) == 0);
	probe_run(p, "/nonexistent/state");
	CHECK(probe_read("/proc/self/mountinfo", after, 1 << 16) > 0);
	CHECK(gethostname(host_after, sizeof(host_after)) == 0);
	CHECK_STR(host_after, host);
	CHECK_STR(after, before);
	CHECK_INT(open_descriptors(), fds);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	CHECK_STR(p->state_dir, "/");
	CHECK_INT(p->uid, geteuid());
}

static void a_filter_that_is_there_works(void)
{
	AUTO_FREE struct probe *p = MEM_NEW(struct probe);

	probe_calls(p);
	CHECK_INT(p->tries[PROBE_NNP].code, 0);
	CHECK_INT(p->tries[PROBE_SECCOMP].code, 0);
	CHECK_INT(p->tries[PROBE_MEMFD].code, 0);
}

int main(void)
{
	RUN(cgroup_mounts_are_found_wherever_they_are);
	RUN(a_mount_below_proc_covers_it);
	RUN(hostile_mount_lines_are_passed_over);
	RUN(free_ids_begin_past_every_range);
	RUN(a_try_tells_success_failure_and_death);
	RUN(a_try_that_hangs_is_ended);
	RUN(measuring_leaves_nothing);
	RUN(a_filter_that_is_there_works);
	return tap_done();
}
