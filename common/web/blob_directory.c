/* Objects as files below a directory. An object is written as NAME.tmp, synced, and renamed. A
 * crash may leave a NAME.tmp, which is listed and removed like an object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/web/blob.h"

#define FILE_PATH_BYTES_MAX (WEIR_PATH_BYTES_MAX + WEIR_BLOB_NAME_BYTES_MAX + 8)

struct directory {
	struct blob_store base;
	struct disk *disk;
};

struct directory_writer {
	struct blob_writer base;
	struct disk_file *file;
	uint64_t bytes;
};

static void path_of(const struct directory *d, const char *name, const char *suffix, char out[FILE_PATH_BYTES_MAX])
{
	snprintf(out, FILE_PATH_BYTES_MAX, "%s%s%s%s", d->base.place, *name ? "/" : "", name, suffix);
}

/* The folder that contains the name. */
static weir_status make_folder(struct directory *d, const char *name, weir_error *err)
{
	char path[FILE_PATH_BYTES_MAX];
	path_of(d, name, "", path);
	*strrchr(path, '/') = '\0';
	return d->disk->ops->make_dirs(d->disk, path, err);
}

static weir_status directory_create(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err)
{
	struct directory *d = (struct directory *)self;
	char path[FILE_PATH_BYTES_MAX];
	struct directory_writer *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s/%s", self->place, name);
	w->base.store = self;
	snprintf(w->base.name, sizeof w->base.name, "%s", name);
	path_of(d, name, ".tmp", path);
	weir_status status = make_folder(d, name, err);
	if (!status)
		status = d->disk->ops->open(d->disk, path, true, &w->file, err);
	if (!status && (status = d->disk->ops->truncate(w->file, 0, err)))
		d->disk->ops->close(w->file);
	if (status) {
		free(w);
		return status;
	}
	*out = &w->base;
	return WEIR_OK;
}

static weir_status directory_write(struct blob_writer *base, const void *data, size_t bytes, weir_error *err)
{
	struct directory_writer *w = (struct directory_writer *)base;
	weir_status status = w->file->disk->ops->write_at(w->file, w->bytes, data, bytes, err);
	w->bytes += bytes;
	return status;
}

static void directory_abandon(struct blob_writer *base)
{
	struct directory_writer *w = (struct directory_writer *)base;
	struct directory *d = (struct directory *)base->store;
	char path[FILE_PATH_BYTES_MAX];
	path_of(d, base->name, ".tmp", path);
	d->disk->ops->close(w->file);
	/* after a failure it is listed, and removed later */
	(void)d->disk->ops->remove(d->disk, path, NULL);
	free(w);
}

static weir_status directory_commit(struct blob_writer *base, weir_error *err)
{
	struct directory_writer *w = (struct directory_writer *)base;
	struct directory *d = (struct directory *)base->store;
	char from[FILE_PATH_BYTES_MAX], to[FILE_PATH_BYTES_MAX];
	path_of(d, base->name, ".tmp", from);
	path_of(d, base->name, "", to);
	weir_status status = d->disk->ops->sync(w->file, err);
	if (!status)
		status = d->disk->ops->rename(d->disk, from, to, err);
	if (status) {
		directory_abandon(base);
		return status;
	}
	d->disk->ops->close(w->file);
	free(w);
	return WEIR_OK;
}

static weir_status open_object(struct directory *d, const char *name, struct disk_file **out, weir_error *err)
{
	char path[FILE_PATH_BYTES_MAX];
	path_of(d, name, "", path);
	return d->disk->ops->open(d->disk, path, false, out, err);
}

static weir_status directory_read_at(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes,
                                     size_t *got, weir_error *err)
{
	struct directory *d = (struct directory *)self;
	struct disk_file *f;
	weir_status status = open_object(d, name, &f, err);
	if (status)
		return status;
	status = d->disk->ops->read_at(f, offset, out, bytes, got, err);
	d->disk->ops->close(f);
	return status;
}

static weir_status directory_look(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err)
{
	struct directory *d = (struct directory *)self;
	struct disk_file *f;
	weir_status status = open_object(d, name, &f, err);
	if (status)
		return status;
	status = d->disk->ops->size(f, &out->bytes, err);
	d->disk->ops->close(f);
	return status;
}

struct listing {
	const char *folder;
	blob_visit_fn visit;
	void *arg;
	weir_error *err;
	weir_status status; /* status of the last visit */
};

static weir_status list_each(void *arg, const char *file)
{
	struct listing *l = arg;
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	int n = snprintf(name, sizeof name, "%s%s%s", l->folder, *l->folder ? "/" : "", file);
	if (*file == '.' || n >= (int)sizeof name) /* not an object of this store */
		return WEIR_OK;
	return l->status = l->visit(l->arg, name, l->err);
}

static weir_status directory_list(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err)
{
	struct directory *d = (struct directory *)self;
	weir_error why = {0};
	struct listing l = {.folder = folder, .visit = visit, .arg = arg, .err = &why};
	char path[FILE_PATH_BYTES_MAX];
	path_of(d, folder, "", path);
	weir_status status = d->disk->ops->list(d->disk, path, list_each, &l, &why);
	/* an empty folder does not exist */
	if (status == WEIR_OK || (status == WEIR_E_NOT_FOUND && !l.status))
		return WEIR_OK;
	return weir_fail(err, status, "%s", why.text);
}

static weir_status directory_remove(struct blob_store *self, const char *name, weir_error *err)
{
	struct directory *d = (struct directory *)self;
	char path[FILE_PATH_BYTES_MAX];
	path_of(d, name, "", path);
	weir_error why = {0};
	weir_status status = d->disk->ops->remove(d->disk, path, &why);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

static void directory_destroy(struct blob_store *self)
{
	free(self);
}

weir_status blob_directory_open(struct blob_store **out, const struct blob_options *options, weir_error *err)
{
	static const struct blob_ops ops = {
	    .create = directory_create,
	    .write = directory_write,
	    .commit = directory_commit,
	    .abandon = directory_abandon,
	    .read_at = directory_read_at,
	    .look = directory_look,
	    .list = directory_list,
	    .remove = directory_remove,
	    .destroy = directory_destroy,
	};
	size_t length = strlen(options->place);
	if (length == 0 || length >= WEIR_PATH_BYTES_MAX)
		return weir_fail(err, WEIR_E_INVALID, "a directory for checkpoints has a path of 1 to %u bytes, not %zu",
		                 WEIR_PATH_BYTES_MAX - 1, length);
	struct directory *d = calloc(1, sizeof *d);
	if (!d)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", options->place);
	d->base.ops = &ops;
	memcpy(d->base.place, options->place, length + 1);
	d->disk = options->disk ? options->disk : disk_system();
	*out = &d->base;
	return WEIR_OK;
}
