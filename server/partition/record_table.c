#include "server/partition/record_table.h"

#include "server/partition/partition_internal.h"

static const struct record_row rows[] = {
    [0] = {.name = "unknown"},
    [RECORD_PUSH] = {.name = "push",
                     .reply = RECORD_PUSH_REPLY,
                     .submit = submit_push,
                     .want = want_rows,
                     .apply = apply_push,
                     .waits_for = tail_decides_identity},
    [RECORD_PULL] = {.name = "pull", .reply = RECORD_PULL_REPLY, .reads = true},
    [RECORD_SEAL] = {.name = "seal",
                     .reply = RECORD_SEAL_REPLY,
                     .to_all = true,
                     .submit = submit_seal,
                     .want = want_rows,
                     .apply = apply_seal,
                     .waits_for = tail_decides_identity},
    [RECORD_CLOSE_STEP] = {.name = "close step",
                           .reply = RECORD_CLOSE_REPLY,
                           .to_all = true,
                           .submit = submit_close,
                           .want = want_close,
                           .apply = apply_close,
                           .waits_for = tail_is_of_kind},
    [RECORD_RETIRE] = {.name = "retire",
                       .reply = RECORD_RETIRE_REPLY,
                       .to_all = true,
                       .submit = submit_retire,
                       .want = want_rows,
                       .apply = apply_retire,
                       .waits_for = tail_is_of_kind},
    [RECORD_ASSIGN] =
        {.name = "assign", .reply = RECORD_ASSIGN_REPLY, .submit = submit_assign, .want = want_rows, .apply = apply_assign},
    [RECORD_RESUME] = {.name = "resume", .reply = RECORD_RESUME_REPLY, .reads = true, .submit = submit_resume},
    [RECORD_EVICT] = {.name = "evict", .submit = submit_evict, .want = want_rows, .apply = apply_evict},
    [RECORD_TABLE] =
        {.name = "table", .submit = submit_table, .want = want_rows, .apply = apply_table, .waits_for = tail_is_of_kind},
    [RECORD_EPOCH] = {.name = "epoch", .apply = apply_nothing},
    [RECORD_SCRUB] = {.name = "scrub", .apply = apply_nothing},
};

const struct record_row *record_row(uint8_t kind)
{
	return kind < sizeof rows / sizeof *rows && rows[kind].name ? &rows[kind] : &rows[0];
}
