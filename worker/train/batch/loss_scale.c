#include "worker/train/batch/loss_scale.h"

static void change(struct loss_scale *s, float value)
{
	s->value = value;
	s->clean = 0;
}

bool loss_scale_note(struct loss_scale *s, float used, bool finite)
{
	if (finite) {
		if (++s->clean == LOSS_SCALE_GROWS_WITH)
			change(s, s->value < LOSS_SCALE_MOST ? 2 * s->value : s->value);
		return false;
	}
	const bool smaller = used > LOSS_SCALE_LEAST;
	if (smaller && used == s->value) /* of several such batches under way, the first halves it */
		change(s, used / 2);
	s->clean = 0;
	return smaller;
}
