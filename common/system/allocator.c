/* Settings of the programs' allocator, made before anything runs. Only programs link this file: a
 * library does not configure its host's allocator.
 *
 * Received gradients arrive and go in 64 KiB slices, gigabytes per second. By default, mimalloc
 * returns memory to the system 25 ms after it is freed, so the same pages are returned, cleared and
 * faulted in again: a fifth of a push's processor time. These settings keep the pages for ten
 * seconds. */
#include <mimalloc.h>

#define KEEP_FREED_MS 10000

__attribute__((constructor)) static void allocator_keep_memory(void)
{
	mi_option_set(mi_option_decommit_delay, KEEP_FREED_MS);
	mi_option_set(mi_option_segment_decommit_delay, KEEP_FREED_MS);
}
