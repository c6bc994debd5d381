/* path.truth.json: the known facts of a generated file. This is the only user of jansson in this
 * folder.
 *
 *   {"model": 2, "seed", "rows", "ids_requested", "ids", "ids_seen", "bytes",
 *    "split": [80, 10, 10], "bayes_auc", "bayes_logloss",
 *    "all": {"rows", "clicks", "auc", "logloss", "auc_expected", "logloss_expected"},
 *    "train": {...}, "valid": {...}, "test": {...}}
 *
 * bayes_auc and bayes_logloss cover all rows. An undefined number (no rows) is null. */
#ifndef WEIR_GROUND_TRUTH_H
#define WEIR_GROUND_TRUTH_H

#include "worker/data/columns/generate_clicks.h"

/* Grows with each change of the synthetic model; files of an older version are not current. */
#define TRUTH_MODEL 2

weir_status ground_truth_write(const struct generate_options *o, const struct ground_truth *t, weir_error *err);
/* options may be NULL. Otherwise E_STATE means that the truth has other options. */
weir_status ground_truth_read(const char *path, const struct generate_options *options, struct ground_truth *out,
                              weir_error *err);

#endif
