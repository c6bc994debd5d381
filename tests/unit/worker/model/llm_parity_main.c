/* llm_parity MODEL VECTORS [DEVICE [PRECISION]]: the distance of the model folder MODEL from
 * PyTorch's fp32 results (llm_parity.h), per tensor, then a line of JSON. Exits with 0 if all
 * errors are within the precision's tolerances. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/model/llm_parity.h"

static bool precision_of(const char *name, enum compute_precision *out)
{
	for (*out = COMPUTE_FP32; *out <= COMPUTE_FP16; ++*out)
		if (strcmp(name, compute_precision_name(*out)) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct backend_options options = {.device = argc > 3 ? argv[3] : "cpu"};
	if (argc < 3 || argc > 5 || (argc > 4 && !precision_of(argv[4], &options.precision))) {
		fprintf(stderr, "usage: llm_parity MODEL VECTORS [DEVICE [fp32|tf32|bf16|fp16]]\n");
		return 2;
	}
	weir_error err = {0};
	struct llm_parity p;
	struct backend *b = backend_open(&options, &err);
	const weir_status s = b != NULL ? llm_parity_measure(b, argv[1], argv[2], false, &p, stdout, &err) : err.status;
	if (b != NULL)
		b->ops->destroy(b);
	if (s != WEIR_OK) {
		fprintf(stderr, "llm_parity: %s\n", err.text);
		return 1;
	}
	printf("{\"logits\": %.3g, \"loss\": %.3g, \"gradient\": %.3g, \"gradient_of\": \"%s\", \"losses\": %.3g, \"weights\": %.3g, "
	       "\"weights_of\": \"%s\"}\n",
	       p.logits, p.loss, p.gradient, p.gradient_name, p.losses, p.weights, p.weights_name);
	return llm_parity_is_within(&p, llm_tolerance_of(options.precision)) ? 0 : 1;
}
