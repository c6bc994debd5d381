#include "tests/unit/server/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

void folder_create(char out[FOLDER_BYTES])
{
	strcpy(out, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *at)
{
	(void)s;
	(void)flag;
	(void)at;
	return remove(path);
}

void folder_remove(const char *folder)
{
	assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
