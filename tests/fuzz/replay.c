/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Feed every file of a corpus directory to a fuzz target, as TAP.
 *
 * A crash found once stays a file for ever; a crash now ends this program, and
 * the missing plan line makes the runner count it as a failure.
 */
#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 20) /* bytes; no corpus file is larger */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(int dir_fd, const char *name)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	AUTO_FREE uint8_t *data = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > INPUT_MAX)
		return -1;
	/* Exactly as long as the file, so that a sanitizer sees a read past its end. */
	data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	if (!data)
		return -1;
	n = read(fd, data, (size_t)st.st_size);
	if (n != st.st_size)
		return -1;
	(void)LLVMFuzzerTestOneInput(data, (size_t)n);
	return 0;
}

int main(int argc, char **argv)
{
	AUTO_DIR DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *e;
	int count = 0, bad = 0;

	if (!dir) {
		(void)fprintf(stderr, "usage: %s CORPUS_DIR\n", argv[0]);
		return 2;
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		(void)dprintf(1, "# %s\n", e->d_name);
		if (feed(dirfd(dir), e->d_name) == 0) {
			(void)dprintf(1, "ok %d - replay %s\n", ++count, e->d_name);
		} else {
			(void)dprintf(1, "not ok %d - replay %s\n", ++count, e->d_name);
			bad++;
		}
	}
	if (count == 0) {
		(void)dprintf(1, "not ok %d - the corpus is not empty\n", ++count);
		bad++;
	}
	(void)dprintf(1, "1..%d\n", count);
	return bad > 0;
}
