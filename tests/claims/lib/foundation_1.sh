# A fresh clone in a clean Debian 12 root: `make run` in under 5 minutes with the expected AUCs,
# then `make test`.
. tests/claims/lib/common.sh
need_root "debootstrap and chroot"
need_installed containers debootstrap
base=$WORK/root
# This machine's apt sources with Debian packages, and its way to fetch them. Sources of other
# vendors need keys that a clean root lacks.
sources=$(grep -lE '^(Suites: *|deb (\[[^]]*\] )?[^ ]+ )bookworm( |$)' /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2> /dev/null)
[ -n "$sources" ] || skip "no apt source of this machine has Debian bookworm"
mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) bookworm .*/\2/p' $sources | head -n 1)
unmount() {
	for d in dev/shm dev proc sys; do mountpoint -q "$base/$d" && umount -l "$base/$d"; done
	rm -rf --one-file-system "$WORK"
}
trap unmount EXIT
debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$base" "$mirror" > "$WORK/debootstrap.log" 2>&1 ||
	{ tail -n 20 "$WORK/debootstrap.log" >&2; give_up "debootstrap failed"; }
rm -f "$base/etc/apt/sources.list"
cp --parents $sources "$base"
grep -lE '^ *(Acquire|APT::Get)' /etc/apt/apt.conf /etc/apt/apt.conf.d/* 2> /dev/null | xargs -r cp --parents -t "$base"
cp /etc/resolv.conf /etc/hosts "$base/etc/"
[ -d /usr/local/share/ca-certificates ] && cp -a /usr/local/share/ca-certificates/. "$base/usr/local/share/ca-certificates/"
for d in proc sys dev dev/shm; do mkdir -p "$base/$d" && mount --bind "/$d" "$base/$d" || give_up "cannot mount $d"; done
chroot "$base" update-ca-certificates > /dev/null 2>&1
git clone -q "file://$ROOT" "$base/srv/weir" || give_up "git clone failed"
mkdir -p "$base/srv/shared" && [ -d "$WEIR_DATA" ] && cp -a "$WEIR_DATA" "$base/srv/shared/data"
in_root() { chroot "$base" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb ${http_proxy:+http_proxy=$http_proxy} \
	${https_proxy:+https_proxy=$https_proxy} sh -c "cd /srv/weir && $1"; }

began=$(date +%s)
in_root "make run" > "$WORK/run.log" 2>&1 || { tail -n 40 "$WORK/run.log" >&2; give_up "make run failed"; }
seconds=$(($(date +%s) - began))
tail -n 8 "$WORK/run.log"
in_root "make test" > "$WORK/test.log" 2>&1
tests=$?
[ $tests = 0 ] || grep -E -A 12 '\*\*\*(Failed|Timeout|Exception)|error:' "$WORK/test.log" | head -n 80
tail -n 5 "$WORK/test.log"
auc=$(figure "$base/srv/weir/runs/demo.json" test.auc)
best=$(figure "$base/srv/weir/runs/demo.json" data.bayes_auc)
lr=$(figure "$base/srv/weir/runs/demo-lr.json" test.auc)
ids=$(figure "$base/srv/weir/runs/demo.json" data.ids_seen)
echo "make run: $seconds s; test AUC $auc, best possible $best, logistic regression $lr, $ids ids; make test: status $tests"
verdict "$seconds < 300 and $best - $auc <= 0.005 and $auc - $lr >= 0.02 and $ids >= 1e6 and $tests == 0" \
	"under 300 s, within 0.005 of the best, LR at least 0.02 lower, over 1 M distinct ids, tests pass"
