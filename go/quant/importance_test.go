package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// An importance matrix is a GGUF file that says what it is, with sums and counts of each tensor, as floats that fit.
func TestMatrixFile(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}}, Datasets: []string{"a"}, Chunks: 2, ChunkSize: 512}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if kind, err := f.Str("general.type"); kind != "imatrix" || err != nil {
		t.Errorf("the file is %q, %v", kind, err)
	}
	floats := func(n int) func(*gguf.Writer, string) {
		return func(w *gguf.Writer, name string) {
			w.AddTensor(name, gguf.F32, []uint64{uint64(n)}, gguf.Bytes(make([]byte, 4*n)))
		}
	}
	halves := func(w *gguf.Writer, name string) {
		w.AddTensor(name, gguf.F16, []uint64{2}, gguf.Bytes(make([]byte, 4)))
	}
	for _, r := range []struct {
		name         string
		sums, counts func(*gguf.Writer, string)
		ok           bool
	}{
		{"right", floats(4), floats(2), true}, {"no counts", floats(4), nil, false}, {"no sums", nil, floats(2), false},
		{"sums of halves", halves, floats(2), false}, {"counts of halves", floats(4), halves, false},
		{"counts that do not fit", floats(4), floats(3), false},
	} {
		w := gguf.NewWriter()
		w.Set("imatrix.chunk_count", uint32(1))
		w.Set("imatrix.chunk_size", uint32(1))
		if r.sums != nil {
			r.sums(w, "x.in_sum2")
		}
		if r.counts != nil {
			r.counts(w, "x.counts")
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if m, err := parseMatrix(b.Bytes()); (err == nil) != r.ok {
			t.Errorf("%s: %+v, %v", r.name, m, err)
		}
	}
}

// Columns count their mean square; those of a matrix that no row met count 1, all alike.
func TestImportance(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{2, 4, 0, 7, 8, 9}, Counts: []float32{2, 0, 1}}}}
	all, err := m.Importance()
	if want := []float32{1, 2, 1, 1, 8, 9}; err != nil || !slices.Equal(all["x"], want) {
		t.Errorf("importance %v, %v, want %v", all, err, want)
	}
}

// FuzzMatrix reads importance matrices of both formats that are anything. What was read is the same when it is written and read again.
func FuzzMatrix(f *testing.F) {
	m := &Matrix{Entries: map[string]*Entry{
		"blk.0.ffn_up.weight":        {Sums: []float32{1, 2, 3, 4}, Counts: []float32{3}},
		"blk.0.ffn_up_exps.weight":   {Sums: []float32{1, 2, 3, 4}, Counts: []float32{3, 0}},
		"blk.1.ffn_gate_exps.weight": {Sums: []float32{float32(math.NaN()), -1}, Counts: []float32{2}},
	}, Datasets: []string{"a.txt"}, Chunks: 2, ChunkSize: 512}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	old := func(fields ...any) (b []byte) {
		for _, v := range fields {
			switch v := v.(type) {
			case string:
				b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
			case int:
				b = binary.LittleEndian.AppendUint32(b, uint32(v))
			}
		}
		return b
	}
	f.Add(old(1, "x", 2, 3, 0, 1<<29, 7, 12, "text"))
	f.Add(old(1, "x", 2, 1<<31-1))
	f.Add(old(1, "x", 2, 3, 0, 1<<29))     // two of three values
	f.Add(old(2, "x", 2, 1, 0, "y", 2, 1)) // no value
	f.Add(old(1<<31 - 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := parseOldMatrix
		if strings.HasPrefix(string(b), "GGUF") {
			read = parseMatrix
		}
		m, err := read(b)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		all, err := m.Importance()
		for name, v := range all {
			if err == nil && slices.ContainsFunc(v, func(x float32) bool { return !(x >= 0) || math.IsInf(float64(x), 0) }) {
				t.Errorf("%q: %v", name, v)
			}
		}
		var out bytes.Buffer
		if _, err := m.WriteTo(&out); err != nil {
			return // a name that GGUF does not take
		}
		again, err := parseMatrix(out.Bytes())
		if err != nil || len(again.Entries) != len(m.Entries) {
			t.Fatalf("written again: %v", err)
		}
		if again.Chunks != m.Chunks || again.ChunkSize != m.ChunkSize || !slices.Equal(again.Datasets, m.Datasets) {
			t.Errorf("%d chunks of %d tokens of %q, want %d of %d of %q", again.Chunks, again.ChunkSize, again.Datasets, m.Chunks, m.ChunkSize, m.Datasets)
		}
		for name, e := range m.Entries {
			if got := again.Entries[name]; got == nil || !bytes.Equal(bytesOf(got.Sums), bytesOf(e.Sums)) || !bytes.Equal(bytesOf(got.Counts), bytesOf(e.Counts)) {
				t.Errorf("%q: %+v, want %+v", name, got, e)
			}
		}
	})
}
