# Writes completion for zsh. Needs values.awk.

# Text inside '...[text]...': quotes, brackets and colons are zsh's.
function plain(text) {
	gsub(/'/, "'\\''", text)
	gsub(/\[/, "\\[", text)
	gsub(/\]/, "\\]", text)
	gsub(/:/, "\\:", text)
	return text
}
# How a value of this kind is completed.
function action(kind, words) {
	if (kind == "none")
		return words ? "(" words ")" : " "
	if (kind == "yaml")
		kind = "_files -g \"*.(yaml|yml)\""
	else
		kind = kind == "folders" ? "_files -/" : "_files"
	# Both: the words first.
	return words ? "{compadd - " words "; " kind "}" : kind
}

END {
	print "#compdef weir weir-server weir-worker"
	print "# Completion of weir, weir-server and weir-worker for zsh. Made by scripts/manual.sh."
	print ""
	print "_weir_page() {"
	print "\tcase $1 in"
	for (i = 1; i <= pages_count; i++) {
		page = pages[i]
		print "\t" page ")"
		print "\t\t_arguments \\"
		for (n = 1; n <= option_count[page]; n++) {
			name = option_name[page, n]
			value = option_value[page, n]
			text = option_text[page, n]
			again = text ~ /given (again|repeatedly)/ ? "*" : ""
			words = value_words(page, name, value, text)
			print "\t\t\t'" again name (value ? "=" : "") "[" plain(text) "]" (value ? ":" plain(value) ":" action(value_kind(value), words) : "") "' \\"
		}
		print "\t\t\t'*:argument:" action(usage[page] ~ /\.yaml/ ? "yaml" : "files", verb_words(page)) "'"
		print "\t\t;;"
	}
	print "\tesac"
	print "}"
	print ""
	print "_weir() {"
	print "\tlocal page=$service"
	print "\tif [[ $service == weir ]]; then"
	print "\t\tif (( CURRENT == 2 )) || [[ $words[2] == help ]]; then"
	print "\t\t\tlocal -a verbs=("
	for (i = 1; i <= verbs_count; i++)
		print "\t\t\t\t'" verbs[i] ":" plain(verb_what[verbs[i]]) "'"
	print "\t\t\t\t'help:list the verbs, or the options of one'"
	print "\t\t\t\t'version:show the version'"
	print "\t\t\t)"
	print "\t\t\t_describe -t verbs verb verbs"
	print "\t\t\treturn"
	print "\t\tfi"
	print "\t\tpage=weir-$words[2]"
	print "\t\tshift words"
	print "\t\t(( CURRENT-- ))"
	print "\tfi"
	print "\t_weir_page $page"
	print "}"
	print ""
	print "_weir \"$@\""
}
