/* Numbers different texts: 0 for the first one, 1 for the next, ... */
#ifndef WEIR_TEXT_INDEX_H
#define WEIR_TEXT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_index;
struct text_index *text_index_create(void);    /* NULL when out of memory */
void text_index_destroy(struct text_index *t); /* NULL is allowed */
uint32_t text_index_count(const struct text_index *t);
/* The number of a text, which is added if it is new. False: out of memory. */
bool text_index_add(struct text_index *t, const char *text, size_t n, uint32_t *number);
/* The number of a text. False: it was not added. */
bool text_index_find(const struct text_index *t, const char *text, size_t n, uint32_t *number);
/* A text by its number, with a NUL behind it; valid until the next text is added. */
const char *text_index_text(const struct text_index *t, uint32_t number, size_t *n);

#endif
