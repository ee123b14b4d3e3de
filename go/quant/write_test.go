package quant_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

var errFull = errors.New("the disk is full")

// A fullDisk takes some bytes and then none.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// What is read of each tensor is released, once, and counted to the end; an output that fails ends the job wherever it fails,
// in tensors that are quantized and in others.
func TestWriteShard(t *testing.T) {
	f := peerModel(t, t.TempDir(), "rows")
	mix, err := quant.ParseMix("Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	j := &quant.Job{From: f, Mix: mix, Threads: 2}
	if j.Choices, err = quant.Choose(f, mix, quant.Options{LeaveOutput: true}); err != nil {
		t.Fatal(err)
	}
	j.Choices[0].To = j.Choices[0].Type // so that one is copied
	released, wrote, last := map[string]int{}, map[string]bool{}, uint64(0)
	j.Release = func(x *gguf.Tensor, at, n int) {
		if at != released[x.Name] || n <= 0 {
			t.Errorf("%s: %d bytes at %d are released after %d", x.Name, n, at, released[x.Name])
		}
		released[x.Name] += n
	}
	j.Done = func(bytes uint64) {
		if bytes < last {
			t.Errorf("%d bytes are done after %d", bytes, last)
		}
		last = bytes
	}
	j.Wrote = func(c *quant.Choice, _ time.Duration) { wrote[c.Name] = true }
	var out bytes.Buffer
	if _, err := j.WriteShard(t.Context(), &out, 0, 1); err != nil {
		t.Fatal(err)
	}
	all := uint64(0)
	for _, x := range f.Tensors {
		if all += uint64(len(x.Data)); released[x.Name] != len(x.Data) || !wrote[x.Name] {
			t.Errorf("%s: %d bytes of %d were released, written %v", x.Name, released[x.Name], len(x.Data), wrote[x.Name])
		}
	}
	if last != all {
		t.Errorf("%d bytes were done of %d", last, all)
	}
	j.Release, j.Done, j.Wrote = nil, nil, nil
	for n := 0; n < out.Len(); n += 1 + out.Len()/12 {
		if _, err := j.WriteShard(t.Context(), &fullDisk{n}, 0, 1); !errors.Is(err, errFull) {
			t.Errorf("a disk of %d bytes for a file of %d: %v", n, out.Len(), err)
		}
	}
	for i := range j.Choices { // and without the file around it
		c := &j.Choices[i]
		if c.To == c.Type {
			continue
		}
		if err := j.Round(t.Context(), &fullDisk{}, c); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", c.Name, err)
		}
		if err := j.Round(t.Context(), io.Discard, c); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}

	// Choices are measured on all of a tensor as well.
	released = map[string]int{}
	j.Release = func(x *gguf.Tensor, at, n int) {
		if at != 0 || n != len(x.Data) {
			t.Errorf("%s: %d bytes at %d are released of %d", x.Name, n, at, len(x.Data))
		}
		released[x.Name]++
	}
	a, err := quant.NewAllocation(t.Context(), j, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range a.Tensors {
		if want := min(len(x.Types)-1, 1); released[x.Types[0].Name] != want {
			t.Errorf("%s of %d types was released %d times", x.Types[0].Name, len(x.Types), released[x.Types[0].Name])
		}
	}
}
