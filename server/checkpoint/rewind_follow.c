#include "server/checkpoint/rewind_follow.h"

#include <inttypes.h>
#include <string.h>

#include "server/coord/coord_records_format.h"

struct following {
	uint64_t after; /* the generation whose `next` is read */
	bool found;
	struct rewind_record record;
};

static weir_status take_next(void *arg, const struct coord_record *r, weir_error *err)
{
	struct following *f = arg;
	f->found = r;
	return r ? coord_records_unpack_next(r->value, r->value_bytes, f->after, &f->record, err) : WEIR_OK;
}

/* Reads the record that follows a generation. */
static weir_status read_after(const struct rewind_follow_options *o, uint64_t generation, struct following *f, weir_error *err)
{
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	*f = (struct following){.after = generation};
	coord_records_prefix(o->uuid, generation, prefix);
	coord_records_key(prefix, COORD_RECORDS_NEXT, 0, key);
	return coord_ask(&o->ask, key, take_next, f, err);
}

/* Checks the record that began the configured generation, if that generation began by a rewind. */
static weir_status check_told(const struct rewind_follow_options *o, struct rewind_record *last, weir_error *err)
{
	struct following f;
	if (o->generation < 2)
		return WEIR_OK;
	weir_status status = read_after(o, o->generation - 1, &f, err);
	if (status || !f.found || f.record.generation != o->generation)
		return status;
	if (o->restore && *o->restore && strcmp(o->restore, f.record.checkpoint) != 0)
		return weir_fail(err, WEIR_E_STATE,
		                 "generation %" PRIu64
		                 " of the job began with checkpoint %s (%s), and this server is told to begin it with %s: "
		                 "give it a higher generation, or `weir restore` again",
		                 o->generation, f.record.checkpoint, f.record.why, o->restore);
	*last = f.record;
	return WEIR_OK;
}

weir_status rewind_follow(const struct rewind_follow_options *options, struct rewind_record *last, weir_error *err)
{
	struct following f = {0};
	*last = (struct rewind_record){0};
	weir_status status = check_told(options, last, err);
	if (!status)
		status = read_after(options, options->generation, &f, err);
	while (!status && f.found) {
		*last = f.record;
		status = read_after(options, last->generation, &f, err);
	}
	return status;
}
