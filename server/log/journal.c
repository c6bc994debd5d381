/* Opens and closes the journal's folder. journal.h has the contract; journal_internal.h describes
 * the lock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "server/log/journal_internal.h"

/* --- Folder */

void journal_segment_path(const struct journal *j, uint64_t number, char *out)
{
	snprintf(out, WEIR_PATH_BYTES_MAX, "%s/%08" PRIu64 ".wal", j->options.directory, number);
}

weir_status journal_add_segment(struct journal *j, uint64_t number, uint64_t start, weir_error *err)
{
	if (j->count == j->capacity) {
		uint32_t capacity = j->capacity ? 2 * j->capacity : 16;
		struct journal_segment *larger = realloc(j->segments, capacity * sizeof *larger);
		if (!larger)
			return weir_fail(err, WEIR_E_MEMORY, "journal %s: out of memory", j->options.directory);
		j->segments = larger;
		j->capacity = capacity;
	}
	j->segments[j->count++] =
	    (struct journal_segment){.number = number, .version = JOURNAL_VERSION, .start = start, .end = start};
	return WEIR_OK;
}

weir_status journal_close_segment(struct journal_segment *s, uint64_t end, const struct journal_indices *last, weir_error *err)
{
	if (!s->last && !(s->last = malloc(sizeof *s->last)))
		return weir_fail(err, WEIR_E_MEMORY, "journal: out of memory");
	*s->last = *last;
	s->end = end;
	return WEIR_OK;
}

/* Contents of a folder: segment numbers, and a temporary file that a crash left. */
struct listing {
	struct journal *j;
	char leftover[64]; /* empty: none */
	weir_error *err;
};

static weir_status note_name(void *arg, const char *name)
{
	struct listing *l = arg;
	uint64_t number;
	char exact[40];
	if (sscanf(name, "%" SCNu64 ".wal", &number) != 1)
		return WEIR_OK;
	size_t length = (size_t)snprintf(exact, sizeof exact, "%08" PRIu64 ".wal", number);
	if (strcmp(name, exact) == 0)
		return journal_add_segment(l->j, number, 0, l->err);
	if (strncmp(name, exact, length) == 0 && strcmp(name + length, ".tmp") == 0)
		snprintf(l->leftover, sizeof l->leftover, "%s", name);
	return WEIR_OK;
}

static int by_number(const void *a, const void *b)
{
	const struct journal_segment *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static weir_status read_header(struct journal *j, struct journal_segment *s, weir_error *err)
{
	struct disk *disk = j->options.disk;
	char path[WEIR_PATH_BYTES_MAX];
	uint8_t bytes[JOURNAL_SEGMENT_HEADER_BYTES] = {0};
	struct journal_segment_header h;
	uint64_t size = 0;
	size_t got;
	struct disk_file *f;
	weir_error why = {0};
	journal_segment_path(j, s->number, path);
	weir_status status = disk->ops->open(disk, path, false, &f, err);
	if (status != WEIR_OK)
		return status;
	status = disk->ops->read_at(f, 0, bytes, sizeof bytes, &got, err);
	if (status == WEIR_OK)
		status = disk->ops->size(f, &size, err);
	disk->ops->close(f);
	if (status != WEIR_OK)
		return status;
	if (size < sizeof bytes)
		return weir_fail(err, j->options.durable_known ? WEIR_E_STALE : WEIR_E_CORRUPT,
		                 "%s is cut off: it has %" PRIu64 " bytes, its header alone has %zu", path, size, sizeof bytes);
	status = journal_get_segment(bytes, &h, &why);
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s: %s", path, why.text);
	if (h.number != s->number)
		return weir_fail(err, WEIR_E_CORRUPT, "%s: its header says that it is segment %" PRIu64, path, h.number);
	static const uint8_t nobody[sizeof h.id];
	if (memcmp(h.id, j->options.id, sizeof h.id) != 0 && memcmp(h.id, nobody, sizeof nobody) != 0)
		return weir_fail(err, WEIR_E_CORRUPT, "%s belongs to another server's journal", path);
	s->version = h.version;
	s->start = h.start;
	s->end = h.start + size;
	return WEIR_OK;
}

/* Segments must follow each other without a gap, in numbers and in positions. */
static weir_status check_sequence(const struct journal *j, uint32_t i, weir_error *err)
{
	const struct journal_segment *s = &j->segments[i], *before = s - 1;
	if (i == 0)
		return WEIR_OK;
	char path[WEIR_PATH_BYTES_MAX];
	journal_segment_path(j, before->number, path);
	if (s->number != before->number + 1)
		return weir_fail(err, WEIR_E_CORRUPT, "journal %s: segments %" PRIu64 " to %" PRIu64 " are missing", j->options.directory,
		                 before->number + 1, s->number - 1);
	if (s->start != before->end)
		return weir_fail(err, WEIR_E_CORRUPT, "%s has %" PRIu64 " bytes, the segment behind it says %" PRIu64, path,
		                 before->end - before->start, s->start - before->start);
	return WEIR_OK;
}

static weir_status read_folder(struct journal *j, weir_error *err)
{
	struct disk *disk = j->options.disk;
	struct listing l = {.j = j, .err = err};
	weir_status status = disk->ops->list(disk, j->options.directory, note_name, &l, err);
	if (j->count)
		qsort(j->segments, j->count, sizeof *j->segments, by_number);
	for (uint32_t i = 0; i < j->count && status == WEIR_OK; i++) {
		status = read_header(j, &j->segments[i], err);
		if (status == WEIR_OK)
			status = check_sequence(j, i, err);
	}
	if (status != WEIR_OK || !l.leftover[0])
		return status;
	char path[WEIR_PATH_BYTES_MAX];
	snprintf(path, sizeof path, "%s/%s", j->options.directory, l.leftover);
	return disk->ops->remove(disk, path, err);
}

static weir_status lock_folder(struct journal *j, weir_error *err)
{
	struct disk *disk = j->options.disk;
	char path[WEIR_PATH_BYTES_MAX];
	if (strlen(j->options.directory) + 64 > sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX - 64,
		                 j->options.directory);
	weir_status status = disk->ops->make_dirs(disk, j->options.directory, err);
	if (status != WEIR_OK)
		return status;
	snprintf(path, sizeof path, "%s/..", j->options.directory);
	status = disk->ops->sync_directory(disk, path, err);
	if (status != WEIR_OK)
		return status;
	snprintf(path, sizeof path, "%s/LOCK", j->options.directory);
	return disk->ops->lock(disk, path, j->options.holder, &j->folder_lock, err);
}

static void init_sync(struct journal *j)
{
	pthread_mutex_init(&j->lock, NULL);
	deadline_cond_init(&j->work);
	pthread_cond_init(&j->progress, NULL);
}

static void destroy(struct journal *j)
{
	struct disk *disk = j->options.disk;
	if (j->file)
		disk->ops->close(j->file);
	if (j->folder_lock)
		disk->ops->close(j->folder_lock);
	for (uint32_t i = 0; i < j->count; i++)
		free(j->segments[i].last);
	free(j->segments);
	pthread_cond_destroy(&j->progress);
	pthread_cond_destroy(&j->work);
	pthread_mutex_destroy(&j->lock);
	free((char *)(uintptr_t)j->options.directory);
	free((char *)(uintptr_t)j->options.holder);
	free(j);
}

weir_status journal_open(struct journal **out, const struct journal_options *options, weir_error *err)
{
	struct journal *j = calloc(1, sizeof *j);
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "journal %s: out of memory", options->directory);
	j->options = *options;
	j->options.directory = strdup(options->directory);
	j->options.holder = strdup(options->holder);
	if (!j->options.segment_bytes)
		j->options.segment_bytes = WEIR_JOURNAL_SEGMENT_BYTES;
	j->first_bytes = j->options.segment_bytes < WEIR_JOURNAL_FIRST_BYTES ? j->options.segment_bytes : WEIR_JOURNAL_FIRST_BYTES;
	j->next_bytes = j->first_bytes;
	for (uint32_t i = 0; i < JOURNAL_CHANNELS; i++)
		j->needed.of[i] = 1;
	init_sync(j);
	weir_status status = WEIR_OK;
	if (!j->options.directory || !j->options.holder)
		status = weir_fail(err, WEIR_E_MEMORY, "journal %s: out of memory", options->directory);
	if (status == WEIR_OK)
		status = lock_folder(j, err);
	if (status == WEIR_OK)
		status = read_folder(j, err);
	if (status != WEIR_OK) {
		destroy(j);
		return status;
	}
	*out = j;
	return WEIR_OK;
}

/* --- Closing */

/* Deletes the oldest segments that recovery does not need, except the last segment. */
static weir_status drop_unneeded(struct journal *j, weir_error *err)
{
	weir_status status = WEIR_OK;
	while (!status && j->count > 1 && !journal_needs(j, &j->segments[0]))
		status = journal_drop_oldest(j, err);
	return status;
}

/* Replaces a last segment that recovery does not need by one without entries, if the disk has room
 * for it. The next process then begins at that position and knows where each channel's log
 * ended. */
static weir_status replace_last(struct journal *j, weir_error *err)
{
	const struct journal_segment *last = j->count ? &j->segments[j->count - 1] : NULL;
	const uint64_t bytes = JOURNAL_SEGMENT_HEADER_BYTES + journal_restating_bytes(j);
	if (!last || last->end - last->start <= bytes || journal_needs(j, last))
		return WEIR_OK;
	weir_status status = journal_begin(j, bytes + JOURNAL_ENTRY_HEADER_BYTES, err);
	if (status == WEIR_E_NO_SPACE)
		return WEIR_OK;
	if (!status)
		status = journal_restate(j, err);
	if (!status)
		status = journal_seal(j, err);
	return status ? status : drop_unneeded(j, err);
}

/* Makes everything durable and deletes unneeded segments. Only the calling thread is left. */
static weir_status end_cleanly(struct journal *j, weir_error *err)
{
	if (j->failure.status != WEIR_OK)
		return weir_fail(err, j->failure.status, "the journal has failed: %s", j->failure.text);
	weir_status status = WEIR_OK;
	if (j->file)
		status = journal_mark(j, err);
	if (!status && j->file)
		status = journal_seal(j, err);
	if (!status)
		status = drop_unneeded(j, err);
	return status ? status : replace_last(j, err);
}

weir_status journal_close(struct journal *j, weir_error *err)
{
	if (!j)
		return WEIR_OK;
	weir_status status = WEIR_OK;
	if (j->running) {
		status = journal_wait(j, err);
		journal_stop_thread(j);
	}
	pthread_mutex_lock(&j->lock);
	if (status == WEIR_OK && j->replayed)
		status = end_cleanly(j, err);
	pthread_mutex_unlock(&j->lock);
	destroy(j);
	return status;
}
