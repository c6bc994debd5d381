/* The verbs of `weir`, one file each. A verb gets its own arguments (args[0] is its name). It
 * prints its result on stdout and its progress on stderr, and returns an exit status: 0 done; 1
 * failed (the last line on stderr gives the reason and the remedy); 2 wrong usage; 128 + N ended by
 * signal N (130: Ctrl-C). */
#ifndef WEIR_VERBS_H
#define WEIR_VERBS_H

/* X(name, "arguments", "description") */
#define VERB_MAP(X)                                                                                                              \
	X(check, "JOB.yaml [--set A.B=C]...",                                                                                        \
	  "tell what is wrong with a job file, and whether data, models, ports, disk and memory are there")                          \
	X(inspect, "FILE... [--sample BYTES] [--delimiter C] [--header true|false] [--json]  |  inspect --job JOB.yaml",             \
	  "show what columns look like (CSV, JSON lines, Parquet, Arrow), and a job that trains on them; or check a job's columns")  \
	X(plan, "JOB.yaml [--probe | --machines FILE.yaml] [--all] [--explain] [--json]",                                            \
	  "measure what a batch takes, and choose servers, workers, mode and codecs that suit these machines")                       \
	X(train, "JOB.yaml [--resume | --fresh] [--dry-run] [--chaos SEED] [--set A.B=C]... [--report OUT.json]",                    \
	  "start servers and workers here, train, evaluate, report")                                                                 \
	X(up, "JOB.yaml [--resume | --fresh] [--foreground [--watch-fd N]] [--json]",                                                \
	  "start a job's servers without workers, for trainers of other programs; print the ledger's address")                       \
	X(down, "JOB.yaml", "end the servers that `weir up` has started")                                                            \
	X(launch,                                                                                                                    \
	  "JOB.yaml [--resume | --fresh | --join ADDRESS] [--ranks FIRST-LAST] [--report OUT.json] -- COMMAND [ARGUMENT]...",        \
	  "start servers and cluster.workers copies of a trainer of your own; watch, restart, report")                               \
	X(schema, "", "print the JSON Schema of job files, with which editors complete and check them")                              \
	X(runs,                                                                                                                      \
	  "[FOLDER] [--tag KEY[=VALUE]]... [--json] [--delete RUN]...  |  runs diff A B [--svg FILE.svg] [--json]  |  runs tag RUN " \
	  "[KEY=VALUE]...",                                                                                                          \
	  "list the runs in a folder (runs): state, size, last change, result, tags; delete some; compare two; tag one")             \
	X(show, "RUN [--out FILE.html | --http [HOST:]PORT]", "the page of a run after its end: curves, settings, the last state")   \
	X(sweep, "SWEEP.yaml [--keep-going]", "run a job with other settings and seeds, or search for the best; a table, and plots") \
	X(status, "(JOB.yaml | --at ADDRESS) [--json] [--every-ms N]", "show a running job")                                         \
	X(profile, "(JOB.yaml | --run FOLDER | --at ADDRESS) [--seconds N] [--out TRACE.json] [--json]",                             \
	  "start a job, or take a running one, and say where its time goes; one trace of all its processes")                         \
	X(health, "--at ADDRESS [--ready] [JOB.yaml]", "whether one server serves, and is in sync")                                  \
	X(eval, "JOB.yaml [--part train|valid|test] [--by COLUMN [--top N]] [--json]",                                               \
	  "AUC, logloss, calibration and other figures of a running job's or the best weights")                                      \
	X(predict, "JOB.yaml --out SCORES [--part train|valid|test] [--ids COLUMN[,COLUMN]...]",                                     \
	  "write one score a line, in the order of files and rows; with ids as CSV")                                                 \
	X(generate, "JOB.yaml|MODEL_FOLDER [--prompt TEXT] [--max-tokens N] [--temperature T] [--top-p P] [--seed N] [--chat]",      \
	  "let a running job's weights, its best ones, or a model folder's say how a text goes on")                                  \
	X(datagen, "--rows N [--ids N] [--seed S] --out FILE",                                                                       \
	  "write click data from a synthetic model; 13312 to 268435456 ids (1000000)")                                               \
	X(export,                                                                                                                    \
	  "JOB.yaml [--at ADDRESS] --out OUT [--format safetensors|hf|peft] [--type F32|BF16|F16] [--replace] [--ids COLUMN]",       \
	  "write a running job's weights, or the best of one that has ended: a file, or a folder for transformers or PEFT")          \
	X(key, "FIELD|COLUMN VALUE [--job JOB.yaml | --format criteo|libsvm|libffm [--hash-buckets N]]",                             \
	  "print the key of an id, as click data's formats derive it")                                                               \
	X(import, "JOB.yaml [--at ADDRESS] --in MODEL.safetensors|CHECKPOINT",                                                       \
	  "set the weights of a job whose servers run and that does not train")                                                      \
	X(merge, "--method linear|slerp|task MODEL... --out OUT [--weights W,W] [--base MODEL] [--type F32|BF16|F16]",               \
	  "make one model of several, without training: safetensors files, or folders")                                              \
	X(checkpoint,                                                                                                                \
	  "(JOB.yaml | --at ADDRESS) [--json]  |  checkpoint verify JOB.yaml [--from NAME|latest] [--json]"                          \
	  "  |  checkpoint fork JOB.yaml --from PLACE",                                                                              \
	  "write a checkpoint of a running job, verify one, or copy one of another run to go on from")                               \
	X(restore, "JOB.yaml --from NAME|latest", "verify a checkpoint and make `weir train --resume` go on from it")                \
	X(move, "PARTITION SERVER (JOB.yaml | --at ADDRESS)", "bring a partition's primary to another server of a running job")      \
	X(drain, "SERVER (JOB.yaml | --at ADDRESS)",                                                                                 \
	  "bring all that a server has to the others, so that it can be stopped for good")                                           \
	X(rebalance, "(JOB.yaml | --at ADDRESS)", "give every server its share, those too that were added to a running job")         \
	X(rewind, "(JOB.yaml | --at ADDRESS) [--from NAME|latest]", "have a running job go back to a checkpoint")                    \
	X(tokenize, "--tokenizer FOLDER|FILE|bytes --in FILE... --out TOKENS.bin [--format text|jsonl] [--chat NAME] [--eos TOKEN]", \
	  "make a file of tokens from texts, or from JSONL for instruction tuning")                                                  \
	X(certs, "init --dir DIR | issue --dir DIR [--job JOB --role ROLE] [--name NAME] [--host HOST]... [--lifetime 90d]",         \
	  "make an authority for development, or certificates of it: security.* of a job")                                           \
	X(bench, "push|pull|store|cold|log|optim|gemm|loader [--json]", "measure against this machine's own limits")

#define VERB_DECLARE(name, arguments, what) int verb_##name(int count, char **args);
VERB_MAP(VERB_DECLARE)
#undef VERB_DECLARE

#define EXIT_USAGE 2

#endif
