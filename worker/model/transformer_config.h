/* What a transformer is, as Hugging Face's config.json says it: the GPT-2 family (Radford et al. 2019) and the Llama family (Touvron et al. 2023; Llama 3's scaled
 * rotary positions). What of a family cannot be computed here is refused when its file is read, by the key that says so. */
#ifndef WEIR_TRANSFORMER_CONFIG_H
#define WEIR_TRANSFORMER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/web/json.h"
#include "weir/status.h"

enum transformer_family { TRANSFORMER_GPT2, TRANSFORMER_LLAMA };

#define ROPE_THETA_DEFAULT 10000
enum rope_kind { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 };
struct rope_config {
	double theta;
	enum rope_kind kind;
	double factor; /* linear, llama3: positions are as if divided by it */
	double low_factor,
	    high_factor; /* llama3: wave lengths above original_context / low_factor are, those below original_context / high_factor are not */
	uint32_t original_context; /* llama3: tokens */
};

struct transformer_config {
	enum transformer_family family;
	uint32_t vocabulary, context; /* tokens; positions */
	uint32_t layers, heads, kv_heads, head_dim;
	uint32_t width, hidden; /* of the residual stream; of the feed-forward part */
	float norm_eps;
	float init_std;
	bool tied_head;                /* the head is the token embedding */
	bool attention_bias, mlp_bias; /* GPT-2: both */
	struct rope_config rope;       /* Llama */
};

/* Fills what does not depend on size, and derives what is 0: kv_heads from heads, head_dim from width, hidden from width. */
void transformer_config_default(struct transformer_config *c);
/* E_INVALID or E_LIMIT names what does not fit, as a key of config.json. */
weir_status transformer_config_check(const struct transformer_config *c, const char *name, weir_error *err) WEIR_MUST_CHECK;
/* A config.json. E_UNSUPPORTED names an architecture or an option that is not computed here. */
weir_status transformer_config_read(const char *path, struct transformer_config *out, weir_error *err) WEIR_MUST_CHECK;

bool rope_same(const struct rope_config *a, const struct rope_config *b);
/* That one model's weights mean the same in the other. E_INVALID names the first key of
 * config.json that says otherwise, with what each of them says. A Llama may have positions for
 * more tokens than the other. */
weir_status transformer_config_same(const struct transformer_config *a, const char *a_name, const struct transformer_config *b,
                                    const char *b_name, weir_error *err) WEIR_MUST_CHECK;

/* Sets the keys of a config.json that say the same, in the words of transformers 4, which later ones understand, too. */
void transformer_config_put(const struct transformer_config *c, struct json *j);

/* inverse_frequencies (head_dim / 2) of rotary positions: token t turns pair i by t * inverse_frequencies[i]. In the fp32 operations that transformers
 * uses, since at position 10,000 a last bit is an angle's third decimal. */
void rope_frequencies(const struct rope_config *r, uint32_t head_dim, float *inverse_frequencies);

#endif
