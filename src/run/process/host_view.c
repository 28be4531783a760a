/* SPDX-License-Identifier: Apache-2.0 */

#include "run/process/host_view.h"

#include "core/masks.h"
#include "core/state_dir.h"
#include "run/process/host_view_impl.h"
#include "sys/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct build {
	const struct spec *spec;
	struct host_view *v;
	char *work;            /* real working directory or NULL; owned */
	char *home;            /* real home of the caller or NULL; owned */
	struct strv homes;     /* real, every home on this machine; the caller's first */
	struct strv in_part;   /* of these, the ones that others need too: not hidden whole */
	struct strv rules[3];  /* real paths the user named, by enum spec_path_mode */
	struct strv env_files; /* found in writable directories */
	struct strv hide;      /* real paths to hide, before sorting out */
	struct host_listings listings;
};

static const char *const options[] = {"--rw", "--ro", "--hide"};

int host_view_add(struct strv *list, const char *path, struct err *err)
{
	if (strv_has(list, path))
		return 0;
	if (list->n >= HOST_VIEW_MAX)
		return err_set(err, E2BIG, "host view: more than %d paths to hide or protect",
			HOST_VIEW_MAX);
	return strv_add(list, path, err);
}

const char *host_view_writable_above(const struct host_view *v, const char *path)
{
	const char *best = NULL;

	for (size_t i = 0; i < v->writable.n; i++) {
		const char *w = v->writable.v[i];

		if (text_path_below(path, w) && (!best || strlen(w) > strlen(best)))
			best = w;
	}
	return best;
}

/* Directories of which the box gets its own: what the host has there is not visible. */
static bool is_replaced(const char *path)
{
	static const char *const own[] = {"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (text_path_below(path, own[i]))
			return true;
	}
	return false;
}

static bool is_kernel_path(const char *path)
{
	return text_path_below(path, "/proc") || text_path_below(path, "/sys") ||
	       text_path_below(path, "/dev");
}

/* The longest entry of `list` that is `path` or above it. */
static size_t longest_above(const struct strv *list, const char *path)
{
	size_t best = 0;

	for (size_t i = 0; i < list->n; i++) {
		size_t n = strlen(list->v[i]);

		if (n > best && text_path_below(path, list->v[i]))
			best = n;
	}
	return best;
}

static int take_rule(struct build *b, const struct spec_path *rule, struct err *err)
{
	struct strv hits = {0};
	char quoted[256];
	int r = host_find_glob(rule->path, &hits, err);

	(void)text_quote(rule->path, quoted, sizeof(quoted));
	if (r == 0 && hits.n == 0 && rule->mode != SPEC_PATH_HIDE)
		r = err_set(err, ENOENT, "%s '%s': no such file or directory", options[rule->mode],
			quoted);
	for (size_t i = 0; r == 0 && i < hits.n; i++) {
		AUTO_FREE char *real = realpath(hits.v[i], NULL);

		/* Nothing to hide behind a dangling link; what cannot be shown is an error. */
		if (!real && rule->mode == SPEC_PATH_HIDE)
			continue;
		if (!real)
			r = err_sys(err, "%s '%s'", options[rule->mode], quoted);
		else if (rule->mode == SPEC_PATH_RW && (is_kernel_path(real) || !real[1]))
			r = err_set(err, EINVAL,
				"--rw '%s': the box has its own; name directories other than '/', "
				"'/proc', "
				"'/sys' and '/dev'",
				quoted);
		else
			r = host_view_add(&b->rules[rule->mode], real, err);
	}
	strv_done(&hits);
	return r < 0 && err->code == E2BIG ? err_wrap(err, "%s '%s'", options[rule->mode], quoted)
					   : r;
}

static int check_contradictions(const struct build *b, struct err *err)
{
	for (int m = 0; m < 3; m++) {
		for (int k = m + 1; k < 3; k++) {
			for (size_t i = 0; i < b->rules[m].n; i++) {
				char quoted[256];

				if (!strv_has(&b->rules[k], b->rules[m].v[i]))
					continue;
				return err_set(err, EINVAL,
					"'%s' is given to both %s and %s: choose one",
					text_quote(b->rules[m].v[i], quoted, sizeof(quoted)),
					options[m], options[k]);
			}
		}
	}
	return 0;
}

static int find_homes(struct build *b, struct err *err)
{
	struct strv found = {0};
	int r = b->home ? host_view_add(&b->homes, b->home, err) : 0;

	if (r == 0)
		r = host_find_glob("/home/*", &found, err);
	if (r == 0)
		r = strv_add(&found, "/root", err);
	for (size_t i = 0; r == 0 && i < found.n && b->homes.n < HOST_HOMES_MAX; i++) {
		AUTO_FREE char *real = realpath(found.v[i], NULL);

		if (real && real[1] && faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) == 0)
			r = host_view_add(&b->homes, real, err);
	}
	strv_done(&found);
	if (r == 0)
		r = host_find_people(&b->homes, &b->in_part, err);
	for (size_t i = 0; r == 0 && i < b->in_part.n; i++)
		r = host_view_add(&b->homes, b->in_part.v[i], err);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct strv *s)
{
	/* A directory sorts before everything below it. */
	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), by_name);
}

static int choose_writable(struct build *b, struct err *err)
{
	struct strv all = {0};
	struct strv shut = {0}; /* what is not writable although above something that is */
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->rules[SPEC_PATH_RW].n; i++)
		r = strv_add(&all, b->rules[SPEC_PATH_RW].v[i], err);
	for (int m = SPEC_PATH_RO; m <= SPEC_PATH_HIDE; m++) {
		for (size_t i = 0; r == 0 && i < b->rules[m].n; i++)
			r = strv_add(&shut, b->rules[m].v[i], err);
	}
	/* The root directory as a working directory stays what it is: read-only. */
	if (r == 0 && b->work && b->work[1] && !is_kernel_path(b->work) &&
		!strv_has(&shut, b->work) && !strv_has(&all, b->work))
		r = strv_add(&all, b->work, err);
	sort(&all);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		size_t above = longest_above(&b->v->writable, all.v[i]);

		if (above == 0 || longest_above(&shut, all.v[i]) > above)
			r = host_view_add(&b->v->writable, all.v[i], err);
	}
	strv_done(&all);
	strv_done(&shut);
	return r;
}

/* The rules of the next run stay as they are, whatever else may be written. */
static int guard_policy(struct build *b, const char *path, struct err *err)
{
	const char *name = strrchr(path, '/') + 1;
	AUTO_FREE char *above = text_format("%.*s", (int)(name - path), path);
	AUTO_FREE char *dir = realpath(above, NULL);
	AUTO_FREE char *real = realpath(path, NULL);
	AUTO_FREE char *whole = dir ? text_format("%s/%s", dir[1] ? dir : "", name) : NULL;
	const char *w = whole ? host_view_writable_above(b->v, whole) : NULL;
	int r;

	/* A copy-on-write run changes a copy, which is looked at before it is applied. */
	if (!whole || (w && b->spec->cow && b->work && strcmp(w, b->work) == 0))
		return 0;
	/* By its name as given, and by the one it has behind links: either may be writable. */
	r = host_guard_path(b->v, whole, err);
	return r == 0 && real ? host_guard_path(b->v, real, err) : r;
}

static int guard_all(struct build *b, struct err *err)
{
	struct host_guard g = {.v = b->v, .env_files = &b->env_files, .homes = &b->homes};

	for (size_t i = 0; i < b->v->writable.n; i++) {
		const char *w = b->v->writable.v[i];
		int r;

		/* What a copy-on-write run does to a protected name is stopped at `bawn apply`. */
		g.want_protect = !b->spec->no_protect &&
				 !(b->spec->cow && b->work && strcmp(w, b->work) == 0);
		r = host_guard_writable(&g, w, err);
		if (r == 0 && g.want_protect)
			r = host_view_add(&b->v->guarded, w, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < b->spec->policy.n; i++) {
		int r = guard_policy(b, b->spec->policy.v[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_hideable(const char *path)
{
	struct stat st;

	/* ".bash_history -> /dev/null" is common: a device has no secret and must stay. */
	return lstat(path, &st) == 0 &&
	       (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* A built-in rule must not take away the ground the user stands on without a word. */
static int check_ground(const struct build *b, const char *hidden, struct err *err)
{
	char quoted[256];

	if (!b->work || !text_path_below(b->work, hidden) ||
		longest_above(&b->rules[SPEC_PATH_RW], b->work) >= strlen(hidden) ||
		longest_above(&b->rules[SPEC_PATH_RO], b->work) >= strlen(hidden))
		return 0;
	(void)text_quote(b->work, quoted, sizeof(quoted));
	(void)err_set(err, EINVAL, "working directory '%s' is hidden by default", quoted);
	return err_hint(err, "use --rw '%s' to show it, or run from another directory", quoted);
}

/* Consider what a built-in pattern found, or the user's own rule. */
static int hide(struct build *b, const char *path, bool is_builtin, struct err *err)
{
	AUTO_FREE char *real = realpath(path, NULL);
	bool is_shared;
	int r;

	if (!real || !real[1] || !is_hideable(real))
		return 0;
	if (is_builtin && (strv_has(&b->rules[SPEC_PATH_RO], real) ||
				  strv_has(&b->rules[SPEC_PATH_RW], real)))
		return 0;
	/* A service account lives in /var/lib: its own home is not somebody else's secret. */
	if (is_builtin && b->home && text_path_below(b->home, real))
		return 0;
	if (is_builtin) {
		r = check_ground(b, real, err);
		if (r < 0)
			return r;
	}
	is_shared = longest_above(&b->v->writable, real) > 0 ||
		    longest_above(&b->v->readonly, real) > 0;
	if (!is_shared && (b->spec->root == SPEC_ROOT_BASE || is_replaced(real)))
		return 0;
	return host_view_add(&b->hide, real, err);
}

static int hide_pattern(struct build *b, const char *dir, const char *pattern, struct err *err)
{
	AUTO_FREE char *whole = text_format("%s/%s", dir, pattern);
	struct strv hits = {0};
	int r = host_find_listed(&b->listings, *dir ? whole : pattern, &hits, err);

	for (size_t i = 0; r == 0 && i < hits.n; i++)
		r = hide(b, hits.v[i], true, err);
	strv_done(&hits);
	return r;
}

/* Hide what nobody named as a rule: not at the price of what the user works in. */
static int hide_quietly(struct build *b, const char *path, struct err *err)
{
	AUTO_FREE char *real = realpath(path, NULL);

	if (!real || host_is_system_dir(real) || (b->work && text_path_below(b->work, real)) ||
		longest_above(&b->rules[SPEC_PATH_RW], real) == strlen(real))
		return 0;
	return hide(b, real, true, err);
}

/* ".netrc~", ".netrc.swp": what editors leave beside a file that is hidden. */
static bool is_copy_of_hidden(const char *name)
{
	static const char *const suffixes[] = {
		"~", ".swp", ".swo", ".bak", ".orig", ".old", ".save", ".tmp"};
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t cut = strlen(suffixes[i]);

		if (n <= cut || strcmp(name + n - cut, suffixes[i]) != 0)
			continue;
		for (size_t k = 0; k < masks_hidden_n; k++) {
			const char *pattern = masks_hidden[k].pattern;

			if (masks_hidden[k].base == MASK_HOME && strlen(pattern) == n - cut &&
				strncmp(pattern, name, n - cut) == 0)
				return true;
		}
	}
	return false;
}

static int hide_env_of_home(struct build *b, const char *home, struct err *err)
{
	AUTO_DIR DIR *dir = opendir(home);
	struct dirent *d;
	int r = 0;

	while (r == 0 && dir && (d = readdir(dir))) {
		AUTO_FREE char *path = NULL;

		if (d->d_type == DT_DIR ||
			(!masks_is_env_file(d->d_name) && !is_copy_of_hidden(d->d_name)))
			continue;
		path = text_format("%s/%s", home, d->d_name);
		r = hide(b, path, true, err);
	}
	return r;
}

/* The caller's home and one that holds the working directory stay, without their secrets. */
static bool is_own_home(const struct build *b, const char *home)
{
	return (b->home && text_path_below(b->home, home)) ||
	       (b->work && text_path_below(b->work, home)) || strv_has(&b->in_part, home);
}

/* A repository may come with ".env -> /usr": a link there must not hide programs or directories. */
static bool is_env_secret(const char *path)
{
	AUTO_FREE char *real = realpath(path, NULL);
	struct stat st;

	return real && !text_path_below(real, "/usr") && stat(real, &st) == 0 &&
	       !S_ISDIR(st.st_mode);
}

/* Secrets that the environment says are elsewhere. */
static int hide_by_environment(struct build *b, struct err *err)
{
	struct strv named = {0};
	int r = host_env_secrets(&named, err);

	for (size_t i = 0; r == 0 && i < named.n; i++)
		r = hide_quietly(b, named.v[i], err);
	strv_done(&named);
	for (size_t m = 0; r == 0 && m < host_moved_n; m++) {
		const char *dir = getenv(host_moved[m].name);

		for (size_t i = 0; r == 0 && dir && dir[0] == '/' && i < masks_hidden_n; i++) {
			if (masks_hidden[i].base == MASK_HOME &&
				text_starts(masks_hidden[i].pattern, host_moved[m].prefix))
				r = hide_pattern(b, dir,
					masks_hidden[i].pattern + strlen(host_moved[m].prefix),
					err);
		}
	}
	return r;
}

/* A bind mount shows what is hidden once more. */
static int hide_aliases(struct build *b, struct err *err)
{
	struct strv others = {0};
	int r = host_find_aliases(&b->hide, &others, err);

	for (size_t i = 0; r == 0 && i < others.n; i++)
		r = hide_quietly(b, others.v[i], err);
	strv_done(&others);
	return r;
}

static int hide_builtin(struct build *b, struct err *err)
{
	bool is_tmp_shared = longest_above(&b->v->writable, "/tmp") > 0 ||
			     longest_above(&b->v->readonly, "/tmp") > 0;
	int r = 0;

	for (size_t h = 0; r == 0 && h < b->homes.n; h++) {
		const char *home = b->homes.v[h];

		if (!is_own_home(b, home)) {
			r = hide(b, home, true, err);
			continue;
		}
		for (size_t i = 0; r == 0 && i < masks_hidden_n; i++) {
			if (masks_hidden[i].base == MASK_HOME)
				r = hide_pattern(b, home, masks_hidden[i].pattern, err);
		}
		if (r == 0)
			r = hide_env_of_home(b, home, err);
	}
	for (size_t i = 0; r == 0 && i < masks_hidden_n; i++) {
		const char *pattern = masks_hidden[i].pattern;

		/* A full /tmp takes long to read, and the box does not see it. */
		if (masks_hidden[i].base != MASK_SYSTEM ||
			(text_starts(pattern, "/tmp/") && !is_tmp_shared))
			continue;
		r = hide_pattern(b, "", pattern, err);
	}
	for (size_t i = 0; r == 0 && i < b->env_files.n; i++) {
		if (is_env_secret(b->env_files.v[i]))
			r = hide(b, b->env_files.v[i], true, err);
	}
	return r;
}

/* Split into directories and files; drop what lies in a hidden directory and is not shown again. */
static int settle_hidden(struct build *b, struct err *err)
{
	int r = 0;

	sort(&b->hide);
	for (size_t i = 0; r == 0 && i < b->hide.n; i++) {
		const char *path = b->hide.v[i];
		size_t above = longest_above(&b->v->hidden_dirs, path);
		struct stat st;

		if (above > 0 && longest_above(&b->v->writable, path) <= above &&
			longest_above(&b->v->readonly, path) <= above)
			continue;
		if (lstat(path, &st) < 0)
			continue;
		r = host_view_add(
			S_ISDIR(st.st_mode) ? &b->v->hidden_dirs : &b->v->hidden_files, path, err);
	}
	return r;
}

static bool is_hidden(const struct host_view *v, const char *path)
{
	size_t hidden = longest_above(&v->hidden_dirs, path);

	return strv_has(&v->hidden_files, path) ||
	       (hidden > 0 && longest_above(&v->writable, path) <= hidden);
}

/* What is hidden cannot be written either: no second mount on it, nothing to pin inside it. */
static void drop_hidden(const struct host_view *v, struct strv *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (is_hidden(v, list->v[i]))
			free(list->v[i]);
		else
			list->v[kept++] = list->v[i];
	}
	if (list->v)
		list->v[kept] = NULL;
	list->n = kept;
}

/*
 * Our own records. When they lie in a writable directory (a run in $HOME), a box could
 * forge runs for `bawn apply`: made if missing, so that they can be hidden.
 */
static int hide_state(struct build *b, struct err *err)
{
	static const char *const parts[] = {"runs", "held"};
	AUTO_FREE char *state = NULL;
	AUTO_FREE char *real = NULL;
	struct err ignored = {0};
	const char *w;
	int r;

	/* No place for state: then nothing is kept and nothing read from there. */
	if (state_dir(&state, &ignored) < 0)
		return 0;
	real = realpath(state, NULL);
	w = host_view_writable_above(b->v, real ? real : state);
	if (!w) {
		/* Files of other runs, secrets among them. */
		for (size_t i = 0; real && i < sizeof(parts) / sizeof(parts[0]); i++) {
			AUTO_FREE char *part = text_format("%s/%s", real, parts[i]);

			r = hide(b, part, false, err);
			if (r < 0)
				return r;
		}
		return real ? hide_quietly(b, real, err) : 0;
	}
	if (!real) {
		r = tree_make_dirs(state, 0700, err);
		if (r < 0)
			return r;
		real = realpath(state, NULL);
	}
	if (!real || strcmp(real, w) == 0)
		return err_set(
			err, EINVAL, "'%s' holds the records of bawn and cannot be writable", w);
	for (char *p = strchr(real + strlen(w) + 1, '/'); p; p = strchr(p + 1, '/')) {
		AUTO_FREE char *above = text_format("%.*s", (int)(p - real), real);

		r = host_view_add(&b->v->pins, above, err);
		if (r < 0)
			return r;
	}
	return host_view_add(&b->hide, real, err);
}

static int build(struct build *b, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->spec->paths_n; i++)
		r = take_rule(b, &b->spec->paths[i], err);
	if (r == 0)
		r = check_contradictions(b, err);
	if (r == 0)
		r = find_homes(b, err);
	if (r == 0)
		r = choose_writable(b, err);
	for (size_t i = 0; r == 0 && i < b->rules[SPEC_PATH_RO].n; i++)
		r = host_view_add(&b->v->readonly, b->rules[SPEC_PATH_RO].v[i], err);
	if (r == 0)
		r = guard_all(b, err);
	if (r == 0)
		r = hide_builtin(b, err);
	if (r == 0)
		r = hide_by_environment(b, err);
	for (size_t i = 0; r == 0 && i < b->rules[SPEC_PATH_HIDE].n; i++)
		r = hide(b, b->rules[SPEC_PATH_HIDE].v[i], false, err);
	if (r == 0)
		r = hide_state(b, err);
	if (r == 0)
		r = hide_aliases(b, err);
	if (r == 0)
		r = settle_hidden(b, err);
	if (r == 0) {
		sort(&b->v->readonly);
		sort(&b->v->protect);
		sort(&b->v->pins);
		drop_hidden(b->v, &b->v->protect);
		drop_hidden(b->v, &b->v->pins);
	}
	return r;
}

/* The clock of file times: a change from now on is stamped no earlier than this. */
static uint64_t now_ns(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int host_view_build(const struct spec *spec, const struct host_view_who *who, struct host_view *ret,
	struct err *err)
{
	const char *work = who->work_dir ? who->work_dir : spec->work_dir;
	struct host_view v = {.began_ns = now_ns()};
	struct build b = {.spec = spec, .v = &v};
	int r = 0;

	b.home = who->home && who->home[0] == '/' ? realpath(who->home, NULL) : NULL;
	/* "/" as a home (service accounts) would hide by home rules at the root: harmless. */
	b.work = work ? realpath(work, NULL) : NULL;
	if (work && !b.work)
		r = err_sys(err, "working directory '%.200s'", work);
	if (r == 0)
		r = build(&b, err);
	free(b.work);
	free(b.home);
	strv_done(&b.homes);
	strv_done(&b.in_part);
	for (int i = 0; i < 3; i++)
		strv_done(&b.rules[i]);
	strv_done(&b.env_files);
	strv_done(&b.hide);
	host_listings_done(&b.listings);
	if (r < 0) {
		host_view_done(&v);
		return r;
	}
	*ret = v;
	return 0;
}

void host_view_done(struct host_view *v)
{
	strv_done(&v->writable);
	strv_done(&v->readonly);
	strv_done(&v->hidden_dirs);
	strv_done(&v->hidden_files);
	strv_done(&v->protect);
	strv_done(&v->pins);
	strv_done(&v->absent);
	strv_done(&v->links);
	strv_done(&v->link_targets);
	strv_done(&v->guarded);
	strv_done(&v->repos);
	strv_done(&v->rebasing);
}
