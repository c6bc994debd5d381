#include "cli/core/output_inputs.h"

#include <stdio.h>
#include <sys/stat.h>

#include "worker/data/remote/remote.h"

static bool is_there(const char *path, struct stat *out)
{
	return stat(path, out) == 0 && (S_ISREG(out->st_mode) || S_ISDIR(out->st_mode));
}

weir_status output_spares(const char *out, const char *input, const char *what, weir_error *err)
{
	struct stat a, b;
	if (!is_there(out, &a) || !is_there(input, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "%s is %s, which would be lost: give the output another name", out, what);
}

weir_status output_spares_sources(const char *out, const struct sources *sources, const char *what, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < sources->count && status == WEIR_OK; i++)
		status = output_spares(out, sources->items[i].path, what, err);
	return status;
}

/* Ignores a pattern that matches nothing: the reader of the data reports that. */
static weir_status spares_patterns(const char *out, char *const *patterns, uint32_t count, const char *what, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		struct sources found = {0};
		weir_error ignored = {0};
		if (!remote_is(patterns[i]) && sources_find(&found, &patterns[i], 1, SOURCES_BY_PATH, NULL, &ignored) == WEIR_OK)
			status = output_spares_sources(out, &found, what, err);
		sources_destroy(&found);
	}
	return status;
}

/* Checks a name in a folder, or the folder itself if the name is empty. */
static weir_status spares_in(const char *out, const char *folder, const char *name, const char *what, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64];
	snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
	return *folder ? output_spares(out, path, what, err) : WEIR_OK;
}

static weir_status spares_models(const char *out, const struct job *job, weir_error *err)
{
	const struct {
		const char *folder, *name, *what;
	} inputs[] = {
	    {job->train.warm_start, "", "what train.warm_start names"},
	    {job->data.tokenizer, "", "what data.tokenizer names"},
	    {job->data.tokenizer, "tokenizer.json", "a file of data.tokenizer"},
	    {job->model.from, "", "what model.from names"},
	    {job->model.from, "config.json", "a file of model.from"},
	    {job->model.from, "model.safetensors", "a file of model.from"},
	    {job->model.lora.from, "", "what model.lora.from names"},
	    {job->model.lora.from, "adapter_config.json", "a file of model.lora.from"},
	    {job->model.lora.from, "adapter_model.safetensors", "a file of model.lora.from"},
	};
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < sizeof inputs / sizeof *inputs && status == WEIR_OK; i++)
		status = spares_in(out, inputs[i].folder, inputs[i].name, inputs[i].what, err);
	return status;
}

/* Checks the files of the run except its report, which may be overwritten. */
static weir_status spares_run(const char *out, const struct job *job, weir_error *err)
{
	static const char *const kept[] = {"best.safetensors", "evaluation.json", "fingerprint.json", "run.json"};
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < sizeof kept / sizeof *kept && status == WEIR_OK; i++) {
		char what[64];
		snprintf(what, sizeof what, "the run's %s", kept[i]);
		status = spares_in(out, job->run_dir, kept[i], what, err);
	}
	return status;
}

weir_status output_spares_job(const char *out, const struct job *job, const char *job_path, weir_error *err)
{
	struct stat there;
	if (!is_there(out, &there))
		return WEIR_OK;
	weir_status status = job_path ? output_spares(out, job_path, "the job file", err) : WEIR_OK;
	if (status == WEIR_OK)
		status = spares_patterns(out, job->data.train, job->data.train_count, "a file of data.train", err);
	if (status == WEIR_OK)
		status = spares_patterns(out, job->data.valid, job->data.valid_count, "a file of data.valid", err);
	if (status == WEIR_OK)
		status = spares_patterns(out, job->data.test, job->data.test_count, "a file of data.test", err);
	if (status == WEIR_OK)
		status = spares_models(out, job, err);
	return status == WEIR_OK ? spares_run(out, job, err) : status;
}
