# Writes completion for bash. Needs values.awk.
END {
	print "# Completion of weir, weir-server and weir-worker for bash. Made by scripts/manual.sh."
	print ""
	line = ""
	for (i = 1; i <= verbs_count; i++)
		line = line (line ? " " : "") verbs[i]
	print "_weir_verbs='" line "'"
	print ""
	print "# The options of a page: weir-VERB, weir-server or weir-worker."
	print "_weir_options() {"
	print "\tcase $1 in"
	for (i = 1; i <= pages_count; i++) {
		page = pages[i]
		line = ""
		for (n = 1; n <= option_count[page]; n++)
			line = line (line ? " " : "") option_name[page, n]
		print "\t" page ") echo '" line "' ;;"
	}
	print "\tesac"
	print "}"
	print ""
	print "# What a page's option takes: files, yaml, folders or none, and words. Nothing for a flag."
	print "_weir_value() {"
	print "\tcase $1:$2 in"
	for (i = 1; i <= pages_count; i++) {
		page = pages[i]
		for (n = 1; n <= option_count[page]; n++) {
			if (!option_value[page, n])
				continue
			words = value_words(page, option_name[page, n], option_value[page, n], option_text[page, n])
			print "\t" page ":" option_name[page, n] ") echo '" value_kind(option_value[page, n]) (words ? " " words : "") "' ;;"
		}
	}
	print "\tesac"
	print "}"
	print ""
	print "# The words that a page takes beside its options."
	print "_weir_words() {"
	print "\tcase $1 in"
	for (i = 1; i <= pages_count; i++) {
		page = pages[i]
		words = verb_words(page)
		kind = usage[page] ~ /\.yaml/ ? "yaml" : "files"
		print "\t" page ") echo '" kind (words ? " " words : "") "' ;;"
	}
	print "\tesac"
	print "}"
}
