/* What does not change about a table: its description and its optimizer. The partitions of a
 * server share one, so that a table costs a server what its rows take, however many partitions
 * it has. Immutable once made, and counted: any thread. */
#ifndef WEIR_TABLE_DESCRIPTOR_H
#define WEIR_TABLE_DESCRIPTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/limits.h"
#include "kernels/optimizer.h"
#include "weir/table.h"

struct table_descriptor {
	weir_table_spec spec; /* with segments of its own */
	struct optimizer *optimizer;
	_Atomic uint32_t references;
};

/* The newest of each id, for those that come. */
struct table_descriptors {
	pthread_mutex_t lock;
	struct table_descriptor *of[WEIR_TABLES_MAX + 1];
};
void table_descriptors_init(struct table_descriptors *all);
void table_descriptors_destroy(struct table_descriptors *all);

/* One of this spec, to be released: the one that `all` has where they are equal. all may be
 * NULL: one of its own. E_MEMORY; E_INVALID: such an optimizer cannot be. */
weir_status table_descriptor_get(struct table_descriptors *all, uint32_t id, const weir_table_spec *spec,
                                 const struct table_descriptor **out, weir_error *err) WEIR_MUST_CHECK;
void table_descriptor_release(const struct table_descriptor *d); /* NULL is allowed */

#endif
