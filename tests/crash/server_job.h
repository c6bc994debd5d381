/* The recorded job of the crash test of a server, and the checks of a server that starts on its
 * folder again. */
#ifndef WEIR_TESTS_SERVER_JOB_H
#define WEIR_TESTS_SERVER_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/crash/image.h"
#include "tests/crash/scenario.h"

#define MARK_BUILT "built"

enum outcome { FINE = 0, WRONG = 1, REFUSED = 10, REFUSED_FOLDER = 11, LOST = 12 };

extern pid_t first_process;
_Noreturn void print_and_exit(const char *what, const char *why);
/* Runs in a child of this program; run_recorded gives argv. */
int run_scenario(char **argv);
/* Checks that the job still covers journal truncation and compaction. */
void check_coverage(const struct disk_trace *t);
/* Runs the job on the folder under the recorder. It dies after `pushes` pushes (0: runs to the
 * end). crashed: a trace whose crash at moment and fate the folder begins with; NULL: the folder as
 * it is. */
void run_recorded(const char *trace, const char *folder, uint32_t pushes, const char *crashed, size_t moment, size_t fate);

/* --- Checks of a recovered server */

struct was_told { /* what the trainer was told before the machine died */
	bool pushed[PASSES][UNITS][BATCHES], committed[PASSES][UNITS];
	uint32_t pushes;
};

void take_mark(void *arg, const char *text);
void check_told(const struct was_told *t, const struct job_applied applied[PARTITIONS], uint32_t step_partition);
void look(struct job *j, struct job_applied applied[PARTITIONS]);
/* The rows match the partitions' reports. Nobody pushes, but partitions may still receive a step
 * that the ledger had closed; then they are read again. */
weir_status check_sums(struct job *j, weir_error *err);
/* Every row has every batch once. */
void check_end(struct job *j);
int check_image(const char *folder, const struct was_told *told);

#endif
