/* Where the servers of a job are, as far as its job file and its run folder say. */
#ifndef WEIR_JOB_SERVERS_H
#define WEIR_JOB_SERVERS_H

#include "common/job/job.h"

/* Splits cluster.listen, "HOST:PORT". E_INVALID. */
weir_status job_servers_split_listen(const char *listen, char *host, size_t host_bytes, unsigned *port,
                                     weir_error *err) WEIR_MUST_CHECK;
/* RUN_DIR/ledger.address: where the ledger of the job that runs there is. */
void job_servers_ledger_file(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32]);
/* Adds an address to "A,B". */
void job_servers_add_place(char out[JOB_PLACES_BYTES], const char *address);
/* E_BUSY names a server of the job that runs, though this command has not started it: its folder is
 * locked, or something answers at its address. who: this command, for the lock. */
weir_status job_servers_check_idle(const struct job *job, const char *who, weir_error *err) WEIR_MUST_CHECK;
/* Where the job's ledger may be, "A,B,C": at `at` (--at; may be NULL), else as cluster.servers_at,
 * RUN_DIR/ledger.address or cluster.listen says. E_NOT_FOUND: unknown, or the job ran here and ended. */
weir_status job_servers_find_ledger(const struct job *job, const char *at, char out[JOB_PLACES_BYTES],
                                    weir_error *err) WEIR_MUST_CHECK;

#endif
