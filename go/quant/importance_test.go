package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

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
		for name, e := range m.Entries {
			if got := again.Entries[name]; got == nil || !bytes.Equal(bytesOf(got.Sums), bytesOf(e.Sums)) || !bytes.Equal(bytesOf(got.Counts), bytesOf(e.Counts)) {
				t.Errorf("%q: %+v, want %+v", name, got, e)
			}
		}
	})
}
