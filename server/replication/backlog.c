#include "server/replication/backlog.h"

void backlog_open(struct backlog *b, struct partition *p)
{
	*b = (struct backlog){.pin = {.first = partition_applied(p) + 1}, .counted = partition_applied(p)};
	partition_pin(p, &b->pin);
}

void backlog_close(struct backlog *b, struct partition *p)
{
	partition_unpin(p, &b->pin);
}

static uint64_t bytes_of(struct log *log, uint64_t index)
{
	return log->ops->get(log, index)->record.bytes;
}

void backlog_trim(struct backlog *b, const struct partition *p, uint64_t owed, uint64_t bytes_max)
{
	struct log *log = partition_log(p);
	while (b->counted < partition_applied(p)) {
		log->ops->compact(log, ++b->counted);
		b->bytes += bytes_of(log, b->counted);
	}
	while (b->bytes > bytes_max && b->pin.first < owed && b->pin.first <= b->counted)
		b->bytes -= bytes_of(log, b->pin.first++);
}
