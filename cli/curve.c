#include "curve.h"

#include <stdlib.h>

uint32_t curve_complete(const struct overview *s)
{
	return s->pass + (s->state == JOB_FINISHED || (s->state == JOB_EVALUATING && s->units > 0));
}

/* How much of the way from one look to the next the job had gone when so many rows were trained. Lost work is trained again, so that rows may be more
 * than the passes have, and counts may come late: then the later look has to do. */
static double share_until(const struct overview *before, const struct overview *now, uint64_t rows)
{
	if (!before || rows <= before->rows || rows >= now->rows)
		return 1;
	return (double)(rows - before->rows) / (double)(now->rows - before->rows);
}

static uint64_t between(uint64_t from, uint64_t to, double share)
{
	return to > from ? from + (uint64_t)((double)(to - from) * share + 0.5) : to;
}

static struct curve_point point_of(const struct overview *before, double before_s, const struct overview *now, double now_s,
                                   uint32_t pass)
{
	const double share = share_until(before, now, now->dataset_rows * pass);
	struct curve_point p = {.pass = pass, .seconds = now_s};
	p.rows = now->rows;
	p.bytes_pushed = now->bytes_pushed;
	p.bytes_pulled = now->bytes_pulled;
	if (share == 1)
		return p;
	p.seconds = before_s + (now_s - before_s) * share;
	p.rows = between(before->rows, now->rows, share);
	p.bytes_pushed = between(before->bytes_pushed, now->bytes_pushed, share);
	p.bytes_pulled = between(before->bytes_pulled, now->bytes_pulled, share);
	return p;
}

static void append(struct curve *c, struct curve_point p)
{
	struct curve_point *more = realloc(c->points, (c->count + 1) * sizeof *more);
	if (!more)
		return;
	c->points = more;
	c->points[c->count++] = p;
}

void curve_look(struct curve *c, const struct overview *before, double before_s, const struct overview *now, double now_s)
{
	const uint32_t complete = curve_complete(now);
	while (c->count > 0 && c->points[c->count - 1].pass > complete) /* the job has gone back to a checkpoint */
		c->count--;
	for (uint32_t pass = c->known + 1; pass <= complete; pass++)
		append(c, point_of(before, before_s, now, now_s, pass));
	c->known = complete;
}

const struct curve_point *curve_find(const struct curve *c, uint32_t pass)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->points[i].pass == pass)
			return &c->points[i];
	return NULL;
}

void curve_free(struct curve *c)
{
	free(c->points);
	*c = (struct curve){0};
}
