package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// A sightCase is what transformers' encoder of pictures makes of one. scripts/golden_sight.py writes it, and says what its
// fields are.
type sightCase struct {
	Name        string
	More        *projectorCase
	Size, Shape [2]int
	Numbers     []float64
}

// TestSights converts the encoders of small checkpoints, and compares what they see with what transformers' see.
func TestSights(t *testing.T) {
	var archive struct{ Cases []sightCase }
	if err := json.Unmarshal(must(os.ReadFile("testdata/mmproj/sights.json")), &archive); err != nil || len(archive.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(archive.Cases), err)
	}
	checkpoints := projectorCases(t)
	pool := must(kernel.NewPool(1, nil))
	defer pool.Close()
	for _, c := range archive.Cases {
		t.Run(c.Name, func(t *testing.T) {
			of := c.More
			if of == nil {
				of = &checkpoints[slices.IndexFunc(checkpoints, func(x projectorCase) bool { return x.Name == c.Name })]
			}
			dir := t.TempDir()
			of.write(t, dir)
			rows := c.seen(t, dir, pool)
			if len(rows) != c.Shape[0]*c.Shape[1] {
				t.Fatalf("%d numbers, want %v", len(rows), c.Shape)
			}
			worst := 0.0
			for i, want := range c.Numbers {
				worst = max(worst, math.Abs(float64(rows[i*7919%len(rows)])-want))
			}
			if !(worst < 2e-5) {
				t.Errorf("%.2g off", worst)
			} else {
				t.Logf("%.2g off", worst)
			}
		})
	}
}

// seen returns the rows of the picture by the encoder of a checkpoint.
func (c sightCase) seen(t *testing.T, dir string, pool *kernel.Pool) (all []float32) {
	t.Helper()
	m := must(OpenProjector(dir, Options{Type: "f32", Threads: 1}))
	defer m.Close()
	var b bytes.Buffer
	if _, err := m.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mmproj.gguf")
	save(t, dir, filepath.Base(path), b.String())
	f := must(model.OpenFile(path))
	defer f.Close()
	budget := mem.NewBudget(1<<28, "a test")
	exact := kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}
	e, err := model.LoadEncoder(f, projector.Sight, exact, model.Options{Pack: pool.PackMat, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p := &picture.RGB{Width: c.Size[0], Height: c.Size[1], Pix: make([]byte, 3*c.Size[0]*c.Size[1])}
	for i := range p.Pix {
		p.Pix[i] = byte(mixed(hashOf("picture"), i) >> 24)
	}
	for _, part := range e.See(p) {
		if part.Input == nil {
			continue
		}
		x := must(e.Begin(part.Input, pool, budget))
		for !x.Step() {
		}
		for i := range part.Input.Rows() {
			all = append(all, x.Row(i)...)
		}
		x.Close()
	}
	return all
}
