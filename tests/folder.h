/* Temporary folders of tests. */
#ifndef WEIR_TESTS_FOLDER_H
#define WEIR_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/cmocka_check.h"

#define FOLDER_BYTES 64

enum { FOLDER_FILES_OPEN_MAX = 16 };

/* Makes an empty folder with a new name. */
static inline void folder_create(char out[FOLDER_BYTES])
{
	strcpy(out, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(out));
}

/* For folder_delete. */
static inline int folder_delete_entry(const char *path, const struct stat *s, int flag, struct FTW *at)
{
	(void)s, (void)flag, (void)at;
	return remove(path);
}

/* Removes the folder with everything in it. Returns 0, or -1 with errno. */
static inline int folder_delete(const char *folder)
{
	return nftw(folder, folder_delete_entry, FOLDER_FILES_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
}

/* The same; fails the test on an error. */
static inline void folder_remove(const char *folder)
{
	assert_int_equal(folder_delete(folder), 0);
}

#endif
