#include "tables.h"

#include <inttypes.h>

/* Gives a schedule that ends with the training its total: an asynchronous table makes a step of every batch. */
static weir_status fill_total(weir_table_spec *spec, const struct training_length *length, weir_error *err)
{
	weir_schedule *s = &spec->optimizer.schedule;
	bool ends = s->kind == WEIR_SCHEDULE_LINEAR || s->kind == WEIR_SCHEDULE_COSINE || s->kind == WEIR_SCHEDULE_WSD;
	uint64_t joined = spec->mode.kind == WEIR_SYNC ? length->workers : 1;
	if (!ends || s->total > 0)
		return WEIR_OK;
	if (length->batches == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "table %s: its schedule is to last the whole training, but how many rows there are is not known with "
		                 "data.cache off; set the schedule's total (steps), or data.cache",
		                 spec->name);
	s->total = (length->batches + joined - 1) / joined;
	return WEIR_OK;
}

struct training_length training_length_of(const struct job *job, const struct dataset_info *data)
{
	return (struct training_length){.batches = job->train.passes * ((data->rows + job->data.batch - 1) / job->data.batch),
	                                .workers = job->cluster.workers};
}

weir_status tables_register(struct tables *t, const struct model *model, const struct training_length *length,
                            weir_client *client, weir_error *err)
{
	*t = (struct tables){.model = model};
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(model, k))
			continue;
		weir_table_spec spec = model_table_spec(model, k);
		weir_status s = fill_total(&spec, length, err);
		if (s == WEIR_OK)
			s = weir_table_register(client, &spec, &t->ids[k], err);
		if (s != WEIR_OK)
			return s;
		t->sync[k] = spec.mode.kind == WEIR_SYNC;
	}
	return WEIR_OK;
}

weir_status tables_find(struct tables *t, const struct model *model, weir_client *client, weir_error *err)
{
	*t = (struct tables){.model = model};
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(model, k))
			continue;
		weir_table_spec ours = model_table_spec(model, k), theirs = {0};
		weir_status s = weir_table_find(client, ours.name, &theirs, &t->ids[k], err);
		if (s != WEIR_OK)
			return s;
		if (theirs.kind != ours.kind || theirs.width != ours.width || theirs.elements != ours.elements)
			return weir_fail(err, WEIR_E_EXISTS,
			                 "table %s of the running job has width %u and %" PRIu64
			                 " elements, this job file's model needs %u and %" PRIu64
			                 ": use the job file that the job was started with",
			                 ours.name, theirs.width, theirs.elements, ours.width, ours.elements);
	}
	return WEIR_OK;
}

size_t tables_pull_items(const struct tables *t, const struct minibatch *m, enum pull_set set, bool training,
                         weir_pull_item *items)
{
	size_t count = 0;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(t->model, k) || (training && k == MODEL_STATISTICS))
			continue;
		if (set != PULL_ALL && t->sync[k] != (set == PULL_SYNC))
			continue;
		items[count] = (weir_pull_item){.table = t->ids[k], .values = m->parameters[k]};
		if (model_table_is_keyed(k)) {
			items[count].keys = m->keys;
			items[count].rows = m->input.unique;
		}
		count++;
	}
	return count;
}

size_t tables_push_items(const struct tables *t, const struct minibatch *m, weir_push_item *items)
{
	size_t count = 0;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(t->model, k))
			continue;
		items[count] = (weir_push_item){.table = t->ids[k], .values = m->output.gradients[k]};
		if (model_table_is_keyed(k)) {
			items[count].keys = m->keys;
			items[count].rows = m->input.unique;
		}
		count++;
	}
	return count;
}
