/* Figures and bills as JSON: what `weir plan` prints with --probe and --json, and reads again. */
#ifndef WEIR_PLAN_FIGURES_JSON_H
#define WEIR_PLAN_FIGURES_JSON_H

#include "cli/plan/plan.h"
#include "common/web/json.h"

struct json *figures_to_json(const struct plan_figures *f);
/* E_INVALID names the field that is missing or wrong. */
weir_status figures_from_json(const struct json *j, struct plan_figures *out, weir_error *err) WEIR_MUST_CHECK;

/* {"sets": [...], "setting": [{"key": K, "value": V}, ...], "samples_per_s": N, "steps": N,
 *  "limit": "compute", "terms_ms": {...}} */
struct json *plan_to_json(const struct job *job, const struct plan_figures *f, const struct plan_found *p);
/* {"keys": [{"key": K, "values": [...]}, ...]}: of the keys that have several. */
struct json *plan_space_to_json(const struct plan_figures *f, const struct plan_space *space);

#endif
