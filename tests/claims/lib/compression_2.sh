# The codecs' relative squared errors on three distributions: at most 1.1 times the published
# figures, if any, and those of the same definition in float64 with exact scales.
. tests/claims/lib/common.sh
need_programs
need_tests codec_error
elements=$(pick $((1 << 20)) $((16 << 20)))
[ "$QUICK" = 1 ] && echo "QUICK: $elements elements of each distribution instead of 16 Mi"
"$BUILD/tests/codec_error" "$elements" > "$WORK/errors" && all=True || all=False
cat "$WORK/errors"
verdict "$all" "no codec leaves out more than 1.1 times what its definition does"
