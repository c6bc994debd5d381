#include "tests/unit/worker/model/grouped_input.h"

#include <assert.h>

static void *room(struct backend *b, size_t bytes)
{
	void *p = b->ops->host_alloc(b, bytes + 1);
	assert(p);
	return p;
}

void grouped_input_make(struct grouped_input *g, struct backend *b, const struct model *m, struct model_input *in)
{
	const struct field_groups *groups = model_field_groups(m);
	const uint32_t fields = groups->fields[0] + groups->fields[1] + groups->fields[2] + groups->fields[3];
	if (groups->count == 1)
		return;
	*g = (struct grouped_input){.keys = room(b, in->uses * sizeof *g->keys),
	                            .distinct = room(b, in->uses * sizeof *g->distinct),
	                            .index = room(b, in->uses * sizeof *g->index),
	                            .group_index = room(b, in->uses * sizeof *g->group_index)};
	g->bags = (struct grouped_bags){.offsets = room(b, (in->rows * fields + groups->count) * sizeof *g->bags.offsets),
	                                .keys = room(b, in->uses * sizeof *g->keys),
	                                .values = room(b, in->uses * sizeof *g->bags.values)};
	for (size_t u = 0; u < in->uses; u++)
		g->keys[u] = in->index[u];
	const struct field_bags from = {
	    .rows = in->rows, .fields = fields, .offsets = in->offsets, .keys = g->keys, .values = in->values};
	field_groups_sort(groups, &from, &g->bags);
	for (size_t i = 0, at = 0; i < groups->count; at += g->bags.uses[i++]) {
		in->group_uses[i] = g->bags.uses[i];
		in->group_begin[i + 1] =
		    in->group_begin[i] + b->ops->unique(b, g->bags.keys + at, g->bags.uses[i], g->distinct, g->group_index + at);
	}
	field_groups_index(groups, &from, &g->bags, g->group_index, in->group_begin, g->index);
	in->unique = in->group_begin[groups->count];
	in->index = g->index;
	in->group_offsets = g->bags.offsets;
	in->group_index = g->group_index;
	in->group_values = in->values ? g->bags.values : NULL;
}

void grouped_input_destroy(struct grouped_input *g, struct backend *b)
{
	void *const parts[] = {g->bags.offsets, g->bags.keys, g->bags.values, g->keys, g->distinct, g->index, g->group_index};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i])
			b->ops->host_free(b, parts[i]);
}
