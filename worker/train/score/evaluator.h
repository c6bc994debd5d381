/* The evaluator: between passes, scores the validation part with the servers' weights and decides whether training goes on.
 *
 * A pass that is the best so far is saved (RUN_DIR/best.safetensors) and tested, while the trainers wait: all three see the same weights.
 * Without train.keep_best only the last pass is saved and tested. Without a validation part, or where no pass
 * had figures that are numbers, that is so too; without a validation part nothing stops early. RUN_DIR/evaluation.json tells all (evaluation.h); an evaluator that takes over from one that was
 * killed or stopped goes on from it. */
#ifndef WEIR_EVALUATOR_H
#define WEIR_EVALUATOR_H

#include <stdatomic.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"

struct evaluator_options {
	const struct job *job;
	const char *const *accept; /* as trainer_options' */
	size_t accept_count;
	const char *ledger; /* address */
	const char *name;
	struct logger *logger;
	const atomic_bool *stop;
};

/* Runs to the end of the job (WEIR_OK) or until `stop` (WEIR_E_CANCELLED); otherwise what failed. */
weir_status evaluator_run(const struct evaluator_options *options, weir_error *err);

#endif
