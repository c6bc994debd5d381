/* Finds out which labels the data have. See dataset.h. */
#include <stdio.h>

#include "worker/data/dataset_internal.h"

_Static_assert(WEIR_TASKS_MAX <= 64, "a task has a bit");

static void see_batch(struct dataset_labels *l, const struct batch *b)
{
	for (uint32_t r = 0; r < b->rows; r++) {
		if (b->weights && b->weights[r] == 0)
			continue;
		const float *labels = b->labels + (size_t)r * b->tasks;
		for (uint32_t t = 0; t < b->tasks; t++) {
			l->positive |= (uint64_t)(labels[t] > 0.5f) << t;
			l->negative |= (uint64_t)(labels[t] <= 0.5f) << t;
		}
	}
	l->rows += b->rows;
}

/* Whether both labels of all tasks were seen. */
static bool enough(const struct dataset *d, const struct dataset_labels *l)
{
	return ((l->positive & l->negative) == UINT64_MAX >> (64 - d->info.tasks)) || l->rows >= DATASET_LABEL_ROWS;
}

static weir_status fail_empty(const struct dataset *d, uint64_t bad_lines, weir_error *err)
{
	char bad[64] = "";
	if (bad_lines > 0)
		snprintf(bad, sizeof bad, ": %llu bad line%s; is data.format right?", (unsigned long long)bad_lines,
		         bad_lines == 1 ? "" : "s");
	return weir_fail(err, WEIR_E_INVALID, "data.%s: there is no row in %s%s%s", dataset_part_names[d->part],
	                 d->sources.items[0].path, d->sources.count > 1 ? " and the other files" : "", bad);
}

weir_status dataset_see_labels(struct dataset *d, struct dataset_labels *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	struct batch batch = {0};
	*out = (struct dataset_labels){.bad_lines = d->info.bad_lines};
	for (uint32_t i = 0; i < d->info.units && !enough(d, out) && status == WEIR_OK; i++) {
		struct unit_reader *u;
		status = unit_open(&u, d, i, 0, err);
		if (status != WEIR_OK)
			break;
		out->bad_lines += unit_bad_lines(u);
		for (uint32_t k = 0; k < unit_batches(u) && !enough(d, out) && status == WEIR_OK; k++) {
			status = unit_read(u, k, &batch, err);
			if (status == WEIR_OK)
				see_batch(out, &batch);
		}
		unit_close(u);
	}
	batch_destroy(&batch);
	return status == WEIR_OK && out->rows == 0 ? fail_empty(d, out->bad_lines, err) : status;
}
