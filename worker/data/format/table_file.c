#include "worker/data/format/table_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/system/process.h"
#include "worker/data/remote/remote_file.h"

#define PLUGIN "libweir_arrow.so"

struct table_file {
	const struct table_plugin *plugin;
	const struct table_layout *layout;
	struct table_handle *handle;
	struct remote_file *remote; /* NULL: the file is at the path */
	char *path;
	struct ArrowArrayStream stream; /* release NULL: none */
};

/* --- The plug-in */

static struct {
	pthread_once_t once;
	const struct table_plugin *plugin;
	char why[WEIR_ERROR_TEXT_BYTES / 2];
} opened = {.once = PTHREAD_ONCE_INIT};

static void take_plugin(void *library, const char *path)
{
	table_plugin_entry entry;
	void *symbol = dlsym(library, TABLE_PLUGIN_SYMBOL);
	memcpy(&entry, &symbol, sizeof entry);
	const struct table_plugin *plugin = symbol ? entry() : NULL;
	if (plugin && plugin->abi == TABLE_PLUGIN_ABI)
		opened.plugin = plugin;
	else
		snprintf(opened.why, sizeof opened.why, "%.200s is of another release of Weir", path);
}

/* The library stays in memory, as Arrow's threads run in it. */
static void open_plugin(void)
{
	static const char *const places[] = {"", "lib/", "../lib/"};
	char folder[WEIR_PATH_BYTES_MAX], path[WEIR_PATH_BYTES_MAX + sizeof PLUGIN + 16];
	process_program_folder(folder, sizeof folder);
	snprintf(opened.why, sizeof opened.why, "%s is not in %.200s", PLUGIN, folder);
	for (size_t i = 0; i < sizeof places / sizeof *places && !opened.plugin; i++) {
		snprintf(path, sizeof path, "%s/%s" PLUGIN, folder, places[i]);
		if (access(path, F_OK) != 0)
			continue;
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		if (library)
			take_plugin(library, path);
		else
			snprintf(opened.why, sizeof opened.why, "%.300s", dlerror());
	}
}

static weir_status need_plugin(const char *path, const char *verb, weir_error *err)
{
	pthread_once(&opened.once, open_plugin);
	if (opened.plugin)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "%s: %s it needs the plug-in for Parquet and Arrow (%s): run `make arrow`, or use Weir's images", path, verb,
	                 opened.why);
}

/* --- Reading */

static bool read_remote(void *context, int64_t offset, void *out, int64_t bytes, char why[TABLE_PLUGIN_WHY_BYTES])
{
	weir_error err;
	if (remote_file_read(context, (uint64_t)offset, out, (size_t)bytes, &err) == WEIR_OK)
		return true;
	snprintf(why, TABLE_PLUGIN_WHY_BYTES, "%.500s", err.text);
	return false;
}

/* Opens the file, or the object for which a note stands in its place. */
static weir_status open_handle(struct table_file *t, enum table_kind kind, weir_error *err)
{
	char why[TABLE_PLUGIN_WHY_BYTES] = "";
	struct remote_note note;
	struct table_source source = {.read = read_remote};
	const bool is_remote = remote_note_read(&note, t->path);
	if (is_remote) {
		const weir_status status = remote_file_open(&t->remote, &note, err);
		if (status != WEIR_OK)
			return status;
		source.bytes = (int64_t)note.look.bytes;
		source.context = t->remote;
	}
	return t->plugin->open(&t->handle, t->path, kind, is_remote ? &source : NULL, why)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_PARSE, "%s: %s", t->path, why);
}

weir_status table_file_open(struct table_file **out, const char *path, const struct table_layout *layout, weir_error *err)
{
	const enum table_kind kind = layout->rows == ROWS_PARQUET ? TABLE_PARQUET : TABLE_ARROW;
	weir_status status = need_plugin(path, "reading", err);
	if (status != WEIR_OK)
		return status;
	struct table_file *t = calloc(1, sizeof *t);
	if (!t || !(t->path = strdup(path))) {
		table_file_close(t);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	}
	t->plugin = opened.plugin;
	t->layout = layout;
	status = open_handle(t, kind, err);
	if (status != WEIR_OK) {
		table_file_close(t);
		return status;
	}
	*out = t;
	return WEIR_OK;
}

void table_file_close(struct table_file *t)
{
	if (!t)
		return;
	if (t->stream.release)
		t->stream.release(&t->stream);
	if (t->handle)
		t->plugin->close(t->handle);
	remote_file_close(t->remote);
	free(t->path);
	free(t);
}

uint64_t table_file_rows(const struct table_file *t)
{
	const int64_t rows = t->plugin->rows(t->handle);
	return rows > 0 ? (uint64_t)rows : 0;
}

weir_status table_file_schema(struct table_file *t, struct ArrowSchema *out, uint32_t *own, weir_error *err)
{
	char why[TABLE_PLUGIN_WHY_BYTES] = "";
	return t->plugin->schema(t->handle, out, own, why) ? WEIR_OK : weir_fail(err, WEIR_E_PARSE, "%s: %s", t->path, why);
}

weir_status table_file_begin(struct table_file *t, uint64_t begin, uint64_t end, weir_error *err)
{
	const struct table_layout *layout = t->layout;
	char why[TABLE_PLUGIN_WHY_BYTES] = "";
	const uint64_t rows = table_file_rows(t);
	uint32_t count = 0;
	const char **names = calloc(layout->columns + 1, sizeof *names);
	if (!names)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", t->path);
	for (uint32_t i = 0; i < layout->columns; i++)
		if (layout->kinds[i] != COLUMN_IGNORE)
			names[count++] = layout->names[i];
	if (t->stream.release)
		t->stream.release(&t->stream);
	t->stream.release = NULL;
	const bool begun = t->plugin->read(t->handle, names, count, (int64_t)(begin < rows ? begin : rows),
	                                   (int64_t)(end < rows ? end : rows), &t->stream, why);
	free(names);
	return begun ? WEIR_OK : weir_fail(err, WEIR_E_PARSE, "%s: %s", t->path, why);
}

static weir_status fail_stream(struct table_file *t, weir_error *err)
{
	const char *why = t->stream.get_last_error(&t->stream);
	return weir_fail(err, WEIR_E_PARSE, "%s: %.400s", t->path, why ? why : "it cannot be read");
}

weir_status table_file_next(struct table_file *t, struct ArrowSchema *schema, struct ArrowArray *batch, weir_error *err)
{
	*schema = (struct ArrowSchema){0};
	*batch = (struct ArrowArray){0};
	if (t->stream.get_next(&t->stream, batch) != 0)
		return fail_stream(t, err);
	if (!batch->release)
		return WEIR_OK;
	if (t->stream.get_schema(&t->stream, schema) == 0)
		return WEIR_OK;
	batch->release(batch);
	return fail_stream(t, err);
}

/* --- Writing */

bool table_file_is_parquet(const char *name)
{
	static const char ending[] = ".parquet";
	const size_t n = strlen(name), suffix = sizeof ending - 1;
	return n > suffix && strcmp(name + n - suffix, ending) == 0;
}

weir_status table_file_can_write(const char *name, weir_error *err)
{
	return table_file_is_parquet(name) ? need_plugin(name, "writing", err) : WEIR_OK;
}

weir_status table_file_from_csv(const char *path, uint32_t texts, enum table_number numbers, weir_error *err)
{
	char why[TABLE_PLUGIN_WHY_BYTES] = "", temporary[WEIR_PATH_BYTES_MAX];
	weir_status status = need_plugin(path, "writing", err);
	if (status != WEIR_OK)
		return status;
	if (snprintf(temporary, sizeof temporary, "%s.parquet.tmp", path) >= (int)sizeof temporary)
		return weir_fail(err, WEIR_E_LIMIT, "the path %.100s... is too long", path);
	if (!opened.plugin->write(path, temporary, texts, numbers, why))
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, why);
	else if (rename(temporary, path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
	if (status != WEIR_OK)
		unlink(temporary);
	return status;
}
