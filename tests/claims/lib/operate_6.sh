# Abuse: one peer misbehaves in each of four ways (tests/abuse/attacker.py: slow, too much, junk,
# replays). The servers stay up with bounded memory. Honest workers keep at least 80 % of the
# examples/s that they have beside a process that uses as much processor time without connecting.
# The audit at the end shows that replayed pushes were not applied.
. tests/claims/lib/common.sh
. tests/claims/lib/honest.sh
need_programs
honest_begin plain
honest_beside plain "$(pick 5 10)" "$(pick 2 4)" slow oversized malformed replay
honest_end
honest_report 0.8
