/* Every mistake in a job file gives a sentence with the place, the key, the value and the expected
 * value. */
#include "common/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

struct mistake {
	const char *text;
	const char *set; /* one --set, or NULL */
	weir_status status;
	const char *parts[4]; /* of the sentence */
};

#define BASE   "job: x\ndata: {train: a}\n"
#define TOKENS "job: x\ndata: {format: tokens, train: a}\n"

static const struct mistake mistakes[] = {
    /* Not YAML. */
    {"job: x\ndata: {train: [a\nmodel: 3\n", NULL, WEIR_E_PARSE, {"bad.yaml:3:", "not valid YAML", "flow"}},
    {"job: x\n\tdata: 1\n", NULL, WEIR_E_PARSE, {"bad.yaml:2:1: not valid YAML"}},
    {"job: \"x\n", NULL, WEIR_E_PARSE, {"not valid YAML", "quoted scalar"}},
    {"job: *nowhere\n", NULL, WEIR_E_PARSE, {"bad.yaml:1:6", "alias"}},
    {"", NULL, WEIR_E_INVALID, {"bad.yaml: empty; expected at least 'job: NAME'"}},
    {"- a\n- b\n", NULL, WEIR_E_INVALID, {"bad.yaml:1:1: is a list; expected a map with the keys job, run_dir"}},
    {BASE "---\njob: y\n", NULL, WEIR_E_INVALID, {"bad.yaml:4:1: a second YAML document"}},
    /* Keys. */
    {BASE "cluster:\n  server: 2\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:4:3: cluster.server: unknown key (value '2')", "nearest valid key is 'cluster.servers'",
      "valid here: servers, workers"}},
    {BASE, "cluster.listen=::1:0", WEIR_E_INVALID, {"cluster.listen: is '::1:0'; expected auto, HOST:PORT or [IPV6]:PORT"}},
    {BASE,
     "cluster.servers_at='::1:4000'",
     WEIR_E_INVALID,
     {"cluster.servers_at: has '::1:4000'; expected HOST:PORT, [IPV6]:PORT"}},
    {BASE "modle: {kind: lr}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:1: modle: unknown key (value a map)", "nearest valid key is 'model'"}},
    {BASE "batch: 12\n", NULL, WEIR_E_INVALID, {"bad.yaml:3:1: batch", "nearest valid key is 'data.batch'"}},
    {BASE "xyzzy: 12\n",
     NULL,
     WEIR_E_INVALID,
     {"xyzzy: unknown key (value '12'); valid here: job, run_dir, keep_runs, device, cluster"}},
    {BASE "model: {dim: 4, kind: lr, dim: 8}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:27: model.dim: duplicate key", "line 3 already"}},
    {BASE "data: {batch: 4}\n", NULL, WEIR_E_INVALID, {"bad.yaml:3:1: data: duplicate key: it was given on line 2 already"}},
    {BASE "cluster.servers: 2\n", NULL, WEIR_E_INVALID, {"bad.yaml:3:1: cluster.servers: unknown key"}},
    {BASE "[a, b]: 2\n", NULL, WEIR_E_INVALID, {"bad.yaml:3:1: a key must be a word"}},
    {"data: {train: a}\n", NULL, WEIR_E_INVALID, {"bad.yaml: job: missing; expected a text"}},
    {"job: x\ndata: {format: criteo}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml: data.train: missing; expected a file, a glob or a list"}},
    {"job: x\ntables: {dense: {optimizer: {kind: sgd}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:2:36: tables.dense.optimizer.kind: is given, and there is neither data nor a model"}},
    {"job: x\ntrain: {warm_start: a.safetensors}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.warm_start: is given, and there is neither data nor a model"}},
    /* Types. */
    {BASE "cluster: {servers: two}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:20: cluster.servers: is 'two'; expected a whole number from 1 to 256 (servers)"}},
    {BASE "cluster: {servers: 1.5}\n", NULL, WEIR_E_INVALID, {"cluster.servers: is '1.5'"}},
    {BASE "cluster: {servers: -1}\n", NULL, WEIR_E_INVALID, {"cluster.servers: is '-1'"}},
    {BASE "cluster: {servers: [2]}\n", NULL, WEIR_E_INVALID, {"cluster.servers: is a list; expected a whole number"}},
    {BASE "cluster: 4\n", NULL, WEIR_E_INVALID, {"bad.yaml:3:10: cluster: is '4'; expected a map with the keys servers"}},
    {BASE "model:\n  dim:\n", NULL, WEIR_E_INVALID, {"model.dim: is empty; expected a whole number"}},
    {BASE "model: {batch_norm: yes}\n", NULL, WEIR_E_INVALID, {"model.batch_norm: is 'yes'; expected true or false"}},
    {BASE "model: {dropout: half}\n", NULL, WEIR_E_INVALID, {"model.dropout: is 'half'; expected a number from 0 to below 1"}},
    {BASE "model: {init_std: nan}\n", NULL, WEIR_E_INVALID, {"model.init_std: is 'nan'"}},
    {BASE "model: {init_std: 1e999}\n", NULL, WEIR_E_INVALID, {"model.init_std: is '1e999'"}},
    {BASE "cluster: {memory_budget: 4GX}\n",
     NULL,
     WEIR_E_INVALID,
     {"memory_budget: is '4GX'; expected a size such as 512MiB or 4GiB"}},
    {BASE "cluster: {network: {rate: 100MB/s}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:27: cluster.network.rate: is '100MB/s'; expected bits a second such as 100Mb/s or 10Gb/s, from 100kb/s to "
      "400Gb/s, or off"}},
    {BASE "cluster: {network: {rate: 10kb/s}}\n", NULL, WEIR_E_INVALID, {"cluster.network.rate: is '10kb/s'"}},
    {BASE "cluster: {network: {rate: 20000000000000Gb/s}}\n", NULL, WEIR_E_INVALID, {"cluster.network.rate: is '2000"}},
    {BASE,
     "cluster.network.latency_ms=1001",
     WEIR_E_INVALID,
     {"latency_ms: is '1001'; expected a whole number from 0 to 1000 (milliseconds)"}},
    {BASE "cluster: {network: 1Gb/s}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.network: is '1Gb/s'; expected a map with the keys rate, latency_ms"}},
    {BASE "model: {hidden: [400, x]}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.hidden: is 'x'; expected a list of whole numbers, each from 1 to 65536"}},
    {BASE "model: {hidden: {a: 1}}\n", NULL, WEIR_E_INVALID, {"model.hidden: is a map"}},
    {"job: x\ndata: {train: [a, [b]]}\n", NULL, WEIR_E_INVALID, {"bad.yaml:2:19: data.train: is a list; expected a text"}},
    {"job: x\ndata: {train: ['']}\n", NULL, WEIR_E_INVALID, {"data.train: is ''; expected a text or a list"}},
    /* Ranges. */
    {BASE "cluster: {servers: 0}\n", NULL, WEIR_E_INVALID, {"cluster.servers: is '0'; expected a whole number from 1 to 256"}},
    {BASE "cluster: {servers: 257}\n", NULL, WEIR_E_INVALID, {"is '257'"}},
    {BASE "cluster: {partitions: 1025}\n",
     NULL,
     WEIR_E_INVALID,
     {"is '1025'; expected a whole number from 1 to 1024 (partitions)"}},
    {BASE "data: 3\n", NULL, WEIR_E_INVALID, {"duplicate"}},
    {BASE "train: {seed: 18446744073709551616}\n", NULL, WEIR_E_INVALID, {"train.seed: is '18446744073709551616'"}},
    {BASE "cluster: {memory_budget: 999999999999TiB}\n", NULL, WEIR_E_INVALID, {"memory_budget: is '999999999999TiB'"}},
    {BASE "model: {dropout: 1}\n", NULL, WEIR_E_INVALID, {"model.dropout: is '1'; expected a number from 0 to below 1"}},
    {BASE "model: {hidden: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n",
     NULL,
     WEIR_E_INVALID,
     {"is a list of 17; expected", "at most 16 of them"}},
    /* Choices. */
    {BASE "tables: {dense: {push: {codec: fp23}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:32: tables.dense.push.codec: is 'fp23', unknown; the nearest is 'fp32'; expected one of fp32, bf16, "
      "fp16, int8, int4, sign, fp8_e4m3, fp8_e5m2, topk, int2"}},
    {BASE "tables: {embedding: {push: {codec: topk}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.push.codec: is topk, which is for dense tables"}},
    {BASE "tables: {embedding: {push: {density: 0.1}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.push.density: is 0.1, but topk is for dense tables", "push.rows"}},
    {BASE "tables: {embedding: {push: {feedback: false}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.push.feedback: is false; embedding tables have none"}},
    {BASE "tables: {dense: {push: {codec: topk, book: log}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.book: is log, but push.codec is not int4"}},
    {BASE "tables: {dense: {push: {codec: topk, density: 0}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.density: is 0, which would push nothing; expected a number above 0, up to 0.25"}},
    {BASE "tables: {dense: {push: {codec: sign, feedback: false}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.feedback: is false; sign without error feedback"}},
    {BASE "tables: {embedding: {push: {codec: int4, book: segmented}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.push.book: is segmented", "expected nf4 or log"}},
    {BASE "tables: {embedding: {push: {rows: 0}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.push.rows: is 0, which would push nothing; expected a number above 0, up to 1"}},
    {BASE "tables: {dense: {push: {rows: 0.5}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.rows: is 0.5; it is a share of an embedding table's rows: expected 1"}},
    {BASE "tables: {dense: {push: {clip: 2}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.clip: is 2, but push.codec is not topk"}},
    {BASE "tables: {dense: {push: {lz4: on}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.lz4: is 'on'", "expected one of off, auto"}},
    {BASE "tables: {dense: {push: {codec: zip}}}\n", NULL, WEIR_E_INVALID, {"is 'zip'", "expected one of fp32, bf16, fp16"}},
    {BASE "tables: {dense: {pull: {codec: sign}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.pull.codec: is sign, which codes pushes only",
      "expected one of fp32, bf16, fp16, int8, int4, fp8_e4m3, fp8_e5m2, topk"}},
    {BASE "tables: {dense: {pull: {codec: topk, values: int2}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.pull.values: is a format of pushes only", "expected bf16"}},
    {BASE "tables: {embedding: {pull: {codec: topk}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.codec: is topk, which codes differences, and those are of dense tables",
      "expected one of fp32, bf16, fp16, int8"}},
    {BASE "tables: {dense: {pull: {codec: topk, density: 0}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.pull.density: is 0, which would bring nothing"}},
    {BASE "tables: {dense: {pull: {codec: int8, density: 0.1}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.pull.density: is 0.1, but pull.codec is not topk"}},
    {BASE "tables: {dense: {pull: {every: 2}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.pull.every: is 2, but pull.codec is fp32; expected 1"}},
    {BASE "tables: {embedding: {pull: {codec: int8, every: 2}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.every: is 2, but rows of embeddings come as they are"}},
    {BASE "model: {kind: deep_fm}\n", NULL, WEIR_E_INVALID, {"model.kind: is 'deep_fm', unknown; the nearest is 'deepfm'"}},
    /* Known, but later. */
    {BASE "cluster: {ack: primary}\ntables: {dense: {mode: {kind: ssp}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.kind: is ssp, which counts pushes that are applied; expected cluster.ack: replicas or disk"}},
    {BASE "tables: {dense: {mode: {bound: 8}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.bound: is 8, but mode.kind is not ssp; expected 0"}},
    {BASE "tables: {dense: {mode: {kind: sync, staleness_rate: true}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.staleness_rate: is true, but nothing is stale in a synchronous table"}},
    {BASE "tables: {dense: {mode: {steps: 8}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.steps: is given", "expected mode.kind: local"}},
    {BASE "tables: {dense: {mode: {inner: {kind: sgd}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.inner.kind: is given", "expected mode.kind: local"}},
    {BASE "tables: {dense: {mode: {kind: local}}}\n", NULL, WEIR_E_INVALID, {"tables.dense.mode.steps: is 0"}},
    {BASE "tables: {dense: {mode: {kind: local, steps: 17}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.steps: is 17; a round ends with its work unit: expected at most data.unit_batches: 16"}},
    {BASE "tables: {dense: {mode: {kind: local, steps: 8, fragments: 9}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.fragments: is 9; expected at most mode.steps: 8"}},
    {BASE "tables: {dense: {mode: {kind: local, steps: 8, fragments: 2, overlap: 4}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.overlap: is 4; a push is to be back before the next one: expected less than mode.steps / "
      "mode.fragments: 4"}},
    {BASE "tables: {embedding: {mode: {kind: local}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"is 'local'", "expected one of async, sync, ssp"}},
    {"job: x\ndata: {format: tokens, train: a}\nmodel: {kind: ngram}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:15: model.kind: reads text, and data.format is tokens; expected gpt2 or llama"}},
    /* Transformers. */
    {BASE "model: {kind: gpt2}\n",
     NULL,
     WEIR_E_INVALID,
     {"data.format: is of clicks, and model.kind reads tokens; expected tokens"}},
    {TOKENS "model: {kind: gpt2, width: 100, heads: 12}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:28: model.width: is 100, which 12 heads cannot share"}},
    {TOKENS "model: {kind: gpt2, width: 1024, heads: 2}\n", NULL, WEIR_E_INVALID, {"makes heads of 512 elements"}},
    {TOKENS "model: {kind: gpt2, kv_heads: 4}\n", NULL, WEIR_E_INVALID, {"model.kv_heads: is 4, and model.kind is gpt2"}},
    {TOKENS "model: {kind: llama, width: 15, heads: 5}\n", NULL, WEIR_E_INVALID, {"heads of 3 elements"}},
    {TOKENS "model: {kind: llama, kv_heads: 5}\n", NULL, WEIR_E_INVALID, {"is 5, which 12 heads cannot share"}},
    {TOKENS "model: {kind: llama, positions: 8}\n", NULL, WEIR_E_INVALID, {"is 8, and data.sequence is 256"}},
    {TOKENS "model: {kind: llama, from: /m, layers: 3}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.layers: is given, and model.from says what it is"}},
    {TOKENS "model: {kind: llama, lora: {rank: 4}}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.lora.rank: is 4, and there is no model.from"}},
    {TOKENS "model: {kind: llama, lora: {from: /a}}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.lora.from: is given, and there is no model.from"}},
    {TOKENS "model: {kind: llama, from: /m, lora: {from: /a, alpha: 4}}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.lora.alpha: is given, and model.lora.from says what it is"}},
    {TOKENS "model: {kind: llama, from: /m, lora: {rank: 4, targets: [q_prj]}}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.lora.targets: has q_prj: expected names among q_proj, k_proj"}},
    {"job: x\ndata: {format: tokens, train: a, batch: 65, sequence: 1048576}\nmodel: {kind: llama}\n",
     NULL,
     WEIR_E_LIMIT,
     {"bad.yaml:2:55: data.sequence: is 1048576, and data.batch is 65, together 68157440 tokens; expected at most 67108864"}},
    {TOKENS "model: {kind: llama}\ntrain: {accumulate: 513}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:4:21: train.accumulate: is 513, and data.batch is 512; expected at most"}},
    {BASE "train: {accumulate: 2}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.accumulate: is 2, and model.kind is deepfm; expected 1, or model.kind gpt2 or llama"}},
    {BASE "model: {from: /m}\n", NULL, WEIR_E_INVALID, {"model.from: is for text models; set model.kind to gpt2 or llama"}},
    {TOKENS "model: {kind: llama}\ntrain: {early_stop: {metric: auc}}\n",
     NULL,
     WEIR_E_INVALID,
     {"is auc, which a language model does not have"}},
    {"job: x\ndata: {train: a, tokenizer: bytes}\n",
     NULL,
     WEIR_E_INVALID,
     {"data.tokenizer: is given, and data.format is not tokens"}},
    {"job: x\ndata: {train: a, packing: loose}\n", NULL, WEIR_E_INVALID, {"is 'loose'", "expected one of packed, apart"}},
    /* Text, and models of it. */
    {"job: x\ndata:\n  format: text\n  train: a\nmodel: {kind: lr}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:5:15: model.kind: reads clicks, and data.format is text; expected ngram"}},
    {BASE "model: {kind: ngram}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml: data.format: is of clicks, and model.kind reads text; expected text"}},
    {"job: x\ndata: {format: text, train: a, fields: 3}\nmodel: {kind: ngram}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:2:40: data.fields: is 3, and data.format is text"}},
    {"job: x\ndata: {format: text, train: a, context: 0}\nmodel: {kind: ngram}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:2:41: data.context: is '0'; expected a whole number from 1 to 4096 (bytes)"}},
    {"job: x\ndata: {format: text, train: a}\nmodel: {kind: ngram}\ntrain: {early_stop: {metric: auc}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:4:30: train.early_stop.metric: is auc, which text does not have; expected logloss"}},
    {"job: x\ndata: {format: text, train: a}\nmodel: {kind: ngram}\ntrain: {best_by: auc}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:4:18: train.best_by: is a figure of clicks, which text does not have; expected early_stop or logloss"}},
    {"job: x\ndata: {format: text, train: a}\nmodel: {kind: ngram, hidden: []}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:30: model.hidden: is empty, and model.kind is ngram; expected a list such as [400, 400]"}},
    {BASE "tables: {dense: {push: {momentum: 0.9}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.momentum: is 0.9, but push.codec is not topk"}},
    {BASE "cluster: {workers: 4}\ntables: {embedding: {mode: {kind: sync, backup: 1}}, dense: {mode: {kind: sync}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.backup: is 0; expected that of tables.embedding.mode.backup: 1"}},
    {BASE "tables: {embedding: {mode: {kind: ssp, bound: 4}}, dense: {mode: {kind: sync}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:35: tables.embedding.mode.kind: is ssp, and tables.dense.mode makes batches wait in another way (sync)"}},
    {BASE "tables: {embedding: {mode: {kind: sync}}, dense: {mode: {kind: local, steps: 4}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.mode.kind: is sync, and tables.dense.mode makes batches wait in another way (local, rounds: sync)"}},
    {BASE "tables: {embedding: {mode: {kind: ssp}}, dense: {mode: {kind: local, steps: 4, rounds: ssp}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"(local, rounds: ssp): workers would wait for each other for ever; expected async, or the same of both, for with local "
      "rounds rows of embeddings are async"}},
    {BASE "tables: {dense: {mode: {kind: local, steps: 4}, push: {codec: topk, momentum: 0.9}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.push.momentum: is 0.9, but with mode.kind: local no gradients are pushed; expected 0"}},
    {BASE "read: {from: any, max_staleness_ms: 500}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:14: read.from: is any, and there is one copy of everything (cluster.replicas: 1)"}},
    {BASE "cluster: {servers: 2, replicas: 2}\nread: {from: any}\n",
     NULL,
     WEIR_E_INVALID,
     {"read.max_staleness_ms: is 0, which no copy but the primary can keep (read.from: any)"}},
    {BASE "cluster: {servers: 2, replicas: 2}\nread: {from: any, max_staleness_ms: 500}\n"
          "tables: {embedding: {mode: {kind: sync}}, dense: {mode: {kind: sync}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:4:14: read.from: is any, and all tables are synchronous"}},
    {BASE "read: {max_staleness_ms: 500}\n",
     NULL,
     WEIR_E_INVALID,
     {"read.max_staleness_ms: is 500, but read.from is primary; expected 0"}},
    {BASE "read: {max_staleness_entries: 10}\n",
     NULL,
     WEIR_E_INVALID,
     {"read.max_staleness_entries: is 10, but read.from is primary; expected 0"}},
    {BASE "cluster: {ack: disk}\n", NULL, WEIR_E_INVALID, {"cluster.ack: is disk; that needs cluster.log: disk"}},
    {BASE "cluster: {replicas: 2}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:21: cluster.replicas: is 2; expected at most one for each of cluster.servers: 1"}},
    {BASE "cluster: {servers: 5, replicas: 4}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.replicas: is '4'; expected a whole number from 1 to 3"}},
    {BASE "cluster: {servers: 2, replicas: 2, min_isr: 3}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.min_isr: is 3; expected at most cluster.replicas: 2, or auto"}},
    {BASE "cluster: {servers: 2, replicas: 2, servers_at: ['a:1', 'b:1']}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.coord: is static, and cluster.servers_at names servers started by other means: their 2 replicas agree through "
      "etcd"}},
    {BASE "cluster: {coord: 'etcd://a:2379'}\n", NULL, WEIR_E_UNSUPPORTED, {"cluster.coord: is etcd, and cluster.replicas is 1"}},
    {BASE "cluster: {servers: 2, replicas: 2, coord: 'etcd://'}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.coord: has the endpoint ''; expected etcd://HOST:PORT[,HOST:PORT...]"}},
    {BASE "cluster: {servers: 2, replicas: 2, coord: 'etcd://127.0.0.1:2379,b'}\n",
     NULL,
     WEIR_E_INVALID,
     {"has the endpoint 'b'"}},
    {BASE "cluster: {servers: 2, replicas: 2, coord: "
          "'etcd://[::1]:1,[::1]:2,[::1]:3,[::1]:4,[::1]:5,[::1]:6,[::1]:7,[::1]:8,[::1]:9'}\n",
     NULL,
     WEIR_E_LIMIT,
     {"cluster.coord: names more than 8 endpoints"}},
    /* Secrets and coordinators over plain text. */
    {BASE "cluster: {servers: 2, replicas: 2, coord: 'etcd://127.0.0.1:1,10.0.0.1:2379'}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.coord: has '10.0.0.1:2379', which other machines reach", "security.insecure: true"}},
    {BASE "cluster: {servers: 2, replicas: 2, coord: 'etcds://127.0.0.1:1'}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.coord: is by TLS, and there is no certificate"}},
    {BASE "cluster: {listen: '0.0.0.0:7000'}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.listen: has '0.0.0.0:7000', which other machines"}},
    {BASE "cluster: {servers_at: ['weir-0:7000']}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.servers_at: has 'weir-0:7000', which other"}},
    {BASE "security: {certificate: a.crt, ca: ca.crt}\n",
     NULL,
     WEIR_E_INVALID,
     {"security.key: missing; expected all of security.certificate, key and ca, or none"}},
    {BASE "checkpoint: {endpoint: 'http://127.0.0.1:9000'}\n",
     NULL,
     WEIR_E_INVALID,
     {"checkpoint.endpoint: is given, and checkpoint.dir is no s3://BUCKET/PREFIX"}},
    {BASE "device: 'cuda:'\n",
     NULL,
     WEIR_E_INVALID,
     {"device: is 'cuda:'; expected auto, cpu, cuda, cuda:N, or cuda: and what nvidia-smi"}},
    {BASE "device: cuda:1x\n", NULL, WEIR_E_INVALID, {"device: is 'cuda:1x'; expected auto, cpu, cuda, cuda:N"}},
    {BASE "device: cuda:GPU-\n", NULL, WEIR_E_INVALID, {"device: is 'cuda:GPU-'; expected auto"}},
    {BASE "device: cuda:MIG-12 34\n", NULL, WEIR_E_INVALID, {"device: is 'cuda:MIG-12 34'; expected auto"}},
    {BASE "train: {precision: fp8}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.precision: is 'fp8'", "expected one of fp32, tf32, bf16, fp16"}},
    {BASE "device: cpu\ntrain: {precision: bf16}\n",
     NULL,
     WEIR_E_UNSUPPORTED,
     {"train.precision: is bf16, and device is cpu, which computes in fp32 alone; expected fp32, or device: cuda"}},
    {BASE "train: {device_memory: 1MiB}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.device_memory: is '1MiB'; expected a size such as 512MiB or 4GiB, from 64MiB to 1024TiB, or auto"}},
    /* Keys that exclude each other. */
    {BASE "device: gpu\n", NULL, WEIR_E_INVALID, {"device: is 'gpu'; expected auto, cpu, cuda, cuda:N"}},
    {"job: 'a/b'\ndata: {train: a}\n", NULL, WEIR_E_INVALID, {"bad.yaml:1:6: job: is 'a/b'; expected a name"}},
    {BASE "cluster: {coord: dynamic}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.coord: is 'dynamic'; expected static or etcd://HOST:PORT"}},
    {BASE "cluster: {servers: 8, partitions: 4}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.partitions: is 4; expected at least one for each of 8 servers"}},
    {BASE "cluster: {min_isr: 2}\n", NULL, WEIR_E_INVALID, {"cluster.min_isr: is 2; expected at most cluster.replicas: 1"}},
    {BASE "cluster: {listen: localhost}\n", NULL, WEIR_E_INVALID, {"cluster.listen: is 'localhost'; expected auto, HOST:PORT"}},
    {BASE "cluster: {servers: 3, listen: 'h:65534'}\n", NULL, WEIR_E_INVALID, {"would need port 65536; expected at most 65535"}},
    {BASE "cluster: {servers: 2, servers_at: ['a:1']}\n",
     NULL,
     WEIR_E_INVALID,
     {"names 1 addresses; expected one for each of cluster.servers: 2"}},
    {BASE "cluster: {servers_at: [a]}\n",
     NULL,
     WEIR_E_INVALID,
     {"cluster.servers_at: has 'a'; expected HOST:PORT, [IPV6]:PORT or unix:PATH"}},
    {"job: x\ndata: {train: a, test: b, split: {by: crc32}}\n",
     NULL,
     WEIR_E_INVALID,
     {"data.test: files are given and data.split cuts"}},
    {"job: x\ndata: {format: libsvm, generate: {rows: 10}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:2:16: data.format: generated data"}},
    {"job: x\ndata: {train: a, generate: {rows: 10}}\n",
     NULL,
     WEIR_E_INVALID,
     {"data.generate.rows: data is to be generated, and files are named"}},
    {BASE "train: {early_stop: {patience: 2}}\n", NULL, WEIR_E_INVALID, {"patience: is 2, but there is no validation part"}},
    {BASE "train: {best_by: gauc}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.best_by: is a figure of groups, which rows of this data.format"}},
    {"job: x\ndata: {format: libsvm, train: a}\ntrain: {best_by: recall, rank_at: []}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:35: train.rank_at: is empty, and train.best_by is taken at its first; expected such as [10]"}},
    {BASE "train: {rank_at: [10, 2000]}\n",
     NULL,
     WEIR_E_INVALID,
     {"train.rank_at: is '2000'; expected a list of whole numbers, each from 1 to 1000"}},
    {BASE "model: {hidden: []}\n", NULL, WEIR_E_INVALID, {"model.hidden: is empty"}},
    {BASE "model: {kind: xdeepfm, cin: []}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:29: model.cin: is empty, and model.kind is xdeepfm; expected a list such as [64, 64]"}},
    {BASE "model: {kind: xdeepfm, cin: [64, 2000]}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.cin: is '2000'; expected a list of whole numbers, each from 1 to 1024, at most 16 of them (feature maps)"}},
    {BASE "model: {kind: dlrm, bottom: [8]}\n",
     NULL,
     WEIR_E_INVALID,
     {"model.bottom: expected a list that ends with model.dim: 16"}},
    {BASE "tables: {embedding: {pull: {cache: {memory: 512kB}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:45: tables.embedding.pull.cache.memory: is '512kB'; expected a size such as 512MiB or 4GiB, from 1MiB to 1TiB, "
      "or "
      "off"}},
    {BASE "tables: {embedding: {pull: {cache: {memory: 1MiB, max_age: 0}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.max_age: is '0'; expected a whole number from 1 to 65535 (batches)"}},
    {BASE "tables: {embedding: {pull: {cache: {max_age: 4}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.max_age: is given, but pull.cache.memory is off; expected pull.cache.memory: 256MiB"}},
    {BASE "tables: {embedding: {pull: {cache: {max_uses: 2}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.max_uses: is given, but pull.cache.memory is off"}},
    {BASE "tables: {embedding: {pull: {cache: {memory: 1MiB}}, mode: {kind: sync}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:3:45: tables.embedding.pull.cache.memory: is given, but tables.embedding.mode.kind is sync",
      "expected off, or mode.kind: async"}},
    {BASE "tables: {embedding: {pull: {cache: {memory: 1MiB}}, mode: {kind: ssp, bound: 8}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.memory: is given, but tables.embedding.mode.kind is ssp",
      "expected off, or mode.kind: async"}},
    {BASE "tables: {embedding: {pull: {cache: {memory: 1MiB}}, mode: {staleness_rate: true}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.memory: is given, but tables.embedding.mode.staleness_rate is true",
      "expected off, or mode.staleness_rate: false"}},
    {"job: x\ndata: {train: a, format: text}\nmodel: {kind: ngram}\ntables: {embedding: {pull: {cache: {memory: 1MiB}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.pull.cache.memory: is given, but of a language model", "expected off"}},
    {BASE "tables: {dense: {pull: {cache: {memory: 1MiB}}}}\n", NULL, WEIR_E_INVALID, {"tables.dense.pull.cache: unknown key"}},
    {BASE "tables: {embedding: {admission: {kind: probability, probability: 0}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.admission.probability: is 0, which would admit nothing"}},
    {BASE "tables: {embedding: {admission: {count: 3}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.admission.count: is 3, but admission.kind is not count"}},
    {BASE "tables: {embedding: {admission: {kind: count, probability: 0.5}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.admission.probability: is 0.5, but admission.kind is not probability"}},
    {BASE "tables: {embedding: {eviction: {half_life_s: 0}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.eviction.half_life_s: is '0'; expected a whole number from 1"}},
    {BASE "tables: {dense: {eviction: {ttl_s: 1}}}\n", NULL, WEIR_E_INVALID, {"tables.dense.eviction: unknown key"}},
    {BASE "tables: {dense: {mode: {backup: 1}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.mode.backup: is 1, but mode.kind is not sync"}},
    {BASE "tables: {embedding: {optimizer: {kind: sgd, decay: full}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.embedding.optimizer.decay: is full, but optimizer.kind is neither adam nor adamw"}},
    {BASE "tables: {embedding: {optimizer: {decay: ful}}}\n", NULL, WEIR_E_INVALID, {"decay", "lazy", "full"}},
    {BASE "tables: {dense: {optimizer: {schedule: {kind: step}}}}\n",
     NULL,
     WEIR_E_INVALID,
     {"tables.dense.optimizer.schedule.period: is 0"}},
    /* The environment. */
    {"job: x\ndata: {train: '${WEIR_TEST_UNSET}/a'}\n",
     NULL,
     WEIR_E_INVALID,
     {"bad.yaml:2:15: data.train", "'${WEIR_TEST_UNSET}/a' needs the environment variable WEIR_TEST_UNSET, which is not set"}},
    {"job: x\ndata: {train: '${WEIR_TEST'}\n",
     NULL,
     WEIR_E_INVALID,
     {"is not a reference; expected ${NAME} or ${NAME:-default}"}},
    {"job: x\ndata: {train: '${}'}\n", NULL, WEIR_E_INVALID, {"is not a reference"}},
    /* --set */
    {BASE, "model.dim", WEIR_E_INVALID, {"--set model.dim: expected KEY=VALUE, such as model.dim=16"}},
    {BASE, "=3", WEIR_E_INVALID, {"expected KEY=VALUE"}},
    {BASE,
     "model.dmi=3",
     WEIR_E_INVALID,
     {"--set model.dmi=3: model.dmi: unknown key (value '3'); the nearest valid key is 'model.dim'"}},
    {BASE, "modl.dim=3", WEIR_E_INVALID, {"--set modl.dim=3: modl: unknown key (value '3'); the nearest valid key is 'model'"}},
    {BASE,
     "tables.embeddings.push.codec=int8",
     WEIR_E_INVALID,
     {"tables.embeddings: unknown key (value 'int8'); the nearest valid key is 'tables.embedding'"}},
    {BASE,
     "model.dim=many",
     WEIR_E_INVALID,
     {"--set model.dim=many: model.dim: is 'many'; expected a whole number from 1 to 4096 (elements)"}},
    {BASE, "model.hidden=[1,", WEIR_E_PARSE, {"--set model.hidden=[1,: not valid YAML"}},
    {BASE, "model=3", WEIR_E_INVALID, {"--set model=3: model: is '3'; expected a map with the keys kind, dim"}},
    {BASE, "model={dmi: 3}", WEIR_E_INVALID, {"--set model={dmi: 3}: model.dmi: unknown key", "'model.dim'"}},
    {BASE, "cluster.replicas=2", WEIR_E_INVALID, {"--set cluster.replicas=2: cluster.replicas: is 2; expected at most one"}},
};

static struct job_mistakes told;

/* One of the mistakes has the status and all parts of the sentence. */
static bool is_told(const struct mistake *m)
{
	for (uint32_t i = 0; i < told.count; i++) {
		bool all = told.kept[i].error.status == m->status;
		for (int p = 0; p < 4 && m->parts[p]; p++)
			all = all && strstr(told.kept[i].error.text, m->parts[p]);
		if (all)
			return true;
	}
	return false;
}

static void every_mistake_is_reported(void **state)
{
	(void)state;
	unsetenv("WEIR_TEST_UNSET");
	for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
		const struct mistake *m = &mistakes[i];
		weir_error err = {0};
		struct job *job = NULL;
		assert_int_not_equal(job_parse_all(m->text, "bad.yaml", &m->set, m->set ? 1 : 0, &job, &told, &err), WEIR_OK);
		assert_null(job);
		if (!is_told(m))
			fail_msg("%s\n--set %s\ngives %u mistakes, the first %s: %s", m->text, m->set ? m->set : "", told.count,
			         weir_status_name(err.status), err.text);
	}
}

/* Asserts that the sentences are exactly these parts, in order. */
static void assert_tells(const char *text, const char *const *sets, uint32_t sets_count, const char *const *parts, uint32_t count)
{
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_not_equal(job_parse_all(text, "bad.yaml", sets, sets_count, &job, &told, &err), WEIR_OK);
	for (uint32_t i = 0; i < count && i < told.count; i++)
		CHECK_CONTAINS(told.kept[i].error.text, parts[i]);
	if (told.count > count)
		fail_msg("%u mistakes are told, not %u; one is %s", told.count, count, told.kept[count].error.text);
	assert_int_equal(told.count, count);
}

static void all_mistakes_are_reported_in_the_order_of_lines(void **state)
{
	(void)state;
	const char *const set[] = {"model.dim=none", "train.passes='2'"};
	const char *const parts[] = {"bad.yaml:3:3: data.trian: unknown key (value 'a.tsv'); the nearest valid key is 'data.train'",
	                             "bad.yaml:4:10: data.batch: is 'many'; expected a whole number",
	                             "bad.yaml:6:8: model.kind: is 'deepfn', unknown; the nearest is 'deepfm'",
	                             "bad.yaml:7:11: cluster: is a list; expected a map",
	                             "bad.yaml:8:1: modle: unknown key",
	                             "bad.yaml:10:26: train.early_stop.patience: is 3, but there is no validation part",
	                             "--set model.dim=none: model.dim: is 'none'"};
	assert_tells("job: x\ndata:\n  trian: a.tsv\n  batch: many\nmodel:\n kind: deepfn\n"
	             "cluster:  [2]\nmodle: {}\ntrain:\n  early_stop: {patience: 3}\n",
	             set, 2, parts, 7);
}

static void consequences_of_a_mistake_are_not_reported(void **state)
{
	(void)state;
	const char *const servers[] = {"cluster.servers: is 'two'"};
	assert_tells(BASE "cluster: {servers: two, replicas: 2}\n", NULL, 0, servers, 1);
	const char *const name[] = {"bad.yaml:1:1: jbo: unknown key"};
	assert_tells("jbo: x\ndata: {train: a}\n", NULL, 0, name, 1);
	const char *const data[] = {"bad.yaml:2:7: data: is 'a'; expected a map"};
	assert_tells("job: x\ndata: a\n", NULL, 0, data, 1);
	const char *const list[] = {"data.train: is ''"};
	assert_tells("job: x\ndata: {train: [a, '']}\n", NULL, 0, list, 1);
	const char *const two[] = {"bad.yaml: job: missing", "bad.yaml: data.train: missing"};
	assert_tells("model: {kind: lr}\n", NULL, 0, two, 2);
}

static void more_mistakes_than_are_kept_are_counted(void **state)
{
	(void)state;
	enum { LINES = 100 };
	char text[4096] = BASE;
	weir_error err = {0};
	struct job *job = NULL;
	for (int i = 0; i < LINES; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "unknown%d: 1\n", i);
	assert_int_equal(job_parse_all(text, "bad.yaml", NULL, 0, &job, &told, &err), WEIR_E_INVALID);
	assert_int_equal(told.count, LINES);
	CHECK_CONTAINS(told.kept[WEIR_JOB_MISTAKES_MAX - 1].error.text, "bad.yaml:66:1: unknown63");
	CHECK_CONTAINS(err.text, "bad.yaml:3:1: unknown0");
	CHECK_CONTAINS(err.text, "(and more mistakes)");
}

static void an_alias_that_contains_itself_ends(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_equal(job_parse(BASE "model: &m {l2: *m}\n", "bad.yaml", NULL, 0, &job, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "model.l2.l2: unknown key");
}

static void errors_may_go_unread(void **state)
{
	(void)state;
	struct job *job = NULL;
	assert_int_equal(job_parse("job: [", "bad.yaml", NULL, 0, &job, NULL), WEIR_E_PARSE);
	assert_int_equal(job_parse("job: x\ndata: {train: ['${WEIR_TEST_UNSET}']}\n", "bad.yaml", NULL, 0, &job, NULL),
	                 WEIR_E_INVALID);
}

static void a_missing_file_is_named(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_equal(job_load("/nowhere/job.yaml", NULL, 0, &job, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "cannot open /nowhere/job.yaml: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_mistake_is_reported),
	    cmocka_unit_test(all_mistakes_are_reported_in_the_order_of_lines),
	    cmocka_unit_test(consequences_of_a_mistake_are_not_reported),
	    cmocka_unit_test(more_mistakes_than_are_kept_are_counted),
	    cmocka_unit_test(an_alias_that_contains_itself_ends),
	    cmocka_unit_test(errors_may_go_unread),
	    cmocka_unit_test(a_missing_file_is_named),
	};
	return cmocka_run_group_tests_name("job_errors", tests, NULL, NULL);
}
