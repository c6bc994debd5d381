/* Servers' low-water marks in the ledger: which report shows a disk that went back, the outcome for
 * the job, and what the log keeps of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/client/ledger_fixture.h"

static const struct ledger_options options = {.lease_ms = 1000, .passes = 2};

struct told {
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
	size_t totals;
	uint64_t parts, fingerprint; /* of the first partition */
};

static void on_reply(void *arg, const ProtobufCMessage *m)
{
	const Weir__V1__MarkReply *r = (const Weir__V1__MarkReply *)m;
	struct told *t = arg;
	t->status = (weir_status)r->status->code;
	strcpy(t->text, r->status->text);
	t->totals = r->n_totals;
	t->parts = r->n_totals ? r->totals[0]->parts : 0;
	t->fingerprint = r->n_totals ? r->totals[0]->fingerprint : 0;
}

static struct told ask(struct fixture *f, Weir__V1__MarkRequest q)
{
	struct told t = {.status = WEIR_E_INTERNAL};
	q.job = fixture_job();
	ledger_server_mark(f->ledger, &q, on_reply, &t);
	return t;
}

/* A report of server 1. */
static struct told report(struct fixture *f, uint64_t epoch, uint64_t began, uint64_t position)
{
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	q.server = 1;
	q.epoch = epoch;
	q.began = began;
	q.position = position;
	return ask(f, q);
}

static void assert_goes_on(struct fixture *f)
{
	assert_string_equal(fixture_status(f).failure, "");
}

static void a_disk_that_is_honest_goes_on(void **state)
{
	struct fixture f;
	(void)state;
	fixture_open(&f, &options, 1);
	assert_int_equal(report(&f, 1, 0, 100).status, WEIR_OK);
	assert_int_equal(report(&f, 1, 0, 100).status, WEIR_OK); /* a repetition */
	assert_int_equal(report(&f, 1, 0, 900).status, WEIR_OK);
	assert_int_equal(report(&f, 2, 900, 950).status, WEIR_OK);   /* restarted with its whole log */
	assert_int_equal(report(&f, 4, 1000, 1000).status, WEIR_OK); /* one start never reported */
	assert_goes_on(&f);
	fixture_close(&f);
}

/* A verdict may come from a delayed report. The job fails once the server confirms it. */
static void say_again(struct fixture *f, const struct told *t)
{
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	assert_int_equal(t->status, WEIR_E_STALE);
	assert_goes_on(f);
	q.server = 1;
	q.amiss = (char *)t->text;
	assert_int_equal(ask(f, q).status, WEIR_OK);
	const char *failure = fixture_status(f).failure;
	assert_non_null(strstr(failure, t->text));
	assert_non_null(strstr(failure, "weir restore"));
}

static void a_report_that_comes_late_changes_nothing(void **state)
{
	struct fixture f;
	(void)state;
	fixture_open(&f, &options, 1);
	assert_int_equal(report(&f, 3, 500, 1000).status, WEIR_OK);
	assert_int_equal(report(&f, 3, 500, 700).status, WEIR_E_STALE);
	assert_int_equal(report(&f, 2, 100, 500).status, WEIR_E_STALE); /* from the previous process */
	assert_int_equal(report(&f, 3, 500, 1000).status, WEIR_OK);
	assert_goes_on(&f);
	fixture_close(&f);
}

static void fails(uint64_t epoch, uint64_t began, uint64_t position)
{
	struct fixture f;
	fixture_open(&f, &options, 1);
	assert_int_equal(report(&f, 3, 500, 1000).status, WEIR_OK);
	const struct told t = report(&f, epoch, began, position);
	assert_non_null(strstr(t.text, "server 1 has gone back in time"));
	say_again(&f, &t);
	/* a later report does not revive the job */
	assert_int_equal(report(&f, 9, 2000, 2000).status, WEIR_OK);
	assert_non_null(strstr(fixture_status(&f).failure, t.text));
	fixture_close(&f);
}

static void a_disk_that_went_back_fails_the_job(void **state)
{
	(void)state;
	fails(2, 400, 1200); /* an old copy of the folder was started */
	fails(3, 400, 450);  /* with as many starts as the newest */
	fails(3, 500, 999);
	fails(4, 999, 1100); /* its log lacks the end */
}

/* Closed units stay closed: if a partition knows of later attempts than the ledger, the ledger has
 * an old log. */
static void a_ledger_that_went_back_fails_the_job(void **state)
{
	struct fixture f;
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	Weir__V1__UnitMark low = WEIR__V1__UNIT_MARK__INIT;
	(void)state;
	fixture_open(&f, &options, 1);
	struct joined w = fixture_join(&f, "a", WEIR__V1__ROLE__TRAINER, 7, 3);
	struct leased u = fixture_lease(&f, &w, 1);
	assert_int_equal(fixture_commit(&f, &w, &u, 5), WEIR_OK);
	q.closed_low = &low;
	low.unit = 1;
	assert_int_equal(ask(&f, q).status, WEIR_OK);
	assert_goes_on(&f);
	low.unit = 2;
	const struct told t = ask(&f, q);
	assert_non_null(strstr(t.text, "the ledger has gone back in time"));
	say_again(&f, &t);
	fixture_close(&f);
}

static void partitions_are_told_what_they_must_have(void **state)
{
	struct fixture f;
	uint32_t asked[] = {2, 9};
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	(void)state;
	fixture_open(&f, &options, 1);
	struct joined w = fixture_join(&f, "a", WEIR__V1__ROLE__TRAINER, 7, 3);
	struct leased u = fixture_lease(&f, &w, 1);
	q.partitions = asked;
	q.n_partitions = 1;
	assert_int_equal(ask(&f, q).parts, 0);
	assert_int_equal(fixture_commit(&f, &w, &u, 5), WEIR_OK);
	struct told t = ask(&f, q);
	assert_true(t.status == WEIR_OK && t.totals == 1 && t.parts == 5);
	assert_int_equal(t.fingerprint, fixture_status(&f).fingerprint[2]);
	q.n_partitions = 2; /* the second one is invalid */
	assert_int_equal(ask(&f, q).status, WEIR_E_INVALID);
	assert_goes_on(&f);
	q.n_partitions = 1;
	q.amiss = (char[]){"partition 2 has fewer"};
	assert_int_equal(ask(&f, q).status, WEIR_OK);
	assert_non_null(strstr(fixture_status(&f).failure, "partition 2 has fewer"));
	fixture_close(&f);
}

static void merge(struct ledger *l, struct message *m)
{
	weir_error err = {0};
	assert_int_equal(ledger_merge(l, m->spans[0].data, m->bytes, NULL, &err), WEIR_OK);
	message_release(m);
}

static void the_log_has_them_until_another_generation(void **state)
{
	struct fixture f, restored;
	struct message *m = NULL;
	struct ledger *next;
	weir_error err = {0};
	(void)state;
	fixture_open(&f, &options, 1);
	fixture_open(&restored, &options, 1);
	ledger_record_changes(f.ledger);
	assert_int_equal(report(&f, 3, 500, 1000).status, WEIR_OK);
	assert_int_equal(ledger_export_changes(f.ledger, &m, &err), WEIR_OK);
	assert_non_null(m);
	merge(restored.ledger, m);
	assert_int_equal(ledger_export_changes(f.ledger, &m, &err), WEIR_OK);
	assert_null(m);
	assert_int_equal(report(&f, 3, 500, 1000).status, WEIR_OK); /* nothing new: no log entry */
	assert_int_equal(ledger_export_changes(f.ledger, &m, &err), WEIR_OK);
	assert_null(m);
	assert_int_equal(report(&restored, 4, 900, 1100).status, WEIR_E_STALE);
	/* A checkpoint's marks say nothing about the next generation's folders. */
	static const char *const servers[] = {"memory:0", "memory:1"};
	struct ledger_options o = options;
	o.clock = &f.clock.base;
	o.entropy = &f.entropy;
	memcpy(o.uuid, fixture_job()->uuid.data, sizeof o.uuid);
	o.generation = 2;
	o.partitions = FIXTURE_PARTITIONS;
	o.servers_count = 2;
	o.servers = servers;
	o.partition_server = f.partition_server;
	assert_int_equal(ledger_create(&next, &o, &err), WEIR_OK);
	assert_int_equal(ledger_export_all(f.ledger, 1, &m, &err), WEIR_OK);
	merge(next, m);
	Weir__V1__JobId job = *fixture_job();
	job.generation = 2;
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	struct told t = {.status = WEIR_E_INTERNAL};
	q.job = &job;
	q.server = 1;
	q.epoch = 1;
	ledger_server_mark(next, &q, on_reply, &t);
	assert_int_equal(t.status, WEIR_OK);
	ledger_destroy(next);
	fixture_close(&f);
	fixture_close(&restored);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_disk_that_is_honest_goes_on),           cmocka_unit_test(a_report_that_comes_late_changes_nothing),
	    cmocka_unit_test(a_disk_that_went_back_fails_the_job),     cmocka_unit_test(a_ledger_that_went_back_fails_the_job),
	    cmocka_unit_test(partitions_are_told_what_they_must_have), cmocka_unit_test(the_log_has_them_until_another_generation),
	};
	return cmocka_run_group_tests_name("ledger_marks", tests, NULL, NULL);
}
