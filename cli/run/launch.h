/* Starts and ends the processes of a run. */
#ifndef WEIR_LAUNCH_H
#define WEIR_LAUNCH_H

#include "cli/run/train.h"

/* Fills t->addresses and checks that servers can listen there now. */
weir_status launch_choose_addresses(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Checks that pages can be served: the pages of this command at `http` (NULL: none), and those of
 * metrics.port. Starts no server. */
weir_status launch_check_pages(const struct job *job, const char *http, weir_error *err) WEIR_MUST_CHECK;
/* Starts the servers at t->addresses and waits until they serve. Stores the addresses of the
 * servers that may have the ledger in RUN_DIR/ledger.address. */
weir_status launch_servers(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Imports the weights that the run starts from into the servers, unless that is already done. */
weir_status launch_warm_start(struct train *t, weir_error *err) WEIR_MUST_CHECK;
weir_status launch_workers(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Starts a copy of t->command for each of t->ranks. The environment tells it the job, its rank and
 * the certificates. Waits for servers that were started by other means. */
weir_status launch_commands(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Finds the program of t->command. E_NOT_FOUND, E_LIMIT. */
weir_status launch_find_program(const struct train *t, char out[WEIR_PATH_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;
uint32_t launch_server_index(const struct child *server); /* the number of the server */
/* Ends the workers, then the servers, and removes temporary files of the run. */
void launch_stop(struct train *t, uint32_t timeout_ms);

#endif
