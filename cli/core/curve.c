#include "cli/core/curve.h"

#include <stdlib.h>

uint32_t curve_complete(const struct overview *s)
{
	return s->pass + (s->state == JOB_FINISHED || (s->state == JOB_EVALUATING && s->units > 0));
}

static void append(struct curve *c, uint32_t pass, double seconds)
{
	struct curve_point *more = realloc(c->points, (c->count + 1) * sizeof *more);
	if (!more)
		return;
	c->points = more;
	c->points[c->count++] = (struct curve_point){.pass = pass, .seconds = seconds};
}

static uint64_t between(uint64_t from, uint64_t to, double share)
{
	return to > from ? from + (uint64_t)((double)(to - from) * share + 0.5) : to;
}

/* Fills in the bytes transferred by the time that `rows` were reported, which was between two
 * polls, or at the first or the second of them. */
static void tell(struct curve_point *p, const struct overview *before, const struct overview *now, uint64_t rows)
{
	double share = 1;
	if (before && now->rows > before->rows)
		share = rows > before->rows ? (double)(rows - before->rows) / (double)(now->rows - before->rows) : 0;
	if (!before || share >= 1)
		before = now;
	p->rows = between(before->rows, now->rows, share);
	p->bytes_pushed = between(before->bytes_pushed, now->bytes_pushed, share);
	p->bytes_pulled = between(before->bytes_pulled, now->bytes_pulled, share);
}

void curve_look(struct curve *c, const struct overview *before, const struct overview *now, double seconds)
{
	const uint32_t complete = curve_complete(now);
	/* the job rewound to a checkpoint */
	while (c->count > 0 && c->points[c->count - 1].pass > complete)
		c->count--;
	c->told = c->told < c->count ? c->told : c->count;
	for (uint32_t pass = c->known + 1; pass <= complete; pass++)
		append(c, pass, seconds);
	c->known = complete;
	for (; c->told < c->count && now->rows >= c->points[c->told].pass * now->dataset_rows; c->told++)
		tell(&c->points[c->told], before, now, c->points[c->told].pass * now->dataset_rows);
}

void curve_end(struct curve *c, const struct overview *last)
{
	for (; c->told < c->count; c->told++)
		tell(&c->points[c->told], NULL, last, last->rows);
}

const struct curve_point *curve_find(const struct curve *c, uint32_t pass)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->points[i].pass == pass)
			return &c->points[i];
	return NULL;
}

void curve_destroy(struct curve *c)
{
	free(c->points);
	*c = (struct curve){0};
}
