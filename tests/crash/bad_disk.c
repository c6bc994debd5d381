/* Preloaded into a program (LD_PRELOAD): a disk that fails on command. It affects files and folders
 * whose path contains WEIR_BAD_PATH, while the file WEIR_BAD_WHEN exists. That file lists the
 * faults, one per line:
 *
 *   sync EIO       syncs fail (fsync, fdatasync)
 *   write ENOSPC   writes and reservations fail (write, pwrite, writev, pwritev, ftruncate to a
 *                  larger size, fallocate); also EDQUOT and EIO
 *   sync 3000      syncs take this many milliseconds more */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/crash/real_call.h"

#define EXPORT __attribute__((visibility("default")))

static bool is_concerned(int fd)
{
	const char *part = getenv("WEIR_BAD_PATH");
	char link[64], path[PATH_MAX];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t n = part ? readlink(link, path, sizeof path - 1) : -1;
	if (n < 0)
		return false;
	path[n] = '\0';
	return strstr(path, part) != NULL;
}

/* Reads the word after `what` in the file; false: there is no fault of this kind. */
static bool find_fault(const char *what, char fault[16])
{
	const char *when = getenv("WEIR_BAD_WHEN");
	char text[256], kind[16];
	const int fd = when ? REAL(open)(when, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	const ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (char *line = text, *next; line; line = next) {
		if ((next = strchr(line, '\n')))
			*next++ = '\0';
		if (sscanf(line, "%15s %15s", kind, fault) == 2 && strcmp(kind, what) == 0)
			return true;
	}
	return false;
}

/* Whether the call fails, with errno set. A delayed call waits here. */
static bool goes_wrong(int fd, const char *what)
{
	const int kept = errno;
	char fault[16];
	if (!is_concerned(fd) || !find_fault(what, fault)) {
		errno = kept;
		return false;
	}
	const long ms = strtol(fault, NULL, 10);
	if (ms > 0)
		nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
	errno = ms > 0 ? kept : strcmp(fault, "ENOSPC") == 0 ? ENOSPC : strcmp(fault, "EDQUOT") == 0 ? EDQUOT : EIO;
	return ms == 0;
}

/* --- Syncs */

EXPORT int fsync(int fd)
{
	return goes_wrong(fd, "sync") ? -1 : REAL(fsync)(fd);
}
EXPORT int fdatasync(int fd)
{
	return goes_wrong(fd, "sync") ? -1 : REAL(fdatasync)(fd);
}

/* --- Writes */

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
	return goes_wrong(fd, "write") ? -1 : REAL(write)(fd, data, bytes);
}
EXPORT ssize_t writev(int fd, const struct iovec *v, int count)
{
	return goes_wrong(fd, "write") ? -1 : REAL(writev)(fd, v, count);
}
EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	return goes_wrong(fd, "write") ? -1 : REAL(pwrite)(fd, data, bytes, at);
}
EXPORT ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
	return goes_wrong(fd, "write") ? -1 : REAL(pwrite64)(fd, data, bytes, at);
}
EXPORT ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	return goes_wrong(fd, "write") ? -1 : REAL(pwritev)(fd, v, count, at);
}
EXPORT ssize_t pwritev64(int fd, const struct iovec *v, int count, off64_t at)
{
	return goes_wrong(fd, "write") ? -1 : REAL(pwritev64)(fd, v, count, at);
}

static bool grows(int fd, off_t size)
{
	struct stat st;
	return fstat(fd, &st) == 0 && size > st.st_size;
}

EXPORT int ftruncate(int fd, off_t size)
{
	return grows(fd, size) && goes_wrong(fd, "write") ? -1 : REAL(ftruncate)(fd, size);
}
EXPORT int ftruncate64(int fd, off64_t size)
{
	return grows(fd, size) && goes_wrong(fd, "write") ? -1 : REAL(ftruncate64)(fd, size);
}
EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	return goes_wrong(fd, "write") ? -1 : REAL(fallocate)(fd, mode, offset, bytes);
}
EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	return goes_wrong(fd, "write") ? -1 : REAL(fallocate64)(fd, mode, offset, bytes);
}
EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
	return goes_wrong(fd, "write") ? errno : REAL(posix_fallocate)(fd, offset, bytes);
}
EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
	return goes_wrong(fd, "write") ? errno : REAL(posix_fallocate64)(fd, offset, bytes);
}
