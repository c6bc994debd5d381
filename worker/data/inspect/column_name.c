#include "worker/data/inspect/column_name.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "common/base/limits.h"

/* A name as words between spaces, in lower case: " user id " of userId and of user_id. */
#define WORDS_BYTES (2 * WEIR_COLUMN_NAME_BYTES_MAX + 2)

static void words_of(const char *name, char out[WORDS_BYTES])
{
	size_t n = 0;
	out[n++] = ' ';
	for (const char *c = name; *c && n + 3 < WORDS_BYTES; c++) {
		const bool hump = c > name && isupper((unsigned char)*c) && islower((unsigned char)c[-1]);
		if ((hump || !isalnum((unsigned char)*c)) && out[n - 1] != ' ')
			out[n++] = ' ';
		if (isalnum((unsigned char)*c))
			out[n++] = (char)tolower((unsigned char)*c);
	}
	if (out[n - 1] != ' ')
		out[n++] = ' ';
	out[n] = 0;
}

/* Whether a name has one of these words or sequences of words, each between spaces: " user id ". */
static bool has(const char *name, const char *const *list, size_t count)
{
	char words[WORDS_BYTES];
	words_of(name, words);
	for (size_t i = 0; i < count; i++)
		if (strstr(words, list[i]))
			return true;
	return false;
}

/* Whether a name is one of these. */
static bool is(const char *name, const char *const *list, size_t count)
{
	char words[WORDS_BYTES];
	words_of(name, words);
	for (size_t i = 0; i < count; i++)
		if (strcmp(words, list[i]) == 0)
			return true;
	return false;
}

#define COUNT(list)     (sizeof(list) / sizeof *(list))
#define HAS(name, list) has(name, list, COUNT(list))
#define IS(name, list)  is(name, list, COUNT(list))

static const char *const labels[] = {" label ", " labels ", " target "};
static const char *const clicks[] = {" click ", " clicked ", " is click ", " is clicked ", " clk ", " y "};
static const char *const outcomes[] = {" click ",    " clicked ",   " clk ",    " nonclk ",   " conversion ", " converted ",
                                       " purchase ", " purchased ", " bought ", " buy ",      " installed ",  " attributed ",
                                       " like ",     " liked ",     " income ", " response ", " outcome ",    " churn ",
                                       " churned ",  " survived ",  " dwell ",  " is cart "};
static const char *const ratings[] = {" rating ", " ratings ", " stars ", " overall "};
static const char *const rows[] = {" id ", " index ",         " idx ",        " row ",    " row id ",   " uuid ",
                                   " c1 ", " impression id ", " request id ", " log id ", " event id ", " sample id "};
static const char *const groups[] = {" session ",    " session id ", " query ",         " query id ", " qid ",
                                     " request id ", " search id ",  " impression id ", " list id "};
static const char *const ids[] = {
    " id ",      " ids ",     " uid ",    " userid ", " itemid ",   " movieid ", " adid ",     " pid ",      " cid ",
    " sid ",     " user ",    " item ",   " movie ",  " ad ",       " adgroup ", " campaign ", " customer ", " advertiser ",
    " brand ",   " product ", " shop ",   " seller ", " category ", " cate ",    " cat ",      " code ",     " zip ",
    " zipcode ", " type ",    " asin ",   " sku ",    " hour ",     " weekday ", " dow ",      " device ",   " level ",
    " segid ",   " segment ", " gender ", " sex ",    " country ",  " region ",  " city ",     " position ", " pos "};
static const char *const amounts[] = {
    " age ",    " price ",    " amount ", " count ",   " counts ", " num ",    " number ",     " total ", " sum ",     " hours ",
    " gain ",   " loss ",     " vote ",   " votes ",   " length ", " size ",   " duration ",   " days ",  " seconds ", " views ",
    " weight ", " quantity ", " qty ",    " balance ", " income ", " ratio ",  " rate ",       " avg ",   " mean ",    " width ",
    " height ", " distance ", " budget ", " cost ",    " fare ",   " clicks ", " impressions "};
static const char *const times[] = {" time ",    " timestamp ", " ts ",   " date ", " datetime ", " day ",
                                    " created ", " at ",        " unix ", " when ", " updated "};
static const char *const histories[] = {" history ", " hist ",   " seq ",  " sequence ",
                                        " last ",    " recent ", " past ", " previous "};
static const char *const plain[] = {" id ",   " ids ",  " list ",   " history ", " hist ", " seq ",     " sequence ",
                                    " last ", " past ", " recent ", " of ",      " is ",   " previous "};

unsigned column_name_label(const char *name)
{
	return HAS(name, labels) ? 100 : IS(name, clicks) ? 90 : HAS(name, ratings) ? 80 : HAS(name, outcomes) ? 70 : 0;
}

bool column_name_is_row(const char *name)
{
	return IS(name, rows);
}

bool column_name_is_group(const char *name)
{
	return IS(name, groups);
}

bool column_name_is_id(const char *name)
{
	return HAS(name, ids);
}

bool column_name_is_amount(const char *name)
{
	return HAS(name, amounts);
}

bool column_name_is_time(const char *name)
{
	return HAS(name, times);
}

bool column_name_is_history(const char *name)
{
	return HAS(name, histories);
}

bool column_name_is_outcome(const char *name)
{
	return HAS(name, outcomes);
}

bool column_names_meet(const char *a, const char *b)
{
	char left[WORDS_BYTES], right[WORDS_BYTES], word[WORDS_BYTES];
	words_of(a, left);
	words_of(b, right);
	for (const char *at = left; at[1]; at = strchr(at + 1, ' ')) {
		const size_t n = (size_t)(strchr(at + 1, ' ') - at) + 1;
		memcpy(word, at, n);
		word[n] = 0;
		/* "items" meets "item" */
		if (n > 4 && word[n - 2] == 's' && !strstr(right, word)) {
			word[n - 2] = ' ';
			word[n - 1] = 0;
		}
		bool says = true;
		for (size_t i = 0; i < COUNT(plain); i++)
			says &= strcmp(word, plain[i]) != 0;
		if (says && strstr(right, word))
			return true;
	}
	return false;
}
