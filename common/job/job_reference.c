#include "common/job/job_reference.h"

#include <stdio.h>
#include <string.h>

#include "common/job/job_schema.h"

#define INDENT     2u /* of a map inside a map */
#define DEPTH_MAX  8u
#define COMMENT    " # "
#define LINE_BYTES 256u

__asm__(".pushsection .rodata\n"
        ".global job_reference_yaml\n"
        "job_reference_yaml: .incbin \"" REFERENCE_YAML "\"\n"
        ".byte 0\n"
        ".popsection\n");

/* The file while it is read line by line. */
struct cursor {
	const char *at;
	char line[LINE_BYTES];
	char path[JOB_KEY_BYTES_MAX]; /* of the key that the line, or one before it, begins */
	size_t ends[DEPTH_MAX];       /* bytes of the path at each depth */
	const char *comment;          /* of the line; NULL: none */
};

/* Takes the key at the beginning of a line; false: the line has none. */
static bool take_key(struct cursor *c)
{
	const size_t indent = strspn(c->line, " "), length = strcspn(c->line + indent, ": ");
	const size_t depth = indent / INDENT, parent = depth > 0 && depth < DEPTH_MAX ? c->ends[depth - 1] : 0;
	if (length == 0 || c->line[indent] == '#' || c->line[indent] == '-' || c->line[indent + length] != ':' ||
	    depth >= DEPTH_MAX || parent + length + 2 > sizeof c->path)
		return false;
	c->ends[depth] = parent + (size_t)snprintf(c->path + parent, sizeof c->path - parent, "%s%.*s", parent > 0 ? "." : "",
	                                           (int)length, c->line + indent);
	return true;
}

static bool next_line(struct cursor *c)
{
	const size_t n = strcspn(c->at, "\n");
	if (*c->at == 0)
		return false;
	snprintf(c->line, sizeof c->line, "%.*s", (int)n, c->at);
	c->at += n + (c->at[n] == '\n');
	c->comment = strstr(c->line, COMMENT);
	if (c->comment)
		c->comment += strlen(COMMENT);
	return true;
}

/* Appends the words of a comment, which continue the sentence so far. */
static void append(char *out, size_t bytes, const char *comment)
{
	const size_t used = strlen(out);
	snprintf(out + used, bytes - used, "%s%s", used > 0 ? " " : "", comment + strspn(comment, " "));
}

static bool find(const char *path, char *out, size_t bytes)
{
	struct cursor c = {.at = job_reference_yaml};
	bool inside = false;
	*out = 0;
	while (next_line(&c)) {
		const bool key = take_key(&c);
		if (inside && (key || !c.comment))
			break;
		inside |= key && strcmp(c.path, path) == 0;
		if (inside && c.comment)
			append(out, bytes, c.comment);
	}
	return *out;
}

bool job_reference_comment(const char *path, char *out, size_t bytes)
{
	static const char *const same[][2] = {{"tables.dense.mode.inner.", "tables.embedding.optimizer."},
	                                      {"tables.dense.", "tables.embedding."}};
	char other[JOB_KEY_BYTES_MAX];
	bool found = find(path, out, bytes);
	for (size_t i = 0; i < sizeof same / sizeof *same && !found; i++)
		if (strncmp(path, same[i][0], strlen(same[i][0])) == 0) {
			snprintf(other, sizeof other, "%s%s", same[i][1], path + strlen(same[i][0]));
			found = find(other, out, bytes);
		}
	return found;
}
