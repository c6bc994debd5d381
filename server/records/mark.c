#include "server/records/mark.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"

#define MAGIC  "weirmark"
#define CRC_AT 60u

bool mark_is_below(const struct mark *a, const struct mark *b)
{
	if (a->generation != b->generation)
		return a->generation < b->generation;
	return a->epoch != b->epoch ? a->epoch < b->epoch : a->position < b->position;
}

static weir_status decode(uint8_t *bytes, size_t n, const char *path, const struct mark_owner *owner, struct mark *out,
                          weir_error *err)
{
	if (n != MARK_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC - 1) != 0)
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s is no mark of a server: remove it, once the server's folder is known to be its newest", path);
	const uint32_t crc = get32(bytes + CRC_AT);
	put32(bytes + CRC_AT, 0);
	if (crc != crc32c(0, bytes, n))
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s: damaged, its checksum is another: remove it, once the server's folder is known to be its newest",
		                 path);
	if (get32(bytes + 8) != MARK_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s: version %u, this program reads %u", path, get32(bytes + 8), MARK_VERSION);
	if (get32(bytes + 12) == owner->server && memcmp(bytes + 16, owner->uuid, sizeof owner->uuid) == 0)
		*out = (struct mark){.generation = get64(bytes + 32), .epoch = get64(bytes + 40), .position = get64(bytes + 48)};
	return WEIR_OK;
}

weir_status mark_read(struct disk *disk, const char *path, const struct mark_owner *owner, struct mark *out, weir_error *err)
{
	char *bytes = NULL;
	size_t n = 0;
	weir_error why = {0};
	*out = (struct mark){0};
	weir_status status = disk_read_file(disk, path, MARK_BYTES, &bytes, &n, &why);
	if (status == WEIR_E_NOT_FOUND)
		return WEIR_OK;
	if (status)
		return weir_fail(err, status, "%s", why.text);
	status = decode((uint8_t *)bytes, n, path, owner, out, err);
	free(bytes);
	return status;
}

weir_status mark_write(struct disk *disk, const char *path, const struct mark_owner *owner, const struct mark *mark,
                       weir_error *err)
{
	uint8_t bytes[MARK_BYTES] = {0};
	memcpy(bytes, MAGIC, sizeof MAGIC - 1);
	put32(bytes + 8, MARK_VERSION);
	put32(bytes + 12, owner->server);
	memcpy(bytes + 16, owner->uuid, sizeof owner->uuid);
	put64(bytes + 32, mark->generation);
	put64(bytes + 40, mark->epoch);
	put64(bytes + 48, mark->position);
	put32(bytes + CRC_AT, crc32c(0, bytes, sizeof bytes));
	return disk_write_file(disk, path, bytes, sizeof bytes, err);
}
