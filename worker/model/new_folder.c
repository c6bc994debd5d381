#include "worker/model/new_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/output.h"

/* Room for the suffixes of the temporary and of the replaced folder. */
#define SUFFIX_BYTES 32

/* The endings of a model's files. */
static const char *const suffixes[] = {".safetensors", ".json", ".txt", ".model", ".jinja"};

bool folder_exists(const char *path)
{
	struct stat about;
	return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

weir_status folder_file(const char *folder, const char *name, char path[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	const int n = snprintf(path, WEIR_PATH_BYTES_MAX, "%s/%s", folder, name);
	return n < (int)WEIR_PATH_BYTES_MAX
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_LIMIT, "the path of %s in a folder is longer than %u bytes: %.80s...", name,
	                       WEIR_PATH_BYTES_MAX - 1, folder);
}

/* --- The existing folder */

struct looking {
	struct disk *disk;
	const char *folder;
	uint32_t files;
	bool remove;
	weir_error *err;
};

static bool ends_as_a_model_s(const char *name)
{
	const size_t n = strlen(name);
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (n > strlen(suffixes[i]) && strcmp(name + n - strlen(suffixes[i]), suffixes[i]) == 0)
			return true;
	return false;
}

static weir_status look_at(void *arg, const char *name)
{
	struct looking *l = arg;
	char path[WEIR_PATH_BYTES_MAX];
	struct stat about;
	const weir_status status = folder_file(l->folder, name, path, l->err);
	if (status != WEIR_OK)
		return status;
	if (l->remove)
		return l->disk->ops->remove(l->disk, path, l->err);
	if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || !ends_as_a_model_s(name))
		return weir_fail(l->err, WEIR_E_EXISTS, "%s has %s in it, which is no file of a model: choose another folder", l->folder,
		                 name);
	l->files++;
	return WEIR_OK;
}

/* The folder contains files only: it was checked, or written here. */
static weir_status remove_folder(struct disk *disk, const char *folder, weir_error *err)
{
	struct looking l = {.disk = disk, .folder = folder, .remove = true, .err = err};
	const weir_status status = disk->ops->list(disk, folder, look_at, &l, err);
	return status == WEIR_OK ? disk->ops->remove(disk, folder, err) : status;
}

static weir_status look(struct new_folder *f, bool replace, weir_error *err)
{
	struct stat about;
	struct looking l = {.disk = f->disk, .folder = f->path, .err = err};
	if (lstat(f->path, &about) != 0)
		return WEIR_OK;
	if (!S_ISDIR(about.st_mode))
		return weir_fail(err, WEIR_E_EXISTS, "%s is there, and is no folder: choose another name", f->path);
	const weir_status status = f->disk->ops->list(f->disk, f->path, look_at, &l, err);
	if (status != WEIR_OK)
		return status;
	f->replaces = l.files > 0;
	return !f->replaces || replace
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_EXISTS, "%s has a model in it: choose another folder, or give --replace", f->path);
}

/* --- Writing */

/* The umask decides who may read the folder, as models are made to be shared. */
static weir_status make_folder(struct new_folder *f, weir_error *err)
{
	char parent[WEIR_PATH_BYTES_MAX];
	const char *slash = strrchr(f->temporary, '/');
	weir_status status = WEIR_OK;
	/* The "/." makes `parent` itself count as a parent, so that others can read it. */
	if (slash && slash != f->temporary &&
	    snprintf(parent, sizeof parent, "%.*s/.", (int)(slash - f->temporary), f->temporary) < (int)sizeof parent)
		status = f->disk->ops->make_dirs(f->disk, parent, err);
	if (status == WEIR_OK && mkdir(f->temporary, 0777) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot create directory %s: %s", f->temporary, strerror(errno));
	return status;
}

weir_status new_folder_begin(struct new_folder *f, const char *path, bool replace, weir_error *err)
{
	size_t length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	if (length == 0 || length + SUFFIX_BYTES >= sizeof f->path)
		return weir_fail(err, WEIR_E_LIMIT, "the path of a folder must have 1 to %u bytes, not %zu",
		                 WEIR_PATH_BYTES_MAX - SUFFIX_BYTES - 1, length);
	*f = (struct new_folder){.disk = disk_system()};
	if (strcmp(path, "-") == 0)
		return weir_fail(err, WEIR_E_INVALID, "a folder cannot go to stdout: give the name of a folder");
	snprintf(f->path, sizeof f->path, "%.*s", (int)length, path);
	weir_status status = output_follow_links(f->path, err);
	if (status != WEIR_OK)
		return status;
	length = strlen(f->path);
	while (length > 1 && f->path[length - 1] == '/')
		f->path[--length] = '\0';
	if (length + SUFFIX_BYTES >= sizeof f->path)
		return weir_fail(err, WEIR_E_LIMIT, "%s links to a path of more than %u bytes", path,
		                 WEIR_PATH_BYTES_MAX - SUFFIX_BYTES - 1);
	snprintf(f->temporary, sizeof f->temporary, "%.*s.%d.tmp", (int)length, f->path, (int)getpid());
	status = look(f, replace, err);
	if (status != WEIR_OK)
		return status;
	if (access(f->temporary, F_OK) == 0)
		return weir_fail(err, WEIR_E_EXISTS, "%s is there: an export that was killed left it; remove it", f->temporary);
	output_watch_folder(f->temporary);
	status = make_folder(f, err);
	if (status != WEIR_OK)
		output_forget_folder();
	return status;
}

static weir_status give_name(struct new_folder *f, weir_error *err)
{
	char old[WEIR_PATH_BYTES_MAX + SUFFIX_BYTES];
	const struct disk_ops *ops = f->disk->ops;
	snprintf(old, sizeof old, "%s.%d.old", f->path, (int)getpid());
	weir_status status = ops->sync_directory(f->disk, f->temporary, err);
	output_forget_folder(); /* from the first rename on, the folder is needed */
	if (status == WEIR_OK && f->replaces)
		status = ops->rename(f->disk, f->path, old, err);
	if (status != WEIR_OK)
		return status;
	status = ops->rename(f->disk, f->temporary, f->path, err);
	if (status != WEIR_OK && f->replaces) {
		weir_error ignored = {0};
		(void)ops->rename(f->disk, old, f->path, &ignored);
	}
	return status == WEIR_OK && f->replaces ? remove_folder(f->disk, old, err) : status;
}

weir_status new_folder_end(struct new_folder *f, weir_status written, weir_error *err)
{
	if (written == WEIR_OK)
		written = give_name(f, err);
	if (written != WEIR_OK && access(f->temporary, F_OK) == 0) {
		weir_error ignored = {0};
		(void)remove_folder(f->disk, f->temporary, &ignored);
	}
	output_forget_folder();
	return written;
}
