#include "worker/data/item_counts.h"

#include <math.h>

weir_status dataset_each_batch(struct dataset *d, uint64_t rows_max, item_batch_fn take, void *arg, weir_error *err)
{
	const struct dataset_info *info = dataset_get_info(d);
	struct batch batch = {0};
	uint64_t rows = 0;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < info->units && rows < rows_max && status == WEIR_OK; i++) {
		struct unit_reader *u;
		status = unit_open(&u, d, i, 0, err);
		if (status != WEIR_OK)
			break;
		for (uint32_t k = 0; k < unit_batches(u) && rows < rows_max && status == WEIR_OK; k++) {
			status = unit_read(u, k, &batch, err);
			if (status == WEIR_OK)
				status = take(arg, &batch, err);
			rows += batch.rows;
		}
		unit_close(u);
	}
	batch_destroy(&batch);
	return status;
}

struct counting {
	struct item_index *counts;
	uint32_t field;
};

static weir_status count_batch(void *arg, const struct batch *b, weir_error *err)
{
	const struct counting *c = arg;
	uint32_t number;
	for (uint32_t r = 0; r < b->rows; r++)
		if (b->labels[(size_t)r * b->tasks] > 0.5f &&
		    !item_index_add(c->counts, b->keys[b->offsets[(size_t)r * b->fields + c->field]], &number))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory to count %u items", c->counts->count);
	return WEIR_OK;
}

weir_status item_counts_read(struct item_index *out, struct dataset *d, uint32_t field, weir_error *err)
{
	struct counting c = {out, field};
	*out = (struct item_index){0};
	return dataset_each_batch(d, ITEM_COUNTS_ROWS_MAX, count_batch, &c, err);
}

float item_counts_log_share(const struct item_index *counts, uint64_t key)
{
	uint32_t number;
	const uint64_t count = item_index_find(counts, key, &number) ? counts->counts[number] : 1;
	return (float)log((double)count / (double)(counts->added > 0 ? counts->added : 1));
}
