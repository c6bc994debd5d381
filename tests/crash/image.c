#include "tests/crash/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/prng.h"

#define SECTOR       512u /* bytes that a disk writes atomically */
#define SUBSETS_OF   4u   /* up to this many unsynced writes: every subset */
#define SINGLES_MAX  8u   /* beyond: each of the last ones lost or kept alone */
#define RANDOM_FATES 3u
#define NAMES_MAX    8u /* maximum number of unsynced name changes; every prefix of them */

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void die(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fputs("crash image: ", stderr);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static void *must(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

/* --- The trace */

void image_mark(const char *trace_file, const char *text)
{
	const struct trace_op op = {.magic = TRACE_MAGIC, .kind = TRACE_MARK, .text_bytes = (uint32_t)strlen(text) + 1};
	char whole[sizeof op + 64];
	if (op.text_bytes > sizeof whole - sizeof op)
		die("a mark of %u bytes", op.text_bytes);
	memcpy(whole, &op, sizeof op);
	memcpy(whole + sizeof op, text, op.text_bytes);
	/* In one write, as other processes append too. */
	const ssize_t bytes = (ssize_t)(sizeof op + op.text_bytes);
	int fd = open(trace_file, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || write(fd, whole, (size_t)bytes) != bytes || close(fd) != 0)
		die("%s: %s", trace_file, strerror(errno));
}

struct disk_trace *trace_load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		die("%s: %s", path, strerror(errno));
	struct disk_trace *t = must(calloc(1, sizeof *t));
	size_t size = (size_t)st.st_size, capacity = 0;
	t->bytes = must(malloc(size + 1));
	for (size_t at = 0; at < size;) {
		ssize_t n = read(fd, t->bytes + at, size - at);
		if (n <= 0)
			die("%s: %s", path, strerror(errno));
		at += (size_t)n;
	}
	close(fd);
	for (size_t at = 0; at + sizeof(struct trace_op) <= size;) {
		struct trace_op *op = must(malloc(sizeof *op)); /* an aligned copy of the header */
		memcpy(op, t->bytes + at, sizeof *op);
		size_t whole = sizeof *op + op->text_bytes + op->data_bytes;
		if (op->magic != TRACE_MAGIC)
			die("%s: byte %zu starts no operation", path, at);
		if (at + whole > size) {
			free(op);
			break;
		}
		if (t->count == capacity) {
			capacity = capacity ? capacity * 2 : 1024;
			t->events = must(realloc(t->events, capacity * sizeof *t->events));
		}
		const char *text = op->text_bytes ? (const char *)t->bytes + at + sizeof *op : "";
		t->events[t->count++] = (struct trace_event){.op = op,
		                                             .text = text,
		                                             .text2 = strlen(text) + 1 < op->text_bytes ? text + strlen(text) + 1 : "",
		                                             .data = op->data_bytes ? t->bytes + at + sizeof *op + op->text_bytes : NULL,
		                                             .at = at};
		at += whole;
	}
	return t;
}

void trace_free(struct disk_trace *t)
{
	for (size_t i = 0; i < t->count; i++)
		free((void *)(uintptr_t)t->events[i].op);
	free(t->events);
	free(t->bytes);
	free(t);
}

void image_marks(const struct disk_trace *t, size_t moment, void (*visit)(void *arg, const char *text), void *arg)
{
	for (size_t i = 0; i < moment; i++)
		if (t->events[i].op->kind == TRACE_MARK)
			visit(arg, t->events[i].text);
}

/* --- Effects that are certain at a moment */

#define NO_FILE SIZE_MAX

struct view {
	size_t moment;
	/* (moment) The event at which its file first appeared. It identifies files, as inodes are
	 * reused. */
	size_t *file;
	bool *synced;   /* (moment) */
	size_t *writes; /* (writes_count) unsynced changes of data, in order */
	size_t *names;  /* (names_count) unsynced changes of names, in order */
	size_t writes_count, names_count;
};

struct known { /* a file, or a folder by its path */
	uint64_t inode;
	const char *folder;
	size_t folder_bytes, event;
	uint64_t covered;
};
struct knowns {
	struct known *list; /* (count), the newest last */
	size_t count, capacity;
};

static struct known *known_add(struct knowns *k, struct known one)
{
	if (k->count == k->capacity) {
		k->capacity = k->capacity ? k->capacity * 2 : 64;
		k->list = must(realloc(k->list, k->capacity * sizeof *k->list));
	}
	k->list[k->count] = one;
	return &k->list[k->count++];
}

static struct known *known_file(const struct knowns *k, uint64_t inode)
{
	for (size_t i = k->count; i-- > 0;)
		if (!k->list[i].folder && k->list[i].inode == inode)
			return &k->list[i];
	return NULL;
}

static struct known *known_folder(struct knowns *k, const char *path, size_t bytes)
{
	for (size_t i = k->count; i-- > 0;)
		if (k->list[i].folder && k->list[i].folder_bytes == bytes && memcmp(k->list[i].folder, path, bytes) == 0)
			return &k->list[i];
	return known_add(k, (struct known){.folder = path, .folder_bytes = bytes});
}

static size_t folder_bytes(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

static bool is_data(uint32_t kind)
{
	return kind == TRACE_WRITE || kind == TRACE_ALLOCATE || kind == TRACE_RESIZE;
}

static bool is_name(uint32_t kind)
{
	return kind == TRACE_CREATE || kind == TRACE_RENAME || kind == TRACE_EXCHANGE || kind == TRACE_LINK || kind == TRACE_REMOVE ||
	       kind == TRACE_MKDIR;
}

/* The last name that a change affects. A sync of its folder makes the change durable. */
static const char *changed_name(const struct trace_event *e)
{
	return e->text2[0] ? e->text2 : e->text;
}

static void note(struct view *v, struct knowns *k, const struct disk_trace *t, size_t i)
{
	const struct trace_event *e = &t->events[i];
	struct known *file = known_file(k, e->op->inode);
	if (e->op->kind == TRACE_CREATE || (e->op->kind == TRACE_OPEN && !file))
		known_add(k, (struct known){.inode = e->op->inode, .event = i});
	else if (e->op->kind == TRACE_SYNC && file && e->op->covers > file->covered)
		file->covered = e->op->covers;
	else if (e->op->kind == TRACE_SYNC_DIR) {
		struct known *folder = known_folder(k, e->text, strlen(e->text));
		if (e->op->covers > folder->covered)
			folder->covered = e->op->covers;
	}
	const bool met = e->op->kind == TRACE_CREATE || (e->op->kind == TRACE_OPEN && !file);
	v->file[i] = met ? i : is_data(e->op->kind) && file ? file->event : NO_FILE;
}

static struct known *known_event(const struct knowns *k, size_t event)
{
	for (size_t i = k->count; i-- > 0;)
		if (!k->list[i].folder && k->list[i].event == event)
			return &k->list[i];
	return NULL;
}

static struct view *view_create(const struct disk_trace *t, size_t moment)
{
	struct view *v = must(calloc(1, sizeof *v));
	struct knowns k = {0};
	*v = (struct view){.moment = moment,
	                   .file = must(calloc(moment + 1, sizeof *v->file)),
	                   .synced = must(calloc(moment + 1, sizeof *v->synced)),
	                   .writes = must(calloc(moment + 1, sizeof *v->writes)),
	                   .names = must(calloc(moment + 1, sizeof *v->names))};
	for (size_t i = 0; i < moment; i++)
		note(v, &k, t, i);
	for (size_t i = 0; i < moment; i++) {
		const struct trace_event *e = &t->events[i];
		if (is_data(e->op->kind)) {
			const struct known *file = known_event(&k, v->file[i]);
			v->synced[i] = file && e->at < file->covered;
			if (!v->synced[i])
				v->writes[v->writes_count++] = i;
		} else if (is_name(e->op->kind)) {
			const char *name = changed_name(e);
			v->synced[i] = e->at < known_folder(&k, name, folder_bytes(name))->covered;
			if (!v->synced[i])
				v->names[v->names_count++] = i;
		}
	}
	free(k.list);
	return v;
}

static void view_free(struct view *v)
{
	free(v->file);
	free(v->synced);
	free(v->writes);
	free(v->names);
	free(v);
}

/* --- Fates */

enum writes_fate { LOSE_ALL, KEEP_ALL, TEAR_ONE, LOSE_ONE, KEEP_ONE, SUBSET, SOME };
struct fate {
	enum writes_fate writes;
	/* TEAR_ONE, LOSE_ONE, KEEP_ONE: number of an unsynced write. SUBSET: bits of the kept writes.
	 * SOME: seed. */
	size_t which;
	size_t names; /* number of unsynced name changes that survive, from the first */
};
#define FATES_MAX (2u + NAMES_MAX + (1u << SUBSETS_OF) + SUBSETS_OF + 2 * SINGLES_MAX + RANDOM_FATES)

static size_t list_few(const struct view *v, struct fate out[FATES_MAX], size_t n)
{
	for (size_t bits = 0; bits + 1 < (size_t)1 << v->writes_count; bits++)
		out[n++] = (struct fate){SUBSET, bits, v->names_count};
	for (size_t i = 0; i < v->writes_count; i++)
		out[n++] = (struct fate){TEAR_ONE, i, v->names_count};
	return n;
}

static size_t list_many(const struct view *v, struct fate out[FATES_MAX], size_t n)
{
	out[n++] = (struct fate){LOSE_ALL, 0, v->names_count};
	out[n++] = (struct fate){TEAR_ONE, v->writes_count - 1, v->names_count};
	for (size_t i = v->writes_count > SINGLES_MAX ? v->writes_count - SINGLES_MAX : 0; i < v->writes_count; i++) {
		out[n++] = (struct fate){LOSE_ONE, i, v->names_count};
		out[n++] = (struct fate){KEEP_ONE, i, v->names_count};
	}
	for (size_t i = 0; i < RANDOM_FATES; i++)
		out[n++] = (struct fate){SOME, i, v->names_count};
	return n;
}

static size_t list_fates(const struct view *v, struct fate out[FATES_MAX])
{
	size_t n = 0;
	out[n++] = (struct fate){KEEP_ALL, 0, v->names_count};
	for (size_t kept = 0; kept < v->names_count && kept < NAMES_MAX; kept++)
		out[n++] = (struct fate){KEEP_ALL, 0, kept};
	if (v->names_count)
		out[n++] = (struct fate){LOSE_ALL, 0, 0};
	return v->writes_count <= SUBSETS_OF ? list_few(v, out, n) : list_many(v, out, n);
}

/* Bytes of write `event` that reach the disk. A change of size happens completely or not at all. */
static uint64_t kept_bytes(const struct disk_trace *t, const struct view *v, const struct fate *f, size_t event)
{
	const struct trace_op *op = t->events[event].op;
	const uint64_t whole = op->bytes ? op->bytes : 1;
	if (v->synced[event])
		return whole;
	size_t number = 0;
	while (v->writes[number] != event)
		number++;
	switch (f->writes) {
	case LOSE_ALL:
		return 0;
	case KEEP_ALL:
		return whole;
	case TEAR_ONE:
		if (number != f->which || op->kind != TRACE_WRITE)
			return whole;
		return op->bytes > SECTOR ? op->bytes / 2 / SECTOR * SECTOR : 0;
	case LOSE_ONE:
		return number == f->which ? 0 : whole;
	case KEEP_ONE:
		return number == f->which ? whole : 0;
	case SUBSET:
		return f->which >> number & 1 ? whole : 0;
	case SOME:
		return prng_mix(f->which, number, v->moment) & 1 ? whole : 0;
	}
	return whole;
}

size_t image_fates(const struct disk_trace *t, size_t moment)
{
	struct view *v = view_create(t, moment);
	struct fate fates[FATES_MAX];
	size_t n = list_fates(v, fates);
	view_free(v);
	return n;
}

/* --- Names */

struct entry {
	char *path;
	size_t file; /* NO_FILE: a folder */
};
struct names {
	struct entry *list;
	size_t count, capacity;
};

static size_t name_find(const struct names *n, const char *path)
{
	for (size_t i = 0; i < n->count; i++)
		if (strcmp(n->list[i].path, path) == 0)
			return i;
	return SIZE_MAX;
}

static void name_remove(struct names *n, size_t i)
{
	free(n->list[i].path);
	n->list[i] = n->list[--n->count];
}

static void name_put(struct names *n, const char *path, size_t file)
{
	size_t i = name_find(n, path);
	if (i != SIZE_MAX)
		name_remove(n, i);
	if (n->count == n->capacity) {
		n->capacity = n->capacity ? n->capacity * 2 : 64;
		n->list = must(realloc(n->list, n->capacity * sizeof *n->list));
	}
	n->list[n->count++] = (struct entry){must(strdup(path)), file};
}

/* Renames a file, or a folder with its content. A name whose creation was lost stays missing. */
static void name_move(struct names *n, const char *from, const char *to)
{
	size_t length = strlen(from);
	for (size_t i = 0; i < n->count; i++) {
		char *path = n->list[i].path;
		if (strncmp(path, from, length) != 0 || (path[length] && path[length] != '/'))
			continue;
		char *moved = must(malloc(strlen(to) + strlen(path + length) + 1));
		strcpy(moved, to);
		strcat(moved, path + length);
		size_t file = n->list[i].file, old = name_find(n, moved);
		free(path);
		n->list[i] = (struct entry){moved, file};
		if (old != SIZE_MAX)
			name_remove(n, old);
	}
}

static void name_exchange(struct names *n, const char *one, const char *other)
{
	const size_t a = name_find(n, one), b = name_find(n, other);
	if (a == SIZE_MAX || b == SIZE_MAX)
		return;
	const size_t file = n->list[a].file;
	n->list[a].file = n->list[b].file;
	n->list[b].file = file;
}

static void name_apply(struct names *n, const struct trace_event *e, size_t event)
{
	size_t at;
	switch (e->op->kind) {
	case TRACE_OPEN: /* a file that the trace knows keeps its events */
		if (name_find(n, e->text) == SIZE_MAX)
			name_put(n, e->text, event);
		break;
	case TRACE_CREATE:
		name_put(n, e->text, event);
		break;
	case TRACE_MKDIR:
		name_put(n, e->text, NO_FILE);
		break;
	case TRACE_LINK:
		at = name_find(n, e->text);
		if (at != SIZE_MAX)
			name_put(n, e->text2, n->list[at].file);
		break;
	case TRACE_RENAME:
		name_move(n, e->text, e->text2);
		break;
	case TRACE_EXCHANGE:
		name_exchange(n, e->text, e->text2);
		break;
	case TRACE_REMOVE:
		at = name_find(n, e->text);
		if (at != SIZE_MAX)
			name_remove(n, at);
		break;
	default:
		break;
	}
}

static void names_free(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->list[i].path);
	free(n->list);
}

/* --- Building */

static void make_parents(const char *path)
{
	char part[WEIR_PATH_BYTES_MAX];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0700) != 0 && errno != EEXIST)
			die("%s: %s", part, strerror(errno));
	}
}

static void grow_to(int fd, uint64_t size)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || ((uint64_t)st.st_size < size && ftruncate(fd, (off_t)size) != 0))
		die("the image: %s", strerror(errno));
}

static void build_file(const struct disk_trace *t, const struct view *v, const struct fate *f, size_t file, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	for (size_t i = file; i < v->moment; i++) {
		const struct trace_event *e = &t->events[i];
		if (v->file[i] != file || !is_data(e->op->kind))
			continue;
		uint64_t kept = kept_bytes(t, v, f, i);
		if (!kept)
			continue;
		if (e->op->kind == TRACE_WRITE) {
			if (!e->data)
				die("the trace has ranges without data: no image can be built of it");
			if (pwrite(fd, e->data, kept, (off_t)e->op->offset) != (ssize_t)kept)
				die("%s: %s", path, strerror(errno));
		} else if (e->op->kind == TRACE_ALLOCATE) {
			grow_to(fd, e->op->offset + e->op->bytes);
		} else if (ftruncate(fd, (off_t)e->op->offset) != 0) {
			die("%s: %s", path, strerror(errno));
		}
	}
	close(fd);
}

void image_build(const struct disk_trace *t, size_t moment, size_t fate, const char *folder)
{
	struct view *v = view_create(t, moment);
	struct fate fates[FATES_MAX];
	if (fate >= list_fates(v, fates))
		die("moment %zu has no fate %zu", moment, fate);
	const struct fate *f = &fates[fate];
	struct names names = {0};
	size_t lost_from = f->names < v->names_count ? v->names[f->names] : SIZE_MAX;
	for (size_t i = 0; i < moment; i++) {
		if (t->events[i].op->kind == TRACE_OPEN && v->file[i] == i)
			die("%s was there before the trace began: an image can be built from an empty folder only", t->events[i].text);
		if (is_name(t->events[i].op->kind) && (v->synced[i] || i < lost_from))
			name_apply(&names, &t->events[i], i);
	}
	char path[WEIR_PATH_BYTES_MAX];
	for (size_t i = 0; i < names.count; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names.list[i].path);
		make_parents(path);
		if (names.list[i].file != NO_FILE)
			build_file(t, v, f, names.list[i].file, path);
		else if (mkdir(path, 0700) != 0 && errno != EEXIST)
			die("%s: %s", path, strerror(errno));
	}
	names_free(&names);
	view_free(v);
}

/* --- Dropping unsynced data */

/* The file keeps its unsynced writes up to a point that the seed chooses, or all, or none. Of the
 * later ones it keeps some. */
static bool survives(uint64_t seed, size_t file, size_t number, size_t of)
{
	uint64_t point = prng_mix(seed, file, 0) % (of + 1);
	return number < point || (prng_mix(seed, file, 1) % 3 == 0 && prng_mix(seed, file, number + 2) % 4 == 0);
}

static void zero(int fd, uint64_t offset, uint64_t bytes)
{
	static const uint8_t zeros[1u << 16];
	for (uint64_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
		if (pwrite(fd, zeros, n, (off_t)(offset + at)) != (ssize_t)n)
			die("the folder: %s", strerror(errno));
	}
}

/* Assumes files that are only appended to: a lost write leaves zeros, and the file ends with the
 * last operation kept. */
static uint64_t drop_from_file(const struct disk_trace *t, const struct view *v, size_t file, const char *path, uint64_t seed)
{
	size_t open_count = 0, number = 0;
	uint64_t size = t->events[file].op->kind == TRACE_OPEN ? t->events[file].op->offset : 0, content = 0, lost = 0;
	for (size_t i = 0; i < v->writes_count; i++)
		open_count += v->file[v->writes[i]] == file;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	for (size_t i = file; i < v->moment; i++) {
		const struct trace_op *op = t->events[i].op;
		const uint64_t end = op->offset + op->bytes;
		if (v->file[i] != file || !is_data(op->kind))
			continue;
		bool kept = v->synced[i] || survives(seed, file, number++, open_count);
		if (op->kind == TRACE_RESIZE) { /* cannot be undone: the old data is gone */
			size = content = op->offset;
		} else if (op->kind == TRACE_WRITE && !kept && op->offset >= content) {
			zero(fd, op->offset, op->bytes);
			lost += op->bytes;
		} else {
			size = end > size ? end : size;
			content = op->kind == TRACE_WRITE && end > content ? end : content;
		}
	}
	if (ftruncate(fd, (off_t)size) != 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
	return lost;
}

uint64_t image_drop_unsynced(const struct disk_trace *t, const char *folder, uint64_t seed)
{
	struct view *v = view_create(t, t->count);
	struct names names = {0};
	uint64_t lost = 0;
	for (size_t i = 0; i < t->count; i++)
		if (is_name(t->events[i].op->kind) || t->events[i].op->kind == TRACE_OPEN)
			name_apply(&names, &t->events[i], i);
	char path[WEIR_PATH_BYTES_MAX];
	struct stat st;
	for (size_t i = 0; i < names.count; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names.list[i].path);
		if (names.list[i].file != NO_FILE && stat(path, &st) == 0)
			lost += drop_from_file(t, v, names.list[i].file, path, seed);
	}
	names_free(&names);
	view_free(v);
	return lost;
}

bool image_is_seen_later(const struct disk_trace *t, size_t moment)
{
	return moment < t->count && (t->events[moment].op->kind == TRACE_MARK || t->events[moment].op->kind == TRACE_OPEN);
}
