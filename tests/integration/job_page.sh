# The page of `weir train --http` in a real browser. It draws the run's curves, staleness,
# partitions and workers, and loads only what the process itself serves.
for CHROMIUM in ${CHROMIUM:-} chromium chromium-browser google-chrome none; do
	command -v "$CHROMIUM" > /dev/null && break
done
[ "$CHROMIUM" != none ] || { echo "there is no Chromium here: skipped"; exit 77; }
. "$(dirname "$0")/lib.sh"
write_job 1000
SHOT=${SHOT:-$DIR/page.png} # keeps a screenshot there
browse() { timeout 60 "$CHROMIUM" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$DIR/browser" --virtual-time-budget=7000 "$@" 2> "$DIR/browser.err"; }
start_train --http 0
wait_for 60 "an evaluation" status ".auc > 0.5 and .pass > 3"
AT=$(sed -n 's,^.*\(http://127[0-9.:]*/\) shows it.*$,\1,p' "$DIR/train.err")
browse --dump-dom "$AT" > "$DIR/page.html" || fail "the browser: $(tail -n 3 "$DIR/browser.err")"
python3 - "$DIR/page.html" <<-'PY' || fail "the page is not as it should be"
	import re, sys
	page = open(sys.argv[1]).read()
	def inside(name):
	    return re.search(rf'id="{name}"[^>]*>(.*?)(?=<h2|</main>)', page, re.S).group(1)
	assert re.search(r'<h1 id="job">it</h1><span id="state" class="running">running</span>', page), page[:3000]
	assert re.search(r'id="trouble"></p>', page), "it tells of trouble"
	for chart in "loss", "quality", "speed", "bytes":
	    points = re.findall(r'<polyline [^>]*points="([^"]*)"', inside(chart))
	    assert points and all(len(p.split()) > 1 for p in points), (chart, points)
	assert "NaN" not in page.split("<script>")[0], "a number is none"
	bars = re.findall(r'<rect [^>]*height="([\d.]+)"', inside("staleness"))
	assert bars and float(max(bars, key=float)) > 10, bars
	assert len(re.findall(r"<i [^>]*title=\"partition \d+: primary on server [01]", inside("partitions"))) == 8
	for worker in "worker-0", "worker-1": assert re.search(rf"<td>{worker}</td><td>live</td>.*?<td>\d+ on [^<]+</td>", page), worker
	assert page.count("<td>answers</td>") == 2
	asked = set(re.findall(r"(?:https?:)?//[\w.]+", page)) - {"http://www.w3.org"}
	assert not asked, f"it asks {asked}"
	print("curves of", [len(re.findall(r"[\d.]+,", p)) for p in re.findall(r'<polyline [^>]*points="([^"]*)"', page)], "points")
PY
browse --window-size=1240,1480 --screenshot="$SHOT" "$AT" > /dev/null || fail "the browser: $(tail -n 3 "$DIR/browser.err")"
[ "$(head -c 4 "$SHOT" | tail -c 3)" = PNG ] || fail "there is no picture"
stop_train 30

# The page stays after the end: the same curves, the settings, and values at the pointer.
"$WEIR" show "$RUN" --out "$DIR/after.html" > /dev/null || fail "weir show"
cat >> "$DIR/after.html" <<-'HTML'
	<script>
	const box = document.querySelector('#loss svg').getBoundingClientRect();
	document.querySelector('#loss svg').dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + 20}));
	</script>
HTML
browse --dump-dom "file://$DIR/after.html" > "$DIR/page.html" || fail "the browser: $(tail -n 3 "$DIR/browser.err")"
python3 - "$DIR/page.html" <<-'PY' || fail "the page after the end is not as it should be"
	import re, sys
	page = open(sys.argv[1]).read()
	assert re.search(r'<h1 id="job">it</h1><span id="state" class="stopped">stopped</span>', page), page[:3000]
	for chart in "loss", "quality", "speed", "bytes":
	    inside = re.search(rf'id="{chart}"[^>]*>(.*?)(?=<h2|</main>)', page, re.S).group(1)
	    assert all(len(p.split()) > 1 for p in re.findall(r'<polyline [^>]*points="([^"]*)"', inside)), chart
	tip = re.search(r'<div id="tip"[^>]*>(.*?)</div>', page, re.S).group(1)
	assert re.fullmatch(r"[\d.]+k?\nloss 0?\.\d+\nsmoothed 0?\.\d+", tip), repr(tip)
	assert "<div><span>model.kind</span>fm</div>" in page
	print("at the pointer:", tip.replace("\n", ", "))
PY
nothing_left
