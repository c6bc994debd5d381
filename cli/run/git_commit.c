#include "cli/run/git_commit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/limits.h"
#include "common/system/first_line.h"

#define LINE_BYTES 1024u
#define PATH_BYTES (WEIR_PATH_BYTES_MAX + LINE_BYTES)

/* Joins a path that may be relative to a folder. */
static void join(const char *folder, const char *path, char out[PATH_BYTES])
{
	char joined[PATH_BYTES + LINE_BYTES];
	snprintf(joined, sizeof joined, "%s%s%s", *path == '/' ? "" : folder, *path == '/' ? "" : "/", path);
	snprintf(out, PATH_BYTES, "%.*s", (int)PATH_BYTES - 1, joined);
}

/* Finds the folder of git's files: .git, or where a file .git of a second work tree points to. */
static bool find_git(const char *folder, char git[PATH_BYTES])
{
	static const char points[] = "gitdir: ";
	char at[WEIR_PATH_BYTES_MAX], line[LINE_BYTES];
	struct stat st;
	snprintf(at, sizeof at, "%s", folder);
	for (;;) {
		join(at, ".git", git);
		if (stat(git, &st) == 0 && S_ISDIR(st.st_mode))
			return true;
		if (first_line_read(at, ".git", line, sizeof line) && strncmp(line, points, strlen(points)) == 0) {
			join(at, line + strlen(points), git);
			return true;
		}
		char *slash = strrchr(at, '/');
		if (!slash || slash == at)
			return false;
		*slash = '\0';
	}
}

static bool take_hash(const char *text, char out[GIT_COMMIT_BYTES])
{
	const size_t n = strspn(text, "0123456789abcdef");
	if ((n != 40 && n != 64) || (text[n] != '\0' && text[n] != ' '))
		return false;
	snprintf(out, GIT_COMMIT_BYTES, "%.*s", (int)n, text);
	return true;
}

/* Looks for a line "HASH REF". */
static bool find_packed(const char *common, const char *ref, char out[GIT_COMMIT_BYTES])
{
	char path[PATH_BYTES], line[LINE_BYTES];
	bool found = false;
	join(common, "packed-refs", path);
	FILE *in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\r\n")] = '\0';
		const char *name = strchr(line, ' ');
		found = name && strcmp(name + 1, ref) == 0 && take_hash(line, out);
	}
	if (in)
		fclose(in);
	return found;
}

bool git_commit(const char *folder, char out[GIT_COMMIT_BYTES])
{
	static const char refers[] = "ref: ";
	char git[PATH_BYTES], common[PATH_BYTES], head[LINE_BYTES], line[LINE_BYTES], *real = realpath(folder, NULL);
	const bool found = real && find_git(real, git) && first_line_read(git, "HEAD", head, sizeof head);
	free(real);
	if (!found || strncmp(head, refers, strlen(refers)) != 0)
		return found && take_hash(head, out);
	const char *ref = head + strlen(refers);
	if (first_line_read(git, "commondir", line, sizeof line))
		join(git, line, common);
	else
		snprintf(common, sizeof common, "%s", git);
	if ((first_line_read(git, ref, line, sizeof line) || first_line_read(common, ref, line, sizeof line)) && take_hash(line, out))
		return true;
	return find_packed(common, ref, out);
}
