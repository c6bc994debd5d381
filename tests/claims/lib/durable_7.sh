# A real server runs a small job under a recorder of its disk operations: evictions, flushes, a
# journal of several segments, compaction, a kill, a recovery. Then a server starts on every folder
# that a machine's death at any moment could leave, with unsynced writes lost, torn and reordered;
# and on folders with a flipped bit. It opens, has all acknowledged data, and each row is the exact
# sum of the batches that its partition reports as applied.
. tests/claims/lib/common.sh
need_tests weir_interpose test_crash_server
[ "$QUICK" = 1 ] && echo "QUICK: every 31st moment instead of all"
export WEIR_INTERPOSE=$BUILD/tests/libweir_interpose.so
status=0
"$BUILD/tests/test_crash_server" "$(pick 31 1)" "$(pick 2003 509)" 16 > "$WORK/out" || status=$?
cat "$WORK/out"
verdict "$status == 0" "no push acknowledged at \`disk\` is lost, every folder opens after a crash, and no damage is served"
