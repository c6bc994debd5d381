# weir schema: every job file of the repository is valid by it, and the mistakes of job files that a
# schema can say are refused.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
python3 -c 'import jsonschema, yaml' 2> /dev/null || { echo "skipped: packages.txt names python3-jsonschema and python3-yaml"; exit 77; }
cd "$DIR" || exit 1
"$WEIR" schema > schema.json || fail "weir schema"
validate() { python3 "$source/tests/schema/validate.py" schema.json "$@"; }
files=("$source"/config/*.yaml "$source"/examples/python/*.yaml "$source"/docker/k8s/base/job.yaml)
validate "${files[@]}" || fail "a job file of the repository is not valid"

cat > job.yaml <<-'JOB'
	job: columns
	device: ${DEVICE:-cpu}
	data:
	  format: csv
	  train: x.csv
	  batch: ${BATCH}
	  cache: off
	  columns: [{name: y, kind: label}, {name: a, kind: multi, separator: "|", pooling: mean, max_length: 3}, {name: t, kind: time, format: iso8601}]
	model: {kind: deepfm, hidden: 16}
	cluster: {memory_budget: 512 MiB, network: {rate: 100Mb/s}, progress_timeout_ms: auto}
	train: {clip_norm: 1.0e-2}
JOB
validate job.yaml || fail "a job with columns is not valid"

validate --refuse <<-'CASES' || fail "a mistake is not refused"
	jobb x
	modle {kind: lr}
	model.dimm 16
	model.dim 0
	model.dim 4097
	model.dim 1.5
	model.dim wide
	model.dim [16]
	model.kind deep_fm
	model.hidden [400, 0]
	model.hidden wide
	model.batch_norm yes
	model.dropout 1
	model.dropout -0.1
	model.dropout off
	data []
	data.format cvs
	data.batch 0
	data.train {a: b}
	data.train [[a]]
	data.fields none
	data.csv.delimiter ",,"
	data.columns [user, item]
	data.columns [{name: user}]
	data.columns [{kind: label}]
	data.columns [{name: user, kind: category}]
	data.columns [{name: user, kind: numeric, pooling: mean}]
	data.columns [{name: user, kind: multi, pooling: median}]
	data.columns [{name: user, kind: categorical, sep: "|"}]
	cluster.servers -1
	cluster.servers two
	cluster.memory_budget 4 gigabytes
	cluster.network.rate 100Mbps
	cluster.replicas 4
	tables.embedding.optimizer.kind adm
	tables.embedding.mode.kind local
	tables.dense.mode.inner.lr -1
	tables.dense.optimizer.schedule.warmup 1k
	train.precision fp64
	train.rank_at [0]
	metrics.port 65536
CASES

# The same words help a person in a terminal.
jq -e '.properties.model.properties.kind.anyOf[0].enum | index("deepfm")' schema.json > /dev/null || fail "the models are not named"
jq -e '.properties.tables.properties.dense.properties.mode.properties.inner.properties.lr | .default == 0.001 and (.description | startswith("learning rate"))' schema.json > /dev/null || fail "lr has no default or description"
nothing_left
