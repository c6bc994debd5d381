/* What the plug-in libweir_arrow.so gives: tables of Parquet and Arrow files, as streams of the
 * Arrow C stream interface, and Parquet files of tables in CSV. The plug-in is C++ on Arrow's
 * library; this is all that both sides share. Functions return false and a sentence in `why` when
 * they fail. */
#ifndef WEIR_TABLE_PLUGIN_H
#define WEIR_TABLE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/arrow_abi.h"

#define TABLE_PLUGIN_ABI       3u
#define TABLE_PLUGIN_WHY_BYTES 512u

enum table_kind { TABLE_PARQUET, TABLE_ARROW };
enum table_number { TABLE_FLOAT32, TABLE_FLOAT64 };

struct table_handle; /* an open file, of the plug-in */

/* A file that is not on this machine, by ranges. */
struct table_source {
	int64_t bytes;
	/* Reads [offset, offset + bytes), which is inside the file. Any thread may call it. */
	bool (*read)(void *context, int64_t offset, void *out, int64_t bytes, char why[TABLE_PLUGIN_WHY_BYTES]);
	void *context;
};

struct table_plugin {
	uint32_t abi;        /* TABLE_PLUGIN_ABI */
	const char *version; /* of Arrow's library */
	/* source: where the file is, if not at the path, whose folders may name columns; else NULL. It
	 * is copied, and its context outlives the handle. */
	bool (*open)(struct table_handle **out, const char *path, enum table_kind kind, const struct table_source *source,
	             char why[TABLE_PLUGIN_WHY_BYTES]);
	int64_t (*rows)(const struct table_handle *t);
	/* The file's columns, *own of them, then those that its folders name: NAME=VALUE. */
	bool (*schema)(struct table_handle *t, struct ArrowSchema *out, uint32_t *own, char why[TABLE_PLUGIN_WHY_BYTES]);
	/* Streams rows [begin, end) of these columns, in this order. The stream keeps the file open. */
	bool (*read)(struct table_handle *t, const char *const *columns, uint32_t count, int64_t begin, int64_t end,
	             struct ArrowArrayStream *out, char why[TABLE_PLUGIN_WHY_BYTES]);
	void (*close)(struct table_handle *t);
	/* Writes a CSV file with a header as Parquet. Its first `texts` columns are texts, the others
	 * numbers; an empty number is null. */
	bool (*write)(const char *csv, const char *out, uint32_t texts, enum table_number numbers, char why[TABLE_PLUGIN_WHY_BYTES]);
};

/* The plug-in's one symbol. */
#define TABLE_PLUGIN_SYMBOL "weir_table_plugin"
typedef const struct table_plugin *(*table_plugin_entry)(void);

#endif
