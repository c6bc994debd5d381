/* weir export: the weights of a running job as a safetensors file; of one that has ended, its best weights. */
#include <stdio.h>
#include <stdlib.h>

#include "disk.h"
#include "options.h"
#include "scoring.h"
#include "verbs.h"

enum { EXPORT_BYTES_MAX = 1 << 30 };

static weir_status copy_file(const char *from, const char *to, weir_error *err)
{
	char *bytes = NULL;
	size_t count = 0;
	weir_status s = disk_read_file(disk_system(), from, EXPORT_BYTES_MAX, &bytes, &count, err);
	if (s == WEIR_OK)
		s = disk_write_file(disk_system(), to, bytes, count, err);
	free(bytes);
	return s;
}

static weir_status export_weights(const struct scoring_options *so, const char *out, weir_error *err)
{
	struct scoring s = {0};
	weir_status status = scoring_open(&s, so, err);
	if (status == WEIR_OK)
		status = s.client ? scorer_save(s.scorer, out, err) : copy_file(s.source, out, err);
	if (status == WEIR_OK)
		printf("%s: weights of %s\n", out, s.source);
	scoring_close(&s);
	return status;
}

int verb_export(int count, char **args)
{
	struct job_options jo = {0};
	struct scoring_options so = {.any_part = true};
	struct job *job = NULL;
	const char *out = NULL, *word = NULL;
	weir_error err = {0};
	const struct option options[] = {JOB_OPTIONS(&jo), {"--at", OPTION_TEXT, &so.at}, {"--out", OPTION_TEXT, &out}};
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (s == WEIR_OK && !out)
		s = weir_fail(&err, WEIR_E_INVALID, "needs --out FILE");
	if (s == WEIR_OK)
		s = job_options_logger(&jo, "weir", LOG_WARN, &so.logger, &err);
	if (s != WEIR_OK)
		return verb_usage("export", &err);
	s = job_options_load(&jo, &job, &err);
	so.job = job;
	if (s == WEIR_OK)
		s = export_weights(&so, out, &err);
	job_free(job);
	logger_destroy(so.logger);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("export", &err);
}
