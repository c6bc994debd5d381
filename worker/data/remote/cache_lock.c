#include "worker/data/remote/cache_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/system/disk.h"

weir_status cache_lock(const char *dir, const char *path, int *fd, weir_error *err)
{
	struct disk *disk = disk_system();
	weir_status status = disk->ops->make_dirs(disk, dir, err);
	if (status != WEIR_OK)
		return status;
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot create %s: %s; make the folder writable or set data.cache", path,
		                 strerror(errno));
	while (flock(*fd, LOCK_EX) != 0) {
		if (errno == EINTR)
			continue;
		status = weir_fail(err, WEIR_E_IO, "cannot lock %s: %s", path, strerror(errno));
		close(*fd);
		return status;
	}
	return WEIR_OK;
}
