/* The settings of a run for TensorBoard's plugin HParams, as events in the run's file (events.h):
 * a table of runs with their settings and last values, parallel coordinates, a matrix of scatter
 * plots.
 *
 * A session is a run. It begins with the settings that determine its results (those of data,
 * model and training) as far as the job file or --set gives them, and ends with its success. An
 * experiment says which settings and values a sweep compares; without one, TensorBoard gathers
 * those of all sessions. */
#ifndef WEIR_HPARAMS_H
#define WEIR_HPARAMS_H

#include "cli/observe/events.h"
#include "common/job/job_resolved.h"

weir_status hparams_begin(struct events *e, const struct job_resolved *settings, int64_t wall_ms,
                          weir_error *err) WEIR_MUST_CHECK;
weir_status hparams_end(struct events *e, bool success, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;

struct hparam_domain {
	const char *key;
	const char *const *choices; /* (choices_count) as texts; none: a number from low to high */
	uint32_t choices_count;
	double low, high;
};
/* values: tags of events, "valid/auc". */
weir_status hparams_experiment(struct events *e, const struct hparam_domain *domains, uint32_t domains_count,
                               const char *const *values, uint32_t values_count, int64_t wall_ms,
                               weir_error *err) WEIR_MUST_CHECK;
/* Whether a key's text is a number, as the plugin orders numbers and not texts. */
bool hparams_number(const char *text, double *out);

#endif
