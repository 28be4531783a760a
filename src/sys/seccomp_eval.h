/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/seccomp_eval - what a filter of ours answers, worked out without the kernel.
 *
 * Knows only the instructions that tools/gen-seccomp emits. Used by the generator
 * to prove its output, and by sys/seccomp to tell a watched call from a refused
 * one. Pure, allocates nothing.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The SECCOMP_RET_ value; SECCOMP_RET_KILL_PROCESS for a program that is not one of ours. */
static inline uint32_t seccomp_eval(
	const struct sock_filter *code, size_t n, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k > sizeof(*data) - sizeof(a))
				return SECCOMP_RET_KILL_PROCESS;
			memcpy(&a, (const char *)data + i->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K: a &= i->k; break;
		case BPF_JMP | BPF_JA: pc += i->k; break;
		case BPF_JMP | BPF_JEQ | BPF_K: pc += a == i->k ? i->jt : i->jf; break;
		case BPF_JMP | BPF_JGE | BPF_K: pc += a >= i->k ? i->jt : i->jf; break;
		case BPF_JMP | BPF_JSET | BPF_K: pc += (a & i->k) != 0 ? i->jt : i->jf; break;
		case BPF_RET | BPF_K: return i->k;
		default: return SECCOMP_RET_KILL_PROCESS;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}
