/* How far a model is from what PyTorch computes with it: of a folder of weights and a file of vectors, which tests/parity/make_llm_vectors.py makes. */
#ifndef WEIR_TESTS_LLM_PARITY_H
#define WEIR_TESTS_LLM_PARITY_H

#include <stdio.h>

#include "backend.h"
#include "transformer.h"

#define LLM_PARITY_NAME_BYTES 96

/* Relative errors: of a number, |got - want| / |want|; of a tensor, the largest |got - want| over the largest |want|. */
struct llm_parity {
	double logits, loss;
	double gradient, weights; /* of the worst tensor: of the first batch; after all steps */
	double losses;            /* of the worst step */
	char gradient_name[LLM_PARITY_NAME_BYTES], weights_name[LLM_PARITY_NAME_BYTES];
};

/* What the issue asks for, and what both sides' rounding makes of ten steps. */
#define LLM_PARITY_LOGITS   1e-4
#define LLM_PARITY_LOSS     1e-5
#define LLM_PARITY_GRADIENT 1e-3
#define LLM_PARITY_STEPS    1e-4

/* details: where each tensor's error is written, or NULL. */
weir_status llm_parity_measure(struct backend *b, const char *folder, const char *vectors, bool recompute, struct llm_parity *out,
                               FILE *details, weir_error *err);

#endif
