#include "cli/core/accepted.h"

#include <stdio.h>
#include <stdlib.h>

static void note(void *accepted, const char *key, const char *was, const char *is)
{
	struct accepted *a = accepted;
	struct json *item = json_create();
	if (!a->record)
		a->record = json_create();
	json_set_text(item, "key", key);
	json_set_text(item, "was", was);
	json_set_text(item, "is", is);
	json_append(a->record, "accepted", item);
	fprintf(stderr, "accepted: %s was '%.200s' and is '%.200s'\n", key, was, is);
}

weir_status accepted_compare(struct accepted *a, const struct fingerprint_comparison *c, weir_error *err)
{
	struct fingerprint_comparison all = *c;
	all.accepted = a->keys.items;
	all.accepted_count = a->keys.count;
	all.differs = note;
	all.arg = a;
	return fingerprint_compare(&all, err);
}

void accepted_put(const struct accepted *a, struct json *into)
{
	for (size_t i = 0; a->record && i < json_list_length(a->record, "accepted"); i++)
		json_append(into, "accepted", json_list_get(a->record, "accepted", i));
}

void accepted_destroy(struct accepted *a)
{
	json_destroy(a->record);
	a->record = NULL;
}

weir_status accepted_check_weights(struct accepted *a, const struct weights_origin *w, weir_error *err)
{
	const struct fingerprint_parts parts = {.items = {w->data}, .vocabulary = w->vocabulary};
	struct fingerprint is;
	if (!w->was[0]) {
		if (!w->foreign)
			fprintf(stderr, "%s carries no fingerprint: whether it was trained as the job says is not known\n", w->path);
		return WEIR_OK;
	}
	if (!fingerprint_is_valid(w->was))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: its fingerprint is no list of lines KEY=VALUE", w->path);
	weir_status status = job_fingerprint(w->job, &parts, &is, err);
	if (status != WEIR_OK)
		return status;
	char what[WEIR_ERROR_TEXT_BYTES / 3];
	snprintf(what, sizeof what, "%.200s was trained otherwise than the job says", w->path);
	status = accepted_compare(
	    a,
	    &(struct fingerprint_comparison){.was = w->was,
	                                     .is = is.text ? is.text : "",
	                                     .what = what,
	                                     .counts = w->trained_on ? fingerprint_of_tensors : fingerprint_of_weights},
	    err);
	free(is.text);
	return status;
}
