package llamaflags

import (
	"strings"

	"github.com/spf13/pflag"
)

// Near returns the flag of fs, with its dashes, that somebody who typed an unknown one may have meant; empty if none is near.
func Near(fs *pflag.FlagSet, typed string) string {
	typed = dashed("--" + strings.TrimLeft(typed, "-"))
	best, least := "", 1+min(2, (len(typed)-2)/3) // edits: of short names few
	try := func(name string) {
		if d := edits(typed, name); strings.HasPrefix(name, "--") && (d < least || d == least && best != "" && name < best) {
			best, least = name, d
		}
	}
	fs.VisitAll(func(f *pflag.Flag) { try("--" + f.Name) })
	for name := range further(fs) {
		try(name)
	}
	return best
}

// edits returns how many letters have to be put in, left out or replaced to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0] // of the letters before both
		row[0] = i + 1
		for j := range len(b) {
			d := above
			if a[i] != b[j] {
				d = 1 + min(above, row[j], row[j+1])
			}
			above, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
