/* Creates a folder atomically: writes the files under a temporary name beside the target, then
 * renames it.
 *
 * An existing folder stays. The exceptions are an empty folder and, with `replace`, one that holds
 * only files of the kinds in model folders. Replacing takes two renames. If the machine stops
 * between them, the earlier folder is whole beside its place, with ".PID.old" appended to its name.
 * SIGINT, SIGTERM and SIGHUP remove the temporary folder, as they do a half-written file
 * (output.h). */
#ifndef WEIR_NEW_FOLDER_H
#define WEIR_NEW_FOLDER_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/system/disk.h"

struct new_folder {
	struct disk *disk;
	char path[WEIR_PATH_BYTES_MAX];      /* the final name */
	char temporary[WEIR_PATH_BYTES_MAX]; /* the folder while its files are being written */
	bool replaces;                       /* a folder with this name exists and will be removed */
};

/* E_EXISTS names the obstacle. */
weir_status new_folder_begin(struct new_folder *f, const char *path, bool replace, weir_error *err) WEIR_MUST_CHECK;
/* `written` is the status of writing the files. OK renames the folder to its final name; any other
 * status removes the temporary folder. Returns the first failure. */
weir_status new_folder_end(struct new_folder *f, weir_status written, weir_error *err) WEIR_MUST_CHECK;
bool folder_exists(const char *path);
/* Makes FOLDER/NAME. E_LIMIT: it is too long. */
weir_status folder_file(const char *folder, const char *name, char path[WEIR_PATH_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;

#endif
