#include "worker/model/bags/field_groups.h"

static uint8_t group_of(const struct field_groups *g, uint32_t dim)
{
	uint8_t group = 0;
	while (group + 1u < g->count && g->dim[group] != dim)
		group++;
	return group;
}

void field_groups_find(struct field_groups *g, const struct job *job, uint32_t fields)
{
	*g = (struct field_groups){.count = 1, .fields = {fields}};
	if (!model_kind_has(job->model.kind, PART_EMBEDDING))
		return;
	const uint32_t dims = job_dims(job, g->dim);
	g->count = dims < WEIR_DIMS_MAX ? dims : WEIR_DIMS_MAX;
	for (uint32_t i = 0, f = 0; g->count > 1 && i < job->data.columns_count && f < fields; i++) {
		const struct job_column *c = &job->data.columns[i];
		if (!job_column_is_field(c))
			continue;
		g->of[f] = group_of(g, job_column_dim(job, c));
		g->fields[0]--;
		g->fields[g->of[f++]]++;
	}
}

uint32_t field_groups_columns(const struct field_groups *g)
{
	uint32_t columns = 0;
	for (uint32_t i = 0; i < g->count; i++)
		columns += g->fields[i] * g->dim[i];
	return columns;
}

/* Where each group's uses begin. */
static void find_begins(const struct field_groups *g, const size_t *uses, size_t begins[WEIR_DIMS_MAX])
{
	size_t at = 0;
	for (uint32_t i = 0; i < g->count; i++) {
		begins[i] = at;
		at += uses[i];
	}
}

static void count_uses(const struct field_groups *g, const struct field_bags *from, size_t uses[WEIR_DIMS_MAX])
{
	const uint32_t *offset = from->offsets;
	for (uint32_t i = 0; i < g->count; i++)
		uses[i] = 0;
	for (uint32_t r = 0; r < from->rows; r++)
		for (uint32_t f = 0; f < from->fields; f++, offset++)
			uses[g->of[f]] += offset[1] - offset[0];
}

void field_groups_sort(const struct field_groups *g, const struct field_bags *from, struct grouped_bags *to)
{
	const uint32_t *offset = from->offsets;
	size_t begins[WEIR_DIMS_MAX], used[WEIR_DIMS_MAX] = {0};
	uint32_t *offsets[WEIR_DIMS_MAX];
	count_uses(g, from, to->uses);
	find_begins(g, to->uses, begins);
	offsets[0] = to->offsets;
	for (uint32_t i = 1; i < g->count; i++)
		offsets[i] = offsets[i - 1] + (size_t)from->rows * g->fields[i - 1] + 1;
	for (uint32_t r = 0; r < from->rows; r++)
		for (uint32_t f = 0; f < from->fields; f++, offset++) {
			const uint32_t group = g->of[f];
			*offsets[group]++ = (uint32_t)used[group];
			for (uint32_t u = offset[0]; u < offset[1]; u++) {
				const size_t at = begins[group] + used[group]++;
				to->keys[at] = from->keys[u];
				if (from->values)
					to->values[at] = from->values[u];
			}
		}
	for (uint32_t i = 0; i < g->count; i++)
		*offsets[i] = (uint32_t)used[i];
}

void field_groups_index(const struct field_groups *g, const struct field_bags *bags, const struct grouped_bags *sorted,
                        const uint32_t *grouped, const size_t *begin, uint32_t *index)
{
	const uint32_t *offset = bags->offsets;
	size_t at[WEIR_DIMS_MAX];
	find_begins(g, sorted->uses, at);
	for (uint32_t r = 0; r < bags->rows; r++)
		for (uint32_t f = 0; f < bags->fields; f++, offset++) {
			const uint32_t group = g->of[f];
			for (uint32_t u = offset[0]; u < offset[1]; u++)
				index[u] = (uint32_t)begin[group] + grouped[at[group]++];
		}
}
