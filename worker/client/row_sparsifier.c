#include "worker/client/row_sparsifier.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* an element that was not added has no hh.tbl */
#include <uthash.h>

#include "common/base/limits.h"
#include "kernels/codec.h"
#include "kernels/topk.h"

struct kept_row {
	UT_hash_handle hh;
	uint64_t key;
	double energy;    /* |values|^2 */
	float importance; /* when it was kept */
	float values[];
};

struct row_sparsifier {
	double share; /* of a piece's rows that are sent */
	uint32_t width;
	size_t count_max;
	struct kept_row *rows;
	/* Of the present piece: */
	uint32_t room;
	uint64_t *keys;    /* (room) */
	float *values;     /* (room, width) */
	double *energies;  /* (room) */
	float *importance; /* (room) rows with more are sent sooner */
	double kept;       /* energy of all rows kept back */
	/* Of the present push: energy of its rows with their residuals, and of the part that was
	 * kept. */
	double before, after;
	uint64_t pushes;
	double error, error_sum;
};

struct row_sparsifier *row_sparsifier_create(const weir_table_spec *spec, weir_error *err)
{
	struct row_sparsifier *k = calloc(1, sizeof *k);
	if (!k) {
		(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory for the rows that are kept back", spec->name);
		return NULL;
	}
	k->share = (double)spec->push.rows;
	k->width = spec->width;
	k->count_max = WEIR_KEPT_ROWS_BYTES_MAX / (sizeof(uint64_t) + spec->width * sizeof(float));
	k->error = 1;
	return k;
}

static void drop(struct row_sparsifier *k, struct kept_row *row)
{
	k->kept -= row->energy;
	HASH_DEL(k->rows, row);
	free(row);
}

void row_sparsifier_forget(struct row_sparsifier *k)
{
	struct kept_row *row, *next;
	HASH_ITER(hh, k->rows, row, next)
	drop(k, row);
	k->kept = 0;
}

static void free_piece(struct row_sparsifier *k)
{
	free(k->keys);
	free(k->values);
	free(k->energies);
	free(k->importance);
}

void row_sparsifier_destroy(struct row_sparsifier *k)
{
	if (!k)
		return;
	row_sparsifier_forget(k);
	free_piece(k);
	free(k);
}

weir_status row_sparsifier_begin(struct row_sparsifier *k, uint32_t rows_max, weir_error *err)
{
	k->before = k->after = 0;
	if (rows_max <= k->room)
		return WEIR_OK;
	free_piece(k);
	k->keys = malloc(rows_max * sizeof *k->keys);
	k->values = malloc((size_t)rows_max * k->width * sizeof *k->values);
	k->energies = malloc(rows_max * sizeof *k->energies);
	k->importance = malloc(rows_max * sizeof *k->importance);
	k->room = k->keys && k->values && k->energies && k->importance ? rows_max : 0;
	return k->room ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "push: out of memory for %u rows", rows_max);
}

void row_sparsifier_end(struct row_sparsifier *k)
{
	if (k->before <= 0)
		return;
	k->error = 1 - k->after / k->before;
	k->error_sum += k->error;
	k->pushes++;
}

/* --- Selecting */

static void add(float *to, const float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] += x[i];
}

static struct kept_row *find(const struct row_sparsifier *k, uint64_t key)
{
	struct kept_row *row;
	HASH_FIND(hh, k->rows, &key, sizeof key, row);
	return row;
}

/* Sums gradients of equal keys, and what is kept of them, into one row each, and their scores
 * likewise. Returns the number of rows. */
static uint32_t gather(struct row_sparsifier *k, const struct rows *all)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < all->count; i++) {
		const size_t at = all->order ? all->order[i] : i;
		const float *values = all->values + at * k->width, score = all->scores ? all->scores[at] : 0;
		if (n && k->keys[n - 1] == all->keys[i]) {
			k->importance[n - 1] += score;
			add(k->values + (size_t)(n - 1) * k->width, values, k->width);
			continue;
		}
		float *to = k->values + (size_t)n * k->width;
		memcpy(to, values, k->width * sizeof *to);
		const struct kept_row *row = find(k, all->keys[i]);
		if (row)
			add(to, row->values, k->width);
		k->importance[n] = row ? row->importance + score : score;
		k->keys[n++] = all->keys[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		k->energies[i] = codec_sum_squares(k->values + (size_t)i * k->width, k->width);
		if (!all->scores)
			k->importance[i] = (float)fmin(sqrt(k->energies[i]), FLT_MAX);
		k->importance[i] = fminf(k->importance[i], FLT_MAX);
	}
	return n;
}

static struct kept_row *make(struct row_sparsifier *k, uint64_t key)
{
	struct kept_row *row = HASH_COUNT(k->rows) < k->count_max ? calloc(1, sizeof *row + k->width * sizeof *row->values) : NULL;
	if (!row)
		return NULL;
	row->key = key;
	HASH_ADD(hh, k->rows, key, sizeof row->key, row);
	if (row->hh.tbl)
		return row;
	free(row);
	return NULL;
}

/* Keeps row i of the piece back. Returns false if there is no room for it. */
static bool keep(struct row_sparsifier *k, uint32_t i)
{
	struct kept_row *row = find(k, k->keys[i]);
	if (!row)
		row = make(k, k->keys[i]);
	if (!row)
		return false;
	k->kept += k->energies[i] - row->energy;
	row->energy = k->energies[i];
	row->importance = k->importance[i];
	memcpy(row->values, k->values + (size_t)i * k->width, k->width * sizeof *row->values);
	return true;
}

/* Rows above it are sent, and as many rows at it as there are places. */
struct bar {
	float height;
	size_t places;
};

static struct bar bar_of(const struct row_sparsifier *k, uint32_t n, size_t wanted)
{
	struct bar bar = {.places = wanted};
	if (wanted >= n || topk_threshold(k->importance, n, wanted, &bar.height, NULL) != WEIR_OK)
		return (struct bar){.places = n};
	for (uint32_t i = 0; i < n; i++)
		bar.places -= k->importance[i] > bar.height;
	return bar;
}

static bool clears(struct bar *bar, float importance)
{
	if (importance < bar->height || (importance <= bar->height && bar->places == 0))
		return false;
	bar->places -= importance <= bar->height;
	return true;
}

struct rows row_sparsifier_select(struct row_sparsifier *k, const struct rows *all)
{
	const uint32_t n = gather(k, all);
	struct bar bar = bar_of(k, n, (size_t)ceil(k->share * n));
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++) {
		k->before += k->energies[i];
		const bool last_chance = count == 0 && i == n - 1;
		if (!clears(&bar, k->importance[i]) && !last_chance && keep(k, i)) {
			k->after += k->energies[i];
			continue;
		}
		row_sparsifier_take(k, k->keys[i]);
		memmove(k->values + (size_t)count * k->width, k->values + (size_t)i * k->width, k->width * sizeof *k->values);
		k->keys[count++] = k->keys[i];
	}
	return (struct rows){.keys = k->keys, .values = k->values, .count = count};
}

/* --- Rows kept back */

size_t row_sparsifier_count(const struct row_sparsifier *k)
{
	return HASH_COUNT(k->rows);
}

void row_sparsifier_copy(const struct row_sparsifier *k, uint64_t *keys, float *values)
{
	for (const struct kept_row *row = k->rows; row; row = row->hh.next, values += k->width) {
		*keys++ = row->key;
		memcpy(values, row->values, k->width * sizeof *values);
	}
}

void row_sparsifier_take(struct row_sparsifier *k, uint64_t key)
{
	struct kept_row *row = find(k, key);
	if (row)
		drop(k, row);
}

void row_sparsifier_get_stats(const struct row_sparsifier *k, weir_encoder_stats *out)
{
	const double kept = k->rows ? fmax(k->kept, 0) : 0; /* a rounded sum is not exactly 0 */
	*out = (weir_encoder_stats){
	    .pushes = k->pushes, .measured = k->pushes, .residual_norm = sqrt(kept), .error = k->error, .error_sum = k->error_sum};
}
