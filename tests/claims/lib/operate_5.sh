# Mutual TLS. A matrix on one machine: no certificate, one of another authority, role or job, an
# expired one, files replaced while a job trains; each with its expected result and words. Then the
# cost of TLS: pushes alone at full speed, and a job that trains, alternately in plain text and over
# TLS.
. tests/claims/lib/common.sh
need_programs
need_tests test_rpc_tls test_certificate
runs=$(pick 2 5) rows=$(pick 200000 1000000)
[ "$QUICK" = 1 ] && echo "QUICK: $runs runs of each kind instead of 5, of $rows rows instead of 1000000; pushes measured once instead of five times"
for test in certificate rpc_tls; do
	"$BUILD/tests/test_$test" > "$WORK/$test.out" 2>&1 || { cat "$WORK/$test.out" >&2; give_up "test_$test fails"; }
	echo "test_$test: $(grep -c '^\[       OK' "$WORK/$test.out") tests pass"
done
bash tests/integration/tls.sh "$BUILD" > "$WORK/tls.out" 2>&1 && matrix=True || matrix=False
cat "$WORK/tls.out"

"$BUILD/weir" bench push --tls --json --rounds "$(pick 1 5)" > "$WORK/push.json" || give_up "weir bench push --tls failed"
jq -r '.results[] | select(.ratio > 0) | "\(.name): \(.value / 1e6 | round) MB/s, \(.ratio * 100 | round) % of plain text"' "$WORK/push.json"

click_job "$rows"
click_data
for role in server worker admin; do
	[ -e "$WORK/certs/ca.key" ] || "$BUILD/weir" certs init --dir "$WORK/certs" > "$WORK/certs.out" || give_up "weir certs init"
	"$BUILD/weir" certs issue --dir "$WORK/certs" --job click --role $role > "$WORK/certs.out" || give_up "weir certs issue"
done
SETTINGS=("${SAME_DATA[@]}" --set job=click --set cluster.listen=127.0.0.1:0)
TLS=(--set "security.certificate=$WORK/certs/{role}.crt" --set "security.key=$WORK/certs/{role}.key" --set "security.ca=$WORK/certs/ca.crt")
for ((i = 0; i < runs; i++)); do
	train "plain-$i" "$WORK/click.yaml" "${SETTINGS[@]}"
	train "tls-$i" "$WORK/click.yaml" "${SETTINGS[@]}" "${TLS[@]}"
	rm -r "$WORK/plain-$i" "$WORK/tls-$i"
done
middle() { for ((i = 0; i < runs; i++)); do figure "$WORK/$1-$i.json" samples_per_s; done | sort -g | sed -n "$(((runs + 1) / 2))p"; }
plain=$(middle plain) tls=$(middle tls)
python3 -c "print(f'DeepFM on clicks, two servers and two workers: {$plain:.0f} rows a second in plain text, {$tls:.0f} by TLS: {$tls / $plain:.3f} of it (medians of $runs)')"
verdict "$matrix and $tls > 0" "each of the matrix is as it should be; TLS leaves $(python3 -c "print(f'{$tls / $plain:.2f}')") of the training speed"
