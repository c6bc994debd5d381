/* The loss of clicks on logits: losses, gradients, extreme logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static double loss_of(struct backend *b, float *dlogits, const struct click_rows *rows, const struct click_loss *kind,
                      float scale)
{
	double loss = NAN;
	b->ops->click_loss(b, &loss, dlogits, rows, kind, scale);
	return loss;
}

/* By definition (click_loss.h). */
static double loss_at(const struct click_loss *l, double z, double label)
{
	const double y = label * (1 - (double)l->label_smoothing) + (double)l->label_smoothing / 2, p = 1 / (1 + exp(-z));
	const double ce = -((double)l->pos_weight * y * log(p) + (1 - y) * log(1 - p)), alpha = (double)l->alpha;
	if (!l->focal)
		return ce;
	const double right = y * p + (1 - y) * (1 - p), class = isnan(alpha) ? 1 : y * alpha + (1 - y) * (1 - alpha);
	return class * pow(1 - right, (double)l->gamma) * ce;
}

struct clicks {
	struct click_rows rows;
	float *logits, *labels, *weights, *task_weights;
	double *want;
};

/* Every seventh label is missing if there are several tasks. */
static struct clicks random_clicks(struct prng *rng, size_t rows, size_t tasks, bool weighted)
{
	const size_t n = rows * tasks;
	struct clicks x = {.logits = random_floats(rng, n, -8, 8),
	                   .labels = random_floats(rng, n, 0, 1),
	                   .weights = random_floats(rng, rows, 0, 3),
	                   .task_weights = random_floats(rng, tasks, 0, 3),
	                   .want = malloc((n + 1) * sizeof *x.want)};
	for (size_t i = 6; i < n && tasks > 1; i += 7)
		x.labels[i] = NAN;
	x.rows = (struct click_rows){.logits = x.logits, .labels = x.labels, .rows = rows, .tasks = tasks};
	if (weighted) {
		x.rows.weights = x.weights;
		x.rows.task_weights = x.task_weights;
	}
	return x;
}

static void free_clicks(struct clicks *x)
{
	free(x->logits);
	free(x->labels);
	free(x->weights);
	free(x->task_weights);
	free(x->want);
}

/* Fills want with the gradient times scale; returns the loss. */
static double reference(struct clicks *x, const struct click_loss *kind, double scale)
{
	double loss = 0;
	for (size_t i = 0; i < x->rows.rows * x->rows.tasks; i++) {
		const double z = (double)x->logits[i], label = (double)x->labels[i], step = 1e-5;
		const double weight =
		    x->rows.weights ? (double)x->weights[i / x->rows.tasks] * (double)x->task_weights[i % x->rows.tasks] : 1;
		x->want[i] = 0;
		if (isnan(label))
			continue;
		x->want[i] = scale * weight * (loss_at(kind, z + step, label) - loss_at(kind, z - step, label)) / (2 * step);
		loss += weight * loss_at(kind, z, label);
	}
	return loss;
}

static void check_clicks(struct backend *b, struct clicks *x, const struct click_loss *kind)
{
	const size_t n = x->rows.rows * x->rows.tasks;
	float *dlogits = poisoned_floats(n);
	const double want = reference(x, kind, 0.125), got = loss_of(b, dlogits, &x->rows, kind, 0.125f);
	if (!(fabs(got - want) <= 1e-9 * (1 + want)))
		fail_msg("loss is %.12g, expected %.12g", got, want);
	check_close("dlogits", dlogits, x->want, n, 1e-6, 1e-8);
	assert_true(isnan(dlogits[n]));
	(void)reference(x, kind, 0.25);
	b->ops->click_loss(b, NULL, dlogits, &x->rows, kind, 0.25f);
	check_close("dlogits alone", dlogits, x->want, n, 1e-6, 1e-8);
	assert_true(got == loss_of(b, NULL, &x->rows, kind, 0.125f));
	free(dlogits);
}

static const struct click_loss kinds[] = {
    {.pos_weight = 1},
    {.pos_weight = 1, .label_smoothing = 0.1f},
    {.pos_weight = 4, .label_smoothing = 0.2f},
    {.pos_weight = 1, .focal = true, .gamma = 2, .alpha = 0.25f},
    {.pos_weight = 1, .focal = true, .gamma = 0.5f, .alpha = NAN, .label_smoothing = 0.1f},
    {.pos_weight = 1, .focal = true, .gamma = 0, .alpha = NAN},
};

static void try_rows(struct backend *b, struct prng *rng)
{
	static const struct {
		size_t rows, tasks;
	} sizes[] = {{0, 1}, {1, 1}, {63, 1}, {64, 1}, {65, 3}, {1667, 3}, {5001, 1}};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			for (int weighted = 0; weighted < 2; weighted++) {
				struct clicks x = random_clicks(rng, sizes[s].rows, sizes[s].tasks, weighted);
				check_clicks(b, &x, &kinds[k]);
				free_clicks(&x);
			}
}

/* The right side costs nothing, the wrong side the distance times its class's weight. */
static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	const float z[] = {1000, -1000, 1000, -1000}, labels[] = {1, 0, 0, 1};
	const struct click_rows rows = {.logits = z, .labels = labels, .rows = 4, .tasks = 1};
	const struct click_loss focal = {.pos_weight = 1, .focal = true, .gamma = 2, .alpha = 0.25f}, weighted = {.pos_weight = 3};
	float dlogits[4];
	assert_true(loss_of(b, dlogits, &rows, &CLICK_LOSS_PLAIN, 1) == 2000);
	assert_true(dlogits[0] == 0 && dlogits[1] == 0 && dlogits[2] == 1 && dlogits[3] == -1);
	assert_true(loss_of(b, dlogits, &rows, &weighted, 1) == 4000);
	assert_true(dlogits[0] == 0 && dlogits[1] == 0 && dlogits[2] == 1 && dlogits[3] == -3);
	assert_true(loss_of(b, dlogits, &rows, &focal, 1) == 1000);
	assert_true(dlogits[0] == 0 && dlogits[1] == 0 && dlogits[2] == 0.75f && dlogits[3] == -0.25f);
	const float bad = NAN, one = 1;
	const struct click_rows broken = {.logits = &bad, .labels = &one, .rows = 1, .tasks = 1};
	assert_true(isnan(loss_of(b, dlogits, &broken, &CLICK_LOSS_PLAIN, 1)));
	assert_true(isnan(dlogits[0]));
}

/* The loss of row i by definition, and its gradient. */
static double retrieval_row(const struct in_batch *in, const float *logits, size_t i, double *gradient)
{
	double sum = 0, largest = -INFINITY;
	const double weight = in->weights ? (double)in->weights[i] : 1;
	double z[70];
	for (size_t j = 0; j < in->rows; j++) {
		z[j] = in->items[j] == in->items[i] && j != i ? -INFINITY
		                                              : (double)logits[i * in->rows + j] - (in->log_q ? (double)in->log_q[j] : 0);
		largest = fmax(largest, z[j]);
		gradient[j] = 0;
	}
	if (in->labels[i] < 0.5f)
		return 0;
	for (size_t j = 0; j < in->rows; j++)
		sum += exp(z[j] - largest);
	for (size_t j = 0; j < in->rows; j++)
		gradient[j] = weight * (exp(z[j] - largest) / sum - (j == i)) * 0.5;
	return weight * (log(sum) + largest - z[i]);
}

static void try_in_batch(struct backend *b, struct prng *rng)
{
	static const size_t sizes[] = {1, 2, 33, 70};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int plain = 0; plain < 2; plain++) {
			const size_t n = sizes[s];
			float *logits = random_floats(rng, n * n, -20, 20), *labels = random_floats(rng, n, 0, 1),
			      *log_q = random_floats(rng, n, -9, 0), *weights = random_floats(rng, n, 0, 2);
			uint32_t items[70];
			double *want = malloc(n * n * sizeof *want), loss = 0, got = NAN;
			for (size_t i = 0; i < n; i++) {
				items[i] = (uint32_t)prng_below(rng, n); /* some twice */
				labels[i] = labels[i] < 0.3f ? 0 : 1;
			}
			const struct in_batch in = {
			    .items = items, .labels = labels, .log_q = plain ? NULL : log_q, .weights = plain ? NULL : weights, .rows = n};
			for (size_t i = 0; i < n; i++)
				loss += retrieval_row(&in, logits, i, want + i * n);
			b->ops->in_batch(b, &got, logits, &in, 0.5f);
			if (!(fabs(got - loss) <= 1e-6 * (1 + loss)))
				fail_msg("loss is %.12g, expected %.12g", got, loss);
			check_close("in_batch", logits, want, n * n, 1e-5, 1e-7);
			free(logits);
			free(labels);
			free(log_q);
			free(weights);
			free(want);
		}
}

static void retrieval_matches_float64(void **state)
{
	(void)state;
	on_every_backend(103, try_in_batch);
}

static void losses_and_gradients_match_float64(void **state)
{
	(void)state;
	on_every_backend(101, try_rows);
}

static void logits_far_out_do_not_overflow(void **state)
{
	(void)state;
	on_every_backend(102, try_far_out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(losses_and_gradients_match_float64),
	    cmocka_unit_test(logits_far_out_do_not_overflow),
	    cmocka_unit_test(retrieval_matches_float64),
	};
	return cmocka_run_group_tests_name("click_loss", tests, NULL, NULL);
}
