/* A model's distance from PyTorch: takes a folder of weights and a file of vectors from
 * tests/parity/make_llm_vectors.py. */
#ifndef WEIR_TESTS_LLM_PARITY_H
#define WEIR_TESTS_LLM_PARITY_H

#include <stdio.h>

#include "kernels/backend.h"
#include "worker/model/transformer.h"

#define LLM_PARITY_NAME_BYTES 96

/* Relative errors. Number: |got - want| / |want|. Tensor: the largest |got - want| over the largest
 * |want|. */
struct llm_parity {
	double logits, loss;
	double gradient, weights; /* of the worst tensor: in the first batch; after all steps */
	double losses;            /* of the worst step */
	char gradient_name[LLM_PARITY_NAME_BYTES], weights_name[LLM_PARITY_NAME_BYTES];
};

/* Tolerances by precision. fp32: both sides' rounding. With factors in 16 bits (8 or 11 significant
 * ones) or tf32, single weights after Adam's steps are not compared: where rounding dominates a
 * gradient, it decides full-size steps. Their losses are compared. */
struct llm_tolerance {
	double logits, loss, gradient, losses, weights;
};
const struct llm_tolerance *llm_tolerance_of(enum compute_precision precision);
bool llm_parity_is_within(const struct llm_parity *p, const struct llm_tolerance *t);

/* details: receives each tensor's error; may be NULL. */
weir_status llm_parity_measure(struct backend *b, const char *folder, const char *vectors, bool recompute, struct llm_parity *out,
                               FILE *details, weir_error *err);

#endif
