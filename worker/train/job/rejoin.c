#include "worker/train/job/rejoin.h"

#include <time.h>

#include "common/base/clock.h"
#include "common/base/limits.h"

#define PAUSE_MS 200u

static weir_status try_one(const struct rejoin *g, uint64_t left, weir_error *err)
{
	if (*g->client)
		weir_abandon(*g->client);
	*g->client = NULL;
	weir_status status = g->open(g->arg, err);
	if (status == WEIR_OK && weir_generation(*g->client) <= left)
		status = weir_fail(err, WEIR_E_GENERATION, "the ledger is still of generation %llu of the job, which others have left",
		                   (unsigned long long)left);
	return status;
}

weir_status rejoin(const struct rejoin *g, weir_error *err)
{
	const uint64_t left = weir_generation(*g->client);
	const int64_t end_ms = clock_ms(clock_system()) + WEIR_SERVER_PATIENCE_MS;
	weir_status status;
	LOG_AT(g->logger, LOG_WARN, "job goes back", "generation %llu is over: %s", (unsigned long long)left, err->text);
	while ((status = try_one(g, left, err)) == WEIR_E_GENERATION && clock_ms(clock_system()) < end_ms) {
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
		if (atomic_load(g->stop))
			return weir_fail(err, WEIR_E_CANCELLED, "stopped by a signal");
	}
	if (status == WEIR_OK)
		LOG_AT(g->logger, LOG_INFO, "joined anew", "generation=%llu", (unsigned long long)weir_generation(*g->client));
	return status;
}
