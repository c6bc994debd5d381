# The planner against what runs measure, on this machine:
#   - predicted samples a second of 12 jobs (clicks and text, 100 Mb/s to any rate, 1 to 4 workers, a
#     slow worker): within 15 % on at least 10, none more than 30 % off
#   - its choice within 10 % of the best of all candidates, each measured, on four jobs
#   - the same validation AUC at least 1.9 times sooner than as written, at 100 Mb/s and with a slow
#     worker
# The machine must be quiet. QUICK=1: smaller jobs, a third of the predictions and half of the
# choices, whose candidates are measured once.
. tests/claims/lib/common.sh
need_programs
need_data tinyshakespeare/input.txt
python3 tests/claims/lib/tune_2.py "$BUILD" "$WORK" "$QUICK"
