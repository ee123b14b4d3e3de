package quant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
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

// old is a file of the old format: its numbers and texts, one after the other.
func old(fields ...any) (b []byte) {
	for _, v := range fields {
		switch v := v.(type) {
		case string:
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// A file of the old format has numbers of calls and sums by a tensor's name. What follows these may be missing, but not what
// is said to be there.
func TestOldMatrix(t *testing.T) {
	entries := old(2, "x", 3, 2, float32(1), float32(2), "yy", 0, 1, float32(5))
	b := slices.Concat(entries, old(7, "text"))
	want := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}, "yy": {Sums: []float32{5}, Counts: []float32{0}}}}
	for n := range len(b) + 1 {
		want.Chunks, want.Datasets = 0, nil
		if n >= len(entries)+4 {
			want.Chunks = 7
		}
		if n == len(b) {
			want.Datasets = []string{"text"}
		}
		switch m, err := parseOldMatrix(b[:n]); {
		case (err == nil) != (n >= len(entries)):
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		case err == nil && !reflect.DeepEqual(m, want):
			t.Errorf("%d bytes of %d: %+v, want %+v", n, len(b), m, want)
		}
	}
	long := strings.Repeat("x", gguf.MaxNameBytes)
	whole := old(gguf.MaxTensors)
	for range gguf.MaxTensors {
		whole = append(whole, old("x", 1, 1, 0)...)
	}
	if m, err := parseOldMatrix(whole); err != nil || len(m.Entries) != 1 {
		t.Errorf("as many entries as there may be: %v", err)
	}
	for name, r := range map[string]struct {
		b  []byte
		ok bool
	}{
		"no entries": {old(0, 0, 0, 0, 0), false}, "fewer than none": {old(-1, "x", 1, 1, 0), false}, "too many": {old(gguf.MaxTensors+1, "x", 1, 1, 0), false},
		"no name": {old(1, "", 1, 1, 0), false}, "a long name": {old(1, long, 1, 1, 0), true}, "a longer one": {old(1, long+"x", 1, 1, 0), false},
		"no values": {old(1, "x", 1, 0, 0), false}, "calls below none": {old(1, "x", -1, 1, 0), false}, "an empty text": {old(1, "x", 1, 1, 0, 2, ""), true}, "a text of one byte": {old(1, "x", 1, 1, 0, 2, "y"), true},
	} {
		m, err := parseOldMatrix(r.b)
		if (err == nil) != r.ok || err == nil && (len(m.Entries) != 1 || (m.Datasets != nil) != (name == "a text of one byte")) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// Both formats are files, and what is wrong with one says which.
func TestReadMatrix(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}}, Chunks: 2, ChunkSize: 5}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	without := func(kvs ...string) []byte {
		w := gguf.NewWriter()
		for _, key := range kvs {
			w.Set(key, uint64(1)<<40)
		}
		if len(kvs) > 1 {
			w.AddTensor("x", gguf.F32, []uint64{1}, gguf.Bytes(make([]byte, 4)))
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, r := range map[string]struct {
		b    []byte
		want string
	}{
		"new": {b.Bytes(), ""}, "old": {old(1, "x", 3, 2, float32(1), float32(2), 2), ""}, "short": {[]byte("GGU"), "neither a GGUF file nor"},
		"magic": {[]byte("GGUF"), "truncated"}, "model": {without("imatrix.chunk_size"), "no importance matrix: "},
		"no size": {without("imatrix.chunk_count"), "imatrix.chunk_size"},
		"empty":   {without("imatrix.chunk_count", "imatrix.chunk_size"), "an importance matrix without entries"},
	} {
		path := filepath.Join(t.TempDir(), "matrix")
		if err := os.WriteFile(path, r.b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadMatrix(path)
		if r.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), r.want) {
				t.Errorf("%s: %v, want %q", name, err, r.want)
			}
			continue
		}
		if name == "old" {
			got.ChunkSize = 5
		}
		if err != nil || !reflect.DeepEqual(got.Entries, m.Entries) || got.Chunks != 2 || got.ChunkSize != 5 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ReadMatrix(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	w := gguf.NewWriter() // numbers of chunks beyond what is counted
	w.Set("imatrix.chunk_count", uint64(1)<<40)
	w.Set("imatrix.chunk_size", uint64(1)<<41)
	w.AddTensor("x.in_sum2", gguf.F32, []uint64{1}, gguf.Bytes(make([]byte, 4)))
	w.AddTensor("x.counts", gguf.F32, []uint64{1}, gguf.Bytes(make([]byte, 4)))
	b.Reset()
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if got, err := parseMatrix(b.Bytes()); err != nil || got.Chunks != math.MaxInt32 || got.ChunkSize != math.MaxInt32 {
		t.Errorf("many chunks: %+v, %v", got, err)
	}
}

// A file has for each tensor its sums, a row for each matrix, and its counts, a row of one for each.
func TestMatrixShapes(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2, 3, 4, 5, 6}, Counts: []float32{3, 0}}}}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]uint64{"x.in_sum2": {3, 2}, "x.counts": {1, 2}} {
		if got, _ := f.Tensor(name); !slices.Equal(got.Dims, want) {
			t.Errorf("%s has %v, want %v", name, got.Dims, want)
		}
	}
}

// Importance is of a tensor that has as many columns, those of all experts in one; tables that are looked up may have
// another's.
func TestImportanceOf(t *testing.T) {
	i := Importance{"x": make([]float32, 6), "token_embd.weight": make([]float32, 6)}
	for _, r := range []struct {
		name string
		dims []uint64
		n    int
		ok   bool
	}{
		{"x", []uint64{6}, 6, true}, {"x", []uint64{6, 9}, 6, true}, {"x", []uint64{3, 9, 2}, 6, true}, {"x", []uint64{3, 2}, 0, false}, {"x", []uint64{6, 9, 2}, 0, false},
		{"y", []uint64{6}, 0, true}, {"token_embd.weight", []uint64{6, 2}, 6, true}, {"token_embd.weight", []uint64{5, 2}, 0, true},
	} {
		if got, err := i.of(&gguf.Tensor{Name: r.name, Dims: r.dims}); len(got) != r.n || (err == nil) != r.ok {
			t.Errorf("%s of %v: %d columns, %v", r.name, r.dims, len(got), err)
		}
	}
}

// Names are chosen by any of several parts.
func TestParts(t *testing.T) {
	for _, r := range []struct {
		parts         []string
		without, only string
	}{
		{nil, "blk.0.a blk.0.b blk.1.a", ""}, {[]string{"0"}, "blk.1.a", "blk.0.a blk.0.b"}, {[]string{"1", "b$", ".b"}, "blk.0.a", "blk.0.b blk.1.a"},
	} {
		all := func() Importance { return Importance{"blk.0.a": nil, "blk.0.b": nil, "blk.1.a": nil} }
		without, only := all(), all()
		without.Without(r.parts)
		only.Only(r.parts)
		names := func(i Importance) string { return strings.Join(slices.Sorted(maps.Keys(i)), " ") }
		if names(without) != r.without || names(only) != r.only {
			t.Errorf("%q: without %s, only %s", r.parts, names(without), names(only))
		}
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
