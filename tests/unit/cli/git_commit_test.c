/* The commit around a folder, from git's files as git writes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/git_commit.h"
#include "tests/folder.h"

#define HASH  "0123456789abcdef0123456789abcdef01234567"
#define OTHER "76543210fedcba9876543210fedcba9876543210"

struct tree {
	char root[FOLDER_BYTES], sub[128];
};

static void put(const struct tree *t, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", t->root, name);
	for (char *slash = path + strlen(t->root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

static void setup(struct tree *t)
{
	folder_create(t->root);
	put(t, "a/b/file", "");
	snprintf(t->sub, sizeof t->sub, "%s/a/b", t->root);
}

static void expect(const char *folder, const char *hash)
{
	char out[GIT_COMMIT_BYTES] = "";
	assert_int_equal(git_commit(folder, out), hash != NULL);
	if (hash)
		assert_string_equal(out, hash);
}

static void commits_are_found_where_git_keeps_them(void **state)
{
	(void)state;
	struct tree t;
	setup(&t);
	put(&t, ".git/HEAD", "ref: refs/heads/main\n");
	expect(t.sub, NULL); /* no commit yet */
	put(&t, ".git/packed-refs", "# pack-refs with: peeled fully-peeled sorted\n" HASH " refs/heads/main\n");
	expect(t.sub, HASH);
	put(&t, ".git/refs/heads/main", "ff" HASH "\n"); /* damaged */
	expect(t.root, HASH);
	put(&t, ".git/HEAD", OTHER "\n"); /* no branch is checked out */
	expect(t.sub, OTHER);
	folder_remove(t.root);
}

static void a_second_work_tree_has_its_own_head(void **state)
{
	(void)state;
	struct tree t;
	setup(&t);
	put(&t, "main/.git/refs/heads/topic", HASH "\n");
	put(&t, "main/.git/worktrees/b/HEAD", "ref: refs/heads/topic\n");
	put(&t, "main/.git/worktrees/b/commondir", "../..\n");
	put(&t, "a/.git", "gitdir: ../main/.git/worktrees/b\n");
	expect(t.sub, HASH);
	folder_remove(t.root);
}

static void elsewhere_there_is_none(void **state)
{
	(void)state;
	expect("/", NULL);
	expect("/there/is/no/such/folder", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(commits_are_found_where_git_keeps_them),
	    cmocka_unit_test(a_second_work_tree_has_its_own_head),
	    cmocka_unit_test(elsewhere_there_is_none),
	};
	return cmocka_run_group_tests_name("git_commit", tests, NULL, NULL);
}
