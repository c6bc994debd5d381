#include "worker/data/columns/ground_truth.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/system/disk.h"

#define TRUTH_BYTES_MAX 65536u

static weir_status ground_truth_path(const char *path, char out[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	int n = snprintf(out, WEIR_PATH_BYTES_MAX, "%s.truth.json", path);
	return n > 0 && n < (int)WEIR_PATH_BYTES_MAX ? WEIR_OK : weir_fail(err, WEIR_E_LIMIT, "the path is too long: %.200s", path);
}

static json_t *real_or_null(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *scores_to_json(const struct generate_scores *s)
{
	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "rows", (json_int_t)s->rows, "clicks", (json_int_t)s->clicks, "auc",
	                 real_or_null(s->auc), "logloss", real_or_null(s->logloss), "auc_expected", real_or_null(s->auc_expected),
	                 "logloss_expected", real_or_null(s->logloss_expected));
}

weir_status ground_truth_write(const struct generate_options *o, const struct ground_truth *t, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = ground_truth_path(o->path, path, err);
	if (status != WEIR_OK)
		return status;
	json_t *root =
	    json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:[I, I, I], s:o, s:o, s:o, s:o, s:o, s:o}", "model", TRUTH_MODEL, "seed",
	              (json_int_t)o->seed, "rows", (json_int_t)o->rows, "ids_requested", (json_int_t)o->ids, "ids",
	              (json_int_t)t->ids, "ids_seen", (json_int_t)t->ids_seen, "bytes", (json_int_t)t->bytes, "split",
	              (json_int_t)o->split_train, (json_int_t)o->split_valid, (json_int_t)o->split_test, "bayes_auc",
	              real_or_null(t->all.auc), "bayes_logloss", real_or_null(t->all.logloss), "all", scores_to_json(&t->all),
	              "train", scores_to_json(&t->train), "valid", scores_to_json(&t->valid), "test", scores_to_json(&t->test));
	char *text = !root ? NULL : json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	status = disk_write_file(disk_system(), path, text, strlen(text), err);
	free(text);
	return status;
}

static uint64_t whole_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static double real_of(const json_t *object, const char *key)
{
	const json_t *x = json_object_get(object, key);
	return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

static struct generate_scores scores_from_json(const json_t *object)
{
	return (struct generate_scores){.rows = whole_of(object, "rows"),
	                                .clicks = whole_of(object, "clicks"),
	                                .auc = real_of(object, "auc"),
	                                .logloss = real_of(object, "logloss"),
	                                .auc_expected = real_of(object, "auc_expected"),
	                                .logloss_expected = real_of(object, "logloss_expected")};
}

static bool belongs_to(const json_t *root, const struct generate_options *o)
{
	const json_t *split = json_object_get(root, "split");
	const uint64_t shares[] = {o->split_train, o->split_valid, o->split_test};
	bool same = whole_of(root, "model") == TRUTH_MODEL && whole_of(root, "seed") == o->seed &&
	            whole_of(root, "rows") == o->rows && whole_of(root, "ids_requested") == o->ids;
	for (size_t i = 0; i < 3; i++)
		same = same && (uint64_t)json_integer_value(json_array_get(split, i)) == shares[i];
	return same;
}

weir_status ground_truth_read(const char *data_path, const struct generate_options *options, struct ground_truth *out,
                              weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text;
	size_t bytes;
	json_error_t bad;
	weir_status status = ground_truth_path(data_path, path, err);
	if (status == WEIR_OK)
		status = disk_read_file(disk_system(), path, TRUTH_BYTES_MAX, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	json_t *root = json_loadb(text, bytes, 0, &bad);
	free(text);
	if (!root)
		return weir_fail(err, WEIR_E_PARSE, "%s:%d: %s", path, bad.line, bad.text);
	if (options && !belongs_to(root, options))
		status = weir_fail(err, WEIR_E_STATE, "%s was generated with other options", data_path);
	*out = (struct ground_truth){.ids = whole_of(root, "ids"),
	                             .ids_seen = whole_of(root, "ids_seen"),
	                             .bytes = whole_of(root, "bytes"),
	                             .all = scores_from_json(json_object_get(root, "all")),
	                             .train = scores_from_json(json_object_get(root, "train")),
	                             .valid = scores_from_json(json_object_get(root, "valid")),
	                             .test = scores_from_json(json_object_get(root, "test"))};
	json_decref(root);
	return status;
}
