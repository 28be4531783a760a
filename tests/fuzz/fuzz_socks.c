/* SPDX-License-Identifier: Apache-2.0 */

/*
 * egress/socks on hostile bytes: no more is used than there is, and a request that is fine has a
 * name a policy can speak of, or an address.
 */
#include "egress/socks.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum socks_method method = SOCKS_NO_METHOD;
	struct socks_request r = {0};
	char clean[POLICY_NAME_MAX + 1];
	ssize_t n = socks_greeting(data, size, &method);

	assert(n <= (ssize_t)size && n <= SOCKS_GREETING_MAX);
	n = socks_login(data, size);
	assert(n <= (ssize_t)size && n <= SOCKS_LOGIN_MAX);
	n = socks_request(data, size, &r);
	assert(n <= (ssize_t)size && n <= SOCKS_REQUEST_MAX);
	if (n <= 0 || r.code != SOCKS_OK)
		return 0;
	assert(r.port != 0);
	if (r.name[0])
		assert(policy_clean_name(r.name, strlen(r.name), clean) >= 0);
	else
		assert(r.addr.family == 4 || r.addr.family == 6);
	return 0;
}
