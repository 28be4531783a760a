/* SPDX-License-Identifier: Apache-2.0 */

/*
 * base/sha256: the published vectors, and that pieces make the same digest as the whole.
 */
#include "base/sha256.h"

#include "tap.h"

static void published_vectors_come_out(void)
{
	static const struct {
		const char *text, *digest;
	} vectors[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
			"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char hex[SHA256_HEX];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		sha256_hex(vectors[i].text, strlen(vectors[i].text), hex);
		CHECK_STR(hex, vectors[i].digest);
	}
}

static void a_million_letters_come_out(void)
{
	static const unsigned char want[] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92, 0x81,
		0xa1, 0xc7, 0xe2, 0x84, 0xd7, 0x3e, 0x67, 0xf1, 0x80, 0x9a, 0x48, 0xa4, 0x97, 0x20,
		0x0e, 0x04, 0x6d, 0x39, 0xcc, 0xc7, 0x11, 0x2c, 0xd0};
	unsigned char got[SHA256_SIZE];
	char piece[1000];
	struct sha256 s;

	memset(piece, 'a', sizeof(piece));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, piece, sizeof(piece));
	sha256_end(&s, got);
	CHECK(memcmp(got, want, sizeof(want)) == 0);
}

static void pieces_make_the_digest_of_the_whole(void)
{
	unsigned char text[200], whole[SHA256_SIZE], parts[SHA256_SIZE];
	struct sha256 s;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)(i * 7);
	for (size_t n = 0; n <= sizeof(text); n++) {
		sha256_init(&s);
		sha256_add(&s, text, n);
		sha256_end(&s, whole);
		sha256_init(&s);
		for (size_t at = 0; at < n; at += 13)
			sha256_add(&s, text + at, n - at < 13 ? n - at : 13);
		sha256_end(&s, parts);
		CHECK(memcmp(whole, parts, sizeof(whole)) == 0);
	}
}

int main(void)
{
	RUN(published_vectors_come_out);
	RUN(a_million_letters_come_out);
	RUN(pieces_make_the_digest_of_the_whole);
	return tap_done();
}
