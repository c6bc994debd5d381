/* The groups of fields of a batch that a test has made up: its index becomes the keys. */
#ifndef WEIR_TEST_GROUPED_INPUT_H
#define WEIR_TEST_GROUPED_INPUT_H

#include "worker/model/model.h"

struct grouped_input {
	struct grouped_bags bags;
	uint64_t *keys, *distinct;
	uint32_t *index, *group_index; /* all from host_alloc */
};

/* With several groups each gets rows of its own; in->index and in->unique change. */
void grouped_input_make(struct grouped_input *g, struct backend *b, const struct model *m, struct model_input *in);
void grouped_input_destroy(struct grouped_input *g, struct backend *b);

#endif
