/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gen-seccomp OUTPUT - turn core/seccomp_table.h into BPF programs, at build time.
 *
 * Writes a C header with one program per set of flags of sys/seccomp.h, for x86-64
 * and arm64, and the names of the system calls. libseccomp tells the numbers; the
 * programs are laid out here, because the table needs what its compiler cannot
 * say: "and otherwise" next to conditions on the low half of an argument.
 *
 * A program is a binary search over runs of equal verdicts. It looks at the number
 * and the architecture alone for every call that is always allowed, which is what
 * lets the kernel (5.11 on) answer those from a bitmap without running it.
 *
 * Every program is evaluated against the table before it is written; a difference
 * fails the build.
 */
#include "core/seccomp_table.h"
#include "sys/seccomp_eval.h"

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define NR_END      512  /* numbers looked at one by one; all above are unknown */
#define BLOCK_MAX   256  /* instructions that decide one call */
#define PROGRAM_MAX 4096 /* the kernel's own limit, BPF_MAXINSNS */
#define NAME_MAX_   24   /* bytes, with the NUL */
#define X32_BIT     0x40000000u

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
	FLAG_NOTIFY = 1, /* the bits of enum seccomp_flags in sys/seccomp.h */
	FLAG_CONNECT = 2,
	FLAG_WRITES = 4,
	FLAG_NO_SUID = 8,
	FLAGS_END = 16,
};

enum watch_class { SECCOMP_WATCH_CONNECT = FLAG_CONNECT, SECCOMP_WATCH_WRITES = FLAG_WRITES };

struct call {
	const char *name;
	enum seccomp_verdict verdict;
};

struct condition {
	const char *name;
	enum seccomp_verdict verdict;
	struct seccomp_test tests[SECCOMP_TESTS_MAX];
};

struct watch {
	const char *name;
	enum watch_class class;
	struct seccomp_test tests[SECCOMP_TESTS_MAX];
};

/* clang-format off */
#define AS_CALL(name, verdict, why)           {#name, SECCOMP_##verdict},
#define AS_CONDITION(name, verdict, why, ...) {#name, SECCOMP_##verdict, {__VA_ARGS__}},
#define AS_WATCH(name, class, why, ...)       {#name, SECCOMP_WATCH_##class, {__VA_ARGS__}},
#define AS_NEWER(name)                        {#name, __NR_##name}
/* clang-format on */

static const struct call calls[] = {SECCOMP_CALLS(AS_CALL)};
static const struct condition conditions[] = {SECCOMP_CONDITIONS(AS_CONDITION)};
static const struct condition no_suid[] = {SECCOMP_NO_SUID_CONDITIONS(AS_CONDITION)};
static const struct watch watches[] = {SECCOMP_WATCHES(AS_WATCH)};

/* Calls newer than Debian 12's libseccomp; one number on every architecture. */
static const struct {
	const char *name;
	int nr;
} newer[] = {
	AS_NEWER(cachestat),
	AS_NEWER(fchmodat2),
	AS_NEWER(map_shadow_stack),
	AS_NEWER(futex_wake),
	AS_NEWER(futex_wait),
	AS_NEWER(futex_requeue),
	AS_NEWER(statmount),
	AS_NEWER(listmount),
	AS_NEWER(lsm_get_self_attr),
	AS_NEWER(lsm_set_self_attr),
	AS_NEWER(lsm_list_modules),
	AS_NEWER(mseal),
	AS_NEWER(setxattrat),
	AS_NEWER(getxattrat),
	AS_NEWER(listxattrat),
	AS_NEWER(removexattrat),
	AS_NEWER(open_tree_attr),
	AS_NEWER(file_getattr),
	AS_NEWER(file_setattr),
};

struct arch {
	const char *macro; /* what the compiler defines on it */
	uint32_t scmp;     /* libseccomp's name for it */
	uint32_t audit;    /* the kernel's */
	bool has_x32;      /* a second ABI under the same audit name */
	const char *names[NR_END];
};

static struct arch arches[] = {
	{.macro = "__x86_64__",
		.scmp = SCMP_ARCH_X86_64,
		.audit = AUDIT_ARCH_X86_64,
		.has_x32 = true},
	{.macro = "__aarch64__", .scmp = SCMP_ARCH_AARCH64, .audit = AUDIT_ARCH_AARCH64},
};

struct block {
	uint32_t first; /* decides numbers from here to the next block's first */
	struct sock_filter code[BLOCK_MAX];
	unsigned n;
};

struct program {
	struct sock_filter code[PROGRAM_MAX];
	unsigned n;
};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("gen-seccomp: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* < 0 if the architecture has no such call. */
static int number_of(const struct arch *arch, const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(arch->scmp, name);

	if (nr >= 0)
		return nr;
	for (size_t i = 0; i < ARRAY_LEN(newer); i++)
		if (strcmp(newer[i].name, name) == 0)
			return newer[i].nr;
	/* -1 is "never heard of"; other negative numbers are libseccomp's own for "elsewhere". */
	if (nr == __NR_SCMP_ERROR)
		fail("no architecture has a system call '%s'", name);
	return -1;
}

static void learn_names(struct arch *arch)
{
	for (int nr = 0; nr < NR_END; nr++) {
		arch->names[nr] = seccomp_syscall_resolve_num_arch(arch->scmp, nr);
		if (arch->names[nr] && strlen(arch->names[nr]) >= NAME_MAX_)
			fail("'%s' is too long a name", arch->names[nr]);
	}
	for (size_t i = 0; i < ARRAY_LEN(newer); i++) {
		const char **name = &arch->names[newer[i].nr];

		if (*name && strcmp(*name, newer[i].name) != 0)
			fail("%d is '%s' for libseccomp, not '%s'", newer[i].nr, *name,
				newer[i].name);
		if (!*name)
			*name = newer[i].name;
	}
}

static const struct call *call_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return &calls[i];
	return NULL;
}

/* Every name is known and named once; what has a condition or a watch is in the list of calls. */
static void check_table(const struct arch *arch)
{
	bool seen[NR_END] = {false};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		int nr = number_of(arch, calls[i].name);

		if (nr < 0)
			continue;
		if (nr >= NR_END || seen[nr])
			fail("'%s' is named twice, or its number %d is too high", calls[i].name,
				nr);
		seen[nr] = true;
	}
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
		if (!call_of(conditions[i].name))
			fail("condition on '%s', which is not in the list", conditions[i].name);
	for (size_t i = 0; i < ARRAY_LEN(no_suid); i++)
		if (!call_of(no_suid[i].name))
			fail("condition on '%s', which is not in the list", no_suid[i].name);
	for (size_t i = 0; i < ARRAY_LEN(watches); i++) {
		const struct call *c = call_of(watches[i].name);

		if (!c || c->verdict != SECCOMP_ALLOW)
			fail("watch on '%s', which is not allowed", watches[i].name);
	}
}

static uint32_t action_of(enum seccomp_verdict verdict, unsigned flags)
{
	switch (verdict) {
	case SECCOMP_ALLOW: return SECCOMP_RET_ALLOW;
	case SECCOMP_DENY:
		return flags & FLAG_NOTIFY ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM;
	case SECCOMP_REFUSE: return SECCOMP_RET_ERRNO | EPERM;
	case SECCOMP_UNSUPPORTED: return SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
	case SECCOMP_ENOSYS: break;
	}
	return SECCOMP_RET_ERRNO | ENOSYS;
}

/* The table's meaning, said once more without BPF, to check the programs with. */

static bool tests_hold(const struct seccomp_test *tests, const __u64 *args)
{
	for (unsigned i = 0; i < SECCOMP_TESTS_MAX; i++) {
		uint32_t masked = (uint32_t)args[tests[i].arg] & tests[i].mask;

		if (tests[i].op == SECCOMP_OP_EQ && masked != tests[i].value)
			return false;
		if (tests[i].op == SECCOMP_OP_ANY && masked == 0)
			return false;
	}
	return true;
}

static uint32_t decide(const struct arch *arch, unsigned flags, const struct seccomp_data *data)
{
	uint32_t nr = (uint32_t)data->nr;
	const struct call *c = nr < NR_END ? call_of(arch->names[nr]) : NULL;

	if (data->arch != arch->audit || (arch->has_x32 && nr >= X32_BIT && nr != UINT32_MAX))
		return SECCOMP_RET_KILL_PROCESS;
	if (!c)
		return action_of(SECCOMP_ENOSYS, flags);
	for (size_t i = 0; (flags & FLAG_NO_SUID) && i < ARRAY_LEN(no_suid); i++)
		if (strcmp(no_suid[i].name, c->name) == 0 &&
			tests_hold(no_suid[i].tests, data->args))
			return action_of(no_suid[i].verdict, flags);
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
		if (strcmp(conditions[i].name, c->name) == 0 &&
			tests_hold(conditions[i].tests, data->args))
			return action_of(conditions[i].verdict, flags);
	for (size_t i = 0; i < ARRAY_LEN(watches); i++)
		if ((flags & watches[i].class) && strcmp(watches[i].name, c->name) == 0 &&
			tests_hold(watches[i].tests, data->args))
			return SECCOMP_RET_USER_NOTIF;
	return action_of(c->verdict, flags);
}

/* Writing the programs. */

static void put(struct block *b, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (b->n == BLOCK_MAX)
		fail("too many conditions on one call");
	b->code[b->n++] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
}

static unsigned test_size(const struct seccomp_test *t)
{
	if (t->op == SECCOMP_OP_NONE)
		return 0;
	return t->op == SECCOMP_OP_EQ && t->mask != UINT32_MAX ? 3 : 2;
}

/* If all tests hold, answer with action; else go on behind. */
static void put_tests(struct block *b, const struct seccomp_test *tests, uint32_t action)
{
	unsigned left = 1; /* instructions from here to behind the answer */

	for (unsigned i = 0; i < SECCOMP_TESTS_MAX; i++)
		left += test_size(&tests[i]);
	for (unsigned i = 0; i < SECCOMP_TESTS_MAX; i++) {
		const struct seccomp_test *t = &tests[i];
		/* Both architectures are little-endian: the low half comes first. */
		uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + t->arg * 8);

		left -= test_size(t);
		if (t->op == SECCOMP_OP_NONE)
			continue;
		put(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
		if (t->op == SECCOMP_OP_EQ && t->mask != UINT32_MAX)
			put(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, t->mask);
		if (t->op == SECCOMP_OP_EQ)
			put(b, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)left, t->value);
		else
			put(b, BPF_JMP | BPF_JSET | BPF_K, 0, (uint8_t)left, t->mask);
	}
	put(b, BPF_RET | BPF_K, 0, 0, action);
}

static void put_call(struct block *b, const struct call *c, unsigned flags)
{
	for (size_t i = 0; (flags & FLAG_NO_SUID) && i < ARRAY_LEN(no_suid); i++)
		if (strcmp(no_suid[i].name, c->name) == 0)
			put_tests(b, no_suid[i].tests, action_of(no_suid[i].verdict, flags));
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
		if (strcmp(conditions[i].name, c->name) == 0)
			put_tests(b, conditions[i].tests, action_of(conditions[i].verdict, flags));
	for (size_t i = 0; i < ARRAY_LEN(watches); i++)
		if ((flags & watches[i].class) && strcmp(watches[i].name, c->name) == 0)
			put_tests(b, watches[i].tests, SECCOMP_RET_USER_NOTIF);
	put(b, BPF_RET | BPF_K, 0, 0, action_of(c->verdict, flags));
}

/* Append a block unless it decides as the one before it. */
static unsigned add_block(struct block *blocks, unsigned n, const struct block *b)
{
	const struct block *last = n > 0 ? &blocks[n - 1] : NULL;

	if (last && last->n == b->n && memcmp(last->code, b->code, b->n * sizeof(b->code[0])) == 0)
		return n;
	blocks[n] = *b;
	return n + 1;
}

static unsigned make_blocks(const struct arch *arch, unsigned flags, struct block *blocks)
{
	const uint32_t unknown = action_of(SECCOMP_ENOSYS, flags);
	struct block b;
	unsigned n = 0;

	for (uint32_t nr = 0; nr <= NR_END; nr++) {
		const struct call *c = nr < NR_END ? call_of(arch->names[nr]) : NULL;

		b = (struct block){.first = nr};
		if (c)
			put_call(&b, c, flags);
		else
			put(&b, BPF_RET | BPF_K, 0, 0, unknown);
		n = add_block(blocks, n, &b);
	}
	if (arch->has_x32) {
		b = (struct block){.first = X32_BIT};
		put(&b, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
		n = add_block(blocks, n, &b);
		/* -1 is what a tracer sets to skip a call; no program may die of it. */
		b = (struct block){.first = UINT32_MAX};
		put(&b, BPF_RET | BPF_K, 0, 0, unknown);
		n = add_block(blocks, n, &b);
	}
	return n;
}

static unsigned tree_size(const struct block *blocks, unsigned n)
{
	unsigned left;

	if (n == 1)
		return blocks[0].n;
	left = tree_size(blocks, n / 2);
	return (left > UINT8_MAX ? 2 : 1) + left + tree_size(blocks + n / 2, n - n / 2);
}

static void append(struct program *p, const struct sock_filter *code, unsigned n)
{
	if (n > PROGRAM_MAX - p->n)
		fail("the program is longer than the kernel takes");
	memcpy(&p->code[p->n], code, n * sizeof(*code));
	p->n += n;
}

static void put_tree(struct program *p, const struct block *blocks, unsigned n)
{
	const struct block *right = blocks + n / 2;
	unsigned left_size;

	if (n == 1) {
		append(p, blocks[0].code, blocks[0].n);
		return;
	}
	left_size = tree_size(blocks, n / 2);
	if (left_size > UINT8_MAX) {
		/* A conditional jump reaches 255 instructions, the other kind reaches all. */
		const struct sock_filter far[] = {
			BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, right->first, 0, 1),
			BPF_STMT(BPF_JMP | BPF_JA, left_size),
		};
		append(p, far, 2);
	} else {
		const struct sock_filter near =
			BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, right->first, (uint8_t)left_size, 0);
		append(p, &near, 1);
	}
	put_tree(p, blocks, n / 2);
	put_tree(p, right, n - n / 2);
}

static void compile(const struct arch *arch, unsigned flags, struct program *p)
{
	static struct block blocks[NR_END + 4];
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch->audit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	unsigned n = make_blocks(arch, flags, blocks);

	p->n = 0;
	append(p, head, ARRAY_LEN(head));
	put_tree(p, blocks, n);
}

/* Proof by trial. */

static void check_one(const struct arch *arch, unsigned flags, const struct program *p,
	const struct seccomp_data *data)
{
	uint32_t want = decide(arch, flags, data);
	uint32_t got = seccomp_eval(p->code, p->n, data);

	if (want != got)
		fail("call %d on %s, flags %u, arguments %llx %llx %llx: %08x, expected %08x",
			data->nr, arch->macro, flags, data->args[0], data->args[1], data->args[2],
			got, want);
}

#define VALUES_MAX 64

struct values {
	uint64_t v[VALUES_MAX];
	unsigned n;
};

static void add_value(struct values *set, uint64_t value)
{
	for (unsigned i = 0; i < set->n; i++)
		if (set->v[i] == value)
			return;
	if (set->n == VALUES_MAX)
		fail("too many values to try for one call");
	set->v[set->n++] = value;
}

/* What a test asks for: plainly, with the upper half set, among all other bits; and none of it. */
static void add_values(struct values *sets, const struct seccomp_test *tests)
{
	for (unsigned i = 0; i < SECCOMP_TESTS_MAX; i++) {
		const struct seccomp_test *t = &tests[i];
		uint32_t hit = t->op == SECCOMP_OP_EQ ? t->value : t->mask & -t->mask;

		if (t->op == SECCOMP_OP_NONE)
			continue;
		add_value(&sets[t->arg], hit);
		add_value(&sets[t->arg], hit | 1ULL << 32);
		add_value(&sets[t->arg], (hit | ~t->mask) & UINT32_MAX);
		add_value(&sets[t->arg], ~(uint64_t)t->mask);
	}
}

/* Each argument that some condition looks at takes each such value, in all combinations. */
static void check_call(
	const struct arch *arch, unsigned flags, const struct program *p, struct seccomp_data *data)
{
	const char *name = arch->names[data->nr];
	struct values sets[6] = {0};
	unsigned at[6] = {0};
	unsigned digit;

	for (size_t i = 0; name && i < ARRAY_LEN(conditions); i++)
		if (strcmp(conditions[i].name, name) == 0)
			add_values(sets, conditions[i].tests);
	for (size_t i = 0; name && i < ARRAY_LEN(no_suid); i++)
		if (strcmp(no_suid[i].name, name) == 0)
			add_values(sets, no_suid[i].tests);
	for (size_t i = 0; name && i < ARRAY_LEN(watches); i++)
		if (strcmp(watches[i].name, name) == 0)
			add_values(sets, watches[i].tests);
	for (unsigned i = 0; i < 6; i++) {
		add_value(&sets[i], 0);
		add_value(&sets[i], sets[i].n > 1 ? UINT64_MAX : 0);
	}
	do {
		for (unsigned i = 0; i < 6; i++)
			data->args[i] = sets[i].v[at[i]];
		check_one(arch, flags, p, data);
		for (digit = 0; digit < 6 && ++at[digit] == sets[digit].n; digit++)
			at[digit] = 0;
	} while (digit < 6);
}

static void check_program(const struct arch *arch, unsigned flags, const struct program *p)
{
	static const uint32_t odd[] = {NR_END, NR_END + 1, 1024, X32_BIT - 1, X32_BIT, X32_BIT + 59,
		0x7fffffff, 0x80000000, 0xfffffffe, UINT32_MAX};
	struct seccomp_data data = {.arch = arch->audit};

	for (int nr = 0; nr < NR_END; nr++) {
		data = (struct seccomp_data){.arch = arch->audit, .nr = nr};
		check_call(arch, flags, p, &data);
	}
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		data.nr = (int)odd[i];
		check_one(arch, flags, p, &data);
	}
	data.arch = AUDIT_ARCH_I386;
	check_one(arch, flags, p, &data);
}

/* Output. */

static void write_program(FILE *out, unsigned flags, const struct program *p)
{
	(void)fprintf(out, "static const struct sock_filter seccomp_program_%u[] = {", flags);
	for (unsigned i = 0; i < p->n; i++)
		(void)fprintf(out, "%s{0x%02x, %u, %u, 0x%08xu},", i % 4 ? " " : "\n\t",
			p->code[i].code, p->code[i].jt, p->code[i].jf, p->code[i].k);
	(void)fprintf(out, "\n};\n");
}

static bool is_variant(unsigned flags)
{
	return (flags & FLAG_NOTIFY) || !(flags & (FLAG_CONNECT | FLAG_WRITES));
}

static void write_arch(FILE *out, struct arch *arch)
{
	static struct program p;

	learn_names(arch);
	check_table(arch);
	(void)fprintf(out, "#define SECCOMP_AUDIT_ARCH 0x%08xu\n", arch->audit);
	for (unsigned flags = 0; flags < FLAGS_END; flags++) {
		if (!is_variant(flags))
			continue;
		compile(arch, flags, &p);
		check_program(arch, flags, &p);
		write_program(out, flags, &p);
	}
	(void)fprintf(out, "static const char seccomp_names[%d][%d] = {\n", NR_END, NAME_MAX_);
	for (int nr = 0; nr < NR_END; nr++)
		if (arch->names[nr])
			(void)fprintf(out, "\t[%d] = \"%s\",\n", nr, arch->names[nr]);
	(void)fprintf(out, "};\n");
}

int main(int argc, char **argv)
{
	FILE *out;

	if (argc != 2)
		fail("usage: gen-seccomp OUTPUT");
	out = fopen(argv[1], "we");
	if (!out)
		fail("open '%s': %s", argv[1], strerror(errno));
	(void)fprintf(out, "/* Made by tools/gen-seccomp from core/seccomp_table.h. */\n"
			   "#pragma once\n\n#include <linux/filter.h>\n\n");
	for (size_t i = 0; i < ARRAY_LEN(arches); i++) {
		(void)fprintf(out, "#%s defined(%s)\n", i ? "elif" : "if", arches[i].macro);
		write_arch(out, &arches[i]);
	}
	(void)fprintf(out, "#else\n#error \"no seccomp table for this architecture\"\n#endif\n\n");
	(void)fprintf(out, "static const struct sock_fprog seccomp_programs[%d] = {\n", FLAGS_END);
	for (unsigned flags = 0; flags < FLAGS_END; flags++)
		if (is_variant(flags))
			(void)fprintf(out,
				"\t[%u] = {sizeof(seccomp_program_%u) / sizeof(struct "
				"sock_filter),\n"
				"\t\t(struct sock_filter *)(unsigned long)seccomp_program_%u},\n",
				flags, flags, flags);
	(void)fprintf(out, "};\n");
	if (fclose(out) != 0)
		fail("write '%s': %s", argv[1], strerror(errno));
	return 0;
}
