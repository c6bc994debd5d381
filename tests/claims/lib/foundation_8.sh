# Bad input of every kind: runs the tests that check a clear error for each, and a server that
# survives.
. tests/claims/lib/common.sh
need_programs
cmake --build "$BUILD" >&2 || give_up "the tests do not build"
# The kind, and its tests (a regular expression of ctest names).
cases=(
	"a malformed YAML key|job_errors" "an unknown codec|job_errors" "an oversized message|^(frame|rpc_memory|rpc_unix|rpc_tcp)$" "a truncated frame|^frame$"
	"a corrupted checksum|^(frame|service)$" "a table registered twice with another width|^(ledger_units|client_faults|service)$"
	"a data file with broken lines|integration_bad_lines" "a port in use|integration_port_in_use" "an unwritable directory|integration_(bad_places|read_only)"
)
failed=0
for c in "${cases[@]}"; do
	if ctest --test-dir "$BUILD" -R "${c#*|}" --no-tests=error --output-on-failure > "$WORK/ctest.log" 2>&1; then
		echo "holds: ${c%%|*} ($(grep -c ' Passed ' "$WORK/ctest.log") test programs)"
	else
		tail -n 20 "$WORK/ctest.log"
		echo "DOES NOT HOLD: ${c%%|*}"
		failed=$((failed + 1))
	fi
done
verdict "$failed == 0" "$((${#cases[@]} - failed)) of ${#cases[@]}"
