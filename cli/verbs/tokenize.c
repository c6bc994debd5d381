/* weir tokenize: converts text or JSONL files into a token file
 * (worker/data/tokens/token_file.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/output_inputs.h"
#include "cli/core/verbs.h"
#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/system/output.h"
#include "common/system/process.h"
#include "worker/data/tokens/tokenize_files.h"

enum { BAD_LINES_MAX = 1000, BAD_LINE_REPORTS = 5, FILES_MAX = 256 };

struct verb_tokenize {
	const char *tokenizer, *out, *format, *chat, *eos, *invalid;
	struct option_list in;
	const char *files[FILES_MAX]; /* given without --in */
	uint64_t threads, bad_lines_max;
	struct tokenizer *opened;
	struct sources sources;
	struct tokenize_options options;
};

/* --- Arguments */

static weir_status check_arguments(struct verb_tokenize *v, weir_error *err)
{
	struct tokenize_options *o = &v->options;
	if (!v->tokenizer || !v->out || (v->in.count == 0 && !v->files[0]))
		return weir_fail(err, WEIR_E_INVALID, "needs --tokenizer FOLDER|FILE|bytes, --in FILE and --out FILE");
	if (strcmp(v->format, "auto") != 0 && strcmp(v->format, "text") != 0 && strcmp(v->format, "jsonl") != 0)
		return weir_fail(err, WEIR_E_INVALID, "--format is %s; expected auto, text or jsonl", v->format);
	o->format = strcmp(v->format, "text") == 0    ? TOKENIZE_TEXT
	            : strcmp(v->format, "jsonl") == 0 ? TOKENIZE_JSONL
	                                              : TOKENIZE_BY_NAME;
	if (!chat_format_of(v->chat, &o->record.chat))
		return weir_fail(err, WEIR_E_INVALID, "--chat is %s; expected auto, chatml, llama2, llama3, alpaca or none", v->chat);
	o->replace = strcmp(v->invalid, "replace") == 0;
	if (!o->replace && strcmp(v->invalid, "fail") != 0)
		return weir_fail(err, WEIR_E_INVALID, "--invalid is %s; expected fail or replace", v->invalid);
	if (v->threads == 0 || v->threads > WEIR_THREADS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "--threads is %" PRIu64 "; expected 1 to %u", v->threads, WEIR_THREADS_MAX);
	o->threads = (uint32_t)v->threads;
	o->bad_lines_max = v->bad_lines_max;
	o->bad_line_reports = BAD_LINE_REPORTS;
	return WEIR_OK;
}

static weir_status find_files(struct verb_tokenize *v, weir_error *err)
{
	char *patterns[OPTION_LIST_MAX + FILES_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < v->in.count; i++)
		patterns[count++] = (char *)(uintptr_t)v->in.items[i];
	for (uint32_t i = 0; i < FILES_MAX && v->files[i]; i++)
		patterns[count++] = (char *)(uintptr_t)v->files[i];
	const weir_status status = sources_find(&v->sources, patterns, count, SOURCES_BY_PATH, NULL, err);
	return status == WEIR_OK ? output_spares_sources(v->out, &v->sources, "a file to tokenize", err) : status;
}

/* Sets the token that ends a document and the format of conversations: as requested, or as the
 * tokenizer's folder defines them. */
static weir_status settle(struct verb_tokenize *v, weir_error *err)
{
	struct record_options *r = &v->options.record;
	const struct tokenizer_info *t = tokenizer_get_info(v->opened);
	r->tokenizer = v->opened;
	r->eos = t->eos;
	r->chat = chat_settle(r->chat, t->chat_template);
	if (strcmp(v->eos, "none") == 0)
		r->eos = TOKEN_NONE;
	else if (strcmp(v->eos, "auto") != 0 && (r->eos = tokenizer_id(v->opened, v->eos, strlen(v->eos))) == TOKEN_NONE)
		return weir_fail(err, WEIR_E_INVALID, "--eos is %s, which is no token of %s; expected auto, none or one of its tokens",
		                 v->eos, v->tokenizer);
	return WEIR_OK;
}

/* --- The result */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_result(const struct verb_tokenize *v, const struct token_file_info *i, double seconds)
{
	uint64_t bytes = 0;
	FILE *words = output_words(v->out);
	for (uint32_t f = 0; f < v->sources.count; f++)
		bytes += v->sources.items[f].size;
	fprintf(words, "%s: %" PRIu64 " document%s, %" PRIu64 " token%s", output_label(v->out), i->documents, plural(i->documents),
	        i->tokens, plural(i->tokens));
	if (i->masked)
		fprintf(words, " (%" PRIu64 " count in the loss)", i->counted);
	fprintf(words, " of a vocabulary of %u; %" PRIu64 " byte%s in %u file%s, %.1f MB/s", i->vocabulary, bytes, plural(bytes),
	        v->sources.count, plural(v->sources.count), (double)bytes / (seconds > 0 ? seconds : 1e-9) / 1e6);
	if (i->bad_records > 0)
		fprintf(words, "; %" PRIu64 " bad line%s left out", i->bad_records, plural(i->bad_records));
	if (i->replaced > 0)
		fprintf(words, "; U+FFFD %" PRIu64 " time%s in place of invalid UTF-8", i->replaced, plural(i->replaced));
	fprintf(words, "\n");
}

static weir_status run(struct verb_tokenize *v, weir_error *err)
{
	struct token_file_info info;
	struct output output;
	const struct clock *clock = clock_system();
	const int64_t began_ms = clock_ms(clock);
	weir_status status = output_spares(v->out, v->tokenizer, "the tokenizer", err);
	if (status == WEIR_OK)
		status = tokenizer_open(&v->opened, v->tokenizer, err);
	if (status == WEIR_OK)
		status = settle(v, err);
	if (status == WEIR_OK)
		status = find_files(v, err);
	v->options.sources = &v->sources;
	if (status == WEIR_OK)
		status = output_begin(&output, v->out, err);
	if (status == WEIR_OK)
		status = output_end(&output, tokenize(&v->options, output.path, &info, err), err);
	if (status == WEIR_OK)
		print_result(v, &info, (double)(clock_ms(clock) - began_ms) / 1e3);
	return status;
}

int verb_tokenize(int count, char **args)
{
	static struct verb_tokenize v;
	v = (struct verb_tokenize){.format = "auto",
	                           .chat = "auto",
	                           .eos = "auto",
	                           .invalid = "fail",
	                           .threads = process_cores(),
	                           .bad_lines_max = BAD_LINES_MAX};
	const struct option options[] = {
	    {"--tokenizer", OPTION_TEXT, &v.tokenizer, "FOLDER|FILE|bytes",
	     "a folder with tokenizer.json, such a file, or a byte for a token"},
	    {"--in", OPTION_LIST, &v.in, "FILE", "a file, or a glob; may be given again and again, or left out before files"},
	    {"--out", OPTION_TEXT, &v.out, "TOKENS.bin", "the token file to write"},
	    {"--format", OPTION_TEXT, &v.format, "FORMAT",
	     "text: a file is a document; jsonl: a line is one; auto: by the name (auto)"},
	    {"--chat", OPTION_TEXT, &v.chat, "NAME",
	     "how conversations are written: chatml, llama2, llama3, alpaca or none; auto: as the tokenizer's folder says (auto)"},
	    {"--eos", OPTION_TEXT, &v.eos, "TOKEN",
	     "what ends a document: a token's text, none, or auto: as the tokenizer's folder says (auto)"},
	    {"--invalid", OPTION_TEXT, &v.invalid, "fail|replace",
	     "invalid UTF-8: an error (of a line of JSONL: a bad line), or U+FFFD in its place (fail)"},
	    {"--threads", OPTION_COUNT, &v.threads, "N", "the file does not depend on it (one for each core)"},
	    {"--bad-lines-max", OPTION_COUNT, &v.bad_lines_max, "N", "more bad lines fail (1000)"}};
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, v.files, FILES_MAX, &err);
	if (status == WEIR_OK)
		status = check_arguments(&v, &err);
	if (status != WEIR_OK)
		return verb_usage("tokenize", &err);
	const struct job_options log = {0};
	status = job_options_logger(&log, "weir", LOG_WARN, &v.options.logger, &err);
	if (status == WEIR_OK)
		status = run(&v, &err);
	logger_destroy(v.options.logger);
	sources_destroy(&v.sources);
	tokenizer_close(v.opened);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("tokenize", &err);
}
