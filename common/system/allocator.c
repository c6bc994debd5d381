/* How the programs' allocator is set, before anything runs. Linked into programs only: a library does not set its host's allocator.
 *
 * Received gradients come and go as 64 KiB slices, gigabytes a second. mimalloc gives memory back to the system 25 ms after it was freed, so the
 * same pages are given back, cleared and faulted in again: a fifth of all processor time of a push. Here it keeps them for ten seconds. */
#include <mimalloc.h>

#define KEEP_FREED_MS 10000

__attribute__((constructor)) static void allocator_keep_memory(void)
{
	mi_option_set(mi_option_decommit_delay, KEEP_FREED_MS);
	mi_option_set(mi_option_segment_decommit_delay, KEEP_FREED_MS);
}
