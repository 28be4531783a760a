/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/facts - who calls, and what this machine has: all a plan needs to know.
 *
 * Reads /proc, /etc/passwd and the cgroup tree; changes nothing but the template
 * cache. Runs in the bawn process.
 */
#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "core/road_env.h"
#include "run/process/box_impl.h"
#include "sys/landlock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define BASE_UID   TEMPLATE_USER
#define BASE_GID   TEMPLATE_USER
#define MOUNTS_MAX 4096

/*
 * Caller's variables a command may see: what programs need to behave, nothing that can be a secret.
 */
static const char *const safe_env[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE",
	"LC_*", "TERM", "COLORTERM", "NO_COLOR", "TZ", "SHELL", "COLUMNS", "LINES"};

static const char *env_get(char **env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

const char *facts_home(char **env)
{
	const char *home = env_get(env, "HOME");

	return home && home[0] == '/' ? home : "/";
}

/* One line of passwd(5), cut in place; false if it has not seven fields. */
static bool split_passwd(char *line, char *fields[7])
{
	line[strcspn(line, "\r\n")] = 0;
	for (int i = 0; i < 7; i++) {
		fields[i] = strsep(&line, ":");
		if (!fields[i])
			return false;
	}
	return true;
}

/* By name, or by number if name is NULL or all digits. No NSS: bawn is static. */
static bool find_user(const char *name, uid_t uid, struct plan_facts *f)
{
	AUTO_FILE FILE *file = fopen("/etc/passwd", "re");
	char line[1024], number[16];

	(void)snprintf(number, sizeof(number), "%u", uid);
	while (file && fgets(line, sizeof(line), file)) {
		char *p[7];
		uint64_t id, gid;
		struct err ignored;

		if (!split_passwd(line, p))
			continue;
		if (name ? strcmp(p[0], name) != 0 : strcmp(p[2], number) != 0)
			continue;
		if (text_parse_u64(p[2], "uid", 0, UINT32_MAX - 1, &id, &ignored) < 0 ||
			text_parse_u64(p[3], "gid", 0, UINT32_MAX - 1, &gid, &ignored) < 0)
			return false;
		f->box_uid = (uid_t)id;
		f->box_gid = (gid_t)gid;
		f->box_user = mem_strdup(p[0]);
		f->box_home = mem_strdup(p[5][0] == '/' ? p[5] : "/");
		f->box_shell = mem_strdup(p[6][0] ? p[6] : "/bin/sh");
		return true;
	}
	return false;
}

static void set_user(struct plan_facts *f, uid_t uid, gid_t gid, const char *name, const char *home)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", uid);
	f->box_uid = uid;
	f->box_gid = gid;
	f->box_user = mem_strdup(name ? name : number);
	f->box_home = mem_strdup(home);
	f->box_shell = mem_strdup(access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh");
}

static int base_user(const struct spec *s, struct plan_facts *f, struct err *err)
{
	uint64_t id;
	struct err ignored;

	if (!s->user || strcmp(s->user, "user") == 0) {
		set_user(f, BASE_UID, BASE_GID, "user", "/home/user");
	} else if (strcmp(s->user, "root") == 0) {
		set_user(f, 0, 0, "root", "/root");
	} else if (text_parse_u64(s->user, "user", 0, 65533, &id, &ignored) >= 0) {
		set_user(f, (uid_t)id, (gid_t)id,
			id == BASE_UID ? "user"
			: id           ? NULL
				       : "root",
			id == BASE_UID ? "/home/user"
			: id           ? "/"
				       : "/root");
	} else {
		return err_set(err, EINVAL,
			"user '%s' is not in the base template; accepted: user, root, or a number",
			s->user);
	}
	return 0;
}

static int host_user(const struct spec *s, char **env, struct plan_facts *f, struct err *err)
{
	uint64_t id;
	struct err ignored;

	if (!s->user) {
		const char *name = env_get(env, "USER");

		if (find_user(NULL, f->uid, f)) {
			/* The caller's own idea of home is the one its toolchains live in. */
			free(f->box_home);
			f->box_home = mem_strdup(facts_home(env));
		} else {
			set_user(f, f->uid, f->gid, name, facts_home(env));
		}
		f->box_gid = f->gid;
		return 0;
	}
	if (text_parse_u64(s->user, "user", 0, 65533, &id, &ignored) >= 0) {
		if (!find_user(NULL, (uid_t)id, f))
			set_user(f, (uid_t)id, (gid_t)id, NULL, "/");
	} else if (!find_user(s->user, 0, f)) {
		return err_set(err, EINVAL,
			"user '%s' is not in /etc/passwd; accepted: a name there, or a number",
			s->user);
	}
	if (!f->is_host_root && f->box_uid != 0 && f->box_uid != f->uid)
		return err_set(err, EPERM,
			"user '%s' cannot be had without root; accepted: your own name, or root",
			s->user);
	return 0;
}

static char *unescape(char *s)
{
	char *to = s;

	/* mountinfo writes space, tab, newline and backslash as \ooo */
	for (char *p = s; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] && p[3]) {
			*to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = 0;
	return s;
}

/* "36 35 98:0 /root /mount/point opts - type source superopts" */
static bool split_mountinfo(char *line, char **ret_path, char **ret_type)
{
	char *dash = strstr(line, " - "), *p = line;

	if (!dash)
		return false;
	*dash = 0;
	*ret_type = dash + 3;
	(*ret_type)[strcspn(*ret_type, " \n")] = 0;
	for (int i = 0; i < 4; i++) {
		p = strchr(p, ' ');
		if (!p)
			return false;
		p++;
	}
	p[strcspn(p, " ")] = 0;
	*ret_path = unescape(p);
	return true;
}

static int read_mounts(struct plan_facts *f, struct err *err)
{
	AUTO_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0;

	if (!file)
		return err_sys(err, "open '/proc/self/mountinfo'");
	while (getline(&line, &room, file) > 0) {
		char *path, *type;

		if (!split_mountinfo(line, &path, &type))
			continue;
		if (f->mounts_n == MOUNTS_MAX)
			return err_set(
				err, E2BIG, "more than %d mounts on this machine", MOUNTS_MAX);
		f->mounts = mem_must(realloc(f->mounts, (f->mounts_n + 1) * sizeof(*f->mounts)));
		f->mounts[f->mounts_n++] =
			(struct plan_mount){.path = mem_strdup(path), .type = mem_strdup(type)};
	}
	return 0;
}

static bool is_terminal(const struct box_options *o)
{
	for (int i = 0; i < 3; i++)
		if (o->stdio[i] >= 0 && isatty(o->stdio[i]))
			return true;
	return false;
}

static void find_subids(const struct spec *s, char **env, struct plan_facts *f)
{
	const char *user = env_get(env, "USER");
	struct plan_facts named = {.template_fd = -EBADF};
	uint32_t uid = 0, gid = 0;
	struct err ignored;
	bool has;

	/* In the host view one id is enough: files are the caller's or somebody else's. */
	if (f->is_host_root || s->root != SPEC_ROOT_BASE || s->walls[WALL_IDS] == WALL_LEVEL_OFF)
		return;
	if (access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0)
		return;
	/* Under no_new_privs they gain nothing, setuid or not: one id, as without them. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return;
	/* A server may have been started without the variable. */
	if (!user && find_user(NULL, f->uid, &named))
		user = named.box_user;
	has = userns_subid("/etc/subuid", f->uid, user, USERNS_RANGE_SIZE - 1, &uid, &ignored) >=
		      0 &&
	      userns_subid("/etc/subgid", f->uid, user, USERNS_RANGE_SIZE - 1, &gid, &ignored) >= 0;
	plan_facts_done(&named);
	if (!has)
		return;
	f->subuid = uid;
	f->subgid = gid;
}

static unsigned find_trust(const struct spec *s)
{
	unsigned found = 0;

	for (size_t i = 0; s->want_road && s->ca_dir && plan_trust_path(i); i++)
		found |= (access(plan_trust_path(i), F_OK) == 0 ? 1u : 0u) << i;
	return found;
}

static bool wants_cgroup(const struct spec *s)
{
	return s->walls[WALL_MEMORY] != WALL_LEVEL_OFF || s->walls[WALL_CPU] != WALL_LEVEL_OFF ||
	       s->walls[WALL_PIDS] != WALL_LEVEL_OFF || s->walls[WALL_IO] != WALL_LEVEL_OFF;
}

int facts_gather(
	const struct spec *s, const struct box_options *o, struct plan_facts *ret, struct err *err)
{
	struct plan_facts f = {.uid = geteuid(), .gid = getegid(), .template_fd = -EBADF};
	bool is_base = s->root == SPEC_ROOT_BASE && s->walls[WALL_ROOT] != WALL_LEVEL_OFF;
	int r;

	r = userns_is_host_root(err);
	if (r < 0)
		return r;
	f.is_host_root = r > 0;
	f.is_resident = o->resident;
	if (wants_cgroup(s) || f.is_resident)
		f.cgroup = cgroup_detect(&f.cgroup_controllers);
	f.landlock_abi = landlock_abi();
	f.has_tty = is_terminal(o);
	f.has_cpu_dir = access("/sys/devices/system/cpu/online", F_OK) == 0;
	f.has_dpkg = is_base && access("/var/lib/dpkg/status", F_OK) == 0;
	f.trust = find_trust(s);
	r = is_base ? base_user(s, &f, err) : host_user(s, o->environ, &f, err);
	if (r >= 0 && is_base) {
		r = template_base(f.is_host_root, &f.template_dir, err);
		f.template_fd = r;
	}
	/* As root each mount of the host that the box sees is cloned by itself. */
	if (r >= 0 && f.is_host_root && (!is_base || s->paths_n > 0 || s->cow))
		r = read_mounts(&f, err);
	if (r < 0) {
		plan_facts_done(&f);
		return r;
	}
	find_subids(s, o->environ, &f);
	/*
	 * A box of one id cannot have both root and user. The guest would be root to become
	 * anybody; where there is nobody else to become it is who everything is for.
	 */
	if (f.is_resident && is_base && !f.is_host_root && !f.subuid) {
		free(f.box_user);
		free(f.box_home);
		free(f.box_shell);
		set_user(&f, BASE_UID, BASE_GID, "user", "/home/user");
	}
	*ret = f;
	return 0;
}

static bool env_matches(const char *entry, const char *pattern)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(entry, pattern, n - 1) == 0;
	return strncmp(entry, pattern, n) == 0 && entry[n] == '=';
}

/* Set or replace K=V; a name given twice takes the last value. */
static int env_put(struct strv *env, const char *entry, struct err *err)
{
	size_t n = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], entry, n) == 0) {
			free(env->v[i]);
			env->v[i] = mem_strdup(entry);
			return 0;
		}
	return strv_add(env, entry, err);
}

static int env_set(struct strv *env, const char *name, const char *value, struct err *err)
{
	AUTO_FREE char *entry = text_format("%s=%s", name, value);

	return env_put(env, entry, err);
}

static int env_copy(
	struct strv *env, char **caller, const char *const *patterns, size_t n, struct err *err)
{
	int r = 0;

	for (; r >= 0 && caller && *caller; caller++)
		for (size_t i = 0; r >= 0 && i < n; i++)
			if (env_matches(*caller, patterns[i]))
				r = env_put(env, *caller, err);
	return r;
}

int facts_environment(const struct spec *s, const struct plan_facts *f, char **caller_env,
	struct strv *ret, struct err *err)
{
	bool is_base = s->root == SPEC_ROOT_BASE;
	int r = env_copy(ret, caller_env, safe_env, sizeof(safe_env) / sizeof(safe_env[0]), err);

	if (r >= 0 && (is_base || !env_get(caller_env, "PATH")))
		r = env_set(ret, "PATH",
			"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", err);
	if (r >= 0)
		r = env_set(ret, "HOME", f->box_home, err);
	if (r >= 0)
		r = env_set(ret, "USER", f->box_user, err);
	if (r >= 0)
		r = env_set(ret, "LOGNAME", f->box_user, err);
	if (r >= 0 && is_base)
		r = env_set(ret, "SHELL", f->box_shell, err);
	if (r >= 0)
		r = env_set(ret, "BAWN", "1", err);
	/* The home directory is read-only in the host view: caches go where writing is allowed. */
	if (r >= 0 && !is_base)
		r = env_set(ret, "XDG_CACHE_HOME", "/tmp/.cache", err);
	if (r >= 0 && !is_base)
		r = env_set(ret, "npm_config_cache", "/tmp/.npm", err);
	if (r >= 0 && s->want_road)
		r = road_env(s->ca_dir && s->walls[WALL_MOUNT] != WALL_LEVEL_OFF, ret, err);
	if (r >= 0)
		r = env_copy(
			ret, caller_env, (const char *const *)s->pass_env.v, s->pass_env.n, err);
	for (size_t i = 0; r >= 0 && i < s->env.n; i++)
		r = env_put(ret, s->env.v[i], err);
	return r;
}
