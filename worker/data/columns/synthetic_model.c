/* The synthetic click model (synthetic_model.h). The alias method (Walker 1977; Vose 1991) draws an
 * id in constant time. */
#include "worker/data/columns/synthetic_model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/base/prng.h"

#define SHRINK_RANK_ALONE  8.0
#define SHRINK_RANK_FACTOR 32.0
#define PAIR_MEAN          0.5
#define TRIPLE_MEAN        1.0
#define EXPONENT_MIN       1.20
#define CALIBRATION_ROWS   16384u
#define CLICK_RATE         0.25
/* Variances of the three orders of the logit. Together they give a best AUC of about 0.84. */
#define VARIANCE_FIRST  2.00
#define VARIANCE_SECOND 0.60
#define VARIANCE_THIRD  0.25

/* Distribution of the ids of one field: cell `c` gives id c with probability `keep`, else
 * `other`. */
struct cell {
	float keep;
	uint32_t other;
};

/* The effects of one id. */
struct effect {
	float first;
	float pair;   /* factor in the field's pair */
	float triple; /* factor in the field's triple */
};

struct field {
	uint32_t vocabulary, token_salt;
	struct cell *law;       /* (vocabulary) */
	struct effect *effects; /* (vocabulary) */
};

struct synthetic_model {
	uint64_t seed, ids;
	double bias;
	float number_weight[SYNTHETIC_NUMBERS], number_mean[SYNTHETIC_NUMBERS], number_spread[SYNTHETIC_NUMBERS];
	struct field fields[SYNTHETIC_FIELDS];
};

/* Vocabularies of the small fields. 0: a large field, which gets its share of all other ids. */
static const uint32_t small_vocabulary[SYNTHETIC_FIELDS] = {0,  500, 0,  0,   300, 24, 0,   0, 600, 3,  0, 0,  0,
                                                            30, 0,   10, 120, 0,   4,  200, 0, 80,  15, 0, 50, 0};
/* Each has one large field; these five have 26 of the 49 shares. */
static const uint32_t pairs[SYNTHETIC_PAIRS][2] = {{7, 18}, {17, 15}, {6, 13}, {14, 22}};
static const uint32_t triples[SYNTHETIC_TRIPLES][3] = {{12, 9, 15}};

static double shrink(uint32_t rank, double half)
{
	double x = (double)rank / half;
	return 1.0 / (1.0 + x * x);
}

static double exponent_of(uint32_t field)
{
	return EXPONENT_MIN + 0.01 * (double)(field * 7 % 16);
}

/* Fills `law` so that drawing a cell uniformly and then applying `keep` follows the weights.
 * Overwrites `weights`. */
static bool alias_build(struct cell *law, double *weights, uint32_t n)
{
	/* Small ones grow from the left, large ones from the right. */
	uint32_t *stack = malloc(n * sizeof *stack);
	if (!stack)
		return false;
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += weights[i];
	uint32_t small = 0, large = n;
	for (uint32_t i = 0; i < n; i++) {
		weights[i] *= (double)n / total;
		law[i] = (struct cell){1.0f, i};
		if (weights[i] < 1.0)
			stack[small++] = i;
		else
			stack[--large] = i;
	}
	while (small > 0 && large < n) {
		uint32_t s = stack[--small], l = stack[large];
		law[s] = (struct cell){(float)weights[s], l};
		weights[l] -= 1.0 - weights[s];
		if (weights[l] < 1.0) {
			large++;
			stack[small++] = l;
		}
	}
	free(stack);
	return true;
}

static uint32_t alias_draw(const struct field *f, struct prng *r)
{
	uint64_t bits = prng_u64(r);
	uint32_t c = (uint32_t)(((bits >> 32) * f->vocabulary) >> 32);
	float u = (float)(bits & 0xffffff) * 0x1p-24f;
	return u < f->law[c].keep ? c : f->law[c].other;
}

/* Draws +1 or -1. The two most frequent ids get opposite signs, so that even a field of three ids
 * has both. */
static double draw_sign(struct prng *r, uint32_t rank, double previous)
{
	double sign = prng_u64(r) & 1 ? 1.0 : -1.0;
	return rank == 1 ? -previous : sign;
}

/* Draws a field's effects. Its factors get their means under the field's distribution. */
static void effects_draw(struct field *f, const double *probability, struct prng *r)
{
	double mass = 0, pair_mean = 0, triple_mean = 0;
	for (uint32_t i = 0; i < f->vocabulary; i++) {
		struct effect *e = &f->effects[i];
		double weight = probability[i] * shrink(i, SHRINK_RANK_FACTOR);
		e->first = (float)(shrink(i, SHRINK_RANK_ALONE) * (double)prng_normal(r));
		e->pair = (float)draw_sign(r, i, i == 0 ? 0.0 : (double)e[-1].pair);
		e->triple = (float)draw_sign(r, i, i == 0 ? 0.0 : (double)e[-1].triple);
		mass += weight;
		pair_mean += weight * (double)e->pair;
		triple_mean += weight * (double)e->triple;
	}
	for (uint32_t i = 0; i < f->vocabulary; i++) {
		struct effect *e = &f->effects[i];
		double scale = shrink(i, SHRINK_RANK_FACTOR);
		e->pair = (float)(scale * ((double)e->pair - pair_mean / mass + PAIR_MEAN));
		e->triple = (float)(scale * ((double)e->triple - triple_mean / mass + TRIPLE_MEAN));
	}
}

static bool field_build(struct synthetic_model *p, uint32_t index)
{
	struct field *f = &p->fields[index];
	uint32_t n = f->vocabulary;
	double s = exponent_of(index), total = 0;
	f->law = malloc(n * sizeof *f->law);
	f->effects = malloc(n * sizeof *f->effects);
	double *weights = malloc(n * sizeof *weights);
	bool ok = f->law && f->effects && weights != NULL;
	if (ok) {
		for (uint32_t i = 0; i < n; i++)
			total += weights[i] = pow((double)i + 1.0, -s);
		for (uint32_t i = 0; i < n; i++)
			weights[i] /= total;
		struct prng r;
		prng_seed(&r, prng_mix(p->seed, 1, index));
		effects_draw(f, weights, &r);
		f->token_salt = (uint32_t)prng_u64(&r);
		ok = alias_build(f->law, weights, n);
	}
	free(weights);
	return ok;
}

static void vocabularies_choose(struct synthetic_model *p, uint64_t ids)
{
	uint64_t rest = ids;
	uint32_t large = 0, shares = 0, share[SYNTHETIC_FIELDS] = {0};
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++) {
		p->fields[f].vocabulary = small_vocabulary[f];
		rest -= small_vocabulary[f];
		if (small_vocabulary[f] == 0)
			shares += share[f] = 2 + large++ % 5;
	}
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		if (share[f] > 0)
			p->fields[f].vocabulary = (uint32_t)(rest * share[f] / shares);
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		p->ids += p->fields[f].vocabulary;
	/* Field 0, a large one, gets what rounding left. */
	p->fields[0].vocabulary += (uint32_t)(ids - p->ids);
	p->ids = ids;
}

/* Computes the three orders of a row's logit. */
static void orders_of(const struct synthetic_model *p, const struct synthetic_row *row, double out[3])
{
	const struct effect *e[SYNTHETIC_FIELDS];
	double first = 0, second = 0, third = 0;
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++) {
		e[f] = &p->fields[f].effects[row->ranks[f]];
		first += (double)e[f]->first;
	}
	for (uint32_t j = 0; j < SYNTHETIC_NUMBERS; j++) {
		int32_t x = row->numbers[j] < 0 ? 0 : row->numbers[j];
		first += (double)p->number_weight[j] * (log1p((double)x) - (double)p->number_mean[j]);
	}
	for (uint32_t k = 0; k < SYNTHETIC_PAIRS; k++)
		second += (double)e[pairs[k][0]]->pair * (double)e[pairs[k][1]]->pair;
	for (uint32_t k = 0; k < SYNTHETIC_TRIPLES; k++)
		third += (double)e[triples[k][0]]->triple * (double)e[triples[k][1]]->triple * (double)e[triples[k][2]]->triple;
	out[0] = first;
	out[1] = second;
	out[2] = third;
}

static void features_draw(const struct synthetic_model *p, struct prng *r, struct synthetic_row *out)
{
	for (uint32_t j = 0; j < SYNTHETIC_NUMBERS; j++) {
		double log_x = (double)p->number_mean[j] + (double)p->number_spread[j] * (double)prng_normal(r);
		bool missing = (prng_u64(r) & 15) < j % 5;
		out->numbers[j] = missing ? -1 : log_x > 14.0 ? 1202604 : (int32_t)exp(log_x);
	}
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		out->ranks[f] = alias_draw(&p->fields[f], r);
}

/* Scales a pair's or a triple's product once, in the factors of its first field. */
static void scale_effects(struct synthetic_model *p, const double scale[3])
{
	float pair[SYNTHETIC_FIELDS], triple[SYNTHETIC_FIELDS];
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		pair[f] = triple[f] = 1.0f;
	for (uint32_t k = 0; k < SYNTHETIC_PAIRS; k++)
		pair[pairs[k][0]] = (float)scale[1];
	for (uint32_t k = 0; k < SYNTHETIC_TRIPLES; k++)
		triple[triples[k][0]] = (float)scale[2];
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		for (uint32_t i = 0; i < p->fields[f].vocabulary; i++) {
			struct effect *e = &p->fields[f].effects[i];
			*e = (struct effect){e->first * (float)scale[0], e->pair * pair[f], e->triple * triple[f]};
		}
	for (uint32_t j = 0; j < SYNTHETIC_NUMBERS; j++)
		p->number_weight[j] *= (float)scale[0];
}

/* Scales each order to its variance, then finds the bias by bisection. The sample has a random
 * stream of its own, apart from those of all rows. */
static bool calibrate(struct synthetic_model *p)
{
	static const double target[3] = {VARIANCE_FIRST, VARIANCE_SECOND, VARIANCE_THIRD};
	double *logits = malloc(CALIBRATION_ROWS * sizeof *logits);
	if (!logits)
		return false;
	double sum[3] = {0}, squares[3] = {0}, scale[3];
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < CALIBRATION_ROWS; i++) {
			struct prng r;
			struct synthetic_row row;
			double order[3];
			prng_seed(&r, prng_mix(p->seed, 3, i));
			features_draw(p, &r, &row);
			orders_of(p, &row, order);
			logits[i] = order[0] + order[1] + order[2];
			for (int k = 0; k < 3 && round == 0; k++) {
				sum[k] += order[k];
				squares[k] += order[k] * order[k];
			}
		}
		for (int k = 0; k < 3 && round == 0; k++) {
			double mean = sum[k] / CALIBRATION_ROWS;
			scale[k] = sqrt(target[k] / (squares[k] / CALIBRATION_ROWS - mean * mean));
		}
		if (round == 0)
			scale_effects(p, scale);
	}
	double low = -50, high = 50;
	for (int step = 0; step < 60; step++) {
		double middle = (low + high) / 2, clicks = 0;
		for (uint32_t i = 0; i < CALIBRATION_ROWS; i++)
			clicks += 1.0 / (1.0 + exp(-middle - logits[i]));
		if (clicks < CLICK_RATE * CALIBRATION_ROWS)
			low = middle;
		else
			high = middle;
	}
	p->bias = low;
	free(logits);
	return true;
}

struct synthetic_model *synthetic_model_create(uint64_t ids, uint64_t seed)
{
	_Static_assert(WEIR_GENERATE_IDS_MIN == SYNTHETIC_FIELDS * 512, "512 a field");
	assert(ids >= WEIR_GENERATE_IDS_MIN && ids <= WEIR_GENERATE_IDS_MAX);
	struct synthetic_model *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->seed = seed;
	vocabularies_choose(p, ids);
	struct prng r;
	prng_seed(&r, prng_mix(seed, 0, 0));
	for (uint32_t j = 0; j < SYNTHETIC_NUMBERS; j++) {
		p->number_weight[j] = 0.15f * prng_normal(&r);
		p->number_mean[j] = 1.0f + 3.0f * (float)prng_unit(&r);
		p->number_spread[j] = 0.5f + (float)prng_unit(&r);
	}
	bool ok = true;
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS && ok; f++)
		ok = field_build(p, f);
	if (!ok || !calibrate(p)) {
		synthetic_model_destroy(p);
		return NULL;
	}
	return p;
}

void synthetic_model_destroy(struct synthetic_model *p)
{
	if (!p)
		return;
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++) {
		free(p->fields[f].law);
		free(p->fields[f].effects);
	}
	free(p);
}

uint64_t synthetic_model_ids(const struct synthetic_model *p)
{
	return p->ids;
}
uint32_t synthetic_model_vocabulary(const struct synthetic_model *p, uint32_t field)
{
	return p->fields[field].vocabulary;
}

void synthetic_model_draw(const struct synthetic_model *p, uint64_t row, struct synthetic_row *out)
{
	struct prng r;
	double order[3];
	prng_seed(&r, prng_mix(p->seed, 2, row));
	features_draw(p, &r, out);
	orders_of(p, out, order);
	out->logit = (float)(p->bias + order[0] + order[1] + order[2]);
	out->click = prng_unit(&r) < 1.0 / (1.0 + exp(-(double)out->logit));
}

uint32_t synthetic_model_token(const struct synthetic_model *p, uint32_t field, uint32_t rank)
{
	uint32_t x = rank + p->fields[field].token_salt; /* each step is a bijection of 32 bits */
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	x ^= x >> 16;
	return x;
}
