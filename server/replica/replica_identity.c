#include "server/replica/replica_identity.h"

#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"

static weir_status open_promises(struct standing *s, const struct standing_options *o, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const uint64_t least = o->incarnation_least ? o->incarnation_least : (uint64_t)(o->clock->ops->wall_ns(o->clock) / 1000000);
	struct promises_options p = {
	    .disk = o->disk, .path = path, .partitions = o->who.partitions, .log = o->log, .incarnation_least = least};
	if (snprintf(path, sizeof path, "%s/PROMISES", folder_path(s->folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, folder_path(s->folder));
	folder_id(s->folder, p.id);
	memcpy(p.machine_boot, o->machine_boot, sizeof p.machine_boot);
	return promises_open(&s->promises, &p, err);
}

weir_status standing_open(struct standing *s, const struct standing_options *options, weir_error *err)
{
	*s = (struct standing){0};
	weir_status status =
	    folder_open(&s->folder, options->disk, options->path, options->holder, &options->who, &options->start, err);
	return status ? status : open_promises(s, options, err);
}

void standing_close(struct standing *s, bool clean)
{
	promises_close(s->promises, clean);
	folder_close(s->folder, clean);
	*s = (struct standing){0};
}
