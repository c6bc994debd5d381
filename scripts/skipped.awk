# Passes ctest's output on. Before its closing lines: how many tests were skipped, and why, by the
# last line that each of them printed. -v results: build/Testing/Temporary/LastTest.log.
/\*\*\*Skipped/ {
	name = $0
	sub(/^.*Test +#[0-9]+: /, "", name)
	sub(/ \.*\*\*\*Skipped.*$/, "", name)
	sub(/ +$/, "", name)
	skipped[name] = "it did not say why"
	count++
}
/ tests passed, .* tests? failed out of / { closing = 1 }
closing {
	end = end $0 "\n"
	next
}
{
	print
	fflush()
}
END {
	while ((getline line < results) > 0) {
		if (line ~ /^[0-9]+\/[0-9]+ Test: /) {
			name = line
			sub(/^[0-9]+\/[0-9]+ Test: /, "", name)
			last = ""
		} else if (line == "<end of output>") {
			if (name in skipped && last != "")
				skipped[name] = last
		} else if (line ~ /[^ -]/)
			last = line
	}
	if (count) {
		print "\n" count (count == 1 ? " test was" : " tests were") " skipped:"
		for (name in skipped)
			print "    " name ": " skipped[name] | "sort"
		close("sort")
	}
	printf "%s", end
}
