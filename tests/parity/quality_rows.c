/* Prints the quality of scored rows as JSON (quality_json.h): quality_rows PLACE... < ROWS. A line
 * of ROWS is LABEL SCORE WEIGHT GROUP; PLACE is a k of NDCG@k. For tests/parity/quality.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/data/quality/quality_json.h"

static weir_status read_rows(struct quality_taker *t, FILE *in, weir_error *err)
{
	float label, score, weight;
	uint64_t group;
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && fscanf(in, "%f %f %f %" SCNu64, &label, &score, &weight, &group) == 4) {
		const struct scored row = {.labels = &label, .scores = &score, .weights = &weight, .groups = &group, .n = 1};
		status = quality_add(t, &row, err);
	}
	if (status == WEIR_OK && !feof(in))
		status = weir_fail(err, WEIR_E_PARSE, "row %" PRIu64 " is not LABEL SCORE WEIGHT GROUP", t->rows + 1);
	return status;
}

static weir_status print(const struct quality *q, weir_error *err)
{
	struct json *j = json_create();
	char *text = NULL;
	if (j) {
		quality_put(j, q);
		text = json_text_exact(j);
	}
	if (text)
		puts(text);
	const weir_status status = text ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the result");
	free(text);
	json_destroy(j);
	return status;
}

int main(int count, char **args)
{
	uint32_t places[WEIR_RANK_PLACES_MAX];
	const uint32_t places_count = (uint32_t)count - 1;
	struct quality_taker taker;
	struct quality quality;
	weir_error err = {0};
	weir_status status = WEIR_OK;
	if (count < 1 || places_count > WEIR_RANK_PLACES_MAX)
		status = weir_fail(&err, WEIR_E_INVALID, "expected at most %u places", WEIR_RANK_PLACES_MAX);
	for (uint32_t i = 0; i < places_count && status == WEIR_OK; i++) {
		places[i] = (uint32_t)strtoul(args[i + 1], NULL, 10);
		if (places[i] < 1 || places[i] > WEIR_RANK_K_MAX)
			status = weir_fail(&err, WEIR_E_INVALID, "'%s' is not a place from 1 to %u", args[i + 1], WEIR_RANK_K_MAX);
	}
	quality_taker_init(&taker);
	if (status == WEIR_OK)
		status = read_rows(&taker, stdin, &err);
	if (status == WEIR_OK)
		status = quality_take(&taker, places, places_count, &quality, &err);
	if (status == WEIR_OK)
		status = print(&quality, &err);
	quality_taker_destroy(&taker);
	if (status != WEIR_OK)
		fprintf(stderr, "quality_rows: %s\n", err.text);
	return status == WEIR_OK ? 0 : 1;
}
