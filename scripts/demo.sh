#!/bin/sh
# What `make run` shows: two servers and two workers learn the planted click model of config/demo.yaml, plain logistic regression tries
# the same data, and both stand beside the best AUC that there is.
set -eu
cd "$(dirname "$0")/.."

build/weir train config/demo.yaml --report runs/demo.json "$@"

# The same rows from the same file: nothing is generated or parsed again.
build/weir train config/demo.yaml --report runs/demo-lr.json "$@" --set job=demo-lr --set model.kind=lr \
	--set data.generate.rows=0 --set data.train=runs/demo/generated.tsv --set data.split.by=crc32 --set data.cache=runs/demo/cache

jq -rn --slurpfile deep runs/demo.json --slurpfile plain runs/demo-lr.json '
	def round4: . * 10000 | round / 10000 | tostring | if contains(".") then . else . + ".0" end;
	($deep[0].data.bayes_auc) as $best | ($deep[0].test.auc) as $model | ($plain[0].test.auc) as $lr |
	"",
	"test AUC of the demo model         \($model | round4)",
	"best possible (planted model)      \($best | round4)    the demo is \($best - $model | round4) below it",
	"test AUC of logistic regression    \($lr | round4)    the demo is \($model - $lr | round4) above it",
	"",
	"reports: runs/demo.json, runs/demo-lr.json"'
