/* weir export: the weights of a running job as a safetensors file; of one that has ended, its best weights. */
#include <stdio.h>
#include <stdlib.h>

#include "disk.h"
#include "scoring.h"
#include "verbs.h"

static weir_status export_weights(const struct scoring_verb *v, weir_error *err)
{
	struct scoring s = {0};
	weir_status status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK)
		status = s.client ? scorer_save(s.scorer, v->out, err) : disk_copy_file(disk_system(), s.source, v->out, err);
	if (status == WEIR_OK)
		printf("%s: weights of %s\n", v->out, s.source);
	scoring_close(&s);
	return status;
}

int verb_export(int count, char **args)
{
	struct scoring_verb v = {
	    .name = "export", .run = export_weights, .needs_out = true, .scoring = {.any_part = true, .path_only = true}};
	const struct option options[] = {
	    JOB_OPTIONS(&v.job), AT_OPTION(v.scoring.at), {"--out", OPTION_TEXT, &v.out, "MODEL.safetensors", "the file to write"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
