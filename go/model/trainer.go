package model

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// TrainerConfig limits what a Trainer takes at a time.
type TrainerConfig struct {
	Pool      *kernel.Pool
	Budget    *mem.Budget
	MaxTokens int        // of a chunk
	Pooling   nn.Pooling // whose vectors, or with PoolRank whose scores, texts come to; PoolNone: to the losses of their tokens
	// Between is called before each layer: others may use the pool meanwhile, and change how many threads it has. It may be nil.
	Between func()
}

// A Text is a sequence of tokens to learn from, by itself: it begins at position 0.
type Text struct {
	Tokens  []int32
	Weights []float32 // of the loss of each token, given those before it; that of the first is not looked at; nil for vectors
	Second  int       // where the second of a pair of texts begins; 0: it is one text
	Labels  []float32 // what it should come to, for those who judge its outcome
	Where   string    // FILE:LINE of its example, for errors; empty: it has none
}

// named puts where the text is of before an error.
func (x *Text) named(err error) error {
	if x.Where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", x.Where, err)
}

// A Trainer computes what texts come to, their outcomes: the losses of their tokens, or vectors; and gradients of what is made of
// these with respect to the numbers of an adapter, or to all weights, through a model whose weights are in its file's pages
// (Mapped). Its forward pass is that of a Runner, with the adapter, bit for bit: the same plans.
// Only the residual before each layer is kept; the backward pass makes the rest again, layer by layer. Nothing depends on
// the number of threads. It is not safe for concurrent use.
type Trainer struct {
	Adapter *Tuned

	m       *Model
	pool    *kernel.Pool
	plans   *plans // of the adapted program
	program *rewriting
	begin   []kernel.Op // of plans
	layers  []backPlans
	output  backPlans // of logits, with the loss, or of vectors
	pooling *pooling  // nil: outcomes are losses
	bufs    *kernel.Buffers
	batch   *kernel.Batch
	targets *kernel.Targets
	regions []*mem.Region
	tables  *mem.Reservation // of the batch
	work    *mem.Region      // scratch of all threads
	scratch int              // of each
	budget  *mem.Budget
	between func()    // may be nil
	saved   []float32 // the residual before each layer: [layers][MaxTokens][width]
	width   int       // of the residual
	maxTok  int
	maxOut  int
	texts   []Text  // of the batch
	rows    []int32 // of the batch's tokens, those with an output
	of      []int   // the text of each

	embedding backPlans // nothing, where no table is trained
}

// backPlans are the plans of a reversed.
type backPlans struct{ again, back parts }

// trainerRows is the most bytes that the logits or vectors of a Trainer take, unless 16 rows take more.
const trainerRows = 64 << 20

// maxChunk is the most tokens of a chunk: lengths computed from it do not overflow.
const maxChunk = 1 << 20

// NewTrainer allocates a Trainer for the adapter, or for all weights of m, and takes it over. Errors name the architecture
// and the operation that cannot be trained.
func NewTrainer(m *Model, a *Tuned, c TrainerConfig) (*Trainer, error) {
	t := &Trainer{Adapter: a, m: m, pool: c.Pool, budget: c.Budget, between: c.Between, maxTok: c.MaxTokens}
	if err := t.init(c); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Identity returns a hash of the model's file, as training found it: of everything but the tensors' data, of which it takes a
// page of each; and of the metadata that was given in place of the file's.
func (t *Trainer) Identity() string {
	if t.Adapter.whole != nil {
		return t.Adapter.whole.identity
	}
	return t.m.file.given()
}

// MaxTokens is how many tokens a chunk may have.
func (t *Trainer) MaxTokens() int { return t.maxTok }

// MaxBlocks is how many KV blocks the texts of a chunk may take: twice those of a single text, so texts of half a block on
// average fill a chunk.
func (t *Trainer) MaxBlocks() int { return ChunkBlocks(t.maxTok) }

// ChunkBlocks is MaxBlocks of a Trainer of maxTokens.
func ChunkBlocks(maxTokens int) int { return 2 * KVBlocks(maxTokens) }

// KVBlocks returns the KV blocks of a text of n tokens.
func KVBlocks(n int) int { return (n + kernel.KVBlock - 1) / kernel.KVBlock }

// WholeBlocks returns n tokens, or some more, that are whole KV blocks.
func WholeBlocks(n int) int { return kernel.KVBlock * KVBlocks(n) }

// MaxText is how many tokens a text may have: those of a chunk, or as many as the model has embeddings of positions.
func (t *Trainer) MaxText() int {
	if c := t.m.Config; c.Positions {
		return min(t.maxTok, c.NCtx)
	}
	return t.maxTok
}

func (t *Trainer) init(c TrainerConfig) error {
	if c.MaxTokens < 1 || c.MaxTokens > maxChunk {
		return fmt.Errorf("chunks of %d tokens, want 1 to %d", c.MaxTokens, maxChunk)
	}
	if err := t.reserve(c.Budget); err != nil {
		return err
	}
	adapted, err := t.Adapter.program(t.m)
	if err != nil {
		return err
	}
	t.targets = kernel.NewTargets(c.MaxTokens)
	if c.Pooling != nn.PoolNone {
		if t.Adapter.whole != nil {
			return fmt.Errorf("all weights of %s cannot be trained for vectors or scores, whose gradients adapters alone have; train an adapter", t.m.Config.Arch)
		}
		if t.pooling, err = newPooling(t.m, c.Pooling); err != nil {
			return err
		}
	}
	numbers := func(n int) ([]float32, error) {
		data, err := t.alloc("activations of training", 4*n)
		return mem.Float32s(data), err
	}
	if t.program, err = reverse(adapted, t.m.Config.Arch, t.Adapter, t.targets, t.pooling, numbers); err != nil {
		return err
	}
	forward := *adapted // without what is computed of the residual: the second half makes it
	forward.Bufs, forward.Outputs, forward.Next = t.program.bufs, nil, nil
	if t.plans, err = newPlans(&forward, t.m.weights); err != nil {
		return err
	}
	t.begin = forward.Begin
	t.scratch = t.plans.scratch(c.MaxTokens)
	plan := func(what string, l reversed) (p backPlans, err error) {
		if p.again, err = planned(t.program.bufs, l.again); err == nil {
			p.back, err = planned(t.program.bufs, l.back)
		}
		if err != nil {
			return p, fmt.Errorf("%s cannot be trained: %s: %w", t.m.Config.Arch, what, err)
		}
		t.scratch = max(t.scratch, kernel.AlignUp(p.again.scratch(c.MaxTokens)), kernel.AlignUp(p.back.scratch(c.MaxTokens)))
		return p, nil
	}
	for il, l := range t.program.layers {
		p, err := plan(fmt.Sprintf("layer %d", il), l)
		t.layers = append(t.layers, p)
		if err != nil {
			return err
		}
	}
	if t.output, err = plan("its output", t.program.output); err != nil {
		return err
	}
	if t.embedding, err = plan("its embeddings", t.program.embedding); err != nil {
		return err
	}
	if t.pooling != nil && t.pooling.after != "" {
		if t.pooling.plans, err = plan(t.pooling.after, t.program.given.reversed); err != nil {
			return err
		}
	}
	return t.allocate(c)
}

// alloc returns memory until the Trainer is closed.
func (t *Trainer) alloc(purpose string, n int) ([]byte, error) {
	r, err := t.budget.Alloc(purpose, uint64(n))
	if err != nil {
		return nil, err
	}
	t.regions = append(t.regions, r)
	return r.Bytes(), nil
}

func (t *Trainer) allocate(c TrainerConfig) error {
	width := t.m.Config.NVocab
	if t.pooling != nil {
		width = t.m.Config.NEmbd
	}
	t.maxOut = min(max(trainerRows/(4*width), 16), t.maxTok)
	room := kernel.Room{Tok: t.maxTok, Out: t.maxOut}
	data, err := t.alloc("activations of training", kernel.BufBytes(t.program.bufs, room))
	if err != nil {
		return err
	}
	if t.bufs, err = kernel.NewBuffers(t.program.bufs, room, data); err != nil {
		return err
	}
	if err := t.fit(); err != nil {
		return err
	}
	t.width = t.program.bufs[t.program.x].Width
	if data, err = t.alloc("the residual of each layer", 4*len(t.layers)*t.maxTok*t.width); err != nil {
		return err
	}
	t.saved = mem.Float32s(data)
	blocks := t.MaxBlocks() // and as many texts, which have one block at least
	if t.batch, err = kernel.NewBatch(t.maxTok, blocks, KVBlocks(t.maxTok), t.maxOut, t.m.program.Groups); err != nil {
		return err
	}
	for i, g := range t.m.Layout {
		data, err := t.alloc("keys and values", blocks*g.Bytes)
		if err != nil {
			return err
		}
		t.batch.SetState(i, data, g.Bytes)
	}
	return nil
}

// fit makes the scratch memory large enough for the threads that there are.
func (t *Trainer) fit() error {
	n := max(t.scratch*t.pool.Threads(), kernel.Align)
	if t.work != nil && n <= len(t.work.Bytes()) {
		return nil
	}
	work, err := t.budget.Alloc("activations of training", uint64(n))
	if err != nil {
		return err
	}
	if t.work != nil {
		t.work.Close()
	}
	t.work = work
	return nil
}

// run runs plans over the batch.
func (t *Trainer) run(p parts) { p.run(t.pool, t.bufs, t.batch, t.work.Bytes()) }

// pause lets others use the pool, if there are any, and returns ErrStopped once stop is set.
func (t *Trainer) pause(stop *kernel.Stop) error {
	if t.between != nil {
		t.between()
		if err := t.fit(); err != nil {
			return err
		}
	}
	if stop.IsSet() {
		return ErrStopped
	}
	return nil
}

// reserve takes what the batch and the targets allocate out of the budget: their tables of KV blocks, and some numbers of
// each token and text.
func (t *Trainer) reserve(budget *mem.Budget) (err error) {
	const ofToken, ofText = 16 * 4, 4 * (2 + 2*kernel.MaxAdapters)
	texts := t.MaxBlocks()
	n := t.maxTok*ofToken + texts*ofText + 4*texts*KVBlocks(t.maxTok)*len(t.m.program.Groups)
	t.tables, err = budget.Reserve("the batch of training", uint64(n))
	return err
}

// Bytes returns the memory of the Trainer, without the adapter.
func (t *Trainer) Bytes() (n uint64) {
	if t.tables != nil {
		n = t.tables.Bytes()
	}
	for _, r := range t.regions {
		n += uint64(len(r.Bytes()))
	}
	if t.work != nil {
		n += uint64(len(t.work.Bytes()))
	}
	return n
}

// Close releases the memory, and closes the adapter. Closing again is a no-op.
func (t *Trainer) Close() {
	if t.plans != nil {
		t.plans.close()
	}
	all := append(t.layers, t.output, t.embedding)
	if t.pooling != nil {
		all = append(all, t.pooling.plans)
	}
	for _, p := range all {
		p.again.close()
		p.back.close()
	}
	if t.bufs != nil {
		t.bufs.Close()
	}
	if t.batch != nil {
		t.batch.Close()
	}
	if t.targets != nil {
		t.targets.Close()
	}
	for _, r := range t.regions {
		r.Close()
	}
	if t.work != nil {
		t.work.Close()
	}
	if t.tables != nil {
		t.tables.Release()
	}
	t.regions, t.work = nil, nil
	t.Adapter.Close()
}

// ErrNotFinite reports a loss or a gradient that is NaN or infinite.
var ErrNotFinite = errors.New("the loss is not a finite number")

// Outcomes returns what each of the texts, at most MaxTokens tokens in MaxBlocks KV blocks, comes to: a sum of the weighted losses of
// its tokens or, with a Pooling, its vector, or the classifier's scores; base: without the adapter. They do not depend on the company. Once stop
// (may be nil) is set, it ends before the next layer with ErrStopped.
func (t *Trainer) Outcomes(texts []Text, base bool, stop *kernel.Stop) ([][]float64, error) {
	if base && !t.HasBase() {
		return nil, errors.New("all weights are trained, so there is no model without an adapter")
	}
	if err := t.forward(texts, base, false, stop); err != nil {
		return nil, err
	}
	outcomes, err := t.outcomes(stop)
	if err != nil {
		return nil, err
	}
	return outcomes, t.m.Damaged()
}

// Loss returns the sum of the weighted losses of the texts, for a Trainer without a Pooling.
func (t *Trainer) Loss(texts []Text, stop *kernel.Stop) (float64, error) {
	if t.pooling != nil {
		return 0, errPooled
	}
	losses, err := t.Outcomes(texts, false, stop)
	return total(losses), err
}

// Gradient is Loss that also puts the gradient of the sum, with respect to the numbers of the adapter, into the Adapter's Gradient.
func (t *Trainer) Gradient(texts []Text, stop *kernel.Stop) (float64, error) {
	if t.pooling != nil {
		return 0, errPooled
	}
	if err := t.forward(texts, false, true, stop); err != nil {
		return 0, err
	}
	losses, err := t.losses(true, stop)
	if err == nil {
		err = t.backward(stop)
	}
	return total(losses), err
}

// Descend calls judge with the outcomes of the texts. By the gradients of some loss that it returns, one of each outcome's
// numbers, it computes the gradient of that loss with respect to the numbers of the adapter, and puts it into the Adapter's
// Gradient. The layers run forward once, whatever judge looks at.
func (t *Trainer) Descend(texts []Text, judge func(outcomes [][]float64) (gradients [][]float64, err error), stop *kernel.Stop) error {
	if err := t.forward(texts, false, true, stop); err != nil {
		return err
	}
	outcomes, err := t.outcomes(stop)
	if err != nil {
		return err
	}
	gradients, err := judge(outcomes)
	if err != nil {
		return err
	}
	if t.pooling != nil {
		err = t.unpool(gradients, stop)
	} else {
		for at, of := range t.of {
			row := t.rows[at]
			t.targets.Weights[row] = float32(float64(t.targets.Weights[row]) * gradients[of][0])
		}
		_, err = t.losses(true, stop)
	}
	if err != nil {
		return err
	}
	return t.backward(stop)
}

// HasBase reports whether there is a model without the adapter: all weights are not trained.
func (t *Trainer) HasBase() bool { return t.Adapter.whole == nil }

// errPooled reports a loss of tokens asked of a Trainer of vectors.
var errPooled = errors.New("texts come to vectors, which have no loss by themselves")

func total(losses [][]float64) (sum float64) {
	for _, x := range losses {
		sum += x[0]
	}
	return sum
}

// forward runs the layers over the texts and, with keep, keeps what backward begins with.
func (t *Trainer) forward(texts []Text, base, keep bool, stop *kernel.Stop) error {
	if err := t.pause(stop); err != nil {
		return err
	}
	if err := t.fill(texts, base); err != nil {
		return err
	}
	n := len(t.batch.Tokens())
	t.run(t.plans.begin)
	before := -1
	for i, l := range t.plans.layers {
		if err := t.pause(stop); err != nil {
			return err
		}
		if il := t.plans.steps[i].layer; keep && il != before { // a layer may have several steps, or none
			t.residual(il, n, func(saved, x []float32) { copy(saved, x) })
			before = il
		}
		l.Run(t.pool, t.bufs, t.batch, t.work.Bytes())
	}
	if keep { // gradients are added from the output on
		for i := range n {
			clear(t.bufs.Row(t.program.dx, i))
		}
		clear(t.Adapter.gradient)
	}
	return nil
}

// outcomes returns those of the texts, after forward.
func (t *Trainer) outcomes(stop *kernel.Stop) ([][]float64, error) {
	if t.pooling != nil {
		return t.pooled(stop)
	}
	return t.losses(false, stop)
}

// losses returns the loss of each text and, with back, adds gradients of their sum to those of the residual.
func (t *Trainer) losses(back bool, stop *kernel.Stop) ([][]float64, error) {
	sums := make([][]float64, len(t.texts))
	for i := range sums {
		sums[i] = []float64{0}
	}
	of := t.of
	for some := range slices.Chunk(t.rows, t.maxOut) {
		if err := t.pause(stop); err != nil {
			return nil, err
		}
		t.batch.SetOut(some)
		t.run(t.output.again)
		for i := range some {
			sums[of[i]][0] += float64(t.bufs.Row(t.program.loss, i)[0])
		}
		of = of[len(some):]
		if back {
			t.run(t.output.back)
		}
	}
	return sums, allFinite(sums)
}

// allFinite returns ErrNotFinite if some number is not.
func allFinite(all [][]float64) error {
	for _, x := range all {
		if slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
			return ErrNotFinite
		}
	}
	return nil
}

// backward computes the gradient of the adapter's numbers, from those of the residual after the layers.
func (t *Trainer) backward(stop *kernel.Stop) error {
	if len(t.rows) == 0 {
		return t.m.Damaged()
	}
	n := len(t.batch.Tokens())
	for il, l := range slices.Backward(t.layers) {
		if err := t.pause(stop); err != nil {
			return err
		}
		t.residual(il, n, func(saved, x []float32) { copy(x, saved) })
		t.run(l.again)
		t.run(l.back)
	}
	t.run(t.embedding.again)
	t.run(t.embedding.back)
	return t.m.Damaged()
}

// residual calls do with each row of the residual before a layer, where it is saved and where it is computed.
func (t *Trainer) residual(il, n int, do func(saved, x []float32)) {
	for i := range n {
		at := (il*t.maxTok + i) * t.width
		do(t.saved[at:at+t.width], t.bufs.Row(t.program.x, i))
	}
}

// fill makes the texts the batch, and finds the rows whose logits have a loss, or whose vectors are pooled.
func (t *Trainer) fill(texts []Text, base bool) error {
	t.batch.Reset()
	t.texts, t.rows, t.of = texts, t.rows[:0], t.of[:0]
	scale := float32(1)
	if base {
		scale = 0
	}
	block, blocks, n := int32(0), 0, 0
	for _, x := range texts {
		if n += len(x.Tokens); len(x.Tokens) == 0 || n > t.maxTok || t.pooling == nil && len(x.Weights) != len(x.Tokens) {
			return fmt.Errorf("texts of %d tokens, want at most %d", n, t.maxTok)
		}
		if len(x.Tokens) > t.MaxText() {
			return fmt.Errorf("a text of %d tokens, want at most %d: the model has embeddings of as many positions", len(x.Tokens), t.MaxText())
		}
		blocks += KVBlocks(len(x.Tokens))
	}
	if len(texts) == 0 || blocks > t.MaxBlocks() {
		return fmt.Errorf("%d texts of %d KV blocks, want 1 text at least, and %d blocks at most", len(texts), blocks, t.MaxBlocks())
	}
	for k, x := range texts {
		var units []int32
		for range KVBlocks(len(x.Tokens)) {
			units = append(units, block)
			block++
		}
		t.batch.AddSeq(slices.Repeat([][]int32{units}, len(t.m.program.Groups))...)
		if t.Adapter.whole == nil {
			t.batch.Adapt([]int32{0}, []float32{scale})
		}
		t.batch.Second(x.Second)
		for i, id := range x.Tokens {
			if id < 0 || int(id) >= t.m.Config.NVocab {
				return fmt.Errorf("%w: %d, want 0 to %d", ErrToken, id, t.m.Config.NVocab-1)
			}
			at := len(t.batch.Tokens())
			t.batch.Add(id, int32(i))
			t.targets.IDs[at], t.targets.Weights[at] = 0, 0
			if t.pooling != nil {
				if from, to := t.pooling.reads(len(x.Tokens)); i >= from && i < to {
					t.rows, t.of = append(t.rows, int32(at)), append(t.of, k)
				}
				continue
			}
			if i+1 < len(x.Tokens) && x.Weights[i+1] != 0 {
				if next, never := x.Tokens[i+1], t.m.Config.Suppressed; next >= int32(never[0]) && next < int32(never[1]) {
					return x.named(fmt.Errorf("%w: %d has a weight, and %s never generates it", ErrToken, next, t.m.Config.Arch))
				}
				t.targets.IDs[at], t.targets.Weights[at] = x.Tokens[i+1], x.Weights[i+1]
				t.rows, t.of = append(t.rows, int32(at)), append(t.of, k)
			}
		}
	}
	t.batch.Look(0, n)
	return nil
}

// trainable returns an error where a model's program cannot be trained at all, whatever its adapters: it is a drafting
// one, divided, or has an encoder.
func trainable(m *Model) error {
	switch {
	case m.ranks != nil:
		return errors.New("a model that is divided among ranks cannot be trained")
	case m.Residency != Mapped:
		return errors.New("a model whose weights are not in its file's pages cannot be trained")
	case len(m.program.Encoder) > 0 || !m.Has(nn.Logits) && !m.Has(nn.Vectors):
		return fmt.Errorf("%s cannot be trained: it is no model that reads or continues a text by itself", m.Config.Arch)
	case m.file.Packed():
		return errors.New("a packed file cannot be trained; give the one that it was made of")
	}
	return nil
}
