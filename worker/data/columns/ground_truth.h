/* path.truth.json: what is known of a generated file. The only user of jansson in this folder.
 *
 *   {"model": 1, "seed", "rows", "ids_requested", "ids", "ids_seen", "bytes", "split": [80, 10, 10], "bayes_auc", "bayes_logloss",
 *    "all": {"rows", "clicks", "auc", "logloss", "auc_expected", "logloss_expected"}, "train": {...}, "valid": {...}, "test": {...}}
 *
 * bayes_auc and bayes_logloss are those of all rows. A number that is not defined (no rows) is null. */
#ifndef WEIR_TRUTH_H
#define WEIR_TRUTH_H

#include "worker/data/columns/generate_clicks.h"

#define TRUTH_MODEL 2 /* grows when the planted model changes: older files are then not current */

weir_status truth_write(const struct generate_options *o, const struct generate_truth *t, weir_error *err);
/* options may be NULL; otherwise E_STATE when the truth belongs to other options. */
weir_status truth_read(const char *path, const struct generate_options *options, struct generate_truth *out, weir_error *err);

#endif
