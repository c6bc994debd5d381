#include "common/job/job_models.h"

#include <assert.h>
#include <stdio.h>

static const struct model_kind_row rows[] = {
#define ROW(NAME, name, reads, parts) [MODEL_##NAME] = {#name, READS_##reads, parts},
    MODEL_MAP(ROW)
#undef ROW
};

const struct model_kind_row *model_kind_row(enum model_kind kind)
{
	assert(kind < MODEL_KINDS);
	return &rows[kind];
}

const char *model_kind_name(enum model_kind kind)
{
	return model_kind_row(kind)->name;
}

bool model_kind_has(enum model_kind kind, enum model_part part)
{
	return (model_kind_row(kind)->parts >> part & 1u) != 0;
}

bool model_kind_joins_dims(enum model_kind kind)
{
	return (model_kind_row(kind)->parts & (HAS(FM) | HAS(CIN) | HAS(INTERACTION) | HAS(ATTENTION) | HAS(RETRIEVAL))) == 0;
}

const char *model_reads_name(enum model_reads reads)
{
	static const char *const names[] = {[READS_CLICKS] = "clicks", [READS_TEXT] = "text", [READS_TOKENS] = "tokens"};
	return names[reads];
}

void model_names(enum model_reads reads, char out[MODEL_NAMES_BYTES])
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < MODEL_KINDS; i++)
		left += rows[i].reads == reads;
	size_t n = 0;
	out[0] = '\0';
	for (uint32_t i = 0; i < MODEL_KINDS && n < MODEL_NAMES_BYTES; i++)
		if (rows[i].reads == reads) {
			left--;
			n += (size_t)snprintf(out + n, MODEL_NAMES_BYTES - n, "%s%s", rows[i].name,
			                      left > 1    ? ", "
			                      : left == 1 ? " or "
			                                  : "");
		}
}
