/* Texts of Arrow's view layout, as polars and DuckDB write them: an element is its length and
 * either its bytes, or a prefix, a buffer and an offset. */
#ifndef WEIR_ARROW_VIEWS_H
#define WEIR_ARROW_VIEWS_H

#include "worker/data/format/arrow_column.h"

/* Copies the texts of c, whose length and offset are known, into c->owned, as ARROW_TEXT_LARGE.
 * Of a text longer than WEIR_CELL_BYTES_MAX it copies a byte more than that, so that it is too
 * long there, too. E_INVALID: the array is not as the interface has it; E_MEMORY. */
weir_status arrow_views_copy(struct arrow_column *c, const char *column, const struct ArrowArray *a,
                             weir_error *err) WEIR_MUST_CHECK;

#endif
