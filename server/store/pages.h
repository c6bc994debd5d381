/* Memory for rows: large anonymous mappings on huge pages. */
#ifndef WEIR_PAGES_H
#define WEIR_PAGES_H

#include <stddef.h>

#define PAGES_HUGE_BYTES (2u << 20)

/* Returns at least `bytes` of zeroed memory, aligned to a huge page, in ordinary pages that are
 * committed when first touched. NULL: out of memory. The kernel merges neighbouring mappings, so
 * thousands of small tables do not reach its limit (vm.max_map_count). */
void *pages_map(size_t bytes);
/* Advises huge pages, for memory that will be used as a whole. */
void pages_prefer_huge(void *base, size_t bytes);
void pages_unmap(void *base, size_t bytes); /* NULL is allowed */

#endif
