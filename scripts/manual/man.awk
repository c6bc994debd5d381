# Writes the man page `page` of version `version` from the rows of read.awk.

# Text as roff takes it: no escape, no request, and dashes that can be copied.
function roff(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	if (text ~ /^[.']/)
		text = "\\&" text
	return text
}
# A sentence as a paragraph has it.
function sentence(text) { return roff(toupper(substr(text, 1, 1)) substr(text, 2) (text ~ /[.!?]$/ ? "" : ".")) }
function heading(title) { print ".SH " title }
# A term, which is roff already, and what it means.
function item(term, text) {
	print ".TP"
	print term
	print roff(text)
}

BEGIN { FS = "\t" }
$2 == "verb" && $3 != "help" { verbs[++verbs_count] = $3; verb_what[$3] = $5; next }
$1 != page { next }
$2 == "usage" { usage = $3 }
$2 == "what" { what = $3 }
$2 == "note" { notes = notes (notes ? " " : "") $3 }
$2 == "option" { names[++count] = $3; values[count] = $4; texts[count] = $5 }

END {
	if (page == "weir")
		what = "train models on elastic workers and parameter servers"
	print ".\\\" Made by scripts/manual.sh from the program's help text: change that."
	print ".TH " toupper(roff(page)) " 1 \"\" \"weir " version "\" \"Weir\""
	print ".nh"
	print ".ad l"
	heading("NAME")
	print roff(page) " \\- " roff(what)
	heading("SYNOPSIS")
	# The program's name in bold, its arguments as they are.
	words = split(usage, word, " ")
	bold = page == "weir" || page == "weir-server" || page == "weir-worker" ? 1 : 2
	line = ""
	for (i = 1; i <= bold; i++)
		line = line (i > 1 ? " " : "") word[i]
	print ".B " roff(line)
	line = ""
	for (i = bold + 1; i <= words; i++)
		line = line (i > bold + 1 ? " " : "") word[i]
	if (line)
		print roff(line)
	heading("DESCRIPTION")
	if (page == "weir") {
		print "Weir trains recommendation models, and fine\\-tunes language models, on workers that come and go."
		print "Parameter servers hold the weights and the optimizer's state."
		print "One job file describes a training: its data, model, tables, cluster and checkpoints."
		print ".PP"
		print roff(notes)
		heading("VERBS")
		for (i = 1; i <= verbs_count; i++)
			item(".BR weir\\-" verbs[i] " (1)", verb_what[verbs[i]])
		item(".B weir help \\fR[\\fIVERB\\fR]", "list the verbs, or the options of one")
		item(".B weir \\-\\-version", "show the version")
	} else {
		print sentence(what)
	}
	if (count) {
		heading("OPTIONS")
		for (i = 1; i <= count; i++)
			item(".B " roff(names[i]) (values[i] ? " \\fI" roff(values[i]) "\\fR" : ""), texts[i])
	}
	heading("EXIT STATUS")
	item(".B 0", "done")
	item(".B 1", "failed: the last line on standard error says why and what to do")
	item(".B 2", "wrong usage")
	item(".BI 128+ N", "stopped by signal N: 130 is Ctrl-C, 143 is SIGTERM")
	heading("FILES")
	print ".I share/doc/weir"
	print "below the installation's prefix has the documentation. There"
	print ".I config/reference.yaml"
	print "explains every key of a job file, and"
	print ".I docs/PROGRAMS.md"
	print "describes the programs in full."
	heading("SEE ALSO")
	if (page == "weir") {
		print ".BR weir\\-server (1),"
		print ".BR weir\\-worker (1)"
	} else {
		print ".BR weir (1)"
	}
}
