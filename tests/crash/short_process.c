/* Replaces two functions of the C library in the crash tests, whose thousands of short processes
 * spend most of their time in them. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/real_call.h"
#include "tests/crash/trace.h"

#define REPLACES __attribute__((visibility("default")))

/* RocksDB names its threads, and the C library does that by a file of /proc for each. As the
 * process ends, the kernel drops these files, and spins while threads drop theirs: for half of the
 * test's time. */
REPLACES int pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread, (void)name;
	return 0;
}

/* On tmpfs, to reserve space is to clear memory. Images have holes instead, which read the same;
 * the recorded program reserves. */
REPLACES int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	struct stat st;
	if (getenv(TRACE_FILE_ENV))
		return REAL(fallocate)(fd, mode, offset, bytes);
	if (mode & FALLOC_FL_KEEP_SIZE)
		return 0;
	if (fstat(fd, &st) != 0)
		return -1;
	return st.st_size < offset + bytes ? ftruncate(fd, offset + bytes) : 0;
}
REPLACES int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	return fallocate(fd, mode, offset, bytes);
}
