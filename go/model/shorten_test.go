package model

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/projector"
)

// Encoders whose layers have 8 bits make about the rows that they make with the file's, with channels 50 times as large as
// others in front of their products too. gemma4v's scores, which are not divided by the root of the heads' width, are those
// that rounding changes most.
func TestEightBits(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	least := map[string]float64{"qwen3vl-outlier": 0.9995, "gemma4v-outlier": 0.9993}
	integers := kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}
	for _, toy := range slices.Concat(seeing, hearing) {
		t.Run(toy, func(t *testing.T) {
			t.Parallel()
			paths, err := filepath.Glob(filepath.Join(dir, "cases", toy+".*.json"))
			if err != nil || len(paths) == 0 {
				t.Fatal("no cases", err)
			}
			w := sightOf(t, paths[0])
			pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
			var exact, short [][]float32
			for _, name := range w.Media {
				sense := projector.Sight
				if filepath.Ext(name) == ".wav" {
					sense = projector.Hearing
				}
				made := func(typ EncoderType, kv kernel.KVTypes) [][]float32 {
					e := encoder(t, filepath.Join(dir, w.MMProj), sense, typ, kv, pool, budget)
					if sense == projector.Hearing {
						return rows(t, e, e.Hear(samplesOf(t, dir, name)), pool, budget)
					}
					return rows(t, e, e.See(pillows(t, dir, name)), pool, budget)
				}
				exact, short = append(exact, made(EncoderFile, kvEncoder)...), append(short, made(EncoderQ8, integers)...)
			}
			nearlyAlike(t, exact, short, cmp.Or(least[toy], 0.9997))
		})
	}
	for _, eye := range eyes(t) {
		t.Run(eye.Name, func(t *testing.T) {
			pool, budget, path := testPool(t, 1), mem.NewBudget(1<<28, "a test"), eye.write(t)
			made := func(typ EncoderType, kv kernel.KVTypes) [][]float32 {
				e := encoder(t, path, eye.sense(), typ, kv, pool, budget)
				return rows(t, e, eye.parts(e), pool, budget)
			}
			// Widths of 32 average fewer errors than those of models.
			nearlyAlike(t, made(EncoderFile, kvEncoder), made(EncoderQ8, integers), 0.9995)
		})
	}
}

// nearlyAlike compares rows of 8 bits with those of the file's weights.
func nearlyAlike(t *testing.T, exact, short [][]float32, want float64) {
	t.Helper()
	sum, n := 0.0, 0
	for i, x := range exact {
		if c := cosine(x, short[i]); c == c { // else it is silence
			sum, n = sum+c, n+1
		}
	}
	if mean := sum / float64(n); !(mean >= want) {
		t.Errorf("a cosine of %.6f between %d rows of 8 bits and the file's, want %v", mean, n, want)
	}
}

func cosine(x, y []float32) float64 {
	xx, yy, xy := 0.0, 0.0, 0.0
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		xx, yy, xy = xx+a*a, yy+b*b, xy+a*b
	}
	return xy / math.Sqrt(xx*yy)
}
