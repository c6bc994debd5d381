# Synchronous training equals a single process's, bit for bit, at fp32 without backup workers, with
# one worker and with three. ssp(0) reads everything that sync guarantees. ssp(s) is never more than
# s ahead: in two million simulated batches of workers that stall, die and return, and through real
# clients and servers.
. tests/claims/lib/common.sh
need_tests test_train_synchronous test_synchronous test_ledger_clocks test_staleness
[ "$QUICK" = 1 ] && echo "QUICK: one of 8 rounds of what is random"
[ "$QUICK" = 1 ] && export WEIR_ROUNDS_PART=8
failed=0
run() { # run NAME PATTERN: prints the lines with the figures
	"$BUILD/tests/test_$1" > "$WORK/$1.log" 2>&1 || { failed=$((failed + 1)); cat "$WORK/$1.log"; }
	grep -E "$2" "$WORK/$1.log" | sed "s/^/$1: /"
}
run train_synchronous 'OK \]|FAILED'
run synchronous 'loop|FAILED'
run ledger_clocks 'batches|lead|OK \]|FAILED'
run staleness 'bound|OK \]|FAILED'
verdict "$failed == 0" "sync is one process to the bit, ssp(0) orders as sync does, and no bound is exceeded"
