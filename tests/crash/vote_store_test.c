/* Every crash of the vote store. A real server that acknowledges pushes from the page cache lives
 * several times under interpose.c, and votes now and then. For every moment and every fate
 * (image.h), a server starts on the resulting folder. No vote that was answered is missing, and a
 * partition that is whole has everything it ever acknowledged. Then two more starts follow, one
 * after the death of the process, and one after an orderly end and another boot of the machine.
 * They must find the same partitions whole as the first. These follow every loss, and some images
 * without one.
 *
 *   test_crash_votes [MOMENTS]
 *
 * Tests every MOMENTS-th moment, and each one after an acknowledgement or an orderly end.
 * WEIR_INTERPOSE names the recording library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/service/server_internal.h"
#include "tests/cmocka_check.h"
#include "tests/crash/image.h"
#include "tests/crash/need.h"
#include "tests/crash/scenario.h"
#include "tests/executor_at_once.h"
#include "tests/folder.h"

enum { MOMENTS_DEFAULT = 97, AGAIN_EVERY = 4 /* fates */, SECONDS_MAX = 60 /* for one start */ };
enum { BOOT_CRASHED = 8, BOOT_LATER = 9 }; /* boots of the machine after it died */
/* Findings of a start, as an exit code: WHOLE << partition, and LOST if an entry is missing. FOUND
 * marks the code as one of these. */
enum { WHOLE = 1, LOST = 1 << PARTITIONS, FOUND = 1 << 5 };
static_assert((LOST | (LOST - 1)) < FOUND, "an exit code must hold what was found");
#define ENDED "ended"

static const struct life {
	uint8_t boot;
	uint32_t pushes;
	bool ends_in_order;
} lives[] = {{1, 3, false}, {1, 3, false}, {1, 2, true}, {2, 2, false}};
enum { LIVES = sizeof lives / sizeof *lives };

static char base[64], folder[128], trace_file[128];

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg;
	need(false, err->text);
}

static void start(struct job *j, const char *where, uint8_t boot)
{
	weir_error err = {0};
	const struct job_options o = {.folder = where, .failed = on_failed, .machine_boot = boot, .cached = true};
	need(job_start(j, &o, &err) == WEIR_OK, err.text);
}

static struct vote found_by(const struct job *j, uint32_t partition)
{
	return vote_store_found(j->server->identity.votes, (uint16_t)partition);
}

/* --- The child: one life of the server */

static void mark(const char *format, uint32_t partition, uint64_t number)
{
	char text[64];
	snprintf(text, sizeof text, format, partition, (unsigned long long)number);
	image_mark(trace_file, text);
}

struct call {
	struct vote_write write;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
};

static void note_done(struct vote_write *w)
{
	struct call *c = (struct call *)w;
	pthread_mutex_lock(&c->lock);
	c->done = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void vote(struct job *j, uint32_t partition, uint64_t epoch)
{
	struct call c = {.write = {.partition = (uint16_t)partition,
	                           .vote = {.promised = epoch, .whole = true},
	                           .run_on = EXECUTOR_AT_ONCE,
	                           .done = note_done},
	                 .lock = PTHREAD_MUTEX_INITIALIZER,
	                 .changed = PTHREAD_COND_INITIALIZER};
	vote_store_submit(j->server->identity.votes, &c.write);
	pthread_mutex_lock(&c.lock);
	while (!c.done)
		pthread_cond_wait(&c.changed, &c.lock);
	pthread_mutex_unlock(&c.lock);
	need(c.write.status == WEIR_OK, c.write.err.text);
	mark("promised %u %llu", partition, epoch);
}

/* After an acknowledged push: marks what the trainer was told, and one partition votes. */
static void on_push(void *arg, uint32_t pass, uint32_t unit, uint32_t batch)
{
	struct job *j = arg;
	(void)pass, (void)unit;
	uint64_t told[PARTITIONS];
	pthread_mutex_lock(&j->client->lock);
	memcpy(told, j->client->acknowledged, sizeof told);
	pthread_mutex_unlock(&j->client->lock);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		mark("stored %u %llu", p, told[p]);
	const uint32_t p = batch % PARTITIONS;
	vote(j, p, found_by(j, p).promised + batch + 1);
}

static int child(const struct life *l)
{
	struct job j;
	weir_error err = {0};
	start(&j, folder, l->boot);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		if (found_by(&j, p).promised == 0) /* first start: there was no primary before */
			vote(&j, p, 1);
		else
			need(found_by(&j, p).whole, "nothing was lost, and a partition is not whole");
	const struct job_events events = {.acknowledged = on_push, .arg = &j, .pushes = l->pushes};
	need(job_join(&j, &err) == WEIR_OK, err.text);
	need(job_train(&j, &events, &err) == WEIR_E_CANCELLED, "the job ended too soon");
	if (!l->ends_in_order)
		_exit(0);
	job_stop(&j);
	image_mark(trace_file, ENDED);
	return 0;
}

static struct disk_trace *record(void)
{
	assert_int_equal(mkdir(folder, 0700), 0);
	for (uint32_t i = 0; i < LIVES; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			char life[8];
			snprintf(life, sizeof life, "%u", i);
			setenv(TRACE_FILE_ENV, trace_file, 1);
			setenv(TRACE_ROOT_ENV, folder, 1);
			setenv(TRACE_SKIP_ENV, "LOCK:journal/LOCK:db/LOCK:db/LOG", 1);
			setenv("LD_PRELOAD", getenv("WEIR_INTERPOSE"), 1);
			execl("/proc/self/exe", "crash_votes", "life", base, life, (char *)NULL);
			_exit(4);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	return trace_load(trace_file);
}

/* --- Images */

struct was_told {
	uint64_t stored[PARTITIONS], promised[PARTITIONS];
};

static void take_mark(void *arg, const char *text)
{
	struct was_told *t = arg;
	uint32_t p;
	unsigned long long n;
	/* A client that has just joined begins with 0. */
	if (sscanf(text, "stored %u %llu", &p, &n) == 2)
		t->stored[p] = n > t->stored[p] ? n : t->stored[p];
	else if (sscanf(text, "promised %u %llu", &p, &n) == 2)
		t->promised[p] = n;
}

static int look(struct job *j, const struct was_told *told)
{
	int found = FOUND;
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct job_applied applied;
		const struct vote kept = found_by(j, p);
		job_applied(j, p, &applied);
		/* The last entry is the first of this start's epoch. */
		const bool lost = applied.index - 1 < told->stored[p];
		need(kept.promised >= told->promised[p], "a promise that was answered is gone");
		need(!kept.whole || !lost, "a partition that has lost entries is whole");
		found |= kept.whole ? WHOLE << p : 0;
		found |= lost ? LOST : 0;
	}
	return found;
}

/* Starts a server on the folder in a process of its own and returns its findings. The server then
 * ends in order, or dies. */
static int found_in(const char *image, uint8_t boot, const struct was_told *told, bool ends_in_order)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct job j;
		alarm(SECONDS_MAX);
		start(&j, image, boot);
		const int found = look(&j, told);
		if (ends_in_order)
			job_stop(&j);
		_exit(found);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) & FOUND);
	return WEXITSTATUS(status);
}

struct outcomes {
	uint64_t images, whole, lost; /* whole: all partitions; lost: acknowledged entries missing */
};

static void look_at(const struct disk_trace *t, size_t moment, size_t fate, struct outcomes *all)
{
	char image[128];
	struct was_told told = {0};
	snprintf(image, sizeof image, "%s/image", base);
	assert_int_equal(mkdir(image, 0700), 0);
	image_build(t, moment, fate, image);
	image_marks(t, moment, take_mark, &told);
	const int found = found_in(image, BOOT_CRASHED, &told, false);
	if (found & LOST || fate % AGAIN_EVERY == 0) {
		const int again = found_in(image, BOOT_CRASHED, &told, true), later = found_in(image, BOOT_LATER, &told, true);
		/* LOST may differ, as later starts have more entries of their own. */
		if ((found ^ again) & ~LOST || (found ^ later) & ~LOST)
			fail_msg("moment %zu, fate %zu: found %x, then %x and %x", moment, fate, found, again, later);
	}
	all->images++;
	all->whole += told.stored[0] && (found & (LOST - 1)) == LOST - 1;
	all->lost += (found & LOST) != 0;
	folder_remove(image);
}

/* The operation before acknowledged a push, or the server ended in order. */
static bool is_telling(const struct disk_trace *t, size_t moment)
{
	bool telling = false;
	for (; moment && image_is_seen_later(t, moment - 1); moment--) {
		const char *text = t->events[moment - 1].text;
		telling |= t->events[moment - 1].op->kind == TRACE_MARK && (strcmp(text, ENDED) == 0 || strncmp(text, "stored", 6) == 0);
	}
	return telling;
}

static uint64_t every = MOMENTS_DEFAULT;

static void promises_are_kept_and_a_replica_that_lost_entries_is_not_whole(void **state)
{
	(void)state;
	struct disk_trace *t = record();
	struct outcomes all = {0};
	for (size_t moment = 0, number = 0; moment <= t->count; moment++) {
		if (image_is_seen_later(t, moment) || (number++ % every && !is_telling(t, moment)))
			continue;
		for (size_t fate = 0, fates = image_fates(t, moment); fate < fates; fate++)
			look_at(t, moment, fate, &all);
	}
	printf("recorded: %zu operations; images: %llu, whole in %llu, acknowledged entries lost in %llu\n", t->count,
	       (unsigned long long)all.images, (unsigned long long)all.whole, (unsigned long long)all.lost);
	assert_true(all.whole > 0 && all.lost > 0);
	trace_free(t);
}

int main(int argc, char **argv)
{
	if (!getenv("WEIR_INTERPOSE")) {
		puts("skipped: WEIR_INTERPOSE does not name the recording library");
		return 77;
	}
	const bool is_child = argc == 4 && strcmp(argv[1], "life") == 0;
	snprintf(base, sizeof base, "%s",
	         is_child                        ? argv[2]
	         : access("/dev/shm", W_OK) == 0 ? "/dev/shm/weir-crash-XXXXXX"
	                                         : "/tmp/weir-crash-XXXXXX");
	if (!is_child && !mkdtemp(base))
		return 1;
	snprintf(folder, sizeof folder, "%s/folder", base);
	snprintf(trace_file, sizeof trace_file, "%s/trace", base);
	if (is_child)
		return child(&lives[strtoul(argv[3], NULL, 10)]);
	if (argc > 1 && strtoull(argv[1], NULL, 10))
		every = strtoull(argv[1], NULL, 10);
	const struct CMUnitTest tests[] = {cmocka_unit_test(promises_are_kept_and_a_replica_that_lost_entries_is_not_whole)};
	int failed = cmocka_run_group_tests_name("crash_votes", tests, NULL, NULL);
	return folder_delete(base) || failed;
}
