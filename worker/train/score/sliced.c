#include "worker/train/score/sliced.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text_index.h"

/* Evaluation while rows are scored. */
struct slicing {
	struct text_index *values;
	uint64_t *lines;    /* (values) */
	uint32_t *slice_of; /* (values) the slice of each value */
	uint32_t slices;    /* with the rest, if there is one */
	bool has_rest;
	struct quality_taker *takers; /* (slices) */
	struct quality_taker all;
	struct dataset_lines *data; /* in step with the scored rows */
	uint32_t column;
	uint32_t task;         /* whose figures these are */
	size_t *rows, *sorted; /* (capacity) a batch's slices, and its rows ordered by them */
	size_t *ends;          /* (slices) */
	uint32_t capacity;
	uint64_t left_out;
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for slices of the data");
}

/* --- The values */

static weir_status open_lines(struct slicing *g, struct dataset *data, const char *column, weir_error *err)
{
	dataset_lines_close(g->data);
	g->data = NULL;
	const weir_status status = dataset_lines_open(&g->data, data, err);
	return status == WEIR_OK ? dataset_lines_find(g->data, column, &g->column, err) : status;
}

/* Takes the value of the next line. E_NOT_FOUND: there are no more lines. */
static weir_status next_value(struct slicing *g, const char **text, size_t *n, weir_error *err)
{
	const char *file;
	uint64_t line;
	const weir_status status = dataset_lines_next(g->data, &file, &line, err);
	if (status == WEIR_OK) {
		const struct dataset_cell cell = dataset_lines_cell(g->data, g->column);
		*text = cell.text;
		*n = cell.n;
	}
	return status;
}

static weir_status count_values(struct slicing *g, const char *column, weir_error *err)
{
	const char *text;
	size_t n, capacity = 0;
	weir_status status;
	while ((status = next_value(g, &text, &n, err)) == WEIR_OK) {
		uint32_t value;
		if (!text_index_add(g->values, text, n, &value))
			return out_of_memory(err);
		if (value == WEIR_SLICE_VALUES_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "column '%s' has more than %u values: slice by one with fewer", column,
			                 WEIR_SLICE_VALUES_MAX);
		if (value == capacity) {
			capacity = 2 * capacity + 64;
			uint64_t *more = realloc(g->lines, capacity * sizeof *more);
			if (!more)
				return out_of_memory(err);
			memset(more + value, 0, (capacity - value) * sizeof *more);
			g->lines = more;
		}
		g->lines[value]++;
	}
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

struct counted {
	uint64_t lines;
	uint32_t value;
};

static int by_lines(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	return x->lines != y->lines ? (x->lines < y->lines) - (x->lines > y->lines) : (x->value > y->value) - (x->value < y->value);
}

/* Gives the values with the most lines a slice each, and all others one together. */
static weir_status choose(struct slicing *g, uint32_t top, struct sliced *out, weir_error *err)
{
	const uint32_t values = text_index_count(g->values), own = values < top ? values : top;
	struct counted *order = malloc((values + 1) * sizeof *order);
	g->has_rest = values > top;
	g->slices = own + g->has_rest;
	g->slice_of = malloc((values + 1) * sizeof *g->slice_of);
	g->takers = calloc(g->slices + 1, sizeof *g->takers);
	g->ends = calloc(g->slices + 1, sizeof *g->ends);
	out->slices = calloc(g->slices + 1, sizeof *out->slices);
	bool ok = order && g->slice_of && g->takers && g->ends && out->slices;
	for (uint32_t v = 0; v < values && ok; v++) {
		order[v] = (struct counted){g->lines[v], v};
		g->slice_of[v] = own;
	}
	if (ok)
		qsort(order, values, sizeof *order, by_lines);
	for (uint32_t i = 0; i < g->slices && ok; i++)
		quality_taker_init(&g->takers[i]);
	for (uint32_t i = 0; i < own && ok; i++) {
		size_t n;
		g->slice_of[order[i].value] = i;
		const char *text = text_index_text(g->values, order[i].value, &n);
		out->slices[i].value = malloc(n + 1);
		ok = out->slices[i].value;
		for (size_t k = 0; k <= n && ok; k++) /* of a list, bars stand between two texts */
			out->slices[i].value[k] = k < n && !text[k] ? '|' : text[k];
	}
	free(order);
	out->count = ok ? g->slices : 0;
	out->values = values;
	return ok ? WEIR_OK : out_of_memory(err);
}

/* --- The rows */

static bool reserve(struct slicing *g, uint32_t rows)
{
	if (rows <= g->capacity)
		return true;
	free(g->rows);
	free(g->sorted);
	g->rows = malloc(rows * sizeof *g->rows);
	g->sorted = malloc(rows * sizeof *g->sorted);
	g->capacity = g->rows && g->sorted ? rows : 0;
	return g->capacity > 0;
}

static bool is_labelled(float label)
{
	return !isnan(label) && label != LABEL_BAD && label != LABEL_BLANK;
}

/* Finds the slice of each row of the batch: `slices` for a row that is left out. */
static weir_status find_slices(struct slicing *g, const struct batch *batch, weir_error *err)
{
	memset(g->ends, 0, (g->slices + 1) * sizeof *g->ends);
	for (uint32_t r = 0; r < batch->rows; r++) {
		const char *text = "";
		size_t n = 0;
		uint32_t value = 0;
		weir_status status = next_value(g, &text, &n, err);
		if (status == WEIR_E_NOT_FOUND || (status == WEIR_OK && !text_index_find(g->values, text, n, &value)))
			status = weir_fail(err, WEIR_E_CORRUPT, "the data have other lines than a moment ago");
		if (status != WEIR_OK)
			return status;
		const bool counts = is_labelled(batch->labels[(size_t)r * batch->tasks + g->task]);
		g->rows[r] = counts ? g->slice_of[value] : g->slices;
		g->left_out += !counts;
		g->ends[g->rows[r]]++;
	}
	return WEIR_OK;
}

/* Adds the rows that count to the figures of all, in their order. */
static weir_status add_to_all(struct slicing *g, const struct batch *batch, struct scored *rows, weir_error *err)
{
	rows->rows = g->sorted;
	rows->n = 0;
	for (uint32_t r = 0; r < batch->rows; r++)
		if (g->rows[r] < g->slices)
			g->sorted[rows->n++] = r;
	return quality_add(&g->all, rows, err);
}

/* Orders the batch's rows by slice, and adds each slice's. */
static weir_status add_to_slices(struct slicing *g, const struct batch *batch, struct scored *rows, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 1; i <= g->slices; i++)
		g->ends[i] += g->ends[i - 1];
	for (uint32_t r = batch->rows; r-- > 0;)
		g->sorted[--g->ends[g->rows[r]]] = r;
	const size_t *begins = g->ends; /* now */
	for (uint32_t i = 0; i < g->slices && status == WEIR_OK; i++) {
		rows->rows = g->sorted + begins[i];
		rows->n = begins[i + 1] - begins[i];
		status = quality_add(&g->takers[i], rows, err);
	}
	return status;
}

static weir_status add_rows(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct slicing *g = arg;
	struct scored rows = {.labels = batch->labels + g->task,
	                      .scores = scores + g->task,
	                      .weights = batch->weights,
	                      .groups = batch->groups,
	                      .stride = batch->tasks};
	if (!reserve(g, batch->rows))
		return out_of_memory(err);
	weir_status status = find_slices(g, batch, err);
	if (status == WEIR_OK)
		status = add_to_all(g, batch, &rows, err);
	return status == WEIR_OK ? add_to_slices(g, batch, &rows, err) : status;
}

static weir_status take(struct slicing *g, const struct job *job, struct sliced *out, weir_error *err)
{
	weir_status status = quality_take(&g->all, job->train.rank_at, job->train.rank_at_count, &out->all, err);
	for (uint32_t i = 0; i < g->slices && status == WEIR_OK; i++)
		status = quality_take(&g->takers[i], job->train.rank_at, job->train.rank_at_count, &out->slices[i].quality, err);
	out->left_out = g->left_out;
	return status;
}

static void slicing_destroy(struct slicing *g)
{
	for (uint32_t i = 0; g->takers && i < g->slices; i++)
		quality_taker_destroy(&g->takers[i]);
	quality_taker_destroy(&g->all);
	dataset_lines_close(g->data);
	text_index_destroy(g->values);
	free(g->lines);
	free(g->slice_of);
	free(g->takers);
	free(g->ends);
	free(g->rows);
	free(g->sorted);
}

weir_status scorer_evaluate_by(struct scorer *s, struct dataset *data, const struct job *job, const char *column, uint32_t top,
                               struct sliced *out, weir_error *err)
{
	struct slicing g = {.values = text_index_create(), .task = job_best_task(job)};
	*out = (struct sliced){.all = quality_none()};
	quality_taker_init(&g.all);
	weir_status status = g.values ? open_lines(&g, data, column, err) : out_of_memory(err);
	if (status == WEIR_OK)
		status = count_values(&g, column, err);
	if (status == WEIR_OK)
		status = choose(&g, top, out, err);
	if (status == WEIR_OK)
		status = open_lines(&g, data, column, err);
	if (status == WEIR_OK)
		status = scorer_run(s, data, add_rows, &g, err);
	if (status == WEIR_OK)
		status = take(&g, job, out, err);
	slicing_destroy(&g);
	return status;
}

void sliced_destroy(struct sliced *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->slices[i].value);
	free(s->slices);
	*s = (struct sliced){0};
}
