# weir predict --ids: CSV with the ids of each row before its score, in the order of the files, so
# that scores join back to the table: quoted ids, newlines in ids, bad and blank lines, parts of a
# split, gzip; columns of kind id name rows without an option.
. "$(dirname "$0")/lib.sh"
cd "$DIR" || exit 1
# rows FIRST LAST: a label that the second column decides, an id with a comma, and one with a newline.
rows() { awk -v first="$1" -v last="$2" 'BEGIN { srand(7); print "impression,user,item,clicked"; for (i = first; i <= last; i++) {
	item = i % 7; printf "\"%d, \"\"x\"\"\",%s,i%d,%d\n", i, (i % 5 ? "u" i % 11 : "\"u\n" i % 11 "\""), item, (rand() < item / 7) } }'; }
rows 1 2000 > train.csv
rows 2001 2300 > new.csv
cat > job.yaml <<-JOB
	job: ids
	run_dir: $RUN
	data:
	  format: csv
	  train: train.csv
	  test: new.csv
	  columns: [{name: impression, kind: id}, {name: user, kind: categorical}, {name: item, kind: categorical}, {name: clicked, kind: label}]
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.05}}, dense: {optimizer: {lr: 0.05}}}
	train: {passes: 2}
JOB
"$WEIR" train job.yaml > train.out 2> train.err || fail "weir train: $(tail -n 3 train.err)"
predict() { "$WEIR" predict job.yaml "$@" > predict.out 2> predict.err || fail "weir predict $*: $(cat predict.err)"; }

# The scores are those of --lines, in the same order; the ids are those of the file.
predict --lines --out lines.txt
predict --out ids.csv
python3 - <<-'EOF' || fail "ids or scores are others"
	import csv
	rows = list(csv.DictReader(open("new.csv", newline="")))
	scored = list(csv.DictReader(open("ids.csv", newline="")))
	scores = [line.rstrip("\n").split("\t")[1] for line in open("lines.txt")]
	assert list(scored[0]) == ["impression", "score"], list(scored[0])
	assert [r["impression"] for r in rows] == [r["impression"] for r in scored]
	assert [r["score"] for r in scored] == scores and len(set(scores)) > 20
EOF
grep -q '^"2001, ""x""",0\.' ids.csv || fail "an id is not quoted as RFC 4180 says: $(sed -n 2p ids.csv)"

# Other columns by --ids, again and with commas; of a compressed file; of a part of a split.
gzip -c new.csv > new.csv.gz
predict --ids user,item --ids impression --set data.test=new.csv.gz --out named.csv
python3 - <<-'EOF' || fail "columns by --ids are others"
	import csv
	rows = list(csv.DictReader(open("new.csv", newline="")))
	scored = list(csv.DictReader(open("named.csv", newline="")))
	assert list(scored[0]) == ["user", "item", "impression", "score"], list(scored[0])
	assert all(all(a[k] == b[k] for k in ("user", "item", "impression")) for a, b in zip(rows, scored)) and len(rows) == len(scored)
	assert [r["score"] for r in scored] == [r["score"] for r in csv.DictReader(open("ids.csv", newline=""))]
EOF
predict --set 'data.test=[]' --set data.train=new.csv --set data.split.by=crc32 --part valid --out part.csv
python3 - <<-'EOF' || fail "the part has other rows"
	import csv
	scored = {r["impression"]: r["score"] for r in csv.DictReader(open("ids.csv", newline=""))}
	part = list(csv.DictReader(open("part.csv", newline="")))
	assert 10 < len(part) < 60 and all(scored[r["impression"]] == r["score"] for r in part)
EOF

# A bad line keeps its id; a blank line has no row.
{ head -n 2 new.csv; printf '9,u1\n\n'; printf '8,u1,i\0,0\n'; tail -n 3 new.csv; } > holes.csv
predict --set data.test=holes.csv --out holes.txt
told '2 bad lines: nan; 1 line without a row: empty' predict.out
grep -qx ',nan' holes.txt && grep -qx '8,nan' holes.txt || fail "bad lines are not named: $(cat holes.txt)"
[ "$(wc -l < holes.txt)" -eq 6 ] || fail "holes.txt has other lines: $(cat holes.txt)"

# Mistakes.
"$WEIR" predict job.yaml --ids usr --out x.csv > wrong.out 2> wrong.err && fail "a column that the data lack"
told "new.csv has no column 'usr'; the nearest is 'user'" wrong.err
"$WEIR" predict job.yaml --ids user, --out x.csv > wrong.out 2> wrong.err && fail "an empty name"
told "--ids is 'user,'; expected names of columns" wrong.err
"$WEIR" predict job.yaml --ids user --lines --out x.csv > wrong.out 2> wrong.err && fail "--ids with --lines"
told '--lines and --ids both say what stands before a score' wrong.err
[ ! -e x.csv ] || fail "a refused verb leaves a file"
nothing_left
echo "300 scores joined to their rows"
