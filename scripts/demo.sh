#!/bin/sh
# What `make run` shows: two servers and two workers learn the synthetic click model of config/demo.yaml, plain logistic regression tries
# the same data, and both stand beside the best AUC that there is.
set -eu
cd "$(dirname "$0")/.."

echo "== DeepFM on two servers and two workers (config/demo.yaml)"
build/weir train config/demo.yaml --report runs/demo.json "$@"

# The same rows from the same file: nothing is generated or parsed again.
echo
echo "== plain logistic regression on the same rows"
build/weir train config/demo.yaml --report runs/demo-lr.json "$@" --set job=demo-lr --set model.kind=lr \
	--set data.generate.rows=0 --set data.train=runs/demo/generated.tsv --set data.split.by=crc32 --set data.cache=runs/demo/cache

jq -rn --slurpfile deep runs/demo.json --slurpfile plain runs/demo-lr.json '
	def round4: (if . < 0 then "-" else "" end) +
		(. * 10000 | round | fabs | tostring | if length < 5 then "0000"[length - 1:] + . else . end | .[:-4] + "." + .[-4:]);
	($deep[0].data.bayes_auc) as $best | ($deep[0].test.auc) as $model | ($plain[0].test.auc) as $lr |
	"",
	"== AUC on \($deep[0].test.rows) unseen rows",
	"best possible (the synthetic model)  \($best | round4)",
	"DeepFM, trained by Weir              \($model | round4)   \($best - $model | round4) below the best possible",
	"logistic regression                  \($lr | round4)   \($model - $lr | round4) below DeepFM",
	"",
	"reports: runs/demo.json, runs/demo-lr.json (docs/REPORT.md explains them)"'
