package quant_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A reader of copies says how far each is from the original, and notes which tensors differ.
type reader struct {
	t        *testing.T
	original *gguf.File
	differ   []string
	err      error
}

// Diverge is the number of the tensor that differs from the original's, plus 1.
func (r *reader) Diverge(_ context.Context, path string) (float64, error) {
	if r.err != nil {
		return 0, r.err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := gguf.Parse(b)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(f.Tensors) != len(r.original.Tensors) {
		r.t.Fatalf("the copy has %d tensors", len(f.Tensors))
	}
	if arch, err := f.Str("general.architecture"); arch != "llama" || err != nil {
		r.t.Fatalf("the copy is of %q, %v", arch, err)
	}
	value := 0.0
	for i := range r.original.Tensors {
		want := &r.original.Tensors[i]
		got, ok := f.Tensor(want.Name)
		if !ok || got.Type != want.Type || !slices.Equal(got.Dims, want.Dims) {
			r.t.Fatalf("tensor %s of the copy is %+v", want.Name, got)
		}
		if bytes.Equal(got.Data, want.Data) {
			continue
		}
		if value > 0 {
			r.t.Errorf("%s differs as well", want.Name)
		}
		value = float64(1 + i)
		r.differ = append(r.differ, want.Name)
	}
	return value, nil
}

// A probe rounds each tensor that has a choice, alone, in a copy that is gone afterwards. Its weight is the divergence over
// the error; the others keep theirs.
func TestProbe(t *testing.T) {
	f := peerModel(t, t.TempDir(), "rows")
	j := &quant.Job{From: f, Threads: 1}
	a, err := quant.NewAllocation(t.Context(), j, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	least, most := a.Bounds()
	for _, budget := range []uint64{least, (least + most) / 2, most} {
		j.Choices = a.Fill(budget)
		dir := t.TempDir()
		r := &reader{t: t, original: f}
		for i := range a.Tensors {
			a.Tensors[i].Weight = -1
		}
		steps := 0
		p := &quant.Probe{Job: j, From: a, Evaluator: r, Progress: func(done, total uint64) {
			if done != uint64(steps) || total != uint64(len(a.Tensors)) {
				t.Errorf("%d of %d at step %d", done, total, steps)
			}
			steps++
		}}
		if err := p.Run(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		var want []string
		for i, x := range a.Tensors {
			if len(x.Types) == 1 {
				if x.Weight != -1 {
					t.Errorf("%s has no choice, and the weight %v", x.Types[0].Name, x.Weight)
				}
				continue
			}
			want = append(want, x.Types[0].Name)
			rounded := a.Chosen(i)
			if rounded.Error == 0 {
				rounded = x.Types[len(x.Types)-2] // the best that rounds anything
			}
			at := slices.IndexFunc(f.Tensors, func(y gguf.Tensor) bool { return y.Name == rounded.Name })
			if weight := float64(1+at) / rounded.Error; math.Abs(x.Weight/weight-1) > 1e-12 {
				t.Errorf("%s as %v: weight %v, want %v", rounded.Name, rounded.To, x.Weight, weight)
			}
		}
		if steps != len(a.Tensors) || len(want) < 5 || !slices.Equal(r.differ, want) {
			t.Errorf("%d steps, rounded were %v, want %v", steps, r.differ, want)
		}
	}
	dir := t.TempDir()
	p := &quant.Probe{Job: j, From: a, Evaluator: &reader{t: t, err: errors.New("cannot be run")}}
	if err := p.Run(t.Context(), dir); !errors.Is(err, p.Evaluator.(*reader).err) {
		t.Errorf("a model that cannot be run: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind after an error: %v", left)
	}
	if err := p.Run(t.Context(), dir+"/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a probe that was ended: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind by a copy that was ended: %v", left)
	}
}

// A remover takes the copy away.
type remover struct{}

func (remover) Diverge(_ context.Context, path string) (float64, error) { return 1, os.Remove(path) }

// A copy that is gone is an error.
func TestProbeWithoutCopy(t *testing.T) {
	f := peerModel(t, t.TempDir(), "rows")
	j := &quant.Job{From: f, Threads: 1}
	a, err := quant.NewAllocation(t.Context(), j, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j.Choices = a.Fill(0)
	if err := (&quant.Probe{Job: j, From: a, Evaluator: remover{}}).Run(t.Context(), t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A tensor can be rounded only where the type that it has can be written.
func TestRoundRefuses(t *testing.T) {
	x := &gguf.Tensor{Name: "x", Type: gguf.IQ4_K, Dims: []uint64{256, 2}, Data: make([]byte, 288)}
	err := new(quant.Job).Round(t.Context(), new(bytes.Buffer), &quant.Choice{Tensor: x, To: gguf.Q4_K})
	if err == nil || err.Error() != "it is IQ4_K, in which rounded weights cannot be kept" {
		t.Errorf("error %v", err)
	}
}
