#include "common/base/utf8_sanitize.h"

#include <stdint.h>
#include <string.h>

size_t utf8_character(const unsigned char *at)
{
	if (at[0] < 0x80)
		return 1;
	size_t n = at[0] >= 0xc2 && at[0] <= 0xdf ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4 : 0;
	for (size_t i = 1; i < n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return n;
}

bool utf8_is_valid(const char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint64_t word;
		if (n - i >= sizeof word && (memcpy(&word, text + i, sizeof word), (word & 0x8080808080808080u) == 0)) {
			i += sizeof word;
			continue;
		}
		const size_t bytes = utf8_character((const unsigned char *)text + i);
		if (bytes == 0 || bytes > n - i)
			return false;
		i += bytes;
	}
	return true;
}

/* Control characters of C0 and of C1; some terminals also obey C1. */
static bool is_control(const unsigned char *at)
{
	return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

void utf8_sanitize(char *out, size_t bytes, const char *from)
{
	const unsigned char *at = (const unsigned char *)from;
	size_t n = 0;
	while (*at) {
		const size_t length = utf8_character(at);
		const bool shown = length > 0 && !is_control(at);
		const size_t wanted = shown ? length : 1;
		if (n + wanted >= bytes)
			break;
		memcpy(out + n, shown ? (const void *)at : "?", wanted);
		n += wanted;
		at += length > 0 ? length : 1;
	}
	out[n] = '\0';
}
