/* Event files for TensorBoard: `tensorboard --logdir runs` shows a job's curves while it trains.
 *
 * A run of `weir train` writes a file RUN_DIR/events/events.out.tfevents.SECONDS.HOST.PID, records one behind the other, little-endian:
 *
 *     0         8              12             12 + n
 *     +---------+--------------+--------------+--------------+
 *     | u64 n   | u32 masked   | n bytes:     | u32 masked   |      masked: (c >> 15 | c << 17) + 0xa282ead8, where c is the crc32c of
 *     |         | crc of the 8 | an Event     | crc of the n |      the bytes before (TensorFlow's record format)
 *     +---------+--------------+--------------+--------------+
 *
 * An event's step is the batches that the job has trained. A run, a resumed one and one that has gone back to a checkpoint begin with a SessionLog START at their step:
 * TensorBoard forgets what the files before say of that step and later ones. So does a file that `weir restore` writes. */
#ifndef WEIR_EVENTS_H
#define WEIR_EVENTS_H

#include <stdint.h>
#include <stdio.h>

#include "overview/overview.h"

#define EVENTS_FOLDER      "events" /* in RUN_DIR */
#define EVENTS_INTERVAL_MS 1000     /* between looks that are written, but for evaluations */

struct events {
	FILE *out; /* NULL: not open */
	int64_t written_ms;
	uint64_t rows; /* of the last look that was written */
	uint64_t loss_rows;
	double loss_sum;
	uint64_t evaluated_batches; /* of the last evaluation that was written; 0: none */
	uint64_t generation;        /* of the job at the last look */
	bool begun;                 /* there was one */
};

/* Makes the folder, too. E_IO: the file cannot be made. wall_ms: since 1970. */
weir_status events_open(struct events *e, const char *folder, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* A look at the job: training loss and speed since the last one, bytes, staleness and compression so far, and an evaluation that is new. After a failure
 * (E_IO: the disk is full) the file is closed, and nothing more is written. */
weir_status events_look(struct events *e, const struct overview *s, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* Values of that step and later ones in files so far are of no account. */
weir_status events_begin(struct events *e, uint64_t step, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
void events_close(struct events *e);

#endif
