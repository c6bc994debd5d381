/* The addresses of a job's servers, from its job file and its run folder. */
#ifndef WEIR_JOB_SERVERS_H
#define WEIR_JOB_SERVERS_H

#include "common/job/job.h"

/* Splits cluster.listen, "HOST:PORT", into host and port. E_INVALID. */
weir_status job_servers_split_listen(const char *listen, char *host, size_t host_bytes, unsigned *port,
                                     weir_error *err) WEIR_MUST_CHECK;
/* Returns the path RUN_DIR/ledger.address, a file with the addresses of the servers that may have
 * the ledger of the job that runs there, "A,B,C". */
void job_servers_ledger_file(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32]);
/* Makes the paths of sockets in "A,B" absolute, for processes that work in other folders. A path
 * that would be too long for a socket stays as it is. */
void job_servers_absolute(char places[JOB_PLACES_BYTES]);
/* Adds an address to "A,B". */
void job_servers_add_place(char out[JOB_PLACES_BYTES], const char *address);
/* Checks that no server of the job runs that this command did not start. E_BUSY names a running
 * one: its folder is locked, or something answers at its address. who: this command, for the
 * lock. */
weir_status job_servers_check_idle(const struct job *job, const char *who, weir_error *err) WEIR_MUST_CHECK;
/* Returns the possible addresses of the job's ledger, "A,B,C": `at` (--at; may be NULL), or those
 * of cluster.servers_at, RUN_DIR/ledger.address or cluster.listen. E_NOT_FOUND: unknown, or the job
 * ran here and has ended. */
weir_status job_servers_find_ledger(const struct job *job, const char *at, char out[JOB_PLACES_BYTES],
                                    weir_error *err) WEIR_MUST_CHECK;

#endif
