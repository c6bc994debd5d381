#include "cli/plan/figures_json.h"

#include <stdio.h>
#include <string.h>

/* X(member): the numbers of struct plan_figures */
#define NUMBERS(X)    \
	X(cores)          \
	X(rows)           \
	X(keys)           \
	X(dense_elements) \
	X(compute_one_s)  \
	X(compute_all_s)  \
	X(crowd)          \
	X(jitter)         \
	X(load_s) X(read_s) X(inner_s) X(outer_s) X(score_s) X(round_trip_s) X(batches) X(valid_batches) X(cache_hits) X(cache_bytes)
/* may be below 0 */
#define SIGNED_NUMBERS(X) X(joint_caller_s) X(joint_client_s) X(joint_server_s)
#define CODE_NUMBERS(X)   X(bytes) X(asked_bytes) X(caller_s) X(client_s) X(server_s)

static const char *const leg_names[PLAN_LEGS] = {"dense_push", "dense_pull", "rows_push", "rows_pull"};

/* --- Figures */

static struct json *code_to_json(const struct plan_code *c)
{
	struct json *j = json_create();
	json_set_text(j, "codec", c->codec);
#define SET(member) json_set_real(j, #member, c->member);
	CODE_NUMBERS(SET)
#undef SET
	return j;
}

struct json *figures_to_json(const struct plan_figures *f)
{
	struct json *j = json_create();
#define SET(member) json_set_real(j, #member, f->member);
	NUMBERS(SET)
	SIGNED_NUMBERS(SET)
#undef SET
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++)
		for (uint32_t i = 0; i < f->codes[leg]; i++)
			json_append(j, leg_names[leg], code_to_json(&f->legs[leg][i]));
	for (uint32_t i = 0; i < f->layers_count; i++) {
		struct json *layer = json_create();
		json_set_real(layer, "elements", f->layers[i]);
		json_append(j, "layers", layer);
	}
	return j;
}

static weir_status fail_number(const char *where, const char *name, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID,
	                 "figures: %s%s is missing, or no number from 0: take the figures of `weir plan --probe`", where, name);
}

static weir_status code_from_json(const struct json *j, const char *where, struct plan_code *out, weir_error *err)
{
	const char *codec = json_get_text(j, "codec");
	if (!codec || strlen(codec) >= sizeof out->codec)
		return fail_number(where, "codec", err);
	snprintf(out->codec, sizeof out->codec, "%s", codec);
#define GET(member)                                                  \
	if (!json_get_real(j, #member, &out->member) || out->member < 0) \
		return fail_number(where, #member, err);
	CODE_NUMBERS(GET)
#undef GET
	return WEIR_OK;
}

static weir_status leg_from_json(const struct json *j, enum plan_leg leg, struct plan_figures *out, weir_error *err)
{
	char where[64];
	const size_t count = json_list_length(j, leg_names[leg]);
	weir_status status = count <= PLAN_CODES_MAX ? WEIR_OK
	                                             : weir_fail(err, WEIR_E_LIMIT, "figures: %s has more than %u codecs",
	                                                         leg_names[leg], PLAN_CODES_MAX);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		struct json *item = json_list_get(j, leg_names[leg], i);
		snprintf(where, sizeof where, "%s[%zu].", leg_names[leg], i);
		status = code_from_json(item, where, &out->legs[leg][out->codes[leg]++], err);
		json_destroy(item);
	}
	return status;
}

weir_status figures_from_json(const struct json *j, struct plan_figures *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	*out = (struct plan_figures){0};
#define GET(member)                                                  \
	if (!json_get_real(j, #member, &out->member) || out->member < 0) \
		return fail_number("", #member, err);
	NUMBERS(GET)
#undef GET
#define GET(member)                               \
	if (!json_get_real(j, #member, &out->member)) \
		return fail_number("", #member, err);
	SIGNED_NUMBERS(GET)
#undef GET
	for (enum plan_leg leg = 0; leg < PLAN_LEGS && status == WEIR_OK; leg++)
		status = leg_from_json(j, leg, out, err);
	const size_t layers = json_list_length(j, "layers");
	for (size_t i = 0; i < layers && i < PLAN_LAYERS_MAX; i++) {
		struct json *item = json_list_get(j, "layers", i);
		if (json_get_real(item, "elements", &out->layers[out->layers_count]))
			out->layers_count++;
		json_destroy(item);
	}
	if (status == WEIR_OK && (out->cores < 1 || out->rows < 1 || out->compute_one_s <= 0 || out->compute_all_s <= 0))
		status = fail_number("", "cores, rows, compute_one_s or compute_all_s", err);
	return status;
}

/* --- Plans */

static void value_text(const struct plan_figures *f, enum plan_key k, uint32_t value, char out[PLAN_MODE_BYTES])
{
	if (k == PLAN_KEY_MODE)
		plan_mode_text(value, out);
	else if (k == PLAN_KEY_CACHE)
		snprintf(out, PLAN_MODE_BYTES, "%s", value ? "on" : "off");
	else if (k >= PLAN_KEY_LEGS)
		snprintf(out, PLAN_MODE_BYTES, "%s", f->legs[k - PLAN_KEY_LEGS][value].codec);
	else
		snprintf(out, PLAN_MODE_BYTES, "%u", value);
}

/* {"key": K, "value": V} of each key */
static void append_setting(struct json *j, const struct plan_figures *f, const struct plan_setting *s)
{
	char text[PLAN_MODE_BYTES];
	for (enum plan_key k = 0; k < PLAN_KEYS; k++) {
		if (k >= PLAN_KEY_LEGS && f->codes[k - PLAN_KEY_LEGS] == 0)
			continue;
		struct json *item = json_create();
		value_text(f, k, s->of[k], text);
		json_set_text(item, "key", plan_key_name(k));
		json_set_text(item, "value", text);
		json_append(j, "setting", item);
	}
}

struct json *plan_to_json(const struct job *job, const struct plan_figures *f, const struct plan_found *p)
{
	struct json *j = json_create();
	struct answers answers;
	char name[64];
	plan_answers(job, f, p, &answers);
	json_set_empty_list(j, "sets");
	for (uint32_t i = 0; i < answers.count; i++)
		json_append_text(j, "sets", answers.items[i].set);
	append_setting(j, f, &p->setting);
	json_set_real(j, "samples_per_s", p->bill.samples_per_s);
	json_set_real(j, "steps", p->bill.steps);
	json_set_text(j, "limit", plan_term_name(p->bill.limit));
	for (enum plan_term t = 0; t < PLAN_TERMS; t++) {
		snprintf(name, sizeof name, "terms_ms.%s", plan_term_name(t));
		json_set_real(j, name, p->bill.term_s[t] * 1e3);
	}
	return j;
}

struct json *plan_space_to_json(const struct plan_figures *f, const struct plan_space *space)
{
	struct json *j = json_create(), *list;
	char text[PLAN_MODE_BYTES];
	for (enum plan_key k = 0; k < PLAN_KEYS; k++) {
		if (space->counts[k] < 2)
			continue;
		list = json_create();
		json_set_text(list, "key", plan_key_name(k));
		for (uint32_t i = 0; i < space->counts[k]; i++) {
			value_text(f, k, space->values[k][i], text);
			json_append_text(list, "values", text);
		}
		json_append(j, "keys", list);
	}
	return j;
}
