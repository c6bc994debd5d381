/* The synthetic click model. A row, and the true log-odds of its click, are pure functions of (ids,
 * seed, row number).
 *
 *   logit = bias + sum_j w_j (log(1 + x_j) - m_j)            13 numbers: first order
 *         + sum_f a_f[i_f]                                   26 categories: first order
 *         + sum_(f,g) u_f[i_f] u_g[i_g]                     SYNTHETIC_PAIRS pairs of fields: second
 *         + sum_(f,g,h) v_f[i_f] v_g[i_g] v_h[i_h]           SYNTHETIC_TRIPLES triples: third order
 *
 * Ids follow a power law, P(rank) ~ (rank + 1)^-s with s from 1.20 to 1.35, over vocabularies of 3
 * to several hundred thousand ids. Every id has effects. They shrink with its rank: as 1 / (1 +
 * (rank / 8)^2) alone, and as 1 / (1 + (rank / 32)^2) in pairs and triples. Effects that few rows
 * show are hard to learn, so they are small, and a model can reach the best possible score. Each
 * pair and triple joins a large field to small ones; these large fields hold more than half of all
 * ids.
 *
 * Factors of pairs and triples are +1 or -1, centred under the distribution of their field, plus a
 * mean (1/2 and 1). Without the mean, the terms would be orthogonal to all lower orders, and a
 * learner would need an unpredictable time to find them on a plateau. Each order is scaled to a
 * fixed variance, measured on a sample of rows, and the bias is set to a click rate of one in
 * four. */
#ifndef WEIR_SYNTHETIC_MODEL_H
#define WEIR_SYNTHETIC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define SYNTHETIC_NUMBERS 13u
#define SYNTHETIC_FIELDS  26u
#define SYNTHETIC_PAIRS   4u
#define SYNTHETIC_TRIPLES 1u

struct synthetic_row {
	int32_t numbers[SYNTHETIC_NUMBERS]; /* >= 0; -1: missing */
	uint32_t ranks[SYNTHETIC_FIELDS];   /* rank of the id in its vocabulary; 0 is the most frequent */
	float logit;
	bool click;
};

struct synthetic_model;
/* Needs WEIR_GENERATE_IDS_MIN <= ids <= WEIR_GENERATE_IDS_MAX. Returns NULL when out of memory. */
struct synthetic_model *synthetic_model_create(uint64_t ids, uint64_t seed);
void synthetic_model_destroy(struct synthetic_model *p);
uint64_t synthetic_model_ids(const struct synthetic_model *p); /* size of all vocabularies together */
uint32_t synthetic_model_vocabulary(const struct synthetic_model *p, uint32_t field);
/* Thread-safe. */
void synthetic_model_draw(const struct synthetic_model *p, uint64_t row, struct synthetic_row *out);
/* Returns an id as it stands in the file: distinct within its field. */
uint32_t synthetic_model_token(const struct synthetic_model *p, uint32_t field, uint32_t rank);

#endif
