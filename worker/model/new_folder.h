/* A folder that is there whole or not at all: its files are written under a temporary name beside it, which then becomes its own.
 *
 * What is there already stays: an empty folder may be taken, and with `replace` one that holds nothing but files as model folders have them. Should the machine stop
 * between the two renames that replacing takes, the earlier folder is whole beside its place, with ".old" behind its name. */
#ifndef WEIR_NEW_FOLDER_H
#define WEIR_NEW_FOLDER_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/system/disk.h"

struct new_folder {
	struct disk *disk;
	char path[WEIR_PATH_BYTES_MAX];      /* what it will be called */
	char temporary[WEIR_PATH_BYTES_MAX]; /* where its files are written */
	bool replaces;                       /* there is a folder of that name, which goes */
};

/* E_EXISTS says what is in the way. */
weir_status new_folder_begin(struct new_folder *f, const char *path, bool replace, weir_error *err) WEIR_MUST_CHECK;
/* After `written`, the status of what was written: OK gives the folder its name, all else removes what is there of it. Returns the first failure. */
weir_status new_folder_end(struct new_folder *f, weir_status written, weir_error *err) WEIR_MUST_CHECK;
bool folder_exists(const char *path);
/* FOLDER/NAME; E_LIMIT: it is too long. */
weir_status folder_file(const char *folder, const char *name, char path[WEIR_PATH_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;

#endif
