/* Takes a profile of a running job: has its servers and workers trace, and collects their spans. */
#ifndef WEIR_PROFILE_ASK_H
#define WEIR_PROFILE_ASK_H

#include "cli/profile/profile.h"
#include "common/job/job.h"
#include "common/system/logger.h"

struct profile_asker;
/* places: addresses of servers that may have the ledger. job: as for transport_open. */
weir_status profile_ask_open(struct profile_asker **out, const struct job *job, const char *places, struct logger *logger,
                             weir_error *err) WEIR_MUST_CHECK;
void profile_ask_close(struct profile_asker *a); /* NULL is allowed */

/* The batches that the job's workers have trained so far. E_STATE: the job has ended. */
weir_status profile_ask_batches(struct profile_asker *a, uint64_t *batches, weir_error *err) WEIR_MUST_CHECK;
/* Live trainers, (*count), as of the last profile_ask_batches. */
struct profile_trainer {
	uint32_t id;
	char name[WEIR_NAME_BYTES_MAX];
	uint64_t rows; /* that it has reported */
};
const struct profile_trainer *profile_ask_trainers(const struct profile_asker *a, uint32_t *count);
/* Traces for duration_ms from when all workers have heard of it, and waits for the spans. A worker
 * that hands in nothing is named in out->missing. *out: freed by profile_destroy, also after an
 * error. E_BUSY: another `weir profile` traces the job. */
weir_status profile_ask_trace(struct profile_asker *a, uint32_t duration_ms, struct profile *out,
                              weir_error *err) WEIR_MUST_CHECK;

#endif
