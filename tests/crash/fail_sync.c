/* Preloaded into a program (LD_PRELOAD): while the file named by WEIR_FAIL_WHEN is there, a sync of any file or folder whose path has WEIR_FAIL_PATH in it
 * fails, as that of a disk which lost the bytes does. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static bool fails(int fd)
{
	const char *when = getenv("WEIR_FAIL_WHEN"), *part = getenv("WEIR_FAIL_PATH");
	char link[64], path[PATH_MAX];
	if (!when || !part || access(when, F_OK) != 0)
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return strstr(path, part) != NULL;
}

static int sync_or_fail(int fd, const char *name)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
	if (!real)
		abort();
	if (!fails(fd))
		return real(fd);
	errno = EIO;
	return -1;
}

EXPORT int fsync(int fd)
{
	return sync_or_fail(fd, "fsync");
}
EXPORT int fdatasync(int fd)
{
	return sync_or_fail(fd, "fdatasync");
}
