/* Every crash of a journal that is cut. A child executes journal_history.h on real files under
 * interpose.c. For every moment and every fate (image.h), the test opens the journal in the
 * resulting folder. The channels hold what they held after one of the operations, nothing that was
 * reported durable is missing, and the journal continues from there. WEIR_INTERPOSE names the
 * recording library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/crash/image.h"
#include "tests/crash/need.h"
#include "tests/folder.h"
#include "tests/unit/server/log/journal_history.h"

enum { GO_ON = 8 /* operations after a recovery */ };

static char base[64], folder[128], trace_file[128];

static weir_status begin(const char *where, struct journal **j, struct history *h, weir_error *err)
{
	char directory[256];
	snprintf(directory, sizeof directory, "%s/journal", where);
	struct journal_options options = {
	    .disk = disk_system(), .directory = directory, .holder = "the test", .segment_bytes = HISTORY_SEGMENT};
	weir_status status = journal_open(j, &options, err);
	return status == WEIR_OK ? history_replay(h, *j, err) : status;
}

/* --- The child */

static void mark(const struct history *h)
{
	char text[64];
	snprintf(text, sizeof text, "done %u durable %u", h->done, h->durable);
	image_mark(trace_file, text);
}

static int child(void)
{
	struct history h = history_new();
	struct journal *j = NULL;
	weir_error err = {0};
	need(begin(folder, &j, &h, &err) == WEIR_OK, err.text);
	while (h.done < HISTORY_OPS) {
		need(history_step(&h, j, &err) == WEIR_OK, err.text);
		mark(&h);
		history_forget(&h, j);
	}
	need(journal_close(j, &err) == WEIR_OK, err.text);
	h.durable = h.done;
	mark(&h);
	return 0;
}

static struct disk_trace *record(void)
{
	assert_int_equal(mkdir(folder, 0700), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		need(setenv(TRACE_FILE_ENV, trace_file, 1) == 0 && setenv(TRACE_ROOT_ENV, folder, 1) == 0, "child");
		setenv(TRACE_SKIP_ENV, "journal/LOCK", 1);
		setenv("LD_PRELOAD", getenv("WEIR_INTERPOSE"), 1);
		execl("/proc/self/exe", "crash_journal", "child", base, (char *)NULL);
		_exit(4);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return trace_load(trace_file);
}

/* --- Images */

static void take_mark(void *arg, const char *text)
{
	struct history *h = arg;
	uint32_t done, durable;
	assert_int_equal(sscanf(text, "done %u durable %u", &done, &durable), 2);
	while (h->done < done)
		history_note(h);
	h->durable = durable;
}

struct outcomes {
	/* lost: images without a cut that was made; kept: with a cut that was not durable. */
	uint64_t images, lost, kept;
};

static uint64_t cuts_after(uint32_t operations)
{
	struct history h = history_new();
	while (h.done < operations)
		history_note(&h);
	return history_cuts(&h);
}

static void look_at(const struct disk_trace *t, size_t moment, size_t fate, struct outcomes *found)
{
	char image[128];
	struct history h = history_new();
	struct journal *j = NULL;
	weir_error err = {0};
	snprintf(image, sizeof image, "%s/moment-%zu-fate-%zu", base, moment, fate);
	assert_int_equal(mkdir(image, 0700), 0);
	image_build(t, moment, fate, image);
	image_marks(t, moment, take_mark, &h);
	const uint64_t made = history_cuts(&h), durable = cuts_after(h.durable);
	CHECK_OK(begin(image, &j, &h, &err), err);
	found->images++;
	found->lost += history_cuts(&h) < made;
	found->kept += history_cuts(&h) > durable;
	const uint32_t until = h.done + GO_ON;
	while (h.done < until) {
		CHECK_OK(history_step(&h, j, &err), err);
		history_forget(&h, j);
	}
	CHECK_OK(journal_close(j, &err), err);
	h.durable = h.done;
	CHECK_OK(begin(image, &j, &h, &err), err);
	assert_int_equal(h.done, until);
	CHECK_OK(journal_close(j, &err), err);
	folder_remove(image);
}

static void a_log_is_as_it_was_after_an_operation(void **state)
{
	(void)state;
	struct disk_trace *t = record();
	struct outcomes found = {0};
	for (size_t moment = 0; moment <= t->count; moment++)
		for (size_t fate = 0, fates = image_fates(t, moment); fate < fates && !image_is_seen_later(t, moment); fate++)
			look_at(t, moment, fate, &found);
	printf("recorded: %zu operations; images: %llu, %llu of them without a cut that had been made, %llu with one that was not "
	       "durable\n",
	       t->count, (unsigned long long)found.images, (unsigned long long)found.lost, (unsigned long long)found.kept);
	assert_true(found.images > 500 && found.lost > 100 && found.kept > 100);
	trace_free(t);
}

int main(int argc, char **argv)
{
	if (!getenv("WEIR_INTERPOSE")) {
		puts("skipped: WEIR_INTERPOSE does not name the recording library");
		return 77;
	}
	const bool is_child = argc == 3 && strcmp(argv[1], "child") == 0;
	snprintf(base, sizeof base, "%s",
	         is_child                        ? argv[2]
	         : access("/dev/shm", W_OK) == 0 ? "/dev/shm/weir-crash-XXXXXX"
	                                         : "/tmp/weir-crash-XXXXXX");
	if (!is_child && !mkdtemp(base))
		return 1;
	snprintf(folder, sizeof folder, "%s/folder", base);
	snprintf(trace_file, sizeof trace_file, "%s/trace", base);
	if (is_child)
		return child();
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_log_is_as_it_was_after_an_operation)};
	int failed = cmocka_run_group_tests_name("crash_journal", tests, NULL, NULL);
	return folder_delete(base) || failed;
}
