package main

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/quern-llm/quern/go/engine"
)

// vectorFormats are the ways to print vectors, the default first.
var vectorFormats = []string{"raw", "array", "json", "json+"}

// A vectorWriter prints vectors as they come.
type vectorWriter struct {
	w      *bufio.Writer
	format string
	sparse bool
	n      int
	all    [][]float32 // for json+
}

func newVectorWriter(w io.Writer, format string, sparse bool) *vectorWriter {
	return &vectorWriter{w: bufio.NewWriter(w), format: format, sparse: sparse}
}

func (v *vectorWriter) write(x []float32) error {
	if v.format == "raw" {
		first := true
		for i, f := range x {
			if v.sparse && f == 0 {
				continue
			}
			if !first {
				v.w.WriteByte(' ')
			}
			if first = false; v.sparse {
				v.w.WriteString(strconv.Itoa(i) + ":")
			}
			v.w.WriteString(strconv.FormatFloat(float64(f), 'g', -1, 32))
		}
		return v.w.WriteByte('\n')
	}
	var printed any = x
	if v.sparse {
		printed = engine.Terms(x)
	}
	b, err := json.Marshal(printed)
	if err != nil {
		return err
	}
	switch {
	case v.n > 0:
		v.w.WriteString(",\n")
	case v.format == "array":
		v.w.WriteByte('[')
	default:
		v.w.WriteString("{\"object\":\"list\",\"data\":[\n")
	}
	if v.format != "array" {
		v.w.WriteString(`{"object":"embedding","index":` + strconv.Itoa(v.n) + `,"embedding":`)
		b = append(b, '}')
	}
	v.n++
	if v.format == "json+" {
		v.all = append(v.all, x)
	}
	_, err = v.w.Write(b)
	return err
}

// close ends what write began.
func (v *vectorWriter) close() error {
	switch v.format {
	case "array":
		v.w.WriteString("]\n")
	case "json":
		v.w.WriteString("\n]}\n")
	case "json+":
		b, err := json.Marshal(similarities(v.all))
		if err != nil {
			return err
		}
		v.w.WriteString("\n],\"cosineSimilarity\":")
		v.w.Write(b)
		v.w.WriteString("}\n")
	}
	return v.w.Flush()
}

// similarities returns the cosine of the angle between each vector and each other; of nothing, 0.
func similarities(all [][]float32) [][]float64 {
	dot := func(a, b []float32) float64 {
		sum := 0.0
		for i := range a {
			sum += float64(float64(a[i]) * float64(b[i]))
		}
		return sum
	}
	table := make([][]float64, len(all))
	for i, a := range all {
		table[i] = make([]float64, len(all))
		for j, b := range all {
			if length := math.Sqrt(dot(a, a) * dot(b, b)); length > 0 {
				table[i][j] = dot(a, b) / length
			}
		}
	}
	return table
}
