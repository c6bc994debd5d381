/* A vocabulary: byte strings with ids, found by string and by id. One block of memory holds the
 * strings one after the other. One owner; many threads may read. */
#ifndef WEIR_STRING_TABLE_H
#define WEIR_STRING_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

#define STRING_NONE UINT32_MAX

struct string_place {
	uint32_t at, bytes; /* in the block; `at` STRING_NONE: the id has no string */
};

struct string_table {
	char *block; /* (used) */
	size_t used, capacity;
	struct string_place *places; /* (ids), by id */
	uint32_t ids, ids_capacity;  /* ids: the largest one + 1 */
	uint32_t *slots;             /* (slots_count) ids by hash; STRING_NONE: an unused slot */
	uint32_t slots_count;        /* a power of two, at least twice the number of strings */
	uint32_t count;              /* number of strings */
};

/* E_INVALID: the table has the string or the id already. E_LIMIT: an id of WEIR_VOCABULARY_MAX or
 * more, or 4 GiB of strings. */
weir_status string_table_add(struct string_table *t, const char *string, size_t bytes, uint32_t id, weir_error *err);
/* STRING_NONE: not in the table. */
uint32_t string_table_find(const struct string_table *t, const char *string, size_t bytes);
/* NULL: the id has no string. */
const char *string_table_get(const struct string_table *t, uint32_t id, size_t *bytes);
void string_table_destroy(struct string_table *t);

#endif
