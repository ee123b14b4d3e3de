package model

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/projector"
)

// Encoders whose layers have 8 bits make about the rows that they make with the file's, with channels 50 times as large as
// others in front of their products too. Scores of gemma4v, which are not divided by the root of the heads' width, are those
// that rounding changes most: its weights of 8 bits alone make rows with a cosine of 0.9995.
func TestEightBits(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	p := pillows(t, dir, "media/shapes-640x488.png")
	for toy, want := range map[string]float64{
		"qwen3vl": 0.9998, "gemma3": 0.9998, "gemma4v": 0.999,
		"qwen3vl-outlier": 0.9995, "gemma3-outlier": 0.9998, "gemma4v-outlier": 0.999,
	} {
		pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
		path := filepath.Join(dir, "mm", toy+"-f16.gguf")
		var all [2][][]float32
		for i, typ := range []EncoderType{EncoderFile, EncoderQ8} {
			e := encoder(t, path, projector.Sight, typ, pool, budget)
			all[i] = rows(t, e, e.See(p), pool, budget)
		}
		sum := 0.0
		for i, x := range all[0] {
			sum += cosine(x, all[1][i])
		}
		if mean := sum / float64(len(all[0])); mean < want || mean == 1 {
			t.Errorf("%s: a cosine of %.6f between rows of 8 bits and the file's, want %v", toy, mean, want)
		}
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
