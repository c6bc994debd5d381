/* Fields to texts: the canonical form of a key's value, however a person wrote it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_column_schema.h"

void job_float_text(float value, char *out, size_t bytes)
{
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(out, bytes, "%.*g", digits, (double)value);
		const float read = strtof(out, NULL);
		if (memcmp(&read, &value, sizeof value) == 0)
			return;
	}
}

static void write_choice(const struct key *key, uint32_t value, char *out, size_t bytes)
{
	for (uint32_t i = 0; i < key->choices_count; i++)
		if (key->choices[i].value == value)
			snprintf(out, bytes, "%s", key->choices[i].name);
}

static void write_list(const void *base, const struct key *key, char *out, size_t bytes)
{
	const char *field = (const char *)base + key->offset;
	uint32_t count;
	memcpy(&count, (const char *)base + key->count_offset, sizeof count);
	size_t used = (size_t)snprintf(out, bytes, "[");
	for (uint32_t i = 0; i < count && used < bytes; i++) {
		const char *comma = i ? ", " : "";
		char number[32];
		if (key->type == KEY_U32_LIST) {
			used += (size_t)snprintf(out + used, bytes - used, "%s%u", comma, ((const uint32_t *)field)[i]);
		} else if (key->type == KEY_FLOAT_LIST) {
			job_float_text((*(float *const *)field)[i], number, sizeof number);
			used += (size_t)snprintf(out + used, bytes - used, "%s%s", comma, number);
		} else {
			used += (size_t)snprintf(out + used, bytes - used, "%s%s", comma, (*(char *const *const *)field)[i]);
		}
	}
	if (used < bytes)
		snprintf(out + used, bytes - used, "]");
}

void job_field_text(const void *base, const struct key *key, char *out, size_t bytes)
{
	const void *field = (const char *)base + key->offset;
	uint64_t wide;
	uint32_t narrow;
	float real;
	out[0] = '\0';
	switch (key->type) {
	case KEY_TEXT:
		snprintf(out, bytes, "%s", (const char *)field);
		break;
	case KEY_U32:
		memcpy(&narrow, field, sizeof narrow);
		if (narrow == 0 && key->zero_word)
			snprintf(out, bytes, "%s", key->zero_word);
		else
			snprintf(out, bytes, "%u", narrow);
		break;
	case KEY_U64:
	case KEY_BYTES:
	case KEY_RATE:
		memcpy(&wide, field, sizeof wide);
		if (wide == 0 && key->zero_word)
			snprintf(out, bytes, "%s", key->zero_word);
		else
			snprintf(out, bytes, "%llu", (unsigned long long)wide);
		break;
	case KEY_BOOL:
		snprintf(out, bytes, "%s", *(const bool *)field ? "true" : "false");
		break;
	case KEY_FLOAT:
		memcpy(&real, field, sizeof real);
		job_float_text(real, out, bytes);
		break;
	case KEY_CHOICE:
		memcpy(&narrow, field, sizeof narrow);
		write_choice(key, narrow, out, bytes);
		break;
	case KEY_U32_LIST:
	case KEY_TEXT_LIST:
	case KEY_FLOAT_LIST:
		write_list(base, key, out, bytes);
		break;
	case KEY_COLUMNS:
	case KEY_LATER:
		break;
	}
}

void job_key_text(const struct job *job, const struct key *key, char *out, size_t bytes)
{
	if (key->type == KEY_COLUMNS)
		job_columns_text(job, out, bytes);
	else
		job_field_text(job, key, out, bytes);
}
