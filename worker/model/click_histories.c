#include "worker/model/click_histories.h"

void click_histories_init(struct click_histories *h, struct backend *b, const struct job *job, uint32_t fields,
                          struct layout *params, struct layout *stats)
{
	struct job_history of[WEIR_HISTORIES_MAX];
	const uint32_t count = job_histories(job, of);
	h->count = count < WEIR_HISTORIES_MAX ? count : WEIR_HISTORIES_MAX;
	for (uint32_t i = 0; i < h->count; i++)
		target_attention_init(&h->of[i], b, job, of[i], fields, i, params, stats);
}

void click_histories_destroy(struct click_histories *h)
{
	for (uint32_t i = 0; i < h->count; i++)
		target_attention_destroy(&h->of[i]);
}

weir_status click_histories_reserve_rows(struct click_histories *h, uint32_t rows)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < h->count && status == WEIR_OK; i++)
		status = target_attention_reserve_rows(&h->of[i], rows);
	return status;
}

weir_status click_histories_reserve_uses(struct click_histories *h, const struct model_input *in)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < h->count && status == WEIR_OK; i++)
		status = target_attention_reserve_uses(&h->of[i], in->history_uses[i], in->unique);
	return status;
}

/* The batch's history i, whose words begin at *words; moves *words past it. */
static struct history next_history(const struct model_input *in, uint32_t i, const uint32_t **words)
{
	const struct history history = history_at(*words, in->rows, in->history_uses[i]);
	*words += history_words(in->rows, in->history_uses[i]);
	return history;
}

void click_histories_forward(struct click_histories *h, const struct model_input *in, float *x, const struct forward_mode *mode)
{
	const uint32_t *words = in->histories;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct history history = next_history(in, i, &words);
		target_attention_forward(&h->of[i], &history, in->rows, in->parameters[MODEL_EMBEDDING], in->unique, x,
		                         in->parameters[MODEL_DENSE], mode);
	}
}

void click_histories_backward(struct click_histories *h, const struct model_input *in, const float *x, float *dparams, float *dx)
{
	const uint32_t *words = in->histories;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct history history = next_history(in, i, &words);
		target_attention_backward(&h->of[i], &history, in->rows, in->parameters[MODEL_EMBEDDING], x, in->parameters[MODEL_DENSE],
		                          dparams, dx);
	}
}

void click_histories_scatter(struct click_histories *h, const struct model_input *in, float *drows)
{
	const uint32_t *words = in->histories;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct history history = next_history(in, i, &words);
		target_attention_scatter(&h->of[i], &history, drows, in->unique);
	}
}
