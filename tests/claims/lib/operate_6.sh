# Abuse: while one peer misbehaves in each of four ways (tests/abuse/attacker.py: slowly, with too much, with junk, with replays), the servers stay up, their memory is bounded, and honest
# workers train at least 80 % of the examples a second that they train beside a process that burns as much processor time without connecting. At the end the audit: replayed pushes have
# not been applied.
. tests/claims/lib/common.sh
. tests/claims/lib/honest.sh
need_programs
honest_begin plain
honest_beside plain "$(pick 5 10)" "$(pick 2 4)" slow oversized malformed replay
honest_end
honest_report 0.8
