#include "server/replica/replica_identity.h"

#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"

static weir_status open_votes(struct replica_identity *s, const struct replica_identity_options *o, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const uint64_t least = o->incarnation_least ? o->incarnation_least : (uint64_t)(o->clock->ops->wall_ns(o->clock) / 1000000);
	struct vote_store_options p = {
	    .disk = o->disk, .path = path, .partitions = o->who.partitions, .log = o->log, .incarnation_least = least};
	if (snprintf(path, sizeof path, "%s/PROMISES", folder_path(s->folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, folder_path(s->folder));
	folder_id(s->folder, p.id);
	memcpy(p.machine_boot, o->machine_boot, sizeof p.machine_boot);
	return vote_store_open(&s->votes, &p, err);
}

weir_status replica_identity_open(struct replica_identity *s, const struct replica_identity_options *options, weir_error *err)
{
	*s = (struct replica_identity){0};
	weir_status status =
	    folder_open(&s->folder, options->disk, options->path, options->holder, &options->who, &options->start, err);
	return status ? status : open_votes(s, options, err);
}

void replica_identity_close(struct replica_identity *s, bool clean)
{
	vote_store_close(s->votes, clean);
	folder_close(s->folder, clean);
	*s = (struct replica_identity){0};
}
