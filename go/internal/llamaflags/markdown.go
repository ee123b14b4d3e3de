package llamaflags

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown returns the flags of a group as a table for docs/migrating.md.
func Markdown(g Group) string {
	var b strings.Builder
	b.WriteString("| flag | here | |\n| --- | --- | --- |\n")
	for _, r := range Rows() {
		if r.first() != g {
			continue
		}
		what, why := r.Class(), r.describe()
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(slices.Concat(r.names(), r.off(), strings.Fields(r.Env))...), what, why)
	}
	return b.String()
}

// Class is the effect of a flag, in a word.
func (r *Row) Class() string {
	switch {
	case r.Refused != "":
		return "refused"
	case r.Ignored != "":
		return "ignored"
	}
	return "supported"
}

// describe is the description of a flag in the documentation.
func (r *Row) describe() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if r.Flag != "" && !slices.Contains(r.names(), "--"+r.Flag) {
		add("as " + code("--"+r.Flag))
	}
	values := make([]string, 0, len(r.Becomes))
	for v := range r.Becomes {
		values = append(values, v)
	}
	slices.Sort(values)
	for _, v := range values {
		to := "is " + code("--"+strings.NewReplacer("=true", "", "=", " ", " ", " --").Replace(r.Becomes[v]))
		switch {
		case r.Kind == Bare:
			add("it " + to)
		case v == "*":
			add("more " + to)
		default:
			add(code(v) + " " + to)
		}
	}
	if r.Of != "" && r.Group == CLI {
		add("in " + code(r.Of))
	}
	for _, text := range []string{r.Always, r.Ignored, r.Refused, r.Note} {
		add(text)
	}
	if r.Neutral != "" {
		words := strings.Fields(r.Neutral)
		for i, w := range words {
			if in, ok := map[string]string{"<0": "below 0", "<=0": "0 and below"}[w]; ok {
				words[i] = in
			} else {
				words[i] = code(w)
			}
		}
		add("no message for " + strings.Join(words, ", "))
	}
	return strings.Join(parts, "; ")
}

// code formats words as code.
func code(words ...string) string {
	for i, w := range words {
		words[i] = "`" + w + "`"
	}
	return strings.Join(words, " ")
}
