/* The evaluator: between passes, scores the validation part with the servers' weights and decides
 * whether training goes on.
 *
 * The best pass so far is saved (RUN_DIR/best.safetensors) and tested while the trainers wait, so
 * that validation, file and test have the same weights. Only the last pass is saved and tested
 * without train.keep_best, without a validation part, or if no pass had defined figures. Without a
 * validation part nothing stops early. RUN_DIR/evaluation.json records everything (evaluation.h).
 * An evaluator that replaces a killed or stopped one continues from it. */
#ifndef WEIR_EVALUATOR_H
#define WEIR_EVALUATOR_H

#include <stdatomic.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"

struct evaluator_options {
	const struct job *job;
	const char *const *accept; /* the same as in trainer_options */
	size_t accept_count;
	const char *ledger; /* address */
	const char *name;
	struct logger *logger;
	const atomic_bool *stop;
};

/* Runs to the end of the job (WEIR_OK) or until `stop` (WEIR_E_CANCELLED); otherwise returns the
 * failure. */
weir_status evaluator_run(const struct evaluator_options *options, weir_error *err);

#endif
