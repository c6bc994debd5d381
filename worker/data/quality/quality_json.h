/* Quality as a JSON object:
 *     {"auc", "logloss", "normalized_entropy", "pr_auc", "calibration", "calibration_error",
 *      "buckets": [{"low", "high", "weight", "predicted", "observed"}, ...],
 *      "gauc", "groups", "groups_mixed", "groups_positive",
 *      "at": [{"k", "ndcg", "recall", "hit_rate"}, ...],
 *      "rows", "ranked", "not_numbers", "items",
 *      "tasks": [{"name", "auc", "logloss", "normalized_entropy", "pr_auc", "calibration",
 *                 "calibration_error", "gauc", "rows"}, ...]}
 * An undefined figure is null. gauc to at are there if the rows have groups or the model
 * retrieves, items if it retrieves, tasks if it has several. */
#ifndef WEIR_QUALITY_JSON_H
#define WEIR_QUALITY_JSON_H

#include "common/web/json.h"
#include "worker/data/quality/quality.h"

/* Puts the members into an object. */
void quality_put(struct json *object, const struct quality *q);
/* Reads what quality_put wrote; a missing figure is undefined, a missing count 0. */
void quality_read(const struct json_value *object, struct quality *out);

#endif
