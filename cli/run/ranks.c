#include "cli/run/ranks.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the number at *at and moves *at behind it. False: there is none below `workers`. */
static bool read_rank(const char **at, uint32_t workers, uint32_t *out)
{
	char *end;
	if (!isdigit((unsigned char)**at))
		return false;
	const unsigned long rank = strtoul(*at, &end, 10);
	*at = end;
	*out = (uint32_t)rank;
	return rank < workers;
}

weir_status ranks_parse(struct ranks *out, const char *text, uint32_t workers, weir_error *err)
{
	const char *at = text;
	uint32_t first = 0, last = 0;
	bool good = read_rank(&at, workers, &first);
	last = first;
	if (good && *at == '-') {
		at++;
		good = read_rank(&at, workers, &last);
	}
	if (!good || *at || last < first)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "--ranks is '%.40s'; expected FIRST-LAST within 0-%u, as cluster.workers counts the trainers of all machines: %u",
		    text, workers - 1, workers);
	*out = (struct ranks){.first = first, .count = last - first + 1};
	return WEIR_OK;
}

void ranks_name(uint32_t rank, char out[WEIR_NAME_BYTES_MAX])
{
	snprintf(out, WEIR_NAME_BYTES_MAX, "worker-%" PRIu32, rank);
}

static bool is_live(const struct overview *seen, const char *name)
{
	for (uint32_t i = 0; i < seen->workers_count; i++)
		if (strcmp(seen->workers[i].name, name) == 0)
			return seen->workers[i].live && !seen->workers[i].left;
	return false;
}

uint32_t ranks_live_elsewhere(const struct ranks *here, uint32_t workers, const struct overview *seen)
{
	char name[WEIR_NAME_BYTES_MAX];
	uint32_t live = 0;
	for (uint32_t rank = 0; rank < workers; rank++) {
		ranks_name(rank, name);
		live += (rank < here->first || rank >= here->first + here->count) && is_live(seen, name);
	}
	return live;
}
