package model

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
)

// What is kept of a position is the latent and the rotated part, once, also of files whose matrices
// of keys and values are in one piece.
func TestLatentsAreKeptOnce(t *testing.T) {
	for _, tt := range []struct {
		file   string
		layers int
	}{{"deepseek2", 4}, {"deepseek2-lite", 26}, {"deepseek2-mha", 3}, {"mistral4", 3}} {
		f, err := OpenFile(filepath.Join(testdata.Path(t, "archs"), tt.file+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const width = 32 + 16
		for _, kv := range []struct {
			typ   kernel.KVType
			bytes int // of a position
		}{{kernel.KVF32, width * 4}, {kernel.KVF16, width * 2}, {kernel.KVI16, width*2 + 4}, {kernel.KVQ8, width + 4}, {kernel.KVQ4, width/2 + 4}} {
			s, err := NewSurvey(f, kernel.KVTypes{K: kv.typ, V: kernel.KVF32}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := s.Layout.Bytes(kernel.KVBlock), uint64(tt.layers*kv.bytes*kernel.KVBlock); got != want {
				t.Errorf("%s, keys of type %d: a block of %d bytes, want %d", tt.file, kv.typ, got, want)
			}
		}
	}
}

// Every type of keys serves: what it rounds is all that changes.
func TestLatentTypes(t *testing.T) {
	for _, name := range []string{"deepseek2", "deepseek32", "glm-dsa", "deepseek4"} { // but for the first they choose by keys of the type
		t.Run(name, func(t *testing.T) { latentTypes(t, name) })
	}
}

func latentTypes(t *testing.T, name string) {
	path := filepath.Join(testdata.Path(t, "archs"), name+".gguf")
	var ids []int32
	for i := range 70 {
		ids = append(ids, int32(3+i*7%400))
	}
	var exact [][]float32
	for _, kv := range []struct {
		typ   kernel.KVType
		error float64 // median, of logits of about 2.5: where another expert is chosen, they are all others
	}{{kernel.KVF32, 0}, {kernel.KVI16, 0.01}, {kernel.KVF16, 0.01}, {kernel.KVBF16, 0.05}, {kernel.KVQ8, 0.2}, {kernel.KVQ4, 1}} {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := loadFile(t, f, Packed, kernel.KVTypes{K: kv.typ, V: kernel.KVF16})
		if err != nil {
			t.Fatal(err)
		}
		rows := newStepper(t, m, len(ids)).step(t, ids)
		if exact == nil {
			exact = rows
		}
		var away []float64
		for i, row := range rows {
			for k, x := range row {
				away = append(away, math.Abs(float64(x)-float64(exact[i][k])))
			}
		}
		slices.Sort(away)
		if median := away[len(away)/2]; !(median <= kv.error) {
			t.Errorf("keys of type %d: logits are %g away, want at most %g", kv.typ, median, kv.error)
		} else {
			t.Logf("keys of type %d: %g", kv.typ, median)
		}
		cut := newStepper(t, m, len(ids))
		for at, size := 0, 1; at < len(ids); at, size = at+size, size%9+1 {
			size = min(size, len(ids)-at)
			for i, row := range cut.step(t, ids[at:at+size]) {
				if !slices.Equal(row, rows[at+i]) {
					t.Fatalf("keys of type %d: logits after token %d differ where the prompt is cut", kv.typ, at+i)
				}
			}
		}
	}
}
