#include "worker/train/score/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define BUFFER_BYTES (1u << 20)

weir_status spool_open(struct spool *s, struct disk *disk, const char *beside, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	*s = (struct spool){.buffer = malloc(BUFFER_BYTES)};
	if (!s->buffer)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory to write %s", beside);
	snprintf(path, sizeof path, "%s.spool", beside);
	(void)disk->ops->remove(disk, path, NULL); /* left by a crash */
	weir_status status = disk->ops->open(disk, path, true, &s->file, err);
	/* The file exists as long as it is open. */
	return status == WEIR_OK ? disk->ops->remove(disk, path, err) : status;
}

weir_status spool_end(struct spool *s, weir_error *err)
{
	weir_status status = s->used > 0 ? s->file->disk->ops->write_at(s->file, s->written, s->buffer, s->used, err) : WEIR_OK;
	s->written += s->used;
	s->used = 0;
	return status;
}

weir_status spool_add(struct spool *s, const void *data, size_t bytes, weir_error *err)
{
	const uint8_t *from = data;
	weir_status status = WEIR_OK;
	while (bytes > 0 && status == WEIR_OK) {
		const size_t room = BUFFER_BYTES - s->used, n = bytes < room ? bytes : room;
		memcpy(s->buffer + s->used, from, n);
		s->used += n;
		from += n;
		bytes -= n;
		if (s->used == BUFFER_BYTES)
			status = spool_end(s, err);
	}
	return status;
}

void spool_close(struct spool *s)
{
	if (s->file)
		s->file->disk->ops->close(s->file);
	free(s->buffer);
	*s = (struct spool){0};
}
