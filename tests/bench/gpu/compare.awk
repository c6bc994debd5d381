# awk -f compare.awk peers.tsv bench.tsv: one table of both, for what both have measured and what
# bench_gpu has alone. -v least=N: exits with 1 unless all that both have measured takes PyTorch at
# least N times as long, and there is something.
BEGIN {
	FS = "\t"
	printf "%-34s %11s %11s %10s %10s %12s %8s\n", "", "elements", "us", "GB/s", "of a copy", "PyTorch us", "times"
}
NF == 4 { # of several ways the fastest
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
