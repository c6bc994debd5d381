#include "worker/train/score/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/key_partition.h"
#include "kernels/init.h"
#include "kernels/optimizer.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/adapter_targets.h"
#include "worker/model/model_folder.h"
#include "worker/model/safetensors/safetensors.h"
#include "worker/train/score/spool.h"

#define ASSIGN_BYTES (8u << 20) /* bytes of values in one assignment */

/* --- Saving */

struct rows {
	struct spool keys, values;
	uint64_t count;
	weir_error err;
};

static int collect_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	struct rows *r = arg;
	r->count++;
	return spool_add(&r->keys, &key, sizeof key, &r->err) || spool_add(&r->values, values, elements * sizeof *values, &r->err);
}

/* Collects the stored rows of a table. */
static weir_status collect_rows(struct rows *r, const char *path, weir_client *client, uint32_t table, weir_error *err)
{
	weir_status status = spool_open(&r->keys, disk_system(), path, err);
	if (status == WEIR_OK)
		status = spool_open(&r->values, disk_system(), path, err);
	if (status == WEIR_OK)
		status = weir_scan(client, table, 0, collect_row, r, err);
	if (status == WEIR_OK && r->err.status != WEIR_OK)
		status = weir_fail(err, r->err.status, "%s", r->err.text);
	if (status == WEIR_OK)
		status = spool_end(&r->keys, err);
	return status == WEIR_OK ? spool_end(&r->values, err) : status;
}

/* Clock of a table with full decay. */
struct clock_tensors {
	uint64_t steps;
	float rate;
};

struct save {
	const char *path;
	struct safetensor tensors[2 * WEIR_TABLE_SEGMENTS_MAX + 4 * MODEL_TABLES];
	uint32_t count;
	struct rows rows[MODEL_TABLES];
	struct clock_tensors clocks[MODEL_TABLES];
	float *flat[MODEL_TABLES];
};

static weir_status save_clocks(struct save *s, const struct tables *t, enum model_table k, weir_client *client, weir_error *err)
{
	struct clock_tensors *c = &s->clocks[k];
	const weir_table_spec spec = model_table_spec(t->model, k);
	const uint32_t partitions = weir_partitions(client);
	weir_table_clock *clocks = calloc(partitions, sizeof *clocks);
	weir_status status = clocks ? weir_clocks(client, t->ids[k], clocks, err)
	                            : weir_fail(err, WEIR_E_MEMORY, "out of memory for the steps of table %s", spec.name);
	for (uint32_t i = 0; i < partitions && status == WEIR_OK; i++)
		if (clocks[i].steps > c->steps)
			*c = (struct clock_tensors){.steps = clocks[i].steps, .rate = clocks[i].lr};
	free(clocks);
	if (status != WEIR_OK)
		return status;
	struct safetensor *steps = &s->tensors[s->count++], *rates = &s->tensors[s->count++];
	*steps = (struct safetensor){.type = SAFETENSOR_U64, .dims = 1, .shape = {1}, .data = &c->steps};
	*rates = (struct safetensor){.type = SAFETENSOR_F32, .dims = 1, .shape = {1}, .data = &c->rate};
	snprintf(steps->name, sizeof steps->name, "%s.steps", spec.name);
	snprintf(rates->name, sizeof rates->name, "%s.rates", spec.name);
	return WEIR_OK;
}

static weir_status save_keyed(struct save *s, const struct tables *t, enum model_table k, weir_client *client, weir_error *err)
{
	struct rows *r = &s->rows[k];
	const weir_table_spec spec = model_table_spec(t->model, k);
	weir_status status = collect_rows(r, s->path, client, t->ids[k], err);
	if (status != WEIR_OK)
		return status;
	struct safetensor *keys = &s->tensors[s->count++], *values = &s->tensors[s->count++];
	*keys = (struct safetensor){.type = SAFETENSOR_U64, .dims = 1, .shape = {r->count}, .file = r->keys.file};
	*values = (struct safetensor){.type = SAFETENSOR_F32, .dims = 2, .shape = {r->count, spec.width}, .file = r->values.file};
	snprintf(keys->name, sizeof keys->name, "%s.keys", spec.name);
	snprintf(values->name, sizeof values->name, "%s.values", spec.name);
	return spec.optimizer.decay == WEIR_DECAY_FULL ? save_clocks(s, t, k, client, err) : WEIR_OK;
}

static weir_status save_flat(struct save *s, const struct tables *t, enum model_table k, weir_client *client, weir_error *err)
{
	const struct layout *layout = model_layout(t->model, k);
	s->flat[k] = malloc(layout->elements * sizeof(float));
	if (!s->flat[k])
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the dense parameters");
	weir_status status = tables_read_flat(t, k, client, s->flat[k], err);
	for (uint32_t i = 0; i < layout->count && status == WEIR_OK; i++) {
		const struct tensor *from = &layout->tensors[i];
		struct safetensor *to = &s->tensors[s->count++];
		*to = (struct safetensor){.type = SAFETENSOR_F32, .dims = from->cols > 0 ? 2 : 1, .shape = {from->rows, from->cols}};
		to->data = s->flat[k] + from->offset;
		snprintf(to->name, sizeof to->name, "%s", from->name);
	}
	return status;
}

/* A number among the metadata. */
struct number {
	char name[WEIR_NAME_BYTES_MAX + sizeof ".table"], value[16];
};

static void write_number(struct number *out, const char *name, const char *suffix, uint32_t value)
{
	snprintf(out->name, sizeof out->name, "%s%s", name, suffix);
	snprintf(out->value, sizeof out->value, "%" PRIu32, value);
}

/* The shape of the data, and the ids of keyed tables. Returns their number. */
enum { NUMBERS = 3 + MODEL_TABLES };
static uint32_t write_numbers(const struct tables *tables, const struct model_data *data, struct number out[NUMBERS])
{
	uint32_t n = 0;
	write_number(&out[n++], "fields", "", data->fields);
	write_number(&out[n++], "dense_dim", "", data->dense_dim);
	write_number(&out[n++], "tasks", "", data->tasks);
	write_number(&out[n++], "embedding", ".table", tables->ids[MODEL_EMBEDDING]);
	write_number(&out[n++], "linear", ".table", tables->ids[MODEL_LINEAR]);
	for (enum model_table k = MODEL_EMBEDDINGS; k < MODEL_TABLES; k++)
		if (model_has(tables->model, k))
			write_number(&out[n++], model_table_spec(tables->model, k).name, ".table", tables->ids[k]);
	return n;
}

static weir_status write_file(const char *path, const struct save *s, const struct tables *tables, const struct model_data *data,
                              const char *fingerprint, weir_error *err)
{
	struct number numbers[NUMBERS];
	struct model_fact facts[MODEL_FACTS_MAX];
	const char *metadata[2 * (2 + NUMBERS + MODEL_FACTS_MAX) + 1] = {"format", "weir"};
	uint32_t n = 2;
	const uint32_t numbers_count = write_numbers(tables, data, numbers);
	for (uint32_t i = 0; i < numbers_count; i++) {
		metadata[n++] = numbers[i].name;
		metadata[n++] = numbers[i].value;
	}
	metadata[n++] = SAFETENSORS_FINGERPRINT;
	metadata[n++] = fingerprint;
	const uint32_t count = model_facts(tables->model, facts);
	for (uint32_t i = 0; i < count; i++) {
		metadata[n++] = facts[i].key;
		metadata[n++] = facts[i].value;
	}
	return safetensors_write(disk_system(), path, s->tensors, s->count, metadata, err);
}

weir_status snapshot_save(const char *path, const struct tables *tables, weir_client *client, const struct model_data *data,
                          const char *fingerprint, weir_error *err)
{
	struct save *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->path = path;
	weir_status status = WEIR_OK;
	for (enum model_table k = 0; k < MODEL_TABLES && status == WEIR_OK; k++)
		if (model_has(tables->model, k))
			status = model_table_is_keyed(k) ? save_keyed(s, tables, k, client, err) : save_flat(s, tables, k, client, err);
	if (status == WEIR_OK)
		status = write_file(path, s, tables, data, fingerprint, err);
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		spool_close(&s->rows[k].keys);
		spool_close(&s->rows[k].values);
		free(s->flat[k]);
	}
	free(s);
	return status;
}

/* --- Loading */

/* Rows of one keyed table by open addressing: slot -> row + 1, 0 is empty. */
struct key_index {
	const uint64_t *keys;
	const float *values;
	uint32_t *slots;
	uint64_t count, mask;
	uint32_t table;
	weir_table_spec spec;
	/* Full decay; NULL otherwise. */
	struct optimizer *optimizer;
	const uint64_t *steps; /* (partitions) */
	const float *rates;    /* (partitions) */
	uint32_t partitions;
	float *row; /* value and slots of the present row */
};

struct snapshot {
	struct safetensors *file;         /* NULL: a folder */
	struct model_weights *folder;     /* once it is bound */
	bool adapters;                    /* a folder of adapters */
	bool trusted;                     /* snapshot_trust */
	char *fingerprint;                /* of a folder; NULL: it has none */
	struct transformer_config config; /* of a model folder */
	const struct model *model;
	char path[4096];
	struct key_index index[MODEL_TABLES];
};

/* Checks alignment: tensors are read in place. */
static weir_status check_aligned(const struct snapshot *s, weir_error *err)
{
	for (uint32_t i = 0; i < safetensors_count(s->file); i++)
		if (!safetensor_is_aligned(safetensors_at(s->file, i)))
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' is not aligned to its elements", s->path,
			                 safetensors_at(s->file, i)->name);
	return WEIR_OK;
}

/* The fingerprint in a folder's weights. Errors in them are reported when they are bound. */
static char *folder_fingerprint(const char *folder)
{
	static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"};
	char path[WEIR_PATH_BYTES_MAX], *out = NULL;
	for (size_t i = 0; i < sizeof names / sizeof *names && !out; i++) {
		struct safetensors *file;
		weir_error ignored = {0};
		if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path || access(path, R_OK) != 0 ||
		    safetensors_open(&file, path, &ignored) != WEIR_OK)
			continue;
		const char *text = safetensors_metadata(file, SAFETENSORS_FINGERPRINT);
		out = text[0] != '\0' ? strdup(text) : NULL;
		safetensors_close(file);
	}
	return out;
}

weir_status snapshot_open(struct snapshot **out, const char *path, weir_error *err)
{
	struct snapshot *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	snprintf(s->path, sizeof s->path, "%s", path);
	weir_status status = WEIR_OK;
	if (adapter_folder_is(path)) {
		s->adapters = true;
	} else if (model_folder_is(path)) {
		status = model_folder_config(path, &s->config, err);
	} else {
		status = safetensors_open(&s->file, path, err);
		if (status == WEIR_OK)
			status = check_aligned(s, err);
	}
	if (status == WEIR_OK && !s->file)
		s->fingerprint = folder_fingerprint(path);
	if (status == WEIR_OK)
		*out = s;
	else
		snapshot_close(s);
	return status;
}

void snapshot_close(struct snapshot *s)
{
	if (!s)
		return;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		free(s->index[k].slots);
		free(s->index[k].row);
		optimizer_destroy(s->index[k].optimizer);
	}
	safetensors_close(s->file);
	model_folder_close(s->folder);
	free(s->fingerprint);
	free(s);
}

bool snapshot_is_folder(const struct snapshot *s)
{
	return !s->file;
}

const char *snapshot_fingerprint(const struct snapshot *s)
{
	if (s->file)
		return safetensors_metadata(s->file, SAFETENSORS_FINGERPRINT);
	return s->fingerprint ? s->fingerprint : "";
}

void snapshot_trust(struct snapshot *s)
{
	s->trusted = snapshot_fingerprint(s)[0] != '\0';
}

static uint32_t metadata_number(const struct snapshot *s, const char *key)
{
	return s->file ? (uint32_t)strtoul(safetensors_metadata(s->file, key), NULL, 10) : 0;
}

struct model_data snapshot_data(const struct snapshot *s)
{
	return (struct model_data){.tasks = metadata_number(s, "tasks"),
	                           .fields = metadata_number(s, "fields"),
	                           .dense_dim = metadata_number(s, "dense_dim"),
	                           .vocabulary = s->file ? metadata_number(s, "model.vocabulary") : s->config.vocabulary};
}

/* A file of a model without full decay has no clocks: its rows keep their initial values. */
static weir_status bind_clocks(const struct snapshot *s, struct key_index *x, weir_error *err)
{
	char name[SAFETENSORS_NAME_BYTES];
	snprintf(name, sizeof name, "%s.steps", x->spec.name);
	const struct safetensor *steps = safetensors_find(s->file, name);
	snprintf(name, sizeof name, "%s.rates", x->spec.name);
	const struct safetensor *rates = safetensors_find(s->file, name);
	if (!steps || !rates)
		return WEIR_OK;
	if (steps->type != SAFETENSOR_U64 || rates->type != SAFETENSOR_F32 || steps->dims != 1 || rates->dims != 1 ||
	    steps->shape[0] != rates->shape[0] || steps->shape[0] == 0 || steps->shape[0] > WEIR_PARTITIONS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "%s: tensors %s.steps and %s.rates do not fit each other", s->path, x->spec.name,
		                 x->spec.name);
	x->steps = steps->data;
	x->rates = rates->data;
	x->partitions = (uint32_t)steps->shape[0];
	x->optimizer = optimizer_create(&x->spec.optimizer, err);
	if (!x->optimizer)
		return WEIR_E_INVALID;
	x->row = malloc((1 + optimizer_slots(x->spec.optimizer.kind)) * x->spec.width * sizeof *x->row);
	return x->row ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a row of table %s", x->spec.name);
}

static weir_status bind_keyed(struct snapshot *s, enum model_table k, weir_error *err)
{
	struct key_index *x = &s->index[k];
	char name[SAFETENSORS_NAME_BYTES];
	x->spec = model_table_spec(s->model, k);
	snprintf(name, sizeof name, "%s.table", x->spec.name);
	x->table = metadata_number(s, name);
	snprintf(name, sizeof name, "%s.keys", x->spec.name);
	const struct safetensor *keys = safetensors_find(s->file, name);
	snprintf(name, sizeof name, "%s.values", x->spec.name);
	const struct safetensor *values = safetensors_find(s->file, name);
	if (!keys || !values || keys->type != SAFETENSOR_U64 || values->type != SAFETENSOR_F32 || keys->dims != 1 ||
	    values->dims != 2 || values->shape[0] != keys->shape[0] || values->shape[1] != x->spec.width ||
	    keys->shape[0] >= UINT32_MAX)
		return weir_fail(err, WEIR_E_INVALID, "%s holds no rows of width %u for table %s: it was saved by another model", s->path,
		                 x->spec.width, x->spec.name);
	uint64_t slots = 16;
	while (slots < 2 * keys->shape[0])
		slots *= 2;
	x->keys = keys->data;
	x->values = values->data;
	x->count = keys->shape[0];
	x->mask = slots - 1;
	x->slots = calloc(slots, sizeof *x->slots);
	if (!x->slots)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the keys of %s", s->path);
	for (uint32_t row = 0; row < keys->shape[0]; row++) {
		uint64_t slot = hash_u64(x->keys[row]) & x->mask;
		while (x->slots[slot] != 0)
			slot = (slot + 1) & x->mask;
		x->slots[slot] = row + 1;
	}
	return x->spec.optimizer.decay == WEIR_DECAY_FULL ? bind_clocks(s, x, err) : WEIR_OK;
}

static weir_status bind_flat(struct snapshot *s, enum model_table k, weir_error *err)
{
	const struct layout *layout = model_layout(s->model, k);
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct tensor *t = &layout->tensors[i];
		const struct safetensor *f = safetensors_find(s->file, t->name);
		if (!f || !safetensor_is_real(f->type) || safetensor_elements(f) != t->elements || f->dims != (t->cols > 0 ? 2 : 1) ||
		    f->shape[0] != t->rows)
			return weir_fail(err, WEIR_E_INVALID, "%s holds no tensor %s of shape (%u, %u): it was saved by another model",
			                 s->path, t->name, t->rows, t->cols);
	}
	return WEIR_OK;
}

/* Compares the model's facts, because tensors of another model may fit: a smaller model's are among
 * a larger one's. For a file without facts only its tensors count. */
static weir_status check_facts(const struct snapshot *s, const struct model *model, weir_error *err)
{
	struct model_fact facts[MODEL_FACTS_MAX];
	const uint32_t count = model_facts(model, facts);
	for (uint32_t i = 0; i < count; i++) {
		const char *saved = safetensors_metadata(s->file, facts[i].key);
		if (saved[0] != '\0' && strcmp(saved, facts[i].value) != 0)
			return weir_fail(err, WEIR_E_INVALID, "%s was saved by another model: its %s is %.200s, the job's is %s", s->path,
			                 facts[i].key, saved, facts[i].value);
	}
	return WEIR_OK;
}

/* Checks that the settings in a folder of adapters are the model's: tensors do not show alpha. */
static weir_status check_lora(const struct snapshot *s, weir_error *err)
{
	const struct transformer *t = model_transformer(s->model);
	if (!t || transformer_lora_of(t)->rank == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s is a folder of adapters, and the job trains none: expected model.lora.from, or model.lora.rank",
		                 s->path);
	const struct lora_options *ours = transformer_lora_of(t);
	struct lora_options theirs = {0};
	const weir_status status = adapter_folder_read(s->path, &theirs, err);
	if (status != WEIR_OK)
		return status;
	if (theirs.rank != ours->rank)
		return weir_fail(err, WEIR_E_INVALID, "%s: its adapters have rank %u, the job's model.lora.rank %u", s->path, theirs.rank,
		                 ours->rank);
	if (!s->trusted && (theirs.alpha < ours->alpha || theirs.alpha > ours->alpha))
		return weir_fail(err, WEIR_E_INVALID, "%s: its adapters have alpha %g, the job's model.lora.alpha %g", s->path,
		                 (double)theirs.alpha, (double)ours->alpha);
	if (!adapter_targets_same(&theirs, ours, transformer_config_of(t)->layers))
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "%s: its adapters (target_modules, layers_to_transform) are of other modules than the job's (model.lora)", s->path);
	return WEIR_OK;
}

/* Binds a folder. A model folder has the weights of a whole transformer and no others; a folder of
 * adapters has only adapters. */
static weir_status bind_folder(struct snapshot *s, weir_error *err)
{
	const struct layout *layout = model_layout(s->model, MODEL_DENSE);
	model_folder_close(s->folder);
	s->folder = NULL;
	if (s->adapters) {
		weir_status status = check_lora(s, err);
		if (status != WEIR_OK || (status = adapter_folder_open(&s->folder, s->path, layout, err)) != WEIR_OK)
			return status;
		return model_folder_check_finite(s->folder, s->path, err);
	}
	char models[MODEL_NAMES_BYTES];
	model_names(READS_TOKENS, models);
	if (!model_is_whole_transformer(s->model))
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s is a model folder, and the job trains no such model: expected model.kind %s, without model.lora",
		                 s->path, models);
	/* Tensors of one shape may differ in meaning: other heads, positions, epsilons. */
	weir_status status =
	    transformer_config_same(&s->config, s->path, transformer_config_of(model_transformer(s->model)), "the job's model", err);
	if (status == WEIR_OK)
		status = model_folder_open(&s->folder, s->path, layout, err);
	return status == WEIR_OK ? model_folder_check_finite(s->folder, s->path, err) : status;
}

weir_status snapshot_bind(struct snapshot *s, const struct model *model, weir_error *err)
{
	s->model = model;
	if (!s->file)
		return bind_folder(s, err);
	weir_status status = s->trusted ? WEIR_OK : check_facts(s, model, err);
	for (enum model_table k = 0; k < MODEL_TABLES && status == WEIR_OK; k++)
		if (model_has(model, k))
			status = model_table_is_keyed(k) ? bind_keyed(s, k, err) : bind_flat(s, k, err);
	/* Refuses a head, or adapters, that this model does not have. */
	if (status == WEIR_OK && model_transformer(model))
		status = model_file_check_none_more(s->file, model_layout(model, MODEL_DENSE), s->path, "the job's model", err);
	return status;
}

void snapshot_read_flat(const struct snapshot *s, enum model_table k, float *out)
{
	const struct layout *layout = model_layout(s->model, k);
	if (!s->file) {
		model_folder_read(s->folder, 0, layout->elements, out);
		return;
	}
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct tensor *t = &layout->tensors[i];
		safetensor_floats(safetensors_find(s->file, t->name), 0, t->elements, out + t->offset);
	}
}

void snapshot_fill_flat(const struct snapshot *s, struct minibatch *m)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++)
		if (!model_table_is_keyed(k) && model_has(s->model, k))
			snapshot_read_flat(s, k, m->parameters[k]);
}

/* Fills in a row that was never pushed. */
static void fill_initial(const struct key_index *x, uint64_t key, float *out)
{
	const size_t width = x->spec.width;
	init_embedding_row(x->spec.seed, x->table, key, x->spec.segments, out, width);
	if (!x->optimizer)
		return;
	const uint32_t partition = placement_embedding(x->table, key, x->partitions);
	const struct optimizer_clock clock = {.steps = x->steps[partition], .lr = x->rates[partition]};
	struct row_state state = {0};
	memcpy(x->row, out, width * sizeof *out);
	optimizer_init_slots(&x->spec.optimizer, x->row + width, width);
	optimizer_catch_up(x->optimizer, &clock, &state, x->row, x->row + width, width);
	memcpy(out, x->row, width * sizeof *out);
}

static void fill_row(const struct key_index *x, uint64_t key, float *out)
{
	uint64_t slot = hash_u64(key) & x->mask;
	while (x->slots[slot] != 0 && x->keys[x->slots[slot] - 1] != key)
		slot = (slot + 1) & x->mask;
	if (x->slots[slot] != 0)
		memcpy(out, x->values + (size_t)(x->slots[slot] - 1) * x->spec.width, x->spec.width * sizeof(float));
	else
		fill_initial(x, key, out);
}

void snapshot_fill_rows(const struct snapshot *s, struct minibatch *m)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		const struct key_index *x = &s->index[k];
		const struct used_rows rows = model_table_rows(s->model, &m->input, k);
		for (size_t i = 0; model_table_is_keyed(k) && model_has(s->model, k) && i < rows.count; i++)
			fill_row(x, m->keys[rows.first + i], m->parameters[k] + i * x->spec.width);
	}
}

/* --- Into a job */

static weir_status assign_keyed(const struct key_index *x, uint32_t table, uint64_t count, weir_client *client, weir_error *err)
{
	const size_t width = x->spec.width, step = ASSIGN_BYTES / (width * sizeof(float)) + 1;
	weir_status status = WEIR_OK;
	for (uint64_t at = 0, n; at < count && status == WEIR_OK; at += n) {
		n = count - at < step ? count - at : step;
		status = weir_assign(client, table, x->keys + at, n, x->values + at * width, err);
	}
	return status;
}

static weir_status assign_flat(const struct snapshot *s, enum model_table k, uint32_t table, weir_client *client, weir_error *err)
{
	const struct layout *layout = model_layout(s->model, k);
	float *flat = malloc(layout->elements * sizeof(float));
	if (!flat)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the dense parameters");
	snapshot_read_flat(s, k, flat);
	weir_status status = weir_assign(client, table, NULL, 0, flat, err);
	free(flat);
	return status;
}

weir_status snapshot_assign(const struct snapshot *s, const struct tables *t, weir_client *client, uint64_t *rows,
                            weir_error *err)
{
	weir_status status = WEIR_OK;
	*rows = 0;
	for (enum model_table k = 0; k < MODEL_TABLES && status == WEIR_OK; k++) {
		if (!model_has(s->model, k))
			continue;
		if (!model_table_is_keyed(k)) {
			status = assign_flat(s, k, t->ids[k], client, err);
			continue;
		}
		status = assign_keyed(&s->index[k], t->ids[k], s->index[k].count, client, err);
		*rows += s->index[k].count;
	}
	return status;
}
