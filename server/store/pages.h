/* Memory for rows: large anonymous mappings on huge pages. */
#ifndef WEIR_PAGES_H
#define WEIR_PAGES_H

#include <stddef.h>

#define PAGES_HUGE_BYTES (2u << 20)

/* Zeroed memory of at least `bytes`, aligned to a huge page, in ordinary pages that are
 * committed as they are touched. NULL when out of memory. Neighbours are one mapping for the
 * kernel, which has a limit (vm.max_map_count): so thousands of small tables do not reach it. */
void *pages_map(size_t bytes);
/* Advises huge pages, for memory that will be used as a whole. */
void pages_prefer_huge(void *base, size_t bytes);
void pages_unmap(void *base, size_t bytes); /* NULL is allowed */

#endif
