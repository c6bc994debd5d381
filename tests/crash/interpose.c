/* Preloaded into a program (LD_PRELOAD): records what the program does to the files of one folder
 * into a trace (trace.h). Calls pass through unchanged. One lock covers an operation and its
 * record, so the trace has the file system's order. A sync is recorded at its end, with the byte of
 * the trace at which it began. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/crash/real_call.h"
#include "tests/crash/trace.h"

#define DESCRIPTORS_MAX 65536
#define VECTORS_MAX     1024
#define EXPORT          __attribute__((visibility("default")))

struct tracked {
	bool used, is_dir;
	uint64_t inode;
	char *path; /* relative to the root */
};

static struct {
	pthread_mutex_t lock;
	bool ready, ranges;
	int trace;
	char root[PATH_MAX];
	const char *skip; /* NULL: nothing is skipped */
	size_t root_bytes;
	struct tracked files[DESCRIPTORS_MAX];
} it = {.lock = PTHREAD_MUTEX_INITIALIZER, .trace = -1};

static void fatal(const char *what)
{
	fprintf(stderr, "interpose: %s: %s\n", what, strerror(errno));
	abort();
}

__attribute__((constructor)) static void begin(void)
{
	const char *file = getenv(TRACE_FILE_ENV), *root = getenv(TRACE_ROOT_ENV);
	if (!file || !root)
		return;
	char path[PATH_MAX];
	const char *pid = strstr(file, "%p");
	if (pid)
		snprintf(path, sizeof path, "%.*s%d%s", (int)(pid - file), file, (int)getpid(), pid + 2);
	else
		snprintf(path, sizeof path, "%s", file);
	it.trace = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (it.trace < 0)
		fatal(path);
	snprintf(it.root, sizeof it.root, "%s", root);
	it.root_bytes = strlen(it.root);
	it.skip = getenv(TRACE_SKIP_ENV);
	it.ranges = getenv(TRACE_RANGES_ENV) != NULL;
	it.ready = true;
}

/* --- Names */

static bool is_skipped(const char *path)
{
	for (const char *s = it.skip; s && *s; s += strcspn(s, ":"), s += *s == ':') {
		const size_t bytes = strcspn(s, ":");
		if (bytes && strncmp(path, s, bytes) == 0)
			return true;
	}
	return false;
}

/* Returns the path relative to the root, without doubled slashes and "./". "" is the root itself.
 * False for paths outside. */
static bool inside(const char *path, char out[PATH_MAX])
{
	char whole[2 * PATH_MAX];
	if (!it.ready || !path)
		return false;
	size_t n = 0;
	if (path[0] != '/') {
		if (!getcwd(whole, PATH_MAX))
			return false;
		n = strlen(whole);
		whole[n++] = '/';
	}
	for (const char *s = path; *s && n < sizeof whole - 1; s++) {
		if (*s == '/' && n && whole[n - 1] == '/')
			continue;
		if (*s == '.' && n && whole[n - 1] == '/' && (s[1] == '/' || !s[1])) {
			s += s[1] == '/';
			continue;
		}
		whole[n++] = *s;
	}
	while (n > 1 && whole[n - 1] == '/')
		n--;
	whole[n] = '\0';
	if (strncmp(whole, it.root, it.root_bytes) != 0 || (whole[it.root_bytes] && whole[it.root_bytes] != '/'))
		return false;
	const char *rest = whole + it.root_bytes + (whole[it.root_bytes] == '/');
	if (is_skipped(rest))
		return false;
	return snprintf(out, PATH_MAX, "%s", rest) < PATH_MAX;
}

static struct tracked *tracked(int fd)
{
	return it.ready && fd >= 0 && fd < DESCRIPTORS_MAX && it.files[fd].used ? &it.files[fd] : NULL;
}

/* --- Records */

static void put(struct trace_op op, const char *text, const struct iovec *data, int count)
{
	struct iovec v[VECTORS_MAX + 2];
	op.magic = TRACE_MAGIC;
	int n = 0;
	v[n++] = (struct iovec){&op, sizeof op};
	v[n++] = (struct iovec){(void *)(uintptr_t)text, op.text_bytes};
	uint64_t left = it.ranges ? 0 : op.bytes;
	for (int i = 0; data && i < count && left; i++) {
		uint64_t m = data[i].iov_len < left ? data[i].iov_len : left;
		v[n++] = (struct iovec){data[i].iov_base, m};
		left -= m;
	}
	op.data_bytes = data && !it.ranges ? (uint32_t)op.bytes : 0;
	ssize_t whole = (ssize_t)(sizeof op + op.text_bytes + op.data_bytes);
	if (REAL(writev)(it.trace, v, n) != whole)
		fatal("the trace");
}

static void put_path(enum disk_trace_kind kind, uint64_t inode, uint64_t size, const char *path)
{
	put((struct trace_op){.kind = kind, .text_bytes = (uint32_t)strlen(path) + 1, .inode = inode, .offset = size}, path, NULL, 0);
}

static void put_paths(enum disk_trace_kind kind, const char *from, const char *to)
{
	char text[2 * PATH_MAX];
	size_t a = strlen(from) + 1, b = strlen(to) + 1;
	memcpy(text, from, a);
	memcpy(text + a, to, b);
	put((struct trace_op){.kind = kind, .text_bytes = (uint32_t)(a + b)}, text, NULL, 0);
}

static uint64_t now(void)
{
	off_t at = lseek(it.trace, 0, SEEK_END);
	if (at < 0)
		fatal("the trace");
	return (uint64_t)at;
}

/* --- Opening and closing */

static void remember(int fd, const char *path, bool existed, bool truncated)
{
	struct stat st;
	if (fd >= DESCRIPTORS_MAX || fstat(fd, &st) != 0)
		fatal(path);
	struct tracked *t = &it.files[fd];
	free(t->path);
	*t = (struct tracked){.used = true, .is_dir = S_ISDIR(st.st_mode), .inode = st.st_ino, .path = strdup(path)};
	if (t->is_dir)
		return;
	put_path(existed ? TRACE_OPEN : TRACE_CREATE, st.st_ino, existed ? (uint64_t)st.st_size : 0, path);
	if (existed && truncated)
		put((struct trace_op){.kind = TRACE_RESIZE, .inode = st.st_ino}, NULL, NULL, 0);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	char name[PATH_MAX];
	if ((dir != AT_FDCWD && path[0] != '/') || !inside(path, name))
		return REAL(openat)(dir, path, flags, mode);
	pthread_mutex_lock(&it.lock);
	struct stat st;
	bool existed = stat(path, &st) == 0;
	int fd = REAL(openat)(dir, path, flags, mode);
	if (fd >= 0 && ((flags & O_ACCMODE) != O_RDONLY || S_ISDIR(existed ? st.st_mode : 0)))
		remember(fd, name, existed, flags & O_TRUNC);
	pthread_mutex_unlock(&it.lock);
	return fd;
}

static mode_t mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define OPEN(name, first, dir)                              \
	EXPORT int name(first const char *path, int flags, ...) \
	{                                                       \
		va_list list;                                       \
		va_start(list, flags);                              \
		mode_t mode = mode_of(flags, list);                 \
		va_end(list);                                       \
		return open_at(dir, path, flags, mode);             \
	}
#define NOTHING
#define DIRECTORY int directory,
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
OPEN(openat, DIRECTORY, directory)
OPEN(openat64, DIRECTORY, directory)

EXPORT int close(int fd)
{
	if (tracked(fd)) {
		pthread_mutex_lock(&it.lock);
		it.files[fd].used = false;
		pthread_mutex_unlock(&it.lock);
	}
	return REAL(close)(fd);
}

/* --- Writing */

static ssize_t written(const struct tracked *t, ssize_t n, off_t at, const struct iovec *v, int count)
{
	if (n > 0)
		put((struct trace_op){.kind = TRACE_WRITE, .inode = t->inode, .offset = (uint64_t)at, .bytes = (uint64_t)n}, NULL, v,
		    count);
	return n;
}

static off_t place_of(int fd)
{
	struct stat st;
	if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &st) == 0)
		return st.st_size;
	return lseek(fd, 0, SEEK_CUR);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int count)
{
	const struct tracked *t = tracked(fd);
	if (!t)
		return REAL(writev)(fd, v, count);
	pthread_mutex_lock(&it.lock);
	off_t at = place_of(fd);
	ssize_t n = written(t, REAL(writev)(fd, v, count), at, v, count);
	pthread_mutex_unlock(&it.lock);
	return n;
}

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
	if (!tracked(fd))
		return REAL(write)(fd, data, bytes);
	return writev(fd, &(struct iovec){(void *)(uintptr_t)data, bytes}, 1);
}

static ssize_t write_at(int fd, const struct iovec *v, int count, off_t at)
{
	const struct tracked *t = tracked(fd);
	if (!t)
		return REAL(pwritev64)(fd, v, count, at);
	pthread_mutex_lock(&it.lock);
	ssize_t n = written(t, REAL(pwritev64)(fd, v, count, at), at, v, count);
	pthread_mutex_unlock(&it.lock);
	return n;
}

EXPORT ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	return write_at(fd, v, count, at);
}
EXPORT ssize_t pwritev64(int fd, const struct iovec *v, int count, off64_t at)
{
	return tracked(fd) ? write_at(fd, v, count, at) : REAL(pwritev64)(fd, v, count, at);
}
EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	return tracked(fd) ? write_at(fd, &(struct iovec){(void *)(uintptr_t)data, bytes}, 1, at) : REAL(pwrite)(fd, data, bytes, at);
}
EXPORT ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
	return pwrite(fd, data, bytes, at);
}

static int change(int fd, enum disk_trace_kind kind, off_t offset, off_t bytes, int result)
{
	const struct tracked *t = tracked(fd);
	if (t && result == 0)
		put((struct trace_op){.kind = kind, .inode = t->inode, .offset = (uint64_t)offset, .bytes = (uint64_t)bytes}, NULL, NULL,
		    0);
	return result;
}

EXPORT int ftruncate(int fd, off_t size)
{
	pthread_mutex_lock(&it.lock);
	int result = change(fd, TRACE_RESIZE, size, 0, REAL(ftruncate)(fd, size));
	pthread_mutex_unlock(&it.lock);
	return result;
}
EXPORT int ftruncate64(int fd, off64_t size)
{
	return ftruncate(fd, size);
}

/* With FALLOC_FL_KEEP_SIZE the call has no visible effect. */
EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	pthread_mutex_lock(&it.lock);
	int result = REAL(fallocate)(fd, mode, offset, bytes);
	if (mode == 0)
		change(fd, TRACE_ALLOCATE, offset, bytes, result);
	else if (tracked(fd) && result == 0 && !(mode & FALLOC_FL_KEEP_SIZE))
		fatal("fallocate with a mode that traces do not know");
	pthread_mutex_unlock(&it.lock);
	return result;
}
EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	return fallocate(fd, mode, offset, bytes);
}
EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
	pthread_mutex_lock(&it.lock);
	int result = change(fd, TRACE_ALLOCATE, offset, bytes, REAL(posix_fallocate)(fd, offset, bytes));
	pthread_mutex_unlock(&it.lock);
	return result;
}
EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
	return posix_fallocate(fd, offset, bytes);
}

/* --- Syncing */

static int sync_file(int fd, int (*call)(int))
{
	const struct tracked *t = tracked(fd);
	if (!t)
		return call(fd);
	pthread_mutex_lock(&it.lock);
	uint64_t covers = now();
	pthread_mutex_unlock(&it.lock);
	int result = call(fd);
	pthread_mutex_lock(&it.lock);
	if (result == 0)
		put((struct trace_op){.kind = t->is_dir ? TRACE_SYNC_DIR : TRACE_SYNC,
		                      .text_bytes = t->is_dir ? (uint32_t)strlen(t->path) + 1 : 0,
		                      .inode = t->inode,
		                      .covers = covers},
		    t->path, NULL, 0);
	pthread_mutex_unlock(&it.lock);
	return result;
}

EXPORT int fsync(int fd)
{
	return sync_file(fd, REAL(fsync));
}
EXPORT int fdatasync(int fd)
{
	return sync_file(fd, REAL(fdatasync));
}

/* --- The end */

/* Keeps the process alive until another thread's operation is recorded. */
EXPORT _Noreturn void _exit(int status)
{
	pthread_mutex_lock(&it.lock);
	REAL(_exit)(status);
	__builtin_unreachable();
}

/* --- Creating and removing names */

static int two_names(enum disk_trace_kind kind, const char *from, const char *to, int (*call)(const char *, const char *))
{
	char a[PATH_MAX], b[PATH_MAX];
	if (!inside(from, a) || !inside(to, b))
		return call(from, to);
	pthread_mutex_lock(&it.lock);
	int result = call(from, to);
	if (result == 0)
		put_paths(kind, a, b);
	pthread_mutex_unlock(&it.lock);
	return result;
}

EXPORT int rename(const char *from, const char *to)
{
	return two_names(TRACE_RENAME, from, to, REAL(rename));
}
/* Takes paths as they are, because nobody exchanges names in another folder. */
static int exchange(const char *from, const char *to)
{
	return REAL(renameat2)(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
}
EXPORT int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	if (from_fd != AT_FDCWD || to_fd != AT_FDCWD || flags != RENAME_EXCHANGE)
		fatal("renameat2 other than an exchange");
	return two_names(TRACE_EXCHANGE, from, to, exchange);
}
EXPORT int link(const char *from, const char *to)
{
	return two_names(TRACE_LINK, from, to, REAL(link));
}

static int one_name(enum disk_trace_kind kind, const char *path, int (*call)(const char *))
{
	char name[PATH_MAX];
	if (!inside(path, name))
		return call(path);
	pthread_mutex_lock(&it.lock);
	int result = call(path);
	if (result == 0)
		put_path(kind, 0, 0, name);
	pthread_mutex_unlock(&it.lock);
	return result;
}

EXPORT int unlink(const char *path)
{
	return one_name(TRACE_REMOVE, path, REAL(unlink));
}
EXPORT int rmdir(const char *path)
{
	return one_name(TRACE_REMOVE, path, REAL(rmdir));
}
EXPORT int remove(const char *path) /* the C library's remove does not call the two above */
{
	return one_name(TRACE_REMOVE, path, REAL(remove));
}

EXPORT int mkdir(const char *path, mode_t mode)
{
	char name[PATH_MAX];
	if (!inside(path, name))
		return REAL(mkdir)(path, mode);
	pthread_mutex_lock(&it.lock);
	int result = REAL(mkdir)(path, mode);
	if (result == 0)
		put_path(TRACE_MKDIR, 0, 0, name);
	pthread_mutex_unlock(&it.lock);
	return result;
}
