/* The output path that a user names: new files, symbolic links, special files. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "common/system/output.h"
#include "tests/cmocka_check.h"

static char dir[64];

static const char *in_dir(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

static weir_status put(const char *name, const char *text, weir_error *err)
{
	struct output o;
	weir_status status = output_begin(&o, name, err);
	if (status == WEIR_OK)
		status = output_end(&o, disk_write_file(disk_system(), o.path, text, strlen(text), err), err);
	return status;
}

static void assert_has(const char *path, const char *text)
{
	char *has = NULL;
	size_t bytes;
	weir_error err = {0};
	assert_int_equal(disk_read_file(disk_system(), path, 1000, &has, &bytes, &err), WEIR_OK);
	assert_string_equal(has, text);
	free(has);
}

static mode_t type_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & S_IFMT;
}

static void a_link_stays_and_its_file_is_written(void **state)
{
	(void)state;
	weir_error err = {0};
	const char *link = in_dir("link"), *to_link = in_dir("to-link"), *file = in_dir("file");
	assert_int_equal(symlink("file", link), 0); /* a dangling link */
	assert_int_equal(symlink(link, to_link), 0);
	assert_int_equal(put(to_link, "one", &err), WEIR_OK);
	assert_has(file, "one");
	assert_int_equal(put(link, "two", &err), WEIR_OK);
	assert_has(file, "two");
	assert_int_equal(type_of(link), S_IFLNK);
	assert_int_equal(type_of(to_link), S_IFLNK);
	assert_int_equal(type_of(file), S_IFREG);
	struct stat st;
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(put(link, "three", &err), WEIR_OK);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600); /* a private file stays private */
}

static void *read_fifo(void *out)
{
	const int fd = open(in_dir("fifo"), O_RDONLY);
	const ssize_t n = read(fd, out, 99);
	((char *)out)[n > 0 ? n : 0] = '\0';
	close(fd);
	return NULL;
}

static void a_fifo_gets_the_bytes(void **state)
{
	(void)state;
	weir_error err = {0};
	char got[100];
	pthread_t reader;
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_fifo, got), 0);
	assert_int_equal(put(in_dir("fifo"), "through", &err), WEIR_OK);
	pthread_join(reader, NULL);
	assert_string_equal(got, "through");
	assert_int_equal(type_of(in_dir("fifo")), S_IFIFO);
}

static void devices_stay_and_their_errors_are_told(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_int_equal(put("/dev/null", "x", &err), WEIR_OK);
	assert_int_equal(type_of("/dev/null"), S_IFCHR);
	assert_int_equal(put("/dev/full", "x", &err), WEIR_E_NO_SPACE);
	assert_non_null(strstr(err.text, "/dev/full"));
	assert_int_equal(put(dir, "x", &err), WEIR_E_INVALID);
	assert_int_equal(put("", "x", &err), WEIR_E_INVALID);
	assert_int_equal(symlink("round", in_dir("round")), 0);
	assert_int_equal(put(in_dir("round"), "x", &err), WEIR_E_LIMIT);
}

static void a_descriptor_is_written_into(void **state)
{
	(void)state;
	weir_error err = {0};
	char name[32];
	const int fd = open(in_dir("opened"), O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "before ", 7), 7);
	snprintf(name, sizeof name, "/dev/fd/%d", fd);
	assert_int_equal(put(name, "after", &err), WEIR_OK);
	assert_has(in_dir("opened"), "before after");
	close(fd);
	assert_int_equal(put(name, "x", &err), WEIR_E_IO);
	assert_ptr_equal(output_words("-"), stderr);
	assert_string_equal(output_label("-"), "stdout");
	assert_string_equal(output_label("x"), "x");
	assert_ptr_equal(output_words(in_dir("file")), stdout);
}

static void a_failure_writes_nothing(void **state)
{
	(void)state;
	weir_error err = {0};
	struct output o;
	const int fd = open(in_dir("kept"), O_RDWR | O_CREAT, 0600);
	char name[32];
	snprintf(name, sizeof name, "/dev/fd/%d", fd);
	assert_int_equal(output_begin(&o, name, &err), WEIR_OK);
	assert_int_equal(disk_write_file(disk_system(), o.path, "half", 4, &err), WEIR_OK);
	char path[WEIR_PATH_BYTES_MAX];
	snprintf(path, sizeof path, "%s", o.path);
	assert_int_equal(output_end(&o, WEIR_E_PARSE, &err), WEIR_E_PARSE);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_has(in_dir("kept"), "");
	close(fd);
}

/* The writer fails with this sentence; `format` takes the path. */
static void assert_told(const char *name, const char *format, const char *text)
{
	struct output o;
	weir_error err = {0};
	assert_int_equal(output_begin(&o, name, &err), WEIR_OK);
	char path[WEIR_PATH_BYTES_MAX];
	snprintf(path, sizeof path, "%s", o.path);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const weir_status written = weir_fail(&err, WEIR_E_IO, format, path, path);
#pragma GCC diagnostic pop
	assert_int_equal(output_end(&o, written, &err), WEIR_E_IO);
	assert_string_equal(err.text, text);
}

static void a_failure_names_the_output_as_it_was_given(void **state)
{
	(void)state;
	char text[512];
	const char *file = in_dir("told"), *link = in_dir("told-link");
	assert_int_equal(symlink("told", link), 0);
	snprintf(text, sizeof text, "cannot create %s: no room", file);
	assert_told(file, "cannot create %s.tmp: no room", text);
	assert_told(file, "cannot create %s: no room", text);
	snprintf(text, sizeof text, "cannot create %s, nor '%s'", link, link);
	assert_told(link, "cannot create %s.tmp, nor '%s'", text);
	snprintf(text, sizeof text, "%s.tmpl and %s/x are others", file, file);
	assert_told(file, "%s.tmpl and %s/x are others", text);
	assert_told("-", "cannot write %s.tmp: full", "cannot write stdout: full");
	assert_told("w", "cannot write %s.tmp: was it w?", "cannot write w: was it w?");
}

static void a_failing_output_is_reported_before(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_int_equal(output_check(in_dir("new"), &err), WEIR_OK);
	assert_int_equal(output_check("-", &err), WEIR_OK);
	assert_int_equal(output_check("/dev/null", &err), WEIR_OK);
	assert_int_equal(output_check("new-in-this-folder", &err), WEIR_OK);
	assert_int_equal(output_check(dir, &err), WEIR_E_INVALID);
	assert_int_equal(output_check(in_dir("none/x"), &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, "none/x"));
	assert_int_not_equal(access(in_dir("new"), F_OK), 0);
}

static void a_signal_removes_a_folder_that_is_incomplete(void **state)
{
	(void)state;
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		const char *folder = in_dir("model.tmp");
		int wait_status;
		const pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			char path[160];
			signal(signals[i], SIG_DFL);
			output_watch_folder(folder);
			(void)mkdir(folder, 0700);
			for (int n = 0; n < 300; n++) { /* more than one read of the folder finds */
				snprintf(path, sizeof path, "%s/model-%05d-of-00300.safetensors", folder, n);
				fclose(fopen(path, "w"));
			}
			(void)raise(signals[i]);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &wait_status, 0), child);
		assert_true(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == signals[i]);
		assert_int_equal(access(folder, F_OK), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_link_stays_and_its_file_is_written),
	                                   cmocka_unit_test(a_fifo_gets_the_bytes),
	                                   cmocka_unit_test(devices_stay_and_their_errors_are_told),
	                                   cmocka_unit_test(a_descriptor_is_written_into),
	                                   cmocka_unit_test(a_failure_writes_nothing),
	                                   cmocka_unit_test(a_failure_names_the_output_as_it_was_given),
	                                   cmocka_unit_test(a_failing_output_is_reported_before),
	                                   cmocka_unit_test(a_signal_removes_a_folder_that_is_incomplete)};
	snprintf(dir, sizeof dir, "/tmp/weir-output-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	const int failed = cmocka_run_group_tests_name("output", tests, NULL, NULL);
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command) == 0 ? failed : 1;
}
