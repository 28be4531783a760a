/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/address: what is an address at all, and which are never dialled unasked.
 */
#include "core/address.h"

#include "tap.h"

static struct address parsed(const char *s)
{
	struct address a = {0};

	if (!CHECK(address_parse(s, strlen(s), &a)))
		tap_print("# '%s' is not read\n", s);
	return a;
}

static struct address_net net(const char *s)
{
	struct address_net n = {0};

	if (!CHECK(address_net_parse(s, strlen(s), &n)))
		tap_print("# '%s' is not read\n", s);
	return n;
}

static void each_address_has_its_kind(void)
{
	static const struct {
		const char *text;
		enum address_kind kind;
	} table[] = {
		{"93.184.216.34", ADDRESS_PUBLIC},
		{"1.1.1.1", ADDRESS_PUBLIC},
		{"0.0.0.0", ADDRESS_UNSPECIFIED},
		{"0.1.2.3", ADDRESS_UNSPECIFIED},
		{"10.0.0.1", ADDRESS_PRIVATE},
		{"100.64.0.1", ADDRESS_PRIVATE},
		{"100.127.255.255", ADDRESS_PRIVATE},
		{"100.128.0.1", ADDRESS_PUBLIC},
		{"100.100.100.200", ADDRESS_METADATA},
		{"127.0.0.1", ADDRESS_LOOPBACK},
		{"127.255.255.255", ADDRESS_LOOPBACK},
		{"168.63.129.16", ADDRESS_METADATA},
		{"168.63.129.17", ADDRESS_PUBLIC},
		{"169.254.0.1", ADDRESS_LINK_LOCAL},
		{"169.254.169.254", ADDRESS_METADATA},
		{"169.254.170.2", ADDRESS_METADATA},
		{"172.15.255.255", ADDRESS_PUBLIC},
		{"172.16.0.1", ADDRESS_PRIVATE},
		{"172.31.255.255", ADDRESS_PRIVATE},
		{"172.32.0.0", ADDRESS_PUBLIC},
		{"192.0.0.1", ADDRESS_RESERVED},
		{"192.0.2.1", ADDRESS_RESERVED},
		{"192.168.255.255", ADDRESS_PRIVATE},
		{"198.18.0.1", ADDRESS_RESERVED},
		{"198.19.255.255", ADDRESS_RESERVED},
		{"198.20.0.0", ADDRESS_PUBLIC},
		{"203.0.113.9", ADDRESS_RESERVED},
		{"224.0.0.1", ADDRESS_MULTICAST},
		{"239.255.255.255", ADDRESS_MULTICAST},
		{"240.0.0.1", ADDRESS_RESERVED},
		{"255.255.255.255", ADDRESS_RESERVED},
		{"2606:4700::1111", ADDRESS_PUBLIC},
		{"2001:4860:4860::8888", ADDRESS_PUBLIC},
		{"::", ADDRESS_UNSPECIFIED},
		{"::1", ADDRESS_LOOPBACK},
		{"::ffff:10.0.0.1", ADDRESS_PRIVATE},
		{"::ffff:a00:1", ADDRESS_PRIVATE},
		{"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
		{"::ffff:8.8.8.8", ADDRESS_PUBLIC},
		{"::ffff:0:10.0.0.1", ADDRESS_TUNNEL},
		{"::10.0.0.1", ADDRESS_TUNNEL},
		{"::8.8.8.8", ADDRESS_TUNNEL},
		{"64:ff9b::a00:1", ADDRESS_TUNNEL},
		{"64:ff9b::169.254.169.254", ADDRESS_TUNNEL},
		{"64:ff9b::8.8.8.8", ADDRESS_PUBLIC},
		{"64:ff9b:1::8.8.8.8", ADDRESS_TUNNEL},
		{"2002:a00:1::1", ADDRESS_TUNNEL},
		{"2002:7f00:1::", ADDRESS_TUNNEL},
		{"2002:808:808::1", ADDRESS_PUBLIC},
		{"2001:0:a00:1::", ADDRESS_TUNNEL},
		{"2001:0:808:808::f5ff:fffe", ADDRESS_TUNNEL}, /* client 10.0.0.1 */
		{"2001:0:808:808::f7f7:f7f7", ADDRESS_PUBLIC}, /* client 8.8.8.8 */
		{"2001:db8::1", ADDRESS_RESERVED},
		{"2001:2::1", ADDRESS_RESERVED},
		{"3fff::1", ADDRESS_RESERVED},
		{"100::1", ADDRESS_RESERVED},
		{"fc00::1", ADDRESS_PRIVATE},
		{"fdba:3a11:ed00::1", ADDRESS_PRIVATE},
		{"fd00:ec2::254", ADDRESS_METADATA},
		{"fe80::1", ADDRESS_LINK_LOCAL},
		{"fec0::1", ADDRESS_PRIVATE},
		{"ff02::1", ADDRESS_MULTICAST},
		{"4000::1", ADDRESS_RESERVED},
		{"1::1", ADDRESS_RESERVED},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct address a = parsed(table[i].text);

		if (!CHECK_INT(address_kind(&a), table[i].kind))
			tap_print("# %s\n", table[i].text);
	}
}

static void other_ways_to_write_an_address_are_refused(void)
{
	static const char *const texts[] = {"", "2130706433", "0x7f000001", "0177.0.0.1", "127.1",
		"127.0.1", "010.0.0.1", "10.0.0.01", "256.1.1.1", "1.2.3.4.5", "1.2.3.4 ",
		" 1.2.3.4", "fe80::1%lo", "[::1]", "::1::", "1:2:3", "::ffff:0x7f.1",
		"12345::", "1.2.3.4/32"};
	struct address a = {.family = 9};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!CHECK(!address_parse(texts[i], strlen(texts[i]), &a)))
			tap_print("# '%s' was taken\n", texts[i]);
	}
	CHECK(!address_parse("1.2.3.4\0", 8, &a));
	CHECK_INT(a.family, 9); /* written on success only */
}

static void a_mapped_address_is_the_one_it_holds(void)
{
	struct address a = parsed("::ffff:192.0.2.7"), b = parsed("192.0.2.7");
	char text[ADDRESS_TEXT_MAX];

	CHECK(address_equal(&a, &b));
	address_format(&a, text);
	CHECK_STR(text, "192.0.2.7");
	a = parsed("2001:DB8:0:0::1");
	address_format(&a, text);
	CHECK_STR(text, "2001:db8::1");
	CHECK(!address_equal(&a, &b));
}

static void socket_addresses_go_both_ways(void)
{
	static const char *const texts[] = {"10.1.2.3", "2606:4700::1"};
	struct sockaddr_storage ss;

	for (size_t i = 0; i < 2; i++) {
		struct address a = parsed(texts[i]), b = {0};
		uint16_t port = 0;

		CHECK(address_to_sockaddr(&a, 979, &ss) > 0);
		CHECK(address_from_sockaddr(&ss, &b, &port));
		CHECK(address_equal(&a, &b) && port == 979);
	}
	ss.ss_family = AF_UNIX;
	CHECK(!address_from_sockaddr(&ss, &(struct address){0}, &(uint16_t){0}));
}

static void networks_are_read_strictly(void)
{
	static const char *const bad[] = {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08",
		"10.0.0.0/-1", "10/8", "/8", "fd00::1/8", "::/129", "::ffff:0:0/95", "*",
		"10.0.0.0/8 "};
	struct address_net n;
	struct address a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!CHECK(!address_net_parse(bad[i], strlen(bad[i]), &n)))
			tap_print("# '%s' was taken\n", bad[i]);
	}
	n = net("10.0.0.0/8");
	a = parsed("10.255.0.1");
	CHECK(address_in(&a, &n));
	a = parsed("11.0.0.0");
	CHECK(!address_in(&a, &n));
	n = net("::ffff:10.0.0.0/104");
	CHECK_INT(n.bits, 8);
	n = net("100.64.0.0/10");
	a = parsed("100.127.0.1");
	CHECK(address_in(&a, &n));
	a = parsed("100.128.0.1");
	CHECK(!address_in(&a, &n));
	n = net("::/0");
	CHECK(!address_in(&a, &n)); /* IPv4 is not below it */
	n = net("192.0.2.1");
	CHECK_INT(n.bits, 32);
}

/* "Everything" must not be a way to say "and the metadata service". */
static void only_a_net_of_its_own_kind_names_an_address(void)
{
	static const struct {
		const char *net, *address;
		bool names;
	} table[] = {
		{"0.0.0.0/0", "8.8.8.8", true},
		{"0.0.0.0/0", "10.0.0.1", false},
		{"0.0.0.0/0", "127.0.0.1", false},
		{"8.0.0.0/5", "10.0.0.1", false},
		{"10.0.0.0/8", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"169.254.0.0/16", "169.254.1.1", true},
		{"169.254.0.0/16", "169.254.169.254", false},
		{"169.254.169.254", "169.254.169.254", true},
		{"100.64.0.0/10", "100.100.100.200", false},
		{"168.0.0.0/8", "168.63.129.16", false},
		{"127.0.0.0/8", "127.0.0.1", true},
		{"::/0", "2606:4700::1", true},
		{"::/0", "::1", false},
		{"::/0", "fd00::1", false},
		{"::/0", "4000::1", false},
		{"fd00::/8", "fd00::1", true},
		{"fd00::/8", "fd00:ec2::254", false},
		{"64:ff9b::/96", "64:ff9b::a00:1", false},
		{"64:ff9b::a00:1", "64:ff9b::a00:1", true},
		{"64:ff9b::/96", "64:ff9b::808:808", true},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct address_net n = net(table[i].net);
		struct address a = parsed(table[i].address);

		if (!CHECK(address_net_names(&n, &a) == table[i].names))
			tap_print("# %s in %s\n", table[i].address, table[i].net);
	}
}

int main(void)
{
	RUN(each_address_has_its_kind);
	RUN(other_ways_to_write_an_address_are_refused);
	RUN(a_mapped_address_is_the_one_it_holds);
	RUN(socket_addresses_go_both_ways);
	RUN(networks_are_read_strictly);
	RUN(only_a_net_of_its_own_kind_names_an_address);
	return tap_done();
}
