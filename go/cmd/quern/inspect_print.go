package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/quern-llm/quern/go/mem"
)

// print writes the inspection in human-readable form.
func (in *inspection) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: GGUF v%d, %s, %s parameters in %s\n", in.Path, in.Version,
		mem.FormatBytes(in.FileBytes), thousands(in.Params), count(len(in.Tensors), "tensor"))
	if in.Shards > 1 {
		fmt.Fprintf(t, "in %d files\n", in.Shards)
	}

	fmt.Fprintf(t, "\nmetadata\n")
	for _, m := range in.Metadata {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", visible(m.Key), m.Type, m.shown())
	}

	fmt.Fprintf(t, "\ntensors\n")
	for _, tensor := range in.Tensors {
		dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(tensor.Dims), " ", " x "), "[]")
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", visible(tensor.Name), tensor.Type, dims, mem.FormatBytes(tensor.Bytes))
	}

	fmt.Fprintf(t, "\ntypes\n")
	for _, typ := range in.Types {
		fmt.Fprintf(t, "  %s\t%s\t%s parameters\t%s\t%.2f bits each\n", typ.Type, count(typ.Tensors, "tensor"),
			thousands(typ.Params), mem.FormatBytes(typ.Bytes), float64(typ.Bytes)*8/float64(typ.Params))
	}

	fmt.Fprintf(t, "\nmemory\n")
	if in.Memory == nil {
		fmt.Fprintf(t, "  unknown: %s\n", in.Refusal)
	} else {
		in.Memory.print(t)
	}
	return t.Flush()
}

// shown formats a value on one line, truncated.
func (m metadataFact) shown() string {
	const most = 100
	text := fmt.Sprint(m.Value)
	if s, ok := m.Value.(string); ok {
		text = s
	}
	if m.Count != nil {
		text = fmt.Sprintf("%d: %s", *m.Count, strings.Trim(text, "[]"))
		if *m.Count > shownElems {
			text += " ..."
		}
	}
	text = visible(text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return text
}

// visible escapes line breaks and terminal control sequences: names and values in a
// file are untrusted.
func visible(s string) string { return printable([]byte(s)) }

// thousands formats a count: 1.24 B, 656 K.
func thousands(n uint64) string {
	v := float64(n)
	for _, unit := range []string{"", " K", " M", " B"} {
		if v < 999.5 {
			return fmt.Sprintf("%.3g%s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g T", v)
}

func (m *memoryNeed) print(w io.Writer) {
	weights := mem.FormatBytes(m.Weights)
	if m.mapped {
		weights += ", the others stay in the file"
	}
	fmt.Fprintf(w, "  weights\t%s\n", weights)
	fmt.Fprintf(w, "  keys and values\t%s for a context of %d, %s for each 1024\n", mem.FormatBytes(m.KV), m.Ctx, mem.FormatBytes(m.KVPer1K))
	fmt.Fprintf(w, "  activations\t%s\n", mem.FormatBytes(m.Activations))
	fmt.Fprintf(w, "  the program\t%s\n", mem.FormatBytes(m.Program))
	if m.Checks > m.KV+m.Activations {
		fmt.Fprintf(w, "  checks\t%s, before there are keys, values and activations\n", mem.FormatBytes(m.Checks))
	}
	verdict := "fits"
	if m.Total > m.Limit {
		verdict = "does not fit"
	}
	fmt.Fprintf(w, "  total\t%s: %s in %s (%s)\n", mem.FormatBytes(m.Total), verdict, mem.FormatBytes(m.Limit), m.LimitReason)
}
