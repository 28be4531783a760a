/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz run/warden_check: any bytes are refused with a reason, or are a question whose every text
 * ends and whose id is a plain name. Short inputs are filled up with zeroes, so that the fuzzer
 * reaches the fields.
 */
#include "run/warden.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const void *packet, size_t n)
{
	struct warden_message m;
	struct err err = {0};

	if (warden_check(packet, n, &m, &err) < 0) {
		assert(err.code != 0 && err.msg[0] != 0);
		return;
	}
	assert(n == sizeof(m) && memcmp(packet, &m, n) == 0);
	assert(m.number != 0 && m.code == 0);
	assert(strnlen(m.id, sizeof(m.id)) < sizeof(m.id));
	assert(strspn(m.id, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(m.id));
	if (m.op != WARDEN_START)
		return;
	assert(strnlen(m.spec.tier, sizeof(m.spec.tier)) < sizeof(m.spec.tier));
	assert(strnlen(m.spec.template, sizeof(m.spec.template)) < sizeof(m.spec.template));
	assert(strnlen(m.spec.hostname, sizeof(m.spec.hostname)) < sizeof(m.spec.hostname));
	assert(!strchr(m.spec.template, '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct warden_message m;
		uint8_t bytes[sizeof(struct warden_message)];
	} whole;

	judge(data, size);
	memset(&whole, 0, sizeof(whole));
	memcpy(whole.bytes, data, size < sizeof(whole) ? size : sizeof(whole));
	judge(&whole, sizeof(whole));
	return 0;
}
