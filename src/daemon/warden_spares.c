/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/warden_spares - sandboxes that are up before anybody asked for them.
 *
 * A spare has everything but an owner: its walls are verified and its guest listens. What is the
 * owner's (id, host name, environment, deadline) comes when it is claimed; the limits are
 * what the last request asked for. It is used once or not at all.
 */
#include "base/mem.h"
#include "base/own.h"
#include "daemon/warden_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 64

/*
 * By way of the directory's descriptor: an address holds only 107 bytes. Ours alone until somebody
 * claims it: what nobody can reach has nothing of an earlier visitor in it.
 */
static int listen_guest(int dir, struct err *err)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t mask = umask(0177);
	int r;

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/guest.sock", dir);
	r = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)&at, sizeof(at));
	(void)umask(mask);
	if (r < 0)
		return err_sys(err, "make 'guest.sock'");
	if (listen(fd, BACKLOG) < 0)
		return err_sys(err, "listen on 'guest.sock'");
	return TAKE_FD(fd);
}

static int make_spec(
	const struct warden_spec *w, const char *ca_dir, struct spec *s, struct err *err)
{
	int r = strv_add(&s->argv, "bawn-guest", err);

	s->root = SPEC_ROOT_BASE;
	s->user = mem_strdup("root"); /* of the box: it starts programs as anybody in it */
	s->cwd = mem_strdup("/");
	s->allow_sudo = w->allow_sudo;
	s->want_loopback = w->want_loopback;
	s->want_road = w->want_road;
	if (w->want_road && ca_dir)
		s->ca_dir = mem_strdup(ca_dir);
	s->limits = (struct spec_limits){
		/* The disk is memory, and counted as such: a box that fills its disk must hear
		 * "no space left", not lose its guest. */
		.memory_max = w->memory_max ? w->memory_max + w->disk_max : 0,
		.cpu_milli = w->cpu_milli,
		.pids_max = w->pids_max,
		.disk_max = w->disk_max,
		.open_files = w->open_files ? w->open_files : s->limits.open_files,
	};
	s->walls[WALL_CPU] = WALL_LEVEL_PREFERRED; /* off again below if there is no limit */
	return r < 0 ? r : spec_validate(s, err);
}

void warden_spare_free(struct warden_spare *s)
{
	closep(&s->dir);
	free(s);
}

void warden_spare_remove(int boxes, struct warden_spare *s)
{
	struct provider_record left = {0};
	struct err ignored;

	(void)snprintf(left.id, sizeof(left.id), "%s", s->id);
	(void)s->provider->stop(&left, &ignored);
	(void)unlinkat(s->dir, "guest.sock", 0);
	(void)unlinkat(boxes, s->id, AT_REMOVEDIR);
	warden_spare_free(s);
}

static void on_made(struct provider_spare *take, const struct wall_record *walls,
	const struct err *err, void *arg)
{
	struct warden_spare *s = arg;

	s->making = NULL;
	s->held = take;
	memcpy(s->walls, walls, sizeof(s->walls));
	s->up(s, err);
}

static int begin(struct warden_spare *s, struct loop *l, const struct warden_spec *w,
	const char *ca_dir, struct err *err)
{
	AUTO_FD int sock = listen_guest(s->dir, err);
	struct spec spec;
	int r = sock;

	if (r < 0)
		return r;
	spec_init(&spec);
	r = make_spec(w, ca_dir, &spec, err);
	if (r >= 0)
		s->making = s->provider->begin(l, &spec, s->id, TAKE_FD(sock), on_made, s);
	else
		spec_done(&spec);
	return r;
}

int warden_spare_begin(struct loop *l, int boxes, const struct warden_spec *spec,
	const char *ca_dir, const char *id, struct warden_spare **ret, struct err *err)
{
	struct warden_spare *s;
	int r = 0;

	if (mkdirat(boxes, id, 0711) < 0)
		return err_sys(err, "make 'boxes/%s'", id);
	s = MEM_NEW(struct warden_spare);
	s->provider = provider_find(spec->tier);
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	s->dir = openat(boxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir < 0)
		r = err_sys(err, "open 'boxes/%s'", id);
	else if (fchmod(s->dir, 0711) < 0)
		r = err_sys(err, "chmod 'boxes/%s'", id);
	if (r >= 0)
		r = begin(s, l, spec, ca_dir, err);
	if (r < 0) {
		warden_spare_remove(boxes, s);
		return r;
	}
	*ret = s;
	return 0;
}
