/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/probe_impl - private to the probe_*.c files: how a thing is tried in a child.
 */
#include "sys/probe.h"

/* Runs in the child; returns 0 or what err_sys() returns. Children it forks die with it. */
typedef int (*probe_fn)(const void *arg, struct err *err);

/*
 * Run fn in a child made by clone() with those namespace flags; with CLONE_NEWUSER
 * the caller's ids are mapped to 0 first. The child is killed after PROBE_TIMEOUT_MS.
 */
void probe_try(struct probe_try *ret, unsigned long ns_flags, probe_fn fn, const void *arg);

/* fork() by raw clone, with namespaces. */
pid_t probe_clone(unsigned long flags);

/* Map one id to 0, writing to /proc/self. For a process in a fresh user namespace. */
int probe_map_self(uid_t uid, gid_t gid, struct err *err);

/* Write a whole value to a file. */
int probe_write(const char *path, const char *value, struct err *err);

/* Read at most size - 1 bytes of a file and end them with NUL; the length, or -errno. */
ssize_t probe_read(const char *path, char *ret, size_t size);

/* One line of a file without its end; "" if it cannot be read. */
void probe_read_line(const char *path, char *ret, size_t size);

/* Groups of tries, each in a file of its own. */
void probe_namespaces(struct probe *p);
void probe_mounts(struct probe *p);
void probe_ids(struct probe *p);
void probe_calls(struct probe *p);
void probe_host(struct probe *p, const char *state_dir);
void probe_cgroups(struct probe *p);
