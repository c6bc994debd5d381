/* Tests the crash model. A child under interpose.c writes, syncs and renames. Images of every
 * moment must keep what the model promises, and lose what it allows. WEIR_INTERPOSE names the
 * library. */
#include "tests/crash/image.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/crash/need.h"

#define BLOCK 4096u

static char base[256], folder[300], trace_file[300];

/* --- The child: appends to a log with some syncs, and replaces a file by rename */

static void block(int fd, char fill)
{
	char bytes[BLOCK];
	memset(bytes, fill, sizeof bytes);
	need(write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes, "write");
}

static void mark(const char *text)
{
	struct trace_op op = {.magic = TRACE_MAGIC, .kind = TRACE_MARK, .text_bytes = (uint32_t)strlen(text) + 1};
	char whole[128];
	memcpy(whole, &op, sizeof op);
	memcpy(whole + sizeof op, text, op.text_bytes);
	int fd = open(trace_file, O_WRONLY | O_APPEND | O_CLOEXEC);
	need(fd >= 0 && write(fd, whole, sizeof op + op.text_bytes) > 0 && close(fd) == 0, "mark");
}

static int child(void)
{
	int log = open("log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600), dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(log >= 0 && dir >= 0 && fsync(dir) == 0, "open");
	need(posix_fallocate(log, 0, 16 * BLOCK) == 0, "allocate");
	block(log, 'a');
	block(log, 'b');
	need(fdatasync(log) == 0, "sync");
	mark("ab");
	need(close(log) == 0 && rename("log", "log.2") == 0 && (log = open("log.2", O_WRONLY | O_CLOEXEC)) >= 0, "open again");
	need(lseek(log, 2 * BLOCK, SEEK_SET) == 2 * BLOCK && rename("log.2", "log") == 0 && fsync(dir) == 0, "seek");
	block(log, 'c');
	block(log, 'd');
	mkdir("sub", 0700);
	int file = open("sub/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	block(file, 'n');
	need(fsync(file) == 0 && close(file) == 0 && rename("sub/new", "sub/current") == 0, "replace");
	int sub = open("sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(fsync(dir) == 0 && fsync(sub) == 0, "sync names");
	mark("current");
	need(unlink("sub/current") == 0 && fdatasync(log) == 0, "end");
	mark("abcd");
	return 0;
}

/* Another child: two files exchange their names, and the one named "spare" is written. */
static int exchanging_child(void)
{
	int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (char fill = '0'; fill <= '3'; fill++) {
		const char *path = fill == '0' ? "vote" : "spare";
		int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		block(file, fill);
		need(fsync(file) == 0 && close(file) == 0 && fsync(dir) == 0, "write");
		need(fill == '0' || renameat2(AT_FDCWD, "spare", AT_FDCWD, "vote", RENAME_EXCHANGE) == 0, "exchange");
		need(fsync(dir) == 0, "sync names");
		mark((const char[]){fill, '\0'});
	}
	return 0;
}

/* --- What images hold */

static struct disk_trace *record(const char *ranges, const char *mode)
{
	remove(trace_file);
	char command[1200];
	assert_true(snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder) > 0 && system(command) == 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		need(chdir(folder) == 0 && setenv(TRACE_FILE_ENV, trace_file, 1) == 0 && setenv(TRACE_ROOT_ENV, folder, 1) == 0, "child");
		if (ranges)
			setenv(TRACE_RANGES_ENV, ranges, 1);
		setenv("LD_PRELOAD", getenv("WEIR_INTERPOSE"), 1);
		execl("/proc/self/exe", "image_test", mode, trace_file, (char *)NULL);
		_exit(4);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return trace_load(trace_file);
}

/* The fill byte of block i of a file; '.' for zeros or the end, '?' for a torn block. */
static char fill_of(const char *path, unsigned i)
{
	char bytes[BLOCK] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return '-';
	(void)!pread(fd, bytes, sizeof bytes, (off_t)i * BLOCK);
	close(fd);
	for (unsigned k = 1; k < BLOCK; k++)
		if (bytes[k] != bytes[0])
			return '?';
	return bytes[0] ? bytes[0] : '.';
}

struct marks {
	bool ab, current, abcd;
};
static void visit(void *arg, const char *text)
{
	struct marks *m = arg;
	m->ab |= strcmp(text, "ab") == 0;
	m->current |= strcmp(text, "current") == 0;
	m->abcd |= strcmp(text, "abcd") == 0;
}

static void images_are_possible_disks(void **state)
{
	(void)state;
	struct disk_trace *t = record(NULL, "child");
	bool c_kept = false, c_lost = false, d_without_c = false, torn = false, unnamed = false;
	unsigned images = 0;
	for (size_t moment = 0; moment <= t->count; moment++)
		for (size_t fate = 0, fates = image_fates(t, moment); fate < fates; fate++, images++) {
			char image[320], log[340], current[340], command[800];
			snprintf(image, sizeof image, "%s/image", base);
			snprintf(log, sizeof log, "%s/log", image);
			snprintf(current, sizeof current, "%s/sub/current", image);
			snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", image, image);
			assert_int_equal(system(command), 0);
			image_build(t, moment, fate, image);
			if (access(log, F_OK) != 0) /* between two renames */
				snprintf(log, sizeof log, "%s/log.2", image);
			struct marks m = {0};
			image_marks(t, moment, visit, &m);
			char c = fill_of(log, 2), d = fill_of(log, 3), now = fill_of(current, 0);
			if (m.ab)
				assert_true(fill_of(log, 0) == 'a' && fill_of(log, 1) == 'b');
			if (m.abcd)
				assert_true(c == 'c' && d == 'd');
			assert_true(now == '-' || now == 'n'); /* synced before its rename: never torn */
			if (m.current && !m.abcd && moment < t->count - 2)
				assert_true(now == 'n');
			c_kept |= c == 'c' && !m.abcd;
			c_lost |= m.ab && c == '.';
			d_without_c |= d == 'd' && c == '.';
			torn |= c == '?' || d == '?';
			unnamed |= !m.current && now == '-' && moment > t->count - 6;
		}
	assert_true(images > 40);
	assert_true(c_kept && c_lost && d_without_c && torn && unnamed);
	trace_free(t);
}

static void visit_vote(void *arg, const char *text)
{
	*(char *)arg = text[0];
}

/* The name leads to the old or the new file, and both are whole. */
static void an_exchange_is_whole(void **state)
{
	(void)state;
	struct disk_trace *t = record(NULL, "exchange");
	bool old = false, next = false;
	for (size_t moment = 0; moment <= t->count; moment++)
		for (size_t fate = 0, fates = image_fates(t, moment); fate < fates; fate++) {
			char image[320], vote[340], command[800], told = 0;
			snprintf(image, sizeof image, "%s/image", base);
			snprintf(vote, sizeof vote, "%s/vote", image);
			snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", image, image);
			assert_int_equal(system(command), 0);
			image_build(t, moment, fate, image);
			image_marks(t, moment, visit_vote, &told);
			const char now = fill_of(vote, 0);
			if (!told)
				continue;
			assert_true(now == told || now == told + 1);
			old |= now == told && told < '3';
			next |= now == told + 1;
		}
	assert_true(old && next);
	trace_free(t);
}

static void dropped_data_is_unsynced(void **state)
{
	(void)state;
	bool lost = false, kept = false;
	for (uint64_t seed = 0; seed < 24; seed++) {
		struct disk_trace *t = record("1", "child");
		t->count -= 3; /* as if killed before the last sync */
		char log[340];
		snprintf(log, sizeof log, "%s/log", folder);
		uint64_t bytes = image_drop_unsynced(t, folder, seed);
		assert_true(fill_of(log, 0) == 'a' && fill_of(log, 1) == 'b');
		char c = fill_of(log, 2), d = fill_of(log, 3);
		assert_true((c == 'c' || c == '.') && (d == 'd' || d == '.'));
		assert_int_equal(bytes, (c == '.' ? BLOCK : 0) + (d == '.' ? BLOCK : 0));
		lost |= bytes > 0;
		kept |= c == 'c';
		trace_free(t);
	}
	assert_true(lost && kept);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "child") == 0) {
		snprintf(trace_file, sizeof trace_file, "%s", argv[2]);
		return child();
	}
	if (argc == 3 && strcmp(argv[1], "exchange") == 0) {
		snprintf(trace_file, sizeof trace_file, "%s", argv[2]);
		return exchanging_child();
	}
	if (!getenv("WEIR_INTERPOSE")) {
		puts("skipped: WEIR_INTERPOSE does not name the recording library");
		return 77;
	}
	snprintf(base, sizeof base, "/tmp/weir-crash-XXXXXX");
	if (!mkdtemp(base))
		return 1;
	snprintf(folder, sizeof folder, "%s/folder", base);
	snprintf(trace_file, sizeof trace_file, "%s/trace", base);
	const struct CMUnitTest tests[] = {cmocka_unit_test(images_are_possible_disks), cmocka_unit_test(an_exchange_is_whole),
	                                   cmocka_unit_test(dropped_data_is_unsynced)};
	int failed = cmocka_run_group_tests_name("crash_image", tests, NULL, NULL);
	char command[300];
	snprintf(command, sizeof command, "rm -rf '%s'", base);
	return system(command) || failed;
}
