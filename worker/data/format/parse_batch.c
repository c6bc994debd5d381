#include "worker/data/format/parse_batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/arrow_column.h"
#include "worker/data/format/parse_cell.h"
#include "worker/data/format/parse_internal.h"

/* The ids of a field of bags, row after row. */
struct bag_column {
	struct rows ids;               /* its keys and values alone */
	size_t ends[PARSE_BATCH_ROWS]; /* of each row's ids */
};

struct parse_batch {
	const struct parser *parser;
	const struct table_layout *layout;
	struct row_reader *reader;
	struct arrow_ids *fields; /* (fields_count) */
	struct arrow_ids groups;
	struct bag_column **bags; /* (fields_count) NULL: a field with one id */
	int64_t *chosen;          /* (chosen_capacity) elements of a list that count */
	uint32_t chosen_capacity;
	/* The rows, without the ids of bags. */
	const int64_t *at; /* (n), borrowed */
	uint32_t n;
	bool odd[PARSE_BATCH_ROWS];
	float *labels;  /* (PARSE_BATCH_ROWS, labels_count) */
	float *weights; /* (PARSE_BATCH_ROWS) */
	float *dense;   /* (PARSE_BATCH_ROWS, dense_count) */
	uint64_t *ids;  /* (PARSE_BATCH_ROWS, fields_count) */
	uint64_t group_of[PARSE_BATCH_ROWS];
	char why[PARSE_WHY_BYTES]; /* parse_table says it again */
};

static bool is_bag(const struct table_feature *f)
{
	return f->column->kind == COLUMN_MULTI || f->column->kind == COLUMN_SEQUENCE;
}

static const struct arrow_column *column_of(const struct parse_batch *b, uint32_t cell)
{
	return &b->reader->arrow.columns[cell];
}

/* --- Lifetime */

static bool init_fields(struct parse_batch *b)
{
	const struct table_layout *l = b->layout;
	for (uint32_t f = 0; f < l->fields_count; f++) {
		arrow_ids_init(&b->fields[f], b->parser, &l->fields[f], is_bag(&l->fields[f]) ? "" : l->fields[f].column->empty);
		if (!is_bag(&l->fields[f]))
			continue;
		b->bags[f] = calloc(1, sizeof *b->bags[f]);
		if (!b->bags[f])
			return false;
		rows_init(&b->bags[f]->ids, (struct row_shape){0}, true);
	}
	return true;
}

weir_status parse_batch_create(struct parse_batch **out, const struct parser *p, struct row_reader *r, weir_error *err)
{
	const struct table_layout *l = p->layout;
	struct parse_batch *b = calloc(1, sizeof *b);
	if (!b)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
	*b = (struct parse_batch){.parser = p, .layout = l, .reader = r};
	b->fields = calloc(l->fields_count + 1, sizeof *b->fields);
	b->bags = calloc(l->fields_count + 1, sizeof *b->bags);
	b->labels = malloc(PARSE_BATCH_ROWS * ((size_t)l->labels_count + 1) * sizeof *b->labels);
	b->weights = malloc(PARSE_BATCH_ROWS * sizeof *b->weights);
	b->dense = malloc(PARSE_BATCH_ROWS * ((size_t)l->dense_count + 1) * sizeof *b->dense);
	b->ids = malloc(PARSE_BATCH_ROWS * ((size_t)l->fields_count + 1) * sizeof *b->ids);
	if (l->group != TABLE_NO_COLUMN)
		arrow_ids_init(&b->groups, p, NULL, l->group_empty);
	if (!b->fields || !b->bags || !b->labels || !b->weights || !b->dense || !b->ids || !init_fields(b)) {
		parse_batch_destroy(b);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
	}
	*out = b;
	return WEIR_OK;
}

void parse_batch_destroy(struct parse_batch *b)
{
	if (!b)
		return;
	for (uint32_t f = 0; f < b->layout->fields_count; f++) {
		if (b->fields)
			arrow_ids_destroy(&b->fields[f]);
		if (b->bags && b->bags[f])
			rows_destroy(&b->bags[f]->ids);
		if (b->bags)
			free(b->bags[f]);
	}
	arrow_ids_destroy(&b->groups);
	free(b->fields);
	free(b->bags);
	free(b->chosen);
	free(b->labels);
	free(b->weights);
	free(b->dense);
	free(b->ids);
	free(b);
}

weir_status parse_batch_begin(struct parse_batch *b, int64_t rows, weir_error *err)
{
	const struct table_layout *l = b->layout;
	weir_status status = WEIR_OK;
	for (uint32_t f = 0; f < l->fields_count && status == WEIR_OK; f++)
		status = arrow_ids_begin(&b->fields[f], column_of(b, l->fields[f].cell), rows, err);
	if (status == WEIR_OK && l->group != TABLE_NO_COLUMN)
		status = arrow_ids_begin(&b->groups, column_of(b, l->group), rows, err);
	return status;
}

/* --- Labels, weights, groups, numbers */

/* What the rules of cells need, at row j. */
static struct parsing parsing_at(struct parse_batch *b, uint32_t j, struct rows *out)
{
	arrow_reader_seek(&b->reader->arrow, b->at[j]);
	return (struct parsing){.parser = b->parser, .layout = b->layout, .reader = b->reader, .out = out, .why = b->why};
}

static bool label_of(float positive_above, double value, float *out)
{
	const float x = (float)value;
	*out = x > (isnan(positive_above) ? 0.5f : positive_above) ? 1.0f : 0.0f;
	return (double)x == value && isfinite(x) && (!isnan(positive_above) || x == 0 || x == 1 || x == -1);
}

static void read_labels(struct parse_batch *b, uint32_t task)
{
	const struct table_layout *l = b->layout;
	const struct table_label *label = &l->labels[task];
	const struct arrow_column *c = label->cell == TABLE_NO_COLUMN ? NULL : column_of(b, label->cell);
	const bool common = c && arrow_column_is_number(c) && !*label->positive;
	const bool may_lack = !*label->empty && (label->masked || b->parser->every_line);
	double values[PARSE_BATCH_ROWS];
	if (common)
		arrow_column_reals(c, b->at, b->n, values);
	for (uint32_t j = 0; j < b->n; j++) {
		float *out = &b->labels[j * l->labels_count + task];
		if (!common) {
			const struct parsing g = parsing_at(b, j, NULL);
			b->odd[j] |= parse_cell_label(&g, label, out) != PARSED_ROW;
		} else if (arrow_column_is_null(c, b->at[j])) {
			*out = LABEL_NONE;
			b->odd[j] |= !may_lack;
		} else {
			b->odd[j] |= !label_of(label->positive_above, values[j], out);
		}
	}
}

static void read_weights(struct parse_batch *b)
{
	const struct table_layout *l = b->layout;
	const struct arrow_column *c = column_of(b, l->weight);
	const bool common = arrow_column_is_number(c);
	double values[PARSE_BATCH_ROWS];
	if (common)
		arrow_column_reals(c, b->at, b->n, values);
	for (uint32_t j = 0; j < b->n; j++) {
		if (!common) {
			const struct parsing g = parsing_at(b, j, NULL);
			b->odd[j] |= parse_cell_weight(&g, &b->weights[j]) != PARSED_ROW;
			continue;
		}
		const float x = arrow_column_is_null(c, b->at[j]) ? l->weight_missing : (float)values[j];
		b->weights[j] = x;
		b->odd[j] |= !(x >= 0 && isfinite(x));
	}
}

static void check_times(struct parse_batch *b)
{
	for (uint32_t j = 0; j < b->n; j++) {
		const struct parsing g = parsing_at(b, j, NULL);
		b->odd[j] |= parse_cell_time(&g) != PARSED_ROW;
	}
}

/* The numbers of a column that is of no type of numbers. */
static void read_number_cells(struct parse_batch *b, uint32_t feature)
{
	const struct table_layout *l = b->layout;
	for (uint32_t j = 0; j < b->n; j++) {
		const struct parsing g = parsing_at(b, j, NULL);
		b->odd[j] |= parse_cell_number(&g, &l->dense[feature], &b->dense[(size_t)j * l->dense_count + feature]) != PARSED_ROW;
	}
}

static void read_numbers(struct parse_batch *b, uint32_t feature)
{
	const uint32_t dense = b->layout->dense_count;
	const struct table_feature *f = &b->layout->dense[feature];
	const struct arrow_column *c = column_of(b, f->cell);
	const bool log = f->column->transform == TRANSFORM_LOG1P;
	double values[PARSE_BATCH_ROWS];
	if (!arrow_column_is_number(c)) {
		read_number_cells(b, feature);
		return;
	}
	arrow_column_reals(c, b->at, b->n, values);
	for (uint32_t j = 0; j < b->n; j++) {
		const bool null = arrow_column_is_null(c, b->at[j]);
		const float x = null ? f->missing : (float)values[j];
		b->dense[(size_t)j * dense + feature] = log ? parse_cell_log(b->parser, x) : x;
		b->odd[j] |= !null && !isfinite(x);
	}
}

/* --- Ids */

static void read_ids(struct parse_batch *b, uint32_t field)
{
	const struct table_layout *l = b->layout;
	const struct table_feature *f = &l->fields[field];
	if (f->column->kind == COLUMN_CATEGORICAL) {
		arrow_ids_get(&b->fields[field], column_of(b, f->cell), b->at, b->n, &b->ids[field], l->fields_count, b->odd);
		return;
	}
	for (uint32_t j = 0; j < b->n; j++) {
		const struct parsing g = parsing_at(b, j, NULL);
		b->odd[j] |= parse_cell_key(&g, f, &b->ids[(size_t)j * l->fields_count + field]) != PARSED_ROW;
	}
}

/* Chooses the elements of a list that count: the first of a bag, the last of a history. */
static uint32_t choose(int64_t *chosen, const struct job_column *column, const struct arrow_column *values, int64_t begin,
                       int64_t end)
{
	uint32_t count = 0;
	if (column->kind == COLUMN_SEQUENCE) {
		int64_t first = end;
		while (first > begin && count < column->max_length)
			count += !arrow_ids_is_empty(values, --first);
		begin = first;
	}
	count = 0;
	for (; begin < end && count < column->max_length; begin++)
		if (!arrow_ids_is_empty(values, begin))
			chosen[count++] = begin;
	return count;
}

static bool reserve_chosen(struct parse_batch *b, uint32_t count)
{
	if (count <= b->chosen_capacity)
		return true;
	free(b->chosen);
	b->chosen = malloc(count * sizeof *b->chosen);
	b->chosen_capacity = b->chosen ? count : 0;
	return b->chosen != NULL;
}

/* Appends the ids of a list of at least one element. Returns false when out of memory. */
static bool append_list(struct parse_batch *b, uint32_t field, const struct arrow_column *values, int64_t begin, int64_t end,
                        bool *odd)
{
	const struct job_column *column = b->layout->fields[field].column;
	struct rows *ids = &b->bags[field]->ids;
	const uint32_t most = end - begin < column->max_length ? (uint32_t)(end - begin) : column->max_length;
	if (!arrow_ids_are_good(&b->fields[field], values, begin, end)) {
		*odd = true;
		return true;
	}
	if (!reserve_chosen(b, most) || !rows_reserve(ids, most))
		return false;
	const uint32_t count = choose(b->chosen, column, values, begin, end);
	const float value = column->pooling == POOLING_MEAN && count > 1 ? 1.0f / (float)count : 1.0f;
	for (uint32_t i = 0; i < count; i += ARROW_IDS_MAX) {
		bool refused[ARROW_IDS_MAX] = {false}; /* none is: all are good */
		const uint32_t n = count - i < ARROW_IDS_MAX ? count - i : ARROW_IDS_MAX;
		arrow_ids_get(&b->fields[field], values, b->chosen + i, n, ids->keys + ids->keys_count + i, 1, refused);
	}
	for (uint32_t i = 0; i < count; i++)
		ids->values[ids->keys_count + i] = value;
	ids->keys_count += count;
	return true;
}

static bool read_bags(struct parse_batch *b, uint32_t field)
{
	const struct table_feature *f = &b->layout->fields[field];
	const struct arrow_column *c = column_of(b, f->cell);
	struct bag_column *bag = b->bags[field];
	rows_clear(&bag->ids);
	for (uint32_t j = 0; j < b->n; j++) {
		int64_t begin = 0, end = 0;
		if (arrow_column_is_list(c) && !arrow_column_is_null(c, b->at[j]))
			arrow_column_range(c, b->at[j], &begin, &end);
		if (begin < end) {
			if (!append_list(b, field, c->child, begin, end, &b->odd[j]))
				return false;
		} else if (!arrow_column_is_list(c) || *f->column->empty) {
			const struct parsing g = parsing_at(b, j, &bag->ids);
			b->odd[j] |= parse_cell_bag(&g, f) != PARSED_ROW;
		}
		bag->ends[j] = bag->ids.keys_count;
	}
	return true;
}

static size_t bag_begin(const struct bag_column *bag, uint32_t j)
{
	return j == 0 ? 0 : bag->ends[j - 1];
}

/* A row may have only so many ids. */
static void check_counts(struct parse_batch *b)
{
	for (uint32_t j = 0; j < b->n; j++) {
		size_t count = 0;
		for (uint32_t f = 0; f < b->layout->fields_count; f++)
			count += b->bags[f] ? b->bags[f]->ends[j] - bag_begin(b->bags[f], j) : 1;
		b->odd[j] |= count > WEIR_FEATURES_PER_ROW_MAX;
	}
}

/* --- Rows */

weir_status parse_batch_read(struct parse_batch *b, const int64_t *at, uint32_t n, weir_error *err)
{
	const struct table_layout *l = b->layout;
	b->at = at;
	b->n = n;
	memset(b->odd, 0, n * sizeof *b->odd);
	for (uint32_t t = 0; t < l->labels_count; t++)
		read_labels(b, t);
	if (l->weight != TABLE_NO_COLUMN)
		read_weights(b);
	if (l->group != TABLE_NO_COLUMN)
		arrow_ids_get(&b->groups, column_of(b, l->group), at, n, b->group_of, 1, b->odd);
	if (l->split_is_time)
		check_times(b);
	for (uint32_t j = 0; j < l->dense_count; j++)
		read_numbers(b, j);
	for (uint32_t f = 0; f < l->fields_count; f++) {
		if (!b->bags[f])
			read_ids(b, f);
		else if (!read_bags(b, f))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
	}
	if (l->bags)
		check_counts(b);
	return WEIR_OK;
}

bool parse_batch_is_odd(const struct parse_batch *b, uint32_t j)
{
	return b->odd[j];
}

/* Appends the ids of row j, whose other columns are appended. Returns false when out of memory. */
static bool append_ids(const struct parse_batch *b, uint32_t j, struct rows *out)
{
	const uint32_t fields = b->layout->fields_count;
	uint32_t *offsets = out->offsets + (size_t)out->count * fields + 1;
	for (uint32_t f = 0; f < fields; f++) {
		const struct bag_column *bag = b->bags[f];
		const size_t begin = bag ? bag_begin(bag, j) : 0, count = bag ? bag->ends[j] - begin : 1;
		if (count > UINT32_MAX - out->keys_count || !rows_reserve(out, count))
			return false;
		for (size_t i = 0; i < count; i++) {
			const float value = bag ? bag->ids.values[begin + i] : 1.0f;
			out->keys[out->keys_count + i] = bag ? bag->ids.keys[begin + i] : b->ids[(size_t)j * fields + f];
			out->values[out->keys_count + i] = value;
			out->valued |= value != 1.0f;
		}
		out->keys_count += count;
		out->one_hot &= count == 1;
		offsets[f] = (uint32_t)out->keys_count;
	}
	return true;
}

static bool append_with_bags(const struct parse_batch *b, uint32_t j, struct rows *out)
{
	const struct table_layout *l = b->layout;
	if (!rows_reserve(out, l->fields_count))
		return false;
	const float weight = l->weight == TABLE_NO_COLUMN ? 1.0f : b->weights[j];
	const uint64_t group = l->group == TABLE_NO_COLUMN ? 0 : b->group_of[j];
	memcpy(out->labels + (size_t)out->count * out->tasks, b->labels + (size_t)j * out->tasks, out->tasks * sizeof *out->labels);
	if (out->dense_dim > 0)
		memcpy(out->dense + (size_t)out->count * out->dense_dim, b->dense + (size_t)j * out->dense_dim,
		       out->dense_dim * sizeof *out->dense);
	out->weights[out->count] = weight;
	out->groups[out->count] = group;
	out->weighted |= weight != 1.0f;
	out->grouped |= group != 0;
	if (!append_ids(b, j, out))
		return false;
	out->count++;
	return true;
}

bool parse_batch_append(const struct parse_batch *b, uint32_t first, uint32_t count, struct rows *out)
{
	const struct table_layout *l = b->layout;
	const struct rows_view v = {.count = b->n,
	                            .tasks = l->labels_count,
	                            .fields = l->fields_count,
	                            .dense_dim = l->dense_count,
	                            .labels = b->labels,
	                            .dense = b->dense,
	                            .keys = b->ids};
	if (!out->bags)
		return rows_append(out, &v, first, count);
	for (uint32_t j = first; j < first + count; j++)
		if (!append_with_bags(b, j, out))
			return false;
	return true;
}
