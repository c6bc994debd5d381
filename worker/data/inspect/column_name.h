/* The words of a column's name, and what they say of its values. */
#ifndef WEIR_COLUMN_NAME_H
#define WEIR_COLUMN_NAME_H

#include <stdbool.h>

/* How surely the name is that of a label, 0 (not at all) to 100. */
unsigned column_name_label(const char *name);
/* The name of a number of the row itself: id, index, uuid. */
bool column_name_is_row(const char *name);
/* ... of one query, session or page view. */
bool column_name_is_group(const char *name);
/* ... of an id or a code: user, item, zip. */
bool column_name_is_id(const char *name);
/* ... of an amount: price, age, count. */
bool column_name_is_amount(const char *name);
/* ... of a time. */
bool column_name_is_time(const char *name);
/* ... of a history. */
bool column_name_is_history(const char *name);
/* ... of a result of the click or of the purchase, which is unknown when the row is scored. */
bool column_name_is_outcome(const char *name);
/* Whether two names share a word that says more than "id" or "list". */
bool column_names_meet(const char *a, const char *b);

#endif
