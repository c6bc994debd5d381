#include "server/records/table_descriptor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"

void table_descriptors_init(struct table_descriptors *all)
{
	*all = (struct table_descriptors){0};
	pthread_mutex_init(&all->lock, NULL);
}

void table_descriptors_destroy(struct table_descriptors *all)
{
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX; id++)
		table_descriptor_release(all->of[id]);
	pthread_mutex_destroy(&all->lock);
}

static weir_status create(const weir_table_spec *spec, struct table_descriptor **out, weir_error *err)
{
	const size_t bytes = spec->segments_count * sizeof *spec->segments;
	weir_init_segment *segments = malloc(bytes + 1);
	struct table_descriptor *d = malloc(sizeof *d);
	if (!segments || !d) {
		free(segments);
		free(d);
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	}
	if (bytes)
		memcpy(segments, spec->segments, bytes);
	*d = (struct table_descriptor){.spec = *spec, .references = 1};
	d->spec.segments = segments;
	weir_error why = {0};
	d->optimizer = optimizer_create(&spec->optimizer, &why);
	if (!d->optimizer || optimizer_leave_out(d->optimizer, segments, spec->segments_count, &why)) {
		table_descriptor_release(d);
		return weir_fail(err, why.status, "table %s: %s", spec->name, why.text);
	}
	*out = d;
	return WEIR_OK;
}

static struct table_descriptor *retain(struct table_descriptor *d)
{
	atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
	return d;
}

/* Needs the lock. */
static weir_status find_or_create(struct table_descriptors *all, uint32_t id, const weir_table_spec *spec,
                                  struct table_descriptor **out, weir_error *err)
{
	struct wire_table_difference first;
	if (!all->of[id] || !wire_table_equal(&all->of[id]->spec, spec, &first)) {
		struct table_descriptor *made = NULL;
		weir_status status = create(spec, &made, err);
		if (status)
			return status;
		table_descriptor_release(all->of[id]);
		all->of[id] = made;
	}
	*out = retain(all->of[id]);
	return WEIR_OK;
}

weir_status table_descriptor_get(struct table_descriptors *all, uint32_t id, const weir_table_spec *spec,
                                 const struct table_descriptor **out, weir_error *err)
{
	assert(id <= WEIR_TABLES_MAX);
	struct table_descriptor *d = NULL;
	if (all)
		pthread_mutex_lock(&all->lock);
	weir_status status = all ? find_or_create(all, id, spec, &d, err) : create(spec, &d, err);
	if (all)
		pthread_mutex_unlock(&all->lock);
	*out = d;
	return status;
}

void table_descriptor_release(const struct table_descriptor *shared)
{
	/* The reference count is not part of the constant value. */
	struct table_descriptor *d = (struct table_descriptor *)(uintptr_t)shared;
	if (!d || atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) > 1)
		return;
	optimizer_destroy(d->optimizer);
	free((void *)(uintptr_t)d->spec.segments);
	free(d);
}
