/* weir export: the weights of a running job as a safetensors file; of one that has ended, its best weights. */
#include <stdio.h>
#include <stdlib.h>

#include "disk.h"
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

static weir_status export_weights(const struct scoring_verb *v, weir_error *err)
{
	struct scoring s = {0};
	weir_status status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK)
		status = s.client ? scorer_save(s.scorer, v->out, err) : copy_file(s.source, v->out, err);
	if (status == WEIR_OK)
		printf("%s: weights of %s\n", v->out, s.source);
	scoring_close(&s);
	return status;
}

int verb_export(int count, char **args)
{
	struct scoring_verb v = {.name = "export", .run = export_weights, .needs_out = true, .scoring = {.any_part = true}};
	const struct option options[] = {JOB_OPTIONS(&v.job), {"--at", OPTION_TEXT, &v.scoring.at}, {"--out", OPTION_TEXT, &v.out}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
