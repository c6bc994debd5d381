#include "server/service/job_checkpoint.h"

#include <stdio.h>

_Static_assert(PRECISION_FP32 == (int)ROWS_FP32 && PRECISION_BF16 == (int)ROWS_BF16 && PRECISION_INT8 == (int)ROWS_INT8,
               "job files and row files must agree");

void job_checkpoint_options(const struct job *job, char place[WEIR_PATH_BYTES_MAX + 32], struct checkpoint_options *out)
{
	if (*job->checkpoint.dir)
		snprintf(place, WEIR_PATH_BYTES_MAX + 32, "%s", job->checkpoint.dir);
	else
		snprintf(place, WEIR_PATH_BYTES_MAX + 32, "%s/checkpoints", job->run_dir);
	*out = (struct checkpoint_options){.place = place,
	                                   .endpoint = job->checkpoint.endpoint,
	                                   .region = job->checkpoint.region,
	                                   .job = job->name,
	                                   .every_steps = job->checkpoint.every_steps,
	                                   .keep = job->checkpoint.keep,
	                                   .bytes_per_s = job->checkpoint.rate_bytes_per_s,
	                                   .values = (enum row_precision)job->checkpoint.precision,
	                                   .slots = (enum row_precision)job->checkpoint.slot_precision};
	blob_credentials_from_environment(&out->credentials);
}
