/* The histories of a batch that a model attends to (target_attention.h): for each use of an id in a
 * history, its embedding, its row and the row's target. One block of words holds them, so that one
 * copy takes them to a device:
 *
 *     of each history  offsets (rows + 1) | index (uses) | row (uses) | target (uses)
 */
#ifndef WEIR_HISTORY_H
#define WEIR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/job/job_columns.h"

/* Uses come in the order of rows, and of a row in the order of its history. */
struct history {
	uint32_t uses;
	const uint32_t *offsets; /* (rows + 1) into the uses */
	const uint32_t *index;   /* (uses) into the unique rows */
	const uint32_t *row;     /* (uses) */
	const uint32_t *target;  /* (uses) row * fields + field of the target */
};

static inline size_t history_words(uint32_t rows, uint32_t uses)
{
	return (size_t)rows + 1 + 3 * (size_t)uses;
}

/* The history whose words begin at `words`. */
static inline struct history history_at(const uint32_t *words, uint32_t rows, uint32_t uses)
{
	const uint32_t *index = words + rows + 1;
	return (struct history){
	    .uses = uses, .offsets = words, .index = index, .row = index + uses, .target = index + 2 * (size_t)uses};
}

/* The bags of a batch: struct model_input. */
struct history_bags {
	uint32_t rows, fields;
	const uint32_t *offsets; /* (rows * fields + 1) */
	const uint32_t *index;   /* (offsets[rows * fields]) */
};

/* Counts the uses of each of `count` histories. Returns the words of all. */
size_t histories_measure(const struct history_bags *bags, const struct job_history *of, uint32_t count, uint32_t *uses);
/* Writes those words. */
void histories_write(const struct history_bags *bags, const struct job_history *of, uint32_t count, const uint32_t *uses,
                     uint32_t *words);

#endif
