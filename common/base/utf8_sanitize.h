/* Text that others chose, as UTF-8 (RFC 3629). */
#ifndef WEIR_LEGIBLE_H
#define WEIR_LEGIBLE_H

#include <stddef.h>

/* Bytes of the character that is there, 0 where there is none (also for overlong forms, surrogates and beyond U+10FFFF). */
size_t legible_character(const unsigned char *at);
/* Copies what may be shown, on a terminal, too: '?' stands for what is no character, and for what controls one. It ends with a whole character and a NUL. */
void legible_copy(char *out, size_t bytes, const char *from);

#endif
