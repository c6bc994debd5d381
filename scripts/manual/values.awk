# What an option's value, or a word of a verb, may be. Shared by bash.awk and zsh.awk, which read
# the rows of read.awk.
#   pages[1..pages_count], option_count[PAGE], option_name[PAGE, i], option_value[PAGE, i],
#   option_text[PAGE, i], verbs[1..verbs_count], verb_what[VERB], usage[PAGE]

# "LIST a b c": as words; what the usage has behind the option's name, or the value itself, or what
# its text begins with: "debug, info, warn or error".
function value_words(page, name, value, text,    at, rest) {
	at = index(usage[page], name " ")
	rest = at ? substr(usage[page], at + length(name) + 1) : ""
	sub(/[] ].*/, "", rest)
	if (rest !~ /\|/)
		rest = value
	if (rest ~ /\|/)
		return literal_words(rest)
	sub(/^[a-z]+: /, "", text)
	if (match(text, /^([a-z0-9]+, )*[a-z0-9]+ or [a-z0-9]+([;(]|$| \()/)) {
		rest = substr(text, 1, RLENGTH)
		sub(/ ?[;(]$/, "", rest)
		gsub(/, | or /, " ", rest)
		return rest
	}
	return ""
}
# Of alternatives A|b|C those that are typed as they are: "FILE" stands for something else.
function literal_words(alternatives,    n, part, i, words) {
	n = split(alternatives, part, "|")
	for (i = 1; i <= n; i++)
		if (part[i] ~ /^[A-Z]*[a-z0-9][A-Za-z0-9_]*$/)
			words = words (words ? " " : "") part[i]
	return words
}
# yaml, folders, files or none: what to complete beside the words.
function value_kind(value) {
	if (value ~ /\.yaml$/)
		return "yaml"
	if (value == "DIR" || value == "FOLDER" || value == "RUN")
		return "folders"
	if (value ~ /FILE|FOLDER|PATH|PLACE|MODEL/ || value ~ /^(IN|OUT|BASE)$/ || value ~ /\.[a-z]+$/)
		return "files"
	return "none"
}
# The words that a verb takes in place of a file: certs init, bench push.
function verb_words(page,    text, n, word, i, words, before) {
	text = usage[page]
	gsub(/\([^)]*\)|\[[^]]*\]/, " ", text)
	n = split(text, word, " ")
	before = ""
	for (i = 3; i <= n; i++) {
		if (before !~ /^--/ && word[i] ~ /^[a-z]+(\|[a-z]+)*$/ && "weir-" word[i] != page) {
			gsub(/\|/, " ", word[i])
			words = words (words ? " " : "") word[i]
		}
		before = word[i]
	}
	return words
}

BEGIN { FS = "\t" }
$2 == "verb" && $3 != "help" { verbs[++verbs_count] = $3; verb_what[$3] = $5 }
$2 == "usage" { usage[$1] = $3; if ($1 != "weir") pages[++pages_count] = $1 }
$2 == "option" {
	n = ++option_count[$1]
	option_name[$1, n] = $3
	option_value[$1, n] = $4
	option_text[$1, n] = $5
}
