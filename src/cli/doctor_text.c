/* SPDX-License-Identifier: Apache-2.0 */

/* The diagnosis as a page for people. */
#include "cli/doctor.h"

#include <string.h>

static const char *colour(enum diagnosis_status s)
{
	switch (s) {
	case DIAGNOSIS_OK: return "\033[32m";
	case DIAGNOSIS_WEAK: return "\033[33m";
	case DIAGNOSIS_MISSING: return "\033[31m";
	case DIAGNOSIS_INFO: break;
	}
	return "\033[2m";
}

struct line {
	enum diagnosis_status status;
	const char *name;
	const char *text;
	const char *more; /* what it means; may be "" */
	const char *fix;  /* may be "" */
	bool is_wall;     /* `more` says what the wall would give */
};

static void print_line(const struct line *l, int width, bool want_colour, FILE *out)
{
	const char *word = l->status == DIAGNOSIS_INFO ? "-" : diagnosis_status_name(l->status);

	(void)fprintf(out, "  %s%-8s%s%-*s  %s\n", want_colour ? colour(l->status) : "", word,
		want_colour ? "\033[0m" : "", width, l->name, l->text);
	if (l->more[0])
		(void)fprintf(
			out, "          %s%s\n", l->is_wall ? "it would mean: " : "", l->more);
	if (l->fix[0])
		(void)fprintf(out, "          fix: %s\n", l->fix);
}

static void print_title(const char *title, bool want_colour, FILE *out)
{
	(void)fprintf(out, "\n%s%s%s\n", want_colour ? "\033[1m" : "", title,
		want_colour ? "\033[0m" : "");
}

/* The same command is told once on one page: is it among the first n facts? */
static bool is_told(const struct diagnosis *d, size_t n, const char *fix)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(d->facts[i].fix, fix) == 0)
			return true;
	return false;
}

static void print_walls(const struct diagnosis *d, bool want_colour, FILE *out)
{
	print_title("what that means for the walls", want_colour, out);
	for (size_t i = 0; i < WALL_COUNT; i++) {
		const struct diagnosis_wall *w = &d->walls[i];
		struct line l = {w->status, wall_name((enum wall)i), w->mechanism, "",
			is_told(d, d->facts_n, w->fix) ? "" : w->fix, true};

		if (w->status == DIAGNOSIS_MISSING)
			l.more = wall_about((enum wall)i);
		/* A limit that nobody asked for is nobody's loss yet. */
		if (w->status == DIAGNOSIS_MISSING && !w->is_required)
			l.status = DIAGNOSIS_WEAK;
		print_line(&l, 10, want_colour, out);
	}
}

static void print_tiers(const struct diagnosis *d, bool want_colour, FILE *out)
{
	print_title("and for the tiers", want_colour, out);
	for (size_t i = 0; i < DIAGNOSIS_TIERS; i++) {
		const struct diagnosis_tier *t = &d->tiers[i];

		print_line(&(struct line){t->status, t->name, t->why, "", t->fix, false}, 10,
			want_colour, out);
	}
}

void doctor_print_text(
	const struct probe *p, const struct diagnosis *d, bool want_colour, FILE *out)
{
	const char *group = "";

	(void)fprintf(out, "bawn doctor: Linux %s on %s, as %s (uid %u)\n", p->kernel, p->arch,
		p->user[0] ? p->user : "?", p->uid);
	for (size_t i = 0; i < d->facts_n; i++) {
		const struct diagnosis_fact *f = &d->facts[i];

		if (strcmp(group, f->group) != 0)
			print_title(f->group, want_colour, out);
		group = f->group;
		print_line(&(struct line){f->status, f->name, f->value, f->detail,
				   is_told(d, i, f->fix) && f->fix[0] ? "as above" : f->fix, false},
			25, want_colour, out);
	}
	print_walls(d, want_colour, out);
	print_tiers(d, want_colour, out);
	(void)fprintf(out, "\n%s\n",
		d->is_ok ? "bawn run can build every wall it requires by default."
			 : "bawn run would refuse to start here: a required wall is missing.");
}
