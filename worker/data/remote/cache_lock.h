/* The lock of a cache: one process fills it while others wait. */
#ifndef WEIR_CACHE_LOCK_H
#define WEIR_CACHE_LOCK_H

#include "weir/status.h"

/* Creates the folder and the lock file, and waits until no other process holds the lock. Close *fd
 * to release it. E_IO names the file. */
weir_status cache_lock(const char *dir, const char *path, int *fd, weir_error *err) WEIR_MUST_CHECK;

#endif
