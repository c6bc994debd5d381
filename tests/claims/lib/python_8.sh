# However a program ends, it leaves no process behind; the package loads beside current releases of
# grpcio, pyarrow and PyTorch, in both orders.
. tests/claims/lib/python.sh
need_wheel
others=(grpcio pyarrow)
[ "$QUICK" = 1 ] && say "QUICK: without PyTorch" || others+=(torch)
environment "$(pythons | tail -n 1 | cut -d ' ' -f 2)" "$WORK/environment" "${others[@]}"
verdict True "with ${others[*]}: $(suite "$WORK/environment" test_citizen test_scan)"
