#include "worker/train/batch/batch_places.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/unit_order.h"

static uint32_t batches_of(const struct job *job, const struct dataset *d, uint32_t data_unit)
{
	const uint32_t known = dataset_unit_batches(d, data_unit);
	return known ? known : job->data.unit_batches;
}

uint64_t batch_places_pass(const struct job *job, const struct dataset *d)
{
	uint64_t batches = 0;
	for (uint32_t u = 0; u < dataset_get_info(d)->units; u++)
		batches += batches_of(job, d, u);
	return batches;
}

static weir_status count_pass(struct batch_places *p, uint32_t pass, weir_error *err)
{
	const uint32_t units = dataset_get_info(p->dataset)->units;
	if (!p->before && !(p->before = calloc(units + 1u, sizeof *p->before)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the places of %u units", units);
	for (uint32_t place = 0; place < units; place++) {
		const uint32_t data_unit = unit_order(p->job->data.shuffle, p->job->data.seed, pass, units, place);
		p->before[place + 1] = p->before[place] + batches_of(p->job, p->dataset, data_unit);
	}
	p->pass = pass;
	return WEIR_OK;
}

weir_status batch_places_find(struct batch_places *p, uint32_t pass, uint32_t place, uint32_t batch, uint64_t *out,
                              weir_error *err)
{
	const uint32_t units = dataset_get_info(p->dataset)->units;
	const weir_status status = p->before && p->pass == pass ? WEIR_OK : count_pass(p, pass, err);
	if (status != WEIR_OK)
		return status;
	assert(place < units);
	*out = pass * p->before[units] + p->before[place] + batch;
	return WEIR_OK;
}

void batch_places_destroy(struct batch_places *p)
{
	free(p->before);
	p->before = NULL;
}
