/* The commit that is checked out around a folder, read from git's own files: no git is needed. */
#ifndef WEIR_GIT_COMMIT_H
#define WEIR_GIT_COMMIT_H

#include <stdbool.h>

#define GIT_COMMIT_BYTES 65u /* of SHA-256 in hexadecimal, with its NUL */

/* False: the folder is in no repository, or it has no commit yet. */
bool git_commit(const char *folder, char out[GIT_COMMIT_BYTES]);

#endif
