# The optimizer Lion, the codec int2 and the model xDeepFM: each commit touched at most five
# production files besides tables of kinds and lists of files. Their tests against float64 pass. A
# generated click job trains with each about as well as with Adam, fp32 and DeepFM, and int2 pushes
# at least 13 times fewer bytes of the dense table. QUICK=1: one seed instead of three, fewer rows.
. tests/claims/lib/common.sh
need_programs
rows=$(pick 300000 600000) seeds=$(pick 1 "1 2 3") bound=$(pick 0.02 0.01)
[ "$QUICK" = 1 ] && echo "QUICK=1: seed 1 instead of 1 to 3, $rows rows, AUCs within $bound"

# --- Files
TABLES='^(common/include/weir/table\.h|kernels/codecs/form\.h|kernels/topk_record\.h|common/job/job_models\.h|common/job/job_schema\.c|.*CMakeLists\.txt)$'
most=0
for subject in "kernels: add the optimizer Lion" "kernels: add the codec int2" "model: add xDeepFM"; do
	commit=$(git log --format=%H --grep="^$subject\$" | tail -n 1)
	[ -n "$commit" ] || give_up "no commit '$subject' in this clone: fetch the whole history"
	mapfile -t files < <(git show --format= --name-only "$commit" -- common proto kernels overview server worker cli | grep -vE "$TABLES")
	echo "$subject: ${#files[@]} files: ${files[*]}"
	most=$((${#files[@]} > most ? ${#files[@]} : most))
done

# --- Tests
tests='optimizer|optimizer_sparse|codec|codec_variants|codec_rounding|codec_special|codec_error|topk|topk_decode|compression|compress|compressed_push|model'
need_tests test_optimizer test_optimizer_sparse test_codec test_codec_variants test_codec_rounding test_codec_special test_codec_error test_topk test_topk_decode test_compression test_compress test_compressed_push test_model
ctest --test-dir "$BUILD" -R "^($tests)\$" > "$WORK/ctest" 2>&1
passed=$?
grep -E 'tests passed|Failed|Skipped' "$WORK/ctest"

# --- Trainings
click_job "$rows" 2
click_data
dense_bytes() { python3 -c 'import json, sys; print(next(t["push_bytes"] for t in json.load(open(sys.argv[1]))["tables"] if t["name"] == "dense"))' "$1"; }
for seed in $seeds; do
	train "plain-$seed" "$WORK/click.yaml" "${CONVERGED[@]}" "${SAME_DATA[@]}" --set train.seed="$seed"
	train "lion-$seed" "$WORK/click.yaml" "${CONVERGED[@]}" "${SAME_DATA[@]}" --set train.seed="$seed" --set 'tables.dense.optimizer={kind: lion, lr: 2.0e-4, schedule: {kind: cosine}}'
	train "int2-$seed" "$WORK/click.yaml" "${CONVERGED[@]}" "${SAME_DATA[@]}" --set train.seed="$seed" --set 'tables.dense.push={codec: int2}'
	train "xdeepfm-$seed" "$WORK/click.yaml" "${CONVERGED[@]}" "${SAME_DATA[@]}" --set train.seed="$seed" --set model.kind=xdeepfm --set 'model.cin=[16, 16]'
	for kind in plain lion int2 xdeepfm; do figure "$WORK/$kind-$seed.json" test.auc >> "$WORK/$kind"; done
	dense_bytes "$WORK/plain-$seed.json" >> "$WORK/plain-bytes"
	dense_bytes "$WORK/int2-$seed.json" >> "$WORK/int2-bytes"
done
plain=$(mean $(< "$WORK/plain")) lion=$(mean $(< "$WORK/lion")) int2=$(mean $(< "$WORK/int2")) xdeepfm=$(mean $(< "$WORK/xdeepfm"))
fewer=$(python3 -c 'import sys; n = len(sys.argv) // 2; v = [float(x) for x in sys.argv[1:]]; print(f"{sum(v[:n]) / sum(v[n:]):.1f}")' $(< "$WORK/plain-bytes") $(< "$WORK/int2-bytes"))
verdict "$most <= 5 and $passed == 0 and min($lion, $int2, $xdeepfm) >= $plain - $bound and $fewer >= 13" \
	"at most $most files; tests: $([ $passed = 0 ] && echo pass || echo FAIL); AUC $plain plain, $lion by Lion, $int2 by int2 ($fewer times fewer dense bytes), $xdeepfm by xDeepFM"
