/* Checks of models and of the data that they learn from. */
#include "common/base/lora_target.h"
#include "common/job/job_column_schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum model_reads data_kind(const struct job *job)
{
	return job->data.format == DATA_TEXT ? READS_TEXT : job->data.format == DATA_TOKENS ? READS_TOKENS : READS_CLICKS;
}

static weir_status check_format(struct reading *r, const struct job *job)
{
	const enum model_reads has = data_kind(job), reads = model_kind_row(job->model.kind)->reads;
	char models[MODEL_NAMES_BYTES];
	model_names(has, models);
	if (reads != has && has != READS_CLICKS)
		return FAIL(r, "model.kind", WEIR_E_INVALID, "reads %s, and data.format is %s; expected %s", model_reads_name(reads),
		            model_reads_name(has), models);
	if (reads != has)
		return FAIL(r, "data.format", WEIR_E_INVALID, "is of clicks, and model.kind reads %s; expected %s",
		            model_reads_name(reads), model_reads_name(reads));
	if (has != READS_TOKENS && job->data.tokenizer[0] != 0)
		return FAIL(r, "data.tokenizer", WEIR_E_INVALID, "is given, and data.format is not tokens; expected both or neither");
	return WEIR_OK;
}

/* Text and tokens have neither fields nor an AUC. */
static weir_status check_language(struct reading *r, struct job *job)
{
	const weir_status status = check_format(r, job);
	if (status != WEIR_OK || !job_is_language(job))
		return status;
	const enum model_reads reads = model_kind_row(job->model.kind)->reads;
	const bool text = reads == READS_TEXT;
	if (job->data.fields > 0)
		FAIL(r, "data.fields", WEIR_E_INVALID, "is %u, and data.format is %s, which has data.%s; expected auto", job->data.fields,
		     model_reads_name(reads), text ? "context" : "sequence");
	if (job->data.dense > 0)
		FAIL(r, "data.dense", WEIR_E_INVALID, "is %u, and data.format is %s; expected auto", job->data.dense,
		     model_reads_name(reads));
	if (job->train.early_stop.metric == METRIC_AUC && job_raw(r, "train.early_stop.metric")->given)
		FAIL(r, "train.early_stop.metric", WEIR_E_INVALID, "is auc, which %s does not have; expected logloss",
		     text ? "text" : "a language model");
	job->train.early_stop.metric = METRIC_LOGLOSS;
	if (job_best_by(job) != METRIC_LOGLOSS)
		FAIL(r, "train.best_by", WEIR_E_INVALID, "is a figure of clicks, which %s does not have; expected early_stop or logloss",
		     text ? "text" : "a language model");
	return WEIR_OK;
}

static bool has_default(const struct job *job, const char *path)
{
	const struct key *key = job_schema_find(path);
	char value[64];
	job_key_text(job, key, value, sizeof value);
	return strcmp(value, key->fallback) == 0;
}

/* Refuses settings of a loss that the job does not have. */
static void check_loss(struct reading *r, const struct job *job)
{
	static const struct {
		const char *path;
		bool bce, focal;
	} keys[] = {{"train.loss.kind", true, true},        {"train.loss.gamma", false, true},
	            {"train.loss.alpha", false, true},      {"train.loss.label_smoothing", true, true},
	            {"train.loss.pos_weight", true, false}, {"train.loss.task_weights", true, true}};
	const bool focal = job->train.loss.kind == LOSS_FOCAL;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *path = keys[i].path;
		if (job_is_language(job) && job_raw(r, path)->given)
			FAIL(r, path, WEIR_E_INVALID, "is given, and model.kind is %s, whose loss has no settings; expected no such key",
			     model_kind_name(job->model.kind));
		else if (!job_is_language(job) && !(focal ? keys[i].focal : keys[i].bce) && !has_default(job, path))
			FAIL(r, path, WEIR_E_INVALID, "is given, and train.loss.kind is %s; expected no such key, or %s",
			     focal ? "focal" : "bce", focal ? "train.loss.alpha, which weighs its classes" : "train.loss.kind: focal");
	}
}

static weir_status check_batch_norm(struct reading *r, const struct job *job)
{
	if (job_normalises_batches(job) && job->data.batch < 2)
		return FAIL(r, "data.batch", WEIR_E_INVALID,
		            "is %u, and model.batch_norm normalises over the rows of a batch; expected at least 2, or batch_norm: false",
		            job->data.batch);
	return WEIR_OK;
}

static weir_status check_shape(struct reading *r, const struct job *job)
{
	const enum model_kind kind = job->model.kind;
	const uint32_t heads = job->model.heads, kv_heads = job->model.kv_heads, width = job->model.width;
	if (width % heads != 0)
		return FAIL(r, "model.width", WEIR_E_INVALID, "is %u, which %u heads cannot share; expected a multiple of model.heads",
		            width, heads);
	if (width / heads > WEIR_HEAD_WIDTH_MAX)
		return FAIL(r, "model.heads", WEIR_E_INVALID,
		            "is %u, which makes heads of %u elements; expected more heads, of at most %u", heads, width / heads,
		            WEIR_HEAD_WIDTH_MAX);
	if (!model_kind_has(kind, PART_GROUPED_HEADS) && kv_heads > 0 && kv_heads != heads)
		return FAIL(r, "model.kv_heads", WEIR_E_INVALID, "is %u, and model.kind is %s; expected auto", kv_heads,
		            model_kind_name(kind));
	if (model_kind_has(kind, PART_ROTARY) && width / heads % 2 != 0)
		return FAIL(r, "model.heads", WEIR_E_INVALID,
		            "is %u, which makes heads of %u elements; expected heads of an even number, as rotary positions turn pairs",
		            heads, width / heads);
	if (kv_heads > 0 && heads % kv_heads != 0)
		return FAIL(r, "model.kv_heads", WEIR_E_INVALID, "is %u, which %u heads cannot share; expected a divisor of model.heads",
		            kv_heads, heads);
	if (job->model.positions > 0 && job->model.positions < job->data.sequence)
		return FAIL(r, "model.positions", WEIR_E_INVALID, "is %u, and data.sequence is %u; expected at least as many",
		            job->model.positions, job->data.sequence);
	return WEIR_OK;
}

static weir_status check_lora_from(struct reading *r, const struct job *job)
{
	static const char *const said[] = {"model.lora.rank", "model.lora.alpha", "model.lora.targets"};
	if (job->model.lora.from[0] == '\0')
		return WEIR_OK;
	if (job->model.from[0] == '\0')
		return FAIL(r, "model.lora.from", WEIR_E_INVALID,
		            "is given, and there is no model.from; expected a folder with the model that the adapters are of");
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (job_raw(r, said[i])->given)
			return FAIL(r, said[i], WEIR_E_INVALID, "is given, and model.lora.from says what it is; expected one of them");
	return WEIR_OK;
}

/* Keys of parts that the model does not have. */
static void check_parts(struct reading *r, const struct job *job)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++)
		if (keys[i].of == OF_MODEL && keys[i].parts && !(keys[i].parts & model_kind_row(job->model.kind)->parts) &&
		    job_raw(r, keys[i].path)->given)
			FAIL(r, keys[i].path, WEIR_E_INVALID, "is given, and model.kind is %s, which has no such part; expected no such key",
			     model_kind_name(job->model.kind));
}

static weir_status check_transformer(struct reading *r, const struct job *job)
{
	static const char *const shape[] = {"model.layers",       "model.heads",      "model.kv_heads",  "model.width",
	                                    "model.feed_forward", "model.vocabulary", "model.positions", "model.norm_eps",
	                                    "model.rope_theta",   "model.tied_head"};
	const bool from = job->model.from[0] != '\0';
	check_parts(r, job);
	for (size_t i = 0; i < sizeof shape / sizeof *shape && from; i++)
		if (job_raw(r, shape[i])->given)
			FAIL(r, shape[i], WEIR_E_INVALID, "is given, and model.from says what it is; expected one of them");
	if (job->model.lora.rank > 0 && !from)
		FAIL(r, "model.lora.rank", WEIR_E_INVALID,
		     "is %u, and there is no model.from; expected a folder with the model that the adapters are of",
		     job->model.lora.rank);
	const uint64_t tokens = (uint64_t)job->data.batch * job->data.sequence;
	if (tokens > WEIR_BATCH_TOKENS_MAX)
		FAIL(r, "data.sequence", WEIR_E_LIMIT, "is %u, and data.batch is %u, together %" PRIu64 " tokens; expected at most %u",
		     job->data.sequence, job->data.batch, tokens, WEIR_BATCH_TOKENS_MAX);
	if (job->train.accumulate > job->data.batch)
		FAIL(r, "train.accumulate", WEIR_E_INVALID, "is %u, and data.batch is %u; expected at most as many parts as rows",
		     job->train.accumulate, job->data.batch);
	(void)check_lora_from(r, job);
	return from ? WEIR_OK : check_shape(r, job);
}

/* Full training starts with the weights of model.from. Adapters start fresh, or with those of
 * model.lora.from. */
static void begin_from(struct job *job)
{
	const char *weights = job->model.lora.from[0] != '\0' ? job->model.lora.from : job->model.from;
	if (job->model.lora.rank == 0 && job->train.warm_start[0] == '\0')
		snprintf(job->train.warm_start, sizeof job->train.warm_start, "%s", weights);
}

static weir_status check_targets(struct reading *r, const struct job *job)
{
	for (uint32_t i = 0; i < job->model.lora.targets_count; i++) {
		const char *name = job->model.lora.targets[i];
		if (lora_target_find(name, strlen(name)) == LORA_TARGETS_COUNT)
			return FAIL(
			    r, "model.lora.targets", WEIR_E_INVALID,
			    "has %.40s: expected names among q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj (llama), c_attn, "
			    "c_proj, c_fc (gpt2)",
			    name);
	}
	return WEIR_OK;
}

/* Layers that the model is made of: a list with a default may not be empty. */
static weir_status check_layers(struct reading *r, const struct job *job)
{
	uint32_t count, items;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		if (keys[i].type != KEY_U32_LIST || keys[i].fallback[0] == '\0' ||
		    !(keys[i].parts & model_kind_row(job->model.kind)->parts))
			continue;
		memcpy(&items, (const char *)job + keys[i].count_offset, sizeof items);
		if (items == 0)
			FAIL(r, keys[i].path, WEIR_E_INVALID, "is empty, and model.kind is %s; expected a list such as %s",
			     model_kind_name(job->model.kind), keys[i].fallback);
	}
	return WEIR_OK;
}

/* The last layer's output is one more vector beside the embeddings. */
static weir_status check_bottom(struct reading *r, const struct job *job)
{
	const uint32_t bottom = job->model.bottom_count;
	if (model_kind_has(job->model.kind, PART_INTERACTION) && (bottom == 0 || job->model.bottom[bottom - 1] != job->model.dim))
		return FAIL(r, "model.bottom", WEIR_E_INVALID,
		            "expected a list that ends with model.dim: %u, because %s crosses it with embeddings", job->model.dim,
		            model_kind_name(job->model.kind));
	return WEIR_OK;
}

/* Keys of transformers that mean nothing to other models. */
static weir_status check_others(struct reading *r, const struct job *job)
{
	char models[MODEL_NAMES_BYTES];
	model_names(READS_TOKENS, models);
	if (job->model.from[0] != '\0')
		FAIL(r, "model.from", WEIR_E_INVALID, "is for text models; set model.kind to %s", models);
	if (job->train.accumulate > 1)
		FAIL(r, "train.accumulate", WEIR_E_INVALID, "is %u, and model.kind is %s; expected 1, or model.kind %s",
		     job->train.accumulate, model_kind_name(job->model.kind), models);
	return WEIR_OK;
}

/* Models of one logit learn one task; weights of tasks are one for each. */
static void check_tasks(struct reading *r, const struct job *job)
{
	const uint32_t labels = job_columns_labels(job), weights = job->train.loss.task_weights_count;
	if (labels > 1 && !model_kind_has(job->model.kind, PART_TASKS))
		FAIL(r, "model.kind", WEIR_E_INVALID,
		     "is %s, which learns one task, and data.columns has %u of kind: label; expected mmoe or shared_bottom, or kind: "
		     "ignore for all labels but one",
		     model_kind_name(job->model.kind), labels);
	if (weights > 0 && labels > 0 && weights != labels)
		FAIL(r, "train.loss.task_weights", WEIR_E_INVALID,
		     "has %u numbers, and data.columns has %u of kind: label; expected one "
		     "for each, in the order of the columns",
		     weights, labels);
}

/* DIN needs histories with a target; attention weighs their ids in place of a pooling. */
static void check_histories(struct reading *r, const struct job *job)
{
	struct job_history histories[WEIR_HISTORIES_MAX];
	const uint32_t count = job_histories(job, histories);
	if (!model_kind_has(job->model.kind, PART_ATTENTION) || job_columns_any_wrong(r))
		return;
	if (count == 0)
		FAIL(r, "model.kind", WEIR_E_INVALID,
		     "is %s, which attends to histories, and data.columns has none with a target; expected a column such as {name: "
		     "last_items, kind: sequence, share: item}, with item of kind: categorical",
		     model_kind_name(job->model.kind));
	if (count > WEIR_HISTORIES_MAX)
		FAIL(r, "data.columns", WEIR_E_LIMIT, "have %u histories with a target; model.kind %s attends to at most %u", count,
		     model_kind_name(job->model.kind), WEIR_HISTORIES_MAX);
	for (uint32_t i = 0; i < count && i < WEIR_HISTORIES_MAX; i++) {
		const struct job_column *c = job_column_of_field(job, histories[i].field);
		if (c->pooling != POOLING_SUM)
			FAIL(r, "model.kind", WEIR_E_INVALID,
			     "is %s, which weighs the ids of '%.60s' itself, and its pooling is %s; expected sum",
			     model_kind_name(job->model.kind), c->name, c->pooling == POOLING_MEAN ? "mean" : "max");
	}
}

/* The list that names a column: "model.user" or "model.item"; NULL: neither. */
static const char *tower_of(const struct job *job, const char *name)
{
	for (uint32_t i = 0; i < job->model.user_count; i++)
		if (strcmp(job->model.user[i], name) == 0)
			return "model.user";
	for (uint32_t i = 0; i < job->model.item_count; i++)
		if (strcmp(job->model.item[i], name) == 0)
			return "model.item";
	return NULL;
}

/* Checks the columns that one tower names. */
static void check_tower(struct reading *r, const struct job *job, const char *path, char *const *names, uint32_t count)
{
	if (count == 0)
		FAIL(r, path, WEIR_E_INVALID, "is empty, and model.kind is %s; expected names of data.columns, such as [%s]",
		     model_kind_name(job->model.kind), strcmp(path, "model.user") == 0 ? "user, city" : "item, category");
	for (uint32_t i = 0; i < count; i++) {
		const struct job_column *c = job_column_find(job, names[i]);
		if (!c || !(job_column_is_field(c) || c->kind == COLUMN_NUMERIC))
			FAIL(r, path, WEIR_E_INVALID, "has '%.60s', and data.columns has no column of that name with ids or numbers",
			     names[i]);
		else if (strcmp(tower_of(job, names[i]), path) != 0)
			FAIL(r, path, WEIR_E_INVALID, "has '%.60s', which model.user has, too; expected each column in one of them",
			     names[i]);
		else if (c->pooling == POOLING_MAX)
			FAIL(r, path, WEIR_E_INVALID, "has '%.60s', whose pooling is max; expected sum or mean with model.kind: %s", names[i],
			     model_kind_name(job->model.kind));
	}
}

/* Each column with ids or numbers belongs to one of the two towers. */
static void check_towers(struct reading *r, const struct job *job)
{
	if (!model_kind_has(job->model.kind, PART_RETRIEVAL) || job_columns_any_wrong(r))
		return;
	if (!data_format_has_columns(job->data.format)) {
		FAIL(r, "model.kind", WEIR_E_INVALID,
		     "is %s, whose towers read columns by name; expected data.format: csv, jsonl, parquet or arrow",
		     model_kind_name(job->model.kind));
		return;
	}
	check_tower(r, job, "model.user", job->model.user, job->model.user_count);
	check_tower(r, job, "model.item", job->model.item, job->model.item_count);
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i];
		if ((job_column_is_field(c) || c->kind == COLUMN_NUMERIC) && !tower_of(job, c->name))
			FAIL(r, "model.kind", WEIR_E_INVALID,
			     "is %s, and neither model.user nor model.item has the column '%.60s'; expected one of them, or kind: ignore",
			     model_kind_name(job->model.kind), c->name);
	}
	if (job->model.negatives > 0 && job->model.batch_norm)
		FAIL(
		    r, "model.negatives", WEIR_E_INVALID,
		    "is %u, and model.batch_norm would normalise over users that negatives do not have; expected 0, or batch_norm: false",
		    job->model.negatives);
	const struct job_column *first = job->model.item_count > 0 ? job_column_find(job, job->model.item[0]) : NULL;
	if (first && first->kind != COLUMN_CATEGORICAL)
		FAIL(r, "model.item", WEIR_E_INVALID,
		     "begins with '%.60s', of kind %s; expected the column of kind: categorical that names the item", first->name,
		     column_kind_name(first->kind));
}

/* The task that chooses the best weights is a label. */
static void check_best_task(struct reading *r, const struct job *job)
{
	const struct job_column *column = job_column_find(job, job->train.best_task);
	const char *names[WEIR_TASKS_MAX];
	uint32_t count = 0;
	if (job->train.best_task[0] == 0 || (column && column->kind == COLUMN_LABEL) || job_columns_any_wrong(r))
		return;
	for (; count < WEIR_TASKS_MAX && job_column_label(job, count); count++)
		names[count] = job_column_label(job, count)->name;
	const char *nearest = job_nearest(job->train.best_task, names, count);
	FAIL(r, "train.best_task", WEIR_E_INVALID, "is '%.60s', and data.columns has no such column of kind: label%s%.60s%s",
	     job->train.best_task, nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

weir_status job_check_model(struct reading *r, struct job *job)
{
	const weir_status status = check_language(r, job);
	check_loss(r, job);
	if (status != WEIR_OK)
		return status;
	if (job_is_transformer(job)) {
		(void)check_transformer(r, job);
		begin_from(job);
		return check_targets(r, job);
	}
	(void)check_others(r, job);
	check_tasks(r, job);
	check_best_task(r, job);
	check_histories(r, job);
	check_towers(r, job);
	if (check_batch_norm(r, job) != WEIR_OK)
		return WEIR_E_INVALID;
	(void)check_layers(r, job);
	return check_bottom(r, job);
}
