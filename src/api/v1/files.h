/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* api/v1/files - ?path=&user= of a request about a file. */
#include "api/v1/v1.h"

struct v1_file_target {
	char path[GUEST_PATH_MAX], user[256];
};

/* -EINVAL if there is no path, or a bad one. */
int v1_file_target(const struct http_request *r, struct v1_file_target *ret, struct err *err);
