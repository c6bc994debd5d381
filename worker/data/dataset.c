/* Opens the sources of a dataset and cuts them into units. See dataset.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/dataset_internal.h"
#include "worker/data/format/cache.h"
#include "worker/data/format/content.h"
#include "worker/data/format/parse_table.h"
#include "worker/data/format/survey.h"

const char *const dataset_part_names[] = {[SPLIT_TRAIN] = "train", [SPLIT_VALID] = "valid", [SPLIT_TEST] = "test"};

weir_status dataset_add_unit(struct dataset *d, uint32_t file, uint64_t begin, uint64_t end, weir_error *err)
{
	if (d->info.units == WEIR_UNITS_PER_PASS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u work units: raise data.unit_batches", WEIR_UNITS_PER_PASS_MAX);
	if (d->info.units == d->units_capacity) {
		uint32_t capacity = d->units_capacity * 2 + 64;
		struct unit_range *larger = realloc(d->units, capacity * sizeof *larger);
		if (!larger)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory cutting the data into units");
		d->units = larger;
		d->units_capacity = capacity;
	}
	d->units[d->info.units++] = (struct unit_range){file, begin, end};
	return WEIR_OK;
}

/* Cuts packed files by exact row ranges. The files must agree in shape. */
static weir_status cut_packed(struct dataset *d, weir_error *err)
{
	const struct packed_info *first = packed_get_info(d->packed[0]);
	d->info.tasks = first->tasks;
	d->info.fields = first->fields;
	d->info.dense_dim = first->dense_dim;
	d->info.one_hot = true;
	for (uint32_t f = 0; f < d->packed_count; f++) {
		const struct packed_info *p = packed_get_info(d->packed[f]);
		if (p->fields != first->fields || p->dense_dim != first->dense_dim || p->tasks != first->tasks)
			return weir_fail(err, WEIR_E_INVALID,
			                 "packed file %u has %u fields, %u numbers and %u labels, the first has %u, %u and %u", f, p->fields,
			                 p->dense_dim, p->tasks, first->fields, first->dense_dim, first->tasks);
		if (p->bad_lines > d->load.bad_lines_max)
			return weir_fail(err, WEIR_E_LIMIT, "%llu bad line%s in the data, more than data.bad_lines_max %llu",
			                 (unsigned long long)p->bad_lines, p->bad_lines == 1 ? "" : "s",
			                 (unsigned long long)d->load.bad_lines_max);
		d->info.one_hot &= p->one_hot;
		d->info.rows += p->rows;
		d->info.bad_lines += p->bad_lines;
		for (uint64_t row = 0; row < p->rows; row += d->unit_rows) {
			weir_status status = dataset_add_unit(d, f, row, row + d->unit_rows < p->rows ? row + d->unit_rows : p->rows, err);
			if (status != WEIR_OK)
				return status;
		}
	}
	return WEIR_OK;
}

weir_status dataset_cut_rows(struct dataset *d, uint64_t rows, weir_error *err)
{
	weir_status status = WEIR_OK;
	d->info.rows = rows;
	for (uint64_t row = 0; row < rows && status == WEIR_OK; row += d->unit_rows)
		status = dataset_add_unit(d, 0, row, row + d->unit_rows < rows ? row + d->unit_rows : rows, err);
	return status;
}

/* Hashes everything that determines the cut, except the location and modification time of files.
 * Equal fingerprints prove that two workers cut the same data in the same way. */
static void take_fingerprint(struct dataset *d)
{
	const struct split *s = &d->load.split;
	const struct dataset_info *i = &d->info;
	const uint64_t settings[] = {i->fields,           i->dense_dim, i->units,     i->rows,       d->batch,
	                             d->unit_rows,        d->part,      s->modulus,   s->valid_from, s->test_from,
	                             i->context,          i->sequence,  s->by_column, s->by_time,    (uint64_t)s->valid_ms,
	                             (uint64_t)s->test_ms};
	uint64_t h = hash_bytes(settings, sizeof settings, 1);
	h = hash_bytes(i->tokenizer, sizeof i->tokenizer, h);
	for (uint32_t f = 0; f < d->sources.count; f++) {
		const struct source *source = &d->sources.items[f];
		const char *slash = strrchr(source->path, '/');
		const char *name = !slash ? source->path : slash + 1;
		h = hash_bytes(name, strlen(name), h);
		h = hash_bytes(&source->size, sizeof source->size, h);
	}
	if (i->tasks > 1)
		h = hash_bytes(&i->tasks, sizeof i->tasks, h);
	const uint32_t first = d->layout || !d->units ? 0 : d->info.units - 1;
	for (uint32_t u = first; d->units && u < d->info.units; u++)
		h = hash_bytes(&d->units[u].begin, sizeof(uint64_t), h);
	d->info.fingerprint = h;
}

static struct split split_by(const struct job *job)
{
	struct split s = split_of(job->data.split.train, job->data.split.valid, job->data.split.test);
	s.by_column = job->data.split.by != SPLIT_CRC32;
	s.by_time = job->data.split.by == SPLIT_TIME;
	s.on |= s.by_time;
	/* the job's checks have read the times */
	(void)job_split_time(job, job->data.split.valid_from, &s.valid_ms);
	(void)job_split_time(job, job->data.split.test_from, &s.test_ms);
	return s;
}

/* Finds the files of the part, and whether they are split. */
static weir_status find_sources(struct dataset *d, const struct job *job, weir_error *err)
{
	char *const *const lists[] = {job->data.train, job->data.valid, job->data.test};
	const uint32_t counts[] = {job->data.train_count, job->data.valid_count, job->data.test_count};
	uint32_t list = (uint32_t)d->part;
	const bool split = job->data.split.by != SPLIT_NONE;
	if (split && (d->part == SPLIT_TRAIN || counts[list] == 0)) {
		list = SPLIT_TRAIN;
		d->load.split = split_by(job);
	}
	if (counts[list] == 0)
		return weir_fail(err, WEIR_E_INVALID, "data.%s names no file%s", dataset_part_names[list],
		                 list == SPLIT_TRAIN ? "" : " and there is no data.split");
	if (d->load.split.on && job->data.format == DATA_PACKED)
		return weir_fail(err, WEIR_E_INVALID,
		                 "data.split cuts lines of text; packed files hold one part each: name them in data.train, valid, test");
	char dir[WEIR_PATH_BYTES_MAX + 16];
	dataset_cache_dir(job, dir);
	const struct remote_options remote = {.dir = dir,
	                                      .endpoint = *job->data.endpoint ? job->data.endpoint : job->checkpoint.endpoint,
	                                      .region = *job->data.region ? job->data.region : job->checkpoint.region,
	                                      .by_ranges = job->data.format == DATA_PARQUET,
	                                      .logger = d->load.logger};
	const weir_status status =
	    sources_find(&d->sources, lists[list], counts[list], d->scored ? SOURCES_AS_GIVEN : SOURCES_BY_PATH, &remote, err);
	return status == WEIR_OK ? sources_check_format(&d->sources, job->data.format, err) : status;
}

static bool are_remote(char *const *places, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (remote_is(places[i]))
			return true;
	return false;
}

static bool are_empty(const struct sources *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->items[i].size > 0)
			return false;
	return true;
}

static weir_status fail_fields(const struct sources *s, const struct survey *seen, weir_error *err)
{
	if (are_empty(s))
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s is empty: there is no row, and data.fields does not say how many fields rows have",
		                 s->items[0].path);
	return weir_fail(err, WEIR_E_PARSE, "%s: cannot tell the number of fields from its first lines%s; set data.fields",
	                 s->items[0].path, seen->rows == 0 ? ", of which none is a row (is data.format right?)" : "");
}

/* Counts the fields in the files of the training part if these are local: the same model reads the
 * rows of the other parts. */
static weir_status count_fields(const struct dataset *d, const struct job *job, const struct survey *own, uint32_t *fields,
                                weir_error *err)
{
	struct sources train = {0};
	const struct sources *of = &d->sources;
	struct survey seen = *own;
	weir_status status = WEIR_OK;
	const bool of_train = d->part == SPLIT_TRAIN || d->load.split.on || are_remote(job->data.train, job->data.train_count);
	if (!of_train && sources_find(&train, job->data.train, job->data.train_count, SOURCES_BY_PATH, NULL, NULL) == WEIR_OK &&
	    train.count > 0) {
		of = &train;
		status = survey_read(&seen, of, job->data.format, 0, WEIR_SURVEY_BYTES_MAX, err);
	}
	*fields = seen.fields + (job->data.format == DATA_LIBSVM && survey_is_unlabelled(&seen));
	if (status == WEIR_OK && (*fields == 0 || *fields > WEIR_FIELDS_MAX))
		status = fail_fields(of, &seen, err);
	sources_destroy(&train);
	return status;
}

static weir_status refuse_unlabelled(const struct dataset *d, weir_error *err)
{
	const struct parser *p = d->parser;
	char columns[96] = "";
	if (p->format == DATA_CRITEO)
		snprintf(columns, sizeof columns, " (its rows have %u columns: data.dense %u and data.fields %u)",
		         p->dense_dim + p->fields, p->dense_dim, p->fields);
	return weir_fail(
	    err, WEIR_E_INVALID, "%s has no labels%s, and data.%s is to be %s; only weir predict takes rows without them",
	    d->sources.items[0].path, columns, dataset_part_names[d->part], d->part == SPLIT_TRAIN ? "trained on" : "evaluated with");
}

/* Surveys the lines: sets the parser's fields, unless the job gives them, and whether rows have
 * labels. */
static weir_status see_lines(struct dataset *d, const struct job *job, weir_error *err)
{
	struct parser *p = d->parser;
	const bool count = p->fields == 0;
	struct survey s;
	weir_status status = survey_read(&s, &d->sources, p->format, p->dense_dim + p->fields,
	                                 count ? WEIR_SURVEY_BYTES_MAX : SURVEY_LABEL_BYTES, err);
	if (status == WEIR_OK && count)
		status = count_fields(d, job, &s, &p->fields, err);
	if (status != WEIR_OK)
		return status;
	p->fields_counted = count;
	/* With positive_above, "3:1" may be a label with its weight instead of an entry. */
	const bool tells = p->format != DATA_LIBSVM || isnan(p->positive_above);
	p->unlabelled = (tells && survey_is_unlabelled(&s)) || (parser_bags(p) && d->scored && d->scored->unlabelled);
	return !d->scored && tells && survey_is_unlabelled(&s) ? refuse_unlabelled(d, err) : WEIR_OK;
}

static weir_status prepare_columns(struct dataset *d, const struct job *job, weir_error *err)
{
	weir_status status = table_layout_open(&d->layout, job, &d->sources, d->scored != NULL, err);
	if (status != WEIR_OK)
		return status;
	parse_table_init(d->parser, d->layout, job);
	d->parser->every_line = d->scored != NULL;
	d->parser->unlabelled = d->layout->unlabelled;
	return WEIR_OK;
}

/* Prepares the parser of formats whose columns have no names: their lines show what rows have. */
static weir_status prepare_lines(struct dataset *d, const struct job *job, weir_error *err)
{
	uint32_t fields = job->data.fields;
	if (job->data.format != DATA_CRITEO && job->data.dense != 0)
		return weir_fail(err, WEIR_E_INVALID, "data.dense: only criteo files have numeric columns");
	if (fields == 0 && d->scored)
		fields = job->data.format == DATA_CRITEO ? 0 : d->scored->fields;
	parser_init(d->parser, job->data.format, fields, job->data.dense, job->data.hash_buckets);
	d->parser->positive_above = job->data.positive_above;
	d->parser->every_line = d->scored != NULL;
	return see_lines(d, job, err);
}

static weir_status prepare_parser(struct dataset *d, const struct job *job, weir_error *err)
{
	d->parser = malloc(sizeof *d->parser);
	if (!d->parser)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	const weir_status status =
	    data_format_has_columns(job->data.format) ? prepare_columns(d, job, err) : prepare_lines(d, job, err);
	d->load.parser = d->parser;
	d->info.tasks = d->parser->tasks;
	d->info.fields = d->parser->fields;
	d->info.dense_dim = d->parser->dense_dim;
	return status;
}

static weir_status open_packed_files(struct dataset *d, weir_error *err)
{
	d->packed = calloc(d->sources.count, sizeof(struct packed *));
	if (!d->packed)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	for (; d->packed_count < d->sources.count; d->packed_count++) {
		weir_status status = packed_open(&d->packed[d->packed_count], d->sources.items[d->packed_count].path, err);
		if (status != WEIR_OK)
			return status;
	}
	return cut_packed(d, err);
}

void dataset_cache_dir(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 16])
{
	const bool own = strcmp(job->data.cache, "auto") == 0 || strcmp(job->data.cache, "off") == 0 || job->data.cache[0] == 0;
	snprintf(out, WEIR_PATH_BYTES_MAX + 16, "%s%s", own ? job->run_dir : job->data.cache, own ? "/cache" : "");
}

static weir_status open_cache(struct dataset *d, const struct job *job, weir_error *err)
{
	char dir[WEIR_PATH_BYTES_MAX + 16];
	dataset_cache_dir(job, dir);
	struct cache_options o = {.dir = dir, .sources = &d->sources, .load = d->load};
	d->packed = calloc(1, sizeof(struct packed *));
	if (!d->packed)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	weir_status status = cache_open(&d->packed[0], &o, d->part, err);
	if (status != WEIR_OK)
		return status;
	d->packed_count = 1;
	return cut_packed(d, err);
}

static weir_status open_corpus(struct dataset *d, const struct job *job, weir_error *err)
{
	d->info.context = job->data.context;
	weir_status status = corpus_open(&d->corpus, &d->sources, job->data.context, &d->load.split, d->part, err);
	if (status != WEIR_OK)
		return status;
	if (corpus_examples(d->corpus) == 0)
		return weir_fail(err, WEIR_E_INVALID, "the %s part has no text longer than data.context: %u bytes%s",
		                 dataset_part_names[d->part], job->data.context,
		                 d->load.split.on ? "; data.split cuts it in blocks of 4096 bytes" : "");
	return dataset_cut_rows(d, corpus_examples(d->corpus), err);
}

/* Opens the sources by their format. */
static weir_status open_sources(struct dataset *d, const struct job *job, weir_error *err)
{
	if (job->data.format == DATA_TEXT)
		return open_corpus(d, job, err);
	if (job->data.format == DATA_TOKENS)
		return dataset_open_tokens(d, job, err);
	if (job->data.format == DATA_PACKED)
		return open_packed_files(d, err);
	weir_status status = prepare_parser(d, job, err);
	if (status != WEIR_OK)
		return status;
	return strcmp(job->data.cache, "off") == 0 ? dataset_cut_text(d, job, err) : open_cache(d, job, err);
}

static weir_status open_dataset(struct dataset **out, const struct job *job, enum split_part part,
                                const struct dataset_scored *scored, struct logger *logger, weir_error *err)
{
	assert(job->data.batch > 0 && job->data.unit_batches > 0);
	struct dataset *d = calloc(1, sizeof *d);
	if (!d)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	pthread_mutex_init(&d->spare_lock, NULL);
	d->part = part;
	d->scored = scored;
	d->batch = job->data.batch;
	d->unit_rows = (uint64_t)job->data.batch * job->data.unit_batches;
	d->load = (struct load_options){.threads = job->data.threads > 0 ? job->data.threads : 1,
	                                .logger = logger,
	                                .bad_line_reports = job->data.min_bad_line_reports,
	                                .bad_lines_max = job->data.bad_lines_max};
	weir_status status = find_sources(d, job, err);
	if (status == WEIR_OK && d->unit_rows > UINT32_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "data.batch times data.unit_batches is more than a unit may have");
	if (status == WEIR_OK)
		status = open_sources(d, job, err);
	if (status != WEIR_OK) {
		dataset_close(d);
		return status;
	}
	take_fingerprint(d);
	d->scored = NULL;
	*out = d;
	return WEIR_OK;
}

/* Takes the scales of the job's columns. They count in the fingerprint: they are part of what rows
 * are. */
static weir_status take_scales(struct dataset *d, const struct job *job, weir_error *err)
{
	const weir_status status = column_scales_take(&d->scales, job, err);
	if (status == WEIR_OK && d->scales.count > 0)
		d->info.fingerprint = hash_bytes(d->scales.of, d->scales.count * sizeof *d->scales.of, d->info.fingerprint);
	return status;
}

static weir_status open_scaled(struct dataset **out, const struct job *job, enum split_part part,
                               const struct dataset_scored *scored, struct logger *logger, weir_error *err)
{
	struct dataset *d;
	weir_status status = open_dataset(&d, job, part, scored, logger, err);
	if (status != WEIR_OK)
		return status;
	status = take_scales(d, job, err);
	if (status == WEIR_OK)
		*out = d;
	else
		dataset_close(d);
	return status;
}

weir_status dataset_open(struct dataset **out, const struct job *job, enum split_part part, struct logger *logger,
                         weir_error *err)
{
	return open_scaled(out, job, part, NULL, logger, err);
}

weir_status dataset_open_unscaled(struct dataset **out, const struct job *job, struct logger *logger, weir_error *err)
{
	return open_dataset(out, job, SPLIT_TRAIN, NULL, logger, err);
}

weir_status dataset_open_scored(struct dataset **out, const struct job *job, enum split_part part, const struct dataset_scored *o,
                                struct logger *logger, weir_error *err)
{
	return open_scaled(out, job, part, o, logger, err);
}

const struct dataset_info *dataset_get_info(const struct dataset *d)
{
	return &d->info;
}

weir_status dataset_content(const struct dataset *d, bool *train, char out[WEIR_FINGERPRINT_VALUE_BYTES], weir_error *err)
{
	*train = d->part == SPLIT_TRAIN || d->load.split.on;
	return content_of_sources(&d->sources, out, err);
}

void dataset_describe_unit(const struct dataset *d, uint32_t data_unit, char out[DATASET_UNIT_BYTES])
{
	const struct unit_range *range = &d->units[data_unit];
	const bool lines = d->packed_count == 0 && !d->corpus && !d->sequences, own = d->packed_count == d->sources.count;
	const struct source *source = &d->sources.items[lines || own ? range->file : 0];
	const char *slash = strrchr(source->path, '/'), *name = slash ? slash + 1 : source->path;
	int n;
	if (!lines)
		n = snprintf(out, DATASET_UNIT_BYTES, "%s %llu to %llu of ", d->corpus || d->sequences ? "examples" : "rows",
		             (unsigned long long)range->begin + 1, (unsigned long long)range->end);
	else if (range->end == UINT64_MAX)
		n = snprintf(out, DATASET_UNIT_BYTES, "the lines from byte %llu on of ", (unsigned long long)range->begin);
	else
		n = snprintf(out, DATASET_UNIT_BYTES, "the lines in bytes %llu to %llu of ", (unsigned long long)range->begin,
		             (unsigned long long)range->end);
	if (lines || own || d->sources.count == 1)
		snprintf(out + n, DATASET_UNIT_BYTES - (size_t)n, "%.300s", name);
	else
		snprintf(out + n, DATASET_UNIT_BYTES - (size_t)n, "data.%s, %u files from %.200s on", dataset_part_names[d->part],
		         d->sources.count, name);
}

void dataset_close(struct dataset *d)
{
	if (!d)
		return;
	for (uint32_t f = 0; f < d->packed_count; f++)
		packed_close(d->packed[f]);
	free(d->packed);
	corpus_close(d->corpus);
	sequences_close(d->sequences);
	for (uint32_t f = 0; f < d->token_files_count; f++)
		token_file_close(d->token_files[f]);
	free(d->token_files);
	free(d->units);
	column_scales_destroy(&d->scales);
	free(d->parser);
	table_layout_close(d->layout);
	sources_destroy(&d->sources);
	rows_destroy(&d->spare);
	pthread_mutex_destroy(&d->spare_lock);
	free(d);
}
