/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * base/own - ownership, spelled in the code.
 *
 * A local that owns something is declared with an AUTO_ macro and initialised
 * on the same line, so every return path releases it. To hand it on, TAKE it:
 * the local is emptied in the same expression and cannot be released twice.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn)  __attribute__((cleanup(fn##p)))
#define AUTO_FREE __attribute__((cleanup(freep)))
#define AUTO_FD   __attribute__((cleanup(closep)))
#define AUTO_DIR  __attribute__((cleanup(closedirp)))
#define AUTO_FILE __attribute__((cleanup(fclosep)))

#define TAKE_(v, empty)                                                                            \
	({                                                                                         \
		__typeof__(v) *take_p_ = &(v), take_v_ = *take_p_;                                 \
		*take_p_ = (empty);                                                                \
		take_v_;                                                                           \
	})
#define TAKE_PTR(p) TAKE_(p, NULL)
#define TAKE_FD(fd) TAKE_(fd, -EBADF)

/* For `T *thing_free(T *)`, which accepts NULL and returns NULL. */
#define DEFINE_AUTO(type, fn)                                                                      \
	static inline void fn##p(type *p)                                                          \
	{                                                                                          \
		*p = fn(*p);                                                                       \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -EBADF;
	errno = saved;
}

static inline void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}
