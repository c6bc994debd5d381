#include "tests/unit/faulty_disk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *disk_must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* --- Bytes */

void bytes_resize(struct bytes *b, size_t size)
{
	b->data = disk_must(realloc(b->data, size ? size : 1));
	if (size > b->size)
		memset(b->data + b->size, 0, size - b->size);
	b->size = size;
}

void bytes_place(struct bytes *b, uint64_t at, const void *data, size_t size)
{
	if (at + size > b->size)
		bytes_resize(b, at + size);
	if (size)
		memcpy(b->data + at, data, size);
}

void bytes_copy(struct bytes *to, const struct bytes *from)
{
	bytes_resize(to, from->size);
	memcpy(to->data, from->data, from->size);
}

void file_note(struct file *f, uint64_t at, const void *data, size_t size)
{
	f->changes = disk_must(realloc(f->changes, (f->count + 1) * sizeof *f->changes));
	struct change *c = &f->changes[f->count++];
	*c = (struct change){.at = at};
	if (data)
		bytes_place(&c->written, 0, data, size);
}

void file_forget_changes(struct file *f)
{
	for (uint32_t i = 0; i < f->count; i++)
		free(f->changes[i].written.data);
	f->count = 0;
}

struct file *disk_new_file(struct faulty_disk *d)
{
	d->files = disk_must(realloc(d->files, (d->file_count + 1) * sizeof(struct file *)));
	struct file *f = disk_must(calloc(1, sizeof *f));
	bytes_resize(&f->live, 0);
	bytes_resize(&f->kept, 0);
	return d->files[d->file_count++] = f;
}

/* --- Names */

struct name *names_find(struct names *n, const char *path)
{
	for (uint32_t i = 0; i < n->count; i++)
		if (strcmp(n->of[i].path, path) == 0)
			return &n->of[i];
	return NULL;
}

void names_append(struct names *n, const char *path, struct file *f)
{
	if (strlen(path) >= sizeof n->of->path)
		abort();
	n->of = disk_must(realloc(n->of, (n->count + 1) * sizeof *n->of));
	struct name *added = &n->of[n->count++];
	strcpy(added->path, path);
	added->file = f;
}

/* Binds path to f; NULL unbinds it. */
static void set_name(struct names *n, const char *path, struct file *f)
{
	struct name *old = names_find(n, path);
	if (f && old)
		old->file = f;
	else if (f)
		names_append(n, path, f);
	else if (old)
		*old = n->of[--n->count];
}

void names_copy(struct names *to, const struct names *from)
{
	to->count = from->count;
	to->of = disk_must(realloc(to->of, (from->count + 1) * sizeof *to->of));
	if (from->count)
		memcpy(to->of, from->of, from->count * sizeof *to->of);
}

void disk_change_name(struct faulty_disk *d, const char *path, struct file *f)
{
	set_name(&d->live, path, f);
	names_append(&d->changes, path, f);
}

bool path_is_in(const char *path, const char *directory)
{
	size_t length = strlen(directory);
	return strncmp(path, directory, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

void disk_settle_names(struct faulty_disk *d, const char *directory, uint32_t keep)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < d->changes.count; i++) {
		struct name *c = &d->changes.of[i];
		if (directory && !path_is_in(c->path, directory))
			d->changes.of[left++] = *c;
		else if (keep > 0 && keep--)
			set_name(&d->kept, c->path, c->file);
	}
	d->changes.count = left;
}

void disk_settle_parent(struct faulty_disk *d, const char *path)
{
	char directory[256];
	const char *slash = strrchr(path, '/');
	snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 0, path);
	disk_settle_names(d, directory, UINT32_MAX);
}
