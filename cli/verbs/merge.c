/* weir merge: merges the weights of several models into one. A model is a safetensors file, a
 * `transformers` folder, or a PEFT folder of adapters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/core/accepted.h"
#include "cli/core/options.h"
#include "cli/core/output_inputs.h"
#include "cli/core/verbs.h"
#include "common/base/limits.h"
#include "common/system/disk.h"
#include "common/system/output.h"
#include "common/web/json.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/folders_same.h"
#include "worker/model/merge.h"
#include "worker/model/new_folder.h"

static const char *const method_names[] = {[MERGE_LINEAR] = "linear", [MERGE_SLERP] = "slerp", [MERGE_TASK] = "task"};
enum { METHODS = sizeof method_names / sizeof *method_names };

/* Suffixes of the files that are copied together with the weights of a model's folder. */
static const char *const suffixes[] = {".json", ".txt", ".model", ".jinja"};

struct verb_merge {
	const char *method, *weights, *base, *type, *out;
	const char *models[MERGE_INPUTS_MAX + 1];
	bool replace;
	struct accepted accepted;
	struct merge merge;
	struct safetensors *opened[MERGE_INPUTS_MAX], *base_opened;
};

/* --- Models */

/* Tells whether a folder has adapters and no model of its own. */
static bool has_adapters(const char *folder)
{
	return !model_folder_is(folder) && adapter_folder_is(folder);
}

/* Returns the path of a folder's weights, and their file name if they are a single file. */
static weir_status find_weights(const char *folder, char path[WEIR_PATH_BYTES_MAX], const char **name, weir_error *err)
{
	const bool adapters = has_adapters(folder);
	*name = adapters ? "adapter_model.safetensors" : "model.safetensors";
	return model_folder_weights(folder, adapters ? "adapter_model" : "model", path, err);
}

static weir_status open_model(const char *model, struct safetensors **out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const char *name;
	if (!folder_exists(model))
		return safetensors_open(out, model, err);
	const weir_status status = find_weights(model, path, &name, err);
	return status == WEIR_OK ? safetensors_open(out, path, err) : status;
}

/* Copies the base model that the adapters name to out; "" if they name none. */
static void read_base(const char *folder, char out[WEIR_PATH_BYTES_MAX])
{
	char path[WEIR_PATH_BYTES_MAX];
	struct json *j = NULL;
	weir_error ignored = {0};
	out[0] = '\0';
	if (folder_file(folder, "adapter_config.json", path, &ignored) != WEIR_OK || json_read_file(path, &j, &ignored) != WEIR_OK)
		return;
	const char *base = json_get_text(j, "base_model_name_or_path");
	snprintf(out, WEIR_PATH_BYTES_MAX, "%s", base ? base : "");
	json_destroy(j);
}

/* Warns if adapters name different bases. Only a warning, because one model may have two names. */
static void tell_bases(const char *first, const char *other)
{
	char of_first[WEIR_PATH_BYTES_MAX], of_other[WEIR_PATH_BYTES_MAX];
	read_base(first, of_first);
	read_base(other, of_other);
	if (of_first[0] && of_other[0] && strcmp(of_first, of_other) != 0)
		fprintf(stderr,
		        "weir merge: %s are adapters of the model %s, and %s of %s: merged they are of neither, unless those are one "
		        "model\n",
		        first, of_first, other, of_other);
}

/* Checks that two folders differ only in their weights. Does not check single files, which carry no
 * description of their model. */
static weir_status check_same(const char *first, const char *other, weir_error *err)
{
	const bool adapters = has_adapters(first);
	if (!folder_exists(first) || !folder_exists(other))
		return WEIR_OK;
	if (adapters != has_adapters(other))
		return weir_fail(err, WEIR_E_INVALID, "%s is a folder of %s, and %s of %s", first, adapters ? "adapters" : "a model",
		                 other, adapters ? "a model" : "adapters");
	if (adapters)
		tell_bases(first, other);
	return folders_same(other, first, adapters, err);
}

static weir_status open_models(struct verb_merge *v, weir_error *err)
{
	struct merge *m = &v->merge;
	const bool spare = !v->replace; /* otherwise the user knows that --out replaces a model */
	weir_status status = v->base && spare ? output_spares(v->out, v->base, "what --base names", err) : WEIR_OK;
	for (uint32_t i = 0; i < m->count && status == WEIR_OK; i++) {
		status = spare ? output_spares(v->out, v->models[i], "one of the models to merge", err) : WEIR_OK;
		if (status == WEIR_OK)
			status = open_model(v->models[i], &v->opened[i], err);
		if (status == WEIR_OK && i > 0)
			status = check_same(v->models[0], v->models[i], err);
		m->inputs[i] = v->opened[i];
		m->names[i] = v->models[i];
	}
	if (status == WEIR_OK && v->base)
		status = open_model(v->base, &v->base_opened, err);
	if (status == WEIR_OK && v->base)
		status = check_same(v->models[0], v->base, err);
	m->base = v->base_opened;
	return status;
}

/* Checks by fingerprints that the models compute in the same way and that their ids have the same
 * meaning. Without a fingerprint that is unknown. */
static weir_status compare_models(struct verb_merge *v, weir_error *err)
{
	const struct merge *m = &v->merge;
	const char *was = safetensors_metadata(m->inputs[0], SAFETENSORS_FINGERPRINT);
	weir_status status = WEIR_OK;
	for (uint32_t i = 1; i < m->count + (m->base != NULL) && status == WEIR_OK; i++) {
		const bool is_base = i == m->count;
		const char *is = safetensors_metadata(is_base ? m->base : m->inputs[i], SAFETENSORS_FINGERPRINT);
		char what[WEIR_ERROR_TEXT_BYTES / 3];
		snprintf(what, sizeof what, "%.100s is not of one kind with %.100s", is_base ? v->base : m->names[i], m->names[0]);
		const bool first_says = was[0] && fingerprint_is_valid(was), says = is[0] && fingerprint_is_valid(is);
		if (first_says != says)
			fprintf(stderr, "%s carries no fingerprint: whether it is of one kind with %s is not known\n",
			        first_says ? is_base ? v->base : m->names[i] : m->names[0],
			        first_says ? m->names[0]
			        : is_base  ? v->base
			                   : m->names[i]);
		if (first_says && says)
			status = accepted_compare(
			    &v->accepted,
			    &(struct fingerprint_comparison){.was = was, .is = is, .what = what, .counts = fingerprint_of_tensors}, err);
	}
	return status;
}

/* --- Arguments */

static weir_status read_method(struct verb_merge *v, weir_error *err)
{
	for (int i = 0; v->method && i < METHODS; i++)
		if (strcmp(v->method, method_names[i]) == 0) {
			v->merge.method = (enum merge_method)i;
			return WEIR_OK;
		}
	return weir_fail(err, WEIR_E_INVALID, "--method is %s; expected linear, slerp or task", v->method ? v->method : "missing");
}

/* Parses "0.5,2" and returns the count of numbers; 0: not a list of at most MERGE_INPUTS_MAX
 * numbers. */
static uint32_t read_numbers(const char *text, double out[MERGE_INPUTS_MAX])
{
	for (uint32_t n = 0; n < MERGE_INPUTS_MAX; text++) {
		char *end;
		out[n] = strtod(text, &end);
		if (end == text || !isfinite(out[n++]))
			return 0;
		if (*end == '\0')
			return n;
		if (*end != ',')
			return 0;
		text = end;
	}
	return 0;
}

static weir_status read_weights(struct verb_merge *v, weir_error *err)
{
	struct merge *m = &v->merge;
	const uint32_t expected = m->method == MERGE_SLERP ? 1 : m->count;
	double given[MERGE_INPUTS_MAX], sum = 0;
	for (uint32_t i = 0; i < m->count; i++)
		given[i] = m->method == MERGE_SLERP ? 0.5 : 1;
	if (v->weights && read_numbers(v->weights, given) != expected)
		return weir_fail(err, WEIR_E_INVALID, "--weights is %s; expected %u number%s with commas between them", v->weights,
		                 expected, expected == 1 ? "" : "s");
	memcpy(m->method == MERGE_SLERP ? m->weights + 1 : m->weights, given, expected * sizeof *given);
	for (uint32_t i = 0; i < m->count; i++)
		sum += m->weights[i];
	return m->method != MERGE_LINEAR || sum > 0 || sum < 0
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_INVALID, "--weights are 0 together: linear takes the mean by them");
}

static weir_status check_arguments(struct verb_merge *v, weir_error *err)
{
	weir_status status = read_method(v, err);
	if (status != WEIR_OK)
		return status;
	uint32_t count = 0;
	while (count <= MERGE_INPUTS_MAX && v->models[count])
		count++;
	if (count > MERGE_INPUTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u models", MERGE_INPUTS_MAX);
	if (v->merge.method == MERGE_SLERP ? count != 2 : count < (v->merge.method == MERGE_TASK ? 1u : 2u))
		return weir_fail(err, WEIR_E_INVALID, "%u model%s; %s takes %s", count, count == 1 ? "" : "s", v->method,
		                 v->merge.method == MERGE_SLERP  ? "two"
		                 : v->merge.method == MERGE_TASK ? "one at least, and --base"
		                                                 : "two at least");
	if ((v->base != NULL) != (v->merge.method == MERGE_TASK))
		return weir_fail(err, WEIR_E_INVALID, "--base is %s",
		                 v->base ? "of task alone" : "missing: task adds to it what models have learnt");
	if (!v->out)
		return weir_fail(err, WEIR_E_INVALID, "--out is missing: the file or folder to write");
	v->merge.count = count;
	v->merge.as_first = !v->type;
	if (v->type && (!safetensor_type_from_name(v->type, &v->merge.type) || !safetensor_is_real(v->merge.type)))
		return weir_fail(err, WEIR_E_INVALID, "--type is %s; expected F32, BF16 or F16", v->type);
	return read_weights(v, err);
}

/* --- The result */

struct copying {
	const char *from, *to;
	weir_error *err;
};

static weir_status copy_beside(void *arg, const char *name)
{
	const struct copying *c = arg;
	char from[WEIR_PATH_BYTES_MAX], to[WEIR_PATH_BYTES_MAX];
	const size_t n = strlen(name);
	/* neither the weights nor their index */
	bool wanted = !strstr(name, ".safetensors") && !strstr(name, ".bin");
	bool known = false;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		known |= n > strlen(suffixes[i]) && strcmp(name + n - strlen(suffixes[i]), suffixes[i]) == 0;
	if (!wanted || !known)
		return WEIR_OK;
	weir_status status = folder_file(c->from, name, from, c->err);
	if (status == WEIR_OK)
		status = folder_file(c->to, name, to, c->err);
	return status == WEIR_OK ? disk_copy_file(disk_system(), from, to, c->err) : status;
}

/* Writes the data type into config.json: transformers loads a model in that type, whatever the type
 * of the weights. */
static weir_status write_type(const struct verb_merge *v, const char *folder, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct json *j = NULL;
	if (v->merge.as_first || !model_folder_is(folder))
		return WEIR_OK;
	weir_status status = folder_file(folder, "config.json", path, err);
	if (status == WEIR_OK)
		status = json_read_file(path, &j, err);
	if (status == WEIR_OK) {
		model_config_put_type(j, v->merge.type);
		status = json_write_file(j, path, err);
	}
	json_destroy(j);
	return status;
}

static weir_status write_folder(const struct verb_merge *v, const char *folder, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const char *name;
	struct disk *disk = disk_system();
	struct copying c = {.from = v->models[0], .to = folder, .err = err};
	weir_status status = disk->ops->list(disk, c.from, copy_beside, &c, err);
	if (status == WEIR_OK)
		status = write_type(v, folder, err);
	if (status == WEIR_OK)
		status = find_weights(c.from, path, &name, err);
	if (status == WEIR_OK)
		status = folder_file(folder, name, path, err);
	return status == WEIR_OK ? merge_write(&v->merge, path, err) : status;
}

static weir_status write_file(const struct verb_merge *v, weir_error *err)
{
	struct output output;
	const weir_status status = output_begin(&output, v->out, err);
	return status == WEIR_OK ? output_end(&output, merge_write(&v->merge, output.path, err), err) : status;
}

static weir_status write_result(const struct verb_merge *v, weir_error *err)
{
	struct new_folder folder;
	if (!folder_exists(v->models[0]))
		return v->replace ? weir_fail(err, WEIR_E_INVALID, "--replace takes a folder; %s is not a folder", v->models[0])
		                  : write_file(v, err);
	const weir_status status = new_folder_begin(&folder, v->out, v->replace, err);
	return status == WEIR_OK ? new_folder_end(&folder, write_folder(v, folder.temporary, err), err) : status;
}

int verb_merge(int count, char **args)
{
	static struct verb_merge v;
	const struct option options[] = {
	    {"--method", OPTION_TEXT, &v.method, "METHOD",
	     "linear: the mean; slerp: of two, along the arc; task: base + what models have learnt since"},
	    {"--weights", OPTION_TEXT, &v.weights, "W,W,...",
	     "of each model (linear: all alike; task: 1); of slerp how far towards the second (0.5)"},
	    {"--base", OPTION_TEXT, &v.base, "MODEL", "task: the model that the others were trained from"},
	    {"--type", OPTION_TEXT, &v.type, "F32|BF16|F16", "of the result's elements (as the first model's)"},
	    {"--out", OPTION_TEXT, &v.out, "OUT", "a file, or where the first model is a folder, a folder"},
	    ACCEPT_OPTION(v.accepted),
	    {"--replace", OPTION_FLAG, &v.replace, NULL, "a model folder that is there gives way"}};
	weir_error err = {0};
	weir_status status =
	    options_parse(count, args, options, sizeof options / sizeof *options, v.models, MERGE_INPUTS_MAX + 1, &err);
	if (status == WEIR_OK)
		status = check_arguments(&v, &err);
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(v.accepted.keys.items, v.accepted.keys.count, &err);
	if (status != WEIR_OK)
		return verb_usage("merge", &err);
	status = open_models(&v, &err);
	if (status == WEIR_OK)
		status = compare_models(&v, &err);
	if (status == WEIR_OK)
		status = write_result(&v, &err);
	if (status == WEIR_OK)
		fprintf(folder_exists(v.models[0]) ? stdout : output_words(v.out), "%s: %u model%s merged (%s), %u tensors\n",
		        output_label(v.out), v.merge.count, v.merge.count == 1 ? "" : "s", v.method,
		        safetensors_count(v.merge.inputs[0]));
	for (uint32_t i = 0; i < MERGE_INPUTS_MAX; i++)
		safetensors_close(v.opened[i]);
	safetensors_close(v.base_opened);
	accepted_destroy(&v.accepted);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("merge", &err);
}
