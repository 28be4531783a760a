/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/socks.h"

#include "tap.h"

#include <errno.h>
#include <string.h>

static void a_method_is_chosen(void)
{
	enum socks_method m;

	CHECK_INT(socks_greeting("\5\1\0", 3, &m), 3);
	CHECK_INT(m, SOCKS_NO_LOGIN);
	CHECK_INT(socks_greeting("\5\2\2\0next", 8, &m), 4);
	CHECK_INT(m, SOCKS_NO_LOGIN);
	CHECK_INT(socks_greeting("\5\1\2", 3, &m), 3);
	CHECK_INT(m, SOCKS_LOGIN);
	CHECK_INT(socks_greeting("\5\1\1", 3, &m), 3);
	CHECK_INT(m, SOCKS_NO_METHOD);
	CHECK_INT(socks_greeting("\5\3\1\1", 4, &m), 0);
	CHECK_INT(socks_greeting("\5", 1, &m), 0);
	CHECK_INT(socks_greeting("\4\1", 2, &m), -EPROTO);
	CHECK_INT(socks_greeting("\5\0", 2, &m), -EPROTO);
}

static void a_login_is_skipped_over(void)
{
	CHECK_INT(socks_login("\1\4user\4passrest", 15), 11);
	CHECK_INT(socks_login("\1\0\0", 3), 3);
	for (size_t n = 0; n < 11; n++)
		CHECK_INT(socks_login("\1\4user\4pass", n), 0);
	CHECK_INT(socks_login("\5\1", 2), -EPROTO);
}

static void a_request_names_its_target(void)
{
	struct socks_request r;
	char text[ADDRESS_TEXT_MAX];

	CHECK_INT(socks_request("\5\1\0\3\x08PyPI.orG\1\xbb", 15, &r), 15);
	CHECK_STR(r.name, "pypi.org");
	CHECK_INT(r.port, 443);
	CHECK_INT(r.code, SOCKS_OK);
	CHECK_INT(socks_request("\5\1\0\1\1\2\3\4\0\x50", 10, &r), 10);
	CHECK_STR(r.name, "");
	address_format(&r.addr, text);
	CHECK_STR(text, "1.2.3.4");
	/* An address as text, and one inside another. */
	CHECK_INT(socks_request("\5\1\0\3\7"
				"1.2.3.4\0\x50",
			  14, &r),
		14);
	CHECK_STR(r.name, "");
	CHECK_INT(r.addr.family, 4);
	CHECK_INT(
		socks_request("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1\0\x50", 22, &r), 22);
	address_format(&r.addr, text);
	CHECK_STR(text, "10.0.0.1");
}

static void a_request_that_is_none_is_refused(void)
{
	struct socks_request r;

	for (size_t n = 0; n < 15; n++)
		CHECK_INT(socks_request("\5\1\0\3\x08pypi.org\1\xbb", n, &r), 0);
	CHECK_INT(socks_request("\5\2\0\1\1\2\3\4\0\x50", 10, &r), 10); /* BIND */
	CHECK_INT(r.code, SOCKS_BAD_COMMAND);
	CHECK_INT(socks_request("\5\1\0\1\1\2\3\4\0\0", 10, &r), 10); /* port 0 */
	CHECK_INT(r.code, SOCKS_BAD_ADDRESS);
	CHECK_INT(socks_request("\5\1\0\3\3a b\0\x50", 10, &r), 10);
	CHECK_INT(r.code, SOCKS_BAD_ADDRESS);
	CHECK_STR(r.name, "");
	CHECK_INT(socks_request("\5\1\0\3\4"
				"0x7f\0\x50",
			  11, &r),
		11);
	CHECK_INT(r.code, SOCKS_BAD_ADDRESS);
	CHECK_INT(socks_request("\5\1\0\3\0\0\x50", 7, &r), 7);
	CHECK_INT(r.code, SOCKS_BAD_ADDRESS);
	CHECK_INT(socks_request("\5\1\1\1\1", 5, &r), -EPROTO);
	CHECK_INT(socks_request("\5\1\0\2\1", 5, &r), -EPROTO);
	CHECK_INT(socks_request("\4\1", 2, &r), -EPROTO);
}

int main(void)
{
	RUN(a_method_is_chosen);
	RUN(a_login_is_skipped_over);
	RUN(a_request_names_its_target);
	RUN(a_request_that_is_none_is_refused);
	return tap_done();
}
