/* Bytes that are written before it is known how many there will be: a file that has no name, behind a buffer. */
#ifndef WEIR_SPOOL_H
#define WEIR_SPOOL_H

#include "common/system/disk.h"

struct spool {
	struct disk_file *file;
	uint8_t *buffer;
	size_t used;      /* of the buffer */
	uint64_t written; /* to the file */
};

/* Its space is that of the file `beside`. */
weir_status spool_open(struct spool *s, struct disk *disk, const char *beside, weir_error *err) WEIR_MUST_CHECK;
weir_status spool_add(struct spool *s, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* All that was added is in s->file when it returns. */
weir_status spool_end(struct spool *s, weir_error *err) WEIR_MUST_CHECK;
void spool_close(struct spool *s); /* One that was never opened (all zeros) is allowed */

#endif
