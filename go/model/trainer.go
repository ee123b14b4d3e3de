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
// (Mapped). Its forward pass is that of a Runner, with the adapter, bit for bit.
// The residual before each layer is kept, and what else the backward pass reads of as many layers as Keep was given memory for;
// of the others it makes that again. Nothing depends on which, or on the number of threads. It is not safe for concurrent use.
type Trainer struct {
	Adapter *Tuned

	m       *Model
	pool    *kernel.Pool
	plans   *plans // of the adapted program
	program *rewriting
	begin   []kernel.Op // of plans
	layers  []*layerPlans
	move    parts     // the residual to the place of that behind the layer
	output  backPlans // of logits, with the loss, or of vectors
	logits  parts     // output.again without the loss, where there is one
	pooling *pooling  // nil: outcomes are losses
	bufs    *kernel.Buffers
	places  []*kernel.Buffers // with the residual before each layer, and behind the last
	at      *kernel.Buffers   // of these, that of the residual that there is now
	kept    *mem.Region       // of layers that are not computed again
	room    kernel.Room
	batch   *kernel.Batch
	targets *kernel.Targets
	regions []*mem.Region
	tables  *mem.Reservation // of the batch
	work    *mem.Region      // scratch of all threads
	scratch int              // of each
	budget  *mem.Budget
	between func() // may be nil
	saved   []byte // the residual behind each layer
	maxTok  int
	maxOut  int
	texts   []Text  // of the batch
	rows    []int32 // of the batch's tokens, those with an output
	of      []int   // the text of each

	embedding backPlans // nothing, where no table is trained
	unrolled  *unrolled // of a head that is trained, of which there are no layers; nil: the model is
}

// backPlans are the plans of a reversed.
type backPlans struct{ again, back parts }

// layerPlans are those of a layer, which runs as it is served, or whole.
type layerPlans struct {
	backPlans
	served, whole parts
	kept          bool // what whole makes is there for back
}

// trainerRows is the most bytes that the logits or vectors of a Trainer take, unless 16 rows take more.
const trainerRows = 64 << 20

// maxChunk is the most tokens of a chunk: lengths computed from it do not overflow.
const maxChunk = 1 << 20

// NewTrainer allocates a Trainer for the adapter, or for all weights of m, and takes it over. Errors name the architecture
// and the operation that cannot be trained.
func NewTrainer(m *Model, a *Tuned, c TrainerConfig) (*Trainer, error) {
	if m.file.Remote() {
		return nil, fmt.Errorf("a model cannot be trained: %w", errRemote)
	}
	t := &Trainer{Adapter: a, m: m, pool: c.Pool, budget: c.Budget, between: c.Between, maxTok: c.MaxTokens, kept: new(mem.Region)}
	if err := t.init(c); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Identity returns a hash of the model's file, as training found it: of everything but the tensors' data, of which it takes a
// page of each; and of the metadata that was given in place of the file's.
func (t *Trainer) Identity() string {
	if x := t.Adapter.own(); x != nil {
		return x.identity
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
		if t.pooling, err = newPooling(t.m, c.Pooling); err != nil {
			return err
		}
	}
	numbers := func(n int) ([]float32, error) {
		data, err := t.alloc("activations of training", 4*n)
		return mem.Float32s(data), err
	}
	if t.Adapter.OfHead() {
		t.program, t.unrolled, err = unroll(t.m, t.Adapter, t.targets, numbers)
	} else {
		t.program, err = reverse(adapted, t.m.Config.Arch, t.Adapter, t.targets, t.pooling, numbers)
	}
	if err != nil {
		return err
	}
	forward := *adapted // without what is computed of the residual: the second half makes it
	forward.Bufs, forward.Outputs, forward.Next = t.program.bufs, nil, nil
	if t.plans, err = newPlans(&forward, t.m.weights); err != nil {
		return err
	}
	t.begin = forward.Begin
	t.scratch = t.plans.scratch(c.MaxTokens)
	lay := func(what string, ops []kernel.Op) (p parts, err error) {
		if p, err = planned(t.program.bufs, ops); err != nil {
			return nil, fmt.Errorf("%s cannot be trained: %s: %w", t.m.Config.Arch, what, err)
		}
		t.scratch = max(t.scratch, kernel.AlignUp(p.scratch(c.MaxTokens)))
		return p, nil
	}
	plan := func(what string, l reversed) (p backPlans, err error) {
		if p.again, err = lay(what, l.again); err == nil {
			p.back, err = lay(what, l.back)
		}
		return p, err
	}
	for il, l := range t.program.layers {
		what, p := fmt.Sprintf("layer %d", il), &layerPlans{}
		t.layers = append(t.layers, p)
		if p.backPlans, err = plan(what, l.reversed); err != nil {
			return err
		}
		if p.whole, err = lay(what, l.whole); err != nil {
			return err
		}
	}
	if t.unrolled != nil {
		n, err := t.unrolled.plan(t.program.bufs, c.MaxTokens)
		if err != nil {
			return fmt.Errorf("a head of %s cannot be trained: %w", t.m.Config.Arch, err)
		}
		t.scratch = max(t.scratch, n)
		return t.allocate(c)
	}
	for i, s := range t.plans.steps { // a layer may have several, or none
		l := t.layers[s.layer]
		l.served = append(l.served, t.plans.layers[i])
	}
	if t.move, err = lay("its residual", []kernel.Op{t.program.move()}); err != nil {
		return err
	}
	if t.output, err = plan("its output", t.program.output); err != nil {
		return err
	}
	if t.pooling == nil { // the loss is the last of its operations
		again := t.program.output.again
		if t.logits, err = lay("its logits", again[:len(again)-1]); err != nil {
			return err
		}
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
	if t.unrolled != nil {
		width = t.unrolled.nVocab
	}
	if t.pooling != nil {
		width = t.m.Config.NEmbd
	}
	t.maxOut = min(max(trainerRows/(4*width), 16), t.maxTok)
	t.room = kernel.Room{Tok: t.maxTok, Out: t.maxOut}
	data, err := t.alloc("activations of training", kernel.BufBytes(t.program.bufs, t.room))
	if err != nil {
		return err
	}
	if t.bufs, err = kernel.NewBuffers(t.program.bufs, t.room, data); err != nil {
		return err
	}
	if err := t.fit(); err != nil {
		return err
	}
	if t.unrolled == nil {
		if !t.program.frozen {
			if t.saved, err = t.alloc("the residual of each layer", len(t.layers)*t.bytesOf(t.program.x)); err != nil {
				return err
			}
		}
		t.place()
	}
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

// run runs plans over the batch, with the residual that there is now.
func (t *Trainer) run(p parts) { p.run(t.pool, t.at, t.batch, t.work.Bytes()) }

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
	return n + uint64(len(t.kept.Bytes()))
}

// Close releases the memory, and closes the adapter. Closing again is a no-op.
func (t *Trainer) Close() {
	if t.plans != nil {
		t.plans.close()
	}
	all := []backPlans{t.output, t.embedding}
	if t.pooling != nil {
		all = append(all, t.pooling.plans)
	}
	for _, l := range t.layers {
		all = append(all, l.backPlans)
		l.whole.close()
	}
	t.move.close()
	t.logits.close()
	for _, p := range all {
		p.again.close()
		p.back.close()
	}
	if t.unrolled != nil {
		t.unrolled.close()
	}
	t.kept.Close()
	for _, b := range t.places {
		b.Close()
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
		return nil, errNoBase
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

// HasBase reports whether there is a model without the adapter: no weights are trained as they are.
func (t *Trainer) HasBase() bool { return t.Adapter.own() == nil }

// errNoBase reports that there is nothing to compare with.
var errNoBase = errors.New("weights of the model are trained, so there is no model without an adapter")

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
	if t.unrolled != nil {
		t.at = t.bufs
		t.run(t.plans.begin)
		for _, l := range t.plans.layers {
			if err := t.pause(stop); err != nil {
				return err
			}
			t.run(parts{l})
		}
	} else {
		t.at = t.places[0]
		t.run(t.plans.begin)
	}
	for il, l := range t.layers {
		if err := t.pause(stop); err != nil {
			return err
		}
		switch {
		case keep && l.kept:
			t.run(l.whole)
			t.at = t.places[il+1]
		case keep && !t.program.frozen:
			t.run(t.move)
			t.at = t.places[il+1]
			fallthrough
		default:
			t.run(l.served)
		}
	}
	if keep { // gradients are added from the output on
		for _, b := range t.program.cleared {
			for i := range t.batch.Tokens() {
				clear(t.bufs.Row(b, i))
			}
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
	if t.unrolled != nil {
		return t.unrolledLosses(back, stop)
	}
	sums := noLosses(len(t.texts))
	if err := t.addLosses(t.output, sums, back, stop); err != nil {
		return nil, err
	}
	return sums, allFinite(sums)
}

// noLosses returns the losses of n texts without tokens.
func noLosses(n int) [][]float64 {
	sums := make([][]float64, n)
	for i := range sums {
		sums[i] = []float64{0}
	}
	return sums
}

// addLosses adds the losses of an output's rows to those of their texts.
func (t *Trainer) addLosses(output backPlans, sums [][]float64, back bool, stop *kernel.Stop) error {
	of := t.of
	for some := range slices.Chunk(t.rows, t.maxOut) {
		if err := t.pause(stop); err != nil {
			return err
		}
		t.batch.SetOut(some)
		t.run(output.again)
		for i := range some {
			sums[of[i]][0] += float64(t.bufs.Row(t.program.loss, i)[0])
		}
		of = of[len(some):]
		if back {
			t.run(output.back)
		}
	}
	return nil
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
	if t.unrolled != nil {
		if err := t.legs(t.unrolled.backward, stop); err != nil {
			return err
		}
		return t.m.Damaged()
	}
	if len(t.rows) == 0 || t.program.frozen {
		return t.m.Damaged()
	}
	for il, l := range slices.Backward(t.layers) {
		if err := t.pause(stop); err != nil {
			return err
		}
		t.at = t.places[il]
		if !l.kept {
			t.run(l.again)
		}
		t.run(l.back)
	}
	t.run(t.embedding.again)
	t.run(t.embedding.back)
	t.Adapter.finish()
	return t.m.Damaged()
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
			if t.unrolled != nil { // see aim
				continue
			}
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
