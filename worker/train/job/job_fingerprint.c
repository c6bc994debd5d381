#include "worker/train/job/job_fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_schema.h"
#include "worker/data/format/content.h"
#include "worker/model/model.h"
#include "worker/model/transformer.h"
#include "worker/tokenizer/tokenizer.h"

/* Known facts of a job while its values are written. */
struct facts {
	const struct job *job;
	const struct fingerprint_parts *parts;
	const struct dataset_info *data; /* of any part; NULL: none is open */
	bool transformer;
	struct transformer_config config;
	struct lora_options lora;
};

enum said {
	SAID_BY_KEY, /* use the job file's own value */
	SAID,
	SAID_NOT /* unknown here: leave it out */
};

/* --- Data */

/* The content of the part with that name, or of a dataset that is a share of that part. */
static weir_status part_content(const struct facts *f, enum split_part part, char *out, enum said *said, weir_error *err)
{
	const uint32_t counts[] = {f->job->data.train_count, f->job->data.valid_count, f->job->data.test_count};
	snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "none");
	*said = counts[part] > 0 ? SAID_NOT : SAID;
	for (unsigned i = 0; i < 3 && *said == SAID_NOT; i++) {
		bool train;
		const struct dataset *d = f->parts->items[i];
		const weir_status status = d ? dataset_content(d, &train, out, err) : WEIR_OK;
		if (status != WEIR_OK)
			return status;
		if (d && part == (train ? SPLIT_TRAIN : (enum split_part)i))
			*said = SAID;
	}
	return WEIR_OK;
}

static void hex(const uint8_t *bytes, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* The tokenizer's name does not count, except of `bytes`, which is not a file. */
static weir_status tokenizer_content(const struct facts *f, char *out, enum said *said, weir_error *err)
{
	const char *place = f->job->data.tokenizer;
	struct tokenizer *t = NULL;
	*said = f->job->data.format == DATA_TOKENS ? SAID : SAID_BY_KEY;
	if (*said == SAID_BY_KEY)
		return WEIR_OK;
	if (f->data) {
		hex(f->data->tokenizer, sizeof f->data->tokenizer, out);
		return WEIR_OK;
	}
	*said = *place ? SAID : SAID_NOT;
	const weir_status status = *place ? tokenizer_open(&t, place, err) : WEIR_OK;
	if (status == WEIR_OK && t)
		hex(tokenizer_get_info(t)->fingerprint, sizeof tokenizer_get_info(t)->fingerprint, out);
	tokenizer_close(t);
	return status;
}

static void say_number(char *out, enum said *said, uint32_t value)
{
	snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%u", value);
	*said = value > 0 ? SAID : SAID_NOT;
}

/* Without a packed copy, click data are divided into units by bytes instead of rows. The copy's
 * location does not count. */
static void cache_value(const struct job *job, char *out, enum said *said)
{
	snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%s", strcmp(job->data.cache, "off") == 0 ? "off" : "auto");
	*said = job_is_language(job) ? SAID_NOT : SAID;
}

static weir_status data_value(const struct facts *f, const char *key, char *out, enum said *said, weir_error *err)
{
	if (strcmp(key, "train") == 0)
		return part_content(f, SPLIT_TRAIN, out, said, err);
	if (strcmp(key, "valid") == 0)
		return part_content(f, SPLIT_VALID, out, said, err);
	if (strcmp(key, "test") == 0)
		return part_content(f, SPLIT_TEST, out, said, err);
	if (strcmp(key, "tokenizer") == 0)
		return tokenizer_content(f, out, said, err);
	if (strcmp(key, "cache") == 0)
		cache_value(f->job, out, said);
	else if (strcmp(key, "fields") == 0)
		say_number(out, said, f->data ? f->data->fields : f->job->data.fields);
	else if (strcmp(key, "dense") == 0)
		say_number(out, said, f->data ? f->data->dense_dim : f->job->data.dense);
	return WEIR_OK;
}

/* --- Models */

static void say_real(char *out, enum said *said, float value)
{
	job_float_text(value, out, WEIR_FINGERPRINT_VALUE_BYTES);
	*said = SAID;
}

static void say_text(char *out, enum said *said, const char *text)
{
	snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%s", text);
	*said = SAID;
}

static void say_rope(char *out, enum said *said, const struct rope_config *r)
{
	say_real(out, said, (float)r->theta);
	const size_t n = strlen(out);
	if (r->kind != ROPE_PLAIN)
		snprintf(out + n, WEIR_FINGERPRINT_VALUE_BYTES - n, " with scaling %u by %.9g, %.9g to %.9g, %u positions", r->kind,
		         r->factor, r->low_factor, r->high_factor, r->original_context);
}

static void say_targets(char *out, enum said *said, const struct lora_options *lora)
{
	size_t n = 0;
	*said = SAID;
	out[0] = '\0';
	for (uint32_t i = 0; i < LORA_TARGETS_COUNT && lora->rank > 0; i++)
		if (lora->targets[i])
			n += (size_t)snprintf(out + n, WEIR_FINGERPRINT_VALUE_BYTES - n, "%s%s", n ? ", " : "",
			                      lora_target_name((enum lora_target)i));
}

static weir_status folder_content(const char *folder, char *out, enum said *said, weir_error *err)
{
	say_text(out, said, "none");
	return folder[0] ? content_of_folder(folder, out, err) : WEIR_OK;
}

static void lora_value(const struct facts *f, const char *key, char *out, enum said *said)
{
	if (strcmp(key, "lora.rank") == 0) {
		say_number(out, said, f->lora.rank);
		*said = SAID;
	} else if (strcmp(key, "lora.alpha") == 0 && f->lora.rank > 0) {
		say_real(out, said, f->lora.alpha);
	} else if (strcmp(key, "lora.targets") == 0) {
		say_targets(out, said, &f->lora);
	}
}

static weir_status model_value(const struct facts *f, const char *key, char *out, enum said *said, weir_error *err)
{
	const struct transformer_config *c = &f->config;
	const struct {
		const char *key;
		uint32_t value;
	} numbers[] = {{"layers", c->layers},       {"heads", c->heads},           {"kv_heads", c->kv_heads}, {"width", c->width},
	               {"feed_forward", c->hidden}, {"vocabulary", c->vocabulary}, {"positions", c->context}};
	if (strcmp(key, "from") == 0)
		return folder_content(f->job->model.from, out, said, err);
	if (strcmp(key, "lora.from") == 0)
		return folder_content(f->job->model.lora.from, out, said, err);
	/* Adapters name their model, so their values are known. */
	if (strncmp(key, "lora.", 5) == 0 && job_is_transformer(f->job))
		lora_value(f, key, out, said);
	if (!f->transformer)
		return WEIR_OK;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(key, numbers[i].key) == 0)
			say_number(out, said, numbers[i].value);
	if (strcmp(key, "norm_eps") == 0)
		say_real(out, said, c->norm_eps);
	else if (strcmp(key, "rope_theta") == 0)
		say_rope(out, said, &c->rope);
	else if (strcmp(key, "tied_head") == 0)
		say_text(out, said, c->tied_head ? "true" : "false");
	return WEIR_OK;
}

/* --- Training */

static bool lasts_whole_training(const weir_schedule *s)
{
	const bool ends = s->kind == WEIR_SCHEDULE_LINEAR || s->kind == WEIR_SCHEDULE_COSINE || s->kind == WEIR_SCHEDULE_WSD;
	return ends && s->total == 0;
}

/* Passes may grow, unless a schedule's rates depend on their number. */
static void passes_value(const struct job *job, enum said *said)
{
	const struct job_table *dense = &job->tables.dense;
	const bool counts = lasts_whole_training(&job->tables.embedding.optimizer.schedule) ||
	                    lasts_whole_training(&dense->optimizer.schedule) ||
	                    (dense->mode.local_steps > 0 && lasts_whole_training(&dense->local.inner.schedule));
	*said = counts ? SAID_BY_KEY : SAID_NOT;
}

/* --- All */

/* Whether a transformer takes the value from data that are not known here. */
static bool is_unsettled(const struct facts *f, const struct key *key, const char *value)
{
	return key->of == OF_MODEL && job_is_transformer(f->job) && !f->transformer && key->zero_word &&
	       strcmp(value, key->zero_word) == 0;
}

/* The same as is_of_no_account, for the job that asks. */
static bool is_left_out(const struct facts *f, const struct key *key)
{
	const struct job *job = f->job;
	const bool whole = job->model.lora.rank == 0 && job->model.lora.from[0] == '\0';
	if (key->of == OF_OPERATION)
		return true;
	if (!f->parts->weights_only)
		return false;
	return !key->of_weights || (whole && strcmp(key->path, "model.from") == 0) ||
	       (model_kind_has(job->model.kind, PART_ROTARY) && strcmp(key->path, "model.positions") == 0) ||
	       (job_is_transformer(job) && key->of == OF_TRAINING);
}

/* Counts for a process that begins a run with weights of its own; the weights of model.from are
 * already counted there. */
static bool counts_warm_start(const struct facts *f)
{
	const struct job *job = f->job;
	return f->parts->begins && (!job->model.from[0] || strcmp(job->train.warm_start, job->model.from) != 0);
}

static weir_status value_of(const struct facts *f, const struct key *key, char *out, enum said *said, weir_error *err)
{
	weir_status status = WEIR_OK;
	*said = SAID_BY_KEY;
	if (strncmp(key->path, "data.", 5) == 0)
		status = data_value(f, key->path + 5, out, said, err);
	else if (strncmp(key->path, "model.", 6) == 0)
		status = model_value(f, key->path + 6, out, said, err);
	else if (strcmp(key->path, "train.passes") == 0)
		passes_value(f->job, said);
	else if (strcmp(key->path, "train.warm_start") == 0 && !counts_warm_start(f))
		*said = SAID_NOT;
	if (*said == SAID_BY_KEY)
		job_key_text(f->job, key, out, WEIR_FINGERPRINT_VALUE_BYTES);
	if (*said == SAID_BY_KEY && is_unsettled(f, key, out))
		*said = SAID_NOT;
	return status;
}

/* A transformer of tokens with an unknown vocabulary keeps the job file's values. */
static weir_status settle(struct facts *f, weir_error *err)
{
	const uint32_t vocabulary = f->data ? f->data->vocabulary : f->parts->vocabulary;
	f->transformer = job_is_transformer(f->job) && (vocabulary > 0 || f->job->model.vocabulary > 0 || f->job->model.from[0]);
	return f->transformer ? model_settle_transformer(f->job, vocabulary, &f->config, &f->lora, err) : WEIR_OK;
}

weir_status job_fingerprint(const struct job *job, const struct fingerprint_parts *parts, struct fingerprint *out,
                            weir_error *err)
{
	struct facts f = {.job = job, .parts = parts};
	char value[WEIR_FINGERPRINT_VALUE_BYTES];
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (unsigned i = 0; i < 3 && !f.data; i++)
		f.data = parts->items[i] ? dataset_get_info(parts->items[i]) : NULL;
	*out = (struct fingerprint){0};
	weir_status status = settle(&f, err);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		enum said said;
		if (is_left_out(&f, &keys[i]))
			continue;
		status = value_of(&f, &keys[i], value, &said, err);
		if (status == WEIR_OK && said != SAID_NOT)
			status = fingerprint_add(out, keys[i].path, value, err);
	}
	if (status != WEIR_OK) {
		free(out->text);
		*out = (struct fingerprint){0};
	}
	return status;
}

/* --- Comparisons */

/* Returns the parts of the model that the fingerprint names; 0 if it names none. */
static uint32_t parts_of(const char *fingerprint)
{
	for (enum model_kind k = 0; k < MODEL_KINDS; k++)
		if (fingerprint_value_is(fingerprint, "model.kind", model_kind_name(k)))
			return model_kind_row(k)->parts;
	return 0;
}

/* Keys that do not matter: the base model of whole weights; the positions of a rotary model, which
 * has no limit; and training keys of a transformer, which has no rows that were never trained. */
static bool is_of_no_account(const struct fingerprint_comparison *c, const struct key *key)
{
	const uint32_t parts = parts_of(c->was);
	return (strcmp(key->path, "model.from") == 0 && fingerprint_value_is(c->was, "model.lora.rank", "0")) ||
	       (strcmp(key->path, "model.positions") == 0 && (parts & HAS(ROTARY))) ||
	       (key->of == OF_TRAINING && (parts & HAS(TRANSFORMER)));
}

bool fingerprint_of_weights(const struct fingerprint_comparison *c, const char *key)
{
	const struct key *k = job_schema_find(key);
	return k && k->of_weights && !is_of_no_account(c, k);
}

bool fingerprint_of_tensors(const struct fingerprint_comparison *c, const char *key)
{
	return fingerprint_of_weights(c, key) && job_schema_find(key)->of != OF_TRAINING;
}

char *fingerprint_of_merged(const char *was)
{
	char *out = malloc(strlen(was) + 1), *to = out;
	for (const char *at = was, *end; out && (end = strchr(at, '\n')); at = end + 1) {
		const bool of_adapters = strncmp(at, "model.lora.", 11) == 0 || strncmp(at, "model.from=", 11) == 0;
		if (of_adapters)
			continue;
		memcpy(to, at, (size_t)(end - at) + 1);
		to += end - at + 1;
	}
	if (out)
		*to = '\0';
	return out;
}

weir_status fingerprint_check_accepted(const char *const *accepted, size_t accepted_count, weir_error *err)
{
	const char *names[JOB_KEYS_MAX];
	uint32_t count, n = 0;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++)
		if (keys[i].of != OF_OPERATION)
			names[n++] = keys[i].path;
	for (size_t a = 0; a < accepted_count; a++) {
		const struct key *found = job_schema_find(accepted[a]);
		if (found && found->of != OF_OPERATION)
			continue;
		if (found)
			return weir_fail(err, WEIR_E_INVALID, "--accept %s: the key determines no results, and is not what --accept is for",
			                 accepted[a]);
		const char *nearest = job_nearest(accepted[a], names, n);
		return weir_fail(err, WEIR_E_INVALID, "--accept %.100s: there is no such key%s%s", accepted[a],
		                 nearest ? "; the nearest is " : "", nearest ? nearest : "");
	}
	return WEIR_OK;
}
