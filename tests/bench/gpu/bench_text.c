/* The embeddings of a GPT-2 step: 16 sequences of 1,024 tokens, a vocabulary of 50,257, 768
 * columns. The backward pass runs with tokens that follow a power law, and with one token in every
 * second row, like padding or a very frequent word. Both must cost about the same. Bytes: each row
 * of `x`, and of each token that occurs, counts once per necessary read or write. */
#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/bench/gpu/bench_gpu.h"

enum {
	SEQUENCES = 16,
	LENGTH = 1024,
	VOCABULARY = 50257,
	WIDTH = 768,
	LENGTH_QUICK = 64,
	VOCABULARY_QUICK = 100,
	WIDTH_QUICK = 16
};

struct text {
	struct gpu_bench *g;
	size_t rows, length, vocabulary, width;
	float *table, *positions, *x; /* (vocabulary, width), (length, width), (rows, width) */
	uint32_t *tokens;             /* (rows) */
	size_t distinct;
};

static void look_up(void *arg, unsigned call)
{
	const struct text *t = arg;
	(void)call;
	t->g->b->ops->embed(t->g->b, t->x, t->table, t->positions, t->tokens, t->vocabulary, t->rows, t->length, t->width);
}

static void add_gradient(void *arg, unsigned call)
{
	const struct text *t = arg;
	(void)call;
	t->g->b->ops->embed_backward(t->g->b, t->table, t->positions, t->x, t->tokens, t->vocabulary, t->rows, t->length, t->width);
}

/* half: every second row has the last token. */
static bool make_tokens(struct text *t, bool half)
{
	uint32_t *tokens = malloc(t->rows * sizeof *tokens);
	bool *seen = calloc(t->vocabulary, sizeof *seen);
	const bool whole = tokens != NULL && seen != NULL;
	struct prng rng;
	prng_seed(&rng, 5);
	t->distinct = 0;
	for (size_t r = 0; whole && r < t->rows; r++) {
		const double u = prng_unit(&rng);
		tokens[r] = half && r % 2 == 0 ? (uint32_t)t->vocabulary - 1 : (uint32_t)((double)t->vocabulary * u * u * u * u);
		t->distinct += !seen[tokens[r]];
		seen[tokens[r]] = true;
	}
	if (whole)
		t->g->b->ops->to_device(t->g->b, t->tokens, tokens, t->rows * sizeof *tokens);
	free(tokens);
	free(seen);
	return whole;
}

static bool text_open(struct text *t, struct gpu_bench *g)
{
	*t = (struct text){.g = g,
	                   .rows = (size_t)SEQUENCES * (g->quick ? LENGTH_QUICK : LENGTH),
	                   .length = g->quick ? LENGTH_QUICK : LENGTH,
	                   .vocabulary = g->quick ? VOCABULARY_QUICK : VOCABULARY,
	                   .width = g->quick ? WIDTH_QUICK : WIDTH};
	t->table = gpu_normal(g, t->vocabulary * t->width, 31);
	t->positions = gpu_normal(g, t->length * t->width, 32);
	t->x = gpu_normal(g, t->rows * t->width, 33);
	t->tokens = gpu_bytes(g, t->rows * sizeof *t->tokens);
	return t->table != NULL && t->positions != NULL && t->x != NULL && t->tokens != NULL;
}

static void text_close(struct text *t)
{
	gpu_free(t->g, t->table);
	gpu_free(t->g, t->positions);
	gpu_free(t->g, t->x);
	gpu_free(t->g, t->tokens);
}

static bool measure(struct text *t, const char *name, bool half, double of_table, double of_positions,
                    void (*run)(void *, unsigned))
{
	if (!make_tokens(t, half))
		return false;
	const double row = (double)t->width * sizeof(float);
	const struct gpu_subject s = {.name = name,
	                              .n = t->rows,
	                              .bytes =
	                                  row * ((double)t->rows + of_table * (double)t->distinct + of_positions * (double)t->length),
	                              .run = run,
	                              .arg = t};
	return gpu_measure(t->g, &s);
}

void bench_text(struct gpu_bench *g)
{
	struct text t;
	weir_error err = {0};
	if (text_open(&t, g) && g->b->ops->sync(g->b, &err) == WEIR_OK) {
		/* Failures are printed, and the backend keeps the status. */
		(void)(measure(&t, "embed backward", false, 2, 2, add_gradient) &&
		       measure(&t, "embed backward, half of one token", true, 2, 2, add_gradient) &&
		       measure(&t, "embed", false, 1, 1, look_up));
	} else {
		(void)g->b->ops->sync(g->b, &err);
		printf("embeddings of %zu tokens: left out: %s\n", t.rows, err.text);
	}
	text_close(&t);
}
