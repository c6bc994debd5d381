/* The planted click model: a row is a pure function of (ids, seed, row number), and so is the true log-odds of its click.
 *
 *   logit = bias + sum_j w_j (log(1 + x_j) - m_j)                13 numbers: first order
 *         + sum_f a_f[i_f]                                       26 categories: first order
 *         + sum_(f,g) u_f[i_f] u_g[i_g]                          PLANTED_PAIRS pairs of fields: second order
 *         + sum_(f,g,h) v_f[i_f] v_g[i_g] v_h[i_h]               PLANTED_TRIPLES triples of fields: third order
 *
 * Ids are drawn by a power law, P(rank) ~ (rank + 1)^-s with s from 1.20 to 1.35, over vocabularies from 3 to several hundred thousand. Every id
 * has effects; they shrink with its rank, as 1 / (1 + (rank / 8)^2) alone and 1 / (1 + (rank / 32)^2) in pairs and triples: what few rows show
 * can hardly be learnt, so little of it is planted, and the best possible score is one that a model can reach. Each pair and triple joins
 * a large field to small ones; the large fields so joined hold more than half of all ids.
 *
 * Factors of pairs and triples are +1 or -1, centred under the law of their field, plus a mean (1/2 and 1). Without it the terms would be
 * orthogonal to all lower orders, and a learner would have to find them on a plateau, in its own time. Each order is scaled to a
 * fixed variance, measured on a sample of rows, and the bias to a click rate of one in four.  */
#ifndef WEIR_PLANTED_H
#define WEIR_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

#define PLANTED_NUMBERS 13u
#define PLANTED_FIELDS  26u
#define PLANTED_PAIRS   4u
#define PLANTED_TRIPLES 1u

struct planted_row {
	int32_t numbers[PLANTED_NUMBERS]; /* >= 0; -1: missing */
	uint32_t ranks[PLANTED_FIELDS];   /* of the id in its vocabulary, 0 the most frequent */
	float logit;
	bool click;
};

struct planted;
struct planted *planted_create(uint64_t ids, uint64_t seed); /* NULL when out of memory. Needs IDS_MIN <= ids <= IDS_MAX. */
void planted_destroy(struct planted *p);
uint64_t planted_ids(const struct planted *p); /* of all vocabularies together */
uint32_t planted_vocabulary(const struct planted *p, uint32_t field);
/* Thread-safe. */
void planted_draw(const struct planted *p, uint64_t row, struct planted_row *out);
/* What stands in the file for an id: distinct within its field. */
uint32_t planted_token(const struct planted *p, uint32_t field, uint32_t rank);

#endif
