#!/usr/bin/env bash
# programs.sh PREFIX SOURCE: the installed `weir` trains a small job with the installed server and
# worker, from another folder, with nothing of Weir on PATH.
set -u
prefix=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() { echo "programs: $*" >&2; exit 1; }

awk 'BEGIN { srand(5); for (i = 0; i < 300; i++) { a = int(rand() * 9); print (a > 4), a + 1 ":1", int(rand() * 9) + 11 ":1" } }' > rows.svm
cat > job.yaml <<-'JOB'
	job: installed
	data: {format: libsvm, train: rows.svm, batch: 16, fields: 2}
	model: {kind: lr}
JOB
env PATH=/usr/bin:/bin "$prefix/bin/weir" train job.yaml --report report.json > out 2>&1 || { cat out; fail "weir train fails"; }
[ -s report.json ] || fail "there is no report"
for program in weir weir-server weir-worker; do
	said=$("$prefix/bin/$program" --version) || fail "$program --version fails"
	[ "$said" = "$program $("$prefix/bin/weir" version | cut -d ' ' -f 2)" ] || fail "$program --version says '$said'"
	"$prefix/bin/$program" --help > out || fail "$program --help fails"
	grep -q "^usage: $program " out || fail "$program --help does not begin with its usage"
done
"$prefix/bin/weir-server" --help > /dev/full 2> out && fail "weir-server --help into a full disk succeeds"
grep -q "cannot write stdout" out || fail "weir-server does not say that its output is lost"

# A program's usage and its list of options agree.
for program in weir-server weir-worker; do
	"$prefix/bin/$program" --help > out
	usage=$(sed '/^$/q' out | grep -o -e '--[a-z-]*' | sort -u)
	listed=$(sed -n 's/^  \(--[a-z-]*\).*/\1/p' out | grep -v -x -e --help -e --version | sort -u)
	[ "$usage" = "$listed" ] || fail "$program: its usage has $(xargs <<< "$usage"), its list $(xargs <<< "$listed")"
done
echo "a job is trained, three programs say who they are"
