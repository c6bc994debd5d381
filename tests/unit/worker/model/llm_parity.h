/* How far a model is from what PyTorch computes with it: of a folder of weights and a file of vectors, which tests/parity/make_llm_vectors.py makes. */
#ifndef WEIR_TESTS_LLM_PARITY_H
#define WEIR_TESTS_LLM_PARITY_H

#include <stdio.h>

#include "kernels/backend.h"
#include "worker/model/transformer.h"

#define LLM_PARITY_NAME_BYTES 96

/* Relative errors: of a number, |got - want| / |want|; of a tensor, the largest |got - want| over the largest |want|. */
struct llm_parity {
	double logits, loss;
	double gradient, weights; /* of the worst tensor: of the first batch; after all steps */
	double losses;            /* of the worst step */
	char gradient_name[LLM_PARITY_NAME_BYTES], weights_name[LLM_PARITY_NAME_BYTES];
};

/* What is to be had of each precision: in fp32 what both sides' rounding makes of it. Where the factors of products are rounded to 16 bits (8 or 11 of them digits) or to tf32, single
 * weights after steps of Adam are not compared: where gradients are small against what rounding adds, it takes steps of full size by it. Their losses are. */
struct llm_tolerance {
	double logits, loss, gradient, losses, weights;
};
const struct llm_tolerance *llm_tolerance_of(enum compute_precision precision);
bool llm_parity_is_within(const struct llm_parity *p, const struct llm_tolerance *t);

/* details: where each tensor's error is written, or NULL. */
weir_status llm_parity_measure(struct backend *b, const char *folder, const char *vectors, bool recompute, struct llm_parity *out,
                               FILE *details, weir_error *err);

#endif
