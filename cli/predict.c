/* weir predict: the probability of a click for each row of a part, one a line, in the order of the files; of text, the natural logarithm of the probability of
 * each byte that has a context; of tokens, that of all targets of a sequence that count. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scoring.h"
#include "verbs.h"

struct output {
	FILE *file;
	const char *path;
	uint64_t rows;
};

static weir_status write_rows(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct output *o = arg;
	const uint32_t each = batch->sequence > 0 ? batch->sequence : 1;
	for (uint32_t r = 0; r < batch->rows; r++) {
		double sum = 0;
		for (uint32_t i = 0; i < each; i++)
			sum += (double)scores[(size_t)r * each + i];
		fprintf(o->file, "%.9g\n", sum);
	}
	o->rows += batch->rows;
	return ferror(o->file) ? weir_fail(err, WEIR_E_IO, "cannot write %s: %s", o->path, strerror(errno)) : WEIR_OK;
}

/* Written under a temporary name: the file is there whole or not at all. */
static weir_status predict(const struct scoring_verb *v, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	struct scoring s = {0};
	struct output o = {.path = v->out};
	if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", v->out, (int)getpid()) >= (int)sizeof temporary)
		return weir_fail(err, WEIR_E_LIMIT, "--out is longer than %u bytes", WEIR_PATH_BYTES_MAX);
	weir_status status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK && !(o.file = fopen(temporary, "w")))
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", temporary, strerror(errno));
	if (status == WEIR_OK)
		status = scorer_run(s.scorer, s.data, write_rows, &o, err);
	if (o.file && fclose(o.file) != 0 && status == WEIR_OK)
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", temporary, strerror(errno));
	if (status == WEIR_OK && rename(temporary, v->out) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot rename %s to %s: %s", temporary, v->out, strerror(errno));
	if (status == WEIR_OK)
		printf("%s: %" PRIu64 " scores of the %s part, weights of %s\n", v->out, o.rows, scoring_part_name(s.part), s.source);
	else if (o.file)
		unlink(temporary);
	scoring_close(&s);
	return status;
}

int verb_predict(int count, char **args)
{
	struct scoring_verb v = {.name = "predict", .run = predict, .needs_out = true};
	const struct option options[] = {JOB_OPTIONS(&v.job),
	                                 SCORING_OPTIONS(&v.scoring),
	                                 ACCEPT_OPTION(v.accepted),
	                                 {"--out", OPTION_TEXT, &v.out, "SCORES.txt", "the file to write"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
