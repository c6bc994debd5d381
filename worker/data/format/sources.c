#include "worker/data/format/sources.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/remote/remote_file.h"

/* Reports a relative name together with the folder where it was searched. */
static weir_status not_found(const char *pattern, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX];
	const char *scheme = strstr(pattern, "://");
	if (scheme && pattern + strspn(pattern, "abcdefghijklmnopqrstuvwxyz0123456789+") == scheme)
		return weir_fail(err, WEIR_E_NOT_FOUND, "no data file matches %s: of addresses http://, https:// and s3:// are known",
		                 pattern);
	if (pattern[0] == '/' || !getcwd(folder, sizeof folder))
		return weir_fail(err, WEIR_E_NOT_FOUND, "no data file matches %s", pattern);
	return weir_fail(err, WEIR_E_NOT_FOUND,
	                 "no data file matches %s: looked for %.400s/%s, as names are relative to the folder weir is started in",
	                 pattern, folder, pattern);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct source *)a)->path, ((const struct source *)b)->path);
}

/* Appends a source and copies its path. */
static weir_status append(struct sources *s, const char *path, const struct source *source, weir_error *err)
{
	struct source *larger = realloc(s->items, (s->count + 1) * sizeof *larger);
	char *copy = strdup(path);
	if (larger)
		s->items = larger;
	if (!larger || !copy) {
		free(copy);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory listing data files");
	}
	s->items[s->count] = *source;
	s->items[s->count++].path = copy;
	return WEIR_OK;
}

static weir_status add(struct sources *s, const char *path, bool is_copy, weir_error *err)
{
	struct stat st;
	struct source source = {0};
	struct remote_note note;
	if (s->count == WEIR_DATA_FILES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u data files", WEIR_DATA_FILES_MAX);
	if (is_copy && remote_note_read(&note, path)) {
		source.size = note.look.bytes;
		source.kind = TEXT_PARQUET;
		source.version = hash_bytes(note.look.version, strlen(note.look.version), 1) | 1;
		return append(s, path, &source, err);
	}
	if (stat(path, &st) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot read %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return weir_fail(err, WEIR_E_INVALID, "%s is a folder: name the files in it, as %s%s*", path, path,
		                 path[strlen(path) - 1] == '/' ? "" : "/");
	if (!S_ISREG(st.st_mode))
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s is not a file, but a pipe or a device, and data are read more than once: keep them in a file", path);
	const weir_status status = text_kind_of(path, &source.kind, err);
	if (status != WEIR_OK)
		return status;
	source.size = (uint64_t)st.st_size;
	source.mtime_ns = is_copy ? 0 : (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return append(s, path, &source, err);
}

static int by_path_and_place(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	const int paths = strcmp(x->path, y->path);
	return paths != 0 ? paths : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	return (x->place > y->place) - (x->place < y->place);
}

static void sort_from(struct sources *s, uint32_t first, int (*compare)(const void *, const void *))
{
	if (s->count > first)
		qsort(s->items + first, s->count - first, sizeof *s->items, compare);
}

/* Of equal paths, keeps the one with the first place. */
static void sort_unique(struct sources *s, enum sources_order order)
{
	uint32_t kept = 0;
	sort_from(s, 0, by_path_and_place);
	for (uint32_t i = 0; i < s->count; i++) {
		if (kept > 0 && strcmp(s->items[kept - 1].path, s->items[i].path) == 0)
			free(s->items[i].path);
		else
			s->items[kept++] = s->items[i];
	}
	s->count = kept;
	if (order == SOURCES_AS_GIVEN)
		sort_from(s, 0, by_place);
}

static weir_status add_copy(void *sources, const char *path, weir_error *err)
{
	return add(sources, path, true, err);
}

/* Returns the bytes of the existing folders at the beginning of a pattern. */
static size_t folders_that_stand(const char *pattern)
{
	char folder[WEIR_PATH_BYTES_MAX];
	struct stat st;
	size_t stand = 0;
	for (const char *slash = pattern; (slash = strchr(slash + 1, '/')) != NULL && slash < pattern + sizeof folder;) {
		memcpy(folder, pattern, (size_t)(slash - pattern));
		folder[slash - pattern] = 0;
		if (stat(folder, &st) != 0)
			break;
		stand = (size_t)(slash - pattern);
	}
	return stand;
}

/* Runs glob, but takes special characters in the names of existing folders literally. */
static int find(const char *pattern, glob_t *found)
{
	char escaped[2 * WEIR_PATH_BYTES_MAX];
	const size_t stand = folders_that_stand(pattern), n = strlen(pattern);
	if (stand + n >= sizeof escaped)
		return GLOB_NOMATCH;
	size_t at = 0;
	for (size_t i = 0; i < stand; i++) {
		if (strchr("[]{}*?,~\\", pattern[i]))
			escaped[at++] = '\\';
		escaped[at++] = pattern[i];
	}
	memcpy(escaped + at, pattern + stand, n - stand + 1);
	return glob(escaped, GLOB_BRACE | GLOB_TILDE, NULL, found);
}

static weir_status add_files(struct sources *s, const char *pattern, weir_error *err)
{
	glob_t found;
	if (access(pattern, F_OK) == 0)
		return add(s, pattern, false, err);
	const int code = find(pattern, &found);
	if (code == GLOB_NOMATCH)
		return not_found(pattern, err);
	if (code != 0)
		return weir_fail(err, code == GLOB_NOSPACE ? WEIR_E_MEMORY : WEIR_E_IO, "cannot list %s", pattern);
	weir_status status = WEIR_OK;
	for (size_t k = 0; k < found.gl_pathc && status == WEIR_OK; k++)
		status = add(s, found.gl_pathv[k], false, err);
	globfree(&found);
	return status;
}

weir_status sources_find(struct sources *out, char *const *patterns, uint32_t count, enum sources_order order,
                         const struct remote_options *remote, weir_error *err)
{
	weir_status status = WEIR_OK;
	*out = (struct sources){0};
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		const uint32_t first = out->count;
		status = remote && remote_is(patterns[i]) ? remote_find(remote, patterns[i], add_copy, out, err)
		                                          : add_files(out, patterns[i], err);
		sort_from(out, first, by_path);
		for (uint32_t k = first; k < out->count; k++)
			out->items[k].place = k;
	}
	sort_unique(out, order);
	if (status != WEIR_OK)
		sources_destroy(out);
	return status;
}

weir_status sources_check_format(const struct sources *s, enum data_format format, weir_error *err)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const bool parquet = s->items[i].kind == TEXT_PARQUET, arrow = s->items[i].kind == TEXT_ARROW;
		if ((parquet && format != DATA_PARQUET) || (arrow && format != DATA_ARROW))
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is %s file; expected data.format: %s", s->items[i].path,
			                 parquet ? "a Parquet" : "an Arrow", parquet ? "parquet" : "arrow");
	}
	return WEIR_OK;
}

void sources_destroy(struct sources *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->items[i].path);
	free(s->items);
	*s = (struct sources){0};
}
