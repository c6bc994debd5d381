#include "worker/tokenizer/utf8.h"

#include <stdbool.h>
#include <string.h>

/* The length of the character at text, or 0. *subpart: how many of its bytes could begin a
 * character. */
static size_t character(const uint8_t *t, size_t bytes, size_t *subpart)
{
	const uint8_t b = t[0];
	const size_t length = b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
	/* The second byte excludes overlong forms, surrogates, and code points above U+10FFFF. */
	const uint8_t low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80, high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
	size_t n = 1;
	for (; n < length && n < bytes; n++)
		if (n == 1 ? t[n] < low || t[n] > high : (t[n] & 0xc0) != 0x80)
			break;
	*subpart = n;
	return n == length ? length : 0;
}

size_t utf8_valid(const char *text, size_t bytes)
{
	size_t at = 0, subpart;
	while (at < bytes) {
		uint64_t word;
		if (bytes - at >= sizeof word) {
			memcpy(&word, text + at, sizeof word);
			if ((word & 0x8080808080808080ull) == 0) {
				at += sizeof word;
				continue;
			}
		}
		const size_t n = character((const uint8_t *)text + at, bytes - at, &subpart);
		if (n == 0)
			break;
		at += n;
	}
	return at;
}

size_t utf8_invalid(const char *text, size_t bytes)
{
	size_t subpart;
	(void)character((const uint8_t *)text, bytes, &subpart);
	return subpart;
}

bool utf8_begins(const char *text, size_t bytes)
{
	const uint8_t b = (uint8_t)text[0];
	return b >= 0xc2 && b < 0xf5 && bytes < utf8_length(text[0]) && utf8_invalid(text, bytes) == bytes;
}

bool utf8_repair(const char *text, size_t bytes, struct buffer *out, size_t bytes_max, uint64_t *replaced)
{
	for (size_t at = 0; at < bytes;) {
		const size_t valid = utf8_valid(text + at, bytes - at);
		if (!buffer_append(out, text + at, valid, bytes_max))
			return false;
		at += valid;
		if (at == bytes)
			break;
		if (!buffer_append(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES, bytes_max))
			return false;
		at += utf8_invalid(text + at, bytes - at);
		++*replaced;
	}
	return true;
}

uint32_t utf8_next(const char *text, size_t *at)
{
	const uint8_t *t = (const uint8_t *)text + *at;
	const size_t n = utf8_length((char)t[0]);
	*at += n;
	if (n == 1)
		return t[0];
	uint32_t c = t[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (t[i] & 0x3fu);
	return c;
}

size_t utf8_put(uint32_t c, char out[UTF8_CHARACTER_MAX])
{
	const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	if (n == 1) {
		out[0] = (char)c;
		return 1;
	}
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00u >> n & 0xf0u) | c);
	return n;
}
