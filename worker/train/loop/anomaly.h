/* Detects a run that goes wrong although its numbers stay finite (for those that do not, see
 * not_finite.h): the loss leaves its level, gradients explode, data do not come. Each anomaly is
 * reported once when it begins, and again only after it has ended. */
#ifndef WEIR_ANOMALY_H
#define WEIR_ANOMALY_H

#include <stdbool.h>
#include <stdint.h>

/* X(NAME)
 *   - LOSS: the mean of the last batches is twice its best value, and 0.1 nats above it.
 *   - GRADIENT: a norm is a hundred times that of the batches before.
 *   - DATA: the reader has brought no batch for train.anomaly.data_s. */
#define ANOMALY_MAP(X) \
	X(LOSS)            \
	X(GRADIENT)        \
	X(DATA)

enum anomaly {
#define ANOMALY_ENUM(name) ANOMALY_##name,
	ANOMALY_MAP(ANOMALY_ENUM)
#undef ANOMALY_ENUM
	    ANOMALIES
};

struct anomalies { /* zero-initialise */
	uint64_t batches;
	/* Means over the last few and the last many batches; the least of the latter. */
	double loss_fast, loss_slow, loss_best;
	double norm; /* mean over ordinary batches */
	bool present[ANOMALIES];
	char text[160];
};

/* Notes a batch with this mean loss and this norm of gradients (0: not known). Returns the anomaly
 * that has just begun, as a text valid until the next call; NULL: none. */
const char *anomalies_note_batch(struct anomalies *a, double loss, double norm);
/* Notes how long the reader has brought no batch; 0: it has brought one. Returns likewise. */
const char *anomalies_note_wait(struct anomalies *a, double seconds, double limit_s);

#endif
