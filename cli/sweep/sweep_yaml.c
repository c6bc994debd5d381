/* Reads YAML with libyaml, as common/job/job_read.c does. */
#include "cli/sweep/sweep_yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weir_status reader_fail_at(struct reader *r, const yaml_node_t *node, const char *path, const char *format, ...)
{
	char what[WEIR_ERROR_TEXT_BYTES / 2];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return weir_fail(r->err, WEIR_E_INVALID, "%s:%zu:%zu: %s%s%s", r->sweep->path, node->start_mark.line + 1,
	                 node->start_mark.column + 1, path, *path ? ": " : "", what);
}

const char *reader_text_of(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

weir_status reader_fail_value(struct reader *r, const yaml_node_t *node, const char *path, const char *expected)
{
	if (node->type != YAML_SCALAR_NODE)
		return reader_fail_at(r, node, path, "is %s; expected %s", node->type == YAML_MAPPING_NODE ? "a map" : "a list",
		                      expected);
	return reader_fail_at(r, node, path, "is '%.*s'; expected %s", VALUE_SHOWN, reader_text_of(node), expected);
}

weir_status reader_text(struct reader *r, const char *path, const yaml_node_t *node, const char *expected, const char **out)
{
	if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0 ||
	    strlen(reader_text_of(node)) != node->data.scalar.length)
		return reader_fail_value(r, node, path, expected);
	*out = arena_strdup(r->sweep->arena, reader_text_of(node));
	return *out ? WEIR_OK : weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory for its values", r->sweep->path);
}

weir_status reader_list(struct reader *r, const char *path, const yaml_node_t *node, uint32_t most, const char *what,
                        uint32_t *count)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return reader_fail_value(r, node, path, what);
	const size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (n < 1 || n > most)
		return reader_fail_at(r, node, path, "has %zu items; expected %s, from 1 to %u of them", n, what, most);
	*count = (uint32_t)n;
	return WEIR_OK;
}

yaml_node_t *reader_item(struct reader *r, const yaml_node_t *list, uint32_t i)
{
	return yaml_document_get_node(&r->yaml, list->data.sequence.items.start[i]);
}

/* --- Maps */

static weir_status fail_unknown(struct reader *r, const yaml_node_t *key, const struct field *fields, uint32_t count,
                                const char *path)
{
	const char *names[READER_KEYS_MAX];
	char known[VALUE_SHOWN * 4] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < count; i++) {
		names[i] = fields[i].name;
		used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
	}
	const char *near = job_nearest(reader_text_of(key), names, count);
	if (near)
		return reader_fail_at(r, key, path, "unknown key '%.*s'; the nearest valid key is '%s' (valid here: %s)", VALUE_SHOWN,
		                      reader_text_of(key), near, known);
	return reader_fail_at(r, key, path, "unknown key '%.*s'; valid here: %s", VALUE_SHOWN, reader_text_of(key), known);
}

static weir_status read_pair(struct reader *r, const char *path, const yaml_node_pair_t *pair, const struct field *fields,
                             uint32_t count, bool *given, void *out)
{
	const yaml_node_t *key = yaml_document_get_node(&r->yaml, pair->key), *value = yaml_document_get_node(&r->yaml, pair->value);
	char full[VALUE_SHOWN];
	if (key->type != YAML_SCALAR_NODE)
		return reader_fail_at(r, key, path, "a key must be a word, not a list or a map");
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(reader_text_of(key), fields[i].name) != 0)
			continue;
		snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", fields[i].name);
		if (given[i])
			return reader_fail_at(r, key, full, "duplicate key");
		given[i] = true;
		return fields[i].read(r, full, value, out);
	}
	return fail_unknown(r, key, fields, count, path);
}

weir_status reader_map(struct reader *r, const char *path, const yaml_node_t *node, const struct field *fields, uint32_t count,
                       void *out)
{
	bool given[READER_KEYS_MAX] = {false};
	weir_status status = WEIR_OK;
	if (node->type != YAML_MAPPING_NODE)
		return reader_fail_value(r, node, path, "a map");
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && status == WEIR_OK; p++)
		status = read_pair(r, path, p, fields, count, given, out);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		if (fields[i].expected && !given[i])
			status = reader_fail_at(r, node, path, "%s is missing; expected %s", fields[i].name, fields[i].expected);
	return status;
}

static weir_status load_document(struct reader *r, yaml_parser_t *parser)
{
	if (yaml_parser_load(parser, &r->yaml))
		return WEIR_OK;
	return weir_fail(r->err, WEIR_E_PARSE, "%s:%zu:%zu: not valid YAML: %s", r->sweep->path, parser->problem_mark.line + 1,
	                 parser->problem_mark.column + 1, parser->problem ? parser->problem : "unreadable");
}

weir_status reader_load(struct reader *r, const char *text, weir_status (*read)(struct reader *r))
{
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		return weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory to read it", r->sweep->path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	weir_status status = load_document(r, &parser);
	if (status == WEIR_OK) {
		status = read(r);
		yaml_document_delete(&r->yaml);
	}
	if (status == WEIR_OK)
		status = load_document(r, &parser);
	if (status == WEIR_OK) {
		const yaml_node_t *second = yaml_document_get_root_node(&r->yaml);
		status = second ? reader_fail_at(r, second, "", "a second YAML document; expected one") : WEIR_OK;
		yaml_document_delete(&r->yaml);
	}
	yaml_parser_delete(&parser);
	return status;
}
