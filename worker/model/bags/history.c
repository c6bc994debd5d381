#include "worker/model/bags/history.h"

/* The uses of a row's bag are between bag[0] and bag[1]. */
static const uint32_t *bag_of(const struct history_bags *bags, uint32_t row, uint32_t field)
{
	return &bags->offsets[(size_t)row * bags->fields + field];
}

size_t histories_measure(const struct history_bags *bags, const struct job_history *of, uint32_t count, uint32_t *uses)
{
	size_t words = 0;
	for (uint32_t i = 0; i < count; i++) {
		uses[i] = 0;
		for (uint32_t r = 0; r < bags->rows; r++) {
			const uint32_t *bag = bag_of(bags, r, of[i].field);
			uses[i] += bag[1] - bag[0];
		}
		words += history_words(bags->rows, uses[i]);
	}
	return words;
}

static void write_one(const struct history_bags *bags, struct job_history of, uint32_t uses, uint32_t *words)
{
	uint32_t *offsets = words, *index = words + bags->rows + 1, *row = index + uses, *target = row + uses, n = 0;
	for (uint32_t r = 0; r < bags->rows; r++) {
		const uint32_t *bag = bag_of(bags, r, of.field);
		offsets[r] = n;
		for (uint32_t k = bag[0]; k < bag[1]; k++, n++) {
			index[n] = bags->index[k];
			row[n] = r;
			target[n] = r * bags->fields + of.target;
		}
	}
	offsets[bags->rows] = n;
}

void histories_write(const struct history_bags *bags, const struct job_history *of, uint32_t count, const uint32_t *uses,
                     uint32_t *words)
{
	for (uint32_t i = 0; i < count; i++) {
		write_one(bags, of[i], uses[i], words);
		words += history_words(bags->rows, uses[i]);
	}
}
