/* The shape of a transformer, as in Hugging Face's config.json: the GPT-2 family (Radford et al.
 * 2019) and the Llama family (Touvron et al. 2023; Llama 3's scaled rotary positions).
 *
 * Reading a file refuses features that are not supported and names their key. */
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
	double factor; /* linear: divides positions; llama3: see low_factor */
	/* llama3: `factor` divides positions for wave lengths above original_context / low_factor, and
	 * not for those below original_context / high_factor; between them, a share of each. */
	double low_factor, high_factor;
	uint32_t original_context; /* llama3: in tokens */
};

struct transformer_config {
	enum transformer_family family;
	uint32_t vocabulary, context; /* in tokens; in positions */
	uint32_t layers, heads, kv_heads, head_dim;
	uint32_t width, hidden; /* of the residual stream; of the feed-forward part */
	float norm_eps;
	float init_std;
	bool tied_head;                /* the head is the token embedding */
	bool attention_bias, mlp_bias; /* both true for GPT-2 */
	struct rope_config rope;       /* Llama only */
};

/* Sets the members that are 0 to their defaults: kv_heads from heads, head_dim from width, hidden
 * from width, and those that do not depend on size. */
void transformer_config_default(struct transformer_config *c);
/* E_INVALID or E_LIMIT names the member that does not fit, as a key of config.json. */
weir_status transformer_config_check(const struct transformer_config *c, const char *name, weir_error *err) WEIR_MUST_CHECK;
/* Reads a config.json. E_UNSUPPORTED names an architecture or an option that cannot be computed. */
weir_status transformer_config_read(const char *path, struct transformer_config *out, weir_error *err) WEIR_MUST_CHECK;

bool rope_same(const struct rope_config *a, const struct rope_config *b);
/* Checks that weights of one model mean the same in the other. E_INVALID names the first key of
 * config.json that differs, with both values. The number of positions may differ between two
 * Llamas. */
weir_status transformer_config_same(const struct transformer_config *a, const char *a_name, const struct transformer_config *b,
                                    const char *b_name, weir_error *err) WEIR_MUST_CHECK;

/* Sets the config.json keys that describe this model, in the words of transformers 4. Later
 * versions understand them too. */
void transformer_config_put(const struct transformer_config *c, struct json *j);

/* Computes inverse_frequencies (head_dim / 2) of rotary positions: token t rotates pair i by
 * t * inverse_frequencies[i]. It uses the same fp32 operations as transformers: at position 10,000
 * a last bit is an angle's third decimal. */
void rope_frequencies(const struct rope_config *r, uint32_t head_dim, float *inverse_frequencies);

#endif
