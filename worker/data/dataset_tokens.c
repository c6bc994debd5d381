/* Opens token data, from token files or from texts that are tokenized first. See dataset.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/dataset_internal.h"
#include "worker/data/tokens/token_cache.h"

static weir_status add_file(struct dataset *d, struct token_file *f, weir_error *err)
{
	struct token_file **larger = realloc(d->token_files, (d->token_files_count + 1) * sizeof *larger);
	if (!larger) {
		token_file_close(f);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	}
	d->token_files = larger;
	d->token_files[d->token_files_count++] = f;
	return WEIR_OK;
}

static weir_status open_files(struct dataset *d, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < d->sources.count && status == WEIR_OK; i++) {
		struct token_file *f;
		status = token_file_open(&f, d->sources.items[i].path, err);
		if (status == WEIR_OK)
			status = add_file(d, f, err);
	}
	return status;
}

/* Checks that the files were made by the tokenizer in data.tokenizer or, without this key, by that
 * of the folder in model.from. */
static weir_status check_tokenizer(const struct dataset *d, const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	const bool named = job->data.tokenizer[0] != 0;
	const char *key = named ? "data.tokenizer" : "model.from";
	struct tokenizer *t;
	snprintf(path, sizeof path, named ? "%s" : "%s/tokenizer.json", named ? job->data.tokenizer : job->model.from);
	if (!named && (job->model.from[0] == 0 || access(path, F_OK) != 0))
		return WEIR_OK;
	weir_status status = tokenizer_open(&t, path, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < d->token_files_count && status == WEIR_OK; i++)
		if (memcmp(token_file_get_info(d->token_files[i])->fingerprint, tokenizer_get_info(t)->fingerprint,
		           sizeof tokenizer_get_info(t)->fingerprint) != 0)
			status =
			    weir_fail(err, WEIR_E_INVALID,
			              "%s: its tokens are of another tokenizer than %s (%s): make it anew with weir tokenize, or name in "
			              "data.tokenizer the one that has made it",
			              token_file_path(d->token_files[i]), path, key);
	tokenizer_close(t);
	return status;
}

/* --- Texts */

static weir_status tokenize_texts(struct dataset *d, const struct job *job, const struct tokenizer *t, weir_error *err)
{
	const struct tokenizer_info *info = tokenizer_get_info(t);
	char dir[WEIR_PATH_BYTES_MAX + 16];
	struct token_file *f;
	const struct token_cache_options o = {
	    .dir = dir,
	    .tokenize = {.sources = &d->sources,
	                 .record = {.tokenizer = t, .chat = chat_settle(job->data.chat, info->chat_template), .eos = info->eos},
	                 .replace = job->data.invalid_utf8 == INVALID_UTF8_REPLACE,
	                 .threads = d->load.threads,
	                 .logger = d->load.logger,
	                 .bad_line_reports = d->load.bad_line_reports,
	                 .bad_lines_max = d->load.bad_lines_max}};
	dataset_cache_dir(job, dir);
	weir_status status = token_cache_open(&f, &o, err);
	return status == WEIR_OK ? add_file(d, f, err) : status;
}

/* Bytes are valid tokens only for a model without a tokenizer of its own. */
static weir_status check_bytes(const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	snprintf(path, sizeof path, "%s/tokenizer.json", job->model.from);
	if (strcmp(job->data.tokenizer, "bytes") != 0 || job->model.from[0] == 0 || access(path, F_OK) != 0)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "data.tokenizer is bytes, and model.from has %s, whose tokens are others: expected %s",
	                 path, job->model.from);
}

static weir_status open_texts(struct dataset *d, const struct job *job, weir_error *err)
{
	struct tokenizer *t;
	if (job->data.tokenizer[0] == 0)
		return weir_fail(err, WEIR_E_INVALID, "data.tokenizer is missing: %s is no token file, but a text",
		                 d->sources.items[0].path);
	if (strcmp(job->data.cache, "off") == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "data.cache is off, and %s is a text, which becomes a token file there: expected auto, a folder, or "
		                 "files of weir tokenize",
		                 d->sources.items[0].path);
	weir_status status = check_bytes(job, err);
	if (status == WEIR_OK)
		status = tokenizer_open(&t, job->data.tokenizer, err);
	if (status != WEIR_OK)
		return status;
	status = tokenize_texts(d, job, t, err);
	tokenizer_close(t);
	return status;
}

/* --- Opening */

/* Prompts with only empty completions have no token to train on or evaluate with. */
static weir_status check_counted(const struct dataset *d, weir_error *err)
{
	for (uint32_t i = 0; i < d->token_files_count; i++) {
		const struct token_file_info *info = token_file_get_info(d->token_files[i]);
		if (!info->masked || info->counted > 0)
			return WEIR_OK;
	}
	return weir_fail(err, WEIR_E_INVALID, "data.%s: no token of %s%s counts in the loss: are its completions empty?",
	                 dataset_part_names[d->part], d->sources.items[0].path, d->sources.count > 1 ? " and the other files" : "");
}

/* Checks that the files have one tokenizer and not too many bad lines. */
static weir_status check_files(struct dataset *d, weir_error *err)
{
	const struct token_file_info *first = token_file_get_info(d->token_files[0]);
	for (uint32_t i = 0; i < d->token_files_count; i++) {
		const struct token_file_info *info = token_file_get_info(d->token_files[i]);
		if (memcmp(info->fingerprint, first->fingerprint, sizeof info->fingerprint) != 0 || info->vocabulary != first->vocabulary)
			return weir_fail(err, WEIR_E_INVALID, "%s and %s are of different tokenizers", token_file_path(d->token_files[0]),
			                 token_file_path(d->token_files[i]));
		d->info.bad_lines += info->bad_records;
	}
	if (d->info.bad_lines > d->load.bad_lines_max)
		return weir_fail(err, WEIR_E_LIMIT, "%llu bad line%s left out of the data, more than data.bad_lines_max %llu",
		                 (unsigned long long)d->info.bad_lines, d->info.bad_lines == 1 ? " was" : "s were",
		                 (unsigned long long)d->load.bad_lines_max);
	d->info.vocabulary = first->vocabulary;
	memcpy(d->info.tokenizer, first->fingerprint, sizeof d->info.tokenizer);
	return WEIR_OK;
}

static weir_status cut_sequences(struct dataset *d, const struct job *job, weir_error *err)
{
	const struct sequences_options o = {.files = d->token_files,
	                                    .files_count = d->token_files_count,
	                                    .length = job->data.sequence,
	                                    .apart = job->data.packing == PACKING_APART,
	                                    .split = d->load.split,
	                                    .part = d->part};
	d->info.sequence = job->data.sequence;
	weir_status status = sequences_open(&d->sequences, &o, err);
	if (status != WEIR_OK)
		return status;
	if (sequences_count(d->sequences) == 0)
		return weir_fail(err, WEIR_E_INVALID, "the %s part has no two tokens that follow one another%s",
		                 dataset_part_names[d->part],
		                 d->load.split.on ? "; data.split cuts documents in blocks of 4096 tokens" : "");
	return dataset_cut_rows(d, sequences_count(d->sequences), err);
}

weir_status dataset_open_tokens(struct dataset *d, const struct job *job, weir_error *err)
{
	uint32_t tokens = 0;
	for (uint32_t i = 0; i < d->sources.count; i++)
		tokens += token_file_begins(d->sources.items[i].path);
	if (tokens > 0 && tokens < d->sources.count)
		return weir_fail(err, WEIR_E_INVALID,
		                 "some of the data are token files, and some are texts (%s and others): expected one of the two",
		                 d->sources.items[0].path);
	weir_status status = tokens > 0 ? open_files(d, err) : open_texts(d, job, err);
	if (status == WEIR_OK && tokens > 0)
		status = check_tokenizer(d, job, err);
	if (status == WEIR_OK)
		status = check_files(d, err);
	if (status == WEIR_OK && !d->scored)
		status = check_counted(d, err);
	return status == WEIR_OK ? cut_sequences(d, job, err) : status;
}
