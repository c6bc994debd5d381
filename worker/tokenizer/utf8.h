/* UTF-8 by RFC 3629: shortest forms, no surrogates, nothing above U+10FFFF. */
#ifndef WEIR_UTF8_H
#define WEIR_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/tokenizer/buffer.h"

#define UTF8_CHARACTER_MAX     4u             /* bytes of a character */
#define UTF8_REPLACEMENT       "\xef\xbf\xbd" /* U+FFFD */
#define UTF8_REPLACEMENT_BYTES 3u

/* The number of bytes from the start that are whole characters: `bytes` if all are. */
size_t utf8_valid(const char *text, size_t bytes);
/* The length of the invalid sequence at which utf8_valid stopped: the bytes that one U+FFFD
 * replaces, as the Unicode standard recommends (3.9, "maximal subpart"). `bytes` > 0. */
size_t utf8_invalid(const char *text, size_t bytes);
/* Whether the text, all of which utf8_invalid covers, is the beginning of a character that more
 * bytes may complete. */
bool utf8_begins(const char *text, size_t bytes);

/* Appends the text with U+FFFD for each invalid sequence. Adds their number to *replaced. False:
 * more than bytes_max, or out of memory. */
bool utf8_repair(const char *text, size_t bytes, struct buffer *out, size_t bytes_max, uint64_t *replaced);

/* For valid text only. utf8_length: the bytes of the character that begins with this one.
 * utf8_next: the character at *at; moves *at past it. */
static inline size_t utf8_length(char first)
{
	const uint8_t b = (uint8_t)first;
	return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}
uint32_t utf8_next(const char *text, size_t *at);
/* Writes a character, which is not a surrogate and at most U+10FFFF. Returns its length in
 * bytes. */
size_t utf8_put(uint32_t c, char out[UTF8_CHARACTER_MAX]);

#endif
