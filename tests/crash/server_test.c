/* Every crash of a real server. The job of scenario.h runs under interpose.c, dies in the middle,
 * restarts, and ends. For every moment of that and every fate (image.h), a server starts on the
 * resulting folder. It opens, has everything that it acknowledged, and its rows are exactly the
 * sums of the batches that its partitions report. The job then continues to the exact end. Some of
 * these servers die again during recovery. And with any bit of a folder flipped, a server names the
 * damaged file, or the bit has no effect.
 *
 *   test_crash_server [MOMENTS [BITS [PROCESSES]]]
 *
 * Tests every MOMENTS-th moment, and flips every BITS-th bit. WEIR_INTERPOSE names the recording
 * library. A process of its own opens each folder, so that a crash or a hang is one failure. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "tests/crash/server_job.h"
#include "tests/folder.h"

#define MOMENTS_DEFAULT   97u
#define BITS_DEFAULT      9973u
#define PROCESSES_DEFAULT 6u /* they mostly wait */
#define PROCESSES_MAX     64u
#define SECONDS_MAX       60u /* per folder */
#define IMAGES_MAX        64u /* per moment, on average */
#define FLIPS_MIN         12u
#define FAILURES_SHOWN    20u
#define PATH_BYTES        512u
#define FIRST_PUSHES      13u /* pushes before the first death, in the middle of a unit */
#define SECOND_PUSHES     2u  /* pushes before a second death */

/* Number of crashes followed by a second death when MOMENTS is 1; else one. */
#define SECOND_DEATHS 8u
#define SECOND_EVERY  13u /* maximum stride of moments after it, as those traces are short */

static struct figures {
	_Atomic uint64_t moments, images, recoveries, flips, harmless, refused, refused_folder, failures;
} * sum; /* shared by all processes */

static char base[64]; /* removed when the first process exits */

/* --- Folders, each tested by a process of its own */

static void remove_folder(const char *path)
{
	if (folder_delete(path) != 0 && errno != ENOENT)
		print_and_exit(path, strerror(errno));
}

static void remove_base(void)
{
	remove_folder(base);
}

static void show(const char *what, const char *path, int status)
{
	char text[4096];
	if (atomic_fetch_add(&sum->failures, 1) >= FAILURES_SHOWN)
		return;
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	text[n] = '\0';
	if (f)
		fclose(f);
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: ended by %s\n%s", what, strsignal(WTERMSIG(status)), text);
	else
		fprintf(stderr, "%s: %s", what, text);
}

/* Runs look_at in a child whose output goes to a file, and returns its outcome. Shows the output if
 * it is killed, hangs, or returns WRONG. */
static int in_child(const char *what, const char *words, int (*look_at)(void *arg), void *arg)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(words, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
			_exit(WRONG);
		alarm(SECONDS_MAX);
		_exit(look_at(arg));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		print_and_exit("fork", strerror(errno));
	const int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
	if (outcome != FINE && outcome != REFUSED && outcome != REFUSED_FOLDER)
		show(what, words, status);
	return outcome;
}

struct crash {
	const struct disk_trace *trace;
	size_t moment, fate;
	char folder[PATH_BYTES];
};

static int look_at_crash(void *arg)
{
	const struct crash *c = arg;
	struct was_told told = {0};
	image_build(c->trace, c->moment, c->fate, c->folder);
	image_marks(c->trace, c->moment, take_mark, &told);
	return check_image(c->folder, &told);
}

/* --- The set of folders
 *
 * Many moments and fates leave the same folder. It is tested once, for the last such moment, which
 * has the most reports. */

struct image {
	uint64_t hash;
	uint32_t moment, fate;
};

static struct images {
	struct image *list; /* (count), shared by all processes */
	size_t count, capacity;
} images;

static uint64_t hash_of_folder;

static size_t root_bytes;

static int hash_one(const char *path, const struct stat *s, int flag, struct FTW *at)
{
	uint64_t h = hash_bytes(path + root_bytes, strlen(path + root_bytes), (uint64_t)flag);
	(void)at;
	if (flag == FTW_F && s->st_size) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		void *bytes = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)s->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			print_and_exit(path, strerror(errno));
		h = hash_bytes(bytes, (size_t)s->st_size, h);
		munmap(bytes, (size_t)s->st_size);
		close(fd);
	}
	hash_of_folder += h; /* a sum, as files come in any order */
	return 0;
}

static void hash_image(const struct disk_trace *t, struct image *i, const char *folder)
{
	if (mkdir(folder, 0700) != 0)
		print_and_exit(folder, strerror(errno));
	image_build(t, i->moment, i->fate, folder);
	hash_of_folder = 0;
	root_bytes = strlen(folder);
	if (nftw(folder, hash_one, 16, FTW_PHYS) != 0)
		print_and_exit(folder, strerror(errno));
	i->hash = hash_of_folder;
	remove_folder(folder);
}

static void list_images(const struct disk_trace *t, size_t from, uint64_t every)
{
	images.count = 0;
	if (images.list)
		munmap(images.list, images.capacity * sizeof *images.list);
	images.capacity = (t->count + 1) * IMAGES_MAX;
	images.list = mmap(NULL, images.capacity * sizeof *images.list, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (images.list == MAP_FAILED)
		print_and_exit("images", strerror(errno));
	uint64_t number = 0;
	for (size_t moment = from; moment <= t->count; moment++) {
		if (image_is_seen_later(t, moment) || number++ % every)
			continue;
		sum->moments++;
		for (size_t fate = 0, fates = image_fates(t, moment); fate < fates; fate++) {
			if (images.count == images.capacity)
				print_and_exit("images", "more than there is room for");
			images.list[images.count++] = (struct image){.moment = (uint32_t)moment, .fate = (uint32_t)fate};
		}
	}
	sum->images += images.count;
}

static int by_hash_latest_first(const void *a, const void *b)
{
	const struct image *x = a, *y = b;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->moment < y->moment ? 1 : x->moment > y->moment ? -1 : 0;
}

static void keep_distinct(void)
{
	size_t kept = 0;
	qsort(images.list, images.count, sizeof *images.list, by_hash_latest_first);
	for (size_t i = 0; i < images.count; i++)
		if (!i || images.list[i].hash != images.list[kept - 1].hash)
			images.list[kept++] = images.list[i];
	images.count = kept;
}

static void try_image(const struct disk_trace *t, const struct image *i, const char *folder, const char *words)
{
	char what[64];
	struct crash c = {.trace = t, .moment = i->moment, .fate = i->fate};
	snprintf(c.folder, sizeof c.folder, "%s", folder);
	snprintf(what, sizeof what, "moment %zu of %zu, fate %zu", c.moment, t->count, c.fate);
	(void)in_child(what, words, look_at_crash, &c);
	remove_folder(folder);
	atomic_fetch_add(&sum->recoveries, 1);
}

/* --- Flipped bits */

struct worker {
	const struct disk_trace *trace;
	uint64_t bits;
	uint32_t number, processes;
	char folder[PATH_BYTES], words[PATH_BYTES];
};

struct flip {
	struct crash crash;
	const char *file; /* relative to the folder */
	uint64_t bit;
	bool ends_well; /* the job and the server have ended: all of it must be there */
};

static const char *damaged; /* file with the flipped bit; RocksDB may report another of its files */

static bool in_database;

static _Noreturn void refuse(const weir_error *err)
{
	if (strstr(err->text, damaged))
		_exit(REFUSED);
	if (in_database && strstr(err->text, "Corruption") && strstr(err->text, "/db"))
		_exit(REFUSED_FOLDER);
	/* A MANIFEST without its end opens as an older database. */
	if (in_database && strstr(err->text, "or the database beside it"))
		_exit(REFUSED_FOLDER);
	fprintf(stderr, "refused without naming %s: %s\n", damaged, err->text);
	_exit(WRONG);
}

static void on_refused(void *arg, const weir_error *err)
{
	(void)arg;
	refuse(err);
}

static void flip_bit(const char *folder, const char *file, uint64_t bit)
{
	char path[2 * PATH_BYTES];
	uint8_t byte;
	snprintf(path, sizeof path, "%s/%s", folder, file);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &byte, 1, (off_t)(bit / 8)) != 1)
		print_and_exit(path, strerror(errno));
	byte ^= (uint8_t)(1u << bit % 8);
	if (pwrite(fd, &byte, 1, (off_t)(bit / 8)) != 1 || close(fd) != 0)
		print_and_exit(path, strerror(errno));
}

static int look_at_flip(void *arg)
{
	const struct flip *f = arg;
	const char *slash = strrchr(f->file, '/');
	struct job_applied applied[PARTITIONS];
	struct was_told told = {0};
	struct job j;
	weir_error err = {0};
	damaged = slash ? slash + 1 : f->file;
	in_database = strncmp(f->file, "db/", 3) == 0;
	image_build(f->crash.trace, f->crash.moment, 0, f->crash.folder);
	image_marks(f->crash.trace, f->crash.moment, take_mark, &told);
	flip_bit(f->crash.folder, f->file, f->bit);
	if (job_start(&j, &(struct job_options){.folder = f->crash.folder, .failed = on_refused}, &err))
		refuse(&err);
	look(&j, applied);
	if (job_join(&j, &err) || check_sums(&j, &err))
		refuse(&err);
	if (f->ends_well)
		check_told(&told, applied, job_step_partition(&j));
	if (f->ends_well)
		check_end(&j);
	return FINE;
}

static char *files[256];

static uint64_t sizes[256];

static size_t files_count, files_root;

static int note_file(const char *path, const struct stat *s, int flag, struct FTW *at)
{
	(void)at;
	if (flag != FTW_F || strstr(path, "LOCK") || files_count == sizeof files / sizeof *files)
		return 0;
	files[files_count] = strdup(path + files_root + 1);
	sizes[files_count++] = (uint64_t)s->st_size;
	return 0;
}

static void count_outcome(int outcome)
{
	atomic_fetch_add(&sum->flips, 1);
	if (outcome == FINE)
		atomic_fetch_add(&sum->harmless, 1);
	else if (outcome == REFUSED)
		atomic_fetch_add(&sum->refused, 1);
	else if (outcome == REFUSED_FOLDER)
		atomic_fetch_add(&sum->refused_folder, 1);
}

/* Flips at least FLIPS_MIN bits in every file. */
static uint64_t stride_of(uint64_t bits, uint64_t every)
{
	const uint64_t stride = bits / FLIPS_MIN < every ? bits / FLIPS_MIN : every;
	return stride ? stride : 1;
}

static void try_flips(const struct worker *w, size_t moment)
{
	const struct disk_trace *t = w->trace;
	const char *folder = w->folder;
	char what[2 * PATH_BYTES];
	files_count = 0;
	files_root = strlen(folder);
	image_build(t, moment, 0, folder);
	if (nftw(folder, note_file, 16, FTW_PHYS) != 0)
		print_and_exit(folder, strerror(errno));
	remove_folder(folder);
	uint64_t number = 0;
	for (size_t i = 0; i < files_count; i++) {
		const uint64_t stride = stride_of(8 * sizes[i], w->bits);
		for (uint64_t bit = prng_mix(i, moment, 5) % stride; bit < 8 * sizes[i]; bit += stride) {
			if (number++ % w->processes != w->number)
				continue;
			struct flip f = {
			    .crash = {.trace = t, .moment = moment}, .file = files[i], .bit = bit, .ends_well = moment == t->count};
			snprintf(f.crash.folder, sizeof f.crash.folder, "%s", folder);
			snprintf(what, sizeof what, "bit %llu of %s at moment %zu", (unsigned long long)bit, files[i], moment);
			int outcome = in_child(what, w->words, look_at_flip, &f);
			remove_folder(folder);
			count_outcome(outcome);
		}
	}
	for (size_t i = 0; i < files_count; i++)
		free(files[i]);
}

/* --- The whole test */

/* The moment of the first process's death. */
static size_t middle_of(const struct disk_trace *t)
{
	struct was_told told = {0};
	size_t moment = 0;
	while (moment < t->count && told.pushes < FIRST_PUSHES - 1) {
		if (t->events[moment].op->kind == TRACE_MARK)
			take_mark(&told, t->events[moment].text);
		moment++;
	}
	return moment;
}

static void hash_images(const struct worker *w)
{
	for (size_t i = w->number; i < images.count; i += w->processes)
		hash_image(w->trace, &images.list[i], w->folder);
}

static void try_images(const struct worker *w)
{
	for (size_t i = w->number; i < images.count; i += w->processes)
		try_image(w->trace, &images.list[i], w->folder, w->words);
}

static void try_bits(const struct worker *w)
{
	try_flips(w, w->trace->count);
	try_flips(w, middle_of(w->trace));
}

/* Runs a share in every process; true if all succeed. */
static bool share(struct worker w, void (*run)(const struct worker *w))
{
	bool well = true;
	for (w.number = 0; w.number < w.processes; w.number++)
		if (fork() == 0) {
			snprintf(w.folder, sizeof w.folder, "%s/image-%u", base, w.number);
			snprintf(w.words, sizeof w.words, "%s/words-%u", base, w.number);
			run(&w);
			_exit(0);
		}
	for (int status; wait(&status) > 0;)
		well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return well;
}

static bool try_crashes(const struct worker *w, size_t from, uint64_t every)
{
	list_images(w->trace, from, every);
	bool well = share(*w, hash_images);
	keep_distinct();
	return share(*w, try_images) && well;
}

static size_t moment_of_mark(const struct disk_trace *t, const char *text)
{
	size_t moment = 0;
	while (moment < t->count && (t->events[moment].op->kind != TRACE_MARK || strcmp(t->events[moment].text, text) != 0))
		moment++;
	return moment + 1;
}

/* The machine dies again, during or soon after the recovery from the crash `first`. */
static bool try_second_death(struct worker w, const char *crashed, struct image first, uint64_t every)
{
	char trace[PATH_BYTES], folder[PATH_BYTES];
	snprintf(trace, sizeof trace, "%s/second", base);
	snprintf(folder, sizeof folder, "%s/server-1", base);
	if (mkdir(folder, 0700) != 0)
		print_and_exit(folder, strerror(errno));
	run_recorded(trace, folder, SECOND_PUSHES, crashed, first.moment, first.fate);
	remove_folder(folder);
	struct disk_trace *t = trace_load(trace);
	w.trace = t;
	bool well = try_crashes(&w, moment_of_mark(t, MARK_BUILT), every);
	trace_free(t);
	return unlink(trace) == 0 && well;
}

static void print_figures(void)
{
	printf("crashes: %llu moments, %llu images, %llu of them distinct and recovered\n", (unsigned long long)sum->moments,
	       (unsigned long long)sum->images, (unsigned long long)sum->recoveries);
	printf("bits flipped: %llu, of which %llu refused with the file's name, %llu with its database's, %llu harmless\n",
	       (unsigned long long)sum->flips, (unsigned long long)sum->refused, (unsigned long long)sum->refused_folder,
	       (unsigned long long)sum->harmless);
	printf("failures: %llu\n", (unsigned long long)sum->failures);
}

static int test(uint64_t moments, uint64_t bits, uint32_t processes)
{
	char trace[PATH_BYTES], folder[PATH_BYTES];
	struct image firsts[SECOND_DEATHS];
	snprintf(trace, sizeof trace, "%s/trace", base);
	snprintf(folder, sizeof folder, "%s/server-0", base);
	if (mkdir(folder, 0700) != 0)
		print_and_exit(folder, strerror(errno));
	run_recorded(trace, folder, FIRST_PUSHES, NULL, 0, 0);
	run_recorded(trace, folder, 0, NULL, 0, 0);
	struct disk_trace *t = trace_load(trace);
	check_coverage(t);
	const struct worker w = {.trace = t, .bits = bits, .processes = processes};
	bool well = try_crashes(&w, 0, moments);
	const size_t deaths = moments == 1 && images.count > SECOND_DEATHS ? SECOND_DEATHS : 1;
	/* Random ones, as they are sorted by hash. */
	memcpy(firsts, images.list, deaths * sizeof *firsts);
	for (size_t i = 0; i < deaths; i++)
		well &= try_second_death(w, trace, firsts[i], moments > SECOND_EVERY ? SECOND_EVERY : moments);
	well &= share(w, try_bits);
	trace_free(t);
	print_figures();
	return !well || sum->failures || !sum->recoveries || !sum->refused;
}

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise)
{
	return argc > i && strtoull(argv[i], NULL, 10) ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "scenario") == 0)
		return run_scenario(argv + 2);
	if (!getenv("WEIR_INTERPOSE")) {
		puts("skipped: WEIR_INTERPOSE does not name the recording library");
		return 77;
	}
	snprintf(base, sizeof base, "%s/weir-crash-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	sum = mmap(NULL, sizeof *sum, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED || !mkdtemp(base))
		print_and_exit(base, strerror(errno));
	first_process = getpid();
	atexit(remove_base);
	const uint64_t processes = argument(argc, argv, 3, PROCESSES_DEFAULT);
	return test(argument(argc, argv, 1, MOMENTS_DEFAULT), argument(argc, argv, 2, BITS_DEFAULT),
	            (uint32_t)(processes < PROCESSES_MAX ? processes : PROCESSES_MAX));
}
