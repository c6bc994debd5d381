#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "tests/cmocka_check.h"

enum { NS_PER_MS = 1000000 };

struct signalled {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
};

static void open_signalled(struct signalled *s)
{
	*s = (struct signalled){.lock = PTHREAD_MUTEX_INITIALIZER};
	deadline_cond_init(&s->changed);
}

static void close_signalled(struct signalled *s)
{
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
}

static void *signal_it(void *arg)
{
	struct signalled *s = arg;
	pthread_mutex_lock(&s->lock);
	s->done = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static bool await_signal(struct signalled *s, int64_t deadline_ns)
{
	pthread_t id;
	assert_int_equal(pthread_create(&id, NULL, signal_it, s), 0);
	pthread_mutex_lock(&s->lock);
	while (!s->done && deadline_wait(&s->changed, &s->lock, deadline_ns))
		;
	const bool done = s->done;
	pthread_mutex_unlock(&s->lock);
	pthread_join(id, NULL);
	return done;
}

static void a_deadline_is_so_long_from_now(void **state)
{
	(void)state;
	const int64_t before_ns = clock_ns(clock_system());
	const int64_t in_ns = deadline_after_ns(1500), in_ms = deadline_after_ms(1500);
	const int64_t after_ns = clock_ns(clock_system());
	assert_true(in_ns >= before_ns + 1500 && in_ns <= after_ns + 1500);
	assert_true(in_ms >= before_ns + 1500 * (int64_t)NS_PER_MS && in_ms <= after_ns + 1500 * (int64_t)NS_PER_MS);
	assert_true(deadline_at_ms(1500) == 1500 * (int64_t)NS_PER_MS);
}

static void an_uncountable_deadline_never_comes(void **state)
{
	(void)state;
	assert_true(deadline_after_ns(-1) == DEADLINE_NEVER);
	assert_true(deadline_after_ms(-1) == DEADLINE_NEVER);
	assert_true(deadline_after_ms(INT64_MIN / NS_PER_MS) == DEADLINE_NEVER);
	assert_true(deadline_after_ns(INT64_MAX - 1) == DEADLINE_NEVER);
	assert_true(deadline_after_ms(INT64_MAX) == DEADLINE_NEVER);
	assert_true(deadline_after_ms(INT64_MAX / NS_PER_MS) == DEADLINE_NEVER);
	assert_true(deadline_at_ms(-1) == DEADLINE_NEVER);
	assert_true(deadline_at_ms(INT64_MAX / NS_PER_MS + 1) == DEADLINE_NEVER);
}

static void it_passes_and_not_before(void **state)
{
	(void)state;
	struct signalled s;
	open_signalled(&s);
	for (int64_t ms = 0; ms < 20; ms += 7) {
		const int64_t deadline_ns = deadline_after_ms(ms);
		pthread_mutex_lock(&s.lock);
		while (deadline_wait(&s.changed, &s.lock, deadline_ns))
			;
		pthread_mutex_unlock(&s.lock);
		assert_true(clock_ns(clock_system()) >= deadline_ns);
	}
	close_signalled(&s);
}

static void a_signalled_waiter_goes_on(void **state)
{
	(void)state;
	const int64_t deadlines_ns[] = {deadline_after_ms(600000), DEADLINE_NEVER};
	for (size_t i = 0; i < sizeof deadlines_ns / sizeof *deadlines_ns; i++) {
		struct signalled s;
		open_signalled(&s);
		assert_true(await_signal(&s, deadlines_ns[i]));
		close_signalled(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_deadline_is_so_long_from_now),
	    cmocka_unit_test(an_uncountable_deadline_never_comes),
	    cmocka_unit_test(it_passes_and_not_before),
	    cmocka_unit_test(a_signalled_waiter_goes_on),
	};
	return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
