# What `make help` prints: of the Makefile each "target: ... ## text", and each "## NAME=VALUE
# text".
/^## / { variables[++variables_count] = substr($0, 4) }
/^[a-z][a-z-]*:.* ## / {
	name = $1
	sub(/:$/, "", name)
	text = $0
	sub(/^.* ## /, "", text)
	printf "  make %-20s %s\n", name, text
}
END {
	print "\nVariables, as in `make check JOBS=4`:"
	for (i = 1; i <= variables_count; i++)
		print "  " variables[i]
}
