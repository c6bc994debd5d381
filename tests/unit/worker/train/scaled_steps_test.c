/* fp16 steps on the emulated device: gradients that overflow halve the loss scale until they fit,
 * and small ones survive; both then equal the CPU's. */
#include <math.h>
#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/cuda_host/cuda_host.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/loss_scale.h"

enum { FIELDS = 2, DIM = 4, ROWS = 32, UNIQUE = 20 };

static const char job_text[] = "job: it\ndata: {train: x}\nmodel: {kind: wide_deep, dim: 4, hidden: [8, 8]}\n";

struct trained {
	struct job *job;
	struct backend *b;
	struct model *model;
	struct batch_pipeline *staging;
	float labels[ROWS], weights[ROWS];
	uint32_t offsets[ROWS * FIELDS + 1], row_offsets[ROWS + 1], index[ROWS * FIELDS];
	float *parameters[MODEL_TABLES];
	size_t elements[MODEL_TABLES];
	struct model_input in;
	struct model_output out;
};

/* Every example, and so its gradient, has this weight. */
static void open(struct trained *t, struct backend *b, float weight)
{
	weir_error err = {0};
	struct prng rng;
	prng_seed(&rng, 11);
	*t = (struct trained){.b = b};
	CHECK_OK(job_parse(job_text, "test", NULL, 0, &t->job, &err), err);
	CHECK_OK(model_create(&t->model, b, t->job, &(struct model_data){.fields = FIELDS}, &err), err);
	CHECK_OK(model_reserve(t->model, ROWS, true, &err), err);
	CHECK_OK(batch_pipeline_create(&t->staging, b, t->model, &(struct batch_pipeline_shape){.fields = FIELDS}, &err), err);
	for (uint32_t i = 0; i <= ROWS * FIELDS; i++)
		t->offsets[i] = i;
	for (uint32_t i = 0; i <= ROWS; i++)
		t->row_offsets[i] = i * FIELDS;
	for (uint32_t i = 0; i < ROWS * FIELDS; i++)
		t->index[i] = i < UNIQUE ? i : (uint32_t)prng_below(&rng, UNIQUE);
	for (uint32_t i = 0; i < ROWS; i++) {
		t->labels[i] = (float)prng_below(&rng, 2);
		t->weights[i] = weight;
	}
	t->in = (struct model_input){.rows = ROWS,
	                             .labels = t->labels,
	                             .weights = t->weights,
	                             .offsets = t->offsets,
	                             .row_offsets = t->row_offsets,
	                             .index = t->index,
	                             .unique = UNIQUE,
	                             .uses = ROWS * FIELDS};
	for (enum model_table k = 0; k < MODEL_STATISTICS; k++) {
		t->elements[k] = model_table_elements(t->model, k) * (model_table_is_keyed(k) ? UNIQUE : 1);
		t->parameters[k] = malloc(t->elements[k] * sizeof(float));
		for (size_t i = 0; i < t->elements[k]; i++)
			t->parameters[k][i] = 0.5f * prng_normal(&rng);
		t->in.parameters[k] = t->parameters[k];
		t->out.gradients[k] = b->ops->host_alloc(b, t->elements[k] * sizeof(float));
	}
	t->out.loss_sum = b->ops->host_alloc(b, sizeof *t->out.loss_sum);
	t->out.not_finite = b->ops->host_alloc(b, sizeof *t->out.not_finite);
}

static void close_trained(struct trained *t)
{
	struct backend *b = t->b;
	for (enum model_table k = 0; k < MODEL_STATISTICS; k++) {
		free(t->parameters[k]);
		b->ops->host_free(b, t->out.gradients[k]);
	}
	b->ops->host_free(b, t->out.loss_sum);
	b->ops->host_free(b, t->out.not_finite);
	batch_pipeline_destroy(t->staging);
	model_destroy(t->model);
	job_destroy(t->job);
	b->ops->destroy(b);
}

static struct backend *device(enum compute_precision precision)
{
	weir_error err = {0};
	struct backend *b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda", .precision = precision}, &err);
	if (b == NULL)
		fail_msg("%s", err.text);
	return b;
}

static struct backend *cpu(void)
{
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	assert_non_null(b);
	return b;
}

static void step(struct trained *t, float scale)
{
	weir_error err = {0};
	CHECK_OK(batch_pipeline_train(t->staging, &t->in, NULL, &(struct batch_pipeline_step){.seed = 1, .loss_scale = scale},
	                              &t->out, &err),
	         err);
	for (enum model_table k = 0; k < MODEL_STATISTICS && !t->b->ops->host_memory; k++)
		t->b->ops->to_host(t->b, t->out.gradients[k], batch_pipeline_gradient(t->staging, k), t->elements[k] * sizeof(float));
}

static double largest(const struct trained *t, enum model_table k)
{
	double most = 0;
	for (size_t i = 0; i < t->elements[k]; i++)
		most = fmax(most, fabs((double)t->out.gradients[k][i]));
	return most;
}

/* To a few roundings of 11 bits, relative to the table's largest gradient. */
static void check_close_to(const struct trained *got, const struct trained *want)
{
	for (enum model_table k = 0; k < MODEL_STATISTICS; k++) {
		const double bound = 16 * 0x1p-11 * largest(want, k);
		assert_true(bound > 0);
		for (size_t i = 0; i < want->elements[k]; i++)
			if (!(fabs((double)got->out.gradients[k][i] - (double)want->out.gradients[k][i]) <= bound))
				fail_msg("table %d, gradient[%zu] is %g, the CPU has %g", (int)k, i, (double)got->out.gradients[k][i],
				         (double)want->out.gradients[k][i]);
	}
}

static void gradients_that_overflow_halve_the_scale_until_they_do_not(void **state)
{
	(void)state;
	struct trained half, whole;
	unsigned left_out = 0;
	open(&half, device(COMPUTE_FP16), 1000);
	open(&whole, cpu(), 1000);
	struct loss_scale scale = loss_scale_first(true);
	step(&half, scale.value);
	assert_int_equal(*half.out.not_finite, 1);
	while (loss_scale_note(&scale, scale.value, *half.out.not_finite == 0)) {
		left_out++;
		step(&half, scale.value);
	}
	assert_int_equal(*half.out.not_finite, 0);
	assert_true(left_out >= 3 && left_out <= 8);
	assert_true(scale.value == ldexpf(LOSS_SCALE_FIRST, -(int)left_out));
	step(&whole, 0);
	/* the loss sum is not scaled */
	assert_true(fabs(*half.out.loss_sum - *whole.out.loss_sum) <= 0.01 * *whole.out.loss_sum);
	check_close_to(&half, &whole);
	close_trained(&half);
	close_trained(&whole);
}

static void gradients_that_would_vanish_are_there(void **state)
{
	(void)state;
	struct trained half, whole;
	open(&half, device(COMPUTE_FP16), 1e-7f);
	open(&whole, cpu(), 1e-7f);
	step(&whole, 0);
	step(&half, 0);
	assert_int_equal(*half.out.not_finite, 0);
	assert_true(largest(&half, MODEL_EMBEDDING) == 0 && largest(&whole, MODEL_EMBEDDING) > 0);
	step(&half, LOSS_SCALE_FIRST);
	assert_int_equal(*half.out.not_finite, 0);
	check_close_to(&half, &whole);
	close_trained(&half);
	close_trained(&whole);
}

/* On the CPU in fp32 the scale cancels exactly. */
static void in_fp32_a_scale_changes_nothing(void **state)
{
	(void)state;
	struct backend *const backends[] = {cpu(), device(COMPUTE_FP32)};
	for (int i = 0; i < 2; i++) {
		struct trained t;
		open(&t, backends[i], 1);
		step(&t, 0);
		float *before[MODEL_STATISTICS];
		for (enum model_table k = 0; k < MODEL_STATISTICS; k++) {
			before[k] = malloc(t.elements[k] * sizeof(float));
			memcpy(before[k], t.out.gradients[k], t.elements[k] * sizeof(float));
		}
		step(&t, 4096);
		assert_int_equal(*t.out.not_finite, 0);
		for (enum model_table k = 0; k < MODEL_STATISTICS; k++) {
			assert_memory_equal(before[k], t.out.gradients[k], t.elements[k] * sizeof(float));
			free(before[k]);
		}
		close_trained(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gradients_that_overflow_halve_the_scale_until_they_do_not),
	    cmocka_unit_test(gradients_that_would_vanish_are_there),
	    cmocka_unit_test(in_fp32_a_scale_changes_nothing),
	};
	return cmocka_run_group_tests_name("train_scaled_steps", tests, NULL, NULL);
}
