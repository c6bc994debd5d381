# Each mistake is an exception with a sentence, within 10 seconds.
. tests/claims/lib/python.sh
need_wheel
environment "$(pythons | tail -n 1 | cut -d ' ' -f 2)" "$WORK/environment"
verdict True "$(suite "$WORK/environment" test_misuse test_tables)"
