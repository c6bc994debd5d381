/* Every limit of the system, in one place, each enforced where its comment says. */
#ifndef WEIR_LIMITS_H
#define WEIR_LIMITS_H

#include <stdint.h>

/* Wire. Enforced by rpc (message), frame.c (the rest) before anything is allocated. */
#define WEIR_MESSAGE_BYTES_MAX    (4u << 20)             /* one RPC message, either way */
#define WEIR_MESSAGE_BYTES_TARGET (1u << 20)             /* what senders cut bulk data into */
#define WEIR_CONTROL_BYTES_MAX    (1u << 20)             /* one control (protobuf) message */
#define WEIR_REPLY_BYTES_MAX      WEIR_MESSAGE_BYTES_MAX /* a control reply that tells a whole job: wire_limits.c names them */
#define WEIR_CONTROL_HEAP_FACTOR  16u                    /* unpacked protobuf may use this times its input, plus */
#define WEIR_CONTROL_HEAP_FLOOR \
	(3u << 20)                         /* this: 4,096 workers that have done nothing, or 65,536 segments, are a few bytes each */
#define WEIR_STATE_HEAP_FACTOR   48u   /* the same of our own files: a unit that is closed is 8 bytes there, some 200 unpacked */
#define WEIR_FRAME_RECORDS_MAX   4096u /* records in one frame */
#define WEIR_RECORD_SECTIONS_MAX 256u  /* table sections in one record */
#define WEIR_SECTION_ROWS_MAX    (1u << 18) /* rows in one section */
/* unacknowledged request bytes per stream; enforced by the sender, checked by the receiver */
#define WEIR_STREAM_CREDIT_BYTES (16u << 20)
/* bulk that a client has sent and no server acknowledged; more would leave the caches before it is copied */
#define WEIR_PUSH_AHEAD_BYTES (4u << 20)
/* answers a client has asked for on a stream; more would only wait in socket buffers, out of the caches */
#define WEIR_PULL_AHEAD_BYTES       (4u << 20)
#define WEIR_STREAM_CREDIT_REQUESTS 1024u /* unacknowledged requests per stream */
#define WEIR_CONNECTIONS_MAX        4096u /* per server */
#define WEIR_CALLS_PER_CONNECTION_MAX \
	64u /* calls and streams at once: with what each may bring, what one peer can have a server hold */
#define WEIR_STREAMS_PER_PEER_MAX 16u    /* on one loop; enforced by rpc_grpc_server.c, as the next two are */
#define WEIR_REQUEST_MS           10000u /* a connection, and a request of a unary call, that is not whole after this is given up */
#define WEIR_CONNECTION_IDLE_MS   60000u /* and a connection without calls is closed after this */
#define WEIR_REFUSAL_MS \
	100u /* what is malformed is answered so late, that one peer's cannot take a server's time; enforced by rpc_server.c */
#define WEIR_METADATA_BYTES_MAX (16u << 10) /* per RPC */
/* What a server lets peers do before gRPC sees it. Enforced by ingress.c and h2_scan.c. */
#define WEIR_HEADER_BLOCK_BYTES_MAX      (64u << 10) /* HEADERS and their CONTINUATIONs */
#define WEIR_SOCKETS_MAX                 16384u      /* connections */
#define WEIR_SOCKETS_PER_ADDRESS_MAX     8192u       /* of one address; a machine, a proxy, or a whole cluster behind one */
#define WEIR_CONNECTIONS_NEW_MAX         1024u       /* that have not sent one whole header block */
#define WEIR_CONNECTIONS_NEW_PER_ADDRESS 512u
#define WEIR_CONNECTS_BURST              2048u /* of one address at once, */
#define WEIR_CONNECTS_PER_S              128u  /* and later; */
#define WEIR_CONNECTS_OF_A_CUT           64u   /* one that had to be cut counts as so many */
#define WEIR_TLS_HANDSHAKE_BYTES         2048u /* of a client, about */
#define WEIR_ADDRESS_BYTES_MAX           256u

/* Placement and tables. Enforced by job parsing and the table registry. */
#define WEIR_PARTITIONS_MAX             1024u
#define WEIR_PARTITIONS_DEFAULT         16u
#define WEIR_SERVERS_MAX                256u
#define WEIR_SERVERS_ADDED_MAX          16u     /* to a job that runs, beyond those it began with */
#define WEIR_SERVER_NONE                0xffffu /* no server's number */
#define WEIR_WORKERS_MAX                4096u   /* that live; enforced by ledger_join.c, as the next ones are */
#define WEIR_WORKERS_GONE_KEPT          256u /* that have gone and are still listed by name; older ones are in the totals alone */
#define WEIR_WORKERS_PER_CONNECTION_MAX 64u  /* that joined over one connection */
#define WEIR_WORKERS_PER_ADDRESS_MAX    (WEIR_WORKERS_MAX / 2) /* and from one address: the others' places are not one peer's */
#define WEIR_JOINS_BURST                WEIR_WORKERS_MAX       /* joins from one address at once, */
#define WEIR_JOINS_PER_S                256u                   /* and later */
#define WEIR_NAME_SILENT_MS             2000u                  /* a worker not heard for so long gives its name to a newcomer */
#define WEIR_TABLES_MAX                 1024u
#define WEIR_TABLE_NAME_BYTES_MAX       64u
#define WEIR_CHUNK_ELEMENTS             65536u       /* one row of a dense table */
#define WEIR_ROW_WIDTH_MAX              65536u       /* elements of one row */
#define WEIR_TABLE_ELEMENTS_MAX         (1ull << 40) /* of a dense table */
#define WEIR_TABLE_SEGMENTS_MAX         2048u        /* initialiser segments of a dense table: its tensors */
#define WEIR_SEGMENTS_MAX               65536u       /* of all tables of a job; enforced by ledger_tables.c */
#define WEIR_CATCH_UP_STEPS_MAX         4096u /* steps that a row left out takes at once, at most; enforced by optimizer.c (full decay) */

/* Work. Enforced by the ledger and the partitions. */
#define WEIR_UNIT_BATCHES_MAX     4096u      /* batches of one work unit */
#define WEIR_BATCH_WEIGHT_MAX     0x1p53     /* of a batch in the mean of its step: whole numbers up to here add up exactly */
#define WEIR_BATCH_PARTS_MAX      64u        /* parts of one batch in one partition */
#define WEIR_UNITS_OPEN_MAX       65536u     /* units open at once in a partition */
#define WEIR_UNITS_PER_PASS_MAX   (1u << 22) /* the ledger holds them all in memory */
#define WEIR_UNIT_ATTEMPTS_MAX    16u        /* then the unit is quarantined */
#define WEIR_LEASE_TERM_MS        4000u      /* default; renewed by progress */
#define WEIR_PROGRESS_INTERVAL_MS 1000u      /* a worker reports at least this often */
#define WEIR_GATHER_MS            60000u     /* synchronous jobs begin with fewer workers than cluster.workers after so long, */
#define WEIR_STEP_PATIENCE_MS     30000u     /* and a step without a worker that has work and is not ready after this */
#define WEIR_STEP_REPLACE_MS      5000u      /* steps wait so long for a worker in the place of one that ended */
/* A worker that others wait for and that does not move is taken for dead (ledger_idle.c) after: */
#define WEIR_IDLE_BATCHES      10u       /* times its longest batch, */
#define WEIR_IDLE_MS_MIN       60000u    /* but at least this, */
#define WEIR_IDLE_FIRST_MS     600000u   /* or before its first batch; cluster.progress_timeout_ms replaces all three, */
#define WEIR_IDLE_MS_MAX       86400000u /* at most this */
#define WEIR_STALL_NAMED_MS    3600000u  /* it is named for so long, or until it is back: another worker may have replaced it */
#define WEIR_UNIT_FAILURES_MAX 3u        /* explicit failures of a unit; then it is quarantined */
#define WEIR_UNITS_HELD_MAX    4u        /* units one worker holds at once */
#define WEIR_UNIT_PARTS        8u        /* into about so many parts, at most, is one cut towards the end of a pass */
#define WEIR_KEPT_ROWS_BYTES_MAX \
	(32u << 20) /* of a table, that a worker keeps back (push.rows): all of it fits one push; enforced by kept_rows.c */
#define WEIR_STATUS_HISTOGRAMS_MAX 256u /* a job of more workers does not tell the staleness of each */
#define WEIR_STEP_MEMBERS_MAX      WEIR_WORKERS_MAX
#define WEIR_STEP_CLOSES_KEPT      3u     /* closed steps that the ledger tells again; older ones are known everywhere */
#define WEIR_GATE_PATIENCE_MS      10000u /* a pass opens without its evaluation when no evaluator was alive for so long */

#define WEIR_EPOCHS_KEPT 256u /* starts of a server that a partition remembers; enforced by epochs.c */

/* Replication. Enforced by the job's schema; by replica*.c. */
#define WEIR_COPIES_MAX   3u /* of one partition that a job may ask for */
#define WEIR_REPLICAS_MAX 8u /* of one partition: in-sync members, and learners beside them */
/* Entries that another server has sent and that wait here for their executors; more, and reading its stream stops. Enforced by replica_intake.c. */
#define WEIR_REPLICA_CREDIT_BYTES      (16u << 20)
#define WEIR_REPLICA_BACKOFF_MAX_TICKS 10u /* of 100 ms: between two attempts to reach a server; enforced by replica_link.c */
#define WEIR_LEDGER_STATE_BYTES_MAX \
	((uint64_t)1 << 30) /* of a snapshot of the ledger on its way to another server; enforced by ledger_snapshot.c */
#define WEIR_LEDGER_PIECE_BYTES (WEIR_CONTROL_BYTES_MAX / 2) /* of it, in one message */
#define WEIR_LEDGER_LOG_BYTES \
	(16u << 20) /* of the ledger's log: entries in memory for replicas that are behind; enforced by ledger_log_replica.c */
#define WEIR_BACKLOG_BYTES \
	(64u << 20) /* of a server's logs: applied, and kept for replicas that are behind; enforced by roles.c */
/* Scrubs of partitions; by scrub.c. */
#define WEIR_SCRUB_SLICES      16u    /* a pass over the partition: a power of two, as each costs a look at all of its rows */
#define WEIR_SCRUB_PATIENCE_MS 60000u /* hashes that come later are not compared */
/* Snapshots of partitions. Enforced by snapshot_send.c; the patience by snapshot_stream.c too. */
#define WEIR_SNAPSHOTS_MAX        4u     /* under way at once, from one server */
#define WEIR_SNAPSHOT_PATIENCE_MS 30000u /* of who is not heard meanwhile, the snapshot is given up */
/* Between two servers. Enforced by heart*.c. */
#define WEIR_HEART_TICK_MS      100u
#define WEIR_HEART_SILENT_TICKS 5u    /* a server not heard for so many is reported */
#define WEIR_HEART_FIRST_TICKS  20u   /* one not heard yet since this one started, after so many */
#define WEIR_HEART_LATE_TICKS   1u    /* an executor that has not run for so many may keep back what others say */
#define WEIR_HEART_PAUSE_TICKS  10u   /* between two attempts to reach a server, at most */
#define WEIR_STUCK_MS           2000u /* an executor that has not run for so long serves nobody */
#define WEIR_HEART_ITEMS_MAX    (4u * (WEIR_PARTITIONS_MAX + 1u)) /* of one heartbeat */
/* In a partition's log, and not applied yet: further records wait; enforced by partition_tail.c. */
#define WEIR_TAIL_ENTRIES_MAX 4096u

/* Eviction by ttl_s and min_score. Enforced by partition_evict.c and cold_sweep.c: at every tick of a partition, about a millisecond at most. */
#define WEIR_EVICT_KEYS_MAX     512u   /* keys of one entry */
#define WEIR_EVICT_LOOKS        32768u /* rows in memory looked at */
#define WEIR_EVICT_LOOKS_BELOW  4096u  /* rows below it, by a thread of their own */
#define WEIR_EVICT_ROUND_MS_MIN 1000   /* between two rounds over all rows */
#define WEIR_EVICT_ROUND_MS_MAX 600000

/* Coordination. Enforced by coord.c; what comes back from etcd, by wire_limits.c. */
#define WEIR_COORD_KEY_BYTES_MAX    256u  /* with its NUL */
#define WEIR_COORD_VALUE_BYTES_MAX  4096u /* of one record */
#define WEIR_COORD_TXN_MAX          128u  /* guards, and changes, of one transaction; etcd's own limit */
#define WEIR_COORD_READ_RECORDS_MAX 8192u /* that one read returns; all together within WEIR_CONTROL_BYTES_MAX */
#define WEIR_COORD_ENDPOINTS_MAX    8u
#define WEIR_COORD_LEASE_MS_MIN     1000u /* etcd counts whole seconds */
#define WEIR_COORD_REVOKE_MS        1000u /* a session that closes gives its lease back within this, or lets it run out */

/* Log. Enforced by whoever appends to one (journal_describe). */
#define WEIR_ENTRY_BYTES_MAX (WEIR_MESSAGE_BYTES_MAX - 256u) /* one entry as a journal has it */

/* An entry that stays in memory for replicas gets a copy of its body, up to this, so that what else came with it can go: a message of some bytes may be all that
 * holds a buffer of 64 KiB. More: it may hold two such buffers that are not its own. Enforced by log_ring.c. */
#define WEIR_LOG_COPY_BYTES_MAX (64u << 10)

/* Journal. A file is reserved as a whole; the first one of a process is small, each later one twice
 * the one before it. Enforced by journal_write.c. */
#define WEIR_JOURNAL_FIRST_BYTES   (1u << 20)
#define WEIR_JOURNAL_SEGMENT_BYTES (64u << 20) /* at most */
/* A log that is larger than so many times the rows in memory is cut by a flush at once, within these
 * bounds. Enforced by durable.c. */
#define WEIR_JOURNAL_ROWS_FACTOR 2u
#define WEIR_JOURNAL_BYTES_MIN   ((uint64_t)256 << 20)
#define WEIR_JOURNAL_BYTES_MAX   ((uint64_t)2 << 30)
/* A server's low-water mark is written outside its folder at most so often. Enforced by marks.c. */
#define WEIR_MARK_INTERVAL_MS 1000u
#define WEIR_MARK_WAIT_MS     1000u /* at the end of a clean stop, for the coordinator and the ledger to take the last one */
/* Slow disks. Enforced by sync_watch.c. */
#define WEIR_SYNC_LONG_MS   1000u  /* a sync of the log that takes so long counts */
#define WEIR_SYNC_SLOW_MS   3000u  /* such syncs in a row for so long: the server leaves the in-sync replicas */
#define WEIR_SYNC_STEADY_MS 30000u /* and may come back so long after */
/* Space that a server's folder keeps for the small files of its end, and of the next start, on a full
 * disk. Enforced by data_folder.c. */
#define WEIR_RESERVE_BYTES (4u << 20)
/* Recovery. Enforced by durable.c. */
#define WEIR_ROWS_AT_START (4u << 20) /* of a server, loaded before it serves: some four seconds */

/* Time. */
#define WEIR_DEAD_PEER_MS        5000u /* a silent peer is reported after this */
#define WEIR_PAUSE_MS            1000u /* a loop that did not run for this long was stopped, and so heard nobody */
#define WEIR_KEEPALIVE_MS        1500u
#define WEIR_CONNECT_TIMEOUT_MS  4000u
#define WEIR_CONNECT_ATTEMPT_MS  3000u   /* to one address, once */
#define WEIR_CONTROL_TIMEOUT_MS  5000u   /* default deadline of a control call */
#define WEIR_STEP_POLL_MS        30000u  /* a long poll for a step; then it is asked again */
#define WEIR_PARK_TIMEOUT_MS     3000u   /* a parked pull answers NOT_CURRENT after this */
#define WEIR_READ_PARK_MS        100u    /* and one that a replica has parked which is not primary, after this */
#define WEIR_READ_SILENT_MS      500u    /* a client asks the primary what such a replica has not answered for so long, */
#define WEIR_READ_PAUSE_MS       1000u   /* and leaves that alone for this */
#define WEIR_MAP_REFRESH_MS      5000u   /* who reads from replicas asks who they are at least as often */
#define WEIR_DRAIN_MS            10000u  /* SIGTERM to exit */
#define WEIR_HAND_OVER_MS        2000u   /* of that, at most: a server's partitions become others' */
#define WEIR_READY_TIMEOUT_MS    10000u  /* a server that `weir train` starts serves within this */
#define WEIR_RECOVERY_TIMEOUT_MS 600000u /* one that recovers from its disk or a checkpoint, within this */
#define WEIR_SERVER_PATIENCE_MS  120000u /* clients wait this long for a server whose log is on disk to come back */
#define WEIR_STALL_PATIENCE_MS \
	30000u /* and this long for one whose log is in memory: where it died, all is lost, but it may only be busy */
#define WEIR_CHILD_RESTARTS_MAX   16u   /* in a row, of one killed process by `weir train` */
#define WEIR_CHILD_STEADY_MS      2000u /* a process that lived for so long starts counting anew */
#define WEIR_CHILD_PAUSE_FIRST_MS 250u  /* before the first restart; doubles */
#define WEIR_CHILD_PAUSE_CAP_MS   4000u
#define WEIR_LINK_DOWN_MS         200u  /* a client asks where partitions are when a lost connection is not back after this, */
#define WEIR_LINK_SILENT_MS       1000u /* or when one that works has not answered for this long */
#define WEIR_MAP_TIMEOUT_MS       1000u /* of that question */
#define WEIR_MAP_RETRY_FIRST_MS   50u   /* it is asked again after this, then half as long again each time, */
#define WEIR_MAP_RETRY_CAP_MS     1000u /* up to this */
#define WEIR_RETRY_MAX            8u
#define WEIR_RETRY_FIRST_MS       20u
#define WEIR_RETRY_CAP_MS         1000u

/* Data. Enforced by the loaders. */
#define WEIR_LINE_BYTES_MAX       (1u << 20)
#define WEIR_FIELDS_MAX           4096u
#define WEIR_HASH_BUCKETS_MAX     (1ull << 52) /* of a field: those of all fields have 64-bit keys */
#define WEIR_SURVEY_BYTES_MAX     (64u << 20)  /* of a part's text, read to find out what its lines look like */
#define WEIR_BATCH_ROWS_MAX       (1u << 20)
#define WEIR_FEATURES_PER_ROW_MAX 16384u
#define WEIR_DENSE_FEATURES_MAX   4096u
#define WEIR_CONTEXT_MAX          4096u       /* tokens that a language model sees before the one it predicts */
#define WEIR_BYTE_TOKENS          256u        /* different tokens of plain text */
#define WEIR_TEXT_BYTES_MAX       0xffffffffu /* of a part of the data, in memory: positions are spread by 64-bit products */
#define WEIR_SEQUENCE_MAX         (1u << 20)  /* tokens that a transformer reads at once */
#define WEIR_BATCH_TOKENS_MAX     (1u << 26)  /* of a batch, so that sizes of layers do not overflow: job_check_model.c */
#define WEIR_VOCABULARY_MAX       (1u << 22)  /* different tokens; enforced by string_table.c */

/* Rows that a worker keeps from batch to batch. Enforced by the job's schema; how many they are, by row_cache.c, where a place is 31 bits. */
#define WEIR_ROW_CACHE_BYTES_MIN (1ull << 20)
#define WEIR_ROW_CACHE_BYTES_MAX (1ull << 40)
#define WEIR_ROW_CACHE_ROWS_MAX  (1u << 30)
#define WEIR_ROW_CACHE_AGE_MAX   65535u /* batches; and times that a row is used */

/* Logs. Enforced by logger.c. */
#define WEIR_LOG_LINE_BYTES_MAX 4096u /* one line; the rest is cut */
#define WEIR_LOG_SITE_LINES_MAX 10u   /* lines per second of one call site */

/* Pages over HTTP. Enforced by http_server.c, and the last ones by overview_metrics.c, history.c and gpu.c. */
#define WEIR_HTTP_CONNECTIONS_MAX   32u
#define WEIR_HTTP_NAMES_MAX         32u         /* metrics.names of a job */
#define WEIR_HTTP_TIMEOUT_S         10u         /* of a connection that says nothing */
#define WEIR_HTTP_REQUEST_BYTES_MAX (32u << 10) /* memory of one */
#define WEIR_METRICS_WORKERS_MAX    256u        /* with series of their own; all are in the sums */
#define WEIR_HISTORY_POINTS         600u        /* of a job's curves, however long it runs */
#define WEIR_GPUS_MAX               32u         /* of a machine, alike */

/* Checkpoints. Enforced by blob.c and checkpoint_*.c. */
#define WEIR_BLOB_NAME_BYTES_MAX           192u       /* of an object, with its NUL */
#define WEIR_BLOB_PART_BYTES               (8u << 20) /* of a multipart upload; S3 wants 5 MiB or more */
#define WEIR_BLOB_PARTS_MAX                10000u     /* S3's limit */
#define WEIR_BLOB_ATTEMPTS_MAX             6u         /* of one request */
#define WEIR_BLOB_RETRY_FIRST_MS           100u
#define WEIR_BLOB_PATIENCE_MS              25000u /* a request of which nothing was answered for so long is not tried again */
#define WEIR_WEB_REDIRECTS_MAX             5u     /* of one request; enforced by web_request.c */
#define WEIR_BLOB_VERSION_BYTES            128u   /* with its NUL */
#define WEIR_CHECKPOINT_NAME_BYTES_MAX     48u    /* with its NUL */
#define WEIR_REWIND_WHY_BYTES_MAX          256u   /* why a job went back to one, with its NUL */
#define WEIR_CHECKPOINT_CHAIN_MAX          8u     /* row files of a partition: a full one and deltas on it */
#define WEIR_CHECKPOINT_MANIFEST_BYTES_MAX (64u << 20)
#define WEIR_CHECKPOINT_STATE_BYTES_MAX    (1u << 30) /* of a partition's header, of the ledger's state */

/* Configuration. */
#define WEIR_CONFIG_BYTES_MAX        (1u << 20)
#define WEIR_JOB_MISTAKES_MAX        64u /* of one job file that are told, each; enforced by job.c */
#define WEIR_PATH_BYTES_MAX          4096u
#define WEIR_NAME_BYTES_MAX          64u
#define WEIR_DEVICE_BYTES_MAX        96u /* "cuda:MIG-GPU-<UUID>/13/0" is the longest */
#define WEIR_HIDDEN_LAYERS_MAX       16u
#define WEIR_DATA_FILES_MAX          65536u
#define WEIR_FINGERPRINT_BYTES_MAX   (64u << 10) /* of what determines a job's results (fingerprint.h), */
#define WEIR_FINGERPRINT_KEY_BYTES   96u         /* of one of its keys, */
#define WEIR_FINGERPRINT_VALUE_BYTES 8192u       /* and of one value */
#define WEIR_ACCEPTED_KEYS_MAX       64u         /* that a process takes another value of knowingly (--accept) */
#define WEIR_CONTENT_BLOCK_BYTES     (16u << 10) /* data are sampled in blocks of so many bytes, */
#define WEIR_CONTENT_BLOCKS_MAX      4096u       /* so many of all files together, */
#define WEIR_CONTENT_BLOCKS_MIN      3u          /* and of one file at least: its head, middle and tail */
#define WEIR_CONTENT_FOLDER_FILES    1026u       /* of a model's folder, at most: its weights and two configurations */
#define WEIR_DIM_MAX                 4096u       /* width of an embedding */
#define WEIR_LAYER_WIDTH_MAX         65536u
#define WEIR_CROSS_LAYERS_MAX        16u
#define WEIR_LAYERS_MAX              126u       /* of a transformer; enforced by transformer_config.c, as this is */
#define WEIR_POSITIONS_MAX           (1u << 20) /* that its configuration may speak of */
#define WEIR_HEAD_WIDTH_MAX          256u       /* elements of a head of attention */
#define WEIR_LORA_TARGETS_MAX        16u        /* names of projections with adapters */
#define WEIR_THREADS_MAX             1024u      /* of one kind in one process */
#define WEIR_PREFETCH_MAX            1024u      /* batches */
#define WEIR_PASSES_MAX              1000000u
#define WEIR_GENERATE_ROWS_MAX       (1ull << 40)
#define WEIR_GENERATE_IDS_MIN        (26u * 512u) /* some for each field */
#define WEIR_GENERATE_IDS_MAX        (1ull << 28)
#define WEIR_LEASE_TERM_MS_MAX       3600000u

_Static_assert(WEIR_MESSAGE_BYTES_TARGET * 2 <= WEIR_MESSAGE_BYTES_MAX,
               "a message cut at the target must fit with its headers and one more row");
_Static_assert(WEIR_CHUNK_ELEMENTS * 4 * 2 <= WEIR_MESSAGE_BYTES_MAX, "a dense chunk must fit one message at fp32");
_Static_assert(WEIR_CHUNK_ELEMENTS <= 65536, "an offset inside a chunk must fit 16 bits");
_Static_assert(WEIR_STREAM_CREDIT_BYTES >= 2 * WEIR_MESSAGE_BYTES_MAX, "two messages must fit the credit, or a stream stalls");
_Static_assert(WEIR_PUSH_AHEAD_BYTES + WEIR_MESSAGE_BYTES_MAX <= WEIR_STREAM_CREDIT_BYTES,
               "seals, closes and retirements do not wait for bulk, and must have credit left");
_Static_assert(WEIR_COORD_TXN_MAX *(WEIR_COORD_KEY_BYTES_MAX + WEIR_COORD_VALUE_BYTES_MAX + 64) <= WEIR_CONTROL_BYTES_MAX,
               "the largest transaction must fit one control message");
_Static_assert(WEIR_COORD_READ_RECORDS_MAX >= 4 * WEIR_PARTITIONS_MAX, "a job's records must fit one read");
_Static_assert(WEIR_REPLICA_CREDIT_BYTES >= 2 * WEIR_MESSAGE_BYTES_MAX, "two messages must fit the credit, or a stream stalls");
_Static_assert(WEIR_JOURNAL_FIRST_BYTES <= WEIR_JOURNAL_SEGMENT_BYTES, "segments grow");
_Static_assert(2 * (uint64_t)WEIR_JOURNAL_SEGMENT_BYTES <= WEIR_JOURNAL_BYTES_MIN,
               "the log is cut segment by segment: a flush must leave more than the last one to let go");
_Static_assert(WEIR_SERVERS_MAX < 65535, "a server's number is 16 bits and 0xffff means none");
_Static_assert(WEIR_PARTITIONS_MAX <= 65535, "a partition id is 16 bits on the wire and 0xffff means all");
_Static_assert(WEIR_PROGRESS_INTERVAL_MS * 3 < WEIR_LEASE_TERM_MS, "a lease must survive two lost reports");
_Static_assert(WEIR_IDLE_MS_MIN >= 10 * WEIR_LEASE_TERM_MS && WEIR_IDLE_FIRST_MS >= WEIR_IDLE_MS_MIN &&
                   WEIR_IDLE_MS_MAX >= WEIR_IDLE_FIRST_MS,
               "a worker must have a chance to move before it is taken for dead");
_Static_assert(WEIR_SYNC_LONG_MS < WEIR_SYNC_SLOW_MS && WEIR_SYNC_SLOW_MS < WEIR_LEASE_TERM_MS,
               "a slow disk must be left before a worker's lease runs out for it");
_Static_assert(WEIR_SYNC_STEADY_MS >= 10 * WEIR_SYNC_SLOW_MS,
               "a replica that comes and goes costs more than one that stays away");
_Static_assert(WEIR_CONNECT_ATTEMPT_MS + 2000 <= WEIR_DEAD_PEER_MS,
               "a peer that does not answer must be noticed in time on a busy machine");
_Static_assert(WEIR_KEEPALIVE_MS * 2 < WEIR_DEAD_PEER_MS, "keepalive must notice a dead peer in time");
_Static_assert(WEIR_HAND_OVER_MS + WEIR_MARK_WAIT_MS < WEIR_DRAIN_MS, "the last mark must be written within a drain");

#endif
