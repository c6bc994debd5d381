/* Files of the machine. Errors name the path and what was tried; short reads and writes and EINTR are handled here. */
#include "disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limits.h"

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
	return weir_fail(err, error == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot %s %s: %s", doing, path, strerror(error));
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

static weir_status system_sync(struct disk_file *file, weir_error *err)
{
	struct system_file *f = system_of(file);
	return fsync(f->fd) == 0 ? WEIR_OK : fail_errno(err, "sync", f->path);
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

/* A rename lasts only once its directory is synced. */
static weir_status sync_parent(const char *path, weir_error *err)
{
	char parent[WEIR_PATH_BYTES_MAX];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (length >= sizeof parent)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	memcpy(parent, path, length);
	parent[length] = 0;
	const char *directory = !slash ? "." : length == 0 ? "/" : parent;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, "open", directory);
	weir_status status = fsync(fd) == 0 ? WEIR_OK : fail_errno(err, "sync", directory);
	close(fd);
	return status;
}

static weir_status system_rename(struct disk *self, const char *from, const char *to, weir_error *err)
{
	(void)self;
	if (rename(from, to) != 0)
		return fail_errno(err, "rename to", to);
	return sync_parent(to, err);
}

static weir_status system_remove(struct disk *self, const char *path, weir_error *err)
{
	(void)self;
	return remove(path) == 0 ? WEIR_OK : fail_errno(err, "remove", path);
}

static weir_status system_make_dirs(struct disk *self, const char *path, weir_error *err)
{
	(void)self;
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
		if (mkdir(part, 0755) != 0 && errno != EEXIST)
			return fail_errno(err, "create directory", part);
		part[i] = saved;
	}
	struct stat st;
	if (stat(path, &st) != 0)
		return fail_errno(err, "create directory", path);
	return S_ISDIR(st.st_mode) ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot create directory %s: a file has that name", path);
}

struct disk *disk_system(void)
{
	static const struct disk_ops ops = {
	    .open = system_open,
	    .read_at = system_read_at,
	    .write_at = system_write_at,
	    .sync = system_sync,
	    .size = system_size,
	    .close = system_close,
	    .rename = system_rename,
	    .remove = system_remove,
	    .make_dirs = system_make_dirs,
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

weir_status disk_write_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
	if (length < 0 || (size_t)length >= sizeof temporary)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	/* One that a crash left behind may be longer than what is written now. */
	weir_error ignored = {0};
	if (d->ops->remove(d, temporary, &ignored) != WEIR_OK && ignored.status != WEIR_E_NOT_FOUND)
		return weir_fail(err, ignored.status, "%s", ignored.text);
	struct disk_file *f;
	weir_status status = d->ops->open(d, temporary, true, &f, err);
	if (status != WEIR_OK)
		return status;
	status = d->ops->write_at(f, 0, data, bytes, err);
	if (status == WEIR_OK)
		status = d->ops->sync(f, err);
	d->ops->close(f);
	if (status == WEIR_OK)
		return d->ops->rename(d, temporary, path, err);
	(void)d->ops->remove(d, temporary, NULL);
	return status;
}
