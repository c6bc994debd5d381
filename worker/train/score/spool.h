/* Collects bytes whose number is not known in advance: a buffered file without a name. */
#ifndef WEIR_SPOOL_H
#define WEIR_SPOOL_H

#include "common/system/disk.h"

struct spool {
	struct disk_file *file;
	uint8_t *buffer;
	size_t used;      /* bytes in the buffer */
	uint64_t written; /* bytes in the file */
};

/* Takes its space from the disk of the file `beside`. */
weir_status spool_open(struct spool *s, struct disk *disk, const char *beside, weir_error *err) WEIR_MUST_CHECK;
weir_status spool_add(struct spool *s, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* When it returns, s->file has all added bytes. */
weir_status spool_end(struct spool *s, weir_error *err) WEIR_MUST_CHECK;
void spool_close(struct spool *s); /* allowed for one that was never opened (all zeros) */

#endif
