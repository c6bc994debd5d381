/* Parses a verb's options. */
#include "cli/core/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/answers.h"
#include "cli/core/verbs.h"

static weir_status parse_count(const char *name, const char *text, uint64_t *out, weir_error *err)
{
	static const struct {
		const char *suffix;
		uint64_t factor;
	} units[] = {{"", 1},           {"k", 1000}, {"M", 1000000}, {"G", 1000000000}, {"Ki", 1ull << 10}, {"Mi", 1ull << 20},
	             {"Gi", 1ull << 30}};
	char *end = NULL;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (end != text && text[0] != '-' && errno == 0)
		for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
			if (strcmp(end, units[i].suffix) == 0 && value <= UINT64_MAX / units[i].factor) {
				*out = value * units[i].factor;
				return WEIR_OK;
			}
	return weir_fail(err, WEIR_E_INVALID, "%s is '%s': expected a count such as 5000, 64Ki or 2M", name, text);
}

static weir_status store_value(const struct option *o, const char *text, weir_error *err)
{
	switch (o->kind) {
	case OPTION_TEXT:
		*(const char **)o->out = text;
		return WEIR_OK;
	case OPTION_COUNT:
		return parse_count(o->name, text, o->out, err);
	case OPTION_LIST: {
		struct option_list *list = o->out;
		if (list->count == OPTION_LIST_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "%s is given more than %u times", o->name, OPTION_LIST_MAX);
		list->items[list->count++] = text;
		return WEIR_OK;
	}
	case OPTION_FLAG:
		break;
	}
	return weir_fail(err, WEIR_E_INVALID, "%s takes no value", o->name);
}

static weir_status unknown_option(const char *word, const struct option *options, uint32_t options_count, weir_error *err)
{
	const char *names[OPTION_LIST_MAX];
	uint32_t n = options_count < OPTION_LIST_MAX ? options_count : OPTION_LIST_MAX;
	for (uint32_t i = 0; i < n; i++)
		names[i] = options[i].name;
	const char *near = job_nearest(word, names, n);
	if (near)
		return weir_fail(err, WEIR_E_INVALID, "no option '%s': did you mean '%s'?", word, near);
	return weir_fail(err, WEIR_E_INVALID, "no option '%s'", word);
}

/* Finds the option of "--name value" or "--name=value", and its value (NULL: in the next word). */
static const struct option *find_option(const char *word, const struct option *options, uint32_t options_count,
                                        const char **value)
{
	size_t length = strcspn(word, "=");
	*value = word[length] == '=' ? word + length + 1 : NULL;
	for (uint32_t i = 0; i < options_count; i++)
		if (strlen(options[i].name) == length && strncmp(options[i].name, word, length) == 0)
			return &options[i];
	return NULL;
}

static void print_options(const struct option *options, uint32_t options_count)
{
	for (uint32_t i = 0; i < options_count; i++) {
		const struct option *o = &options[i];
		char left[64];
		snprintf(left, sizeof left, "%s %s", o->name, o->value ? o->value : "");
		printf("  %-24s %s\n", left, o->what);
	}
}

weir_status options_parse(int count, char **args, const struct option *options, uint32_t options_count, const char **positional,
                          uint32_t positional_max, weir_error *err)
{
	uint32_t words = 0;
	for (int i = 1; i < count; i++) {
		const char *value = NULL;
		if (strcmp(args[i], "--help") == 0) {
			print_options(options, options_count);
			exit(verb_end(EXIT_SUCCESS));
		}
		if (args[i][0] != '-' || args[i][1] == '\0') { /* "-" is stdin */
			if (words == positional_max)
				return weir_fail(err, WEIR_E_INVALID, "did not expect '%s'", args[i]);
			positional[words++] = args[i];
			continue;
		}
		const struct option *o = find_option(args[i], options, options_count, &value);
		if (!o)
			return unknown_option(args[i], options, options_count, err);
		if (o->kind == OPTION_FLAG && !value) {
			*(bool *)o->out = true;
			continue;
		}
		if (!value && i + 1 == count)
			return weir_fail(err, WEIR_E_INVALID, "%s needs a value", o->name);
		weir_status status = store_value(o, value ? value : args[++i], err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

weir_status job_options_take(struct job_options *o, const char *word, weir_error *err)
{
	o->path = word ? word : o->path;
	return o->path ? WEIR_OK : weir_fail(err, WEIR_E_INVALID, "needs a job file: JOB.yaml or --job JOB.yaml");
}

/* Reports mistakes. A single mistake is the error itself. Several mistakes get a line each before
 * the error. */
static weir_status tell_mistakes(const char *path, const struct job_mistakes *m, weir_status status, weir_error *err)
{
	const uint32_t kept = m->count < WEIR_JOB_MISTAKES_MAX ? m->count : WEIR_JOB_MISTAKES_MAX;
	if (status == WEIR_OK || m->count < 2)
		return status;
	for (uint32_t i = 0; i < kept; i++)
		fprintf(stderr, "%s\n", m->kept[i].error.text);
	return weir_fail(err, status, "%s has %u mistakes%s: each is told above; correct them and try again",
	                 strcmp(path, "-") == 0 ? "the job file" : path, m->count,
	                 m->count > kept ? ", the first of which are told" : "");
}

static weir_status load(const struct job_options *o, struct job **out, char **text, weir_error *err)
{
	struct job_mistakes *mistakes = malloc(sizeof *mistakes);
	*text = NULL;
	if (!mistakes)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to read %s", o->path);
	weir_status status = job_load_all(o->path, o->sets.items, o->sets.count, out, text, mistakes, err);
	status = tell_mistakes(o->path, mistakes, status, err);
	free(mistakes);
	return status;
}

/* Loads the job again, with what its run was planned as. */
static weir_status load_planned(const struct job_options *o, struct job **job, char **text, weir_error *err)
{
	struct job_options planned = *o;
	struct answers answers;
	weir_error why = {0};
	weir_status status = answers_read((*job)->run_dir, &answers, &why);
	if (status == WEIR_E_NOT_FOUND || (status == WEIR_OK && strcmp(o->path, "-") == 0))
		return job_check_planned(*job, err);
	if (status == WEIR_OK)
		status = answers_give(&answers, *job, &planned.sets, &why);
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s", why.text);
	job_destroy(*job);
	free(*text);
	*job = NULL;
	status = load(&planned, job, text, err);
	return status == WEIR_OK ? job_check_planned(*job, err) : status;
}

weir_status job_options_load_text(const struct job_options *o, struct job **out, char **text, weir_error *err)
{
	const weir_status status = load(o, out, text, err);
	return status == WEIR_OK && !o->plans && (*out)->asks.count > 0 ? load_planned(o, out, text, err) : status;
}

weir_status job_options_load(const struct job_options *o, struct job **out, weir_error *err)
{
	char *text;
	const weir_status status = job_options_load_text(o, out, &text, err);
	free(text);
	return status;
}

weir_status job_options_logger(const struct job_options *o, const char *who, enum log_level fallback, struct logger **out,
                               weir_error *err)
{
	struct logger_options options = {.level = fallback, .format = LOG_HUMAN, .who = who};
	if (o->log_level && !log_level_from(o->log_level, &options.level))
		return weir_fail(err, WEIR_E_INVALID, "--log-level is '%s': expected debug, info, warn or error", o->log_level);
	if (o->log_format && strcmp(o->log_format, "json") == 0)
		options.format = LOG_JSON;
	else if (o->log_format && strcmp(o->log_format, "human") != 0)
		return weir_fail(err, WEIR_E_INVALID, "--log-format is '%s': expected human or json", o->log_format);
	*out = logger_create(&options);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a logger");
}

int verb_end(int status)
{
	if (status != EXIT_SUCCESS)
		return status;
	const bool flushed = fflush(stdout) == 0; /* a write that failed earlier left no errno */
	if (flushed && !ferror(stdout))
		return status;
	fprintf(stderr, "weir: cannot write stdout%s%s\n", flushed ? "" : ": ", flushed ? "" : strerror(errno));
	return EXIT_FAILURE;
}

int verb_fail(const char *verb, const weir_error *err)
{
	fprintf(stderr, "weir %s: %s\n", verb, err->text[0] ? err->text : weir_status_text(err->status));
	return EXIT_FAILURE;
}

int verb_usage(const char *verb, const weir_error *err)
{
	fprintf(stderr, "weir %s: %s; `weir help %s` shows its arguments\n", verb, err->text, verb);
	return EXIT_USAGE;
}
