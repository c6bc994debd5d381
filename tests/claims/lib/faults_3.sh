# Floods: a server's memory and the throughput of honest workers beside each mode of
# tests/abuse/attacker.py, in plain text and over TLS. Over TLS the attacker shows a certificate of
# the job, of another job of the same authority, or none. The handshake refuses the last two, so
# they have no connection. Honest workers keep at least 80 % of the examples/s that they have beside
# a process that uses as much processor time without connecting. The audits follow at the end.
. tests/claims/lib/common.sh
. tests/claims/lib/honest.sh
need_programs
window=$(pick 5 10) rounds=$(pick 2 3)
read -r -a kinds <<< "$(pick 'continuation reset ping connections' 'continuation headers reset ping settings window priority empty connections calls')"
read -r -a strangers <<< "$(pick 'continuation calls' 'continuation reset connections calls')"
least=$(pick 0.6 0.8) # two short windows are less precise
[ "$QUICK" = 1 ] && echo "QUICK: ${kinds[*]}; $rounds windows of $window s; 60 % instead of 80"
ulimit -Sn hard # an attacker holds thousands of connections

honest_begin plain
honest_beside plain "$window" "$rounds" "${kinds[@]}"
honest_end

certs=$WORK/certs
{ "$BUILD/weir" certs init --dir "$certs" && for role in server worker admin; do "$BUILD/weir" certs issue --dir "$certs" --job abuse --role $role || exit 1; done; } > "$WORK/certs.out" ||
	give_up "no certificates"
mkdir "$WORK/other"
cp "$certs"/ca.* "$WORK/other"
"$BUILD/weir" certs issue --dir "$WORK/other" --job another --role worker > "$WORK/certs.out" || give_up "no certificate of another job"
honest_begin tls "security: {certificate: '$certs/{role}.crt', key: '$certs/{role}.key', ca: $certs/ca.crt}"
TLS=$certs/worker.crt,$certs/worker.key,$certs/ca.crt honest_beside "same job" "$window" "$rounds" "${kinds[@]}"
TLS=$WORK/other/worker.crt,$WORK/other/worker.key,$certs/ca.crt honest_beside "other job" "$window" "$rounds" "${strangers[@]}"
TLS=,, honest_beside "no certificate" "$window" "$rounds" "${strangers[@]}"
honest_end
honest_report "$least"
