#include "cli/observe/events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "tensorboard.pb-c.h"

#define FILE_NAME       "events.out.tfevents"
#define FILE_VERSION    "brain.Event:2"
#define VALUES_MAX      (16 + WEIR_FIGURES_MAX)
#define EVENT_BYTES_MAX (4u << 20)
#define CRC_MASK_DELTA  0xa282ead8u
#define HOST_BYTES      64
#define RECORD_HEAD     12 /* length and checksum of the length */
#define RECORD_TAIL     4

/* The scalar values of one point in time. */
struct moment {
	Weir__Tensorboard__Value values[VALUES_MAX];
	Weir__Tensorboard__Value *list[VALUES_MAX];
	double exact[VALUES_MAX]; /* before they become floats */
	size_t count;
	char tags[WEIR_FIGURES_MAX][sizeof "valid/" + WEIR_FIGURE_NAME_BYTES_MAX]; /* of further figures */
};

static void add(struct moment *m, char *tag, double value)
{
	Weir__Tensorboard__Value *v = &m->values[m->count];
	if (!isfinite(value) || m->count == VALUES_MAX)
		return;
	weir__tensorboard__value__init(v);
	v->tag = tag;
	v->value_case = WEIR__TENSORBOARD__VALUE__VALUE_SIMPLE_VALUE;
	v->simple_value = (float)value;
	m->exact[m->count] = value;
	m->list[m->count++] = v;
}

/* --- Records */

static uint32_t masked_crc(const uint8_t *bytes, size_t n)
{
	const uint32_t c = crc32c(0, bytes, n);
	return (c >> 15 | c << 17) + CRC_MASK_DELTA;
}

static weir_status failed(struct events *e, weir_error *err)
{
	const int code = errno;
	events_close(e);
	return weir_fail(err, WEIR_E_IO, "the run's events are written no more: %s", strerror(code));
}

weir_status events_write(struct events *e, const Weir__Tensorboard__Event *event, weir_error *err)
{
	const size_t n = weir__tensorboard__event__get_packed_size(event);
	if (!e->out)
		return WEIR_OK;
	if (n > EVENT_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "an event of %zu bytes; the most is %u", n, EVENT_BYTES_MAX);
	uint8_t *record = malloc(RECORD_HEAD + n + RECORD_TAIL);
	if (!record)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for an event of %zu bytes", n);
	put64(record, n);
	put32(record + sizeof(uint64_t), masked_crc(record, sizeof(uint64_t)));
	weir__tensorboard__event__pack(event, record + RECORD_HEAD);
	put32(record + RECORD_HEAD + n, masked_crc(record + RECORD_HEAD, n));
	const size_t bytes = RECORD_HEAD + n + RECORD_TAIL;
	const bool written = fwrite(record, 1, bytes, e->out) == bytes && fflush(e->out) == 0;
	free(record);
	return written ? WEIR_OK : failed(e, err);
}

static weir_status write_moment(struct events *e, struct moment *m, uint64_t step, int64_t wall_ms, weir_error *err)
{
	Weir__Tensorboard__Event event = WEIR__TENSORBOARD__EVENT__INIT;
	Weir__Tensorboard__Summary summary = WEIR__TENSORBOARD__SUMMARY__INIT;
	summary.n_value = m->count;
	summary.value = m->list;
	event.wall_time = (double)wall_ms / 1e3;
	event.step = (int64_t)step;
	event.summary = &summary;
	for (size_t i = 0; i < m->count && e->watch.value; i++)
		e->watch.value(e->watch.arg, m->values[i].tag, m->exact[i], step, wall_ms);
	return m->count > 0 ? events_write(e, &event, err) : WEIR_OK;
}

weir_status events_begin(struct events *e, uint64_t step, int64_t wall_ms, weir_error *err)
{
	Weir__Tensorboard__Event event = WEIR__TENSORBOARD__EVENT__INIT;
	Weir__Tensorboard__SessionLog start = WEIR__TENSORBOARD__SESSION_LOG__INIT;
	start.status = WEIR__TENSORBOARD__SESSION_STATUS__START;
	event.wall_time = (double)wall_ms / 1e3;
	event.step = (int64_t)step;
	event.session_log = &start;
	return events_write(e, &event, err);
}

/* --- Polls */

static void add_speed(struct moment *m, const struct overview *s, double samples_per_s)
{
	const double mfu = overview_mfu(s, samples_per_s, s->workers_live);
	add(m, "train/samples_per_s", samples_per_s);
	if (s->row_tokens)
		add(m, "train/tokens_per_s", samples_per_s * s->row_tokens);
	if (mfu > 0)
		add(m, "train/mfu", mfu);
}

static void add_training(struct moment *m, const struct events *e, const struct overview *s, double seconds)
{
	/* Fewer rows: the job rewound to a checkpoint. */
	const uint64_t rows = s->rows > e->rows ? s->rows - e->rows : 0;
	if (rows > 0 && s->loss_rows > e->loss_rows)
		add(m, "train/loss", (s->loss_sum - e->loss_sum) / (double)(s->loss_rows - e->loss_rows));
	if (rows > 0)
		add_speed(m, s, e->written_ms > 0 ? (double)rows / seconds : NAN);
	if (s->gradient_norm > 0)
		add(m, "train/gradient_norm", s->gradient_norm);
	add(m, "train/learning_rate", overview_learning_rate(s));
	add(m, "workers/live", s->workers_live);
	add(m, "bytes/pushed", (double)s->bytes_pushed);
	add(m, "bytes/pulled", (double)s->bytes_pulled);
	add(m, "staleness/p50", (double)overview_staleness_quantile(s, 0.5));
	add(m, "staleness/p99", (double)overview_staleness_quantile(s, 0.99));
	add(m, "compression/energy_sent", s->energy_sent);
	add(m, "compression/residual_norm", s->residual_norm);
}

/* Adds the metrics of an evaluation. Text has no AUC, and its loss appears as perplexity, which
 * says more than nats. Undefined values have no point. */
static void add_evaluation(struct moment *m, const struct overview *s)
{
	if (s->language) {
		add(m, "valid/loss", s->logloss);
		add(m, "valid/perplexity", exp(s->logloss));
	} else {
		add(m, "valid/auc", s->auc);
		add(m, "valid/logloss", s->logloss);
		for (uint32_t i = 0; i < s->figures.count; i++) {
			snprintf(m->tags[i], sizeof m->tags[i], "valid/%s", s->figures.items[i].name);
			add(m, m->tags[i], s->figures.items[i].value);
		}
	}
}

/* Writes an evaluation at the step of the end of its pass; the trainers may be further ahead. */
static weir_status write_evaluation(struct events *e, const struct overview *s, int64_t wall_ms, weir_error *err)
{
	struct moment m = {.count = 0};
	if (!s->evaluated_batches || s->evaluated_batches == e->evaluated_batches)
		return WEIR_OK;
	add_evaluation(&m, s);
	e->evaluated_batches = s->evaluated_batches;
	return write_moment(e, &m, s->evaluated_batches, wall_ms, err);
}

weir_status events_look(struct events *e, const struct overview *s, int64_t wall_ms, weir_error *err)
{
	struct moment m = {.count = 0};
	if (!e->out && !e->watch.value)
		return WEIR_OK;
	weir_status status = WEIR_OK;
	if (!e->begun || s->generation != e->generation) {
		status = events_begin(e, s->batches, wall_ms, err);
		/* TensorBoard keeps the points before the START. */
		const bool stands = (e->begun || e->goes_on) && s->evaluated_batches < s->batches;
		e->evaluated_batches = stands ? s->evaluated_batches : 0;
	}
	e->begun = true;
	e->generation = s->generation;
	if (status == WEIR_OK)
		status = write_evaluation(e, s, wall_ms, err);
	const bool last = s->state == JOB_FINISHED && s->rows > e->rows && wall_ms > e->written_ms;
	if (status != WEIR_OK || (wall_ms - e->written_ms < EVENTS_INTERVAL_MS && !last))
		return status;
	add_training(&m, e, s, (double)(wall_ms - e->written_ms) / 1e3);
	e->written_ms = wall_ms;
	e->rows = s->rows;
	e->loss_rows = s->loss_rows;
	e->loss_sum = s->loss_sum;
	return write_moment(e, &m, s->batches, wall_ms, err);
}

/* --- Opening and rewinding */

static weir_status note_file(void *arg, const char *name)
{
	bool *found = arg;
	*found |= strncmp(name, FILE_NAME, strlen(FILE_NAME)) == 0;
	return WEIR_OK;
}

weir_status events_open(struct events *e, const char *folder, int64_t wall_ms, weir_error *err)
{
	char host[HOST_BYTES] = "", path[WEIR_PATH_BYTES_MAX];
	*e = (struct events){.out = NULL};
	(void)gethostname(host, sizeof host - 1);
	const int n =
	    snprintf(path, sizeof path, "%s/" FILE_NAME ".%lld.%s.%d", folder, (long long)(wall_ms / 1000), host, (int)getpid());
	if (n < 0 || (size_t)n >= sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "the folder's name is too long for event files: %s", folder);
	weir_status status = disk_system()->ops->make_dirs(disk_system(), folder, err);
	if (status != WEIR_OK)
		return status;
	status = disk_system()->ops->list(disk_system(), folder, note_file, &e->goes_on, err);
	if (status != WEIR_OK)
		return status;
	e->out = fopen(path, "wbe");
	if (!e->out)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	Weir__Tensorboard__Event first = WEIR__TENSORBOARD__EVENT__INIT;
	first.wall_time = (double)wall_ms / 1e3;
	first.file_version = (char *)FILE_VERSION;
	return events_write(e, &first, err);
}

void events_close(struct events *e)
{
	if (e->out)
		(void)fclose(e->out);
	e->out = NULL;
}
