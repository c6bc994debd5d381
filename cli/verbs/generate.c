/* weir generate: continues a text with the weights of a job, running or ended, or of a model
 * folder, to try out what a model has learnt. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/verbs/job_weights.h"
#include "worker/data/format/text.h"
#include "worker/data/tokens/chat.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/generation_config.h"
#include "worker/model/model_folder.h"
#include "worker/model/new_folder.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/tokenizer/utf8.h"
#include "worker/train/job/device.h"
#include "worker/train/score/generation.h"

enum { PROMPT_BYTES_MAX = 16 << 20, TOKENS_MAX = 256 };
static const char temperature_unless_given[] = "0.8", top_p_unless_given[] = "1";

struct verb_generate {
	struct job_options job_options;
	struct accepted accepted;
	struct scoring_options scoring;
	const char *prompt, *prompt_file, *system, *temperature, *top_p, *device, *tokenizer_place;
	uint64_t tokens_max, top_k, seed;
	bool chat;

	struct job *job;    /* NULL: a model folder is used */
	const char *folder; /* NULL: a job is used */
	struct scoring found;
	struct job_weights weights; /* if a job is used */
	struct backend *backend;    /* of the folder */
	struct transformer *own;    /* of the folder */
	struct layout layout;       /* of the folder */
	float *trained;             /* in the backend's memory */
	struct tokenizer *tokenizer;
	enum chat_format format;
	struct buffer text; /* the prompt */
	struct token_list tokens;
	struct generation generation;
};

/* --- Arguments */

static weir_status read_number(const char *name, const char *text, double from, double to, double *out, weir_error *err)
{
	char *end;
	*out = strtod(text, &end);
	if (end != text && *end == 0 && *out >= from && *out <= to)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "%s is '%s': expected a number from %g to %g", name, text, from, to);
}

static weir_status check_arguments(struct verb_generate *v, weir_error *err)
{
	struct generation *g = &v->generation;
	weir_status status = read_number("--temperature", v->temperature, 0, 100, &g->sampling.temperature, err);
	if (status == WEIR_OK)
		status = read_number("--top-p", v->top_p, 1e-6, 1, &g->sampling.top_p, err);
	if (status != WEIR_OK)
		return status;
	if (v->tokens_max > UINT32_MAX || v->top_k > UINT32_MAX)
		return weir_fail(err, WEIR_E_INVALID, "--max-tokens and --top-k are at most %u", UINT32_MAX);
	if (v->prompt && v->prompt_file)
		return weir_fail(err, WEIR_E_INVALID,
		                 "--prompt and --prompt-file are two prompts; expected one, or none for standard input");
	if (v->system && !v->chat)
		return weir_fail(err, WEIR_E_INVALID, "--system is of conversations: expected --chat, too");
	g->tokens_max = (uint32_t)v->tokens_max;
	g->sampling.top_k = (uint32_t)v->top_k;
	g->seed = v->seed;
	return WEIR_OK;
}

static weir_status read_prompt(struct verb_generate *v, weir_error *err)
{
	if (v->prompt)
		return buffer_append(&v->text, v->prompt, strlen(v->prompt), PROMPT_BYTES_MAX)
		           ? WEIR_OK
		           : weir_fail(err, WEIR_E_LIMIT, "--prompt is longer than %d bytes", PROMPT_BYTES_MAX);
	const char *name = v->prompt_file ? v->prompt_file : "standard input";
	FILE *f = v->prompt_file ? fopen(v->prompt_file, "r") : stdin;
	weir_status status = f ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot read %s: %s", name, strerror(errno));
	char part[4096];
	size_t n;
	while (status == WEIR_OK && (n = fread(part, 1, sizeof part, f)) > 0) {
		const size_t mark = v->text.size == 0 ? text_mark_of(part, n) : 0;
		if (!buffer_append(&v->text, part + mark, n - mark, PROMPT_BYTES_MAX))
			status = weir_fail(err, WEIR_E_LIMIT, "%s is longer than %d bytes", name, PROMPT_BYTES_MAX);
	}
	if (status == WEIR_OK && ferror(f))
		status = weir_fail(err, WEIR_E_IO, "cannot read %s: %s", name, strerror(errno));
	if (f && f != stdin)
		fclose(f);
	return status;
}

/* --- The weights */

static weir_status to_backend(struct verb_generate *v, const float *weights, uint64_t elements, weir_error *err)
{
	struct backend *b = v->generation.backend;
	v->trained = b->ops->buffer_alloc(b, elements * sizeof(float));
	if (!v->trained)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the weights");
	b->ops->to_device(b, v->trained, weights, elements * sizeof(float));
	v->generation.trained = v->trained;
	return b->ops->sync(b, err);
}

static weir_status open_folder(struct verb_generate *v, weir_error *err)
{
	struct transformer_config config;
	struct model_weights *file = NULL;
	const struct transformer_options plain = {0};
	if (adapter_folder_is(v->folder))
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "%s has adapter_config.json, too: expected a job with model.from and model.lora.from, which are computed together",
		    v->folder);
	weir_status status = model_folder_config(v->folder, &config, err);
	if (status == WEIR_OK && !(v->backend = backend_open(&(struct backend_options){.device = v->device}, err)))
		status = err->status;
	if (status == WEIR_OK)
		status = transformer_create(&v->own, v->backend, &config, &plain, &v->layout, err);
	if (status == WEIR_OK)
		status = model_folder_open(&file, v->folder, &v->layout, err);
	if (status != WEIR_OK)
		return status;
	v->generation.backend = v->backend;
	v->generation.transformer = v->own;
	float *weights = malloc(v->layout.elements * sizeof *weights);
	if (weights)
		model_folder_read(file, 0, v->layout.elements, weights);
	status = weights ? to_backend(v, weights, v->layout.elements, err)
	                 : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", v->folder);
	free(weights);
	model_folder_close(file);
	return status;
}

static weir_status open_job(struct verb_generate *v, weir_error *err)
{
	const struct job *job = v->job;
	char models[MODEL_NAMES_BYTES];
	model_names(READS_TOKENS, models);
	if (!job_is_transformer(job))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "model.kind is %s: weir generate expects %s", model_kind_name(job->model.kind),
		                 models);
	v->scoring.job = job;
	v->scoring.find_only = true;
	struct backend_options where = device_options(job, 0, 0, false);
	where.device = v->device ? v->device : where.device;
	weir_status status = scoring_open(&v->found, &v->scoring, err);
	if (status == WEIR_OK)
		status = job_weights_open(&v->weights, &v->found, job, &where, err);
	if (status == WEIR_OK)
		status = job_weights_read(&v->weights, &v->found, err);
	if (status != WEIR_OK)
		return status;
	v->generation.backend = v->weights.backend;
	v->generation.transformer = model_transformer(v->weights.model);
	return to_backend(v, v->weights.trained, model_table_elements(v->weights.model, MODEL_DENSE), err);
}

/* --- The prompt */

static void stop_at(struct verb_generate *v, uint32_t token)
{
	v->generation.stops[v->generation.stops_count++] = token;
}

/* Tells whether the user has set the sampling options. Compares pointers: each default text above
 * exists once. */
static bool is_chosen(const struct verb_generate *v)
{
	return v->temperature != temperature_unless_given || v->top_p != top_p_unless_given || v->top_k > 0;
}

/* Collects the tokens that end a text, as the model's folder defines them for transformers. The eos
 * of the tokenizer is one of them for a job, and for a folder that defines none. */
static weir_status find_ends(struct verb_generate *v, uint32_t eos, weir_error *err)
{
	const char *folder = v->folder ? v->folder : v->job->model.from;
	struct generation_config config = {0};
	const weir_status status = folder[0] ? generation_config_read(folder, &config, err) : WEIR_OK;
	if (status != WEIR_OK)
		return status;
	if (config.ignored[0])
		fprintf(stderr,
		        "weir generate: %s/generation_config.json has %s, which weir generate does not do: the text is another one\n",
		        folder, config.ignored);
	if (config.choice[0] && !is_chosen(v))
		fprintf(stderr,
		        "weir generate: %s/generation_config.json has %s, which weir generate takes from --temperature, --top-k and "
		        "--top-p alone: they are %s, %" PRIu64 " and %s\n",
		        folder, config.choice, v->temperature, v->top_k, v->top_p);
	for (uint32_t i = 0; i < config.ends_count; i++)
		stop_at(v, config.ends[i]);
	if (eos != TOKEN_NONE && (!v->folder || config.ends_count == 0))
		stop_at(v, eos);
	return WEIR_OK;
}

static weir_status open_tokenizer(struct verb_generate *v, weir_error *err)
{
	const char *place = v->tokenizer_place          ? v->tokenizer_place
	                    : v->folder                 ? v->folder
	                    : v->job->data.tokenizer[0] ? v->job->data.tokenizer
	                                                : v->job->model.from;
	if (!place[0])
		return weir_fail(err, WEIR_E_INVALID, "the job names no tokenizer: expected --tokenizer FOLDER|FILE|bytes");
	weir_error why = {0};
	const weir_status status = tokenizer_open(&v->tokenizer, place, &why);
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s%s", why.text,
		                 v->tokenizer_place ? "" : "; --tokenizer FOLDER|FILE|bytes names another");
	const struct tokenizer_info *info = tokenizer_get_info(v->tokenizer);
	v->format = chat_settle(v->job ? v->job->data.chat : CHAT_AUTO, info->chat_template);
	if (v->chat && v->format == CHAT_NONE)
		return weir_fail(err, WEIR_E_INVALID, "--chat: %s has no chat template that is known%s", place,
		                 v->job ? ", nor does data.chat name a format" : "");
	return find_ends(v, info->eos, err);
}

/* Turns the prompt into a conversation up to the start of its answer. The token that ends an answer
 * ends the generation. */
static weir_status make_conversation(struct verb_generate *v, weir_error *err)
{
	const struct tokenizer_info *info = tokenizer_get_info(v->tokenizer);
	struct chat_message messages[3];
	struct chat_text *chat = calloc(1, sizeof *chat);
	uint32_t count = 0;
	if (!chat)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the conversation");
	if (v->system)
		messages[count++] = (struct chat_message){"system", v->system, strlen(v->system)};
	messages[count++] = (struct chat_message){"user", v->text.data ? v->text.data : "", v->text.size};
	messages[count++] = (struct chat_message){"assistant", "", 0};
	const char *why = chat_render(v->format, messages, count, info->bos_text, info->eos_text, chat);
	weir_status status = why ? weir_fail(err, WEIR_E_INVALID, "--chat: %s", why) : WEIR_OK;
	if (status == WEIR_OK) {
		const size_t begin = chat->answers[0], end = chat->answers[1];
		const uint32_t stop = tokenizer_id(v->tokenizer, chat->text.data + begin, end - begin);
		if (stop != TOKEN_NONE)
			stop_at(v, stop);
		chat->text.size = begin;
		buffer_destroy(&v->text);
		v->text = chat->text;
		chat->text = (struct buffer){0};
	}
	buffer_destroy(&chat->text);
	free(chat);
	return status;
}

static weir_status encode(struct verb_generate *v, weir_error *err)
{
	struct encoder *e = NULL;
	const struct encoding how = {.affixes = !v->chat};
	const struct tokenizer_info *info = tokenizer_get_info(v->tokenizer);
	weir_error why = {0};
	weir_status status = encoder_create(&e, v->tokenizer, &why);
	if (status == WEIR_OK)
		status = encoder_run(e, v->text.data ? v->text.data : "", v->text.size, &how, &v->tokens, &why);
	encoder_destroy(e);
	if (status != WEIR_OK)
		return weir_fail(err, status, "the prompt: %s", why.text);
	const uint32_t begin = info->bos != TOKEN_NONE ? info->bos : info->eos;
	if (v->tokens.count == 0 && begin != TOKEN_NONE && token_list_reserve(&v->tokens, 1))
		v->tokens.ids[v->tokens.count++] = begin;
	return WEIR_OK;
}

/* --- Output: writes whole characters, as soon as they are complete. */

struct writer {
	struct decoder *decoder;
	struct buffer waiting;
	uint64_t tokens;
};

static weir_status write_text(struct writer *w, bool last, weir_error *err)
{
	size_t at = 0;
	while (at < w->waiting.size) {
		const char *text = w->waiting.data + at;
		const size_t left = w->waiting.size - at, valid = utf8_valid(text, left);
		fwrite(text, 1, valid, stdout);
		at += valid;
		if (valid == left)
			break;
		const size_t invalid = utf8_invalid(text + valid, left - valid);
		if (!last && invalid == left - valid && utf8_begins(text + valid, invalid))
			break;
		fwrite(UTF8_REPLACEMENT, 1, UTF8_REPLACEMENT_BYTES, stdout);
		at += invalid;
	}
	memmove(w->waiting.data, w->waiting.data + at, w->waiting.size - at);
	w->waiting.size -= at;
	return fflush(stdout) == 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write the text: %s", strerror(errno));
}

static weir_status write_token(void *arg, uint32_t token, weir_error *err)
{
	struct writer *w = arg;
	size_t bytes;
	const char *text = decoder_next(w->decoder, token, &bytes);
	w->tokens++;
	if (!buffer_append(&w->waiting, text, bytes, 2 * TOKENIZER_TOKEN_BYTES_MAX))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a token's text");
	return w->waiting.size > 0 ? write_text(w, false, err) : WEIR_OK;
}

static weir_status generate(struct verb_generate *v, weir_error *err)
{
	static const char *const ends[] = {[GENERATION_STOPPED] = "the text is at its end",
	                                   [GENERATION_TOKENS_MAX] = "--max-tokens",
	                                   [GENERATION_POSITIONS] = "the model has no more positions"};
	struct writer w = {0};
	enum generation_end end = GENERATION_STOPPED;
	weir_status status = decoder_create(&w.decoder, v->tokenizer, true, err);
	/* the text of a token depends on the tokens before it */
	for (size_t i = 0; i < v->tokens.count && status == WEIR_OK; i++) {
		size_t ignored;
		(void)decoder_next(w.decoder, v->tokens.ids[i], &ignored);
	}
	if (status == WEIR_OK)
		status = generation_run(&v->generation, v->tokens.ids, v->tokens.count, write_token, &w, &end, err);
	if (status == WEIR_OK && w.waiting.size > 0)
		status = write_text(&w, true, err);
	if (status == WEIR_OK) {
		printf("\n");
		fprintf(stderr, "%zu tokens of the prompt, %" PRIu64 " more: %s; weights of %s\n", v->tokens.count, w.tokens, ends[end],
		        v->folder ? v->folder : v->found.source);
	}
	buffer_destroy(&w.waiting);
	decoder_destroy(w.decoder);
	return status;
}

static weir_status run(struct verb_generate *v, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (!v->folder)
		status = job_options_load(&v->job_options, &v->job, err);
	if (status == WEIR_OK && v->job)
		status = job_check_own(v->job, err);
	if (status == WEIR_OK && v->job)
		device_show(v->job, 0);
	if (status == WEIR_OK)
		status = v->folder ? open_folder(v, err) : open_job(v, err);
	if (status == WEIR_OK)
		status = open_tokenizer(v, err);
	if (status == WEIR_OK)
		status = read_prompt(v, err);
	if (status == WEIR_OK && v->chat)
		status = make_conversation(v, err);
	if (status == WEIR_OK)
		status = encode(v, err);
	return status == WEIR_OK ? generate(v, err) : status;
}

static void release(struct verb_generate *v)
{
	struct backend *b = v->generation.backend;
	if (v->trained)
		b->ops->buffer_free(b, v->trained);
	transformer_destroy(v->own);
	if (v->backend)
		v->backend->ops->destroy(v->backend);
	job_weights_close(&v->weights);
	scoring_close(&v->found);
	tokenizer_close(v->tokenizer);
	buffer_destroy(&v->text);
	free(v->tokens.ids);
	job_destroy(v->job);
	accepted_destroy(&v->accepted);
	logger_destroy(v->scoring.logger);
}

int verb_generate(int count, char **args)
{
	static struct verb_generate v;
	v = (struct verb_generate){.temperature = temperature_unless_given, .top_p = top_p_unless_given, .tokens_max = TOKENS_MAX};
	const struct option options[] = {
	    JOB_OPTIONS(&v.job_options),
	    AT_OPTION(v.scoring.at),
	    WEIGHTS_OPTION(v.scoring.weights, OR_CHECKPOINT),
	    ACCEPT_OPTION(v.accepted),
	    {"--prompt", OPTION_TEXT, &v.prompt, "TEXT", "what the text begins with; else --prompt-file, else standard input"},
	    {"--prompt-file", OPTION_TEXT, &v.prompt_file, "FILE", "a file with the prompt"},
	    {"--max-tokens", OPTION_COUNT, &v.tokens_max, "N", "tokens beyond the prompt, at most (256)"},
	    {"--temperature", OPTION_TEXT, &v.temperature, "T", "0: the likeliest token each time; 1: as the model says (0.8)"},
	    {"--top-p", OPTION_TEXT, &v.top_p, "P", "of the likeliest tokens, the fewest whose probabilities add up to P (1)"},
	    {"--top-k", OPTION_COUNT, &v.top_k, "K", "of the K likeliest tokens alone; 0: of all (0)"},
	    {"--seed", OPTION_COUNT, &v.seed, "N", "the same seed, the same text (0)"},
	    {"--chat", OPTION_FLAG, &v.chat, NULL, "the prompt is a user's message: as data.chat or the tokenizer's template has it"},
	    {"--system", OPTION_TEXT, &v.system, "TEXT", "with --chat: the system's message"},
	    {"--tokenizer", OPTION_TEXT, &v.tokenizer_place, "PLACE",
	     "another one than the job's or the folder's: a folder, a file, bytes"},
	    {"--device", OPTION_TEXT, &v.device, "DEVICE", "auto, cpu, cuda or cuda:N (the job's; of a folder auto)"}};
	const char *word = NULL;
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK && word && model_folder_is(word))
		v.folder = word;
	else if (status == WEIR_OK && word && folder_exists(word))
		status =
		    weir_fail(&err, WEIR_E_INVALID,
		              "%s is a folder without config.json: expected a model's, or a job file (and --weights %s)", word, word);
	if (status == WEIR_OK && !v.folder)
		status = job_options_take(&v.job_options, word, &err);
	if (status == WEIR_OK && v.folder && (v.scoring.at || v.scoring.weights || v.job_options.sets.count > 0))
		status = weir_fail(&err, WEIR_E_INVALID, "--at, --weights and --set are of a job, and %s is a model folder", word);
	v.scoring.accepted = &v.accepted;
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(v.accepted.keys.items, v.accepted.keys.count, &err);
	v.device = v.folder && !v.device ? "auto" : v.device;
	if (status == WEIR_OK)
		status = check_arguments(&v, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&v.job_options, "weir", LOG_WARN, &v.scoring.logger, &err);
	if (status != WEIR_OK)
		return verb_usage("generate", &err);
	status = run(&v, &err);
	release(&v);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("generate", &err);
}
