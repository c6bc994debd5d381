/* Refused connections end after WEIR_REFUSAL_MS, or sooner where too many are held. */
#include "proto/rpc/refused.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/system/process.h"
#include "tests/cmocka_check.h"

enum { NOW = 0, PATIENCE_MS = 60000 };

/* Returns the peer's end of a connection that is refused. */
static int refuse_one(void)
{
	int ends[2];
	assert_true(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	refused_hold(ends[0]);
	return ends[1];
}

static bool has_ended(int peer, int wait_ms)
{
	return poll(&(struct pollfd){.fd = peer, .events = POLLIN}, 1, wait_ms) == 1;
}

static void a_refused_connection_ends_later(void **state)
{
	(void)state;
	for (int again = 0; again < 2; again++) {
		const int64_t begin_ns = clock_ns(clock_system());
		const int peer = refuse_one();
		assert_true(has_ended(peer, PATIENCE_MS));
		assert_true(clock_ns(clock_system()) - begin_ns >= WEIR_REFUSAL_MS * 1000000ll);
		close(peer);
	}
}

static void the_oldest_makes_room(void **state)
{
	(void)state;
	enum { HELD = WEIR_REFUSED_HELD_MAX };
	int peers[HELD + 1];
	process_raise_descriptors();
	for (int i = 0; i <= HELD; i++)
		peers[i] = refuse_one();
	assert_true(has_ended(peers[0], NOW));
	for (int i = 0; i <= HELD; i++) {
		assert_true(has_ended(peers[i], PATIENCE_MS));
		close(peers[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_refused_connection_ends_later),
	    cmocka_unit_test(the_oldest_makes_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
