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
	Magnitudes bool    // each row of that has a length of its own, which is trained too (Liu et al. 2024, "DoRA")
	Targets    []string
	Classifier bool   `json:"-"` // where there are no Targets, the classifier's own are among them: scores are trained
	Seed       uint64 // of A, whose numbers are random; B is 0
}

// ClassifierTargets are the matrices of a classifier, those of them that a model has: of its hidden layer, and of its scores.
var ClassifierTargets = []string{"cls", "cls.output"}

// DefaultTargets are the matrices of attention, of the feed-forward, and of shared experts, those of them that a model has.
var DefaultTargets = []string{
	"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
	"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
}

// A Tuned is numbers in training, the gradient of these, and what passes multiply with: an adapter, or all weights of a model.
type Tuned struct {
	Matrices int

	whole    *whole // nil: an adapter, which all below but the numbers is of
	head     *whole // a new classifier beside it, whose weights are trained as they are; nil: there is none
	lora     LoRA
	alpha    float32             // as a file has it
	names    []string            // of the model's tensors, in order
	low      map[string]*lowRank // by those
	adapter  *Adapter
	regions  []*mem.Region
	numbers  []byte // Numbers
	plain    int    // of them, those of As and Bs
	adapted  int    // of them, those of the adapter
	gradient []float32
}

// Numbers returns the numbers: the memory that steps change. Moved makes changes count. Those of an adapter are of all tensors
// in the order of the model's, of each A and then B, row by row, of experts one after the other; magnitudes follow, in the
// same order, and then a new classifier's.
func (a *Tuned) Numbers() []float32 { return mem.Float32s(a.numbers) }

// Gradient returns the gradient of the numbers that Trainer.Gradient has computed, until it does so again.
func (a *Tuned) Gradient() []float32 { return a.gradient }

// Form returns what gives numbers the same meaning: it is the same for the same matrices of an adapter, or tensors of a model.
func (a *Tuned) Form() string {
	if a.whole != nil {
		return a.whole.form()
	}
	form := fmt.Sprintf("rank %d, alpha %v:", a.lora.Rank, a.alpha)
	if a.lora.Magnitudes {
		form = "magnitudes, " + form
	}
	for _, name := range a.names {
		l := a.low[name]
		form += fmt.Sprintf(" %s %d %d", name, l.in, l.out)
		if l.n > 1 {
			form += fmt.Sprintf(" %d", l.n)
		}
	}
	if a.head != nil {
		form += a.head.form()
	}
	return form
}

// NewTuned returns a new adapter for a model: A is random, B is 0, so it changes nothing yet. A new classifier (File.Classify) is
// trained beside it, or alone where the targets are its own.
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

// target returns the word by which a tensor is chosen, such as attn_q of blk.3.attn_q.weight, or cls of cls.weight; "" if it is
// of no layer and of no classifier.
func target(tensor string) string {
	if name, ok := strings.CutSuffix(tensor, ".weight"); ok && slices.Contains(ClassifierTargets, name) {
		return name
	}
	parts := strings.Split(tensor, ".")
	if len(parts) != 4 || parts[0] != "blk" || parts[3] != "weight" {
		return ""
	}
	return parts[2]
}

// A tunedTensor is a tensor that an adapter is to change, with the matrices that are multiplied: one, or its parts.
type tunedTensor struct {
	name string
	mats []*matrix
}

func (t tunedTensor) out() (n int) {
	for _, x := range t.mats {
		n += x.Out
	}
	return n
}

// find returns the tensors that the adapter is to change, in the model's order.
func (a *Tuned) find(m *Model) ([]tunedTensor, error) {
	targets := a.lora.Targets
	if len(targets) == 0 {
		targets = DefaultTargets
		if a.lora.Classifier {
			targets = slices.Concat(targets, ClassifierTargets)
		}
	}
	var found []tunedTensor
	fused := fused(m)
	words, names := map[string]bool{}, map[string]bool{}
	for _, t := range m.file.fresh() { // which need none
		words[target(t.Name)], names[t.Name] = true, true
	}
	for _, x := range m.weights.mats {
		name := x.parts[0].Name
		word := target(name)
		if x.rows || names[name] || !slices.Contains(targets, word) {
			continue
		}
		t := tunedTensor{name, fused[name]}
		if x.alone() {
			t.mats = []*matrix{x}
		}
		if t.mats == nil {
			if len(a.lora.Targets) > 0 {
				return nil, fmt.Errorf("%q cannot be trained: it is not multiplied as it is", name)
			}
			continue
		}
		if a.lora.Magnitudes {
			for _, part := range t.mats {
				if err := part.measurable(m.weights); err != nil {
					return nil, err
				}
			}
		}
		words[word], names[name] = true, true
		found = append(found, t)
	}
	for _, word := range a.lora.Targets {
		if !words[word] {
			return nil, fmt.Errorf("the model has no matrix %q to train", word)
		}
	}
	if len(found) == 0 && !slices.ContainsFunc(targets, func(word string) bool { return words[word] }) {
		return nil, fmt.Errorf("%s has none of the matrices %s", m.Config.Arch, strings.Join(targets, " "))
	}
	return found, nil
}

// alone reports whether a matrix, or that of each expert, is a tensor as it lies in the file.
func (x *matrix) alone() bool {
	name := x.parts[0].Name
	return x.whole(name) && x.remade == nil && x.Layout == kernel.Rows && outOf(x.parts[0]) == uint64(x.Out) && x.Name == name
}

// fused returns tensors whose rows are divided among matrices that one product has side by side, such as a gate and what it is
// of, with these matrices. Between their results there are no columns, so an adapter's term has one reverse.
func fused(m *Model) map[string][]*matrix {
	all := map[string][]*matrix{}
	for _, op := range slices.Concat(m.program.Layers...) {
		product, ok := op.(kernel.Matmul)
		if !ok {
			continue
		}
		var side []*matrix
		rows, end := 0, 0 // of the tensor; the next column
		for _, p := range product.Parts {
			x := m.weights.byName[p.Name]
			if x == nil || x.remade != nil || x.N != 1 || len(x.parts) != 1 || x.Layout != kernel.Rows {
				side = nil
				continue
			}
			name := x.parts[0].Name
			t, ok := m.weights.f.Tensor(name)
			if !ok || len(t.Dims) != 2 {
				side = nil
				continue
			}
			from := x.spans(t)[0].from
			col := p.Col
			if product.Epilogue == kernel.GLU { // its parts are kept beside each other
				col = end
			}
			if len(side) == 0 || side[0].parts[0].Name != name || from != rows || col != end || rows%kernel.Panel != 0 {
				side, rows = nil, 0
			}
			if from != rows {
				continue
			}
			side = append(side, x)
			rows, end = rows+x.Out, col+x.Out
			if uint64(rows) == t.Dims[1] {
				all[name] = side
			}
		}
	}
	return all
}

func (a *Tuned) init(m *Model, budget *mem.Budget) error {
	tensors, err := a.find(m)
	if err != nil {
		return err
	}
	rank, n, packed, beside := a.lora.Rank, 0, 0, 0
	for _, t := range tensors {
		one := t.mats[0]
		n += one.N * rank * (one.In + t.out())
		packed += kernel.AlignUp(panelsOf(rank, one.In, one.N).Bytes())
		for _, x := range t.mats {
			packed += kernel.AlignUp(panelsOf(x.Out, rank, x.N).Bytes())
		}
		if a.lora.Magnitudes {
			n += t.out()
			beside += turningBytes(t.out(), rank)
		}
	}
	const purpose = "the adapter"
	a.adapted = n
	n = a.listHead(m, n)
	if a.numbers, err = a.alloc(budget, purpose, 4*n); err != nil {
		return err
	}
	gradient, err := a.alloc(budget, purpose, 4*n)
	if err != nil {
		return err
	}
	var rest, free []byte
	if packed > 0 {
		if rest, err = a.alloc(budget, purpose, packed); err != nil {
			return err
		}
	}
	if beside > 0 {
		if free, err = a.alloc(budget, purpose, beside); err != nil {
			return err
		}
	}
	all := a.Numbers()
	a.gradient, a.Matrices = mem.Float32s(gradient), len(tensors)
	if err := a.beginHead(); err != nil {
		return err
	}
	at := 0
	take := func(n int) (x, d []float32) {
		x, d = all[at:at+n:at+n], a.gradient[at:at+n:at+n]
		at += n
		return x, d
	}
	fill := func(p kernel.Matrix) kernel.Matrix {
		p.Data = rest[:p.Bytes():p.Bytes()]
		rest = rest[kernel.AlignUp(p.Bytes()):]
		return p
	}
	for i, t := range tensors {
		one := t.mats[0]
		l := &lowRank{in: one.In, out: t.out(), n: one.N, rank: rank, scale: float32(float64(a.alpha) / float64(rank))}
		l.a, l.da = take(l.n * rank * l.in)
		l.b, l.db = take(l.n * rank * l.out)
		random(l.a, a.lora.Seed, uint64(i), l.in)
		first := fill(panelsOf(rank, l.in, l.n))
		for _, x := range t.mats {
			l.mats = append(l.mats, x.Name)
			a.adapter.low[x.Name] = kernel.LowRank{A: first, B: fill(panelsOf(x.Out, rank, x.N)), Scale: l.scale}
		}
		a.names, a.low[t.name] = append(a.names, t.name), l
	}
	a.plain = at
	if !a.lora.Magnitudes {
		return nil
	}
	for _, t := range tensors {
		l := a.low[t.name]
		w, _ := m.weights.f.Tensor(t.name)
		l.turned = newTurning(w, l, &free)
		l.turned.m, l.turned.dm = take(l.out)
		if err := l.turned.begin(); err != nil {
			return err
		}
		row := 0
		for _, x := range t.mats {
			low := a.adapter.low[x.Name]
			low.Gain = l.turned.share[row : row+kernel.Pad(x.Out)]
			a.adapter.low[x.Name] = low
			l.turned.first[x.Name] = row
			row += x.Out
		}
	}
	return nil
}

// alloc returns n bytes until the Tuned is closed.
func (a *Tuned) alloc(budget *mem.Budget, purpose string, n int) ([]byte, error) {
	r, err := budget.Alloc(purpose, uint64(n))
	if err != nil {
		return nil, err
	}
	a.regions = append(a.regions, r)
	return r.Bytes()[:n:n], nil
}

// panelsOf returns n packed matrices of floats, without memory.
func panelsOf(out, in, n int) kernel.Matrix {
	return kernel.Matrix{Type: kernel.F32, Layout: kernel.X16, In: in, Out: out, N: n}
}

// random fills a matrix of n columns with numbers between -1 / sqrt(n) and 1 / sqrt(n), as PEFT does: by the seed and the
// number of the matrix.
func random(x []float32, seed, number uint64, n int) {
	randomBy(rand.New(rand.NewPCG(seed, number)), x, n)
}

// randomBy is random of some rows, by a generator that goes on with the next.
func randomBy(rng *rand.Rand, x []float32, n int) {
	most := 1 / math.Sqrt(float64(n))
	for i := range x {
		u := rng.Float64() - 0.5
		x[i] = float32(float64(2*u) * most)
	}
}

// Moved makes passes use the Numbers as they are now.
func (a *Tuned) Moved(pool *kernel.Pool) error {
	if x := a.own(); x != nil {
		if err := x.moved(a.Numbers(), pool.Threads()); err != nil || x == a.whole {
			return err
		}
	}
	for _, name := range a.names {
		if x := a.low[name].turned; x != nil {
			if err := x.measure(pool.Threads()); err != nil {
				return err
			}
		}
	}
	return a.pack(pool)
}

// pack makes the matrices of passes, by the lengths that were measured where there are magnitudes.
func (a *Tuned) pack(pool *kernel.Pool) error {
	rest := a.numbers
	for _, name := range a.names {
		l := a.low[name]
		panels := []kernel.Matrix{a.adapter.low[l.mats[0]].A} // which all have
		for _, part := range l.mats {
			panels = append(panels, a.adapter.low[part].B)
		}
		turned := l.turned
		if turned != nil {
			turned.apply()
		}
		row := 0 // of B
		for i, p := range panels {
			n := 4 * p.In * p.Out * p.N
			data := rest[:n:n]
			if turned != nil && i > 0 {
				data = turned.rows[4*row*p.In : 4*(row+p.Out)*p.In]
				row += p.Out
			}
			rows := kernel.Matrix{Data: data, Type: kernel.F32, In: p.In, Out: p.Out, N: p.N}
			if err := pool.PackMat(p.Data, rows); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
			rest = rest[n:]
		}
	}
	return nil
}

// finish makes the gradient of what passes back have computed, where magnitudes are trained.
func (a *Tuned) finish() {
	for _, name := range a.names {
		if x := a.low[name].turned; x != nil {
			x.finish()
		}
	}
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
	kind := lora
	if a.lora.Magnitudes {
		kind = dora
	}
	w.Set("adapter.type", kind)
	w.Set("adapter.lora.alpha", a.alpha)
	for _, m := range a.Parts(numbers) {
		for _, part := range []struct {
			name    string
			in, out int
			x       []float32
		}{{".lora_a", m.In, a.lora.Rank, m.A}, {".lora_b", a.lora.Rank, m.Out, m.B}} {
			dims := []uint64{uint64(part.in), uint64(part.out)}
			if m.N > 1 {
				dims = append(dims, uint64(m.N))
			}
			w.AddTensor(m.Name+part.name, gguf.F32, dims, func(out io.Writer) error { return writeFloats(out, part.x) })
		}
		if m.M != nil {
			w.AddTensor(m.Name+".lora_m", gguf.F32, []uint64{uint64(m.Out)}, func(out io.Writer) error { return writeFloats(out, m.M) })
		}
	}
	return w
}

// Adapts reports whether there is an A and a B for a tensor of the model.
func (a *Tuned) Adapts(tensor string) bool { return slices.Contains(a.names, tensor) }

// Matrix is what an adapter has for one tensor of the model, with In columns and Out rows, N times for as many experts: A has
// the rank's rows, B as many columns, and M the magnitudes of rows, if there are any. Rows that are multiplied apart are in so many
// Parts.
type Matrix struct {
	Name              string
	In, Out, N, Parts int
	A, B, M           []float32
}

// Parts returns what so many numbers, which may be Numbers, are of an adapter. They are not copied.
func (a *Tuned) Parts(numbers []float32) (all []Matrix) {
	magnitudes := numbers[a.plain:a.adapted]
	for _, name := range a.names {
		l := a.low[name]
		n, k := l.n*l.rank*l.in, l.n*l.rank*l.out
		m := Matrix{Name: name, In: l.in, Out: l.out, N: l.n, Parts: len(l.mats), A: numbers[:n:n], B: numbers[n : n+k : n+k]}
		if l.turned != nil {
			m.M, magnitudes = magnitudes[:l.out:l.out], magnitudes[l.out:]
		}
		all = append(all, m)
		numbers = numbers[n+k:]
	}
	return all
}
