#include "server/snapshot/partition_reset.h"

#include <stddef.h>

static void on_emptied(struct cold_write *w)
{
	((struct partition_reset *)(void *)((char *)w - offsetof(struct partition_reset, empty)))->writing--;
}

static void on_flushed(struct cold_write *w)
{
	((struct partition_reset *)(void *)((char *)w - offsetof(struct partition_reset, flush)))->writing--;
}

/* Leaves only this header on disk. */
static void write_header(struct partition_reset *r, const void *header, size_t bytes)
{
	r->empty = (struct cold_write){.kind = COLD_WRITE_EMPTY,
	                               .partition = partition_id(r->partition),
	                               .header = header,
	                               .header_bytes = bytes,
	                               .run_on = r->run_on,
	                               .done = on_emptied};
	r->flush = (struct cold_write){.kind = COLD_WRITE_FLUSH, .run_on = r->run_on, .done = on_flushed};
	if (!r->writer)
		return;
	r->writing = 2;
	cold_writer_submit(r->writer, &r->empty);
	cold_writer_submit(r->writer, &r->flush);
}

static weir_status begin_log(struct partition_reset *r, weir_error *err)
{
	struct log *log = partition_log(r->partition);
	weir_status status = log->ops->restart(log, 1, err);
	if (!status)
		log->ops->sync(log);
	return status;
}

/* Whether the present stage is complete. */
static bool is_through(const struct partition_reset *r)
{
	struct log *log = partition_log(r->partition);
	switch (r->stage) {
	case RESET_STILL:
		return partition_is_still(r->partition);
	case RESET_LOG:
		return log->ops->is_restarted(log);
	default:
		return r->writing == 0;
	}
}

static weir_status check_written(const struct partition_reset *r, weir_error *err)
{
	const struct cold_write *w = r->empty.status ? &r->empty : &r->flush;
	return w->status ? weir_fail(err, w->status, "%s", w->err.text) : WEIR_OK;
}

/* Enters the next stage; the last one ends the reset. */
static weir_status advance(struct partition_reset *r, weir_error *err)
{
	weir_status status = WEIR_OK;
	size_t bytes;
	const struct log *log = partition_log(r->partition);
	const void *unfinished = snapshot_unfinished(&bytes);
	switch (r->stage) {
	case RESET_IDLE:
		partition_halt(r->partition);
		break;
	case RESET_STILL:
		write_header(r, unfinished, bytes);
		break;
	case RESET_VOID:
		status = check_written(r, err);
		if (!status)
			status = begin_log(r, err);
		break;
	case RESET_LOG:
		snapshot_put_anew(r->anew, log->ops->restarted(log));
		write_header(r, r->anew, sizeof r->anew);
		break;
	case RESET_HEADER:
		status = check_written(r, err);
		if (!status)
			status = partition_empty(r->partition, err);
		break;
	}
	if (!status)
		r->stage = r->stage == RESET_HEADER ? RESET_IDLE : r->stage + 1;
	return status;
}

weir_status partition_reset_go_on(struct partition_reset *r, weir_error *err)
{
	do {
		if (!is_through(r))
			return WEIR_E_BUSY;
		const weir_status status = advance(r, err);
		if (status)
			return status;
	} while (r->stage != RESET_IDLE);
	return WEIR_OK;
}
