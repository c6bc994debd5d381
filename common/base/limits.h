/* All limits of the system. Each comment names the file that enforces the limit. */
#ifndef WEIR_LIMITS_H
#define WEIR_LIMITS_H

#include <stdint.h>

/* Wire. rpc enforces the size of a message, frame.c the rest, before either allocates. */
#define WEIR_MESSAGE_BYTES_MAX    (4u << 20) /* one RPC message, either way */
#define WEIR_MESSAGE_BYTES_TARGET (1u << 20) /* senders cut bulk data into this */
#define WEIR_CONTROL_BYTES_MAX    (1u << 20) /* one control (protobuf) message */
/* a control reply about a whole job; wire_limits.c lists them */
#define WEIR_REPLY_BYTES_MAX WEIR_MESSAGE_BYTES_MAX
/* Memory that unpacked protobuf may use: this factor times its input, plus the floor. */
#define WEIR_CONTROL_HEAP_FACTOR 16u
/* The floor, for many small items: 4,096 workers that have done nothing, or 65,536 segments, take a
 * few bytes each. */
#define WEIR_CONTROL_HEAP_FLOOR (3u << 20)
/* The factor for our own files: a closed unit takes 8 bytes there, and about 200 unpacked. */
#define WEIR_STATE_HEAP_FACTOR   48u
#define WEIR_FRAME_RECORDS_MAX   4096u      /* records in one frame */
#define WEIR_RECORD_SECTIONS_MAX 256u       /* table sections in one record */
#define WEIR_SECTION_ROWS_MAX    (1u << 18) /* rows in one section */
/* unacknowledged request bytes per stream; the sender enforces it, the receiver checks it */
#define WEIR_STREAM_CREDIT_BYTES (16u << 20)
/* bulk that a client has sent and no server has acknowledged; more would leave the caches before it
 * is copied */
#define WEIR_PUSH_AHEAD_BYTES (4u << 20)
/* answers that a client has requested on a stream; more would wait in socket buffers, outside the
 * caches */
#define WEIR_PULL_AHEAD_BYTES       (4u << 20)
#define WEIR_STREAM_CREDIT_REQUESTS 1024u /* unacknowledged requests per stream */
#define WEIR_CONNECTIONS_MAX        4096u /* per server */
/* Concurrent calls and streams of one connection. With the size of each, this bounds the memory
 * that one peer can make a server hold. */
#define WEIR_CALLS_PER_CONNECTION_MAX 64u
/* On one loop. rpc_grpc_server.c enforces this and the next two. */
#define WEIR_STREAMS_PER_PEER_MAX 16u
/* A connection, or the request of a unary call, that is incomplete after this is dropped. */
#define WEIR_REQUEST_MS         10000u
#define WEIR_CONNECTION_IDLE_MS 60000u /* a connection without calls is closed after this */
/* Delay of the answer to a malformed request, and of the end of a refused connection, so that a
 * peer that tries again at once cannot take a server's time. Enforced by rpc_server.c and
 * refused.c. */
#define WEIR_REFUSAL_MS         100u
#define WEIR_REFUSED_HELD_MAX   1024u       /* refused connections that wait for their end */
#define WEIR_METADATA_BYTES_MAX (16u << 10) /* per RPC */
/* What a server accepts from peers before gRPC sees it. Enforced by ingress.c and h2_scan.c. */
#define WEIR_HEADER_BLOCK_BYTES_MAX (64u << 10) /* a HEADERS frame and its CONTINUATIONs */
#define WEIR_SOCKETS_MAX            16384u      /* connections */
/* connections per address: a machine, a proxy, or a whole cluster behind one */
#define WEIR_SOCKETS_PER_ADDRESS_MAX 8192u
/* connections that have not sent a whole header block yet */
#define WEIR_CONNECTIONS_NEW_MAX         1024u
#define WEIR_CONNECTIONS_NEW_PER_ADDRESS 512u
#define WEIR_CONNECTS_BURST              2048u /* new connections per address: at once */
#define WEIR_CONNECTS_PER_S              128u  /* and sustained */
/* a connection that had to be cut counts as this many, and one whose TLS handshake failed */
#define WEIR_CONNECTS_OF_A_CUT         64u
#define WEIR_CONNECTS_OF_A_REFUSED_TLS 16u
#define WEIR_TLS_HANDSHAKE_BYTES       2048u /* from a client, about */
#define WEIR_ADDRESS_BYTES_MAX         256u

/* Placement and tables. Enforced by job parsing and the table registry. */
#define WEIR_PARTITIONS_MAX     1024u
#define WEIR_PARTITIONS_DEFAULT 16u
#define WEIR_SERVERS_MAX        256u
/* servers added to a running job, beyond its first ones */
#define WEIR_SERVERS_ADDED_MAX 16u
#define WEIR_PORT_MAX          65535u
#define WEIR_SERVER_NONE       0xffffu /* not a server's number */
/* live workers; ledger_join.c enforces this and the next ones */
#define WEIR_WORKERS_MAX 4096u
/* departed workers listed by name; older ones are only in the totals */
#define WEIR_WORKERS_GONE_KEPT          256u
#define WEIR_WORKERS_PER_CONNECTION_MAX 64u /* workers that joined over one connection */
/* workers that joined from one address, so that one peer cannot take all places */
#define WEIR_WORKERS_PER_ADDRESS_MAX (WEIR_WORKERS_MAX / 2)
#define WEIR_JOINS_BURST             WEIR_WORKERS_MAX /* joins per address: at once */
#define WEIR_JOINS_PER_S             256u             /* and sustained */
/* a newcomer may take the name of a worker silent for this long */
#define WEIR_NAME_SILENT_MS       2000u
#define WEIR_TABLES_MAX           1024u
#define WEIR_TABLE_NAME_BYTES_MAX 64u
#define WEIR_CHUNK_ELEMENTS       65536u       /* elements in one row of a dense table */
#define WEIR_ROW_WIDTH_MAX        65536u       /* elements in one row */
#define WEIR_TABLE_ELEMENTS_MAX   (1ull << 40) /* of a dense table */
/* initialiser segments of a dense table: its tensors */
#define WEIR_TABLE_SEGMENTS_MAX 2048u
/* initialiser segments of all tables of a job; enforced by ledger_tables.c */
#define WEIR_SEGMENTS_MAX 65536u
/* Steps that a row catches up at once after pushes without it; enforced by optimizer.c (full
 * decay). */
#define WEIR_CATCH_UP_STEPS_MAX 4096u

/* Work. Enforced by the ledger and the partitions. */
#define WEIR_UNIT_BATCHES_MAX 4096u /* batches in one work unit */
/* weight of a batch in the mean of its step; integers up to here add up exactly */
#define WEIR_BATCH_WEIGHT_MAX 0x1p53
/* A synchronous dense table with more chunks than this travels by layers; smaller ones gain
 * nothing. */
#define WEIR_LAYERED_CHUNKS       4u
#define WEIR_BATCH_PARTS_MAX      64u        /* parts of one batch in one partition */
#define WEIR_UNITS_OPEN_MAX       65536u     /* units open at once in a partition */
#define WEIR_UNITS_PER_PASS_MAX   (1u << 22) /* the ledger holds all of them in memory */
#define WEIR_UNIT_ATTEMPTS_MAX    16u        /* then the unit is quarantined */
#define WEIR_LEASE_TERM_MS        4000u      /* default; progress reports renew the lease */
#define WEIR_PROGRESS_INTERVAL_MS 1000u      /* a worker reports at least this often */
/* a synchronous job starts with fewer than cluster.workers after this */
#define WEIR_GATHER_MS 60000u
/* after this, a step goes on without a worker that has work but is not ready */
#define WEIR_STEP_PATIENCE_MS 30000u
/* steps wait this long for the replacement of a worker that ended */
#define WEIR_STEP_REPLACE_MS 5000u
/* A worker that others wait for and that makes no progress is declared dead (ledger_idle.c) after
 * WEIR_IDLE_BATCHES times its longest batch, but at least WEIR_IDLE_MS_MIN; before its first batch,
 * after WEIR_IDLE_FIRST_MS. cluster.progress_timeout_ms replaces all three. */
#define WEIR_IDLE_BATCHES  10u /* batches */
#define WEIR_IDLE_MS_MIN   60000u
#define WEIR_IDLE_FIRST_MS 600000u
#define WEIR_IDLE_MS_MAX   86400000u /* maximum of cluster.progress_timeout_ms */
/* A stalled worker stays listed by name for this long, or until it returns: another may have
 * replaced it. */
#define WEIR_STALL_NAMED_MS    3600000u
#define WEIR_UNIT_FAILURES_MAX 3u /* explicit failures of a unit; then it is quarantined */
#define WEIR_UNITS_HELD_MAX    4u /* units that one worker holds at once */
/* a unit near the end of a pass is cut into about this many parts at most */
#define WEIR_UNIT_PARTS 8u
/* Rows of one table that a worker keeps back (push.rows): all of them fit one push. Enforced by
 * row_sparsifier.c. */
#define WEIR_KEPT_ROWS_BYTES_MAX (32u << 20)
/* jobs with more workers do not report the staleness of each */
#define WEIR_STATUS_HISTOGRAMS_MAX 256u
#define WEIR_STEP_MEMBERS_MAX      WEIR_WORKERS_MAX
/* closed steps that the ledger repeats; older ones are known everywhere */
#define WEIR_STEP_CLOSES_KEPT 3u
/* a pass opens without evaluation after this long without a live evaluator */
#define WEIR_GATE_PATIENCE_MS 10000u

/* starts of a server that a partition remembers; enforced by epochs.c */
#define WEIR_EPOCHS_KEPT 256u

/* Replication. Enforced by the job's schema and by replica*.c. */
#define WEIR_COPIES_MAX   3u /* copies of one partition that a job may request */
#define WEIR_REPLICAS_MAX 8u /* of one partition: in-sync members and learners */
/* Entries from another server that wait here for their executors. Above this, the server stops
 * reading the stream. Enforced by replica_intake.c. */
#define WEIR_REPLICA_CREDIT_BYTES (16u << 20)
/* ticks of 100 ms between two attempts to reach a server, at most; enforced by replica_link.c */
#define WEIR_REPLICA_BACKOFF_MAX_TICKS 10u
/* Snapshot of the ledger on its way to another server; enforced by ledger_snapshot.c. */
#define WEIR_LEDGER_STATE_BYTES_MAX ((uint64_t)1 << 30)
/* part of that snapshot in one message */
#define WEIR_LEDGER_PIECE_BYTES (WEIR_CONTROL_BYTES_MAX / 2)
/* Entries of the ledger's log that stay in memory for replicas that are behind; enforced by
 * ledger_log_replica.c. */
#define WEIR_LEDGER_LOG_BYTES (16u << 20)
/* Applied entries of a server's logs that are kept for replicas that are behind; enforced by
 * roles.c. */
#define WEIR_BACKLOG_BYTES (64u << 20)
/* Scrubs of partitions. Enforced by scrub.c. */
/* Slices of a pass over the partition. A power of two; each slice costs a look at all of its
 * rows. */
#define WEIR_SCRUB_SLICES      16u
#define WEIR_SCRUB_PATIENCE_MS 60000u /* hashes that arrive later are not compared */
/* Snapshots of partitions. Enforced by snapshot_send.c; the patience also by snapshot_stream.c. */
#define WEIR_SNAPSHOTS_MAX 4u /* in progress at once, from one server */
/* a snapshot is abandoned when its peer is silent for this long */
#define WEIR_SNAPSHOT_PATIENCE_MS 30000u
/* Heartbeats between two servers. Enforced by failure_detector.c and heartbeat_*.c. */
#define WEIR_HEARTBEAT_TICK_MS      100u
#define WEIR_HEARTBEAT_SILENT_TICKS 5u  /* a server silent for this many ticks is reported */
#define WEIR_HEARTBEAT_FIRST_TICKS  20u /* the same for a server not heard since this one started */
/* an executor that has not run for this long may delay messages from others */
#define WEIR_HEARTBEAT_LATE_TICKS 1u
/* ticks between two attempts to reach a server, at most */
#define WEIR_HEARTBEAT_PAUSE_TICKS 10u
/* an executor that has not run for this long serves nobody */
#define WEIR_STUCK_MS 2000u
/* items of one heartbeat */
#define WEIR_HEARTBEAT_ITEMS_MAX (4u * (WEIR_PARTITIONS_MAX + 1u))
/* Entries in a partition's log that are not applied yet. Above this, further records wait. Enforced
 * by partition_tail.c. */
#define WEIR_TAIL_ENTRIES_MAX 4096u

/* Eviction by ttl_s and min_score, at every tick of a partition, for at most about a millisecond.
 * Enforced by partition_evict.c and cold_sweep.c. */
#define WEIR_EVICT_KEYS_MAX     512u   /* keys in one entry */
#define WEIR_EVICT_LOOKS        32768u /* rows in memory that are looked at */
#define WEIR_EVICT_LOOKS_BELOW  4096u  /* rows on disk that are looked at, by a separate thread */
#define WEIR_EVICT_ROUND_MS_MIN 1000   /* between two rounds over all rows */
#define WEIR_EVICT_ROUND_MS_MAX 600000

/* Coordination. Enforced by coord.c; for answers from etcd, by wire_limits.c. */
#define WEIR_COORD_KEY_BYTES_MAX   256u  /* with its NUL */
#define WEIR_COORD_VALUE_BYTES_MAX 4096u /* one record */
/* guards, and changes, of one transaction; etcd's own limit */
#define WEIR_COORD_TXN_MAX 128u
/* records in the answer to one read; their total size is within WEIR_CONTROL_BYTES_MAX */
#define WEIR_COORD_READ_RECORDS_MAX 8192u
#define WEIR_COORD_ENDPOINTS_MAX    8u
#define WEIR_COORD_LEASE_MS_MIN     1000u /* etcd counts in whole seconds */
/* a closing session returns its lease within this, or else lets it expire */
#define WEIR_COORD_REVOKE_MS 1000u

/* Log. Enforced by every writer of a log (journal_describe). */
#define WEIR_ENTRY_BYTES_MAX (WEIR_MESSAGE_BYTES_MAX - 256u) /* one entry in a journal's format */

/* An entry that stays in memory for replicas gets a copy of its body, up to this size, so that the
 * rest of its message can be freed: a message of a few bytes may hold a buffer of 64 KiB. A larger
 * entry is not copied; it may hold two such buffers that are not its own. Enforced by
 * log_ring.c. */
#define WEIR_LOG_COPY_BYTES_MAX (64u << 10)

/* Journal. A file's space is reserved as a whole. The first file of a process is small; each later
 * one is twice as large. Enforced by journal_write.c. */
#define WEIR_JOURNAL_FIRST_BYTES   (1u << 20)
#define WEIR_JOURNAL_SEGMENT_BYTES (64u << 20) /* at most */
/* A log larger than this many times the rows in memory triggers a flush that cuts it at once,
 * within the bounds below. Enforced by durable.c. */
#define WEIR_JOURNAL_ROWS_FACTOR 2u
#define WEIR_JOURNAL_BYTES_MIN   ((uint64_t)256 << 20)
#define WEIR_JOURNAL_BYTES_MAX   ((uint64_t)2 << 30)
/* Minimum time between two writes of a server's low-water mark outside its folder. Enforced by
 * marks.c. */
#define WEIR_MARK_INTERVAL_MS 1000u
/* At the end of a clean stop: wait for the coordinator and the ledger to take the last mark. */
#define WEIR_MARK_WAIT_MS 1000u
/* A client asks again for a leased unit that a partition has closed, until the ledger fails the job
 * because its own state has gone back; for this long at most. */
#define WEIR_CLOSED_UNIT_WAIT_MS  10000u
#define WEIR_CLOSED_UNIT_RETRY_MS 100u
/* Slow disks. Enforced by sync_watch.c. */
#define WEIR_SYNC_LONG_MS 1000u /* a sync of the log that takes this long counts */
/* after this long with only such syncs, the server leaves the in-sync replicas */
#define WEIR_SYNC_SLOW_MS   3000u
#define WEIR_SYNC_STEADY_MS 30000u /* it may return this long after the last one */
/* Space that a server's folder reserves for the small files of its stop and of its next start on a
 * full disk. Enforced by data_folder.c. */
#define WEIR_RESERVE_BYTES (4u << 20)
/* Recovery. Enforced by durable.c. */
/* rows that a server loads before it serves: about four seconds */
#define WEIR_ROWS_AT_START (4u << 20)

/* Time. */
#define WEIR_DEAD_PEER_MS 5000u /* a silent peer is reported after this */
/* a loop that did not run for this long was stopped, and heard nobody */
#define WEIR_PAUSE_MS           1000u
#define WEIR_KEEPALIVE_MS       1500u
#define WEIR_CONNECT_TIMEOUT_MS 4000u
/* From the question for a lane to its first message, and of its ticket; then the stream goes over
 * gRPC. A server that could not be reached by a lane is not tried again for WEIR_LANE_AGAIN_MS. */
#define WEIR_LANE_OPEN_MS  2000u
#define WEIR_LANE_AGAIN_MS 60000u
/* Enforced by lane_listen.c: tickets that have not been shown; connections without one. */
#define WEIR_LANE_TICKETS_MAX     1024u
#define WEIR_LANE_VISITORS_MAX    256u
#define WEIR_CERTIFICATE_RELOAD_S 10u    /* default of security.reload_s */
#define WEIR_CONNECT_ATTEMPT_MS   3000u  /* one attempt, to one address */
#define WEIR_CONTROL_TIMEOUT_MS   5000u  /* default deadline of a control call */
#define WEIR_STEP_POLL_MS         30000u /* a long poll for a step; then the client asks again */
#define WEIR_PARK_TIMEOUT_MS      3000u  /* a parked pull answers NOT_CURRENT after this */
/* a pull parked at a replica that is not primary, after this */
#define WEIR_READ_PARK_MS 100u
/* a client asks the primary after a replica's silence of this long */
#define WEIR_READ_SILENT_MS 500u
#define WEIR_READ_PAUSE_MS  1000u /* and does not ask that replica again for this long */
/* a client that reads from replicas refreshes its map at least this often */
#define WEIR_MAP_REFRESH_MS 5000u
#define WEIR_DRAIN_MS       10000u /* SIGTERM to exit */
/* part of that, at most, for handing partitions to other servers */
#define WEIR_HAND_OVER_MS 2000u
/* a server that `weir train` starts must serve within this */
#define WEIR_READY_TIMEOUT_MS 10000u
/* the same for one that recovers from its disk or a checkpoint */
#define WEIR_RECOVERY_TIMEOUT_MS 600000u
/* clients wait this long for a server whose log is on disk */
#define WEIR_SERVER_PATIENCE_MS 120000u
/* Clients wait this long for a server whose log is in memory. If it died, all is lost, but it may
 * only be busy. */
#define WEIR_STALL_PATIENCE_MS    30000u
#define WEIR_CHILD_RESTARTS_MAX   16u   /* in a row, of one killed process, by `weir train` */
#define WEIR_CHILD_STEADY_MS      2000u /* a process that lived this long resets the count */
#define WEIR_CHILD_PAUSE_FIRST_MS 250u  /* before the first restart; doubles */
#define WEIR_CHILD_PAUSE_CAP_MS   4000u
/* a client asks for the partition map when a connection is lost for this long */
#define WEIR_LINK_DOWN_MS   200u
#define WEIR_LINK_SILENT_MS 1000u /* or a working one is silent for this long */
#define WEIR_MAP_TIMEOUT_MS 1000u /* of one map request */
/* pause before the next map request; grows by half each time */
#define WEIR_MAP_RETRY_FIRST_MS 50u
#define WEIR_MAP_RETRY_CAP_MS   1000u /* up to this */
#define WEIR_RETRY_MAX          8u
#define WEIR_RETRY_FIRST_MS     20u
#define WEIR_RETRY_CAP_MS       1000u

/* Data. Enforced by the loaders. */
#define WEIR_LINE_BYTES_MAX (1u << 20)
#define WEIR_FIELDS_MAX     4096u
/* of a field; the buckets of all fields have 64-bit keys */
#define WEIR_HASH_BUCKETS_MAX (1ull << 52)
/* text of a part that is read to detect the form of its lines */
#define WEIR_SURVEY_BYTES_MAX     (64u << 20)
#define WEIR_BATCH_ROWS_MAX       (1u << 20)
#define WEIR_FEATURES_PER_ROW_MAX 16384u
#define WEIR_DENSE_FEATURES_MAX   4096u
#define WEIR_TASKS_MAX            64u /* labels of a row; a bit each in dataset_labels */
#define WEIR_TASK_NAME_BYTES      64u /* of a task in reports, with its NUL */
/* columns of data with names: data.columns, and those of a file */
#define WEIR_COLUMNS_MAX             8192u
#define WEIR_COLUMN_NAME_BYTES_MAX   256u        /* with its NUL */
#define WEIR_COLUMN_VALUE_BYTES_MAX  256u        /* the value of an empty cell, with its NUL */
#define WEIR_COLUMN_FORMAT_BYTES_MAX 64u         /* of a time, with its NUL */
#define WEIR_BOUNDARIES_MAX          1024u       /* of a bucketized column */
#define WEIR_CELL_BYTES_MAX          (64u << 10) /* of a cell of CSV; parse_table.c */
#define WEIR_SLICE_VALUES_MAX        (1u << 20)  /* of the column that slices an evaluation */
/* tokens that a language model sees before the predicted one */
#define WEIR_CONTEXT_MAX 4096u
#define WEIR_BYTE_TOKENS 256u /* different tokens of plain text */
/* A part of the data, in memory: 64-bit products spread the positions. */
#define WEIR_TEXT_BYTES_MAX 0xffffffffu
#define WEIR_SEQUENCE_MAX   (1u << 20) /* tokens that a transformer reads at once */
/* tokens in a batch, so that sizes of layers do not overflow: job_check_model.c */
#define WEIR_BATCH_TOKENS_MAX (1u << 26)
#define WEIR_VOCABULARY_MAX   (1u << 22) /* different tokens; enforced by string_table.c */

/* Rows that a worker keeps from batch to batch. Enforced by the job's schema. row_cache.c enforces
 * their number: an index there is 31 bits. */
#define WEIR_ROW_CACHE_BYTES_MIN (1ull << 20)
#define WEIR_ROW_CACHE_BYTES_MAX (1ull << 40)
#define WEIR_ROW_CACHE_ROWS_MAX  (1u << 30)
#define WEIR_ROW_CACHE_AGE_MAX   65535u /* batches, and uses of a row */

/* Logs. Enforced by logger.c. */
#define WEIR_LOG_LINE_BYTES_MAX 4096u /* one line; the rest is cut */
#define WEIR_LOG_SITE_LINES_MAX 10u   /* lines per second of one call site */

/* Pages over HTTP. Enforced by http_server.c; the last three by overview_metrics.c, history.c and
 * gpu.c. */
#define WEIR_HTTP_CONNECTIONS_MAX   32u
#define WEIR_HTTP_NAMES_MAX         32u         /* metrics.names of a job */
#define WEIR_HTTP_TIMEOUT_S         10u         /* of a silent connection */
#define WEIR_HTTP_REQUEST_BYTES_MAX (32u << 10) /* memory of one request */
/* workers with their own series; the sums include all */
#define WEIR_METRICS_WORKERS_MAX 256u
#define WEIR_HISTORY_POINTS      600u /* points of a job's curves, for any run time */
#define WEIR_GPUS_MAX            32u  /* of one machine */

/* Tracking. Enforced by the job schema and tracker.c. */
#define WEIR_TRACK_TAGS_MAX           64u    /* track.mlflow.tags of a job */
#define WEIR_TRACK_POINTS_MAX         16384u /* values that wait for a tracking server; the oldest are dropped */
#define WEIR_TRACK_ARTIFACT_BYTES_MAX (64u << 20)
#define WEIR_TRACK_NAME_BYTES         64u    /* of a value, with its NUL */
#define WEIR_TRACK_TIMEOUT_MS         10000u /* of one request */
#define WEIR_TRACK_RETRY_MS           1000u  /* pause after a failed request; doubles each time, up to */
#define WEIR_TRACK_RETRY_MS_MAX       30000u

/* Checkpoints. Enforced by blob.c and checkpoint_*.c. */
#define WEIR_BLOB_NAME_BYTES_MAX 192u /* an object's name, with its NUL */
/* a part of a multipart upload; S3 requires at least 5 MiB */
#define WEIR_BLOB_PART_BYTES     (8u << 20)
#define WEIR_BLOB_PARTS_MAX      10000u /* S3's limit */
#define WEIR_BLOB_ATTEMPTS_MAX   6u     /* of one request */
#define WEIR_BLOB_RETRY_FIRST_MS 100u
/* a request without any answer for this long is not retried */
#define WEIR_BLOB_PATIENCE_MS          25000u
#define WEIR_WEB_REDIRECTS_MAX         5u   /* in one request; enforced by web_request.c */
#define WEIR_BLOB_VERSION_BYTES        128u /* with its NUL */
#define WEIR_CHECKPOINT_NAME_BYTES_MAX 48u  /* with its NUL */
/* why a job was rewound to a checkpoint, with its NUL */
#define WEIR_REWIND_WHY_BYTES_MAX 256u
/* row files of a partition: one full file and deltas on it */
#define WEIR_CHECKPOINT_CHAIN_MAX          8u
#define WEIR_CHECKPOINT_MANIFEST_BYTES_MAX (64u << 20)
/* a partition's header, or the ledger's state */
#define WEIR_CHECKPOINT_STATE_BYTES_MAX (1u << 30)

/* Traces of `weir profile`. Enforced by trace.c, and by trace_desk.c for what workers hand in. */
/* spans that a thread keeps; a power of two. A span takes 40 bytes */
#define WEIR_TRACE_SPANS_MAX   (1u << 17)
#define WEIR_TRACE_THREADS_MAX 32u /* threads of a process with spans */
#define WEIR_TRACE_MS_MAX      600000u
#define WEIR_TRACE_WORKERS_MAX 256u                  /* whose spans a server takes in */
#define WEIR_TRACE_BYTES_MAX   ((uint64_t)256 << 20) /* of all of them together */
#define WEIR_TRACE_PIECE_BYTES (WEIR_CONTROL_BYTES_MAX / 2)
/* calls that measure the distance of two clocks: the fastest counts */
#define WEIR_TRACE_CLOCK_CALLS 8u

/* The C API. Enforced by api_struct.c. */
#define WEIR_API_STRUCT_BYTES_MAX 65536u /* a larger `size` is memory that nobody has set */

/* Configuration. */
#define WEIR_CONFIG_BYTES_MAX        (1u << 20)
#define WEIR_JOB_MISTAKES_MAX        64u /* mistakes reported for one job file; job_mistakes.c */
#define WEIR_PATH_BYTES_MAX          4096u
#define WEIR_NAME_BYTES_MAX          64u
#define WEIR_DEVICE_BYTES_MAX        96u /* the longest is "cuda:MIG-GPU-<UUID>/13/0" */
#define WEIR_HIDDEN_LAYERS_MAX       16u
#define WEIR_DATA_FILES_MAX          65536u
#define WEIR_FINGERPRINT_BYTES_MAX   (64u << 10) /* a job's fingerprint (fingerprint.h) */
#define WEIR_FINGERPRINT_KEY_BYTES   96u         /* one of its keys */
#define WEIR_FINGERPRINT_VALUE_BYTES 8192u       /* one of its values */
/* keys with a knowingly different value in a process (--accept) */
#define WEIR_ACCEPTED_KEYS_MAX   64u
#define WEIR_CONTENT_BLOCK_BYTES (16u << 10) /* data are sampled in blocks of this size */
#define WEIR_CONTENT_BLOCKS_MAX  4096u       /* blocks of all files together */
/* blocks of one file, at least: its head, middle and tail */
#define WEIR_CONTENT_BLOCKS_MIN 3u
/* files of a model's folder: its weights and two configurations */
#define WEIR_CONTENT_FOLDER_FILES 1026u
#define WEIR_DIM_MAX              4096u /* width of an embedding */
#define WEIR_DIMS_MAX             4u    /* different widths of a model's embeddings: a table each */
#define WEIR_LAYER_WIDTH_MAX      65536u
#define WEIR_CROSS_LAYERS_MAX     16u
#define WEIR_HISTORIES_MAX        8u     /* that a model attends to */
#define WEIR_EXPERTS_MAX          64u    /* of a mixture */
#define WEIR_NEGATIVES_MAX        65536u /* that join a batch */
/* feature maps of a layer, which has maps * maps before * fields weights */
#define WEIR_CIN_MAPS_MAX 1024u
/* layers of a transformer; transformer_config.c enforces this and the next */
#define WEIR_LAYERS_MAX       126u
#define WEIR_POSITIONS_MAX    (1u << 20) /* in a transformer's configuration */
#define WEIR_HEAD_WIDTH_MAX   256u       /* elements of one attention head */
#define WEIR_LORA_TARGETS_MAX 16u        /* names of projections with adapters */
#define WEIR_THREADS_MAX      1024u      /* of one kind, in one process */
#define WEIR_PREFETCH_MAX     1024u      /* batches */
#define WEIR_PASSES_MAX       1000000u
/* Rows of a part that figures of order are taken of; quality.c takes a share of a larger part's. A
 * row takes 20 bytes, and 32 more while it is sorted. */
#define WEIR_RANKED_ROWS_MAX       (1u << 27)
#define WEIR_CALIBRATION_BUCKETS   10u
#define WEIR_FIGURES_MAX           64u   /* of an evaluation, beside AUC and loss */
#define WEIR_FIGURE_NAME_BYTES_MAX 48u   /* with its NUL */
#define WEIR_RANK_PLACES_MAX       8u    /* values of train.rank_at */
#define WEIR_RANK_K_MAX            1000u /* each of them */
#define WEIR_GENERATE_ROWS_MAX     (1ull << 40)
#define WEIR_GENERATE_IDS_MIN      (26u * 512u) /* at least some per field */
#define WEIR_GENERATE_IDS_MAX      (1ull << 28)
#define WEIR_LEASE_TERM_MS_MAX     3600000u

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
