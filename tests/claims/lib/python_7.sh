# Misuse of the Python package: a wrong dtype and shape, a table's other width, a closed job, a
# dataset that cannot be addressed, a handle in a forked child, a NaN, servers that are lost, a job
# that has gone back to a checkpoint. Each is a Python exception with a sentence, within 10 s.
. tests/claims/lib/python.sh
need_programs
need_package torch
if "$PYTHON" tests/claims/lib/python_misuse.py; then holds=True; else holds=False; fi
ran=$(suite "$WORK/venv" test_misuse test_tables) || exit 1
echo "test_misuse and test_tables: $ran"
verdict "$holds" "each misuse is an exception with a sentence, and nothing hangs"
