package model

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/synth"
)

var kvI16 = kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}

// dividedModel returns the parts of the model of a file that n ranks have, goroutines of this process.
func dividedModel(t *testing.T, path string, n int, r Ranks, res Residency, kv kernel.KVTypes) ([]*Model, error) {
	t.Helper()
	group, err := kernel.ThreadRanks(n)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Model
	for _, g := range group {
		t.Cleanup(g.Close)
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		s, err := NewSurvey(f, kv, 0)
		if err != nil {
			return nil, err
		}
		if seeing, err := s.Drafting(); err == nil {
			s = seeing
		}
		r.Group = g
		if s, err = s.Split(r); err != nil {
			return nil, err
		}
		pool, err := kernel.NewPool(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<32, "test"), Residency: res})
		if err != nil {
			return nil, err
		}
		t.Cleanup(m.Close)
		all = append(all, m)
	}
	return all, nil
}

// Hashes are hashes of what passes computed.
type hashes []uint64

func (o *hashes) add(row []float32) {
	h := fnv.New64a()
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(row))), 4*len(row)))
	*o = append(*o, h.Sum64())
	for _, x := range row {
		if math.IsNaN(float64(x)) {
			(*o)[len(*o)-1] = math.MaxUint64
		}
	}
}

// passes runs a text through a model and hashes the outputs that rank 0 has.
func passes(m *Model, s *stepper) (o hashes, err error) {
	c := m.Config
	if len(c.Encoder) > 0 {
		s.source = 5
	}
	output := nn.Logits
	if !m.Has(output) {
		output = nn.Vectors
	}
	b, pos := s.r.Batch(), 0
	cuts := []int{13, 1, 1, 40, 3}
	if c.OnePass() {
		cuts = []int{23}
	}
	if c.BothWays {
		cuts = []int{23}
	}
	for _, n := range cuts {
		if err := s.table.Grow(n); err != nil {
			return nil, err
		}
		b.Reset()
		var rows []int32
		read := min(max(s.source-pos, 0), n)
		for _, n := range []int{read, n - read} {
			if n == 0 {
				continue
			}
			b.AddSeq(s.table.Units()...)
			b.Adapt(s.numbers, s.scales)
			b.Source(s.source)
			for range n {
				b.Add(int32(pos*7919%(c.NVocab-1)+1), int32(pos))
				pos++
			}
		}
		for i := range n - read {
			rows = append(rows, int32(i))
		}
		if err := s.r.Forward(nil, nil); err != nil {
			return nil, err
		}
		s.r.Compute(output, rows)
		for i := range rows {
			o.add(s.r.Row(i))
		}
		s.table.Commit()
	}
	return o, m.ranks.Failed()
}

// runTogether runs the same passes on all ranks.
func runTogether(t *testing.T, all []*Model) ([]hashes, error) { return runWith(t, all, "") }

// runWith does so with an adapter, unless its path is empty: the sequence has it twice, as number 1 and 2 of them.
func runWith(t *testing.T, all []*Model, adapter string) ([]hashes, error) {
	t.Helper()
	outcomes, errs := make([]hashes, len(all)), make([]error, len(all))
	var steppers []*stepper
	for _, m := range all {
		s := newStepper(t, m, 64)
		if adapter != "" {
			a, err := openAdapter(t, m, adapter)
			if err == nil {
				err = s.r.SetAdapters([]*Adapter{nil, a, a})
			}
			if err != nil {
				return nil, err
			}
			s.numbers, s.scales = []int32{1, 2}, []float32{0.5, 0.25}
		}
		steppers = append(steppers, s)
	}
	var wait sync.WaitGroup
	for i, m := range all {
		wait.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("%v", p)
				}
				if errs[i] != nil && m.ranks != nil {
					m.ranks.Break()
				}
			}()
			outcomes[i], errs[i] = passes(m, steppers[i])
		})
	}
	wait.Wait()
	return outcomes, errors.Join(errs...)
}

// archFiles returns the small models of all architectures that run alone.
func archFiles(t *testing.T) []string {
	return slices.DeleteFunc(smallModels(t), func(path string) bool {
		f, err := OpenFile(path)
		if err != nil {
			return false
		}
		defer f.Close()
		a, err := f.GGUF.Str("general.architecture")
		if err != nil {
			return false
		}
		_, err = arch.Lookup(a)
		return err != nil
	})
}

// dividedBits returns what rank 0 computes of a model that is divided among n ranks.
func dividedBits(t *testing.T, path string, n int, r Ranks) hashes {
	t.Helper()
	all, err := dividedModel(t, path, n, r, Packed, kvI16)
	if err != nil {
		t.Fatalf("%d ranks, shares %d: %v", n, r.Shares, err)
	}
	got, err := runTogether(t, all)
	if err != nil {
		t.Fatalf("%d ranks, shares %d: %v", n, r.Shares, err)
	}
	return got[0]
}

// Every architecture gives the same bits on any number of ranks as in one process.
func TestRanks(t *testing.T) {
	counts := []int{2, 3, 4, 8}
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			want := dividedBits(t, path, 1, Ranks{})
			for _, n := range counts {
				if got := dividedBits(t, path, n, Ranks{Least: 1}); !slices.Equal(got, want) {
					t.Errorf("%d ranks: other bits, first at row %d", n, firstOther(got, want))
				}
			}
		})
	}
}

// Activations whose last block is not whole are exchanged as others are, whatever their kind.
func TestBrokenBlocksOfRanks(t *testing.T) {
	for _, mix := range []string{"F32", "F16", "Q8_0"} {
		path := synthetic(t, "llama-3.2-1b/2:"+mix, func(s *synth.Shape) {
			s.NEmbd, s.NFF, s.NHead, s.NHeadKV, s.HeadDim, s.NVocab, s.Tied = 384, 1120, 6, 6, 64, 320, false
		})
		want := dividedBits(t, path, 1, Ranks{Least: 1})
		for _, n := range []int{2, 3} {
			if !slices.Equal(dividedBits(t, path, n, Ranks{Least: 1}), want) {
				t.Errorf("%s, %d ranks: other bits", mix, n)
			}
		}
	}
}

// Adapters of every matrix that can have one change the bits on any number of ranks as in one process.
func TestAdaptersOfRanks(t *testing.T) {
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := f.Config()
			if err != nil {
				t.Fatal(err)
			}
			if path, err = filepath.Abs(path); err != nil {
				t.Fatal(err)
			}
			_, adapter, _ := everyMatrix(t, f, path, c.Arch)
			file := adapter.write(t, "adapter.gguf")
			var want, plain []hashes
			for _, n := range []int{1, 2} {
				all, err := dividedModel(t, path, n, Ranks{Least: 1}, Packed, kvI16)
				if err != nil {
					t.Fatal(err)
				}
				got, err := runWith(t, all, file)
				if err != nil {
					t.Fatalf("%d ranks: %v", n, err)
				}
				if n == 1 {
					if plain, err = runTogether(t, all); err != nil {
						t.Fatal(err)
					}
					if want = got; slices.Equal(want[0], plain[0]) {
						t.Error("the adapter changes nothing")
					}
				} else if !slices.Equal(got[0], want[0]) {
					t.Errorf("%d ranks: other bits, first at row %d", n, firstOther(got[0], want[0]))
				}
			}
		})
	}
}

// synthetic writes a model of random weights and returns its path.
func synthetic(t *testing.T, spec string, change func(s *synth.Shape)) string {
	t.Helper()
	m, err := synth.ParseShape(spec)
	if err != nil {
		t.Fatal(err)
	}
	shape := *m.Shape
	change(&shape)
	m.Shape = &shape
	path := filepath.Join(t.TempDir(), "synthetic.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := m.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return path
}

// small is a dense model that is as wide as 8-bit activations need to be divided among 4 ranks.
func small(t *testing.T) string {
	return synthetic(t, "llama-3.2-1b/2:Q4_K_M", func(s *synth.Shape) {
		s.NEmbd, s.NFF, s.NHead, s.NHeadKV, s.HeadDim, s.NVocab, s.Tied = 512, 2048, 16, 4, 64, 800, false
	})
}

// A pass exchanges four times in each layer, and once for its logits: 8-bit activations, and floats of the residual. Each rank
// has its part of the weights, of keys and of values.
func TestSharesOfRanks(t *testing.T) {
	path := small(t)
	one, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
	if err != nil {
		t.Fatal(err)
	}
	want, err := runTogether(t, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 4} {
		all, err := dividedModel(t, path, n, Ranks{}, Packed, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runTogether(t, all)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], want[0]) {
			t.Errorf("%d ranks: other bits", n)
		}
		c := one[0].Config
		layers, heads := len(c.Layers), c.Layers[0].NHead*c.Layers[0].ValueDim
		const act = 320.0 / 256 // bytes of a number
		passes, tokens := 5, 58
		row := float64(layers) * (act*float64(heads) + 4*float64(c.NEmbd) + act*float64(c.Layers[0].NFF) + 4*float64(c.NEmbd))
		bytes := float64(tokens) * (row + 4*float64(c.NVocab)) / float64(n)
		sent := 0.0
		weights := uint64(0)
		for r, m := range all {
			if shares := m.ranks.Shares(); shares != int64(passes*(4*layers+1)) {
				t.Errorf("%d ranks: %d shares in %d passes, want %d each", n, shares, passes, 4*layers+1)
			}
			sent += float64(m.ranks.Load(r).Bytes) / float64(n)
			if told, own := all[0].ranks.Load(r), m.ranks.Load(r); told.Bytes != own.Bytes || told.Computed == 0 ||
				told.Computed > own.Computed || told.Waited > own.Waited {
				t.Errorf("rank 0 knows %+v of rank %d, which has %+v", told, r, own)
			}
			weights += m.weights.partBytes(1)
			if part := float64(m.weights.partBytes(1)) / float64(one[0].weights.partBytes(1)); math.Abs(part*float64(n)-1) > 0.05 {
				t.Errorf("rank %d of %d has %.3f of the weights", r, n, part)
			}
			if kept := m.Layout[0].Bytes * n; kept != one[0].Layout[0].Bytes {
				t.Errorf("rank %d of %d keeps %d bytes of %d", r, n, m.Layout[0].Bytes, one[0].Layout[0].Bytes)
			}
		}
		if math.Abs(sent-bytes) > 1 {
			t.Errorf("%d ranks: %.0f bytes sent by each, want %.0f", n, sent, bytes)
		}
		if weights != one[0].weights.partBytes(1) {
			t.Errorf("%d ranks have %d bytes of weights together, of %d", n, weights, one[0].weights.partBytes(1))
		}
	}
}

// Ranks may compute more than others, read the file's pages, or have a layer that drafts.
func TestUnevenRanks(t *testing.T) {
	path := small(t)
	one, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
	if err != nil {
		t.Fatal(err)
	}
	want, err := runTogether(t, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shares []int
		res    Residency
	}{{[]int{3, 1}, Packed}, {[]int{1, 2, 1}, Packed}, {[]int{1, 1}, Mapped}, {[]int{1, 1000}, Packed}} {
		all, err := dividedModel(t, path, len(c.shares), Ranks{Shares: c.shares}, c.res, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runTogether(t, all)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], want[0]) {
			t.Errorf("shares %v, %v: other bits", c.shares, c.res)
		}
	}
	for _, shares := range [][]int{{1}, {1, 0}, {1, -3}, {1, 2, 3}} {
		if _, err := dividedModel(t, path, 2, Ranks{Shares: shares}, Packed, kvI16); err == nil {
			t.Errorf("shares %d are taken", shares)
		}
	}
}

// A rank that has the wrong panel of a matrix changes the bits: what the tests above compare can tell.
func TestWrongPanel(t *testing.T) {
	path := small(t)
	var want hashes
	for _, wrong := range []string{"", "blk.1.attn_v.weight", "blk.0.ffn_up.weight", "blk.1.ffn_down.weight", "output.weight"} {
		all, err := dividedModel(t, path, 2, Ranks{}, Packed, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		if wrong != "" {
			m := all[1].weights.byName[wrong]
			copy(m.Data[kernel.PanelBytes(m.Type, m.In):], m.Data) // each panel is the one before it
		}
		got, err := runTogether(t, all)
		if err != nil {
			t.Fatal(err)
		}
		if wrong == "" {
			want = got[0]
		} else if slices.Equal(got[0], want) {
			t.Errorf("%s is off by a panel, and nothing else is", wrong)
		}
	}
}

// Rank 0 alone computes outputs of given rows, from matrices that it has as a whole.
func TestGivenOfRanks(t *testing.T) {
	path := testdata.Path(t, "archs/gemma-embedding.gguf")
	apply := func(n int) (o hashes) {
		all, err := dividedModel(t, path, n, Ranks{Least: 1}, Packed, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runTogether(t, all); err != nil {
			t.Fatal(err)
		}
		m := all[0]
		s := newStepper(t, m, 64)
		given := make([]float32, m.Config.NEmbd)
		for i := range given {
			given[i] = float32(i%7) - 3
		}
		if err := s.table.Grow(1); err != nil {
			t.Fatal(err)
		}
		b := s.r.Batch()
		b.Reset()
		b.AddSeq(s.table.Units()...)
		b.Add(1, 0)
		s.r.ran = 1 // as if a pass had run, which needs all ranks
		s.r.Apply(nn.Pooled, [][]float32{given}, []int32{0})
		o.add(s.r.Row(0))
		if err := m.ranks.Failed(); err != nil {
			t.Fatal(err)
		}
		return o
	}
	want := apply(1)
	for _, n := range []int{2, 3} {
		if got := apply(n); !slices.Equal(got, want) {
			t.Errorf("%d ranks: other bits", n)
		}
	}
}

// What ranks exchange does not depend on the order of a map.
func TestOrderOfActivations(t *testing.T) {
	group, err := kernel.ThreadRanks(2)
	if err != nil {
		t.Fatal(err)
	}
	defer group[0].Close()
	defer group[1].Close()
	act := kernel.Act{kernel.ActBF16: 3, kernel.ActQ8x256: 1, kernel.ActQ8x32: 2, kernel.ActF32: 4}
	p := &nn.Program{Bufs: []kernel.BufSpec{{Kind: kernel.Floats, Width: 512}}}
	for range act {
		p.Bufs = append(p.Bufs, kernel.BufSpec{Kind: kernel.ActQ8x256, Width: 512})
	}
	for range 20 {
		s := &splitting{Ranks: Ranks{Group: group[0]}, n: 2, p: p}
		s.begin([]portion{{SharePart: kernel.SharePart{Dst: 0, Cut: []int{0, 256, 512}}, route: kernel.NoBuf}})
		s.toAct(nil, 0, kernel.ToAct{Act: act, Cols: 512})
		var order []kernel.Buf
		for _, x := range s.portions[1:] {
			order = append(order, x.Dst)
		}
		if want := []kernel.Buf{4, 1, 2, 3}; !slices.Equal(order, want) {
			t.Fatalf("parts are of buffers %d, want %d", order, want)
		}
	}
}

// Files of the same header and size are told apart by their tensors' data and, for training, by what they were given.
func TestIdentity(t *testing.T) {
	path := small(t)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	identity := func(path string) (*File, string) {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f, f.identity()
	}
	f, want := identity(path)
	own := f.given()
	if err := f.GGUF.Set("llama.rope.freq_base", 123.0); err != nil {
		t.Fatal(err)
	}
	if f.given() == own || f.identity() != want {
		t.Error("other metadata is not noticed")
	}
	for _, tensor := range f.GGUF.Tensors {
		if tensor.Name != "blk.1.ffn_up.weight" {
			continue
		}
		other := slices.Clone(raw)
		for i := range tensor.Data {
			other[int(tensor.Offset)+i] ^= 1
		}
		path := filepath.Join(t.TempDir(), "other.gguf")
		if err := os.WriteFile(path, other, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, got := identity(path); got == want {
			t.Error("another tensor is not noticed")
		}
		return
	}
	t.Fatal("no such tensor")
}

func firstOther(a, b hashes) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
