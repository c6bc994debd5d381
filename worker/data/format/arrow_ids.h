/* The keys of the ids of a column, for many cells, or elements of lists, at once. They are those
 * which the texts of arrow_reader.h have; a text of a dictionary is hashed once for all batches
 * that have this dictionary. */
#ifndef WEIR_ARROW_IDS_H
#define WEIR_ARROW_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/arrow_column.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/table_layout.h"

#define ARROW_IDS_MAX 512u /* cells of a call */

/* The elements of a dictionary. */
struct arrow_dictionary {
	struct arrow_id *ids; /* (count) */
	int64_t count, capacity;
	/* Which one it is: where its elements are. */
	const void *values;
	const char *text;
	const uint8_t *valid;
	int64_t offset;
	enum arrow_type type;
};

struct arrow_ids {
	const struct parser *parser;
	const struct table_feature *field; /* NULL: groups, whose key is the hash of the text */
	uint64_t empty;                    /* the key of an empty cell */
	struct arrow_dictionary dictionary;
};

/* field NULL: groups. empty: the text of an empty cell; a word must be readable at it. */
void arrow_ids_init(struct arrow_ids *ids, const struct parser *p, const struct table_feature *field, const char *empty);
/* Begins a batch of `rows` rows, in which the ids are in column c, or in the lists of it. If its
 * dictionary is where that of the batch before is, it is the same: that batch must not be released
 * yet. */
weir_status arrow_ids_begin(struct arrow_ids *ids, const struct arrow_column *c, int64_t rows, weir_error *err) WEIR_MUST_CHECK;
/* Writes the keys of elements at[0 .. n) of column c; key j to out[j * stride]. Sets odd[j] if
 * arrow_reader_cell refuses element j. */
void arrow_ids_get(struct arrow_ids *ids, const struct arrow_column *c, const int64_t *at, uint32_t n, uint64_t *out,
                   size_t stride, bool *odd);
/* Whether elements [begin, end) of a list's values make a cell that arrow_reader_cell takes. */
bool arrow_ids_are_good(struct arrow_ids *ids, const struct arrow_column *c, int64_t begin, int64_t end);
/* Whether an element has no text. */
bool arrow_ids_is_empty(const struct arrow_column *c, int64_t i);
void arrow_ids_destroy(struct arrow_ids *ids);

#endif
