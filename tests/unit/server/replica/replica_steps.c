#include "tests/unit/server/replica/replica_steps.h"

#include "tests/cmocka_check.h"

const struct replica_options options = {
    .self = SELF, .incarnation = 3, .silent_ticks = 5, .stall_ticks = 10, .retry_ticks = 2, .grow_lag = 4};

struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary, uint16_t min_isr, uint16_t members)
{
	struct replica_record n = {.revision = revision, .epoch = epoch, .primary = primary, .min_isr = min_isr};
	for (uint16_t i = 0; i < 16; i++)
		if (members >> i & 1)
			member_set_add(&n.isr, i);
	return n;
}

void start(struct fixture *f, const struct replica_found *found)
{
	*f = (struct fixture){.r = replica_create(&options, found)};
	assert_non_null(f->r);
}

const struct replica_action *find(const struct fixture *f, enum replica_action_kind kind)
{
	for (uint32_t i = 0; i < f->out.count; i++)
		if (f->out.list[i].kind == kind)
			return &f->out.list[i];
	return NULL;
}

const struct replica_message *sent(const struct fixture *f, enum replica_message_kind kind, uint16_t to)
{
	for (uint32_t i = 0; i < f->out.count; i++)
		if (f->out.list[i].kind == REPLICA_DO_SEND && f->out.list[i].message.kind == kind && f->out.list[i].member == to)
			return &f->out.list[i].message;
	return NULL;
}

void tick(struct fixture *f)
{
	f->out.count = 0;
	heartbeat_tick(&f->heartbeat);
	replica_tick(f->r, &f->heartbeat, &f->out);
}

void read_record(struct fixture *f, struct replica_record n)
{
	f->out.count = 0;
	replica_read(f->r, &n, &f->out);
}

void change(struct fixture *f)
{
	struct replica_record n = find(f, REPLICA_DO_CHANGE)->record;
	n.revision++;
	f->out.count = 0;
	replica_changed(f->r, &n, &f->out);
}

void receive(struct fixture *f, struct replica_message m)
{
	m.to = SELF;
	f->out.count = 0;
	replica_receive(f->r, &m, &f->out);
}

void become_primary_of(struct fixture *f, uint16_t min_isr, uint16_t isr)
{
	start(f, &(struct replica_found){.whole = true});
	tick(f);
	assert_non_null(find(f, REPLICA_DO_READ));
	read_record(f, record_of(1, 0, MEMBER_NONE, min_isr, isr));
	change(f);
	assert_int_equal(find(f, REPLICA_DO_PROMISE)->epoch, 1);
	assert_false(replica_is_primary(f->r));
	f->out.count = 0;
	replica_promised(f->r, 1, &f->out);
	assert_int_equal(find(f, REPLICA_DO_BEGIN)->epoch, 1);
	assert_int_equal(!!sent(f, REPLICA_ESTABLISH, 2), !!(isr & 1 << 2));
	f->out.count = 0;
	replica_stored(f->r, 1, 1, &f->out);
}

void become_primary(struct fixture *f, uint16_t min_isr)
{
	become_primary_of(f, min_isr, 1 << 1 | 1 << 2);
}

void acknowledge(struct fixture *f, uint16_t from, uint64_t incarnation, uint64_t last)
{
	receive(f, (struct replica_message){.kind = REPLICA_ACK, .from = from, .epoch = 1, .incarnation = incarnation, .last = last});
}

struct replica_found found_log(uint64_t last)
{
	struct replica_found found = {.first = 1, .last = last, .durable = last, .applied = 2, .whole = true};
	epochs_begin(&found.epochs, 1, 1);
	return found;
}
