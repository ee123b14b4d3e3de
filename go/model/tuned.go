package model

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// LoRA says what an adapter is to be (Hu et al. 2021): each matrix W that it changes is W + scale * B A.
type LoRA struct {
	Rank       int     // rows of A
	Alpha      float64 // scale is Alpha / Rank
	RankStable bool    // scale is Alpha / sqrt(Rank) instead (Kalajdzievski 2023, "rsLoRA")
	Targets    []string
	Seed       uint64 // of A, whose numbers are random; B is 0
}

// DefaultTargets are the matrices of attention, of the feed-forward, and of shared experts, those of them that a model has.
var DefaultTargets = []string{
	"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
	"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
}

// A Tuned is numbers in training, the gradient of these, and what passes multiply with: an adapter, or all weights of a model.
type Tuned struct {
	Matrices int

	whole    *whole // nil: an adapter, which all below but the numbers is of
	lora     LoRA
	alpha    float32             // as a file has it
	names    []string            // of the model's matrices, in order
	low      map[string]*lowRank // by those
	adapter  *Adapter
	regions  []*mem.Region
	numbers  []byte // Numbers
	gradient []float32
}

// Numbers returns the numbers: the memory that steps change. Moved makes changes count. Those of an adapter are of all matrices
// in the order of the model's, of each A and then B, row by row.
func (a *Tuned) Numbers() []float32 { return mem.Float32s(a.numbers) }

// Gradient returns the gradient of the numbers that Trainer.Gradient has computed, until it does so again.
func (a *Tuned) Gradient() []float32 { return a.gradient }

// Form returns what gives numbers the same meaning: it is the same for the same matrices of an adapter, or tensors of a model.
func (a *Tuned) Form() string {
	if a.whole != nil {
		return a.whole.form()
	}
	form := fmt.Sprintf("rank %d, alpha %v:", a.lora.Rank, a.alpha)
	for _, name := range a.names {
		form += fmt.Sprintf(" %s %d %d", name, a.low[name].in, a.low[name].out)
	}
	return form
}

// NewTuned returns a new adapter for a model: A is random, B is 0, so it changes nothing yet.
func NewTuned(m *Model, l LoRA, budget *mem.Budget) (*Tuned, error) {
	if err := trainable(m); err != nil {
		return nil, err
	}
	if l.Rank < 1 || l.Rank > kernel.MaxRank {
		return nil, fmt.Errorf("rank %d, want 1 to %d", l.Rank, kernel.MaxRank)
	}
	a := &Tuned{lora: l, low: map[string]*lowRank{}, adapter: &Adapter{Rank: l.Rank, low: map[string]kernel.LowRank{}}}
	a.alpha = float32(l.Alpha)
	if l.RankStable {
		a.alpha = float32(l.Alpha * math.Sqrt(float64(l.Rank)))
	}
	if scale := a.alpha / float32(l.Rank); !(scale >= 1e-30 && scale <= 1e30) { // NaN too
		return nil, fmt.Errorf("an alpha of %v, want a number above 0", l.Alpha)
	}
	if err := a.init(m, budget); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// target returns the word by which a tensor of a layer is chosen, such as attn_q of blk.3.attn_q.weight; "" if it is none.
func target(tensor string) string {
	parts := strings.Split(tensor, ".")
	if len(parts) != 4 || parts[0] != "blk" || parts[3] != "weight" {
		return ""
	}
	return parts[2]
}

// find returns the matrices that the adapter is to change, in the model's order.
func (a *Tuned) find(m *Model) ([]*matrix, error) {
	targets := a.lora.Targets
	if len(targets) == 0 {
		targets = DefaultTargets
	}
	var found []*matrix
	have := map[string]bool{}
	for _, x := range m.weights.mats {
		name := x.parts[0].Name
		word := target(name)
		if x.rows || !slices.Contains(targets, word) {
			continue
		}
		alone := x.whole(name) && x.remade == nil && x.N == 1 && x.Layout == kernel.Rows && outOf(x.parts[0]) == uint64(x.Out) && x.Name == name
		if !alone && len(a.lora.Targets) > 0 {
			return nil, fmt.Errorf("%q cannot be trained: it is not multiplied as it is", name)
		}
		if alone {
			have[word] = true
			found = append(found, x)
		}
	}
	for _, word := range a.lora.Targets {
		if !have[word] {
			return nil, fmt.Errorf("the model has no matrix %q to train", word)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has none of the matrices %s", m.Config.Arch, strings.Join(targets, " "))
	}
	return found, nil
}

func (a *Tuned) init(m *Model, budget *mem.Budget) error {
	mats, err := a.find(m)
	if err != nil {
		return err
	}
	rank, n, packed := a.lora.Rank, 0, 0
	for _, x := range mats {
		n += rank * (x.In + x.Out)
		packed += kernel.AlignUp(panelsOf(rank, x.In).Bytes()) + kernel.AlignUp(panelsOf(x.Out, rank).Bytes())
	}
	alloc := func(n int) ([]byte, error) {
		r, err := budget.Alloc("the adapter", uint64(n))
		if err != nil {
			return nil, err
		}
		a.regions = append(a.regions, r)
		return r.Bytes()[:n:n], nil
	}
	if a.numbers, err = alloc(4 * n); err != nil {
		return err
	}
	gradient, err := alloc(4 * n)
	if err != nil {
		return err
	}
	rest, err := alloc(packed)
	if err != nil {
		return err
	}
	all := a.Numbers()
	a.gradient, a.Matrices = mem.Float32s(gradient), len(mats)
	at := 0
	take := func(n int) (x, d []float32) {
		x, d = all[at:at+n:at+n], a.gradient[at:at+n:at+n]
		at += n
		return x, d
	}
	for i, x := range mats {
		l := &lowRank{in: x.In, out: x.Out, rank: rank, scale: float32(float64(a.alpha) / float64(rank))}
		l.a, l.da = take(rank * x.In)
		l.b, l.db = take(rank * x.Out)
		random(l.a, a.lora.Seed, uint64(i), x.In)
		low := kernel.LowRank{A: panelsOf(rank, x.In), B: panelsOf(x.Out, rank), Scale: l.scale}
		for _, p := range []*kernel.Matrix{&low.A, &low.B} {
			p.Data = rest[:p.Bytes():p.Bytes()]
			rest = rest[kernel.AlignUp(p.Bytes()):]
		}
		a.names, a.low[x.Name], a.adapter.low[x.Name] = append(a.names, x.Name), l, low
	}
	return nil
}

// panelsOf returns a packed matrix of floats, without memory.
func panelsOf(out, in int) kernel.Matrix {
	return kernel.Matrix{Type: kernel.F32, Layout: kernel.X16, In: in, Out: out, N: 1}
}

// random fills a matrix of n columns with numbers between -1 / sqrt(n) and 1 / sqrt(n), as PEFT does: by the seed and the
// number of the matrix.
func random(x []float32, seed, number uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, number))
	most := 1 / math.Sqrt(float64(n))
	for i := range x {
		u := rng.Float64() - 0.5
		x[i] = float32(float64(2*u) * most)
	}
}

// Moved makes passes use the Numbers as they are now.
func (a *Tuned) Moved(pool *kernel.Pool) error {
	if a.whole != nil {
		return a.whole.moved(a.Numbers(), pool.Threads())
	}
	at := 0
	for _, name := range a.names {
		to := a.adapter.low[name]
		for _, p := range []kernel.Matrix{to.A, to.B} {
			n := 4 * p.In * p.Out
			rows := kernel.Matrix{Data: a.numbers[at : at+n : at+n], Type: kernel.F32, In: p.In, Out: p.Out, N: 1}
			if err := pool.PackMat(p.Data, rows); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
			at += n
		}
	}
	return nil
}

// Bytes returns the memory of the numbers, their gradient, and what passes multiply with.
func (a *Tuned) Bytes() (n uint64) {
	for _, r := range a.regions {
		n += uint64(len(r.Bytes()))
	}
	return n
}

// Close releases the memory. Closing again is a no-op.
func (a *Tuned) Close() {
	if a.whole != nil {
		a.whole.close()
	}
	for _, r := range a.regions {
		r.Close()
	}
	a.regions = nil
}

// writeFloats writes numbers as a tensor has them.
func writeFloats(out io.Writer, x []float32) error {
	for some := range slices.Chunk(x, 1<<14) {
		if err := binary.Write(out, binary.LittleEndian, some); err != nil {
			return err
		}
	}
	return nil
}

// Write returns a file of GGUF with these numbers: the adapter, as OpenAdapter and llama.cpp read it, or the model. numbers are
// as many as Numbers, which they may be, and must stay until the file is written.
func (a *Tuned) Write(arch string, numbers []float32) *gguf.Writer {
	if a.whole != nil {
		return a.whole.write(numbers)
	}
	w := gguf.NewWriter()
	w.Set("general.type", "adapter")
	w.Set("general.architecture", arch)
	w.Set("adapter.type", "lora")
	w.Set("adapter.lora.alpha", a.alpha)
	at := 0
	for _, name := range a.names {
		l := a.low[name]
		for _, part := range []struct {
			name    string
			in, out int
		}{{".lora_a", l.in, l.rank}, {".lora_b", l.rank, l.out}} {
			x := numbers[at : at+part.in*part.out]
			at += len(x)
			dims := []uint64{uint64(part.in), uint64(part.out)}
			w.AddTensor(name+part.name, gguf.F32, dims, func(out io.Writer) error { return writeFloats(out, x) })
		}
	}
	return w
}

// Matrix is what an adapter has for one matrix of the model, with in columns and out rows: A has the rank's rows, B as many columns.
type Matrix struct {
	Name    string
	In, Out int
	A, B    []float32
}

// Parts returns what so many numbers, which may be Numbers, are of an adapter. They are not copied.
func (a *Tuned) Parts(numbers []float32) (all []Matrix) {
	for _, name := range a.names {
		l := a.low[name]
		n, k := l.rank*l.in, l.rank*l.out
		all = append(all, Matrix{name, l.in, l.out, numbers[:n:n], numbers[n : n+k : n+k]})
		numbers = numbers[n+k:]
	}
	return all
}
