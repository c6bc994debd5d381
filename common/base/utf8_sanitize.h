/* Sanitizing text from other people, as UTF-8 (RFC 3629). */
#ifndef WEIR_UTF8_SANITIZE_H
#define WEIR_UTF8_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character at `at`. 0: no valid character (overlong forms, surrogates and code
 * points beyond U+10FFFF included). */
size_t utf8_character(const unsigned char *at);
/* Whether text[0 .. n) is whole characters. Three readable bytes must follow. */
bool utf8_is_valid(const char *text, size_t n);
/* Copies a text so that it is safe to show, also on a terminal. Replaces invalid bytes and control
 * characters by '?'. The copy ends with a whole character and a NUL. */
void utf8_sanitize(char *out, size_t bytes, const char *from);

#endif
