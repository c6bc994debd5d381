#include "worker/train/loop/anomaly.h"

#include <math.h>
#include <stdio.h>

#define BATCHES_BEFORE 100 /* until means are fit for comparison */
#define FAST           16.0
#define SLOW           128.0
#define LOSS_FACTOR    2.0
#define LOSS_OVER      1.2 /* ends below this factor */
#define LOSS_STEP      0.1 /* nats: below this, twice the loss is noise */
#define NORM_FACTOR    100.0

/* Mean over about the last n values, or over all while there are fewer. */
static double moved(double mean, double value, double n, uint64_t count)
{
	const double over = (double)count < n ? (double)count : n;
	return mean + (value - mean) / over;
}

/* Whether the anomaly has just begun. */
static bool begins(struct anomalies *a, enum anomaly which, bool present)
{
	const bool before = a->present[which];
	a->present[which] = present;
	return present && !before;
}

static bool explodes(struct anomalies *a, double norm)
{
	const bool present = a->batches > BATCHES_BEFORE && norm > NORM_FACTOR * a->norm;
	const bool begun = begins(a, ANOMALY_GRADIENT, present);
	if (begun)
		snprintf(a->text, sizeof a->text, "gradients explode: a norm of %.3g, where batches had %.3g", norm, a->norm);
	if (!present)
		a->norm = moved(a->norm, norm, SLOW, a->batches);
	return begun;
}

static bool diverges(struct anomalies *a, double loss)
{
	a->loss_fast = moved(a->loss_fast, loss, FAST, a->batches);
	a->loss_slow = moved(a->loss_slow, loss, SLOW, a->batches);
	if (a->batches == 1 || a->loss_slow < a->loss_best)
		a->loss_best = a->loss_slow;
	const double factor = a->present[ANOMALY_LOSS] ? LOSS_OVER : LOSS_FACTOR;
	const bool present =
	    a->batches > BATCHES_BEFORE && a->loss_fast > factor * a->loss_best && a->loss_fast > a->loss_best + LOSS_STEP;
	if (!begins(a, ANOMALY_LOSS, present))
		return false;
	snprintf(a->text, sizeof a->text, "the loss diverges: %.4g over the last batches, where it was %.4g", a->loss_fast,
	         a->loss_best);
	return true;
}

const char *anomalies_note_batch(struct anomalies *a, double loss, double norm)
{
	a->batches++;
	const bool loss_begins = isfinite(loss) && diverges(a, loss);
	const bool norm_begins = isfinite(norm) && norm > 0 && explodes(a, norm);
	return loss_begins || norm_begins ? a->text : NULL;
}

const char *anomalies_note_wait(struct anomalies *a, double seconds, double limit_s)
{
	if (!begins(a, ANOMALY_DATA, seconds > limit_s))
		return NULL;
	snprintf(a->text, sizeof a->text, "no data come: the reader has brought nothing for %.0f s", seconds);
	return a->text;
}
