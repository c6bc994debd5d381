/* The rows of the schema. A default is a text and is read like a person's value, so both take the
 * same path. */
#include "common/job/job_schema.h"

#include <stdio.h>
#include <string.h>

#include "common/job/job.h"

/* clang-format off */
#define FIELD(f) .offset = offsetof(struct job, f)
#define SIZE_OF(f) sizeof(((struct job *)0)->f)
#define COUNT_OF(f) (SIZE_OF(f) / SIZE_OF(f[0]))
#define LIST(f) FIELD(f), .count_offset = offsetof(struct job, f##_count)
#define CHOICES(list) .choices = list, .choices_count = sizeof list / sizeof list[0]

#define TEXT(p, f, d)                 .path = p, .type = KEY_TEXT, FIELD(f), .size = SIZE_OF(f), .fallback = d
#define U32(p, f, d, lo, hi, u)       .path = p, .type = KEY_U32, FIELD(f), .fallback = d, .low = lo, .high = hi, .unit = u
#define U32_OR(p, f, d, lo, hi, u, w) .path = p, .type = KEY_U32, FIELD(f), .fallback = d, .low = lo, .high = hi, .unit = u, .zero_word = w
#define U64(p, f, d, lo, hi, u)       .path = p, .type = KEY_U64, FIELD(f), .fallback = d, .low = lo, .high = hi, .unit = u
#define BYTES(p, f, d, lo, hi)        .path = p, .type = KEY_BYTES, FIELD(f), .fallback = d, .low = lo, .high = hi
#define BYTES_OR(p, f, d, lo, hi, w)  .path = p, .type = KEY_BYTES, FIELD(f), .fallback = d, .low = lo, .high = hi, .zero_word = w
#define RATE(p, f, d, lo, hi)         .path = p, .type = KEY_RATE, FIELD(f), .fallback = d, .low = lo, .high = hi, .zero_word = d
#define BOOL(p, f, d)                 .path = p, .type = KEY_BOOL, FIELD(f), .fallback = d
#define FLOAT(p, f, d, lo, hi)        .path = p, .type = KEY_FLOAT, FIELD(f), .fallback = d, .float_low = lo, .float_high = hi
#define FLOAT_OR(p, f, d, lo, hi, w)  .path = p, .type = KEY_FLOAT, FIELD(f), .fallback = d, .float_low = lo, .float_high = hi, .zero_word = w
#define BELOW(p, f, d, lo, hi)        .path = p, .type = KEY_FLOAT, FIELD(f), .fallback = d, .float_low = lo, .float_high = hi, .float_below = true
#define CHOICE(p, f, d, list)         .path = p, .type = KEY_CHOICE, FIELD(f), .fallback = d, CHOICES(list)
#define U32_LIST(p, f, d, lo, hi, u)  .path = p, .type = KEY_U32_LIST, LIST(f), .size = COUNT_OF(f), .fallback = d, .low = lo, .high = hi, .unit = u
#define TEXT_LIST(p, f, d, n)         .path = p, .type = KEY_TEXT_LIST, LIST(f), .size = n, .fallback = d
#define FLOAT_LIST(p, f, n, lo, hi)   .path = p, .type = KEY_FLOAT_LIST, LIST(f), .size = n, .fallback = "", .float_low = lo, .float_high = hi
#define COLUMNS(p, f, d, n)           .path = p, .type = KEY_COLUMNS, LIST(f), .size = n, .fallback = d
#define LATER(p)                      .path = p, .type = KEY_LATER

/* Each row has one class: a row without a class does not compile. */
#define OPERATION(...) {__VA_ARGS__, .of = OF_OPERATION}
#define DATA(...)      {__VA_ARGS__, .of = OF_DATA}
/* they define the meaning of ids */
#define IDS(...)       {__VA_ARGS__, .of = OF_DATA, .of_weights = true}
#define MODEL(...)     {__VA_ARGS__, .of = OF_MODEL, .of_weights = true}
/* of models that have one of these parts, HAS(..) | HAS(..): the checks demand a list that is not
 * empty, and files of weights record the value */
#define PART(p, ...)   {__VA_ARGS__, .of = OF_MODEL, .of_weights = true, .parts = p}
#define TEXTS(...)     {__VA_ARGS__, .of = OF_DATA, .of_weights = true, .parts = HAS(NGRAM)}
#define TRAINING(...)  {__VA_ARGS__, .of = OF_TRAINING}
/* they define rows that were never pushed */
#define INITIAL(...)   {__VA_ARGS__, .of = OF_TRAINING, .of_weights = true}

/* they take `auto`, too */
#define PLANNED .planned = true

#define ANY_U64 UINT64_MAX
#define ANY_FLOAT JOB_ANY_FLOAT
#define MIB (1ull << 20)
#define BUDGET_MAX (1ull << 50)

static const struct choice acks[] = {
	{"sent", JOB_ACK_SENT}, {"primary", JOB_ACK_PRIMARY}, {"replicas", JOB_ACK_REPLICAS}, {"disk", JOB_ACK_DISK}};
static const struct choice lanes[] = {{"auto", JOB_LANE_AUTO}, {"grpc", JOB_LANE_GRPC}};
static const struct choice logs[] = {{"memory", JOB_LOG_MEMORY}, {"disk", JOB_LOG_DISK}};
static const struct choice formats[] = {
	{"criteo", DATA_CRITEO}, {"libsvm", DATA_LIBSVM}, {"libffm", DATA_LIBFFM}, {"packed", DATA_PACKED},
	{"csv", DATA_CSV}, {"jsonl", DATA_JSONL}, {"parquet", DATA_PARQUET}, {"arrow", DATA_ARROW}, {"text", DATA_TEXT}, {"tokens", DATA_TOKENS}};
static const struct choice packings_of_tokens[] = {{"packed", PACKING_PACKED}, {"apart", PACKING_APART}};
static const struct choice chats[] = {{"auto", CHAT_AUTO}, {"none", CHAT_NONE}, {"chatml", CHAT_CHATML}, {"llama2", CHAT_LLAMA2},
	{"llama3", CHAT_LLAMA3}, {"alpaca", CHAT_ALPACA}};
static const struct choice invalids[] = {{"fail", INVALID_UTF8_FAIL}, {"replace", INVALID_UTF8_REPLACE}};
static const struct choice splits[] = {{"none", SPLIT_NONE}, {"crc32", SPLIT_CRC32}, {"group", SPLIT_GROUP}, {"time", SPLIT_TIME}};
static const struct choice models[] = {
#define ROW(NAME, name, reads, parts) {#name, MODEL_##NAME},
	MODEL_MAP(ROW)
#undef ROW
};
static const struct choice recomputes[] = {{"off", RECOMPUTE_OFF}, {"layers", RECOMPUTE_LAYERS}};
static const struct choice metrics[] = {{"auc", METRIC_AUC}, {"logloss", METRIC_LOGLOSS}};
static const struct choice best_bys[] = {
	{"early_stop", METRIC_OF_EARLY_STOP}, {"auc", METRIC_AUC}, {"logloss", METRIC_LOGLOSS}, {"pr_auc", METRIC_PR_AUC},
	{"gauc", METRIC_GAUC}, {"ndcg", METRIC_NDCG}, {"recall", METRIC_RECALL}, {"hit_rate", METRIC_HIT_RATE}};
static const struct choice losses[] = {{"bce", LOSS_BCE}, {"focal", LOSS_FOCAL}};
static const struct choice anomaly_policies[] = {{"warn", ANOMALY_WARN}, {"stop", ANOMALY_STOP}};
static const struct choice not_finites[] = {{"reject", NOT_FINITE_REJECT}, {"clip", NOT_FINITE_CLIP}, {"accept", NOT_FINITE_ACCEPT}};
static const struct choice overlaps[] = {{"auto", OVERLAP_AUTO}, {"off", OVERLAP_OFF}, {"layers", OVERLAP_LAYERS}};
static const struct choice lr_scales[] = {{"none", LR_SCALE_NONE}, {"linear", LR_SCALE_LINEAR}, {"sqrt", LR_SCALE_SQRT}};
static const struct choice products[] = {{"fp32", TRAIN_FP32}, {"tf32", TRAIN_TF32}, {"bf16", TRAIN_BF16}, {"fp16", TRAIN_FP16}};
static const struct choice slow_workers[] = {{"none", SLOW_NONE}, {"one", SLOW_ONE}, {"rotating", SLOW_ROTATING}};
static const struct choice froms[] = {{"primary", READ_PRIMARY}, {"any", READ_ANY}};
static const struct choice precisions[] = {
	{"fp32", PRECISION_FP32}, {"bf16", PRECISION_BF16}, {"int8", PRECISION_INT8}};
static const struct choice slot_precisions[] = {{"fp32", PRECISION_FP32}, {"bf16", PRECISION_BF16}};
static const struct choice modes[] = {{"async", WEIR_ASYNC}, {"sync", WEIR_SYNC}, {"ssp", WEIR_SSP}, {"local", JOB_MODE_LOCAL}};
static const struct choice keyed_modes[] = {{"async", WEIR_ASYNC}, {"sync", WEIR_SYNC}, {"ssp", WEIR_SSP}};
#define round_modes keyed_modes
static const struct choice optimizers[] = {
#define ROW(name, number, rule, slots, traits) {#rule, number},
	WEIR_OPTIMIZER_MAP(ROW)
#undef ROW
};
static const struct choice decays[] = {
#define ROW(name, number, text) {text, number},
	WEIR_DECAY_MAP(ROW)
#undef ROW
};
static const struct choice admissions[] = {
#define ROW(name, number, text) {text, number},
	WEIR_ADMISSION_MAP(ROW)
#undef ROW
};
static const struct choice schedules[] = {
#define ROW(name, number, text) {text, number},
	WEIR_SCHEDULE_MAP(ROW)
#undef ROW
};
static const struct choice codecs[] = {
#define ROW(name, number, text, feedback, uses) {#text, number},
	WEIR_CODEC_MAP(ROW)
#undef ROW
};
static const struct choice values[] = {
#define ROW(name, number, text, pulled) {#text, number},
	WEIR_VALUES_MAP(ROW)
#undef ROW
};
static const struct choice books[] = {
#define ROW(name, number, text) {text, number},
	WEIR_BOOK_MAP(ROW)
#undef ROW
};
static const struct choice packings[] = {
#define ROW(name, number, text) {text, number},
	WEIR_LZ4_MAP(ROW)
#undef ROW
};

/* The keys of an optimizer: p its path, o its place in struct job. */
#define OPTIMIZER_KEYS(p, o, default_kind, default_beta2)                                 \
	TRAINING(CHOICE(p ".kind", o.kind, default_kind, optimizers)),                                  \
	TRAINING(FLOAT(p ".lr", o.lr, "1.0e-3", 0, ANY_FLOAT)),                                         \
	TRAINING(BELOW(p ".momentum", o.momentum, "0.9", 0, 1)),                                        \
	TRAINING(BELOW(p ".beta1", o.beta1, "0.9", 0, 1)),                                              \
	TRAINING(BELOW(p ".beta2", o.beta2, default_beta2, 0, 1)),                                      \
	TRAINING(FLOAT(p ".eps", o.eps, "1.0e-8", 0, 1)),                                               \
	TRAINING(FLOAT(p ".initial", o.initial, "0", 0, ANY_FLOAT)),                                    \
	TRAINING(FLOAT(p ".weight_decay", o.weight_decay, "0", 0, ANY_FLOAT)),                          \
	TRAINING(FLOAT(p ".l1", o.l1, "0", 0, ANY_FLOAT)),                                              \
	TRAINING(FLOAT(p ".l2", o.l2, "0", 0, ANY_FLOAT)),                                              \
	TRAINING(FLOAT(p ".ftrl_beta", o.ftrl_beta, "1", 0, ANY_FLOAT)),                                \
	TRAINING(U32(p ".window", o.window, "1", 1, UINT32_MAX, "pushes")),                             \
	TRAINING(CHOICE(p ".decay", o.decay, "lazy", decays)),                                          \
	TRAINING(CHOICE(p ".schedule.kind", o.schedule.kind, "constant", schedules)),                   \
	TRAINING(U64(p ".schedule.warmup", o.schedule.warmup, "0", 0, ANY_U64, "steps")),               \
	TRAINING(U64(p ".schedule.total", o.schedule.total, "0", 0, ANY_U64, "steps")),                 \
	TRAINING(U64(p ".schedule.decay", o.schedule.decay, "0", 0, ANY_U64, "steps")),                 \
	TRAINING(U64(p ".schedule.period", o.schedule.period, "0", 0, ANY_U64, "steps")),               \
	TRAINING(FLOAT(p ".schedule.min", o.schedule.min, "0", 0, 1)),                                  \
	TRAINING(FLOAT(p ".schedule.gamma", o.schedule.gamma, "1", 0, 1))

/* The keys of one table: p its path, t its place in struct job. asks_mode: its mode takes
 * `auto`. */
#define TABLE_KEYS(p, t, modes, asks_mode)                                                          \
	OPTIMIZER_KEYS(p ".optimizer", t.optimizer, "adam", "0.999"),                                   \
	TRAINING(CHOICE(p ".mode.kind", t.mode.kind, "async", modes), .planned = asks_mode),            \
	TRAINING(U32(p ".mode.backup", t.mode.backup, "0", 0, WEIR_WORKERS_MAX - 1, "workers")),        \
	TRAINING(U32(p ".mode.bound", t.mode.bound, "0", 0, WEIR_SSP_BOUND_MAX, "batches")),            \
	TRAINING(BOOL(p ".mode.staleness_rate", t.mode.staleness_rate, "false")),                       \
	TRAINING(CHOICE(p ".push.codec", t.push.codec, "fp32", codecs), PLANNED),                       \
	TRAINING(FLOAT(p ".push.density", t.push.density, "0.01", 0, 0.25)),                            \
	TRAINING(CHOICE(p ".push.values", t.push.values, "log4", values)),                              \
	TRAINING(CHOICE(p ".push.book", t.push.book, "nf4", books)),                                    \
	TRAINING(BELOW(p ".push.momentum", t.push.momentum, "0", 0, 1)),                                \
	TRAINING(U32(p ".push.warmup", t.push.warmup, "0", 0, UINT32_MAX, "pushes")),                   \
	TRAINING(FLOAT(p ".push.rows", t.push.rows, "1", 0, 1)),                                        \
	TRAINING(FLOAT(p ".push.clip", t.push.clip, "0", 0, ANY_FLOAT)),                                \
	TRAINING(CHOICE(p ".push.lz4", t.push.lz4, "off", packings)),                                   \
	TRAINING(BOOL(p ".push.feedback", t.push.feedback, "true")),                                    \
	TRAINING(CHOICE(p ".pull.codec", t.pull.codec, "fp32", codecs), PLANNED),                       \
	TRAINING(FLOAT(p ".pull.density", t.pull.density, "0.02", 0, 0.25)),                            \
	TRAINING(CHOICE(p ".pull.values", t.pull.values, "bf16", values)),                              \
	TRAINING(CHOICE(p ".pull.book", t.pull.book, "nf4", books)),                                    \
	TRAINING(U32(p ".pull.every", t.pull.every, "1", 1, UINT32_MAX, "pushes"))

static const struct key keys[] = {
	OPERATION(TEXT("job", name, NULL)),
	OPERATION(TEXT("run_dir", run_dir, "")),
	OPERATION(U32("keep_runs", keep_runs, "3", 0, 1000, "runs")),
	OPERATION(TEXT("device", device, "auto")),
	OPERATION(U32("cluster.servers", cluster.servers, "1", 1, WEIR_SERVERS_MAX, "servers"), PLANNED),
	OPERATION(U32("cluster.workers", cluster.workers, "1", 1, WEIR_WORKERS_MAX, "workers"), PLANNED),
	OPERATION(U32("cluster.partitions", cluster.partitions, "16", 1, WEIR_PARTITIONS_MAX, "partitions"), PLANNED),
	OPERATION(U32("cluster.replicas", cluster.replicas, "1", 1, WEIR_COPIES_MAX, "copies")),
	OPERATION(U32_OR("cluster.min_isr", cluster.min_isr, "auto", 1, WEIR_COPIES_MAX, "copies", "auto")),
	OPERATION(TEXT("cluster.coord", cluster.coord, "static")),
	OPERATION(TEXT("cluster.listen", cluster.listen, "auto")),
	OPERATION(TEXT_LIST("cluster.servers_at", cluster.servers_at, "", WEIR_SERVERS_MAX)),
	OPERATION(CHOICE("cluster.lane", cluster.lane, "grpc", lanes)),
	OPERATION(U32_OR("cluster.lane_port", cluster.lane_port, "any", 1, WEIR_PORT_MAX, "port", "any")),
	OPERATION(BYTES("cluster.memory_budget", cluster.memory_budget_bytes, "4GiB", 16 * MIB, BUDGET_MAX)),
	OPERATION(CHOICE("cluster.ack", cluster.ack, "replicas", acks)),
	OPERATION(U32("cluster.fsync_interval_ms", cluster.fsync_interval_ms, "200", 1, 3600000, "milliseconds")),
	OPERATION(U32("cluster.flush_interval_ms", cluster.flush_interval_ms, "60000", 1, 3600000, "milliseconds")),
	OPERATION(CHOICE("cluster.log", cluster.log, "memory", logs)),
	OPERATION(U32("cluster.lease_ms", cluster.lease_ms, "4000", 3 * WEIR_PROGRESS_INTERVAL_MS + 1, WEIR_LEASE_TERM_MS_MAX, "milliseconds")),
	OPERATION(U32_OR("cluster.progress_timeout_ms", cluster.progress_timeout_ms, "auto", WEIR_PROGRESS_INTERVAL_MS, WEIR_IDLE_MS_MAX, "milliseconds", "auto")),
	OPERATION(U32("cluster.scrub_interval_s", cluster.scrub_interval_s, "300", 0, 1000000, "seconds")),
	OPERATION(U32("cluster.catch_up_mb_s", cluster.catch_up_mb_s, "200", 1, 1000000, "megabytes a second")),
	OPERATION(U32_OR("cluster.executors", cluster.executors, "auto", 1, WEIR_THREADS_MAX, "threads", "auto")),
	OPERATION(RATE("cluster.network.rate", cluster.network.rate_bits_per_s, "off", 100000, 400000000000)),
	OPERATION(U32("cluster.network.latency_ms", cluster.network.latency_ms, "0", 0, 1000, "milliseconds")),
	IDS(CHOICE("data.format", data.format, "criteo", formats)),
	DATA(TEXT_LIST("data.train", data.train, "", WEIR_DATA_FILES_MAX)),
	DATA(TEXT_LIST("data.valid", data.valid, "", WEIR_DATA_FILES_MAX)),
	DATA(TEXT_LIST("data.test", data.test, "", WEIR_DATA_FILES_MAX)),
	DATA(CHOICE("data.split.by", data.split.by, "none", splits)),
	DATA(U32("data.split.train", data.split.train, "80", 1, 10000, "shares")),
	DATA(U32("data.split.valid", data.split.valid, "10", 0, 10000, "shares")),
	DATA(U32("data.split.test", data.split.test, "10", 0, 10000, "shares")),
	DATA(TEXT("data.split.column", data.split.column, "")),
	DATA(TEXT("data.split.valid_from", data.split.valid_from, "")),
	DATA(TEXT("data.split.test_from", data.split.test_from, "")),
	IDS(COLUMNS("data.columns", data.columns, "", WEIR_COLUMNS_MAX)),
	DATA(TEXT("data.csv.delimiter", data.csv.delimiter, ",")),
	DATA(TEXT("data.csv.quote", data.csv.quote, "\"")),
	DATA(BOOL("data.csv.header", data.csv.header, "true")),
	DATA(TEXT_LIST("data.csv.names", data.csv.names, "", WEIR_COLUMNS_MAX)),
	DATA(U32("data.batch", data.batch, "512", 1, WEIR_BATCH_ROWS_MAX, "rows")),
	DATA(U32("data.unit_batches", data.unit_batches, "16", 1, WEIR_UNIT_BATCHES_MAX, "batches")),
	DATA(BOOL("data.shuffle", data.shuffle, "true")),
	DATA(U64("data.seed", data.seed, "1", 0, ANY_U64, NULL)),
	TEXTS(U32("data.context", data.context, "32", 1, WEIR_CONTEXT_MAX, "bytes")),
	DATA(U32("data.sequence", data.sequence, "256", 1, WEIR_SEQUENCE_MAX, "tokens")),
	IDS(TEXT("data.tokenizer", data.tokenizer, "")),
	DATA(CHOICE("data.packing", data.packing, "packed", packings_of_tokens)),
	DATA(CHOICE("data.chat", data.chat, "auto", chats)),
	DATA(CHOICE("data.invalid_utf8", data.invalid_utf8, "fail", invalids)),
	IDS(U32_OR("data.fields", data.fields, "auto", 1, WEIR_FIELDS_MAX, "categorical fields", "auto")),
	IDS(U32_OR("data.dense", data.dense, "auto", 1, WEIR_DENSE_FEATURES_MAX, "numeric features", "auto")),
	OPERATION(U32("data.bad_line_reports", data.min_bad_line_reports, "5", 0, 1000, "lines")),
	OPERATION(U64("data.bad_lines_max", data.bad_lines_max, "1000", 0, ANY_U64, "lines")),
	IDS(U64("data.hash_buckets", data.hash_buckets, "0", 0, WEIR_HASH_BUCKETS_MAX, "buckets")),
	DATA(FLOAT_OR("data.positive_above", data.positive_above, "auto", -ANY_FLOAT, ANY_FLOAT, "auto")),
	OPERATION(U32("data.threads", data.threads, "1", 1, WEIR_THREADS_MAX, "threads")),
	OPERATION(U32("data.prefetch", data.prefetch, "4", 1, WEIR_PREFETCH_MAX, "batches")),
	DATA(TEXT("data.cache", data.cache, "auto")),
	OPERATION(TEXT("data.endpoint", data.endpoint, "")),
	OPERATION(TEXT("data.region", data.region, "")),
	DATA(U64("data.generate.rows", data.generate.rows, "0", 0, WEIR_GENERATE_ROWS_MAX, "rows")),
	DATA(U64("data.generate.ids", data.generate.ids, "1000000", WEIR_GENERATE_IDS_MIN, WEIR_GENERATE_IDS_MAX, "ids")),
	DATA(U64("data.generate.seed", data.generate.seed, "1", 0, ANY_U64, NULL)),
	MODEL(CHOICE("model.kind", model.kind, "deepfm", models)),
	PART(HAS(EMBEDDING) | HAS(NGRAM), U32("model.dim", model.dim, "16", 1, WEIR_DIM_MAX, "elements")),
	PART(HAS(TOWER) | HAS(TASKS) | HAS(RETRIEVAL) | HAS(NGRAM), U32_LIST("model.hidden", model.hidden, "[400, 400]", 1, WEIR_LAYER_WIDTH_MAX, "units")),
	PART(HAS(INTERACTION), U32_LIST("model.bottom", model.bottom, "", 1, WEIR_LAYER_WIDTH_MAX, "units")),
	PART(HAS(CROSS) | HAS(CROSS_MIX), U32("model.cross_layers", model.cross_layers, "2", 1, WEIR_CROSS_LAYERS_MAX, "layers")),
	PART(HAS(CROSS_MIX) | HAS(EXPERTS), U32("model.experts", model.experts, "4", 1, WEIR_EXPERTS_MAX, "experts")),
	PART(HAS(CROSS_MIX), U32("model.rank", model.rank, "32", 1, WEIR_DIM_MAX, "elements")),
	PART(HAS(ATTENTION), U32_LIST("model.attention", model.attention, "[64, 16]", 1, WEIR_LAYER_WIDTH_MAX, "units")),
	PART(HAS(TASKS), U32_LIST("model.task_hidden", model.task_hidden, "[64]", 1, WEIR_LAYER_WIDTH_MAX, "units")),
	PART(HAS(RETRIEVAL), TEXT_LIST("model.user", model.user, "", WEIR_COLUMNS_MAX)),
	PART(HAS(RETRIEVAL), TEXT_LIST("model.item", model.item, "", WEIR_COLUMNS_MAX)),
	PART(HAS(RETRIEVAL), U32("model.vector", model.vector, "32", 1, WEIR_DIM_MAX, "elements")),
	PART(HAS(RETRIEVAL), FLOAT("model.temperature", model.temperature, "0.1", 1e-3, 1e3)),
	PART(HAS(RETRIEVAL), BOOL("model.normalize", model.normalize, "true")),
	PART(HAS(RETRIEVAL), BOOL("model.logq", model.logq, "true")),
	PART(HAS(RETRIEVAL), U32("model.negatives", model.negatives, "0", 0, WEIR_NEGATIVES_MAX, "items")),
	PART(HAS(RETRIEVAL), FLOAT("model.negatives_power", model.negatives_power, "0", 0, 1)),
	PART(HAS(CIN), U32_LIST("model.cin", model.cin, "[64, 64]", 1, WEIR_CIN_MAPS_MAX, "feature maps")),
	PART(HAS(TOWER) | HAS(TASKS) | HAS(RETRIEVAL) | HAS(NGRAM), BOOL("model.batch_norm", model.batch_norm, "false")),
	TRAINING(BELOW("model.dropout", model.dropout, "0", 0, 1)),
	INITIAL(FLOAT("model.init_std", model.init_std, "0.01", 0, 10)),
	TRAINING(FLOAT("model.l2.embedding", model.l2.embedding, "0", 0, ANY_FLOAT)),
	TRAINING(FLOAT("model.l2.linear", model.l2.linear, "0", 0, ANY_FLOAT)),
	TRAINING(FLOAT("model.l2.dense", model.l2.dense, "0", 0, ANY_FLOAT)),
	MODEL(TEXT("model.from", model.from, "")),
	MODEL(U32("model.layers", model.layers, "12", 1, WEIR_LAYERS_MAX, "layers")),
	MODEL(U32("model.heads", model.heads, "12", 1, WEIR_LAYER_WIDTH_MAX, "heads")),
	MODEL(U32_OR("model.kv_heads", model.kv_heads, "auto", 1, WEIR_LAYER_WIDTH_MAX, "heads", "auto")),
	MODEL(U32("model.width", model.width, "768", 1, WEIR_LAYER_WIDTH_MAX, "elements")),
	MODEL(U32_OR("model.feed_forward", model.feed_forward, "auto", 1, WEIR_LAYER_WIDTH_MAX, "elements", "auto")),
	MODEL(U32_OR("model.vocabulary", model.vocabulary, "auto", 1, WEIR_VOCABULARY_MAX, "tokens", "auto")),
	MODEL(U32_OR("model.positions", model.positions, "auto", 1, WEIR_POSITIONS_MAX, "tokens", "auto")),
	MODEL(FLOAT("model.norm_eps", model.norm_eps, "1.0e-5", 1e-12, 0.1)),
	MODEL(FLOAT("model.rope_theta", model.rope_theta, "10000", 2, ANY_FLOAT)),
	MODEL(BOOL("model.tied_head", model.tied_head, "true")),
	OPERATION(CHOICE("model.recompute", model.recompute, "off", recomputes)),
	TRAINING(TEXT("model.lora.from", model.lora.from, "")),
	MODEL(U32("model.lora.rank", model.lora.rank, "0", 0, WEIR_LAYER_WIDTH_MAX, "ranks")),
	MODEL(FLOAT("model.lora.alpha", model.lora.alpha, "16", 1e-6, ANY_FLOAT)),
	TRAINING(BELOW("model.lora.dropout", model.lora.dropout, "0", 0, 1)),
	MODEL(TEXT_LIST("model.lora.targets", model.lora.targets, "", WEIR_LORA_TARGETS_MAX)),
	TABLE_KEYS("tables.embedding", tables.embedding, keyed_modes, false),
	TRAINING(BYTES_OR("tables.embedding.pull.cache.memory", tables.embedding.cache.memory_bytes, "off", WEIR_ROW_CACHE_BYTES_MIN, WEIR_ROW_CACHE_BYTES_MAX, "off"), PLANNED),
	TRAINING(U32("tables.embedding.pull.cache.max_age", tables.embedding.cache.max_age, "16", 1, WEIR_ROW_CACHE_AGE_MAX, "batches")),
	TRAINING(U32("tables.embedding.pull.cache.max_uses", tables.embedding.cache.max_uses, "1", 1, WEIR_ROW_CACHE_AGE_MAX, "batches")),
	TRAINING(CHOICE("tables.embedding.admission.kind", tables.embedding.admission.kind, "none", admissions)),
	TRAINING(U32("tables.embedding.admission.count", tables.embedding.admission.count, "1", 1, UINT32_MAX, "pushes")),
	TRAINING(FLOAT("tables.embedding.admission.probability", tables.embedding.admission.probability, "1", 0, 1)),
	TRAINING(U32("tables.embedding.eviction.ttl_s", tables.embedding.eviction.ttl_s, "0", 0, UINT32_MAX, "seconds")),
	TRAINING(U32("tables.embedding.eviction.min_score", tables.embedding.eviction.min_score, "0", 0, UINT32_MAX, "pushes")),
	TRAINING(U32("tables.embedding.eviction.half_life_s", tables.embedding.eviction.half_life_s, "86400", 1, UINT32_MAX, "seconds")),
	TABLE_KEYS("tables.dense", tables.dense, modes, true),
	TRAINING(U32("tables.dense.mode.steps", tables.dense.mode.local_steps, "0", 0, WEIR_LOCAL_STEPS_MAX, "batches")),
	TRAINING(CHOICE("tables.dense.mode.rounds", tables.dense.local.rounds, "sync", round_modes)),
	TRAINING(U32("tables.dense.mode.fragments", tables.dense.mode.fragments, "1", 1, WEIR_FRAGMENTS_MAX, "fragments")),
	TRAINING(U32("tables.dense.mode.overlap", tables.dense.local.overlap, "0", 0, WEIR_LOCAL_STEPS_MAX - 1, "batches")),
	TRAINING(FLOAT("tables.dense.mode.merge", tables.dense.local.merge, "1", 0, 1)),
	TRAINING(BOOL("tables.dense.mode.by_speed", tables.dense.mode.local_speed, "false")),
	TRAINING(BOOL("tables.dense.decay_vectors", tables.dense.decay_vectors, "false")),
	OPTIMIZER_KEYS("tables.dense.mode.inner", tables.dense.local.inner, "adamw", "0.999"),
	TRAINING(U32("train.passes", train.passes, "1", 1, WEIR_PASSES_MAX, "passes")),
	TRAINING(CHOICE("train.loss.kind", train.loss.kind, "bce", losses)),
	TRAINING(FLOAT("train.loss.gamma", train.loss.gamma, "2", 0, 100)),
	TRAINING(FLOAT_OR("train.loss.alpha", train.loss.alpha, "0.25", 0, 1, "off")),
	TRAINING(BELOW("train.loss.label_smoothing", train.loss.label_smoothing, "0", 0, 1)),
	TRAINING(FLOAT("train.loss.pos_weight", train.loss.pos_weight, "1", 1e-6, 1e6)),
	TRAINING(FLOAT_LIST("train.loss.task_weights", train.loss.task_weights, WEIR_TASKS_MAX, 0, 1e6)),
	OPERATION(U32("train.accumulate", train.accumulate, "1", 1, WEIR_BATCH_ROWS_MAX, "parts")),
	OPERATION(CHOICE("train.overlap", train.overlap, "auto", overlaps)),
	TRAINING(FLOAT("train.clip_norm", train.clip_norm, "0", 0, ANY_FLOAT)),
	TRAINING(CHOICE("train.lr_scale", train.lr_scale, "none", lr_scales)),
	TRAINING(CHOICE("train.not_finite", train.not_finite, "reject", not_finites)),
	OPERATION(CHOICE("train.anomaly.policy", train.anomaly.policy, "warn", anomaly_policies)),
	OPERATION(U32("train.anomaly.data_s", train.anomaly.data_s, "60", 1, 86400, "seconds")),
	TRAINING(CHOICE("train.precision", train.precision, "fp32", products)),
	OPERATION(FLOAT("train.peak_flops", train.peak_flops, "0", 0, ANY_FLOAT)),
	OPERATION(BYTES_OR("train.device_memory", train.device_memory_bytes, "auto", 64 * MIB, BUDGET_MAX, "auto")),
	TRAINING(CHOICE("train.early_stop.metric", train.early_stop.metric, "auc", metrics)),
	TRAINING(U32("train.early_stop.patience", train.early_stop.patience, "0", 0, WEIR_PASSES_MAX, "evaluations")),
	TRAINING(FLOAT("train.early_stop.min_delta", train.early_stop.min_delta, "0", 0, ANY_FLOAT)),
	TRAINING(BOOL("train.keep_best", train.keep_best, "true")),
	TRAINING(CHOICE("train.best_by", train.best_by, "early_stop", best_bys)),
	TRAINING(TEXT("train.best_task", train.best_task, "")),
	TRAINING(U32_LIST("train.rank_at", train.rank_at, "[10]", 1, WEIR_RANK_K_MAX, "rows")),
	INITIAL(U64("train.seed", train.seed, "1", 0, ANY_U64, NULL)),
	OPERATION(U32("train.pace.batch_ms", train.pace.batch_ms, "0", 0, 3600000, "milliseconds")),
	OPERATION(CHOICE("train.pace.slow", train.pace.slow, "none", slow_workers)),
	OPERATION(U32("train.pace.times", train.pace.times, "4", 1, 1000, "times")),
	OPERATION(U32("train.pace.turn_ms", train.pace.turn_ms, "200", 1, 3600000, "milliseconds")),
	OPERATION(U32_OR("train.threads", train.threads, "auto", 1, WEIR_THREADS_MAX, "threads", "auto")),
	OPERATION(U32("train.allow_skip", train.allow_skip, "0", 0, WEIR_UNITS_PER_PASS_MAX, "units")),
	TRAINING(TEXT("train.warm_start", train.warm_start, "")),
	OPERATION(TEXT("checkpoint.dir", checkpoint.dir, "")),
	OPERATION(TEXT("checkpoint.endpoint", checkpoint.endpoint, "")),
	OPERATION(TEXT("checkpoint.region", checkpoint.region, "")),
	OPERATION(U64("checkpoint.every_steps", checkpoint.every_steps, "0", 0, ANY_U64, "batches")),
	OPERATION(U32("checkpoint.keep", checkpoint.keep, "3", 1, 1000, "checkpoints")),
	OPERATION(CHOICE("checkpoint.precision", checkpoint.precision, "fp32", precisions)),
	OPERATION(CHOICE("checkpoint.slot_precision", checkpoint.slot_precision, "fp32", slot_precisions)),
	OPERATION(BYTES("checkpoint.rate", checkpoint.rate_bytes_per_s, "32MiB", MIB, BUDGET_MAX)),
	OPERATION(TEXT("metrics.host", metrics.host, "127.0.0.1")),
	OPERATION(TEXT_LIST("metrics.names", metrics.names, "", WEIR_HTTP_NAMES_MAX)),
	OPERATION(U32_OR("metrics.port", metrics.port, "off", 1, 65535, "a port", "off")),
	OPERATION(TEXT("metrics.powercap", metrics.powercap, "/sys/class/powercap")),
	OPERATION(TEXT("track.dir", track.dir, "")),
	OPERATION(TEXT("track.mlflow.uri", track.mlflow.uri, "")),
	OPERATION(TEXT("track.mlflow.experiment", track.mlflow.experiment, "")),
	OPERATION(TEXT("track.mlflow.run_name", track.mlflow.run_name, "")),
	OPERATION(TEXT_LIST("track.mlflow.tags", track.mlflow.tags, "", WEIR_TRACK_TAGS_MAX)),
	OPERATION(TEXT("track.mlflow.parent", track.mlflow.parent, "")),
	OPERATION(U32("track.mlflow.patience_s", track.mlflow.patience_s, "10", 0, 3600, "seconds")),
	OPERATION(CHOICE("read.from", read.from, "primary", froms)),
	OPERATION(U32("read.max_staleness_ms", read.max_staleness_ms, "0", 0, 3600000, "milliseconds")),
	OPERATION(U64("read.max_staleness_entries", read.max_staleness_entries, "0", 0, ANY_U64, "log entries")),
	OPERATION(TEXT("security.certificate", security.certificate, "")),
	OPERATION(TEXT("security.key", security.key, "")),
	OPERATION(TEXT("security.ca", security.ca, "")),
	OPERATION(U32("security.reload_s", security.reload_s, "10", 1, 86400, "seconds")),
	OPERATION(BOOL("security.insecure", security.insecure, "false")),
};
/* clang-format on */

#define KEYS_COUNT (sizeof keys / sizeof keys[0])
_Static_assert(KEYS_COUNT <= JOB_KEYS_MAX, "a reader keeps one value per key");
_Static_assert(sizeof(enum log_place) == sizeof(uint32_t), "choices are stored as 32 bits");

const struct key *job_schema(uint32_t *count)
{
	*count = KEYS_COUNT;
	return keys;
}

const char *key_class_name(enum key_class c)
{
	static const char *const names[] = {
	    [OF_OPERATION] = "operation", [OF_DATA] = "data", [OF_MODEL] = "model", [OF_TRAINING] = "training"};
	return names[c];
}

const struct key *job_schema_find(const char *path)
{
	for (uint32_t i = 0; i < KEYS_COUNT; i++)
		if (strcmp(keys[i].path, path) == 0)
			return &keys[i];
	return NULL;
}

/* The part of a key's path inside map `path` (of `length` bytes), or NULL. */
static const char *inside(const struct key *key, const char *path, size_t length)
{
	if (length == 0)
		return key->path;
	return strncmp(key->path, path, length) == 0 && key->path[length] == '.' ? key->path + length + 1 : NULL;
}

bool job_schema_is_map(const char *path)
{
	for (uint32_t i = 0; i < KEYS_COUNT; i++)
		if (inside(&keys[i], path, strlen(path)))
			return true;
	return false;
}

uint32_t job_schema_children(const char *path, char names[][JOB_KEY_BYTES_MAX])
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < KEYS_COUNT; i++) {
		const char *rest = inside(&keys[i], path, strlen(path));
		if (!rest)
			continue;
		int length = (int)strcspn(rest, ".");
		snprintf(names[count], JOB_KEY_BYTES_MAX, "%.*s", length, rest);
		/* the rows of a map are adjacent */
		if (count == 0 || strcmp(names[count - 1], names[count]) != 0)
			count++;
	}
	return count;
}

/* Appends text, cut at the end of out. */
static void append(char out[JOB_EXPECTED_BYTES], const char *text)
{
	size_t length = strlen(out);
	snprintf(out + length, JOB_EXPECTED_BYTES - length, "%s", text);
}

static void expected_choices(const struct key *key, char out[JOB_EXPECTED_BYTES])
{
	append(out, "one of ");
	const char *comma = "";
	for (int later = 0; later < 2; later++) {
		for (uint32_t i = 0; i < key->choices_count; i++) {
			if (key->choices[i].later != (later == 1))
				continue;
			append(out, comma);
			append(out, key->choices[i].name);
			comma = ", ";
		}
		bool more = false;
		for (uint32_t i = 0; i < key->choices_count; i++)
			more |= key->choices[i].later;
		if (!more)
			return;
		comma = "";
		append(out, later == 0 ? " (not in this release: " : ")");
	}
}

static void expected_number(const struct key *key, char out[JOB_EXPECTED_BYTES])
{
	char text[128];
	append(out, key->type == KEY_U32_LIST ? "a list of whole numbers, each " : "a whole number ");
	if (key->high == ANY_U64)
		snprintf(text, sizeof text, "from %llu", (unsigned long long)key->low);
	else
		snprintf(text, sizeof text, "from %llu to %llu", (unsigned long long)key->low, (unsigned long long)key->high);
	append(out, text);
	if (key->type == KEY_U32_LIST) {
		snprintf(text, sizeof text, ", at most %zu of them", key->size);
		append(out, text);
	}
	if (key->unit) {
		snprintf(text, sizeof text, " (%s)", key->unit);
		append(out, text);
	}
	if (key->zero_word) {
		snprintf(text, sizeof text, ", or %s", key->zero_word);
		append(out, text);
	}
}

void job_schema_expected(const struct key *key, char out[JOB_EXPECTED_BYTES])
{
	out[0] = 0;
	switch (key->type) {
	case KEY_TEXT:
		snprintf(out, JOB_EXPECTED_BYTES, key->size == 2 ? "one character" : "a text of at most %zu bytes", key->size - 1);
		break;
	case KEY_U32:
	case KEY_U64:
	case KEY_U32_LIST:
		expected_number(key, out);
		break;
	case KEY_BYTES:
		snprintf(out, JOB_EXPECTED_BYTES, "a size such as 512MiB or 4GiB, from %lluMiB to %lluTiB%s%s",
		         (unsigned long long)(key->low >> 20), (unsigned long long)(key->high >> 40), key->zero_word ? ", or " : "",
		         key->zero_word ? key->zero_word : "");
		break;
	case KEY_RATE:
		snprintf(out, JOB_EXPECTED_BYTES, "bits a second such as 100Mb/s or 10Gb/s, from %llukb/s to %lluGb/s, or %s",
		         (unsigned long long)(key->low / 1000), (unsigned long long)(key->high / 1000000000), key->zero_word);
		break;
	case KEY_BOOL:
		append(out, "true or false");
		break;
	case KEY_FLOAT:
		if (key->zero_word)
			snprintf(out, JOB_EXPECTED_BYTES, "a number, or %s", key->zero_word);
		else if (key->float_high == ANY_FLOAT)
			snprintf(out, JOB_EXPECTED_BYTES, "a number from %g", key->float_low);
		else
			snprintf(out, JOB_EXPECTED_BYTES, "a number from %g to %s%g", key->float_low, key->float_below ? "below " : "",
			         key->float_high);
		break;
	case KEY_CHOICE:
		expected_choices(key, out);
		break;
	case KEY_TEXT_LIST:
		snprintf(out, JOB_EXPECTED_BYTES, "a text or a list of at most %zu texts", key->size);
		break;
	case KEY_FLOAT_LIST:
		snprintf(out, JOB_EXPECTED_BYTES, "a list of at most %zu numbers", key->size);
		break;
	case KEY_COLUMNS:
		snprintf(out, JOB_EXPECTED_BYTES, "a list of at most %zu maps, one a column, such as {name: user, kind: categorical}",
		         key->size);
		break;
	case KEY_LATER:
		append(out, "nothing: not in this release");
		break;
	}
	if (key->planned)
		append(out, ", or auto: the planner's choice");
}
