#include "cli/observe/hparams.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensorboard.pb-c.h"

#define PLUGIN         "hparams"
#define TAG_EXPERIMENT "_hparams_/experiment"
#define TAG_BEGIN      "_hparams_/session_start_info"
#define TAG_END        "_hparams_/session_end_info"
#define DTYPE_FLOAT    1

bool hparams_number(const char *text, double *out)
{
	char *end;
	*out = strtod(text, &end);
	return end != text && *end == '\0' && isfinite(*out);
}

static void set_any(Weir__Tensorboard__Any *a, const char *text)
{
	double number;
	weir__tensorboard__any__init(a);
	if (hparams_number(text, &number)) {
		a->kind_case = WEIR__TENSORBOARD__ANY__KIND_NUMBER_VALUE;
		a->number_value = number;
	} else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
		a->kind_case = WEIR__TENSORBOARD__ANY__KIND_BOOL_VALUE;
		a->bool_value = *text == 't';
	} else {
		a->kind_case = WEIR__TENSORBOARD__ANY__KIND_STRING_VALUE;
		a->string_value = (char *)(uintptr_t)text;
	}
}

/* Writes the data as the metadata of an empty tensor. */
static weir_status write_data(struct events *e, const Weir__Tensorboard__HparamsData *data, const char *tag, int64_t wall_ms,
                              weir_error *err)
{
	Weir__Tensorboard__PluginData plugin = WEIR__TENSORBOARD__PLUGIN_DATA__INIT;
	Weir__Tensorboard__Metadata metadata = WEIR__TENSORBOARD__METADATA__INIT;
	Weir__Tensorboard__Shape shape = WEIR__TENSORBOARD__SHAPE__INIT;
	Weir__Tensorboard__Tensor tensor = WEIR__TENSORBOARD__TENSOR__INIT;
	Weir__Tensorboard__Value value = WEIR__TENSORBOARD__VALUE__INIT, *values[] = {&value};
	Weir__Tensorboard__Summary summary = WEIR__TENSORBOARD__SUMMARY__INIT;
	Weir__Tensorboard__Event event = WEIR__TENSORBOARD__EVENT__INIT;
	plugin.plugin_name = (char *)(uintptr_t)PLUGIN;
	plugin.content.len = weir__tensorboard__hparams_data__get_packed_size(data);
	plugin.content.data = malloc(plugin.content.len + 1);
	if (!plugin.content.data)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the settings in events");
	weir__tensorboard__hparams_data__pack(data, plugin.content.data);
	metadata.plugin_data = &plugin;
	tensor.dtype = DTYPE_FLOAT;
	tensor.shape = &shape;
	value.tag = (char *)(uintptr_t)tag;
	value.metadata = &metadata;
	value.value_case = WEIR__TENSORBOARD__VALUE__VALUE_TENSOR;
	value.tensor = &tensor;
	summary.n_value = 1;
	summary.value = values;
	event.wall_time = (double)wall_ms / 1e3;
	event.summary = &summary;
	const weir_status status = events_write(e, &event, err);
	free(plugin.content.data);
	return status;
}

/* --- Sessions */

static bool is_shown(const struct job_setting *s)
{
	const bool of_cluster = strcmp(s->path, "cluster.workers") == 0 || strcmp(s->path, "cluster.servers") == 0;
	return s->given && (s->of != OF_OPERATION || of_cluster);
}

weir_status hparams_begin(struct events *e, const struct job_resolved *settings, int64_t wall_ms, weir_error *err)
{
	Weir__Tensorboard__HparamsStart start = WEIR__TENSORBOARD__HPARAMS_START__INIT;
	Weir__Tensorboard__HparamsData data = WEIR__TENSORBOARD__HPARAMS_DATA__INIT;
	struct entry {
		Weir__Tensorboard__Hparam hparam;
		Weir__Tensorboard__Any value;
	} *entries = calloc(settings->count + 1, sizeof *entries);
	start.hparams = calloc(settings->count + 1, sizeof *start.hparams);
	weir_status status =
	    entries && start.hparams ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the settings in events");
	for (uint32_t i = 0; i < settings->count && status == WEIR_OK; i++) {
		const struct job_setting *s = &settings->items[i];
		struct entry *x = &entries[start.n_hparams];
		if (!is_shown(s))
			continue;
		weir__tensorboard__hparam__init(&x->hparam);
		x->hparam.key = (char *)(uintptr_t)s->path;
		x->hparam.value = &x->value;
		set_any(&x->value, s->text);
		start.hparams[start.n_hparams++] = &x->hparam;
	}
	start.start_time_secs = (double)wall_ms / 1e3;
	data.data_case = WEIR__TENSORBOARD__HPARAMS_DATA__DATA_START;
	data.start = &start;
	if (status == WEIR_OK)
		status = write_data(e, &data, TAG_BEGIN, wall_ms, err);
	free(start.hparams);
	free(entries);
	return status;
}

weir_status hparams_end(struct events *e, bool success, int64_t wall_ms, weir_error *err)
{
	Weir__Tensorboard__HparamsEnd end = WEIR__TENSORBOARD__HPARAMS_END__INIT;
	Weir__Tensorboard__HparamsData data = WEIR__TENSORBOARD__HPARAMS_DATA__INIT;
	end.status = success ? WEIR__TENSORBOARD__HPARAMS_STATUS__STATUS_SUCCESS : WEIR__TENSORBOARD__HPARAMS_STATUS__STATUS_FAILURE;
	end.end_time_secs = (double)wall_ms / 1e3;
	data.data_case = WEIR__TENSORBOARD__HPARAMS_DATA__DATA_END;
	data.end = &end;
	return write_data(e, &data, TAG_END, wall_ms, err);
}

/* --- Experiments */

struct domain {
	Weir__Tensorboard__HparamInfo info;
	Weir__Tensorboard__Choices choices;
	Weir__Tensorboard__Interval interval;
	Weir__Tensorboard__Any *values, **list; /* (choices_count) */
};

static Weir__Tensorboard__HparamType type_of(const Weir__Tensorboard__Any *value)
{
	return value->kind_case == WEIR__TENSORBOARD__ANY__KIND_NUMBER_VALUE ? WEIR__TENSORBOARD__HPARAM_TYPE__TYPE_FLOAT64
	       : value->kind_case == WEIR__TENSORBOARD__ANY__KIND_BOOL_VALUE ? WEIR__TENSORBOARD__HPARAM_TYPE__TYPE_BOOL
	                                                                     : WEIR__TENSORBOARD__HPARAM_TYPE__TYPE_STRING;
}

static bool set_domain(struct domain *d, const struct hparam_domain *of)
{
	weir__tensorboard__hparam_info__init(&d->info);
	weir__tensorboard__choices__init(&d->choices);
	weir__tensorboard__interval__init(&d->interval);
	d->info.name = (char *)(uintptr_t)of->key;
	d->values = calloc(of->choices_count + 1, sizeof *d->values);
	d->list = calloc(of->choices_count + 1, sizeof(Weir__Tensorboard__Any *));
	if (!d->values || !d->list)
		return false;
	d->info.type = WEIR__TENSORBOARD__HPARAM_TYPE__TYPE_FLOAT64;
	for (uint32_t i = 0; i < of->choices_count; i++) {
		set_any(&d->values[i], of->choices[i]);
		d->list[i] = &d->values[i];
		d->info.type = type_of(&d->values[i]);
	}
	d->choices.n_values = of->choices_count;
	d->choices.values = d->list;
	d->interval.min_value = of->low;
	d->interval.max_value = of->high;
	d->info.domain_case = of->choices_count ? WEIR__TENSORBOARD__HPARAM_INFO__DOMAIN_DOMAIN_DISCRETE
	                                        : WEIR__TENSORBOARD__HPARAM_INFO__DOMAIN_DOMAIN_INTERVAL;
	if (of->choices_count)
		d->info.domain_discrete = &d->choices;
	else
		d->info.domain_interval = &d->interval;
	return true;
}

struct metric {
	Weir__Tensorboard__MetricInfo info;
	Weir__Tensorboard__MetricName name;
};

static void set_metric(struct metric *m, const char *tag)
{
	weir__tensorboard__metric_info__init(&m->info);
	weir__tensorboard__metric_name__init(&m->name);
	m->name.tag = (char *)(uintptr_t)tag;
	m->info.name = &m->name;
}

weir_status hparams_experiment(struct events *e, const struct hparam_domain *domains, uint32_t domains_count,
                               const char *const *values, uint32_t values_count, int64_t wall_ms, weir_error *err)
{
	Weir__Tensorboard__HparamsExperiment experiment = WEIR__TENSORBOARD__HPARAMS_EXPERIMENT__INIT;
	Weir__Tensorboard__HparamsData data = WEIR__TENSORBOARD__HPARAMS_DATA__INIT;
	struct domain *all = calloc(domains_count + 1, sizeof *all);
	struct metric *metrics = calloc(values_count + 1, sizeof *metrics);
	experiment.hparam_infos = calloc(domains_count + 1, sizeof(Weir__Tensorboard__HparamInfo *));
	experiment.metric_infos = calloc(values_count + 1, sizeof(Weir__Tensorboard__MetricInfo *));
	bool ready = all && metrics && experiment.hparam_infos && experiment.metric_infos;
	for (uint32_t i = 0; ready && i < domains_count; i++) {
		ready = set_domain(&all[i], &domains[i]);
		experiment.hparam_infos[experiment.n_hparam_infos++] = &all[i].info;
	}
	for (uint32_t i = 0; ready && i < values_count; i++) {
		set_metric(&metrics[i], values[i]);
		experiment.metric_infos[experiment.n_metric_infos++] = &metrics[i].info;
	}
	experiment.time_created_secs = (double)wall_ms / 1e3;
	data.data_case = WEIR__TENSORBOARD__HPARAMS_DATA__DATA_EXPERIMENT;
	data.experiment = &experiment;
	const weir_status status = ready ? write_data(e, &data, TAG_EXPERIMENT, wall_ms, err)
	                                 : weir_fail(err, WEIR_E_MEMORY, "no memory for the settings in events");
	for (uint32_t i = 0; all && i < domains_count; i++) {
		free(all[i].values);
		free(all[i].list);
	}
	free(all);
	free(metrics);
	free(experiment.hparam_infos);
	free(experiment.metric_infos);
	return status;
}
