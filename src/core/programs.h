/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/programs - where bawn's other program is.
 *
 * Two programs: `bawn`, static, and `bawnd`, which links the libraries that parse what
 * strangers send. They are installed together and find each other by place.
 */
#include "base/err.h"

/* Beside the running program, or in ../libexec/bawn; -ENOENT says where. The caller frees *ret. */
int programs_bawnd(char **ret, struct err *err);
/* The other way: beside the running bawnd, or in ../../bin. */
int programs_bawn(char **ret, struct err *err);
