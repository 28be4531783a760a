/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/vault.h"

#include "base/text.h"
#include "egress/vault_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/wait.h>

static struct err err;

static struct vault *with(const char *owner, const char *name, const char *value)
{
	struct vault *v = NULL;

	CHECK_INT(vault_create(&v, &err), 0);
	CHECK_INT(vault_set(v, owner, name, value, strlen(value), &err), 0);
	return v;
}

static bool holds(const struct vault *v, const char *owner, const char *name, const char *value)
{
	const struct vault_secret *s = vault_find(v, owner, name);

	return s && s->value.n == strlen(value) && memcmp(s->value.p, value, s->value.n) == 0;
}

static void a_secret_is_its_owners(void)
{
	AUTO(vault_free) struct vault *v = with("one", "KEY", "first");

	CHECK_INT(vault_set(v, "two", "KEY", "second", 6, &err), 0);
	CHECK(holds(v, "one", "KEY", "first"));
	CHECK(holds(v, "two", "KEY", "second"));
	CHECK(!vault_find(v, "", "KEY"));
	CHECK(!vault_find(v, "one", "key"));
}

static void rotation_and_revocation_are_live(void)
{
	AUTO(vault_free) struct vault *v = with("", "KEY", "old");

	CHECK_INT(vault_set(v, "", "KEY", "a longer new one", 16, &err), 0);
	CHECK(holds(v, "", "KEY", "a longer new one"));
	vault_forget(v, "", "KEY");
	CHECK(!vault_find(v, "", "KEY"));
	vault_forget(v, "", "KEY");
	CHECK_INT(vault_set(v, "", "KEY", "again", 5, &err), 0);
	CHECK(holds(v, "", "KEY", "again"));
}

static void what_is_not_said_again_is_forgotten(void)
{
	AUTO(vault_free) struct vault *v = with("", "KEY", "kept");

	CHECK_INT(vault_set(v, "one", "GONE", "x", 1, &err), 0);
	vault_begin(v);
	CHECK_INT(vault_set(v, "", "KEY", "again", 5, &err), 0);
	CHECK_INT(vault_set(v, "", "NEW", "new", 3, &err), 0);
	CHECK(vault_find(v, "one", "GONE"));
	vault_sweep(v);
	CHECK(!vault_find(v, "one", "GONE"));
	CHECK(holds(v, "", "KEY", "again") && holds(v, "", "NEW", "new"));
}

static void what_no_request_could_carry_is_refused(void)
{
	AUTO(vault_free) struct vault *v = with("", "KEY", "kept");
	static char large[VAULT_VALUE_MAX + 1];

	memset(large, 'x', sizeof(large));
	CHECK_INT(vault_set(v, "", "KEY", "", 0, &err), -EINVAL);
	CHECK_INT(vault_set(v, "", "KEY", "a\r\nX: b", 7, &err), -EINVAL);
	CHECK(!strstr(err.msg, "X: b")); /* never the value */
	CHECK_INT(vault_set(v, "", "KEY", "a\0b", 3, &err), -EINVAL);
	CHECK_INT(vault_set(v, "", "KEY", " a", 2, &err), -EINVAL);
	CHECK_INT(vault_set(v, "", "KEY", "a\t", 2, &err), -EINVAL);
	CHECK_INT(vault_set(v, "", "KEY", large, sizeof(large), &err), -EINVAL);
	CHECK_INT(vault_set(v, "", "../KEY", "a", 1, &err), -EINVAL);
	CHECK(holds(v, "", "KEY", "kept"));
	CHECK_INT(vault_set(v, "", "KEY", large, VAULT_VALUE_MAX, &err), 0);
}

static void there_is_a_most(void)
{
	AUTO(vault_free) struct vault *v = NULL;
	char name[16];

	CHECK_INT(vault_create(&v, &err), 0);
	for (int i = 0; i < VAULT_SECRETS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "k%d", i);
		if (!CHECK_INT(vault_set(v, "", name, name, strlen(name), &err), 0))
			return;
	}
	CHECK_INT(vault_set(v, "", "more", "x", 1, &err), -EMFILE);
	CHECK_INT(vault_set(v, "", "k7", "changed", 7, &err), 0);
	CHECK(holds(v, "", "k7", "changed"));
	CHECK(holds(v, "", "k4095", "k4095"));
}

/* ---- memory ---- */

/* The flags of the mapping that holds `p`, as the kernel tells them. */
static bool smaps_flags(const void *p, char *out, size_t size)
{
	AUTO_FILE FILE *f = fopen("/proc/self/smaps", "re");
	AUTO_FREE char *line = NULL;
	size_t n = 0;
	bool is_inside = false;

	while (f && getline(&line, &n, f) > 0) {
		uint64_t from = 0, to = 0;
		const char *s = line;

		if (text_scan_hex(&s, &from) == 0 && *s == '-') {
			s++;
			if (text_scan_hex(&s, &to) == 0)
				is_inside = from <= (uintptr_t)p && (uintptr_t)p < to;
		}
		if (is_inside && text_starts(line, "VmFlags:")) {
			(void)snprintf(out, size, "%s", line);
			return true;
		}
	}
	return false;
}

static void pages_are_kept_out_of_dumps_and_children(void)
{
	AUTO(vault_free) struct vault *v = with("", "KEY", "not for the core dump");
	const struct vault_secret *s = vault_find(v, "", "KEY");
	char flags[256] = "";
	int status = -1;
	pid_t pid;

	if (!CHECK(smaps_flags(s->value.p, flags, sizeof(flags))))
		return;
	CHECK(strstr(flags, " dd"));
	CHECK(strstr(flags, " wf"));
	pid = fork();
	if (pid == 0)
		_exit(s->value.p[0] == 'n'); /* wiped for the child */
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_INT(s->value.p[0], 'n');
}

static void reading_past_the_end_faults(void)
{
	AUTO(vault_free) struct vault *v = with("", "KEY", "guarded");
	const struct vault_secret *s = vault_find(v, "", "KEY");
	int pipes[2];

	/* The kernel reads for us, and says what we would have got. */
	if (!CHECK(pipe2(pipes, O_CLOEXEC) == 0))
		return;
	CHECK(write(pipes[1], s->value.p + s->value.n, 1) < 0 && errno == EFAULT);
	CHECK_INT(write(pipes[1], s->value.p, s->value.n), (ssize_t)s->value.n);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
}

/* How often `hidden`, each byte of it xor 0x55, is in our memory outside the vault. */
static int count_in_memory(const char *hidden, size_t n, const void *except)
{
	AUTO_FILE FILE *maps = fopen("/proc/self/maps", "re");
	AUTO_FD int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	int hits = 0;

	while (maps && getline(&line, &size, maps) > 0) {
		uint64_t from = 0, to = 0;
		const char *s = line;
		AUTO_FREE char *copy = NULL;
		ssize_t got;

		if (text_scan_hex(&s, &from) < 0 || *s++ != '-' || text_scan_hex(&s, &to) < 0 ||
			s[1] != 'r' || s[2] != 'w' || to - from > (64u << 20) ||
			(from <= (uintptr_t)except && (uintptr_t)except < to))
			continue;
		copy = malloc(to - from);
		got = copy ? pread(mem, copy, to - from, (off_t)from) : -1;
		for (ssize_t i = 0; copy && i + (ssize_t)n <= got; i++) {
			size_t k = 0;

			while (k < n && copy[i + (ssize_t)k] == (hidden[k] ^ 0x55))
				k++;
			hits += k == n;
		}
		/* The copy itself is memory that later rounds must not find. */
		if (copy)
			explicit_bzero(copy, to - from);
	}
	return hits;
}

static void nothing_is_left_in_other_memory(void)
{
	static char bearer[] = "Bearer {}", field[] = "Authorization", name[] = "KEY";
	struct policy_binding b = {
		.secret = name, .place = POLICY_HEADER, .field = field, .format = bearer};
	size_t index = 0;
	struct policy_rule rule = {.bindings = &index, .bindings_n = 1};
	struct policy p = {.bindings = &b, .bindings_n = 1, .rules = &rule, .rules_n = 1};
	static const char request[] = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
	/* Each byte xor 0x55: the test itself must not hold what it looks for. */
	char hidden[34], value[sizeof(hidden)], what[VAULT_WHAT_MAX];
	volatile char *h = hidden, *w = value;
	AUTO(vault_free) struct vault *v = NULL;
	struct h1_head head;
	struct buf out = {0};

	for (size_t i = 0; i < sizeof(hidden) - 1; i++) {
		h[i] = (char)('a' + (i * 7 + (size_t)getpid()) % 26);
		w[i] = h[i];
		h[i] = (char)(h[i] ^ 0x55);
	}
	CHECK_INT(vault_create(&v, &err), 0);
	CHECK_INT(vault_set(v, "", "KEY", value, sizeof(value) - 1, &err), 0);
	explicit_bzero(value, sizeof(value));
	CHECK_INT(h1_parse_request(request, strlen(request), &head), 0);
	CHECK_INT(vault_inject_head(v, "", &p, &rule, &head, "a.example", &out, what, &err), 0);
	CHECK(count_in_memory(hidden, sizeof(hidden) - 1, vault_find(v, "", "KEY")->value.p) == 1);
	buf_wipe(&out);
	CHECK_INT(
		count_in_memory(hidden, sizeof(hidden) - 1, vault_find(v, "", "KEY")->value.p), 0);
	vault_forget(v, "", "KEY");
	CHECK_INT(count_in_memory(hidden, sizeof(hidden) - 1, NULL), 0);
}

/* ---- scanning ---- */

static bool scan_in_pieces(const char *text, size_t piece)
{
	struct vault_scan s = {0};
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i += piece)
		if (vault_scan_feed(&s, text + i, n - i < piece ? n - i : piece))
			return true;
	return false;
}

static void a_placeholder_is_seen_across_pieces(void)
{
	for (size_t piece = 1; piece < 40; piece++) {
		CHECK(scan_in_pieces("some text bawn-ph-0123 and more", piece));
		CHECK(scan_in_pieces("bawn-bawn-ph-a", piece));
		CHECK(scan_in_pieces("bbawn-phbawn-ph-f", piece));
		CHECK(scan_in_pieces("X-BAWN-PH-A", piece));
		CHECK(!scan_in_pieces("bawn-ph-", piece));
		CHECK(!scan_in_pieces("bawn-ph-xyz bawn-photo", piece));
		CHECK(!scan_in_pieces("bawn-p-h-0", piece));
	}
}

static void a_name_cannot_carry_one(void)
{
	char ph[PLACEHOLDER_LEN + 1];
	AUTO_FREE char *name = NULL;

	placeholder_make("", "KEY", ph);
	name = text_format("%s.evil.example", ph);
	CHECK(vault_scan_name(name));
	CHECK(vault_scan_name("BAWN-PH-0a.evil.example"));
	CHECK(vault_scan_name("bawn-ph.-01234.evil.example"));
	CHECK(vault_scan_name("ba.wn-p.h-7.evil.example"));
	CHECK(vault_scan_name("bawnph0123456789abcdef0123.evil.example"));
	CHECK(vault_scan_name("bawn.ph.01234567.89abcdef.0123.evil.example"));
	CHECK(vault_scan_name("6261776e2d70682d3031.evil.example"));
	CHECK(vault_scan_name("6261776e2d.70682d3031.evil.example"));
	CHECK(vault_scan_name("MJQXO3RNOBUC2MA.evil.example"));
	CHECK(!vault_scan_name("bawnphotos.example.com"));
	CHECK(!vault_scan_name("bawn-photos.example.com"));
	CHECK(!vault_scan_name("pypi.org"));
	CHECK(!vault_scan_name(""));
}

int main(void)
{
	RUN(a_secret_is_its_owners);
	RUN(rotation_and_revocation_are_live);
	RUN(what_is_not_said_again_is_forgotten);
	RUN(what_no_request_could_carry_is_refused);
	RUN(there_is_a_most);
	RUN(pages_are_kept_out_of_dumps_and_children);
	RUN(reading_past_the_end_faults);
	RUN(nothing_is_left_in_other_memory);
	RUN(a_placeholder_is_seen_across_pieces);
	RUN(a_name_cannot_carry_one);
	return tap_done();
}
