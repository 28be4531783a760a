/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/filesystem_rpc - filesystem.Filesystem: the methods that are one question (Stat, MakeDir,
 * Move, ListDir, Remove).
 */
#include "api/e2b/question.h"
#include "base/mem.h"

#include <string.h>

/* What a path is when none is given: the home directory, as a relative path is below it. */
static bool put_path(struct question *q, json_t *msg, const char *field, struct frame_writer *w)
{
	const char *path;

	if (!envd_get_string(msg, field, &path))
		return envd_question_bad(q, field);
	if (strlen(path) > GUEST_PATH_MAX) {
		envd_fail(&q->call, CONNECT_INVALID_ARGUMENT, "%s is longer than %d bytes", field,
			GUEST_PATH_MAX);
		return false;
	}
	if (!q->subject)
		q->subject = mem_strdup(path);
	frame_put_string(w, path);
	return true;
}

static bool ask_path(struct question *q, json_t *msg, struct frame_writer *w)
{
	frame_put_string(w, q->call.user);
	return put_path(q, msg, "path", w);
}

static bool ask_list(struct question *q, json_t *msg, struct frame_writer *w)
{
	uint32_t depth;

	if (!ask_path(q, msg, w))
		return false;
	if (!envd_get_u32(msg, "depth", &depth))
		return envd_question_bad(q, "depth");
	frame_put_u32(w, depth > 0 ? depth : 1);
	return true;
}

static bool ask_move(struct question *q, json_t *msg, struct frame_writer *w)
{
	frame_put_string(w, q->call.user);
	return put_path(q, msg, "source", w) && put_path(q, msg, "destination", w);
}

static bool answer_entry(struct question *q, uint16_t kind, struct frame_reader *body)
{
	struct guest_entry e = {0};
	bool ok = kind == MSG_ENTRY && guest_entry_get(body, &e) &&
		  (q->answers == 0 || buf_add(&q->out, ",", 1) >= 0) &&
		  envd_entry_add(&q->out, &e) >= 0;

	guest_entry_done(&e);
	return ok;
}

static const struct question_text stat_texts[] = {
	{ENOENT, CONNECT_NOT_FOUND, "file not found: lstat ", ": no such file or directory"},
	{0},
};
static const struct question_text mkdir_texts[] = {
	{EEXIST, CONNECT_ALREADY_EXISTS, "directory already exists: ", ""},
	{ENOTDIR, CONNECT_INVALID_ARGUMENT, "path already exists but it is not a directory: ", ""},
	{0},
};
static const struct question_text move_texts[] = {
	{ENOENT, CONNECT_NOT_FOUND, "source file not found: rename ",
		": no such file or directory"},
	{0},
};
static const struct question_text list_texts[] = {
	{ENOENT, CONNECT_NOT_FOUND, "path not found: lstat ", ": no such file or directory"},
	{ENOTDIR, CONNECT_INVALID_ARGUMENT, "path is not a directory: ", ""},
	{ELOOP, CONNECT_FAILED_PRECONDITION, "cyclic symlink or chain >255 links at \"", "\""},
	{0},
};

#define SERVICE "/filesystem.Filesystem/"

const struct envd_question filesystem_questions[] = {
	{SERVICE "Stat", GUEST_STAT, ask_path, answer_entry, true, "{\"entry\":", "}", stat_texts},
	{SERVICE "MakeDir", GUEST_MKDIR, ask_path, answer_entry, true, "{\"entry\":", "}",
		mkdir_texts},
	{SERVICE "Move", GUEST_MOVE, ask_move, answer_entry, true, "{\"entry\":", "}", move_texts},
	{SERVICE "ListDir", GUEST_LIST, ask_list, answer_entry, false, "{\"entries\":[", "]}",
		list_texts},
	{SERVICE "Remove", GUEST_REMOVE, ask_path, NULL, false, "{", "}", NULL},
	{0},
};
