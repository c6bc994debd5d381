# Observability of a job. A real Prometheus scrapes every process's series without an alert.
# promtool tests the alerts on series that should and should not raise them. Every series that
# alerts and dashboard use exists. A real browser draws the page of a run. The HTTP server's limits
# hold. GPUs are tested with a stand-in for NVML. TensorBoard reads the event files. Needs promtool
# and prometheus (Debian's prometheus), Chromium, and a PYTHON with tensorboard. SHOT=FILE keeps the
# picture of the page.
. tests/claims/lib/common.sh
need_installed claims promtool prometheus chromium
need_python tensorboard
export PYTHON
need_programs
need_tests test_http_server test_monitor test_gpu test_metrics test_overview_metrics
cases=0
for name in http_server monitor gpu metrics overview_metrics; do
	"$BUILD/tests/test_$name" > "$WORK/$name.log" 2>&1 || { cat "$WORK/$name.log" >&2; give_up "test_$name fails"; }
	cases=$((cases + $(grep -c '^\[       OK' "$WORK/$name.log")))
done
export SHOT=${SHOT:-$WORK/page.png}
for name in status_http monitor job_page tensorboard; do
	bash "tests/integration/$name.sh" "$BUILD" > "$WORK/$name.out" 2>&1
	rc=$?
	[ $rc != 77 ] || skip "tests/integration/$name.sh: $(tail -n 1 "$WORK/$name.out")"
	[ $rc = 0 ] || { cat "$WORK/$name.out" >&2; give_up "tests/integration/$name.sh fails"; }
	echo "$name: $(grep -E 'names|curves|losses' "$WORK/$name.out" | tail -n 1)"
done
alerts=$(grep -c 'alert:' docker/monitoring/alerts.yaml) tested=$(grep -c 'exp_alerts: \[{' docker/monitoring/alerts_test.yaml)
names=$(sed -n 's/^\([0-9]*\) names, .*panels$/\1/p' "$WORK/monitor.out")
picture=$(wc -c < "$SHOT")
echo "names of series: $names; alerts: $alerts, with a test that raises it: $tested; unit tests: $cases; picture of the page: $picture bytes"
verdict "$names >= 40 and $alerts == $tested and $cases > 0 and $picture > 10000" "scraped, alerted, drawn and read back"
