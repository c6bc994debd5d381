# Reads a help text of the page `page` and prints it as rows, with tabs between the columns:
#   PAGE usage TEXT               the lines from "usage:" to the first empty one, as one line
#   PAGE what TEXT                the sentence behind the usage
#   PAGE option NAME VALUE TEXT   "  --name VALUE   text"; VALUE is empty for a flag
#   PAGE verb NAME USAGE TEXT     of `weir help`: "  weir NAME USAGE", and TEXT on the next line
#   PAGE note TEXT                any other line
function row(kind, text) { print page "\t" kind "\t" text }

/^usage: / { usage = substr($0, 8); in_usage = 1; next }
in_usage && NF { sub(/^ +/, ""); usage = usage " " $0; next }
in_usage { row("usage", usage); in_usage = 0; next }
!NF { next }
/^  --/ {
	# A value follows the name after exactly one space; a flag's text after more.
	text = $0
	sub(/^ +/, "", text)
	name = text
	sub(/ .*/, "", name)
	text = substr(text, length(name) + 1)
	value = ""
	if (text ~ /^ [^ ]/) {
		value = substr(text, 2)
		sub(/ .*/, "", value)
		text = substr(text, length(value) + 2)
	}
	sub(/^ +/, "", text)
	row("option", name "\t" value "\t" text)
	next
}
/^  weir [a-z]+ / {
	verb = $2
	verb_usage = $0
	sub(/^  weir [a-z]+ /, "", verb_usage)
	next
}
verb {
	sub(/^ +/, "")
	row("verb", verb "\t" verb_usage "\t" $0)
	verb = ""
	next
}
{ sub(/^ +/, ""); row(seen_what++ || page == "weir" ? "note" : "what", $0) }
END { if (in_usage) row("usage", usage) }
