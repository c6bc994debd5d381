# A new user's first hour at a terminal: each step ends as expected and prints what
# docs/FIRST-HOUR.md shows. QUICK=1: with the programs built here instead of a clone.
. tests/claims/lib/common.sh
need_programs
export BUILD
[ "$QUICK" = 1 ] && say "QUICK=1: the clone is not built, the programs of this tree are taken"
exec python3 tests/claims/lib/first_hour.py $(pick --quick "")
