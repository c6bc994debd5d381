/* llm_parity MODEL VECTORS [DEVICE]: how far the model folder MODEL is here from what PyTorch made of it (llm_parity.h), tensor by tensor, then one line of JSON.
 * Ends with 0 where all is within what llm_parity.h asks for. */
#include <stdlib.h>

#include "llm_parity.h"

int main(int argc, char **argv)
{
	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: llm_parity MODEL VECTORS [DEVICE]\n");
		return 2;
	}
	weir_error err = {0};
	struct llm_parity p;
	struct backend *b = backend_open(&(struct backend_options){.device = argc == 4 ? argv[3] : "cpu"}, &err);
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
	return p.logits <= LLM_PARITY_LOGITS && p.loss <= LLM_PARITY_LOSS && p.gradient <= LLM_PARITY_GRADIENT &&
	               p.losses <= LLM_PARITY_STEPS && p.weights <= LLM_PARITY_STEPS
	           ? 0
	           : 1;
}
