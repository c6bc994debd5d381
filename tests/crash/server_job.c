#include "tests/crash/server_job.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/wire.h"

pid_t first_process;

_Noreturn void print_and_exit(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	if (getpid() == first_process)
		exit(WRONG);
	_exit(WRONG);
}

static void need(weir_status status, const char *what, const weir_error *err)
{
	if (status)
		print_and_exit(what, err->text);
}

/* --- The job under the recorder */

struct recorder {
	const char *trace;
};

static void mark(const struct recorder *r, const char *text)
{
	image_mark(r->trace, text);
}

static void mark_push(void *arg, uint32_t pass, uint32_t unit, uint32_t batch)
{
	char text[64];
	snprintf(text, sizeof text, "push %u %u %u", pass, unit, batch);
	mark(arg, text);
}

static void mark_commit(void *arg, uint32_t pass, uint32_t unit)
{
	char text[64];
	snprintf(text, sizeof text, "commit %u %u", pass, unit);
	mark(arg, text);
}

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg;
	print_and_exit("storage failed", err->text);
}

static void mark_again(void *arg, const char *text)
{
	mark(arg, text);
}

static int sync_one(const char *path, const struct stat *s, int flag, struct FTW *at)
{
	(void)s, (void)at;
	int fd = open(path, (flag == FTW_F ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0)
		print_and_exit(path, strerror(errno));
	close(fd);
	return 0;
}

/* Begins with the folder of an earlier crash, as data that is on disk, and the reports up to
 * then. */
static void begin_with(const char *crashed, size_t moment, size_t fate, const char *folder, struct recorder *r)
{
	struct disk_trace *t = trace_load(crashed);
	image_build(t, moment, fate, folder);
	if (nftw(folder, sync_one, 16, FTW_PHYS) != 0)
		print_and_exit(folder, strerror(errno));
	image_marks(t, moment, mark_again, r);
	mark(r, MARK_BUILT);
	trace_free(t);
}

int run_scenario(char **argv)
{
	const char *trace = argv[0], *folder = argv[1];
	const uint32_t pushes = (uint32_t)strtoul(argv[2], NULL, 10);
	struct recorder r = {.trace = trace};
	struct job_events events = {.acknowledged = mark_push, .committed = mark_commit, .arg = &r, .flush = true, .pushes = pushes};
	struct job j;
	weir_error err = {0};
	if (argv[3])
		begin_with(argv[3], strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10), folder, &r);
	need(job_start(&j, &(struct job_options){.folder = folder, .failed = on_failed}, &err), "start", &err);
	need(job_join(&j, &err), "join", &err);
	weir_status status = job_train(&j, &events, &err);
	if (status == WEIR_E_CANCELLED && pushes)
		_exit(0);
	need(status, "train", &err);
	if (!argv[3] && !job_rows_dropped(&j))
		print_and_exit("the job", "no row has left memory");
	check_end(&j);
	job_stop(&j);
	return 0;
}

void check_coverage(const struct disk_trace *t)
{
	uint32_t journals = 0, tables = 0;
	for (size_t i = 0; i < t->count; i++)
		if (t->events[i].op->kind == TRACE_REMOVE) {
			journals += strstr(t->events[i].text, ".wal") != NULL;
			tables += strstr(t->events[i].text, ".sst") != NULL;
		}
	printf("recorded: %zu operations; %u journal segments and %u of RocksDB's files were deleted\n", t->count, journals, tables);
	fflush(stdout);
	if (!journals || !tables)
		print_and_exit("the job", "no journal was truncated, or nothing was compacted");
}

void run_recorded(const char *trace, const char *folder, uint32_t pushes, const char *crashed, size_t moment, size_t fate)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		char numbers[3][24];
		snprintf(numbers[0], sizeof numbers[0], "%u", pushes);
		snprintf(numbers[1], sizeof numbers[1], "%zu", moment);
		snprintf(numbers[2], sizeof numbers[2], "%zu", fate);
		setenv(TRACE_FILE_ENV, trace, 1);
		setenv(TRACE_ROOT_ENV, folder, 1);
		setenv(TRACE_SKIP_ENV, "LOCK:journal/LOCK:db/LOCK:db/LOG", 1);
		setenv("LD_PRELOAD", getenv("WEIR_INTERPOSE"), 1);
		execl("/proc/self/exe", "crash_server", "scenario", trace, folder, numbers[0], crashed, numbers[1], numbers[2],
		      (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		print_and_exit("the job", "failed under the recorder");
}

void take_mark(void *arg, const char *text)
{
	struct was_told *t = arg;
	unsigned pass, unit, batch;
	if (sscanf(text, "push %u %u %u", &pass, &unit, &batch) == 3) {
		t->pushed[pass][unit][batch] = true;
		t->pushes++;
	} else if (sscanf(text, "commit %u %u", &pass, &unit) == 2) {
		t->committed[pass][unit] = true;
	}
}

static bool has_batch(const struct job_applied *a, uint32_t pass, uint32_t unit, uint32_t batch, bool steps)
{
	return a->known[pass][unit][batch] && (!steps || a->waiting[pass][unit][batch] || a->stepped[pass][unit][batch]);
}

void check_told(const struct was_told *t, const struct job_applied applied[PARTITIONS], uint32_t step_partition)
{
	for (uint32_t pass = 0; pass < PASSES; pass++)
		for (uint32_t unit = 0; unit < UNITS; unit++)
			for (uint32_t batch = 0; batch < BATCHES; batch++)
				for (uint32_t p = 0; p < PARTITIONS && t->pushed[pass][unit][batch]; p++)
					if (!has_batch(&applied[p], pass, unit, batch, p == step_partition)) {
						fprintf(stderr, "push %u %u %u was acknowledged and is not in partition %u, which ends at entry %llu\n",
						        pass, unit, batch, p, (unsigned long long)applied[p].index);
						_exit(LOST);
					}
}

static void check_floats(const char *name, const float *found, const float *expected, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (found[i] != expected[i]) {
			fprintf(stderr, "%s[%zu] is %g, what was applied adds up to %g\n", name, i, (double)found[i], (double)expected[i]);
			_exit(WRONG);
		}
}

static void check_values(const struct job_values *found, const struct job_values *expected)
{
	check_floats("rows", found->rows[0], expected->rows[0], (size_t)KEY_SPACE * WIDTH);
	check_floats("dense", found->dense, expected->dense, DENSE);
	check_floats("stepped", found->stepped, expected->stepped, DENSE);
}

void look(struct job *j, struct job_applied applied[PARTITIONS])
{
	for (uint32_t p = 0; p < PARTITIONS; p++)
		job_applied(j, p, &applied[p]);
}

weir_status check_sums(struct job *j, weir_error *err)
{
	struct job_applied before[PARTITIONS], after[PARTITIONS];
	struct job_values found, expected;
	weir_status status;
	do {
		look(j, before);
		status = job_read(j, &found, err);
		look(j, after);
	} while (!status && (before[0].index != after[0].index || before[1].index != after[1].index));
	if (status)
		return status;
	job_expected(j, after, &expected);
	check_values(&found, &expected);
	return WEIR_OK;
}

static uint64_t total(const Weir__V1__PartTotals *t, bool fingerprints)
{
	uint64_t n = 0;
	for (size_t p = 0; p < t->n_count; p++)
		n += fingerprints ? t->fingerprint[p] : t->count[p];
	return n;
}

static ProtobufCMessage *ask(struct job *j, struct rpc_channel *channel, enum rpc_method method,
                             const ProtobufCMessageDescriptor *type)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	struct message *answer = NULL;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	(void)j;
	need(rpc_call_wait(channel, method, wire_pack(&q.base), 5000, &answer, &err), "status", &err);
	need(wire_unpack(type, answer, &m, &err), "status", &err);
	message_release(answer);
	return m;
}

/* The ledger and the partitions agree on every part, and no part was applied twice. */
static void check_audit(struct job *j)
{
	struct rpc_channel *channel = NULL;
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(j->rpc, "audit", &err);
	need(rpc_channel_open(&channel, j->rpc, loop, "memory:0", &err), "audit", &err);
	ProtobufCMessage *l = ask(j, channel, RPC_JOB_STATUS, &weir__v1__ledger_status__descriptor);
	ProtobufCMessage *s = ask(j, channel, RPC_STATUS, &weir__v1__server_status__descriptor);
	const Weir__V1__LedgerStatus *ledger = (const Weir__V1__LedgerStatus *)l;
	const Weir__V1__ServerStatus *server = (const Weir__V1__ServerStatus *)s;
	uint64_t applied = 0, fingerprint = 0, twice = 0;
	for (size_t p = 0; p < server->n_partitions; p++) {
		applied += server->partitions[p]->parts_applied;
		fingerprint += server->partitions[p]->fingerprint;
		twice += server->partitions[p]->parts_double;
	}
	if (ledger->state != WEIR__V1__LEASE_STATE__FINISHED || applied != total(ledger->expected, false) ||
	    applied != (uint64_t)PASSES * UNITS * BATCHES * (PARTITIONS + 1) || fingerprint != total(ledger->expected, true) ||
	    twice) {
		fprintf(stderr, "audit: state %d, %llu parts applied, %llu twice, %llu expected, fingerprints %016llx and %016llx\n",
		        (int)ledger->state, (unsigned long long)applied, (unsigned long long)twice,
		        (unsigned long long)total(ledger->expected, false), (unsigned long long)fingerprint,
		        (unsigned long long)total(ledger->expected, true));
		_exit(WRONG);
	}
	wire_destroy(l);
	wire_destroy(s);
	rpc_channel_close(channel);
	rpc_loop_destroy(loop);
}

void check_end(struct job *j)
{
	struct job_applied all[PARTITIONS];
	struct job_values found, expected;
	weir_error err = {0};
	memset(all, 1, sizeof all);
	job_expected(j, all, &expected);
	need(job_read(j, &found, &err), "the last reading", &err);
	check_values(&found, &expected);
	check_audit(j);
}

static void refuse_committed(void *arg, uint32_t pass, uint32_t unit)
{
	const struct was_told *t = arg;
	if (t->committed[pass][unit]) {
		fprintf(stderr, "unit %u %u was committed, and is given out again\n", pass, unit);
		_exit(LOST);
	}
}

int check_image(const char *folder, const struct was_told *told)
{
	struct job_applied applied[PARTITIONS];
	struct job_events events = {.leased = refuse_committed, .arg = (void *)(uintptr_t)told};
	struct job j;
	weir_error err = {0};
	need(job_start(&j, &(struct job_options){.folder = folder, .failed = on_failed}, &err), "the server does not start", &err);
	look(&j, applied); /* before a trainer joins */
	need(job_join(&j, &err), "join", &err);
	check_told(told, applied, job_step_partition(&j));
	need(check_sums(&j, &err), "reading", &err);
	need(job_train(&j, &events, &err), "the rest of the job", &err);
	check_end(&j);
	job_stop(&j);
	return FINE;
}
