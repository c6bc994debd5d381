#include "worker/data/column_facts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/system/disk.h"
#include "common/web/json.h"
#include "worker/data/dataset_internal.h"
#include "worker/data/format/vocabulary.h"

#define IDENTITY_BYTES (WEIR_FINGERPRINT_VALUE_BYTES + 32)

/* --- Vocabularies */

static weir_status settle_vocabularies(struct job *job, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < job->data.columns_count && status == WEIR_OK; i++) {
		struct job_column *c = &job->data.columns[i];
		struct vocabulary *v;
		if (!c->vocabulary[0])
			continue;
		status = vocabulary_open(&v, c->vocabulary, job->data.hash_buckets, err);
		if (status == WEIR_OK) {
			c->vocabulary_content = vocabulary_content(v);
			vocabulary_close(v);
		}
	}
	return status;
}

/* --- Scales */

/* Whether a column waits for its scale. */
static bool waits(const struct job_column *c)
{
	return job_column_is_scaled(c) && isnan(c->transform == TRANSFORM_STANDARD ? c->mean : c->min);
}

static bool any_waits(const struct job *job)
{
	bool any = false;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		any |= waits(&job->data.columns[i]);
	return any;
}

/* The numbers of a column seen so far: Welford's sums (1962), which lose nothing to a large
 * mean. */
struct seen {
	uint64_t count;
	double mean, squares; /* squares: sum of the squared distances to the mean */
	float min, max;
};

static void see(struct seen *s, float x)
{
	if (isnan(x)) /* the cell is empty */
		return;
	const double before = (double)x - s->mean;
	s->min = s->count == 0 || x < s->min ? x : s->min;
	s->max = s->count == 0 || x > s->max ? x : s->max;
	s->count++;
	s->mean += before / (double)s->count;
	s->squares += before * ((double)x - s->mean);
}

/* A column of equal numbers becomes 0, as one that is divided by 1. */
static weir_status take(struct job_column *c, const struct seen *s, weir_error *err)
{
	if (s->count == 0)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "data.columns: '%.60s' has no number in the training part, of which transform: %s could be made; expected "
		    "transform: none, or the scale by hand (mean and std, or min and max)",
		    c->name, c->transform == TRANSFORM_STANDARD ? "standard" : "minmax");
	const float std = (float)sqrt(s->squares / (double)s->count);
	if (c->transform == TRANSFORM_STANDARD) {
		c->mean = (float)s->mean;
		c->std = std > 0 ? std : 1;
	} else {
		c->min = s->min;
		c->max = s->max > s->min ? s->max : s->min + 1;
	}
	return WEIR_OK;
}

static weir_status see_unit(struct dataset *d, uint32_t unit, struct batch *batch, struct seen *seen, weir_error *err)
{
	struct unit_reader *u;
	weir_status status = unit_open(&u, d, unit, 0, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < unit_batches(u) && status == WEIR_OK; i++) {
		status = unit_read(u, i, batch, err);
		for (size_t k = 0; status == WEIR_OK && k < (size_t)batch->rows * batch->dense_dim; k++)
			see(&seen[k % batch->dense_dim], batch->dense[k]);
	}
	unit_close(u);
	return status;
}

/* Reads the training part, whose numbers are not scaled. */
static weir_status survey(struct job *job, struct dataset *d, weir_error *err)
{
	const struct dataset_info *info = dataset_get_info(d);
	struct seen *seen = calloc(info->dense_dim + 1, sizeof *seen);
	struct batch batch = {0};
	weir_status status = seen ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for the scales of columns");
	for (uint32_t u = 0; u < info->units && status == WEIR_OK; u++)
		status = see_unit(d, u, &batch, seen, err);
	for (uint32_t i = 0, number = 0; i < job->data.columns_count && status == WEIR_OK; i++) {
		struct job_column *c = &job->data.columns[i];
		if (waits(c))
			status = take(c, &seen[number], err);
		number += c->kind == COLUMN_NUMERIC && !job_column_is_field(c);
	}
	batch_destroy(&batch);
	free(seen);
	return status;
}

/* --- RUN_DIR/columns.json */

/* The data that scales are of: their content, and what makes rows and numbers of them. */
static weir_status identify(const struct job *job, const struct dataset *d, char out[IDENTITY_BYTES], weir_error *err)
{
	char content[WEIR_FINGERPRINT_VALUE_BYTES];
	bool train;
	const struct split *s = &d->load.split;
	const uint64_t how[] = {s->on,         s->by_column,          s->by_time,          s->modulus,
	                        s->valid_from, (uint64_t)s->valid_ms, (uint64_t)s->test_ms};
	const weir_status status = dataset_content(d, &train, content, err);
	if (status == WEIR_OK)
		snprintf(out, IDENTITY_BYTES, "%s %016" PRIx64, content, hash_bytes(how, sizeof how, job_columns_hash(job)));
	return status;
}

static void path_of(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 16])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 16, "%s/columns.json", job->run_dir);
}

static bool take_number(const struct json_value *item, const char *key, float *out)
{
	double x;
	const bool there = json_value_real(json_member(item, key), &x) && isfinite(x);
	if (there)
		*out = (float)x;
	return there;
}

/* Takes the kept scale of a column. False: there is none. */
static bool take_kept(const struct json_value *scales, struct job_column *c)
{
	for (size_t i = 0; i < json_length(scales); i++) {
		const struct json_value *item = json_element(scales, i);
		const char *name = json_value_text(json_member(item, "column"), NULL);
		if (!name || strcmp(name, c->name) != 0)
			continue;
		return c->transform == TRANSFORM_STANDARD ? take_number(item, "mean", &c->mean) && take_number(item, "std", &c->std)
		                                          : take_number(item, "min", &c->min) && take_number(item, "max", &c->max);
	}
	return false;
}

/* Takes the kept scales of all columns that wait. identity: that they must be of, or NULL. False:
 * there are none, and nothing is changed. */
static bool take_all_kept(struct job *job, const char *identity)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	struct json *root = NULL;
	path_of(job, path);
	if (json_read_file(path, &root, NULL) != WEIR_OK)
		return false;
	const char *data = json_get_text(root, "data");
	bool all = !identity || (data && strcmp(data, identity) == 0);
	const struct json_value *scales = json_member(json_root(root), "scales");
	for (uint32_t i = 0; i < job->data.columns_count && all; i++) {
		struct job_column copy = job->data.columns[i];
		all = !waits(&copy) || take_kept(scales, &copy);
	}
	for (uint32_t i = 0; i < job->data.columns_count && all; i++)
		if (waits(&job->data.columns[i]))
			(void)take_kept(scales, &job->data.columns[i]);
	json_destroy(root);
	return all;
}

static weir_status keep(const struct job *job, const char *identity, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	struct json *root = json_create();
	path_of(job, path);
	if (!root)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	json_set_text(root, "data", identity);
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i];
		const bool standard = c->transform == TRANSFORM_STANDARD;
		if (!job_column_is_scaled(c))
			continue;
		struct json *item = json_create();
		json_set_text(item, "column", c->name);
		json_set_real(item, standard ? "mean" : "min", (double)(standard ? c->mean : c->min));
		json_set_real(item, standard ? "std" : "max", (double)(standard ? c->std : c->max));
		json_append(root, "scales", item);
	}
	char *text = json_text_exact(root);
	weir_status status = text ? disk_system()->ops->make_dirs(disk_system(), job->run_dir, err)
	                          : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	if (status == WEIR_OK)
		status = disk_write_file(disk_system(), path, text, strlen(text), err);
	free(text);
	json_destroy(root);
	return status;
}

/* --- Settling */

/* Opens the training part as it is before scaling. */
static weir_status open_training(struct dataset **out, const struct job *job, struct logger *logger, weir_error *err)
{
	weir_error why = {0};
	const weir_status status = dataset_open_unscaled(out, job, logger, &why);
	if (status == WEIR_OK)
		return WEIR_OK;
	return weir_fail(err, status, "the scales of data.columns are those of the training part: %s", why.text);
}

static weir_status settle_scales(struct job *job, enum column_facts_use use, struct logger *logger, weir_error *err)
{
	char identity[IDENTITY_BYTES];
	struct dataset *d = NULL;
	const bool kept = (use == FACTS_RESUME || use == FACTS_WEIGHTS) && take_all_kept(job, NULL);
	if (kept && use == FACTS_WEIGHTS)
		return WEIR_OK;
	weir_status status = open_training(&d, job, logger, err);
	if (status == WEIR_OK)
		status = identify(job, d, identity, err);
	if (status == WEIR_OK && use == FACTS_WORK && take_all_kept(job, identity)) {
		dataset_close(d);
		return WEIR_OK;
	}
	if (status == WEIR_OK && !kept)
		status = survey(job, d, err);
	if (status == WEIR_OK)
		status = keep(job, identity, err);
	dataset_close(d);
	return status;
}

weir_status column_facts_settle(struct job *job, enum column_facts_use use, struct logger *logger, weir_error *err)
{
	const weir_status status = settle_vocabularies(job, err);
	return status == WEIR_OK && any_waits(job) ? settle_scales(job, use, logger, err) : status;
}

weir_status column_facts_assume(struct job *job, weir_error *err)
{
	const weir_status status = settle_vocabularies(job, err);
	if (status != WEIR_OK || !any_waits(job) || take_all_kept(job, NULL))
		return status;
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		struct job_column *c = &job->data.columns[i];
		if (waits(c)) {
			c->mean = c->min = 0;
			c->std = c->max = 1;
		}
	}
	return WEIR_OK;
}
