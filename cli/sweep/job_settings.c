#include "cli/sweep/job_settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static bool parse(yaml_document_t *out, const char *text)
{
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		return false;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	const bool parsed = yaml_parser_load(&parser, out) == 1;
	yaml_parser_delete(&parser);
	return parsed;
}

/* --- Nodes, by their numbers in a document; 0: none, or no memory */

/* Copies a node of another document with all below it. */
static int graft(yaml_document_t *to, yaml_document_t *from, int node)
{
	const yaml_node_t *n = yaml_document_get_node(from, node);
	int copy = 0;
	if (n->type == YAML_SCALAR_NODE)
		return yaml_document_add_scalar(to, n->tag, n->data.scalar.value, (int)n->data.scalar.length, n->data.scalar.style);
	if (n->type == YAML_SEQUENCE_NODE) {
		copy = yaml_document_add_sequence(to, n->tag, n->data.sequence.style);
		for (const int *i = n->data.sequence.items.start; copy && i < n->data.sequence.items.top; i++)
			if (!yaml_document_append_sequence_item(to, copy, graft(to, from, *i)))
				return 0;
		return copy;
	}
	copy = yaml_document_add_mapping(to, n->tag, n->data.mapping.style);
	for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; copy && p < n->data.mapping.pairs.top; p++)
		if (!yaml_document_append_mapping_pair(to, copy, graft(to, from, p->key), graft(to, from, p->value)))
			return 0;
	return copy;
}

static int add_value(yaml_document_t *d, const char *text)
{
	yaml_document_t value;
	if (!parse(&value, text))
		return 0;
	const int copy = yaml_document_get_root_node(&value) ? graft(d, &value, 1) : 0;
	yaml_document_delete(&value);
	return copy;
}

static yaml_node_pair_t *find_pair(yaml_document_t *d, int map, const char *key, size_t bytes)
{
	const yaml_node_t *n = yaml_document_get_node(d, map);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = yaml_document_get_node(d, p->key);
		if (k->type == YAML_SCALAR_NODE && k->data.scalar.length == bytes && memcmp(k->data.scalar.value, key, bytes) == 0)
			return p;
	}
	return NULL;
}

/* Sets a key of a map, and returns its value's node. value 0: the map that is there, or a new one.
 */
static int set_key(yaml_document_t *d, int map, const char *key, size_t bytes, int value)
{
	yaml_node_pair_t *p = find_pair(d, map, key, bytes);
	if (!value && p && yaml_document_get_node(d, p->value)->type == YAML_MAPPING_NODE)
		return p->value;
	value = value ? value : yaml_document_add_mapping(d, NULL, YAML_ANY_MAPPING_STYLE);
	p = find_pair(d, map, key, bytes); /* adding a node may have moved the others */
	if (p && value) {
		p->value = value;
		return value;
	}
	const int name = yaml_document_add_scalar(d, NULL, (const unsigned char *)key, (int)bytes, YAML_PLAIN_SCALAR_STYLE);
	return value && name && yaml_document_append_mapping_pair(d, map, name, value) ? value : 0;
}

static bool apply(yaml_document_t *d, const char *set)
{
	const char *equals = strchr(set, '=');
	int map = 1; /* the root */
	while (equals && map) {
		const size_t bytes = strcspn(set, ".=");
		if (set + bytes == equals) {
			const int value = add_value(d, equals + 1);
			return value && set_key(d, map, set, bytes, value);
		}
		map = set_key(d, map, set, bytes, 0);
		set += bytes + 1;
	}
	return false;
}

/* --- Writing */

static int take(void *file, unsigned char *text, size_t bytes)
{
	return fwrite(text, 1, bytes, file) == bytes;
}

/* Writes the document, and frees it. */
static char *dump(yaml_document_t *d)
{
	char *text = NULL;
	size_t bytes = 0;
	yaml_emitter_t emitter;
	FILE *out = open_memstream(&text, &bytes);
	const bool ready = out && yaml_emitter_initialize(&emitter) == 1;
	if (!ready) {
		yaml_document_delete(d);
		if (out)
			fclose(out);
		free(text);
		return NULL;
	}
	d->start_implicit = d->end_implicit = 1;
	yaml_emitter_set_output(&emitter, take, out);
	yaml_emitter_set_unicode(&emitter, 1);
	yaml_emitter_set_width(&emitter, -1);
	const bool written = yaml_emitter_open(&emitter) && yaml_emitter_dump(&emitter, d) && yaml_emitter_close(&emitter);
	yaml_emitter_delete(&emitter);
	if (fclose(out) == 0 && written)
		return text;
	free(text);
	return NULL;
}

weir_status job_settings_write(const char *text, const char *path, const char *const *sets, uint32_t count, char **out,
                               weir_error *err)
{
	yaml_document_t d;
	*out = NULL;
	bool applied = parse(&d, text);
	if (!applied)
		return weir_fail(err, WEIR_E_PARSE, "%s: not valid YAML", path);
	const yaml_node_t *root = yaml_document_get_root_node(&d);
	applied = root && root->type == YAML_MAPPING_NODE;
	for (uint32_t i = 0; i < count && applied; i++)
		applied = apply(&d, sets[i]);
	if (applied)
		*out = dump(&d);
	else
		yaml_document_delete(&d);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for %s with other settings", path);
}
