#include "common/job/job_resolved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_column_schema.h"

enum { INDENT = 2, TEXT_BYTES = 8 * WEIR_CONFIG_BYTES_MAX };

/* --- Values */

/* Writes a text in YAML's single quotes, or in double quotes if it has control characters. */
static void put_quoted(FILE *out, const char *text, bool doubles_dollars)
{
	bool control = false;
	for (const char *c = text; *c; c++)
		control |= (unsigned char)*c < 0x20 || *c == 0x7f;
	fputc(control ? '"' : '\'', out);
	for (; *text; text++) {
		if (*text == '$' && doubles_dollars)
			fputs("$$", out);
		else if (!control)
			fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, out);
		else if ((unsigned char)*text < 0x20 || *text == 0x7f)
			fprintf(out, "\\x%02x", (unsigned char)*text);
		else
			fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	}
	fputc(control ? '"' : '\'', out);
}

static bool is_text(const struct key *key)
{
	return key->type == KEY_TEXT || key->type == KEY_TEXT_LIST;
}

static bool refers_to_environment(const struct raw *raw)
{
	bool refers = false;
	for (uint32_t i = 0; raw->items && i < raw->count; i++)
		refers |= strstr(raw->items[i], "${") != NULL;
	return refers;
}

/* Writes a text or a list of them as items. */
static void put_items(FILE *out, const struct key *key, const char *const *items, uint32_t count, bool doubles_dollars)
{
	const bool list = key->type == KEY_TEXT_LIST;
	fputs(list ? "[" : "", out);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? ", " : "", out);
		put_quoted(out, items[i], doubles_dollars);
	}
	fputs(list ? "]" : "", out);
}

static void put_texts(FILE *out, const struct job *job, const struct key *key)
{
	const char *field = (const char *)job + key->offset;
	uint32_t count;
	if (key->type == KEY_TEXT) {
		put_items(out, key, &field, 1, true);
		return;
	}
	memcpy(&count, (const char *)job + key->count_offset, sizeof count);
	put_items(out, key, *(const char *const *const *)field, count, true);
}

/* The value of a number whose default is a word. */
static const char *word_of(const struct job *job, const struct key *key)
{
	float real = 0;
	if (key->type != KEY_FLOAT)
		return NULL;
	memcpy(&real, (const char *)job + key->offset, sizeof real);
	return isnan(real) ? key->zero_word : NULL;
}

static void put_yaml(FILE *out, const struct job *job, const struct raw *raw, const struct key *key, const char *text)
{
	const bool rate = key->type == KEY_RATE && (!key->zero_word || strcmp(text, key->zero_word) != 0);
	if (is_text(key) && refers_to_environment(raw))
		put_items(out, key, raw->items, raw->count, false);
	else if (is_text(key))
		put_texts(out, job, key);
	else if (refers_to_environment(raw))
		put_quoted(out, raw->items[0], false);
	else
		fprintf(out, "%s%s", text, rate ? "b/s" : "");
}

static bool take_setting(struct job_setting *s, const struct job *job, const struct raw *raw, const struct key *key, char *buffer)
{
	size_t bytes = 0;
	FILE *out = open_memstream(&s->yaml, &bytes);
	const char *word = word_of(job, key);
	if (!out)
		return false;
	*s = (struct job_setting){.path = key->path, .yaml = s->yaml, .given = raw->given, .of = key->of};
	if (word)
		snprintf(buffer, TEXT_BYTES, "%s", word);
	else
		job_key_text(job, key, buffer, TEXT_BYTES);
	put_yaml(out, job, raw, key, buffer);
	const bool written = fclose(out) == 0;
	s->text = refers_to_environment(raw) ? strdup(raw->items[0]) : strdup(buffer);
	return written && s->text;
}

weir_status job_resolved_take(struct reading *r, const struct job *job, struct job_resolved *out)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	char *buffer = malloc(TEXT_BYTES);
	bool taken = buffer != NULL;
	*out = (struct job_resolved){.items = calloc(count, sizeof *out->items)};
	for (uint32_t i = 0; i < count && taken && out->items; i++)
		if (keys[i].type != KEY_LATER)
			taken = take_setting(&out->items[out->count++], job, &r->raws[i], &keys[i], buffer);
	free(buffer);
	if (taken && out->items)
		return WEIR_OK;
	job_resolved_destroy(out);
	return weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory for its settings", r->name);
}

void job_resolved_destroy(struct job_resolved *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		free(r->items[i].text);
		free(r->items[i].yaml);
	}
	free(r->items);
	*r = (struct job_resolved){0};
}

const struct job_setting *job_resolved_find(const struct job_resolved *r, const char *path)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (strcmp(r->items[i].path, path) == 0)
			return &r->items[i];
	return NULL;
}

/* --- The file */

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct job_setting *const *)a)->path, (*(const struct job_setting *const *)b)->path);
}

/* Writes the maps that lead to `path` and that `before` has not led into, then the last name. */
static void put_path(FILE *out, const char *path, const char *before)
{
	int depth = 0;
	bool same = true;
	for (const char *dot; (dot = strchr(path, '.')); path = dot + 1, depth++) {
		const size_t bytes = (size_t)(dot - path) + 1;
		same = same && strncmp(path, before, bytes) == 0;
		if (!same)
			fprintf(out, "%*s%.*s:\n", INDENT * depth, "", (int)bytes - 1, path);
		before += same ? bytes : 0;
	}
	fprintf(out, "%*s%s: ", INDENT * depth, "", path);
}

static void put_file(FILE *out, const struct job_resolved *r, const struct job_setting **sorted)
{
	uint32_t count = 0;
	const char *before = "";
	for (uint32_t i = 0; i < r->count; i++)
		if (r->items[i].given)
			sorted[count++] = &r->items[i];
	qsort(sorted, count, sizeof(const struct job_setting *), by_path);
	for (uint32_t i = 0; i < count; i++) {
		put_path(out, sorted[i]->path, before);
		fprintf(out, "%s\n", sorted[i]->yaml);
		before = sorted[i]->path;
	}
	fputs("\n# The defaults of the other keys:\n", out);
	for (uint32_t i = 0; i < r->count; i++)
		if (!r->items[i].given)
			fprintf(out, "#   %s: %s\n", r->items[i].path, r->items[i].yaml);
}

char *job_resolved_yaml(const struct job_resolved *r)
{
	const struct job_setting **sorted = calloc(r->count + 1, sizeof *sorted);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = sorted ? open_memstream(&text, &bytes) : NULL;
	if (out) {
		put_file(out, r, sorted);
		if (fclose(out) != 0) {
			free(text);
			text = NULL;
		}
	}
	free(sorted);
	return text;
}
