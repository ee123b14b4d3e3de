package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// RunnerConfig limits the size of batches.
type RunnerConfig struct {
	Pool      *kernel.Pool // borrowed for as long as the Runner
	Budget    *mem.Budget
	MaxTokens int // of a batch
	MaxSeqs   int // of a batch
	MaxBlocks int // KV blocks of a sequence
	MaxOut    int // rows of an output at a time, at most MaxTokens
	// Wait is called with a function that waits for weights from disk, during which others may use the Pool;
	// nil: they may not.
	Wait func(func())
}

// A Runner computes a model's outputs for batches of tokens. Its buffers are outside the Go heap and are
// reused for each batch; a pass does not allocate. It is not safe for concurrent use.
type Runner struct {
	config   RunnerConfig
	cfg      *Config
	model    *Model
	weights  *weights
	program  *nn.Program
	pool     *kernel.Pool
	plans    *plans
	adapted  *plans     // nil without adapters
	adapters []*Adapter // by number
	bufs     *kernel.Buffers
	batch    *kernel.Batch
	region   *mem.Region // of the buffers
	work     *mem.Region // scratch of all threads
	outputs  []nn.Output
	out      int   // the output that was computed last
	nOut     int   // rows of it that there are
	ran      int   // tokens of the last pass
	kept     int   // tokens of it that the layer that drafts has been given
	nNext    int   // rows of its last step
	brings   int   // columns that the plans read of rows that tokens bring; 0: of none
	lead     *Lead // of the other ranks, which do the same; nil: there are none
	ends     []int // of the parts of the next pass: see Divide

	begun time.Time     // when the last pass began
	took  time.Duration // see Took
}

// NewRunner allocates the buffers, reserved from the budget.
func NewRunner(m *Model, c RunnerConfig) (*Runner, error) {
	r := &Runner{config: c, cfg: m.Config, model: m, weights: m.weights, pool: c.Pool}
	if err := r.init(m, c); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) init(m *Model, c RunnerConfig) error {
	p := m.program
	var err error
	r.program = p
	if r.plans, err = newPlans(p, r.weights); err != nil {
		return err
	}
	if r.batch, err = kernel.NewBatch(c.MaxTokens, c.MaxSeqs, c.MaxBlocks, c.MaxOut, p.Groups); err != nil {
		return err
	}
	r.outputs = p.Outputs
	for _, plan := range r.plans.all() {
		r.brings = max(r.brings, plan.Brings())
	}
	return r.allocate(p, r.plans, c)
}

// allocate allocates the buffers of p and the scratch of ps.
func (r *Runner) allocate(p *nn.Program, ps *plans, c RunnerConfig) (err error) {
	bufs, scratch := runnerBytes(p, ps, c.MaxTokens, c.MaxOut, c.Pool.Threads())
	if r.region, err = c.Budget.Alloc(activations, uint64(bufs)); err != nil {
		return err
	}
	if r.work, err = c.Budget.Alloc(activations, uint64(scratch)); err != nil {
		return err
	}
	r.bufs, err = kernel.NewBuffers(p.Bufs, roomOf(p, c.MaxTokens, c.MaxOut), r.region.Bytes())
	return err
}

// activations is the budget purpose of a Runner's memory.
const activations = "activations"

// Fit makes the scratch large enough for a pool of so many threads, or returns an error if there is no memory
// for it. It must not be called while a plan runs.
func (r *Runner) Fit(threads int) error {
	ps := r.plans
	if r.adapted != nil {
		ps = r.adapted
	}
	n := scratchBytes(ps, r.config.MaxTokens, threads)
	if n <= len(r.work.Bytes()) {
		return nil
	}
	work, err := r.config.Budget.Alloc(activations, uint64(n))
	if err != nil {
		return err
	}
	r.work.Close()
	r.work = work
	return nil
}

// Bytes returns the memory of the buffers and of the scratch.
func (r *Runner) Bytes() uint64 { return uint64(len(r.region.Bytes()) + len(r.work.Bytes())) }

// Rest returns the pages of the buffers to the kernel until the next batch. Outputs of the last batch are
// lost.
func (r *Runner) Rest() {
	r.nOut, r.ran, r.kept, r.nNext = 0, 0, 0, 0
	for _, region := range []*mem.Region{r.region, r.work} {
		_ = region.Discard(0, len(region.Bytes())) // a failure costs memory, not correctness
	}
}

// roomOf returns the room of a Runner's buffers. Where a pass may go in parts, these have rows of all of its tokens, and plans
// check that buffers and batch look at the same part.
func roomOf(p *nn.Program, maxTok, maxOut int) kernel.Room {
	r := kernel.Room{Tok: maxTok, Out: maxOut}
	if p.Widest > 0 {
		r.Whole = maxTok
	}
	return r
}

// runnerBytes returns the memory of a Runner: of its buffers, and of the scratch
// of all threads.
func runnerBytes(p *nn.Program, ps *plans, maxTok, maxOut, threads int) (bufs, scratch int) {
	return kernel.BufBytes(p.Bufs, roomOf(p, maxTok, maxOut)), scratchBytes(ps, maxTok, threads)
}

func scratchBytes(ps *plans, maxTok, threads int) int {
	return max(ps.scratch(maxTok)*threads, kernel.Align)
}

// Batch returns the runner's batch, to be filled before Forward.
func (r *Runner) Batch() *kernel.Batch { return r.batch }

// ErrStopped is returned for a pass that was stopped.
var ErrStopped = errors.New("model: the pass was stopped")

// Forward runs the batch through all layers and writes its keys and values. Compute then returns outputs of
// its tokens, except source tokens. Once stop (may be nil) is set, no further layer begins and the error is
// ErrStopped; the keys and values of the batch's positions are then undefined. If between is not nil it is
// called before each layer; otherwise all layers are one call into C. An error that wraps ErrToken reports an
// id outside the vocabulary, before anything ran; ErrDamaged reports that the model's file could not be read.
func (r *Runner) Forward(stop *kernel.Stop, between func()) error {
	r.nOut, r.ran, r.kept, r.nNext = 0, 0, 0, 0
	defer func() { r.ends = r.ends[:0] }()
	r.begun, r.took = time.Now(), 0
	for i, id := range r.batch.Tokens() {
		if id < 0 || int(id) >= r.cfg.NVocab {
			return fmt.Errorf("%w: token %d of the batch is %d, want 0 to %d", ErrToken, i, id, r.cfg.NVocab-1)
		}
	}
	if r.lead != nil {
		if err := r.lead.pass(r.batch, r.brings, r.ends); err != nil {
			return err
		}
	}
	if r.model.ranks != nil {
		stop = r.model.ranks.Begin(stop)
	}
	ps, n, sources := r.chosen(), len(r.batch.Tokens()), r.batch.Sources()
	early := !r.model.arriving.isHere(r.model.arriving.all())
	if early && sources > 0 {
		if err := r.await(r.model.arriving.all()); err != nil {
			return err
		}
	}
	if !r.forward(0, sources, ps.encode, stop, between) {
		return cmp.Or(r.model.ranks.Failed(), ErrStopped)
	}
	if early {
		if err := r.early(sources, n, ps, stop, between); err != nil {
			return err
		}
	} else if r.model.stream != nil {
		if err := r.streamed(sources, n, ps, stop, between); err != nil {
			return err
		}
	} else if !r.inParts(sources, n, ps.forward, stop, between) {
		return cmp.Or(r.model.ranks.Failed(), ErrStopped)
	}
	if r.model.ranks != nil {
		r.model.ranks.End()
	}
	if err := r.model.Damaged(); err != nil {
		return err
	}
	r.ran = n
	return nil
}

// Divide has the next Forward run the batch in parts, one after the other, which end before these tokens, the last at the end
// of the batch; nil: in one. Ranks that have layers each compute several parts at a time. A part may end within a sequence
// if a pass may; of one with recurrent state it may not. Only models whose Widest is not 0 are computed so.
func (r *Runner) Divide(ends []int) { r.ends = append(r.ends[:0], ends...) }

// Took returns how long the last pass took up to the end of the first output of it; 0: there was none.
func (r *Runner) Took() time.Duration { return r.took }

// Widest returns what part of the layers' weights the rank with the most has, where ranks have layers each; 0: batches are
// not computed in parts.
func (m *Model) Widest() float64 { return m.program.Widest }

// inParts runs the tokens of the batch that are not of sources, in parts if that is wanted, and reports whether it was not stopped.
func (r *Runner) inParts(from, to int, layers *kernel.Chain, stop *kernel.Stop, between func()) bool {
	if len(r.ends) == 0 {
		return r.forward(from, to, layers, stop, between)
	}
	if r.program.Widest == 0 || from > 0 || r.ends[len(r.ends)-1] != to {
		panic(fmt.Sprintf("model: a batch of %d tokens in parts that end at %d", to, r.ends))
	}
	at, on := 0, true
	for _, end := range r.ends {
		r.bufs.Look(at)
		if on = r.forward(at, end, layers, stop, between); !on {
			break
		}
		at = end
	}
	r.bufs.Look(0)
	r.batch.Look(0, to)
	return on
}

// forward runs some tokens of the batch, if any, and reports whether it was not stopped.
func (r *Runner) forward(from, to int, layers *kernel.Chain, stop *kernel.Stop, between func()) bool {
	if from == to {
		return true
	}
	r.batch.Look(from, to)
	if between == nil {
		return layers.Run(r.pool, r.bufs, r.batch, r.work.Bytes(), stop)
	}
	for _, l := range layers.Plans() {
		if between(); stop.IsSet() {
			return false
		}
		l.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	}
	return true
}

// stepwise is forward for weights that arrive meanwhile: run waits for the weights of a step and runs it.
func (r *Runner) stepwise(from, to int, ps *plans, stop *kernel.Stop, between func(), run func(i int) error) error {
	r.batch.Look(from, to)
	ps.begin.run(r.pool, r.bufs, r.batch, r.work.Bytes())
	for i := range ps.steps {
		if between != nil {
			between()
		}
		if stop.IsSet() {
			return ErrStopped
		}
		if err := run(i); err != nil {
			return err
		}
	}
	return nil
}

// chosen returns the plans for the batch: those with adapters only if a sequence uses one.
func (r *Runner) chosen() *plans {
	if r.batch.Adapted() {
		if r.adapted == nil {
			panic("model: a batch with adapters that the runner does not have")
		}
		return r.adapted
	}
	return r.plans
}

// SetAdapters replaces the adapters that sequences of a batch refer to by number (nil: none). If it fails,
// nothing has changed.
func (r *Runner) SetAdapters(adapters []*Adapter) error {
	next, err := r.with(adapters)
	if err != nil {
		return err
	}
	if err := r.lead.adapters(context.Background(), adapters); err != nil {
		next.Close()
		return err
	}
	r.adopt(next)
	return nil
}

// with allocates what a runner with other adapters has. The caller has it adopted, or closes it.
func (r *Runner) with(adapters []*Adapter) (next *Runner, err error) {
	next = &Runner{weights: r.weights, adapters: adapters}
	if !slices.ContainsFunc(adapters, func(a *Adapter) bool { return a != nil }) {
		return next, nil
	}
	base, p, err := r.model.adapted(adapters)
	if err == nil {
		err = next.lay(base, p, r.config)
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// adopt makes what `with` has allocated the runner's. It cannot fail. Without adapters the buffers stay.
func (r *Runner) adopt(next *Runner) {
	old := Runner{adapted: r.adapted}
	if r.adapted = next.adapted; next.plans != nil {
		old.plans, old.bufs, old.region, old.work = r.plans, r.bufs, r.region, r.work
		r.plans, r.bufs, r.region, r.work = next.plans, next.bufs, next.region, next.work
		r.nOut, r.ran, r.kept, r.nNext = 0, 0, 0, 0
	}
	r.adapters = next.adapters
	old.Close()
}

// lay allocates buffers and plans for both programs. The second has all buffers of the first, and more.
func (r *Runner) lay(base, adapted *nn.Program, c RunnerConfig) (err error) {
	wide := *base
	wide.Bufs = adapted.Bufs
	if r.plans, err = newPlans(&wide, r.weights); err != nil {
		return err
	}
	if r.adapted, err = newPlans(adapted, r.weights); err != nil {
		return err
	}
	return r.allocate(adapted, r.adapted, c)
}

// Head computes the logits after these tokens of the batch of the last Forward: at most MaxOut, in ascending
// order, not counting source tokens. It may be called repeatedly.
func (r *Runner) Head(rows []int32) { r.Compute(nn.Logits, rows) }

// Logits returns row i of the last Head, one number per token of the vocabulary.
func (r *Runner) Logits(i int) []float32 { return r.Row(i) }

// Compute computes any output of the model, as Head computes logits. It panics if the model has no such
// output: see Model.Has.
func (r *Runner) Compute(output string, rows []int32) {
	r.pick(output, false)
	r.run(rows)
}

// Apply computes an output from given rows, at most MaxOut, each made of the sequence of one of these tokens of the batch, in
// ascending order: it has the adapters of that one. It panics if the model has no such output.
func (r *Runner) Apply(output string, given [][]float32, of []int32) {
	if len(given) != len(of) {
		panic(fmt.Sprintf("model: %d given rows of %d tokens", len(given), len(of)))
	}
	r.pick(output, true)
	for i, row := range given {
		dst := r.bufs.Row(r.outputs[r.out].In, i)
		clear(dst[copy(dst, row):])
	}
	r.run(of)
}

// pick selects the output to compute.
func (r *Runner) pick(output string, given bool) {
	if r.ran == 0 || r.ran != len(r.batch.Tokens()) {
		panic("model: an output without a Forward of the batch")
	}
	r.nOut = 0
	r.out = slices.IndexFunc(r.outputs, func(o nn.Output) bool { return o.Name == output && o.Given == given })
	if r.out < 0 {
		panic("model: no output " + output)
	}
}

// Aligned returns what nn.Aligned has of token i of the batch of the last Forward, whose first tokens are those of sources. It is
// valid until the next Forward.
func (r *Runner) Aligned(i int) []float32 {
	if i < 0 || i >= r.ran {
		panic(fmt.Sprintf("model: what is aligned of token %d of %d", i, r.ran))
	}
	kept, sources := r.program.Aligned, r.batch.Sources()
	if i < sources {
		return r.bufs.Row(kept.Keys, i)[:kept.Width]
	}
	return r.bufs.Row(kept.Queries, i-sources)[:kept.Width]
}

// begin begins exchanges of ranks after a pass: what came in between says nothing of how long they take.
func (r *Runner) begin() {
	if r.model.ranks != nil {
		r.model.ranks.Begin(nil)
	}
}

func (r *Runner) run(rows []int32) {
	if len(rows) == 0 {
		return
	}
	if r.model.ranks != nil && !r.outputs[r.out].Given { // those of given rows rank 0 computes alone: see keepWhole
		if r.lead != nil {
			r.lead.output(r.out, rows)
		}
		r.begin()
	}
	r.batch.SetOut(rows)
	r.chosen().outputs[r.out].Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	if r.took == 0 {
		r.took = time.Since(r.begun)
	}
	if r.model.ranks != nil && !r.outputs[r.out].Given {
		r.model.ranks.End()
	}
	r.nOut = len(rows)
}

// Row returns row i of the last Compute. It is valid until the next Compute or
// Forward.
func (r *Runner) Row(i int) []float32 {
	if i < 0 || i >= r.nOut {
		panic(fmt.Sprintf("model: row %d of %d", i, r.nOut))
	}
	o := r.outputs[r.out]
	return r.bufs.Row(o.Buf, i)[:o.Width]
}

// Close releases the buffers. Closing again is a no-op.
func (r *Runner) Close() {
	if r.plans != nil {
		r.plans.close()
	}
	if r.adapted != nil {
		r.adapted.close()
	}
	if r.bufs != nil {
		r.bufs.Close()
	}
	if r.batch != nil {
		r.batch.Close()
	}
	for _, region := range []*mem.Region{r.region, r.work} {
		if region != nil {
			region.Close()
		}
	}
}
