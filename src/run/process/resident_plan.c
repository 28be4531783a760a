/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/resident_plan - the plan of the boxes of one kind, made once and lent to each.
 *
 * Boxes of a server differ in their ids and nothing else. To look at the machine and build the
 * plan again for each cost a fifth of a millisecond, half of it for copying the pages that this
 * dirtied after every fork. What was found out holds for a second: a package that the host
 * installs is seen by boxes that are made a second later. Runs in: the warden.
 */
#include "base/mem.h"
#include "base/own.h"
#include "run/process/resident_impl.h"

#include <fcntl.h>
#include <string.h>

#define HOLDS_MS 1000

struct resident_plan {
	unsigned users;
	uint64_t until_ms;
	struct spec spec; /* its strings are in `texts` */
	char *texts[4];
	struct plan_facts facts;
	struct plan plan;
};

static struct resident_plan *latest; /* one of its users */

static const char *const *texts_of(const struct spec *s, const char *ret[4])
{
	ret[0] = s->user;
	ret[1] = s->cwd;
	ret[2] = s->ca_dir;
	ret[3] = s->hostname;
	return ret;
}

/* Pointers left out; what is added to a spec later is compared, and at worst never the same. */
static struct spec numbers_of(const struct spec *s)
{
	struct spec n;

	memcpy(&n, s, sizeof(n));
	n.user = n.cwd = n.ca_dir = n.hostname = NULL;
	n.argv = (struct strv){0};
	return n;
}

static bool is_for(const struct resident_plan *k, const struct spec *s)
{
	struct spec n = numbers_of(s);
	const char *texts[4];

	(void)texts_of(s, texts);
	for (int i = 0; i < 4; i++) {
		if (!texts[i] != !k->texts[i])
			return false;
		if (texts[i] && strcmp(texts[i], k->texts[i]) != 0)
			return false;
	}
	/* Padding may make equals look different, which costs a plan; never the other way. */
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	return memcmp(&n, &k->spec, sizeof(n)) == 0;
}

static void release(struct resident_plan *k)
{
	if (!k || --k->users > 0)
		return;
	plan_done(&k->plan);
	plan_facts_done(&k->facts);
	for (int i = 0; i < 4; i++)
		free(k->texts[i]);
	free(k);
}

/* What box_prepare() made becomes one to lend. */
static void keep(struct box *b, uint64_t now_ms)
{
	struct resident_plan *k = MEM_NEW(struct resident_plan);
	const char *texts[4];

	k->users = 1;
	k->until_ms = now_ms + HOLDS_MS;
	k->spec = numbers_of(b->spec);
	(void)texts_of(b->spec, texts);
	for (int i = 0; i < 4; i++)
		k->texts[i] = texts[i] ? mem_strdup(texts[i]) : NULL;
	k->facts = b->facts;
	k->plan = b->plan;
	release(latest);
	latest = k;
}

static int lend(struct resident_plan *k, struct box *b, struct err *err)
{
	int fd = -EBADF;

	/* The same open file, and so the same lock: pid 1 keeps it while it needs the template. */
	if (k->facts.template_fd >= 0) {
		fd = fcntl(k->facts.template_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return err_sys(err, "hold the template");
	}
	b->facts = k->facts;
	b->facts.template_fd = fd;
	b->plan = k->plan;
	k->users++;
	return 0;
}

struct resident_plan *resident_plan_take(struct box *b, uint64_t now_ms, struct err *err)
{
	const struct spec *s = b->spec;
	int r;

	if (!latest || now_ms >= latest->until_ms || !is_for(latest, s)) {
		r = box_prepare(b, err);
		if (r < 0)
			return NULL;
		/* One range is reserved already: this box is the first to borrow. */
		keep(b, now_ms);
		r = lend(latest, b, err);
		if (r < 0) {
			b->facts = (struct plan_facts){.template_fd = -EBADF};
			b->plan = (struct plan){.store_slot = -1};
			return NULL;
		}
		return latest;
	}
	if (latest->plan.id_base != 0) {
		uint32_t first = 0;

		b->range_fd = userns_reserve_range(&first, err);
		if (b->range_fd < 0)
			return NULL;
		if (lend(latest, b, err) < 0)
			return NULL;
		b->facts.range_first = first;
		plan_set_range(&b->plan, first);
		return latest;
	}
	return lend(latest, b, err) < 0 ? NULL : latest;
}

void resident_plan_return(struct resident_plan *k, struct box *b)
{
	if (!k)
		return;
	closep(&b->facts.template_fd);
	b->facts = (struct plan_facts){.template_fd = -EBADF};
	b->plan = (struct plan){.store_slot = -1};
	release(k);
}
