/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/seccomp_table - which system calls a sandbox may make, one reason per line.
 *
 * Pure data, read by tools/gen-seccomp at build time, which makes BPF programs for
 * x86-64 and arm64 of it. A call that is named nowhere here gets ENOSYS, the
 * answer of a kernel too old to have it, so that programs fall back; a call of
 * another ABI (i386, x32, 32-bit arm) kills the process: its numbers mean other
 * calls. A name an architecture lacks is skipped there.
 */
#include "sys/kernel_abi.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum seccomp_verdict {
	SECCOMP_ALLOW,
	SECCOMP_DENY,        /* dangerous: EPERM, told to the listener where there is one */
	SECCOMP_REFUSE,      /* EPERM, never told */
	SECCOMP_UNSUPPORTED, /* EPROTONOSUPPORT: a socket kind that programs can do without */
	SECCOMP_ENOSYS,      /* as if the kernel did not have it */
};

/*
 * A test of one argument. Only the low 32 bits are looked at: the arguments tested
 * here are int or unsigned in the kernel, which ignores the upper half, so a test
 * of all 64 bits could be passed by setting one there (CVE-2019-10063, TIOCSTI in flatpak).
 */
enum seccomp_op {
	SECCOMP_OP_NONE,
	SECCOMP_OP_EQ,  /* (arg & mask) == value */
	SECCOMP_OP_ANY, /* (arg & mask) != 0 */
};

struct seccomp_test {
	enum seccomp_op op;
	unsigned arg; /* 0..5 */
	unsigned mask;
	unsigned value;
};

#define SECCOMP_TESTS_MAX 3 /* per condition, all must hold */

/* clang-format off */
#define ARG_EQ(arg, value)           {SECCOMP_OP_EQ, arg, 0xffffffffu, (unsigned)(value)}
#define ARG_MASKED(arg, mask, value) {SECCOMP_OP_EQ, arg, (unsigned)(mask), (unsigned)(value)}
#define ARG_ANY(arg, mask)           {SECCOMP_OP_ANY, arg, (unsigned)(mask), 0}

#define NO_TEST                      {SECCOMP_OP_NONE, 0, 0, 0}

/* X(name, verdict when no condition below matches, reason) */
#define SECCOMP_CALLS(X) \
	/* Files and descriptors. */ \
	X(access, ALLOW, "path lookup") \
	X(chdir, ALLOW, "own working directory") \
	X(close, ALLOW, "descriptors") \
	X(close_range, ALLOW, "descriptors, many at once") \
	X(copy_file_range, ALLOW, "file to file, both already open") \
	X(dup, ALLOW, "descriptors") \
	X(dup2, ALLOW, "descriptors") \
	X(dup3, ALLOW, "descriptors") \
	X(faccessat, ALLOW, "path lookup") \
	X(faccessat2, ALLOW, "path lookup, with flags") \
	X(fadvise64, ALLOW, "page cache advice") \
	X(fallocate, ALLOW, "file space, capped by the disk wall") \
	X(fchdir, ALLOW, "own working directory") \
	X(fcntl, ALLOW, "descriptor flags, locks, seals; leases are in the conditions") \
	X(fdatasync, ALLOW, "flush an own file") \
	X(fgetxattr, ALLOW, "attributes") \
	X(file_getattr, ALLOW, "inode flags; the ioctl of the same effect is allowed") \
	X(file_setattr, ALLOW, "inode flags; immutable needs a capability over the machine") \
	X(flistxattr, ALLOW, "attributes") \
	X(flock, ALLOW, "file locks") \
	X(fremovexattr, ALLOW, "attributes; trusted.* needs a capability over the machine") \
	X(fsetxattr, ALLOW, "attributes; trusted.* needs a capability over the machine") \
	X(fstat, ALLOW, "stat an open file") \
	X(fstatfs, ALLOW, "file system sizes") \
	X(fsync, ALLOW, "flush an own file") \
	X(ftruncate, ALLOW, "needs a descriptor open for writing") \
	X(futimesat, ALLOW, "file times, old form") \
	X(getcwd, ALLOW, "own working directory") \
	X(getdents, ALLOW, "directory listing") \
	X(getdents64, ALLOW, "directory listing") \
	X(getxattr, ALLOW, "attributes") \
	X(getxattrat, ALLOW, "attributes") \
	X(inotify_add_watch, ALLOW, "file watching, counted per user namespace") \
	X(inotify_init, ALLOW, "file watching") \
	X(inotify_init1, ALLOW, "file watching") \
	X(inotify_rm_watch, ALLOW, "file watching") \
	X(ioctl, ALLOW, "terminals, reflinks; the dangerous ones are in the conditions") \
	X(lgetxattr, ALLOW, "attributes") \
	X(listxattr, ALLOW, "attributes") \
	X(listxattrat, ALLOW, "attributes") \
	X(llistxattr, ALLOW, "attributes") \
	X(lremovexattr, ALLOW, "attributes") \
	X(lseek, ALLOW, "file position") \
	X(lsetxattr, ALLOW, "attributes") \
	X(lstat, ALLOW, "stat") \
	X(memfd_create, ALLOW, "anonymous files, charged to the memory limit") \
	X(newfstatat, ALLOW, "stat") \
	X(cachestat, ALLOW, "page cache of an open file") \
	X(pipe, ALLOW, "pipes") \
	X(pipe2, ALLOW, "pipes") \
	X(poll, ALLOW, "waiting") \
	X(ppoll, ALLOW, "waiting") \
	X(pread64, ALLOW, "read") \
	X(preadv, ALLOW, "read") \
	X(preadv2, ALLOW, "read") \
	X(pselect6, ALLOW, "waiting") \
	X(pwrite64, ALLOW, "write") \
	X(pwritev, ALLOW, "write") \
	X(pwritev2, ALLOW, "write") \
	X(read, ALLOW, "read") \
	X(readahead, ALLOW, "page cache advice") \
	X(readlink, ALLOW, "symbolic links") \
	X(readlinkat, ALLOW, "symbolic links") \
	X(readv, ALLOW, "read") \
	X(removexattr, ALLOW, "attributes") \
	X(removexattrat, ALLOW, "attributes") \
	X(select, ALLOW, "waiting") \
	X(sendfile, ALLOW, "file to descriptor") \
	X(setxattr, ALLOW, "attributes; trusted.* needs a capability over the machine") \
	X(setxattrat, ALLOW, "attributes; trusted.* needs a capability over the machine") \
	X(splice, ALLOW, "pipe plumbing") \
	X(stat, ALLOW, "stat") \
	X(statfs, ALLOW, "file system sizes") \
	X(statx, ALLOW, "stat") \
	X(sync, ALLOW, "flush; slow for the host's disk but bounded by the io wall") \
	X(sync_file_range, ALLOW, "flush part of an own file") \
	X(syncfs, ALLOW, "flush the file system of an open file") \
	X(tee, ALLOW, "pipe plumbing") \
	X(umask, ALLOW, "own creation mask") \
	X(vmsplice, ALLOW, "pipe plumbing") \
	X(write, ALLOW, "write") \
	X(writev, ALLOW, "write") \
	/* Names and modes: mount flags, ids and Landlock decide; the host view watches these. */ \
	X(chmod, ALLOW, "own files") \
	X(chown, ALLOW, "own files; within the id range as root in the box") \
	X(creat, ALLOW, "create") \
	X(fchmod, ALLOW, "own files") \
	X(fchmodat, ALLOW, "own files") \
	X(fchmodat2, ALLOW, "own files") \
	X(fchown, ALLOW, "own files") \
	X(fchownat, ALLOW, "own files") \
	X(lchown, ALLOW, "own files") \
	X(link, ALLOW, "hard links inside one mount") \
	X(linkat, ALLOW, "hard links inside one mount") \
	X(mkdir, ALLOW, "create") \
	X(mkdirat, ALLOW, "create") \
	X(mknod, ALLOW, "FIFOs, sockets and plain files; device nodes are in the conditions") \
	X(mknodat, ALLOW, "FIFOs, sockets and plain files; device nodes are in the conditions") \
	X(open, ALLOW, "open") \
	X(openat, ALLOW, "open") \
	X(openat2, ALLOW, "open with lookup rules, which only narrow") \
	X(rename, ALLOW, "rename") \
	X(renameat, ALLOW, "rename") \
	X(renameat2, ALLOW, "rename, exchange; whiteouts need a capability") \
	X(rmdir, ALLOW, "remove") \
	X(symlink, ALLOW, "symbolic links") \
	X(symlinkat, ALLOW, "symbolic links") \
	X(truncate, ALLOW, "own files") \
	X(unlink, ALLOW, "remove") \
	X(unlinkat, ALLOW, "remove") \
	X(utime, ALLOW, "file times") \
	X(utimensat, ALLOW, "file times") \
	X(utimes, ALLOW, "file times") \
	/* Event descriptors and asynchronous waiting. */ \
	X(epoll_create, ALLOW, "event loops") \
	X(epoll_create1, ALLOW, "event loops") \
	X(epoll_ctl, ALLOW, "event loops") \
	X(epoll_pwait, ALLOW, "event loops") \
	X(epoll_pwait2, ALLOW, "event loops") \
	X(epoll_wait, ALLOW, "event loops") \
	X(eventfd, ALLOW, "event loops") \
	X(eventfd2, ALLOW, "event loops") \
	X(io_cancel, ALLOW, "old asynchronous io, used by databases") \
	X(io_destroy, ALLOW, "old asynchronous io, used by databases") \
	X(io_getevents, ALLOW, "old asynchronous io, used by databases") \
	X(io_pgetevents, ALLOW, "old asynchronous io, used by databases") \
	X(io_setup, ALLOW, "old asynchronous io, used by databases; counted by fs.aio-max-nr") \
	X(io_submit, ALLOW, "old asynchronous io, used by databases") \
	X(signalfd, ALLOW, "event loops") \
	X(signalfd4, ALLOW, "event loops") \
	X(timerfd_create, ALLOW, "event loops") \
	X(timerfd_gettime, ALLOW, "event loops") \
	X(timerfd_settime, ALLOW, "event loops") \
	/* Memory of the own process. */ \
	X(brk, ALLOW, "heap") \
	X(get_mempolicy, ALLOW, "NUMA placement, reading") \
	X(madvise, ALLOW, "own memory; poisoning pages needs a capability over the machine") \
	X(map_shadow_stack, ALLOW, "control-flow protection of libc") \
	X(membarrier, ALLOW, "memory ordering between own threads") \
	X(memfd_secret, ALLOW, "own memory, charged as locked") \
	X(mincore, ALLOW, "own pages") \
	X(mlock, ALLOW, "bounded by RLIMIT_MEMLOCK") \
	X(mlock2, ALLOW, "bounded by RLIMIT_MEMLOCK") \
	X(mlockall, ALLOW, "bounded by RLIMIT_MEMLOCK") \
	X(mmap, ALLOW, "own memory") \
	X(mprotect, ALLOW, "own memory") \
	X(mremap, ALLOW, "own memory") \
	X(mseal, ALLOW, "own memory, hardening") \
	X(msync, ALLOW, "own mappings") \
	X(munlock, ALLOW, "own memory") \
	X(munlockall, ALLOW, "own memory") \
	X(munmap, ALLOW, "own memory") \
	X(pkey_alloc, ALLOW, "own memory") \
	X(pkey_free, ALLOW, "own memory") \
	X(pkey_mprotect, ALLOW, "own memory") \
	X(process_madvise, ALLOW, "a process of the box, by pidfd") \
	X(process_mrelease, ALLOW, "a dying process of the box, by pidfd") \
	X(remap_file_pages, ALLOW, "own mappings, old form") \
	X(set_mempolicy, ALLOW, "NUMA placement, a preference for own memory only") \
	/* Processes, threads, scheduling. */ \
	X(arch_prctl, ALLOW, "thread pointer, on x86-64") \
	X(clone, ALLOW, "fork and threads; new namespaces are in the conditions") \
	X(execve, ALLOW, "programs") \
	X(execveat, ALLOW, "programs, by descriptor") \
	X(exit, ALLOW, "end") \
	X(exit_group, ALLOW, "end") \
	X(fork, ALLOW, "fork") \
	X(futex, ALLOW, "locks") \
	X(futex_requeue, ALLOW, "locks") \
	X(futex_wait, ALLOW, "locks") \
	X(futex_waitv, ALLOW, "locks") \
	X(futex_wake, ALLOW, "locks") \
	X(get_robust_list, ALLOW, "locks") \
	X(getcpu, ALLOW, "scheduling, reading") \
	X(getpgid, ALLOW, "job control") \
	X(getpgrp, ALLOW, "job control") \
	X(getpid, ALLOW, "own ids") \
	X(getppid, ALLOW, "own ids") \
	X(getpriority, ALLOW, "scheduling, reading") \
	X(getrlimit, ALLOW, "limits, reading") \
	X(getrusage, ALLOW, "usage, reading") \
	X(getsid, ALLOW, "job control") \
	X(gettid, ALLOW, "own ids") \
	X(ioprio_get, ALLOW, "io priority") \
	X(ioprio_set, ALLOW, "io priority; real-time class needs a capability over the machine") \
	X(kill, ALLOW, "the pid namespace and the Landlock signal scope bound it") \
	X(personality, ALLOW, "the values programs use are in the conditions") \
	X(pidfd_getfd, ALLOW, "needs ptrace rights over a process of the box") \
	X(pidfd_open, ALLOW, "processes of the box") \
	X(pidfd_send_signal, ALLOW, "as kill") \
	X(prctl, ALLOW, "own process; the dangerous options are in the conditions") \
	X(prlimit64, ALLOW, "own limits; raising hard ones needs a capability over the machine") \
	X(process_vm_readv, ALLOW, "debuggers; needs ptrace rights over a process of the box") \
	X(process_vm_writev, ALLOW, "debuggers; needs ptrace rights over a process of the box") \
	X(ptrace, ALLOW, "debuggers; the filter runs after the tracer, so none traces around it") \
	X(restart_syscall, ALLOW, "the kernel's own, after a stopped sleep") \
	X(rseq, ALLOW, "per-cpu data of libc") \
	X(sched_get_priority_max, ALLOW, "scheduling, reading") \
	X(sched_get_priority_min, ALLOW, "scheduling, reading") \
	X(sched_getaffinity, ALLOW, "scheduling, reading") \
	X(sched_getattr, ALLOW, "scheduling, reading") \
	X(sched_getparam, ALLOW, "scheduling, reading") \
	X(sched_getscheduler, ALLOW, "scheduling, reading") \
	X(sched_rr_get_interval, ALLOW, "scheduling, reading") \
	X(sched_setaffinity, ALLOW, "bounded by the cpuset") \
	X(sched_setattr, ALLOW, "real-time needs a capability over the machine") \
	X(sched_setparam, ALLOW, "real-time needs a capability over the machine") \
	X(sched_setscheduler, ALLOW, "real-time needs a capability over the machine") \
	X(sched_yield, ALLOW, "scheduling") \
	X(set_robust_list, ALLOW, "locks") \
	X(set_tid_address, ALLOW, "threads") \
	X(setpgid, ALLOW, "job control") \
	X(setpriority, ALLOW, "lower priority; raising needs a capability over the machine") \
	X(setrlimit, ALLOW, "own limits") \
	X(setsid, ALLOW, "sessions, own terminals") \
	X(unshare, ALLOW, "files, fs, sysvsem; new namespaces are in the conditions") \
	X(vfork, ALLOW, "fork") \
	X(wait4, ALLOW, "children") \
	X(waitid, ALLOW, "children") \
	/* Signals and timers. */ \
	X(alarm, ALLOW, "timers") \
	X(getitimer, ALLOW, "timers") \
	X(pause, ALLOW, "waiting") \
	X(rt_sigaction, ALLOW, "signals") \
	X(rt_sigpending, ALLOW, "signals") \
	X(rt_sigprocmask, ALLOW, "signals") \
	X(rt_sigqueueinfo, ALLOW, "as kill") \
	X(rt_sigreturn, ALLOW, "signals") \
	X(rt_sigsuspend, ALLOW, "signals") \
	X(rt_sigtimedwait, ALLOW, "signals") \
	X(rt_tgsigqueueinfo, ALLOW, "as kill") \
	X(setitimer, ALLOW, "timers") \
	X(sigaltstack, ALLOW, "signals") \
	X(tgkill, ALLOW, "as kill") \
	X(timer_create, ALLOW, "timers, bounded by RLIMIT_SIGPENDING") \
	X(timer_delete, ALLOW, "timers") \
	X(timer_getoverrun, ALLOW, "timers") \
	X(timer_gettime, ALLOW, "timers") \
	X(timer_settime, ALLOW, "timers") \
	X(tkill, ALLOW, "as kill") \
	/* Time, machine, randomness: reading. */ \
	X(clock_getres, ALLOW, "time") \
	X(clock_gettime, ALLOW, "time") \
	X(clock_nanosleep, ALLOW, "sleeping") \
	X(getrandom, ALLOW, "randomness") \
	X(gettimeofday, ALLOW, "time") \
	X(nanosleep, ALLOW, "sleeping") \
	X(sysinfo, ALLOW, "memory and load totals") \
	X(time, ALLOW, "time") \
	X(times, ALLOW, "time") \
	X(uname, ALLOW, "names") \
	/* Identity: all ids are inside the user namespace. */ \
	X(capget, ALLOW, "own capabilities") \
	X(capset, ALLOW, "own capabilities, within the bounding set") \
	X(getegid, ALLOW, "own ids") \
	X(geteuid, ALLOW, "own ids") \
	X(getgid, ALLOW, "own ids") \
	X(getgroups, ALLOW, "own ids") \
	X(getresgid, ALLOW, "own ids") \
	X(getresuid, ALLOW, "own ids") \
	X(getuid, ALLOW, "own ids") \
	X(landlock_add_rule, ALLOW, "narrowing further") \
	X(landlock_create_ruleset, ALLOW, "narrowing further") \
	X(landlock_restrict_self, ALLOW, "narrowing further") \
	X(seccomp, ALLOW, "narrowing further") \
	X(setdomainname, ALLOW, "own uts namespace") \
	X(setfsgid, ALLOW, "ids of the box") \
	X(setfsuid, ALLOW, "ids of the box") \
	X(setgid, ALLOW, "ids of the box") \
	X(setgroups, ALLOW, "ids of the box") \
	X(sethostname, ALLOW, "own uts namespace") \
	X(setregid, ALLOW, "ids of the box") \
	X(setresgid, ALLOW, "ids of the box") \
	X(setresuid, ALLOW, "ids of the box") \
	X(setreuid, ALLOW, "ids of the box") \
	X(setuid, ALLOW, "ids of the box") \
	/* Sockets: the network namespace and Landlock bound where they reach. */ \
	X(accept, ALLOW, "servers") \
	X(accept4, ALLOW, "servers") \
	X(bind, ALLOW, "servers") \
	X(connect, ALLOW, "clients") \
	X(getpeername, ALLOW, "sockets") \
	X(getsockname, ALLOW, "sockets") \
	X(getsockopt, ALLOW, "sockets") \
	X(listen, ALLOW, "servers") \
	X(recvfrom, ALLOW, "sockets") \
	X(recvmmsg, ALLOW, "sockets") \
	X(recvmsg, ALLOW, "sockets") \
	X(sendmmsg, ALLOW, "sockets") \
	X(sendmsg, ALLOW, "sockets") \
	X(sendto, ALLOW, "sockets") \
	X(setsockopt, ALLOW, "sockets") \
	X(shutdown, ALLOW, "sockets") \
	/* System V and POSIX ipc: own ipc namespace. */ \
	X(mq_getsetattr, ALLOW, "message queues") \
	X(mq_notify, ALLOW, "message queues") \
	X(mq_open, ALLOW, "message queues, bounded by RLIMIT_MSGQUEUE") \
	X(mq_timedreceive, ALLOW, "message queues") \
	X(mq_timedsend, ALLOW, "message queues") \
	X(mq_unlink, ALLOW, "message queues") \
	X(msgctl, ALLOW, "message queues") \
	X(msgget, ALLOW, "message queues") \
	X(msgrcv, ALLOW, "message queues") \
	X(msgsnd, ALLOW, "message queues") \
	X(semctl, ALLOW, "semaphores") \
	X(semget, ALLOW, "semaphores") \
	X(semop, ALLOW, "semaphores") \
	X(semtimedop, ALLOW, "semaphores") \
	X(shmat, ALLOW, "shared memory, charged to the memory limit") \
	X(shmctl, ALLOW, "shared memory") \
	X(shmdt, ALLOW, "shared memory") \
	X(shmget, ALLOW, "shared memory, charged to the memory limit") \
	/* Allowed only as a condition says. */ \
	X(socket, DENY, "other families and protocols lead into kernel code nobody needs") \
	X(socketpair, DENY, "only AF_UNIX has pairs that programs use") \
	/* Mounts: the box's tree is built before the command starts and stays as it is. */ \
	X(chroot, DENY, "with a held descriptor it is a way out of a root, not into one") \
	X(fsconfig, DENY, "mount API") \
	X(fsmount, DENY, "mount API") \
	X(fsopen, DENY, "mount API; opens file system parsers to the box") \
	X(fspick, DENY, "mount API") \
	X(mount, DENY, "masks and read-only binds could be covered or moved") \
	X(mount_setattr, DENY, "read-only and nosuid could be taken back") \
	X(move_mount, DENY, "mount API") \
	X(open_tree, DENY, "a private clone of a tree without the masks on it") \
	X(open_tree_attr, DENY, "as open_tree with mount_setattr") \
	X(pivot_root, DENY, "the root is chosen once") \
	X(setns, DENY, "joining another namespace") \
	X(umount2, DENY, "what a mask hides would come back") \
	/* Kernel code with a long record of holes that agents' tools do not need. */ \
	X(add_key, DENY, "keyrings are not namespaced by pid or mount; CVE-2016-0728") \
	X(bpf, DENY, "program loading and verifier") \
	X(fanotify_init, DENY, "watches whole mounts, can hold other processes") \
	X(fanotify_mark, DENY, "goes with fanotify_init") \
	X(io_uring_enter, DENY, "a second system call table that no filter sees into") \
	X(io_uring_register, DENY, "as io_uring_enter") \
	X(io_uring_setup, DENY, "as io_uring_enter") \
	X(keyctl, DENY, "keyrings; session keys of the host's user could be reached") \
	X(perf_event_open, DENY, "kernel addresses, side channels") \
	X(request_key, DENY, "runs a helper of the host") \
	X(userfaultfd, DENY, "holds the kernel at a chosen page: the aid of race exploits") \
	/* The machine itself. */ \
	X(acct, DENY, "process accounting of the machine") \
	X(adjtimex, DENY, "the machine's clock; only time daemons read it this way") \
	X(clock_adjtime, DENY, "the machine's clock") \
	X(clock_settime, DENY, "the machine's clock") \
	X(delete_module, DENY, "kernel modules") \
	X(finit_module, DENY, "kernel modules") \
	X(init_module, DENY, "kernel modules") \
	X(ioperm, DENY, "hardware ports") \
	X(iopl, DENY, "hardware ports") \
	X(kexec_file_load, DENY, "another kernel") \
	X(kexec_load, DENY, "another kernel") \
	X(open_by_handle_at, DENY, "opens files by number, past every mount; CVE-2014-3519") \
	X(quotactl, DENY, "disk quotas of the host's file systems") \
	X(quotactl_fd, DENY, "disk quotas of the host's file systems") \
	X(reboot, DENY, "in a pid namespace it ends the init, outside it ends the machine") \
	X(settimeofday, DENY, "the machine's clock") \
	X(swapoff, DENY, "the machine's swap") \
	X(swapon, DENY, "the machine's swap") \
	X(syslog, DENY, "kernel log, with addresses and other tenants' messages") \
	X(vhangup, DENY, "takes the terminal from its session") \
	/* Memory placement of other processes. */ \
	X(mbind, DENY, "moves pages that others share") \
	X(migrate_pages, DENY, "moves pages of other processes") \
	X(move_pages, DENY, "moves pages and tells where they are") \
	X(set_mempolicy_home_node, DENY, "goes with mbind") \
	/* Knowingly left out: programs probe for them and do well without. */ \
	X(clone3, ENOSYS, "flags are in memory, where no filter looks; libc falls back to clone") \
	X(kcmp, ENOSYS, "tells the order of kernel pointers; callers fall back") \
	X(listmount, ENOSYS, "mount table in raw form; callers fall back to /proc") \
	X(lookup_dcookie, ENOSYS, "gone since Linux 6.7") \
	X(lsm_get_self_attr, ENOSYS, "nothing of the box uses it") \
	X(lsm_list_modules, ENOSYS, "nothing of the box uses it") \
	X(lsm_set_self_attr, ENOSYS, "nothing of the box uses it") \
	X(modify_ldt, ENOSYS, "16-bit segments; CVE-2017-17053 and others") \
	X(name_to_handle_at, ENOSYS, "only useful with open_by_handle_at; callers fall back") \
	X(nfsservctl, ENOSYS, "gone since Linux 3.1") \
	X(statmount, ENOSYS, "as listmount") \
	X(sysfs, ENOSYS, "file system type numbers, obsolete") \
	X(uselib, ENOSYS, "obsolete library loader") \
	X(ustat, ENOSYS, "obsolete") \
	X(_sysctl, ENOSYS, "gone since Linux 5.5")

/* Every namespace flag clone() knows. CLONE_NEWTIME shares its bit with the exit signal there. */
#define SECCOMP_NEW_NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)

/*
 * X(name, verdict, reason, test, …): tried in this order before the verdict of the
 * call; the first whose tests all hold decides.
 */
#define SECCOMP_CONDITIONS(X) \
	X(clone, DENY, "a new user namespace opens the kernel's privileged surface", \
		ARG_ANY(0, SECCOMP_NEW_NAMESPACES)) \
	X(unshare, DENY, "as clone", ARG_ANY(0, SECCOMP_NEW_NAMESPACES | CLONE_NEWTIME)) \
	X(fcntl, DENY, "leases: opens of a shared file by the host would wait for the box", \
		ARG_EQ(1, F_SETLEASE)) \
	X(ioctl, DENY, "types into the terminal: input the outer shell would run", \
		ARG_EQ(1, TIOCSTI)) \
	X(ioctl, DENY, "pastes into a virtual console, as TIOCSTI; CVE-2023-28100", \
		ARG_EQ(1, TIOCLINUX)) \
	X(ioctl, DENY, "line disciplines: drivers loaded on demand, CVE-2017-2636", \
		ARG_EQ(1, TIOCSETD)) \
	X(mknod, DENY, "character devices", ARG_MASKED(1, S_IFMT, S_IFCHR)) \
	X(mknod, DENY, "block devices", ARG_MASKED(1, S_IFMT, S_IFBLK)) \
	X(mknodat, DENY, "character devices", ARG_MASKED(2, S_IFMT, S_IFCHR)) \
	X(mknodat, DENY, "block devices", ARG_MASKED(2, S_IFMT, S_IFBLK)) \
	X(personality, ALLOW, "the normal one", ARG_EQ(0, PER_LINUX)) \
	X(personality, ALLOW, "uname of a 32-bit machine, for builds", ARG_EQ(0, PER_LINUX32)) \
	X(personality, ALLOW, "no address randomisation: gdb, setarch -R", \
		ARG_EQ(0, ADDR_NO_RANDOMIZE)) \
	X(personality, ALLOW, "reading the current one", ARG_EQ(0, 0xffffffffu)) \
	X(personality, DENY, "executable data, mappings at address 0, old ABIs", \
		ARG_ANY(0, 0xffffffffu)) \
	X(prctl, DENY, "rewrites what /proc tells about the process", ARG_EQ(0, PR_SET_MM)) \
	X(prctl, DENY, "exempts the process from memory reclaim throttling", \
		ARG_EQ(0, PR_SET_IO_FLUSHER)) \
	X(prctl, DENY, "merging equal pages tells by time what neighbours hold", \
		ARG_EQ(0, PR_SET_MEMORY_MERGE)) \
	X(socket, ALLOW, "local sockets", ARG_EQ(0, AF_UNIX)) \
	X(socket, ALLOW, "TCP", ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, 0)) \
	X(socket, ALLOW, "TCP", \
		ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, IPPROTO_TCP)) \
	X(socket, ALLOW, "UDP", ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, 0)) \
	X(socket, ALLOW, "UDP", \
		ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, IPPROTO_UDP)) \
	X(socket, ALLOW, "ping without raw sockets", \
		ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, IPPROTO_ICMP)) \
	X(socket, ALLOW, "TCP", \
		ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, 0)) \
	X(socket, ALLOW, "TCP", \
		ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, IPPROTO_TCP)) \
	X(socket, ALLOW, "UDP", ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, 0)) \
	X(socket, ALLOW, "UDP", \
		ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, IPPROTO_UDP)) \
	X(socket, ALLOW, "ping without raw sockets", \
		ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_DGRAM), ARG_EQ(2, IPPROTO_ICMPV6)) \
	X(socket, UNSUPPORTED, "multipath TCP: Landlock does not see it; Go asks and falls back", \
		ARG_EQ(0, AF_INET), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, IPPROTO_MPTCP)) \
	X(socket, UNSUPPORTED, "multipath TCP", \
		ARG_EQ(0, AF_INET6), ARG_MASKED(1, 0xf, SOCK_STREAM), ARG_EQ(2, IPPROTO_MPTCP)) \
	X(socket, ALLOW, "interfaces and routes of the own network namespace", \
		ARG_EQ(0, AF_NETLINK), ARG_EQ(2, NETLINK_ROUTE)) \
	X(socket, UNSUPPORTED, "useradd goes on without audit if it is unknown, not if forbidden", \
		ARG_EQ(0, AF_NETLINK), ARG_EQ(2, NETLINK_AUDIT)) \
	X(socket, UNSUPPORTED, "udev: libraries probe for it", \
		ARG_EQ(0, AF_NETLINK), ARG_EQ(2, NETLINK_KOBJECT_UEVENT)) \
	X(socketpair, ALLOW, "local sockets", ARG_EQ(0, AF_UNIX))

#define SECCOMP_OPEN_WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/*
 * X(name, class, reason, test, …): allowed calls that a listener may ask to be
 * shown, to explain a refusal that comes from a mount or from Landlock. CONNECT
 * and WRITES are chosen apart.
 */
#define SECCOMP_WATCHES(X) \
	X(connect, CONNECT, "where it wanted to go", NO_TEST) \
	X(creat, WRITES, "creates", NO_TEST) \
	X(open, WRITES, "opens for writing", ARG_ANY(1, SECCOMP_OPEN_WRITES)) \
	X(openat, WRITES, "opens for writing", ARG_ANY(2, SECCOMP_OPEN_WRITES)) \
	X(openat2, WRITES, "flags are in memory: shown always", NO_TEST) \
	X(mkdir, WRITES, "creates", NO_TEST) \
	X(mkdirat, WRITES, "creates", NO_TEST) \
	X(mknod, WRITES, "creates", NO_TEST) \
	X(mknodat, WRITES, "creates", NO_TEST) \
	X(link, WRITES, "creates", NO_TEST) \
	X(linkat, WRITES, "creates", NO_TEST) \
	X(symlink, WRITES, "creates", NO_TEST) \
	X(symlinkat, WRITES, "creates", NO_TEST) \
	X(unlink, WRITES, "removes", NO_TEST) \
	X(unlinkat, WRITES, "removes", NO_TEST) \
	X(rmdir, WRITES, "removes", NO_TEST) \
	X(rename, WRITES, "renames", NO_TEST) \
	X(renameat, WRITES, "renames", NO_TEST) \
	X(renameat2, WRITES, "renames", NO_TEST) \
	X(truncate, WRITES, "changes", NO_TEST) \
	X(chmod, WRITES, "changes", NO_TEST) \
	X(fchmod, WRITES, "changes", NO_TEST) \
	X(fchmodat, WRITES, "changes", NO_TEST) \
	X(fchmodat2, WRITES, "changes", NO_TEST) \
	X(chown, WRITES, "changes", NO_TEST) \
	X(lchown, WRITES, "changes", NO_TEST) \
	X(fchown, WRITES, "changes", NO_TEST) \
	X(fchownat, WRITES, "changes", NO_TEST) \
	X(utime, WRITES, "changes", NO_TEST) \
	X(utimes, WRITES, "changes", NO_TEST) \
	X(futimesat, WRITES, "changes", NO_TEST) \
	X(utimensat, WRITES, "changes", NO_TEST)

/* O_TMPFILE without the O_DIRECTORY that is part of it. */
#define SECCOMP_OPEN_CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

/*
 * X(name, verdict, reason, test, …): added in front of the conditions where the box
 * shares files with the host under the caller's own id: a setuid file it leaves
 * behind would run as the caller for every other user. mkdir() is not here: the
 * kernel drops both bits from its mode.
 */
#define SECCOMP_NO_SUID_CONDITIONS(X) \
	X(chmod, REFUSE, "setuid, setgid", ARG_ANY(1, S_ISUID | S_ISGID)) \
	X(fchmod, REFUSE, "setuid, setgid", ARG_ANY(1, S_ISUID | S_ISGID)) \
	X(fchmodat, REFUSE, "setuid, setgid", ARG_ANY(2, S_ISUID | S_ISGID)) \
	X(fchmodat2, REFUSE, "setuid, setgid", ARG_ANY(2, S_ISUID | S_ISGID)) \
	X(mknod, REFUSE, "setuid, setgid", ARG_ANY(1, S_ISUID | S_ISGID)) \
	X(mknodat, REFUSE, "setuid, setgid", ARG_ANY(2, S_ISUID | S_ISGID)) \
	X(creat, REFUSE, "setuid, setgid", ARG_ANY(1, S_ISUID | S_ISGID)) \
	X(open, REFUSE, "the mode counts only if it creates", \
		ARG_ANY(1, SECCOMP_OPEN_CREATES), ARG_ANY(2, S_ISUID | S_ISGID)) \
	X(openat, REFUSE, "the mode counts only if it creates", \
		ARG_ANY(2, SECCOMP_OPEN_CREATES), ARG_ANY(3, S_ISUID | S_ISGID)) \
	X(openat2, ENOSYS, "the mode is in memory; callers fall back to openat", NO_TEST)
/* clang-format on */
