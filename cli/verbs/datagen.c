/* weir datagen: click data in Criteo's format from a synthetic model whose best possible AUC is
 * known. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "common/system/output.h"
#include "worker/data/columns/generate_clicks.h"

enum { DATAGEN_IDS = 1000000, DATAGEN_SEED = 1 };

int verb_datagen(int count, char **args)
{
	uint64_t rows = 0, ids = DATAGEN_IDS, seed = DATAGEN_SEED;
	const char *out = NULL;
	weir_error err = {0};
	struct ground_truth truth = {0};
	struct output output;
	const struct option options[] = {{"--rows", OPTION_COUNT, &rows, "N", "how many rows"},
	                                 {"--ids", OPTION_COUNT, &ids, "N", "number of ids (1000000)"},
	                                 {"--seed", OPTION_COUNT, &seed, "S", "the same seed, the same file"},
	                                 {"--out", OPTION_TEXT, &out, "FILE", "the file to write"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, NULL, 0, &err);
	if (status == WEIR_OK && (rows == 0 || !out))
		status = weir_fail(&err, WEIR_E_INVALID, "needs --rows N and --out FILE");
	if (status != WEIR_OK)
		return verb_usage("datagen", &err);
	status = output_begin(&output, out, &err);
	if (status == WEIR_OK) {
		const struct generate_options o = {.path = output.path, .rows = rows, .ids = ids, .seed = seed};
		status = output_end(&output, generate_criteo(&o, &truth, &err), &err);
	}
	if (status != WEIR_OK)
		return verb_fail("datagen", &err);
	fprintf(output_words(out),
	        "%s: %" PRIu64 " rows, %" PRIu64 " clicks, %" PRIu64 " bytes, %" PRIu64 " of %" PRIu64
	        " ids seen; best AUC %.4f, logloss %.4f\n",
	        output_label(out), truth.all.rows, truth.all.clicks, truth.bytes, truth.ids_seen, truth.ids, truth.all.auc,
	        truth.all.logloss);
	return EXIT_SUCCESS;
}
