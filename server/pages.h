/* Memory for rows: large anonymous mappings on huge pages. */
#ifndef WEIR_PAGES_H
#define WEIR_PAGES_H

#include <stddef.h>

#define PAGES_HUGE_BYTES (2u << 20)

/* Zeroed memory of at least `bytes`, aligned to a huge page, committed as it is touched. The first plain_bytes keep ordinary pages, so
 * that a small table does not cost a huge page. NULL when out of memory. */
void *pages_map(size_t bytes, size_t plain_bytes);
void pages_unmap(void *base, size_t bytes); /* NULL is allowed */

#endif
