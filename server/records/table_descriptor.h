/* The constant part of a table: its specification and its optimizer. The partitions of a server
 * share one, so the memory for a table depends on its rows, not on the number of partitions.
 * Immutable and reference-counted; any thread may use it. */
#ifndef WEIR_TABLE_DESCRIPTOR_H
#define WEIR_TABLE_DESCRIPTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/limits.h"
#include "kernels/optimizer.h"
#include "weir/table.h"

struct table_descriptor {
	weir_table_spec spec; /* owns its segments */
	struct optimizer *optimizer;
	_Atomic uint32_t references;
};

/* The newest descriptor of each table id, for partitions that ask for one. */
struct table_descriptors {
	pthread_mutex_t lock;
	struct table_descriptor *of[WEIR_TABLES_MAX + 1];
};
void table_descriptors_init(struct table_descriptors *all);
void table_descriptors_destroy(struct table_descriptors *all);

/* Returns a descriptor of this spec; release it with table_descriptor_release. Shares the one in
 * `all` when the specs are equal; without `all` it creates one. E_MEMORY; E_INVALID: the
 * optimizer's options are invalid. */
weir_status table_descriptor_get(struct table_descriptors *all, uint32_t id, const weir_table_spec *spec,
                                 const struct table_descriptor **out, weir_error *err) WEIR_MUST_CHECK;
void table_descriptor_release(const struct table_descriptor *d); /* NULL is allowed */

#endif
