#include "common/job/job_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/job/job_column_schema.h"

/* --- The schema of a column */

#define FIELD(f)      .offset = offsetof(struct job_column, f)
#define TEXT(p, f, d) .path = p, .type = KEY_TEXT, FIELD(f), .size = sizeof(((struct job_column *)0)->f), .fallback = d
#define CHOICE(p, f, d, list) \
	.path = p, .type = KEY_CHOICE, FIELD(f), .fallback = d, .choices = list, .choices_count = sizeof list / sizeof list[0]

/* a number that another place gives, unless this key does */
#define NUMBER(p, f)                                                                                                      \
	.path = p, .type = KEY_FLOAT, FIELD(f), .fallback = "auto", .float_low = -JOB_ANY_FLOAT, .float_high = JOB_ANY_FLOAT, \
	.zero_word = "auto"

#define KIND(k) (1u << COLUMN_##k)
#define BAGS    (KIND(MULTI) | KIND(SEQUENCE))
#define FIELDS  (KIND(CATEGORICAL) | BAGS)

static const struct choice kinds[] = {{"categorical", COLUMN_CATEGORICAL, false},
                                      {"multi", COLUMN_MULTI, false},
                                      {"sequence", COLUMN_SEQUENCE, false},
                                      {"numeric", COLUMN_NUMERIC, false},
                                      {"label", COLUMN_LABEL, false},
                                      {"weight", COLUMN_WEIGHT, false},
                                      {"group", COLUMN_GROUP, false},
                                      {"time", COLUMN_TIME, false},
                                      {"id", COLUMN_ID, false},
                                      {"ignore", COLUMN_IGNORE, false}};
static const struct choice poolings[] = {{"sum", POOLING_SUM, false}, {"mean", POOLING_MEAN, false}, {"max", POOLING_MAX, false}};
static const struct choice transforms[] = {{"none", TRANSFORM_NONE, false},
                                           {"log1p", TRANSFORM_LOG1P, false},
                                           {"standard", TRANSFORM_STANDARD, false},
                                           {"minmax", TRANSFORM_MINMAX, false},
                                           {"bucketize", TRANSFORM_BUCKETIZE, false}};
static const struct choice missings[] = {{"bad", MISSING_BAD, false}, {"masked", MISSING_MASKED, false}};

static const struct column_key schema[COLUMN_KEYS] = {
    [COLUMN_KEY_NAME] = {{TEXT("name", name, NULL)}, 0, "the column's name in the files"},
    [COLUMN_KEY_KIND] = {{CHOICE("kind", kind, NULL, kinds)}, 0, "what the column is to the model; ignore: nothing"},
    {{TEXT("separator", separator, "|")}, BAGS, "the character between two ids"},
    {{CHOICE("pooling", pooling, "sum", poolings)}, BAGS, "how the embeddings of a row's ids become one"},
    {{.path = "max_length",
      .type = KEY_U32,
      FIELD(max_length),
      .fallback = "64",
      .low = 1,
      .high = WEIR_FEATURES_PER_ROW_MAX,
      .unit = "ids"},
     BAGS,
     "ids of a row that count: of multi the first ones, of a sequence the last ones"},
    {{TEXT("share", share, "")}, FIELDS, "the column whose embeddings it uses; empty: its own"},
    {{TEXT("default", empty, "")},
     FIELDS | KIND(NUMERIC) | KIND(LABEL) | KIND(WEIGHT) | KIND(GROUP) | KIND(TIME),
     "the value of an empty cell"},
    {{CHOICE("transform", transform, "none", transforms)}, KIND(NUMERIC), "what is made of the number"},
    {{TEXT("format", format, "unix")},
     KIND(TIME),
     "how times are written: unix, unix_ms, iso8601, or a pattern such as %d.%m.%Y %H:%M"},
    {{CHOICE("missing", missing, "bad", missings)},
     KIND(LABEL),
     "what a row without the label is: bad, or masked: not of this task"},
    {{NUMBER("positive_above", positive_above)}, KIND(LABEL), "labels above this are positive; auto: as data.positive_above"},
    {{TEXT("positive", positive, "")},
     KIND(LABEL),
     "the text of positive rows, all others are negative; empty: labels are numbers"},
    {{NUMBER("mean", mean)}, KIND(NUMERIC), "transform standard: what is subtracted; auto: that of the training part"},
    {{NUMBER("std", std)}, KIND(NUMERIC), "transform standard: what is divided by; auto: that of the training part"},
    {{NUMBER("min", min)}, KIND(NUMERIC), "transform minmax: what becomes 0; auto: that of the training part"},
    {{NUMBER("max", max)}, KIND(NUMERIC), "transform minmax: what becomes 1; auto: that of the training part"},
    {{.path = "boundaries",
      .type = KEY_FLOAT_LIST,
      FIELD(boundaries),
      .count_offset = offsetof(struct job_column, boundaries_count),
      .size = WEIR_BOUNDARIES_MAX,
      .fallback = "",
      .float_low = -JOB_ANY_FLOAT,
      .float_high = JOB_ANY_FLOAT},
     KIND(NUMERIC),
     "transform bucketize: where the second bucket begins, the third, ..."},
    {{TEXT("vocabulary", vocabulary, "")}, FIELDS, "a file with an id a line; empty: ids are hashed"},
    {{.path = "dim",
      .type = KEY_U32,
      FIELD(dim),
      .fallback = "auto",
      .low = 1,
      .high = WEIR_DIM_MAX,
      .unit = "elements",
      .zero_word = "auto"},
     FIELDS | KIND(NUMERIC),
     "width of the column's embeddings; auto: that of the column it shares, or model.dim"},
};

const struct column_key *job_column_schema(void)
{
	return schema;
}

uint32_t job_column_key_row(const char *name)
{
	uint32_t row = 0;
	while (row < COLUMN_KEYS && strcmp(schema[row].key.path, name) != 0)
		row++;
	return row;
}

struct key job_column_key(uint32_t column, uint32_t row, char path[JOB_KEY_BYTES_MAX])
{
	struct key key = schema[row].key;
	snprintf(path, JOB_KEY_BYTES_MAX, "data.columns[%u].%s", column, key.path);
	key.path = path;
	return key;
}

weir_status job_column_fail_unknown(struct reading *r, const struct place *place, uint32_t column, const char *name,
                                    const char *value)
{
	const char *names[COLUMN_KEYS];
	char known[JOB_EXPECTED_BYTES] = "", path[WEIR_ERROR_TEXT_BYTES];
	for (uint32_t row = 0; row < COLUMN_KEYS; row++) {
		const size_t used = strlen(known);
		names[row] = schema[row].key.path;
		snprintf(known + used, sizeof known - used, "%s%s", row > 0 ? ", " : "", names[row]);
	}
	const char *nearest = job_nearest(name, names, COLUMN_KEYS);
	snprintf(path, sizeof path, "data.columns[%u].%.80s", column, name);
	if (!nearest)
		return job_fail(r, place, path, WEIR_E_INVALID, "unknown key (value %s); valid here: %s", value, known);
	return job_fail(r, place, path, WEIR_E_INVALID, "unknown key (value %s); the nearest valid key is '%s' (valid here: %s)",
	                value, nearest, known);
}

/* --- Storing */

/* Stores one key of a column; a key that is not given has its default. */
static weir_status store_key(struct reading *r, const struct raw_column *raw, uint32_t column, uint32_t row,
                             struct job_column *out)
{
	char path[JOB_KEY_BYTES_MAX], expected[JOB_EXPECTED_BYTES];
	const struct key key = job_column_key(column, row, path);
	if (raw->raws[row].given)
		return job_value_store(r, &raw->raws[row], &key, out);
	if (key.fallback) {
		const struct raw fallback = {.items = (const char *[]){key.fallback}, .count = key.type != KEY_FLOAT_LIST};
		return job_value_store(r, &fallback, &key, out);
	}
	job_schema_expected(&key, expected);
	return job_fail(r, &raw->place, path, WEIR_E_INVALID, "missing; expected %s", expected);
}

/* A wrong column is ignored, so that the others can be checked. */
static weir_status store_column(struct reading *r, struct raw_column *raw, uint32_t column, struct job_column *out)
{
	for (uint32_t row = 0; row < COLUMN_KEYS; row++) {
		const weir_status status = raw->wrong && !raw->raws[row].given ? WEIR_OK : store_key(r, raw, column, row, out);
		if (status == WEIR_E_MEMORY)
			return status;
		raw->wrong |= status != WEIR_OK;
	}
	if (raw->wrong)
		out->kind = COLUMN_IGNORE;
	else
		(void)job_time_format(out->format, &out->time); /* checked later */
	return WEIR_OK;
}

weir_status job_columns_store(struct reading *r, const struct raw *raw, struct job *job)
{
	weir_status status = WEIR_OK;
	if (raw->count == 0 || raw->wrong)
		return WEIR_OK;
	job->data.columns = calloc(raw->count, sizeof *job->data.columns);
	if (!job->data.columns)
		return weir_fail(r->err, WEIR_E_MEMORY, "%s: out of memory", r->name);
	job->data.columns_count = raw->count;
	for (uint32_t i = 0; i < raw->count && status == WEIR_OK; i++)
		status = store_column(r, &raw->columns[i], i, &job->data.columns[i]);
	return status;
}

void job_columns_destroy(struct job *job)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		free(job->data.columns[i].boundaries);
	free(job->data.columns);
}

/* --- Texts */

const char *column_kind_name(enum column_kind kind)
{
	return kinds[kind].name;
}

/* Appends a text in YAML's double quotes, unless it is one word. */
static size_t write_word(char *out, size_t bytes, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	if (*text && text[strspn(text, plain)] == 0)
		return (size_t)snprintf(out, bytes, "%s", text);
	size_t used = (size_t)snprintf(out, bytes, "\"");
	for (; *text && used < bytes; text++) {
		const bool control = (unsigned char)*text < 0x20 || *text == 0x7f, quoted = *text == '"' || *text == '\\';
		used += (size_t)snprintf(out + used, bytes - used, control ? "\\x%02x" : quoted ? "\\%c" : "%c", (unsigned char)*text);
	}
	return used + (size_t)snprintf(out + used, used < bytes ? bytes - used : 0, "\"");
}

enum {
	VALUE_BYTES = WEIR_PATH_BYTES_MAX > 16 * WEIR_BOUNDARIES_MAX ? WEIR_PATH_BYTES_MAX : 16 * WEIR_BOUNDARIES_MAX,
	COLUMN_TEXT_BYTES = 5 * VALUE_BYTES
};

/* Whether a value in canonical form is the default; a number whose default is a word is NaN
 * then. */
static bool is_default(const struct key *key, const char *value)
{
	const char *canonical = key->type == KEY_FLOAT_LIST ? "[]" : key->type == KEY_FLOAT ? "nan" : key->fallback;
	return key->fallback && strcmp(value, canonical) == 0;
}

static bool is_of_model(const struct key *key)
{
	static const char *const keys[] = {"mean", "std", "min", "max", "dim"};
	bool is = false;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		is |= strcmp(key->path, keys[i]) == 0;
	return is;
}

/* Writes "{name: user, kind: categorical}". The vocabulary's content says more than its name. */
static size_t write_column(const struct job_column *c, bool whole, char out[COLUMN_TEXT_BYTES])
{
	size_t used = (size_t)snprintf(out, COLUMN_TEXT_BYTES, "{");
	for (uint32_t row = 0; row < COLUMN_KEYS; row++) {
		const struct key *key = &schema[row].key;
		char value[VALUE_BYTES];
		job_field_text(c, key, value, sizeof value);
		if (is_default(key, value) || (!whole && is_of_model(key)))
			continue;
		if (key->offset == offsetof(struct job_column, vocabulary) && c->vocabulary_content)
			snprintf(value, sizeof value, "%016llx", (unsigned long long)c->vocabulary_content);
		used += (size_t)snprintf(out + used, COLUMN_TEXT_BYTES - used, "%s%s: ", used > 1 ? ", " : "", key->path);
		if (key->type == KEY_FLOAT_LIST)
			used += (size_t)snprintf(out + used, COLUMN_TEXT_BYTES - used, "%s", value);
		else
			used += write_word(out + used, COLUMN_TEXT_BYTES - used, value);
	}
	return used + (size_t)snprintf(out + used, COLUMN_TEXT_BYTES - used, "}");
}

bool data_format_has_columns(int format)
{
	return format == DATA_CSV || format == DATA_JSONL || format == DATA_PARQUET || format == DATA_ARROW;
}

static uint64_t hash_of(const struct job *job, bool whole)
{
	char column[COLUMN_TEXT_BYTES];
	uint64_t hash = 0;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		hash = hash_bytes(column, write_column(&job->data.columns[i], whole, column), hash);
	return hash;
}

uint64_t job_columns_hash(const struct job *job)
{
	return hash_of(job, false);
}

void job_columns_text(const struct job *job, char *out, size_t bytes)
{
	char column[COLUMN_TEXT_BYTES];
	size_t used = (size_t)snprintf(out, bytes, "[");
	for (uint32_t i = 0; i < job->data.columns_count && used < bytes; i++) {
		write_column(&job->data.columns[i], true, column);
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", i > 0 ? ", " : "", column);
	}
	if (used + 1 < bytes)
		snprintf(out + used, bytes - used, "]");
	else
		snprintf(out, bytes, "%u columns (%016llx)", job->data.columns_count, (unsigned long long)hash_of(job, true));
}

/* --- Questions */

bool job_column_is_field(const struct job_column *c)
{
	return 1u << c->kind & FIELDS || (c->kind == COLUMN_NUMERIC && c->transform == TRANSFORM_BUCKETIZE);
}

uint32_t job_column_dim(const struct job *job, const struct job_column *c)
{
	const struct job_column *own = c->share[0] ? job_column_find(job, c->share) : c;
	return own && own->dim > 0 ? own->dim : job->model.dim;
}

static void add_dim(uint32_t out[WEIR_DIMS_MAX], uint32_t *count, uint32_t dim)
{
	for (uint32_t i = 0; i < *count && i < WEIR_DIMS_MAX; i++)
		if (out[i] == dim)
			return;
	if (*count < WEIR_DIMS_MAX)
		out[*count] = dim;
	++*count;
}

uint32_t job_dims(const struct job *job, uint32_t out[WEIR_DIMS_MAX])
{
	uint32_t count = 0;
	for (int others = 0; others < 2; others++)
		for (uint32_t i = 0; i < job->data.columns_count; i++) {
			const struct job_column *c = &job->data.columns[i];
			const uint32_t dim = job_column_dim(job, c);
			if (job_column_is_field(c) && (dim != job->model.dim) == others)
				add_dim(out, &count, dim);
		}
	if (count == 0)
		add_dim(out, &count, job->model.dim);
	return count;
}

void job_embedding_table(const struct job *job, uint32_t dim, char out[WEIR_TABLE_NAME_BYTES_MAX])
{
	uint32_t dims[WEIR_DIMS_MAX];
	(void)job_dims(job, dims);
	if (dim == dims[0])
		snprintf(out, WEIR_TABLE_NAME_BYTES_MAX, "embedding");
	else
		snprintf(out, WEIR_TABLE_NAME_BYTES_MAX, "embedding_%u", dim);
}

bool job_column_is_scaled(const struct job_column *c)
{
	return c->kind == COLUMN_NUMERIC && (c->transform == TRANSFORM_STANDARD || c->transform == TRANSFORM_MINMAX);
}

const struct job_column *job_column_find(const struct job *job, const char *name)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		if (strcmp(job->data.columns[i].name, name) == 0)
			return &job->data.columns[i];
	return NULL;
}

const struct job_column *job_column_of_field(const struct job *job, uint32_t field)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		if (job_column_is_field(&job->data.columns[i]) && field-- == 0)
			return &job->data.columns[i];
	return NULL;
}

const struct job_column *job_column_label(const struct job *job, uint32_t task)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		if (job->data.columns[i].kind == COLUMN_LABEL && task-- == 0)
			return &job->data.columns[i];
	return NULL;
}

/* Counts the fields before column `end`. */
static uint32_t fields_before(const struct job *job, const struct job_column *end)
{
	uint32_t fields = 0;
	for (const struct job_column *c = job->data.columns; c < end; c++)
		fields += job_column_is_field(c);
	return fields;
}

uint32_t job_column_field(const struct job *job, const struct job_column *c)
{
	return fields_before(job, c);
}

uint32_t job_columns_fields(const struct job *job)
{
	return fields_before(job, job->data.columns + job->data.columns_count);
}

uint32_t job_columns_dense(const struct job *job)
{
	uint32_t dense = 0;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		dense += job->data.columns[i].kind == COLUMN_NUMERIC && job->data.columns[i].transform != TRANSFORM_BUCKETIZE;
	return dense;
}

uint32_t job_columns_labels(const struct job *job)
{
	uint32_t labels = 0;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		labels += job->data.columns[i].kind == COLUMN_LABEL;
	return labels;
}

char job_csv_quote(const struct job *job)
{
	return job->data.csv.quote[1] ? 0 : job->data.csv.quote[0];
}

uint32_t job_column_key_field(const struct job *job, const struct job_column *c)
{
	return fields_before(job, c->share[0] ? job_column_find(job, c->share) : c);
}

uint32_t job_histories(const struct job *job, struct job_history out[WEIR_HISTORIES_MAX])
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i], *of = c->share[0] ? job_column_find(job, c->share) : NULL;
		if (c->kind != COLUMN_SEQUENCE || !of || of->kind != COLUMN_CATEGORICAL)
			continue;
		if (count < WEIR_HISTORIES_MAX)
			out[count] = (struct job_history){.field = fields_before(job, c), .target = fields_before(job, of)};
		count++;
	}
	return count;
}
