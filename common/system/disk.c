/* Files of this machine. Errors name the path and the operation. This file handles short reads and
 * writes, and EINTR. */
#include "common/system/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/limits.h"

#define HOLDER_BYTES_MAX 256u       /* text in a lock file */
#define SPANS_AT_ONCE    256u       /* in one write */
#define COPY_BYTES       (1u << 20) /* one block */

struct system_file {
	struct disk_file base;
	int fd;
	char path[]; /* for errors */
};

static struct system_file *system_of(struct disk_file *f)
{
	return (struct system_file *)f;
}

static weir_status fail_errno(weir_error *err, const char *doing, const char *path)
{
	int error = errno;
	weir_status status = error == ENOENT ? WEIR_E_NOT_FOUND : error == ENOSPC || error == EDQUOT ? WEIR_E_NO_SPACE : WEIR_E_IO;
	return weir_fail(err, status, "cannot %s %s: %s", doing, path, strerror(error));
}

static weir_status system_open(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err)
{
	size_t bytes = strlen(path) + 1;
	struct system_file *f = malloc(sizeof *f + bytes);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	memcpy(f->path, path, bytes);
	f->base.disk = self;
	f->fd = create ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : open(path, O_RDWR | O_CLOEXEC);
	if (f->fd < 0 && !create && (errno == EACCES || errno == EROFS))
		f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0) {
		weir_status status = fail_errno(err, create ? "create" : "open", path);
		free(f);
		return status;
	}
	*out = &f->base;
	return WEIR_OK;
}

static weir_status system_read_at(struct disk_file *file, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err)
{
	struct system_file *f = system_of(file);
	size_t done = 0;
	while (done < bytes) {
		ssize_t n = pread(f->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(err, "read", f->path);
		if (n == 0)
			break;
		done += (size_t)n;
	}
	*got = done;
	return WEIR_OK;
}

static weir_status system_write_at(struct disk_file *file, uint64_t offset, const void *data, size_t bytes, weir_error *err)
{
	struct system_file *f = system_of(file);
	for (size_t done = 0; done < bytes;) {
		ssize_t n = pwrite(f->fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(err, "write", f->path);
		done += (size_t)n;
	}
	return WEIR_OK;
}

/* Copies the remaining spans into iov, at most SPANS_AT_ONCE of them; skips the first `skip`
 * bytes. */
static int gather(struct iovec iov[SPANS_AT_ONCE], const struct span *spans, uint32_t count, size_t skip)
{
	int n = 0;
	for (uint32_t i = 0; i < count && n < (int)SPANS_AT_ONCE; i++) {
		iov[n++] = (struct iovec){(void *)(uintptr_t)(spans[i].data + skip), spans[i].size - skip};
		skip = 0;
	}
	return n;
}

static weir_status system_write_spans(struct disk_file *file, uint64_t offset, const struct span *spans, uint32_t count,
                                      weir_error *err)
{
	struct system_file *f = system_of(file);
	struct iovec iov[SPANS_AT_ONCE];
	size_t skip = 0; /* bytes of spans[0] already written */
	while (count > 0) {
		if (skip == spans->size) {
			spans++, count--;
			skip = 0;
			continue;
		}
		ssize_t n = pwritev(f->fd, iov, gather(iov, spans, count, skip), (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(err, "write", f->path);
		offset += (size_t)n;
		for (skip += (size_t)n; count > 0 && skip >= spans->size; spans++, count--)
			skip -= spans->size;
	}
	return WEIR_OK;
}

static weir_status system_allocate(struct disk_file *file, uint64_t bytes, weir_error *err)
{
	struct system_file *f = system_of(file);
	while (fallocate(f->fd, 0, 0, (off_t)bytes) != 0) {
		if (errno == EOPNOTSUPP)
			return WEIR_OK;
		if (errno != EINTR)
			return fail_errno(err, "reserve space for", f->path);
	}
	return WEIR_OK;
}

static weir_status system_truncate(struct disk_file *file, uint64_t bytes, weir_error *err)
{
	struct system_file *f = system_of(file);
	while (ftruncate(f->fd, (off_t)bytes) != 0)
		if (errno != EINTR)
			return fail_errno(err, "truncate", f->path);
	return WEIR_OK;
}

/* The system also syncs a file whose name is gone, which nobody will ever read; this is an error
 * here. */
static weir_status system_sync(struct disk_file *file, weir_error *err)
{
	struct system_file *f = system_of(file);
	struct stat st;
	if (fdatasync(f->fd) != 0)
		return fail_errno(err, "sync", f->path);
	if (fstat(f->fd, &st) != 0)
		return fail_errno(err, "stat", f->path);
	return st.st_nlink > 0 ? WEIR_OK
	                       : weir_fail(err, WEIR_E_IO, "%s was deleted while it was in use: what it held is lost", f->path);
}

static void system_drop_cache(struct disk_file *file)
{
	/* only advice: if it is ignored, reads come from the cache */
	(void)posix_fadvise(system_of(file)->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static weir_status system_size(struct disk_file *file, uint64_t *bytes, weir_error *err)
{
	struct system_file *f = system_of(file);
	struct stat st;
	if (fstat(f->fd, &st) != 0)
		return fail_errno(err, "stat", f->path);
	*bytes = (uint64_t)st.st_size;
	return WEIR_OK;
}

static void system_close(struct disk_file *file)
{
	struct system_file *f = system_of(file);
	close(f->fd);
	free(f);
}

static weir_status system_sync_directory(struct disk *self, const char *path, weir_error *err)
{
	(void)self;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, "open", path);
	weir_status status = fsync(fd) == 0 ? WEIR_OK : fail_errno(err, "sync", path);
	close(fd);
	return status;
}

/* A rename lasts only once its directory is synced. */
static weir_status sync_parent(struct disk *self, const char *path, weir_error *err)
{
	char parent[WEIR_PATH_BYTES_MAX];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (length >= sizeof parent)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	memcpy(parent, path, length);
	parent[length] = 0;
	return system_sync_directory(self, !slash ? "." : length == 0 ? "/" : parent, err);
}

static weir_status system_rename(struct disk *self, const char *from, const char *to, weir_error *err)
{
	if (rename(from, to) != 0)
		return fail_errno(err, "rename to", to);
	return sync_parent(self, to, err);
}

static weir_status system_exchange(struct disk *self, const char *from, const char *to, weir_error *err)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
		return sync_parent(self, to, err);
	if (errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "cannot exchange %s with another: %s", to, strerror(errno));
	return fail_errno(err, "exchange", to);
}

static weir_status system_remove(struct disk *self, const char *path, weir_error *err)
{
	(void)self;
	return remove(path) == 0 ? WEIR_OK : fail_errno(err, "remove", path);
}

static weir_status system_make_dirs(struct disk *self, const char *path, weir_error *err)
{
	char part[WEIR_PATH_BYTES_MAX];
	size_t length = strlen(path);
	if (length == 0 || length >= sizeof part)
		return weir_fail(err, WEIR_E_LIMIT, "a directory's path must have 1 to %u bytes, not %zu", WEIR_PATH_BYTES_MAX - 1,
		                 length);
	memcpy(part, path, length + 1);
	for (size_t i = 1; i <= length; i++) {
		if (part[i] != '/' && part[i] != 0)
			continue;
		char saved = part[i];
		part[i] = 0;
		/* the last folder is its owner's alone */
		bool made = mkdir(part, saved ? 0755 : 0700) == 0;
		if (!made && errno != EEXIST)
			return fail_errno(err, "create directory", part);
		weir_status status = made ? sync_parent(self, part, err) : WEIR_OK;
		if (status != WEIR_OK)
			return status;
		part[i] = saved;
	}
	struct stat st;
	if (stat(path, &st) != 0)
		return fail_errno(err, "create directory", path);
	return S_ISDIR(st.st_mode) ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot create directory %s: a file has that name", path);
}

static weir_status system_list(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
                               weir_error *err)
{
	(void)self;
	DIR *directory = opendir(path);
	if (!directory)
		return fail_errno(err, "list", path);
	weir_status status = WEIR_OK;
	while (status == WEIR_OK) {
		errno = 0;
		const struct dirent *entry = readdir(directory);
		if (!entry) {
			if (errno)
				status = fail_errno(err, "list", path);
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			status = each(arg, entry->d_name);
	}
	closedir(directory);
	return status;
}

/* The owner of the lock has written its name into the file. */
static weir_status locked_by_another(struct disk_file *f, const char *path, const char *holder, weir_error *err)
{
	char other[HOLDER_BYTES_MAX + 1];
	size_t got = 0;
	if (system_read_at(f, 0, other, HOLDER_BYTES_MAX, &got, NULL) != WEIR_OK)
		got = 0;
	other[got] = 0;
	other[strcspn(other, "\n")] = 0;
	return weir_fail(err, WEIR_E_BUSY, "%s cannot have %s: it is in use by %s. Stop that one first, or use another folder",
	                 holder, path, other[0] ? other : "another process");
}

static weir_status system_lock(struct disk *self, const char *path, const char *holder, struct disk_file **out, weir_error *err)
{
	struct disk_file *f;
	weir_status status = system_open(self, path, true, &f, err);
	if (status != WEIR_OK)
		return status;
	char line[HOLDER_BYTES_MAX];
	int length = snprintf(line, sizeof line, "%.*s\n", (int)sizeof line - 2, holder);
	if (flock(system_of(f)->fd, LOCK_EX | LOCK_NB) != 0)
		status = errno == EWOULDBLOCK ? locked_by_another(f, path, holder, err) : fail_errno(err, "lock", path);
	if (status == WEIR_OK)
		status = system_truncate(f, 0, err);
	if (status == WEIR_OK)
		status = system_write_at(f, 0, line, (size_t)length, err);
	if (status == WEIR_OK)
		*out = f;
	else
		system_close(f);
	return status;
}

static weir_status system_free_space(struct disk *self, const char *path, uint64_t *bytes, weir_error *err)
{
	(void)self;
	struct statvfs st;
	if (statvfs(path, &st) != 0)
		return fail_errno(err, "ask for the free space at", path);
	*bytes = (uint64_t)st.f_bavail * st.f_frsize;
	return WEIR_OK;
}

struct disk *disk_system(void)
{
	static const struct disk_ops ops = {
	    .open = system_open,
	    .read_at = system_read_at,
	    .write_at = system_write_at,
	    .write_spans = system_write_spans,
	    .allocate = system_allocate,
	    .truncate = system_truncate,
	    .sync = system_sync,
	    .drop_cache = system_drop_cache,
	    .size = system_size,
	    .close = system_close,
	    .rename = system_rename,
	    .exchange = system_exchange,
	    .remove = system_remove,
	    .make_dirs = system_make_dirs,
	    .sync_directory = system_sync_directory,
	    .list = system_list,
	    .lock = system_lock,
	    .free_space = system_free_space,
	};
	static struct disk system = {.ops = &ops};
	return &system;
}

static weir_status read_open_file(struct disk_file *f, const char *path, size_t bytes_max, char **out, size_t *bytes,
                                  weir_error *err)
{
	const struct disk_ops *ops = f->disk->ops;
	uint64_t size;
	weir_status status = ops->size(f, &size, err);
	if (status != WEIR_OK)
		return status;
	if (size > bytes_max)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %llu bytes, the limit is %zu", path, (unsigned long long)size, bytes_max);
	char *data = malloc((size_t)size + 1);
	if (!data)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s (%llu bytes)", path, (unsigned long long)size);
	status = ops->read_at(f, 0, data, (size_t)size, bytes, err);
	if (status != WEIR_OK) {
		free(data);
		return status;
	}
	data[*bytes] = 0;
	*out = data;
	return WEIR_OK;
}

weir_status disk_read_file(struct disk *d, const char *path, size_t bytes_max, char **out, size_t *bytes, weir_error *err)
{
	struct disk_file *f;
	weir_status status = d->ops->open(d, path, false, &f, err);
	if (status != WEIR_OK)
		return status;
	status = read_open_file(f, path, bytes_max, out, bytes, err);
	d->ops->close(f);
	return status;
}

static weir_status with_suffix(const char *path, const char *suffix, char out[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	const int length = snprintf(out, WEIR_PATH_BYTES_MAX, "%s%s", path, suffix);
	if (length < 0 || (size_t)length >= WEIR_PATH_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	return WEIR_OK;
}

weir_status disk_replace_file(struct disk *d, const char *path,
                              weir_status (*fill)(void *arg, struct disk_file *f, weir_error *err), void *arg, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	weir_status status = with_suffix(path, ".tmp", temporary, err);
	if (status != WEIR_OK)
		return status;
	/* a temporary file left by a crash may be longer than the new contents */
	weir_error ignored = {0};
	if (d->ops->remove(d, temporary, &ignored) != WEIR_OK && ignored.status != WEIR_E_NOT_FOUND)
		return weir_fail(err, ignored.status, "%s", ignored.text);
	struct disk_file *f;
	status = d->ops->open(d, temporary, true, &f, err);
	if (status != WEIR_OK)
		return status;
	status = fill(arg, f, err);
	if (status == WEIR_OK)
		status = d->ops->sync(f, err);
	d->ops->close(f);
	if (status == WEIR_OK)
		return d->ops->rename(d, temporary, path, err);
	(void)d->ops->remove(d, temporary, NULL);
	return status;
}

static weir_status fill_with_span(void *arg, struct disk_file *f, weir_error *err)
{
	const struct span *s = arg;
	return f->disk->ops->write_at(f, 0, s->data, s->size, err);
}

weir_status disk_write_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err)
{
	struct span s = {.data = data, .size = bytes};
	return disk_replace_file(d, path, fill_with_span, &s, err);
}

/* --- Rewriting a file without new space */

/* Opens a file of exactly `bytes` bytes; reserves space only if it is shorter. */
static weir_status open_reserved(struct disk *d, const char *path, size_t bytes, struct disk_file **out, weir_error *err)
{
	uint64_t has = 0;
	weir_status status = d->ops->open(d, path, true, out, err);
	if (status != WEIR_OK)
		return status;
	status = d->ops->size(*out, &has, err);
	if (status == WEIR_OK && has > bytes)
		status = d->ops->truncate(*out, bytes, err);
	if (status == WEIR_OK && has < bytes)
		status = d->ops->allocate(*out, bytes, err);
	if (status != WEIR_OK)
		d->ops->close(*out);
	return status;
}

weir_status disk_reserve_file(struct disk *d, const char *path, size_t bytes, weir_error *err)
{
	char spare[WEIR_PATH_BYTES_MAX];
	struct disk_file *f;
	weir_status status = with_suffix(path, ".spare", spare, err);
	if (status == WEIR_OK)
		status = open_reserved(d, spare, bytes, &f, err);
	if (status != WEIR_OK)
		return status;
	status = d->ops->sync(f, err);
	d->ops->close(f);
	return status;
}

weir_status disk_rewrite_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err)
{
	char spare[WEIR_PATH_BYTES_MAX];
	struct disk_file *f;
	weir_status status = with_suffix(path, ".spare", spare, err);
	if (status == WEIR_OK)
		status = open_reserved(d, spare, bytes, &f, err);
	if (status != WEIR_OK)
		return status;
	status = d->ops->write_at(f, 0, data, bytes, err);
	if (status == WEIR_OK)
		status = d->ops->sync(f, err);
	d->ops->close(f);
	if (status != WEIR_OK)
		return status;
	weir_error why = {0};
	status = d->ops->exchange(d, spare, path, &why);
	/* the file is new, or exchange is unsupported */
	if (status == WEIR_E_NOT_FOUND || status == WEIR_E_UNSUPPORTED)
		return d->ops->rename(d, spare, path, err);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

weir_status disk_copy_bytes(struct disk_file *from, uint64_t bytes, struct disk_file *to, uint64_t offset, weir_error *err)
{
	uint8_t *block = malloc(COPY_BYTES);
	weir_status status = block ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory to copy a file");
	for (uint64_t at = 0; at < bytes && status == WEIR_OK;) {
		const size_t n = bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES;
		size_t got = 0;
		status = from->disk->ops->read_at(from, at, block, n, &got, err);
		if (status == WEIR_OK && got < n)
			status = weir_fail(err, WEIR_E_IO, "a file that is copied became shorter");
		if (status == WEIR_OK)
			status = to->disk->ops->write_at(to, offset + at, block, n, err);
		at += n;
	}
	free(block);
	return status;
}

static weir_status fill_with_file(void *arg, struct disk_file *f, weir_error *err)
{
	struct disk_file *from = arg;
	uint64_t bytes = 0;
	weir_status status = from->disk->ops->size(from, &bytes, err);
	return status == WEIR_OK ? disk_copy_bytes(from, bytes, f, 0, err) : status;
}

weir_status disk_copy_file(struct disk *d, const char *from, const char *to, weir_error *err)
{
	struct disk_file *f;
	weir_status status = d->ops->open(d, from, false, &f, err);
	if (status != WEIR_OK)
		return status;
	status = disk_replace_file(d, to, fill_with_file, f, err);
	d->ops->close(f);
	return status;
}
