#include "cli/core/job_json_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_column_schema.h"
#include "common/job/job_columns.h"
#include "common/job/job_reference.h"

#define DRAFT             "https://json-schema.org/draft/2020-12/schema"
#define ENVIRONMENT       "environment"
#define DESCRIPTION_BYTES 4096u
#define PATTERN_BYTES     256u

/* A value of a type of JSON. */
static struct json *typed(const char *type)
{
	struct json *j = json_create();
	json_set_text(j, "type", type);
	return j;
}

static struct json *word(const char *text)
{
	struct json *j = json_create();
	json_set_text(j, "const", text);
	return j;
}

static struct json *reference(const char *name)
{
	char path[64];
	struct json *j = json_create();
	snprintf(path, sizeof path, "#/$defs/%s", name);
	json_set_text(j, "$ref", path);
	return j;
}

/* --- Values by type */

static struct json *whole_number(const struct key *key)
{
	struct json *j = typed("integer");
	json_set_count(j, "minimum", key->low);
	if (key->high <= INT64_MAX) /* JSON's whole numbers */
		json_set_count(j, "maximum", key->high);
	return j;
}

static struct json *real_number(const struct key *key)
{
	struct json *j = typed("number");
	if (key->float_low > -JOB_ANY_FLOAT)
		json_set_real(j, "minimum", key->float_low);
	if (key->float_high < JOB_ANY_FLOAT)
		json_set_real(j, key->float_below ? "exclusiveMaximum" : "maximum", key->float_high);
	return j;
}

/* A whole number with a unit: "4GiB", "100Mb/s". */
static struct json *measure(const struct key *key)
{
	char pattern[PATTERN_BYTES] = "^[0-9]+ *(";
	const char *names[JOB_UNITS_MAX];
	const uint32_t count = job_schema_units(key->type, names);
	for (uint32_t i = 0; i < count; i++) {
		const size_t used = strlen(pattern);
		snprintf(pattern + used, sizeof pattern - used, "%s%s", i > 0 ? "|" : "", names[i]);
	}
	strcat(pattern, ")$");
	struct json *j = typed("string");
	json_set_text(j, "pattern", pattern);
	return j;
}

static struct json *choice(const struct key *key)
{
	struct json *j = json_create();
	for (uint32_t i = 0; i < key->choices_count; i++)
		if (!key->choices[i].later)
			json_append_text(j, "enum", key->choices[i].name);
	return j;
}

/* A text; numbers and words such as true are texts, too, where one is expected. */
static struct json *text(size_t bytes_max)
{
	struct json *j = json_create();
	json_append_text(j, "type", "string");
	json_append_text(j, "type", "number");
	json_append_text(j, "type", "boolean");
	json_set_count(j, "maxLength", bytes_max);
	return j;
}

static struct json *list_of(struct json *item, size_t items_max)
{
	struct json *j = typed("array");
	json_set_object(j, "items", item);
	json_set_count(j, "maxItems", items_max);
	return j;
}

static struct json *column(void);

/* Appends the forms that a value may have. */
static void append_forms(struct json *forms, const struct key *key)
{
	switch (key->type) {
	case KEY_TEXT:
		json_append(forms, "anyOf", text(key->size - 1));
		break;
	case KEY_TEXT_LIST:
		json_append(forms, "anyOf", text(WEIR_PATH_BYTES_MAX - 1));
		json_append(forms, "anyOf", list_of(text(WEIR_PATH_BYTES_MAX - 1), key->size));
		break;
	case KEY_U32_LIST:
		json_append(forms, "anyOf", whole_number(key));
		json_append(forms, "anyOf", list_of(whole_number(key), key->size));
		break;
	case KEY_FLOAT_LIST:
		json_append(forms, "anyOf", real_number(key));
		json_append(forms, "anyOf", list_of(real_number(key), key->size));
		break;
	case KEY_U32:
	case KEY_U64:
		json_append(forms, "anyOf", whole_number(key));
		break;
	case KEY_BYTES:
		json_append(forms, "anyOf", whole_number(key));
		json_append(forms, "anyOf", measure(key));
		break;
	case KEY_RATE:
		json_append(forms, "anyOf", measure(key));
		break;
	case KEY_FLOAT:
		json_append(forms, "anyOf", real_number(key));
		break;
	case KEY_BOOL:
		json_append(forms, "anyOf", typed("boolean"));
		break;
	case KEY_CHOICE:
		json_append(forms, "anyOf", choice(key));
		break;
	case KEY_COLUMNS:
		json_append(forms, "anyOf", list_of(column(), key->size));
		break;
	case KEY_LATER:
		break;
	}
	if (key->zero_word)
		json_append(forms, "anyOf", word(key->zero_word));
	if (key->planned)
		json_append(forms, "anyOf", word("auto"));
	if (key->type != KEY_TEXT && key->type != KEY_TEXT_LIST && key->type != KEY_COLUMNS) /* else a text is valid as it is */
		json_append(forms, "anyOf", reference(ENVIRONMENT));
}

/* --- Defaults */

static void set_default(struct json *j, const struct key *key)
{
	const char *fallback = key->fallback;
	weir_error err;
	struct json *list = NULL;
	if (!fallback)
		return;
	char *end;
	const double number = strtod(fallback, &end);
	const bool is_number = *fallback && *end == 0;
	switch (key->type) {
	case KEY_U32_LIST:
	case KEY_TEXT_LIST:
	case KEY_FLOAT_LIST:
	case KEY_COLUMNS:
		if (*fallback && json_parse(fallback, strlen(fallback), key->path, &list, &err) == WEIR_OK)
			json_set_object(j, "default", list);
		else
			json_set_empty_list(j, "default");
		break;
	case KEY_BOOL:
		json_set_bool(j, "default", strcmp(fallback, "true") == 0);
		break;
	case KEY_U32:
	case KEY_U64:
		if (is_number) {
			json_set_count(j, "default", strtoull(fallback, NULL, 10));
			break;
		}
		json_set_text(j, "default", fallback);
		break;
	case KEY_FLOAT:
		if (is_number) {
			json_set_real(j, "default", number);
			break;
		}
		json_set_text(j, "default", fallback);
		break;
	default:
		json_set_text(j, "default", fallback);
	}
}

/* Sets what the reference says of a key, and for sizes the range, which a pattern cannot say. */
static void set_description(struct json *j, const char *path, const struct key *key)
{
	char what[DESCRIPTION_BYTES], expected[JOB_EXPECTED_BYTES];
	if (!job_reference_comment(path, what, sizeof what))
		*what = 0;
	if (key && (key->type == KEY_BYTES || key->type == KEY_RATE)) {
		const size_t used = strlen(what);
		job_schema_expected(key, expected);
		snprintf(what + used, sizeof what - used, "%s(%s)", used > 0 ? " " : "", expected);
	}
	if (*what)
		json_set_text(j, "description", what);
}

static struct json *value(const char *path, const struct key *key, const char *what)
{
	struct json *j = json_create();
	if (what)
		json_set_text(j, "description", what);
	else
		set_description(j, path, key);
	append_forms(j, key);
	set_default(j, key);
	return j;
}

/* --- Maps */

/* An entry of data.columns: its keys, and which kinds of columns take them. */
static struct json *column(void)
{
	const struct column_key *schema = job_column_schema();
	struct json *j = typed("object"), *properties = json_create(), *takers = json_create();
	json_set_bool(j, "additionalProperties", false);
	for (uint32_t row = 0; row < COLUMN_KEYS; row++) {
		const char *name = schema[row].key.path;
		json_set_object(properties, name, value(name, &schema[row].key, schema[row].what));
		if (!schema[row].key.fallback)
			json_append_text(j, "required", name);
		if (schema[row].kinds == 0)
			continue;
		struct json *kinds = json_create(), *taker = json_create();
		for (enum column_kind k = COLUMN_CATEGORICAL; k <= COLUMN_IGNORE; k++)
			if (schema[row].kinds & 1u << k)
				json_append_text(kinds, "enum", column_kind_name(k));
		json_set_object(taker, "properties.kind", kinds);
		json_set_object(takers, name, taker);
	}
	json_set_object(j, "properties", properties);
	json_set_object(j, "dependentSchemas", takers);
	return j;
}

static struct json *map(const char *path)
{
	char(*names)[JOB_KEY_BYTES_MAX] = calloc(JOB_KEYS_MAX, sizeof *names);
	struct json *j = typed("object"), *properties = json_create();
	const uint32_t count = names ? job_schema_children(path, names) : 0;
	json_set_bool(j, "additionalProperties", false);
	for (uint32_t i = 0; i < count; i++) {
		char child[JOB_KEY_BYTES_MAX * 2];
		snprintf(child, sizeof child, "%s%s%s", path, *path ? "." : "", names[i]);
		const struct key *key = job_schema_find(child);
		struct json *property = key ? value(child, key, NULL) : map(child);
		if (!key)
			set_description(property, child, NULL);
		if (key && !key->fallback && key->type != KEY_LATER)
			json_append_text(j, "required", names[i]);
		if (!key || key->type != KEY_LATER)
			json_set_object(properties, names[i], property);
		else
			json_destroy(property);
	}
	json_set_object(j, "properties", properties);
	if (!names) {
		json_destroy(j);
		return NULL;
	}
	free(names);
	return j;
}

struct json *job_json_schema(void)
{
	struct json *root = map(""), *environment = typed("string");
	json_set_text(root, "$schema", DRAFT);
	json_set_text(root, "title", "A job of Weir");
	json_set_text(environment, "description", "A value from the environment: ${NAME}, or ${NAME:-default}");
	json_set_text(environment, "pattern", "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}");
	json_set_object(root, "$defs." ENVIRONMENT, environment);
	return root;
}
