#include "common/system/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "common/system/temp_folder.h"

#define LINKS_MAX 40 /* the kernel's own limit (MAXSYMLINKS) */

/* --- The kind of a name */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The descriptor of this process that the name stands for, or -1. A shell's `> FILE` is recognised
 * by the open file: a new file of that name would not be the one that the shell opened. */
static int descriptor_of(const char *name, const struct stat *there)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	struct stat open_file;
	if (strcmp(name, "-") == 0 || strcmp(name, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		const char *number = name + strlen(folders[i]);
		if (strncmp(name, folders[i], strlen(folders[i])) == 0 && *number && number[strspn(number, "0123456789")] == '\0')
			return (int)strtol(number, NULL, 10);
	}
	for (int fd = STDOUT_FILENO; there && fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &open_file) == 0 && same_file(there, &open_file))
			return fd;
	return -1;
}

weir_status output_follow_links(char path[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	char link[WEIR_PATH_BYTES_MAX], next[2 * WEIR_PATH_BYTES_MAX];
	for (int links = 0;; links++) {
		const ssize_t n = readlink(path, link, sizeof link - 1);
		if (n < 0)
			return WEIR_OK; /* not a link, or missing */
		link[n] = '\0';
		const char *slash = strrchr(path, '/');
		const int folder = link[0] == '/' || !slash ? 0 : (int)(slash - path) + 1;
		const int length = snprintf(next, sizeof next, "%.*s%s", folder, path, link);
		if (links == LINKS_MAX || length >= (int)WEIR_PATH_BYTES_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "%s: too many symbolic links, or one that is too long", path);
		memcpy(path, next, (size_t)length + 1);
	}
}

/* Fills `path` with the file behind the name, and *fd with the descriptor that the name stands for.
 * *into: the name is not a regular file. */
static weir_status look(const char *name, char path[WEIR_PATH_BYTES_MAX], int *fd, bool *into, weir_error *err)
{
	struct stat there;
	const bool exists = stat(name, &there) == 0;
	if (strlen(name) >= WEIR_PATH_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the name of an output is longer than %u bytes", WEIR_PATH_BYTES_MAX - 1);
	if (name[0] == '\0')
		return weir_fail(err, WEIR_E_INVALID, "the name of an output is empty; give a file, or - for stdout");
	snprintf(path, WEIR_PATH_BYTES_MAX, "%s", name);
	*fd = descriptor_of(name, exists ? &there : NULL);
	*into = *fd >= 0 || (exists && !S_ISREG(there.st_mode));
	if (*fd < 0 && exists && S_ISDIR(there.st_mode))
		return weir_fail(err, WEIR_E_INVALID, "%s is a folder; give the name of a file", name);
	return *into ? WEIR_OK : output_follow_links(path, err);
}

weir_status output_check(const char *name, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	int fd;
	bool into;
	const weir_status status = look(name, path, &fd, &into, err);
	if (status != WEIR_OK || fd >= 0)
		return status;
	char *slash = strrchr(path, '/');
	if (!into && slash)
		slash[slash == path] = '\0';
	if (access(into || slash ? path : ".", into ? W_OK : W_OK | X_OK) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", name, strerror(errno));
	return WEIR_OK;
}

const char *output_label(const char *name)
{
	return strcmp(name, "-") == 0 ? "stdout" : name;
}

FILE *output_words(const char *name)
{
	struct stat there;
	return descriptor_of(name, stat(name, &there) == 0 ? &there : NULL) == STDOUT_FILENO ? stderr : stdout;
}

/* --- Signals that end this process before output_end */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

/* Files that the handler removes. Complete before the handler is installed. Writers append ".tmp"
 * to the path, some also the process's number. */
static struct {
	char files[3][WEIR_PATH_BYTES_MAX + 32];
	char folder[WEIR_PATH_BYTES_MAX]; /* "": no folder */
} unfinished;

/* Removes a folder's files by system calls that a handler may make. */
static void empty_folder(const char *path)
{
	struct entry {
		uint64_t inode, next;
		unsigned short bytes;
		unsigned char kind;
		char name[];
	};
	_Alignas(uint64_t) char entries[4096];
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (long got; fd >= 0 && (got = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;)
		for (long at = 0; at < got; at += ((const struct entry *)(const void *)(entries + at))->bytes)
			(void)unlinkat(fd, ((const struct entry *)(const void *)(entries + at))->name, 0);
	if (fd >= 0)
		(void)close(fd);
}

static void on_signal(int number)
{
	if (unfinished.folder[0])
		empty_folder(unfinished.folder);
	for (size_t i = 0; i < sizeof unfinished.files / sizeof *unfinished.files; i++)
		(void)unlink(unfinished.files[i]);
	if (unfinished.folder[0])
		(void)rmdir(unfinished.folder);
	(void)raise(number); /* SA_RESETHAND: the signal ends the process when this returns */
}

/* Leaves alone a signal that is ignored (nohup) or that the program handles. */
static void replace_handlers(void (*from)(int), void (*to)(int))
{
	struct sigaction now, then = {.sa_handler = to, .sa_flags = (int)SA_RESETHAND};
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		if (sigaction(ending[i], NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == from)
			(void)sigaction(ending[i], &then, NULL);
}

static void watch_signals(const struct output *o)
{
	replace_handlers(on_signal, SIG_DFL);
	snprintf(unfinished.files[0], sizeof unfinished.files[0], "%s.tmp", o->path);
	snprintf(unfinished.files[1], sizeof unfinished.files[1], "%s.%d.tmp", o->path, (int)getpid());
	snprintf(unfinished.files[2], sizeof unfinished.files[2], "%s", o->folder[0] ? o->path : "");
	snprintf(unfinished.folder, sizeof unfinished.folder, "%s", o->folder);
	replace_handlers(SIG_DFL, on_signal);
}

void output_watch_folder(const char *path)
{
	replace_handlers(on_signal, SIG_DFL);
	memset(unfinished.files, 0, sizeof unfinished.files);
	snprintf(unfinished.folder, sizeof unfinished.folder, "%s", path);
	replace_handlers(SIG_DFL, on_signal);
}

void output_forget_folder(void)
{
	replace_handlers(on_signal, SIG_DFL);
}

/* --- Writing */

static weir_status make_folder(struct output *o, weir_error *err)
{
	const weir_status status = temp_folder_make("weir-out", o->folder, sizeof o->folder, err);
	if (status == WEIR_OK)
		snprintf(o->path, sizeof o->path, "%.1100s/output", o->folder);
	return status;
}

weir_status output_begin(struct output *o, const char *name, weir_error *err)
{
	int descriptor;
	bool into;
	*o = (struct output){.fd = -1};
	const weir_status status = look(name, o->path, &descriptor, &into, err);
	if (status != WEIR_OK)
		return status;
	snprintf(o->name, sizeof o->name, "%s", name);
	struct stat replaced;
	if (!into && stat(o->path, &replaced) == 0)
		o->mode = replaced.st_mode & 07777;
	if (!into) {
		watch_signals(o);
		return WEIR_OK;
	}
	o->fd = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : open(name, O_WRONLY | O_CLOEXEC);
	if (o->fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", name, strerror(errno));
	const weir_status made = make_folder(o, err);
	if (made != WEIR_OK) {
		close(o->fd);
		o->fd = -1;
	} else {
		watch_signals(o);
	}
	return made;
}

static weir_status remove_file(void *arg, const char *name)
{
	const struct output *o = arg;
	char path[2 * WEIR_PATH_BYTES_MAX];
	snprintf(path, sizeof path, "%s/%s", o->folder, name);
	unlink(path);
	return WEIR_OK;
}

static void remove_folder(struct output *o)
{
	weir_error ignored = {0};
	(void)disk_system()->ops->list(disk_system(), o->folder, remove_file, o, &ignored);
	rmdir(o->folder);
	o->folder[0] = '\0';
}

static bool write_all(int fd, const char *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		const ssize_t n = write(fd, data + done, bytes - done);
		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static weir_status copy(const struct output *o, int from, weir_error *err)
{
	char block[1 << 14];
	ssize_t n = from >= 0 ? 0 : -1;
	while (from >= 0 && (n = read(from, block, sizeof block)) > 0)
		if (!write_all(o->fd, block, (size_t)n)) {
			n = -1;
			break;
		}
	const int e = errno;
	return n == 0 ? WEIR_OK
	              : weir_fail(err, e == ENOSPC ? WEIR_E_NO_SPACE : WEIR_E_IO, "cannot write %s: %s", o->name, strerror(e));
}

/* Whether a path in a message is whole, and not part of a longer path. at: its start; behind: its
 * end. */
static bool stands_alone(const char *text, const char *at, const char *behind)
{
	return (at == text || strchr(" '\"(", at[-1])) && (*behind == '\0' || strchr(" :,;'\")", *behind));
}

/* Replaces the path that a writer used, in its message, by the name that the person gave. */
static void name_as_given(const struct output *o, weir_error *err)
{
	static const char temporary[] = ".tmp";
	weir_error told = {.status = err->status};
	const size_t bytes = strlen(o->path);
	const char *from = err->text, *label = output_label(o->name);
	size_t n = 0;
	for (const char *at; (at = strstr(from, o->path)); from = at + bytes) {
		const char *behind = at + bytes;
		const size_t more = strncmp(behind, temporary, sizeof temporary - 1) == 0 ? sizeof temporary - 1 : 0;
		const bool alone = stands_alone(err->text, at, behind + more);
		n += (size_t)snprintf(told.text + n, sizeof told.text - n, "%.*s%s", (int)(at - from), from, alone ? label : o->path);
		n = n < sizeof told.text ? n : sizeof told.text - 1;
		at += alone ? more : 0;
	}
	snprintf(told.text + n, sizeof told.text - n, "%s", from);
	*err = told;
}

weir_status output_end(struct output *o, weir_status written, weir_error *err)
{
	if (written != WEIR_OK && err)
		name_as_given(o, err);
	if (!o->folder[0]) {
		replace_handlers(on_signal, SIG_DFL);
		if (written == WEIR_OK && o->mode && chmod(o->path, o->mode) != 0)
			return weir_fail(err, WEIR_E_IO, "cannot give %s the permissions that it had: %s", o->name, strerror(errno));
		return written;
	}
	const int from = written == WEIR_OK ? open(o->path, O_RDONLY | O_CLOEXEC) : -1;
	remove_folder(o); /* first: a reader that closes the pipe may end this process */
	replace_handlers(on_signal, SIG_DFL);
	if (written == WEIR_OK)
		written = copy(o, from, err);
	if (from >= 0)
		close(from);
	close(o->fd);
	o->fd = -1;
	return written;
}
