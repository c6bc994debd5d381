/* The rows of a batch of the Arrow C data interface (arrow_abi.h), whose columns have the names of
 * a layout.
 *
 * A cell's text is that which the same value has in CSV: an integer in decimal, true or false, a
 * text as it is, a null as an empty cell. So the keys are the same. A list, of texts or integers,
 * is a bag. Columns of kind numeric and weight take any number; kind time takes timestamps and
 * dates, too.
 *
 * Batches come from files and from other programs, so everything that the interface tells is
 * checked: types, lengths, offsets, indexes of dictionaries, UTF-8. What it does not tell, the
 * sizes of buffers, is taken as the specification has it. */
#ifndef WEIR_ARROW_READER_H
#define WEIR_ARROW_READER_H

#include "weir/status.h"
#include "worker/data/format/arrow_abi.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/format/table_layout.h"

struct arrow_column; /* arrow_column.h */

struct arrow_reader {
	const struct table_layout *layout;
	struct arrow_column *columns; /* (layout->columns) */
	int64_t first, row, end;      /* of the batch; row: the next one */
	char *scratch;                /* the text of a cell */
	size_t scratch_used, scratch_capacity;
};

/* Binds a batch: a struct array, and its schema. Both must outlive it. Columns of kind ignore
 * may be missing. E_INVALID, E_UNSUPPORTED: the message has the column, its type and the
 * expected ones. */
weir_status arrow_reader_begin(struct arrow_reader *r, const struct table_layout *layout, const struct ArrowSchema *schema,
                               const struct ArrowArray *batch, weir_error *err) WEIR_MUST_CHECK;
/* The types that a column of this kind expects, if the column is not of one of them; else NULL. */
const char *arrow_reader_expects(enum column_kind kind, const struct arrow_column *c);
bool arrow_reader_next(struct arrow_reader *r);
/* Moves to row i of the batch, from 0. */
void arrow_reader_seek(struct arrow_reader *r, int64_t i);
/* A cell of the current row, valid until the next call. Returns NULL, or what is wrong with it. */
const char *arrow_reader_cell(struct arrow_reader *r, uint32_t i, struct cell *out);
/* The row as a text: its cells except those to ignore, each with a zero byte behind it. It decides
 * about the part of a split by crc32. Valid until the next call. */
struct cell arrow_reader_text(struct arrow_reader *r);
void arrow_reader_destroy(struct arrow_reader *r);

#endif
