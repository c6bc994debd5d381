#include "cli/verbs/plan_machines.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/system/disk.h"

struct file {
	const char *path;
	yaml_document_t yaml;
	weir_error *err;
};

static weir_status fail_at(const struct file *f, const yaml_node_t *node, const char *what, const char *expected)
{
	return weir_fail(f->err, WEIR_E_INVALID, "%s:%zu:%zu: %s: expected %s", f->path, node->start_mark.line + 1,
	                 node->start_mark.column + 1, what, expected);
}

static const char *text_of(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static weir_status read_number(const struct file *f, const yaml_node_t *node, const char *key, double least, double most,
                               double *out)
{
	char *end, expected[64];
	const char *text = text_of(node);
	*out = strtod(text, &end);
	if (*text && *end == 0 && *out >= least && *out <= most)
		return WEIR_OK;
	snprintf(expected, sizeof expected, "a number from %g to %g", least, most);
	return fail_at(f, node, key, expected);
}

static weir_status read_rate(const struct file *f, const yaml_node_t *node, double *out)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {{"kb/s", 1e3}, {"Mb/s", 1e6}, {"Gb/s", 1e9}};
	char *end;
	const char *text = text_of(node);
	*out = strtod(text, &end);
	if (strcmp(text, "off") == 0) {
		*out = 0;
		return WEIR_OK;
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (end != text && *out > 0 && strcmp(end, units[i].unit) == 0) {
			*out *= units[i].factor;
			return WEIR_OK;
		}
	return fail_at(f, node, "rate", "bits a second such as 100Mb/s or 10Gb/s, or off");
}

/* The machines of one role. */
struct group {
	double *speed, *cores;
	uint32_t *count;
};

static weir_status read_machine(const struct file *f, yaml_node_t *map, const struct group *g)
{
	double count = 1, cores = 1, speed = 1;
	weir_status status =
	    map->type == YAML_MAPPING_NODE ? WEIR_OK : fail_at(f, map, "a machine", "{count: N, cores: N, speed: X}");
	for (yaml_node_pair_t *p = status == WEIR_OK ? map->data.mapping.pairs.start : NULL;
	     status == WEIR_OK && p < map->data.mapping.pairs.top; p++) {
		yaml_node_t *key = yaml_document_get_node((yaml_document_t *)&f->yaml, p->key),
		            *value = yaml_document_get_node((yaml_document_t *)&f->yaml, p->value);
		if (strcmp(text_of(key), "count") == 0)
			status = read_number(f, value, "count", 1, PLAN_MACHINES_MAX, &count);
		else if (strcmp(text_of(key), "cores") == 0)
			status = read_number(f, value, "cores", 1, 4096, &cores);
		else if (strcmp(text_of(key), "speed") == 0)
			status = read_number(f, value, "speed", 1e-3, 1e3, &speed);
		else
			status = fail_at(f, key, text_of(key), "count, cores or speed");
	}
	for (double i = 0; i < count && status == WEIR_OK; i++) {
		if (*g->count == PLAN_MACHINES_MAX)
			return fail_at(f, map, "machines", "at most 64 of a role");
		*g->cores = *g->count == 0 || cores < *g->cores ? cores : *g->cores;
		g->speed[(*g->count)++] = speed;
	}
	return status;
}

static weir_status read_group(const struct file *f, const yaml_node_t *list, const char *key, const struct group *g)
{
	weir_status status = list->type == YAML_SEQUENCE_NODE ? WEIR_OK : fail_at(f, list, key, "a list of machines");
	for (yaml_node_item_t *i = status == WEIR_OK ? list->data.sequence.items.start : NULL;
	     status == WEIR_OK && i < list->data.sequence.items.top; i++)
		status = read_machine(f, yaml_document_get_node((yaml_document_t *)&f->yaml, *i), g);
	return status;
}

static weir_status read_key(const struct file *f, const yaml_node_t *key, const yaml_node_t *value, struct plan_machines *out)
{
	const char *name = text_of(key);
	const struct group workers = {out->worker_speed, &out->worker_cores, &out->workers},
	                   servers = {out->server_speed, &out->server_cores, &out->servers};
	double ms = 0;
	if (strcmp(name, "figures") == 0) {
		snprintf(out->figures, sizeof out->figures, "%s", text_of(value));
		return out->figures[0] ? WEIR_OK : fail_at(f, value, name, "a file of `weir plan --probe`");
	}
	if (strcmp(name, "rate") == 0)
		return read_rate(f, value, &out->rate_bits_per_s);
	if (strcmp(name, "latency_ms") == 0) {
		const weir_status status = read_number(f, value, name, 0, 1000, &ms);
		out->latency_s = ms * 1e-3;
		return status;
	}
	if (strcmp(name, "workers") == 0)
		return read_group(f, value, name, &workers);
	if (strcmp(name, "servers") == 0)
		return read_group(f, value, name, &servers);
	return fail_at(f, key, name, "figures, rate, latency_ms, workers or servers");
}

static weir_status read_all(struct file *f, struct plan_machines *out)
{
	const yaml_node_t *root = yaml_document_get_root_node(&f->yaml);
	if (!root || root->type != YAML_MAPPING_NODE)
		return weir_fail(f->err, WEIR_E_INVALID, "%s: expected a map with workers and servers", f->path);
	weir_status status = WEIR_OK;
	for (yaml_node_pair_t *p = root->data.mapping.pairs.start; status == WEIR_OK && p < root->data.mapping.pairs.top; p++)
		status = read_key(f, yaml_document_get_node(&f->yaml, p->key), yaml_document_get_node(&f->yaml, p->value), out);
	if (status == WEIR_OK && (out->workers == 0 || out->servers == 0))
		status = weir_fail(f->err, WEIR_E_INVALID, "%s: expected machines for workers and for servers", f->path);
	return status;
}

weir_status plan_machines_read(const char *path, struct plan_machines *out, weir_error *err)
{
	struct file f = {.path = path, .err = err};
	yaml_parser_t parser;
	char *text = NULL;
	size_t bytes;
	*out = (struct plan_machines){0};
	weir_status status = job_read_file(path, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	if (!yaml_parser_initialize(&parser)) {
		free(text);
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	if (yaml_parser_load(&parser, &f.yaml)) {
		status = read_all(&f, out);
		yaml_document_delete(&f.yaml);
	} else {
		status = weir_fail(err, WEIR_E_PARSE, "%s:%zu: not valid YAML: %s", path, parser.problem_mark.line + 1,
		                   parser.problem ? parser.problem : "unreadable");
	}
	yaml_parser_delete(&parser);
	free(text);
	return status;
}

struct plan_site plan_machines_site(const struct plan_machines *m, const struct job *job, const struct plan_figures *f)
{
	struct plan_site site = plan_site_of(job, f);
	site.shared = false;
	site.rate_bits_per_s = m->rate_bits_per_s;
	site.latency_s = m->latency_s;
	site.workers_max = m->workers;
	site.servers_max = m->servers;
	site.worker_cores = m->worker_cores;
	site.server_cores = m->server_cores;
	memcpy(site.worker_speed, m->worker_speed, sizeof site.worker_speed);
	memcpy(site.server_speed, m->server_speed, sizeof site.server_speed);
	return site;
}
