# awk -f compare.awk peers.tsv bench.tsv: one table of the subjects that both measured, and of those
# that only bench_gpu measured. -v least=N: exits 1 unless there are common subjects and PyTorch
# takes at least N times as long for each.
BEGIN {
	FS = "\t"
	printf "%-34s %11s %11s %10s %10s %12s %8s\n", "", "elements", "us", "GB/s", "of a copy", "PyTorch us", "times"
}
NF == 4 { # the fastest of several ways
	if (!(($1, $2) in peer) || $3 < peer[$1, $2])
		peer[$1, $2] = $3
	next
}
{
	printf "%-34s %11d %11.1f", $1, $2, $3 * 1e6
	if ($6 > 0)
		printf " %10.1f TFLOP/s", $6 / $3 / 1e12
	else
		printf " %10.1f %10.3f", $4 / $3 / 1e9, $5
	if (($1, $2) in peer) {
		times = peer[$1, $2] / $3
		printf " %12.1f %8.1f", peer[$1, $2] * 1e6, times
		both++
		slower += times < least
	}
	print ""
}
END { if (least > 0) exit both == 0 || slower > 0 }
