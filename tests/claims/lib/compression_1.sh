# Error feedback at memory speed. On the same core, encoding 1 % of 64 Mi elements moves at least 60
# % of a copy's bytes per second, and encoding all as int8 at least half. Decoding and applying 1 %
# with SGD covers at least 5 G elements of the table per second. The exact threshold takes a fifth
# of a library's selection.
. tests/claims/lib/common.sh
need_tests bench_topk
"$BUILD/tests/bench_topk" --check | tee "$WORK/topk"
met=${PIPESTATUS[0]}
grep -q 'std::nth_element' "$WORK/topk" || give_up "the benchmark is built without a C++ compiler: there is no std::nth_element to compare with"
[ "$(grep -c '^\(holds\|DOES NOT HOLD\)' "$WORK/topk")" = 4 ] || give_up "the benchmark did not come to its end"
verdict "$met == 0" "encoding, applying and selecting at the speeds above"
