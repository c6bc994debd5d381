/* Checkpoint options that own their texts. */
#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/checkpoint_take.h"

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

weir_status checkpoint_options_copy(struct checkpoint_options *out, const struct checkpoint_options *in)
{
	*out = *in;
	out->place = copy(in->place);
	out->endpoint = copy(in->endpoint);
	out->region = copy(in->region);
	out->job = copy(in->job);
	return out->place && out->endpoint && out->region && out->job ? WEIR_OK : WEIR_E_MEMORY;
}

void checkpoint_options_destroy(struct checkpoint_options *o)
{
	free((void *)(uintptr_t)o->place);
	free((void *)(uintptr_t)o->endpoint);
	free((void *)(uintptr_t)o->region);
	free((void *)(uintptr_t)o->job);
	explicit_bzero(o, sizeof *o);
}

weir_status checkpoint_options_open(const struct checkpoint_options *o, struct blob_store **out, weir_error *err)
{
	return blob_open(
	    out,
	    &(struct blob_options){.place = o->place, .endpoint = o->endpoint, .region = o->region, .credentials = &o->credentials},
	    err);
}
