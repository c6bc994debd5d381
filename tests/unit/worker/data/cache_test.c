/* The packed cache: concurrent builders make it once; a stale or damaged one is rebuilt; an
 * impossible one is a clear error. */
#include "tests/unit/worker/data/fixture.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t rows_of(const struct job *job)
{
	struct dataset *d;
	weir_error err = {0};
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	uint64_t rows = dataset_get_info(d)->rows;
	dataset_close(d);
	return rows;
}

/* The number of files that match folder/pattern, and the first one's inode and modification
 * time. */
static size_t files(const struct folder *f, const char *pattern, struct stat *first)
{
	char path[256];
	glob_t g;
	snprintf(path, sizeof path, "%s/%s", f->path, pattern);
	if (glob(path, 0, NULL, &g) != 0)
		return 0;
	if (first != NULL)
		assert_int_equal(stat(g.gl_pathv[0], first), 0);
	size_t n = g.gl_pathc;
	globfree(&g);
	return n;
}

static void current_cache_is_reused_and_a_changed_source_rebuilds(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(50, 1, &n);
	struct stat first, second;
	write_bytes(*state, "a.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/a", ((struct folder *)*state)->path);
	assert_int_equal(rows_of(job), 50);
	files(*state, "a/*.packed", &first);
	assert_int_equal(rows_of(job), 50);
	files(*state, "a/*.packed", &second);
	assert_int_equal(first.st_ino, second.st_ino);
	write_bytes(*state, "a.tsv", text, (size_t)(strchr(text, '\n') - text) + 1, path);
	assert_int_equal(rows_of(job), 1);
	assert_int_equal(files(*state, "a/*.packed", NULL), 1);
	/* Another file of the same size and modification time. */
	static const struct timespec same[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
	write_bytes(*state, "a.tsv", text, n, path);
	assert_int_equal(utimensat(AT_FDCWD, path, same, 0), 0);
	assert_int_equal(rows_of(job), 50);
	char *middle = strchr(text + n / 2, '\n');
	*middle = ' ';
	write_bytes(*state, "a.tsv", text, n, path);
	assert_int_equal(utimensat(AT_FDCWD, path, same, 0), 0);
	job->data.bad_lines_max = 1;
	assert_int_equal(rows_of(job), 48);
	job->data.bad_lines_max = 0;
	*middle = '\n';
	write_bytes(*state, "a.tsv", text, (size_t)(strchr(text, '\n') - text) + 1, path);
	job->data.hash_buckets = 100; /* other settings have their own cache */
	assert_int_equal(rows_of(job), 1);
	assert_int_equal(files(*state, "a/*.packed", NULL), 2);
	assert_int_equal(files(*state, "a/*.tmp", NULL), 0);
	job_of_free(job);
	free(text);
}

static void damaged_cache_is_built_again(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(20, 2, &n);
	write_bytes(*state, "b.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/b", ((struct folder *)*state)->path);
	assert_int_equal(rows_of(job), 20);
	char pattern[256];
	glob_t g;
	snprintf(pattern, sizeof pattern, "%s/b/*.packed", ((struct folder *)*state)->path);
	assert_int_equal(glob(pattern, 0, NULL, &g), 0);
	assert_int_equal(truncate(g.gl_pathv[0], 100), 0);
	globfree(&g);
	assert_int_equal(rows_of(job), 20);
	job_of_free(job);
	free(text);
}

static void many_processes_build_one_cache(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(20000, 3, &n);
	write_bytes(*state, "c.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/c", ((struct folder *)*state)->path);
	job->data.threads = 1;
	pid_t children[6];
	for (int i = 0; i < 6; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			char log[4096] = {0};
			FILE *out = tmpfile();
			struct logger *logger = logger_create(&(struct logger_options){.out = out, .level = LOG_INFO, .who = "child"});
			struct dataset *d;
			weir_status status = dataset_open(&d, job, SPLIT_TRAIN, logger, NULL);
			int good = status == WEIR_OK && dataset_get_info(d)->rows == 20000;
			rewind(out);
			good &= fread(log, 1, sizeof log - 1, out) < sizeof log;
			_exit(!good ? 1 : strstr(log, "packed cache built") != NULL ? 2 : 0);
		}
	}
	int builders = 0;
	for (int i = 0; i < 6; i++) {
		int code;
		assert_int_equal(waitpid(children[i], &code, 0), children[i]);
		assert_true(WIFEXITED(code));
		assert_int_not_equal(WEXITSTATUS(code), 1);
		builders += WEXITSTATUS(code) == 2;
	}
	assert_int_equal(builders, 1);
	job_of_free(job);
	free(text);
}

static void unwritable_folder_is_a_clear_error(void **state)
{
	char path[256];
	weir_error err = {0};
	struct dataset *d;
	write_bytes(*state, "d.svm", "1 1:1\n", 6, path);
	struct job *job = job_of(*state, DATA_LIBSVM, path);
	/* below a file, where no user can make a folder */
	snprintf(job->data.cache, sizeof job->data.cache, "%s/cache", path);
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, path);
	job_of_free(job);
}

/* A limit on file size acts as a full disk: the same error path without a device. */
static void full_disk_is_a_clear_error_and_leaves_nothing(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(2000, 5, &n);
	weir_error err = {0};
	struct dataset *d;
	struct rlimit before, small;
	write_bytes(*state, "e.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/e", ((struct folder *)*state)->path);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 65536;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	weir_status status = dataset_open(&d, job, SPLIT_TRAIN, NULL, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, handler);
	assert_int_equal(status, WEIR_E_IO);
	CHECK_CONTAINS(err.text, "cannot write");
	assert_int_equal(files(*state, "e/*.packed*", NULL), 0);
	assert_int_equal(rows_of(job), 2000);
	job_of_free(job);
	free(text);
}

static void cache_is_itself_a_packed_file(void **state)
{
	size_t n;
	char path[256], pattern[256], *text = criteo_text(45, 6, &n);
	weir_error err = {0};
	write_bytes(*state, "f.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/f", ((struct folder *)*state)->path);
	assert_int_equal(rows_of(job), 45);
	snprintf(pattern, sizeof pattern, "%s/f/*.packed", ((struct folder *)*state)->path);
	struct job *packed = job_of(*state, DATA_PACKED, pattern);
	struct dataset *a, *b;
	CHECK_OK(dataset_open(&a, job, SPLIT_TRAIN, NULL, &err), err);
	CHECK_OK(dataset_open(&b, packed, SPLIT_TRAIN, NULL, &err), err);
	char *left = dataset_dump(a, 3), *right = dataset_dump(b, 3);
	assert_true(strcmp(left, right) == 0);
	free(left);
	free(right);
	dataset_close(a);
	dataset_close(b);
	job_of_free(job);
	job_of_free(packed);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(current_cache_is_reused_and_a_changed_source_rebuilds),
	    cmocka_unit_test(damaged_cache_is_built_again),
	    cmocka_unit_test(many_processes_build_one_cache),
	    cmocka_unit_test(unwritable_folder_is_a_clear_error),
	    cmocka_unit_test(full_disk_is_a_clear_error_and_leaves_nothing),
	    cmocka_unit_test(cache_is_itself_a_packed_file),
	};
	return cmocka_run_group_tests_name("data_cache", tests, folder_setup, folder_teardown);
}
