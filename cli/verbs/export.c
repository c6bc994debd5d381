/* weir export: the weights of a running job, or the best weights of a job that has ended. It writes
 * a safetensors file; or a folder for transformers, with a job's adapters merged into their base
 * weights; or only the adapters, as a PEFT folder. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/verbs.h"
#include "cli/run/job_servers.h"
#include "cli/verbs/export_ids.h"
#include "cli/verbs/job_weights.h"
#include "cli/verbs/scoring.h"
#include "common/system/disk.h"
#include "common/system/output.h"
#include "worker/model/adapter_folder.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/score/snapshot.h"
#include "worker/train/score/table_file.h"

enum export_format { EXPORT_FILE, EXPORT_MODEL, EXPORT_ADAPTERS };

struct verb_export {
	struct scoring_verb verb; /* first member: the verb's functions receive a pointer to it */
	const char *format, *type;
	uint64_t file_bytes; /* 0: MODEL_FILE_BYTES */
	bool replace;
	struct option_list tables; /* --table */
	const char *ids;           /* --ids: a column */
};

static bool read_format(const char *text, enum export_format *out)
{
	static const char *const names[] = {[EXPORT_FILE] = "safetensors", [EXPORT_MODEL] = "hf", [EXPORT_ADAPTERS] = "peft"};
	*out = EXPORT_FILE;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (text && strcmp(text, names[i]) == 0) {
			*out = (enum export_format)i;
			return true;
		}
	return !text;
}

static weir_status check(const struct scoring_verb *v, weir_error *err)
{
	const struct verb_export *e = (const struct verb_export *)v;
	enum export_format format;
	enum safetensor_type type;
	if (!read_format(e->format, &format))
		return weir_fail(err, WEIR_E_INVALID, "--format is %s; expected safetensors, hf or peft", e->format);
	if (format == EXPORT_FILE && (e->type || e->replace))
		return weir_fail(err, WEIR_E_INVALID, "%s is of --format hf and peft alone", e->type ? "--type" : "--replace");
	if (format != EXPORT_MODEL && e->file_bytes > 0)
		return weir_fail(err, WEIR_E_INVALID, "--file-bytes is of --format hf alone");
	if (e->ids && format != EXPORT_FILE)
		return weir_fail(err, WEIR_E_INVALID, "--ids is of --format safetensors alone");
	if (e->ids && e->tables.count > 1)
		return weir_fail(err, WEIR_E_INVALID, "--ids takes one --table: embedding or linear");
	if (e->type && (!safetensor_type_from_name(e->type, &type) || !safetensor_is_real(type)))
		return weir_fail(err, WEIR_E_INVALID, "--type is %s; expected F32, BF16 or F16", e->type);
	return WEIR_OK;
}

/* --- Folders */

/* Takes the special tokens of config.json from the data's tokenizer. */
static weir_status read_tokens(const char *place, struct model_folder *f, weir_error *err)
{
	struct tokenizer *t = NULL;
	const weir_status status = tokenizer_open(&t, place, err);
	if (status != WEIR_OK)
		return status;
	f->bos = tokenizer_get_info(t)->bos;
	f->eos = tokenizer_get_info(t)->eos;
	tokenizer_close(t);
	return WEIR_OK;
}

static weir_status write_model(const struct job_weights *x, const struct job *job, struct model_folder *f, weir_error *err)
{
	struct transformer *t = model_transformer(x->model);
	float *weights = x->trained;
	weir_status status = WEIR_OK;
	const bool bytes = strcmp(job->data.tokenizer, "bytes") == 0;
	f->tokenizer = bytes ? NULL : job->data.tokenizer[0] ? job->data.tokenizer : f->base;
	f->bos = f->eos = TOKEN_NONE;
	if (job->data.tokenizer[0] && !f->base)
		status = read_tokens(job->data.tokenizer, f, err);
	if (status != WEIR_OK)
		return status;
	if (transformer_frozen(t)) {
		weights = transformer_frozen(t);
		transformer_merge(t, x->trained, weights);
		status = x->backend->ops->sync(x->backend, err);
	}
	return status == WEIR_OK ? model_folder_write(f, transformer_config_of(t), transformer_weights(t), weights, err) : status;
}

static weir_status write_adapters(const struct job_weights *x, const struct model_folder *f, weir_error *err)
{
	struct transformer *t = model_transformer(x->model);
	if (!transformer_frozen(t))
		return weir_fail(err, WEIR_E_INVALID,
		                 "the job trains no adapters: --format peft wants model.lora, --format hf all weights");
	return adapter_folder_write(f, transformer_config_of(t)->family, transformer_lora_of(t), model_layout(x->model, MODEL_DENSE),
	                            x->trained, err);
}

static weir_status write_folder(const struct verb_export *e, const struct scoring *s, enum export_format format, weir_error *err)
{
	const struct job *job = e->verb.scoring.job;
	struct job_weights x = {0};
	struct model_folder f = {.path = e->verb.out,
	                         .replace = e->replace,
	                         .file_bytes = e->file_bytes > 0 ? e->file_bytes : MODEL_FILE_BYTES,
	                         .base = job->model.from[0] ? job->model.from : NULL};
	char models[MODEL_NAMES_BYTES];
	model_names(READS_TOKENS, models);
	if (!job_is_transformer(job))
		return weir_fail(err, WEIR_E_INVALID, "--format %s needs model.kind %s; expected safetensors", e->format, models);
	if (e->type)
		(void)safetensor_type_from_name(e->type, &f.type);
	weir_status status = job_weights_open(&x, s, job, NULL, err);
	if (status == WEIR_OK)
		status = job_weights_read(&x, s, err);
	char *merged = s->fingerprint.text && s->fingerprint.text[0] ? fingerprint_of_merged(s->fingerprint.text) : NULL;
	f.fingerprint = format == EXPORT_MODEL ? merged : s->fingerprint.text;
	if (status == WEIR_OK)
		status = format == EXPORT_MODEL ? write_model(&x, job, &f, err) : write_adapters(&x, &f, err);
	free(merged);
	job_weights_close(&x);
	return status;
}

/* --- A file */

static weir_status write_weights(const struct verb_export *e, const struct scoring *s, const char *path, weir_error *err)
{
	struct job_weights x = {0};
	if (s->checkpoint)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is a checkpoint, which can only leave as --format hf or peft", s->source);
	if (!s->client)
		return disk_copy_file(disk_system(), s->source, path, err);
	weir_status status = job_weights_open(&x, s, e->verb.scoring.job, NULL, err);
	if (status == WEIR_OK) {
		const struct model_data data = model_data_of(dataset_get_info(s->data));
		status = snapshot_save(path, &x.tables, s->client, &data, s->fingerprint.text, err);
	}
	job_weights_close(&x);
	return status;
}

static weir_status write_file(const struct verb_export *e, const struct scoring *s, weir_error *err)
{
	struct output output;
	const weir_status status = output_begin(&output, e->verb.out, err);
	return status == WEIR_OK ? output_end(&output, write_weights(e, s, output.path, err), err) : status;
}

/* --- One column, with its ids */

static weir_status write_ids(const struct verb_export *e, const struct scoring *s, const char *weights, weir_error *err)
{
	struct export_ids_result r = {0};
	const struct export_ids o = {.job = e->verb.scoring.job,
	                             .column = e->ids,
	                             .table = e->tables.count > 0 ? e->tables.items[0] : NULL,
	                             .weights = weights,
	                             .out = e->verb.out,
	                             .logger = e->verb.scoring.logger};
	const weir_status status = export_ids(&o, &r, err);
	if (status == WEIR_OK)
		fprintf(output_words(o.out), "%s: %" PRIu64 " of the %" PRIu64 " ids of %s, %u number%s each, weights of %s\n",
		        output_label(o.out), r.rows, r.ids, e->ids, r.width, r.width == 1 ? "" : "s", s->source);
	return status;
}

/* The weights of a running job go through a file beside the output. */
static weir_status export_column(const struct verb_export *e, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	struct scoring s = {0};
	weir_status status = export_ids_check(e->verb.scoring.job, e->ids, err);
	if (status == WEIR_OK)
		status = scoring_open(&s, &e->verb.scoring, err);
	if (status == WEIR_OK && s.checkpoint)
		status = weir_fail(err, WEIR_E_UNSUPPORTED, "%s is a checkpoint; --ids takes a safetensors file, or the running job",
		                   s.source);
	if (status == WEIR_OK && s.client) {
		snprintf(temporary, sizeof temporary, "%.4000s.%d.weights", e->verb.out, (int)getpid());
		status = write_weights(e, &s, temporary, err);
		if (status == WEIR_OK)
			status = write_ids(e, &s, temporary, err);
		unlink(temporary);
	} else if (status == WEIR_OK) {
		status = write_ids(e, &s, s.source, err);
	}
	scoring_close(&s);
	return status;
}

/* --- Tables of other programs' trainers */

static weir_status join(weir_client **out, const struct scoring_options *o, weir_error *err)
{
	char ledger[JOB_PLACES_BYTES], name[WEIR_NAME_BYTES_MAX];
	struct job_security security;
	job_security(o->job, ROLE_ADMIN, &security);
	snprintf(name, sizeof name, "weir-%d", (int)getpid());
	const weir_status status = job_servers_find_ledger(o->job, o->at, ledger, err);
	return status == WEIR_OK
	           ? weir_open(out, &(weir_options){.ledger = ledger, .name = name, .role = WEIR_OBSERVER, .security = security.is},
	                       err)
	           : status;
}

static weir_status write_tables(const struct verb_export *e, weir_client *client, uint32_t *saved, weir_error *err)
{
	struct output output;
	weir_status status = output_begin(&output, e->verb.out, err);
	if (status != WEIR_OK)
		return status;
	status = table_file_save(output.path, client, e->tables.items, e->tables.count, saved, err);
	return output_end(&output, status, err);
}

static weir_status export_tables(const struct verb_export *e, weir_error *err)
{
	const char *out = e->verb.out;
	weir_client *client = NULL;
	uint32_t saved = 0;
	if (e->format && strcmp(e->format, "safetensors") != 0)
		return weir_fail(err, WEIR_E_INVALID, "--format %s is of gpt2 and llama alone; expected safetensors", e->format);
	if (e->verb.scoring.weights)
		return weir_fail(err, WEIR_E_INVALID, "--weights is of a job with a model; this one's tables are on its servers alone");
	weir_status status = join(&client, &e->verb.scoring, err);
	if (status == WEIR_OK)
		status = write_tables(e, client, &saved, err);
	if (client)
		(void)weir_close(client, NULL);
	if (status == WEIR_OK)
		fprintf(output_words(out), "%s: %u table%s\n", output_label(out), saved, saved == 1 ? "" : "s");
	return status;
}

/* --- */

static weir_status export_weights(const struct scoring_verb *v, weir_error *err)
{
	const struct verb_export *e = (const struct verb_export *)v;
	struct scoring s = {0};
	enum export_format format = EXPORT_FILE;
	(void)read_format(e->format, &format);
	if (e->ids && !v->scoring.job->foreign)
		return export_column(e, err);
	if (v->scoring.job->foreign)
		return export_tables(e, err);
	if (e->tables.count)
		return weir_fail(err, WEIR_E_INVALID, "--table is of a job without data and model; of this one all weights are exported");
	weir_status status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK)
		status = format == EXPORT_FILE ? write_file(e, &s, err) : write_folder(e, &s, format, err);
	if (status == WEIR_OK)
		fprintf(format == EXPORT_FILE ? output_words(v->out) : stdout, "%s: weights of %s\n", output_label(v->out), s.source);
	scoring_close(&s);
	return status;
}

int verb_export(int count, char **args)
{
	struct verb_export e = {.verb = {.name = "export",
	                                 .run = export_weights,
	                                 .check = check,
	                                 .needs_out = true,
	                                 .takes_foreign = true,
	                                 .scoring = {.find_only = true}}};
	struct scoring_verb *v = &e.verb;
	const struct option options[] = {
	    JOB_OPTIONS(&v->job),
	    AT_OPTION(v->scoring.at),
	    WEIGHTS_OPTION(v->scoring.weights, OR_CHECKPOINT),
	    ACCEPT_OPTION(v->accepted),
	    {"--out", OPTION_TEXT, &v->out, "OUT", "the file to write, or of hf and peft the folder"},
	    {"--format", OPTION_TEXT, &e.format, "FORMAT",
	     "safetensors: a file; hf: a folder that transformers loads, adapters merged; peft: a folder of adapters (safetensors)"},
	    {"--table", OPTION_LIST, &e.tables, "NAME",
	     "this table alone, of a job without data and model; may be given again and again. With --ids: embedding or linear"},
	    {"--ids", OPTION_TEXT, &e.ids, "COLUMN", "the rows of this column with its ids: CSV, or OUT.safetensors and OUT.ids.csv"},
	    {"--type", OPTION_TEXT, &e.type, "F32|BF16|F16", "hf, peft: of the elements (F32)"},
	    {"--file-bytes", OPTION_COUNT, &e.file_bytes, "N",
	     "hf: of a file of weights, at most; more go to several, with an index (4Gi)"},
	    {"--replace", OPTION_FLAG, &e.replace, NULL, "hf, peft: a model folder that is there gives way"}};
	return scoring_verb_main(v, options, sizeof options / sizeof *options, count, args);
}
