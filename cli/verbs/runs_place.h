/* The runs that people name: by their folder, or by their name in runs/; and their tags, which are
 * in RUN_DIR/tags.json: {"version": 1, "tags": [{"key": "team", "value": "ads"}]}. */
#ifndef WEIR_RUNS_PLACE_H
#define WEIR_RUNS_PLACE_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/web/json.h"
#include "weir/status.h"

#define RUNS_FOLDER     "runs" /* default folder of runs, unless a job sets run_dir */
#define RUNS_PATH_BYTES (WEIR_PATH_BYTES_MAX + 288)

/* Whether a folder holds a run. */
bool runs_is_run(const char *path);
/* E_NOT_FOUND: no run has that name. */
weir_status runs_find(const char *name, char out[RUNS_PATH_BYTES], weir_error *err) WEIR_MUST_CHECK;
/* Reads the numbers of a run's report that stand for the whole run. NULL: it has none. */
struct json *runs_report(const char *run);

/* Returns the tags, {"tags": [...]}; the caller owns them. NULL: out of memory. */
struct json *runs_tags(const char *run);
/* The value of a tag, borrowed; NULL: the run has no such tag. */
const char *runs_tag_of(const struct json *tags, const char *key);
/* Whether the run has the tag KEY, or KEY=VALUE. */
bool runs_has_tag(const struct json *tags, const char *wanted);
/* Writes "team=ads live=yes", cut to fit. */
void runs_tags_text(const struct json *tags, char *out, size_t bytes);

/* `weir runs tag` and `weir runs diff`; words: the words behind, NULL-terminated. Return the exit
 * status. */
#define RUNS_WORDS_MAX 66u
int runs_tag(const char *const *words);
int runs_diff(const char *const *words, const char *svg, bool as_json);

#endif
