// Package train trains adapters, or all weights of models: it decides which texts are in which step, adds up their gradients, and takes the steps. A Run
// is a state machine without a clock, a file or a goroutine: what it does depends on the texts, the configuration and the
// state that it began with, to the bit. So a run that goes on from a saved state makes the adapter of one that was never
// interrupted, with any number of threads and on any instruction set.
package train

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A Schedule says how the rate changes after the warmup.
type Schedule int

const (
	Cosine   Schedule = iota // along half a cosine, to Least
	Linear                   // along a line, to Least
	Constant                 // not at all
)

// Config says how numbers are trained. The zero value of each field but Steps and Rate is a choice of its own.
type Config struct {
	Steps    int     // of the optimiser, in all
	Chunks   int     // whose gradients are added up for a step; 0: 1
	Rate     float64 // the largest
	Least    float64 // what is left of it at the end, from 0 to 1
	Warmup   int     // steps in which it rises from 0
	Schedule Schedule
	Beta1    float64 // 0: 0.9
	Beta2    float64 // 0: 0.999
	Eps      float64 // 0: 1e-8
	Decay    float64 // of the numbers, times the rate; norms and biases have none
	Clip     float64 // the gradient of a step has at most this norm; 0: any
	Seed     uint64  // of the order of the texts

	// MuonRate is the largest rate of Muon, which takes the matrices of layers where all weights are trained; 0: AdamW takes
	// these too. It changes as Rate does.
	MuonRate  float64
	MuonBeta  float64 // 0: 0.95
	MuonDecay float64

	Objective Objective // nil: the loss of each next token
}

const (
	least     = 1e-37   // of what must not be 0 as a 32-bit float
	maxSteps  = 1 << 30 // and chunks of a step below
	maxChunks = 1 << 20
	maxNorm   = 1e18 // of a gradient, whose squares must be floats
)

// withDefaults returns the configuration with what its zeros mean, or an error that names a field.
func (c Config) withDefaults() (Config, error) {
	if c.Chunks == 0 {
		c.Chunks = 1
	}
	for _, d := range []struct {
		p    *float64
		zero float64
	}{{&c.Beta1, 0.9}, {&c.Beta2, 0.999}, {&c.Eps, 1e-8}, {&c.MuonBeta, 0.95}} {
		if *d.p == 0 {
			*d.p = d.zero
		}
	}
	within := func(x, low, high float64) bool { return x >= low && x <= high } // not NaN
	switch {
	case c.Steps < 1 || c.Steps > maxSteps || c.Chunks < 1 || c.Chunks > maxChunks:
		return c, fmt.Errorf("%d steps of %d chunks, want 1 to %d of 1 to %d", c.Steps, c.Chunks, maxSteps, maxChunks)
	case !within(c.Rate, least, 10):
		return c, fmt.Errorf("a rate of %v, want a number from %v to 10", c.Rate, least)
	case !within(c.Least, 0, 1):
		return c, fmt.Errorf("%v of the rate at the end, want a number from 0 to 1", c.Least)
	case c.Warmup < 0 || c.Warmup > c.Steps:
		return c, fmt.Errorf("a warmup of %d steps, want 0 to %d", c.Warmup, c.Steps)
	case !within(c.Beta1, 0, 0.9999) || !within(c.Beta2, 0, 0.99999):
		return c, fmt.Errorf("betas %v and %v, want numbers from 0 to below 1", c.Beta1, c.Beta2)
	case !within(c.Eps, least, 1):
		return c, fmt.Errorf("an eps of %v, want a number from %v to 1", c.Eps, least)
	case !within(c.Decay, 0, 1) || !within(c.Clip, 0, math.MaxFloat32):
		return c, fmt.Errorf("decay %v, clip %v: want small numbers, not below 0", c.Decay, c.Clip)
	case c.MuonRate != 0 && !within(c.MuonRate, least, 10) || !within(c.MuonBeta, 0, 0.9999) || !within(c.MuonDecay, 0, 1):
		return c, fmt.Errorf("a rate %v, beta %v and decay %v of Muon, want numbers such as 0.02, 0.95 and 0.05", c.MuonRate, c.MuonBeta, c.MuonDecay)
	case c.Schedule < Cosine || c.Schedule > Constant:
		return c, fmt.Errorf("schedule %d is none", c.Schedule)
	}
	return c, nil
}

// rate returns the rate of step number `step`, of which the first is 1.
func (c *Config) rate(step int) float64 {
	if step <= c.Warmup {
		return c.Rate * float64(step) / float64(c.Warmup)
	}
	done := float64(step-1-c.Warmup) / float64(max(c.Steps-c.Warmup, 1)) // from 0 to below 1
	left := 1.0
	switch c.Schedule {
	case Cosine:
		half := cosine(done)
		left = half * half // (1 + cos(pi x)) / 2
	case Linear:
		left = 1 - done
	}
	return c.Rate * (c.Least + float64((1-c.Least)*left))
}

// cosine returns the cosine of x right angles, x from 0 to 1, with the same bits on every CPU: its series, without fused
// operations.
func cosine(x float64) float64 {
	a := float64(x * (math.Pi / 2))
	z, sum, term := float64(a*a), 1.0, 1.0
	for k := 1; k < 15; k++ {
		term = float64(-term*z) / float64((2*k-1)*(2*k))
		sum += term
	}
	return max(sum, 0)
}

// A Step is what one step did.
type Step struct {
	Number       int
	Loss         float64 // the weighted mean of that of its tokens, or the mean of that of its examples, before it
	Weight       float64 // of these
	Right        float64 // the share of examples whose better text is preferred, see Objective
	Margin       float64 // by how much, on average
	GradientNorm float64 // before it was clipped
	Rate         float64
}

// A Run trains an adapter. It is not safe for concurrent use.
type Run struct {
	config Config
	state  State

	trainer *model.Trainer
	pool    *kernel.Pool
	texts   []model.Text
	base    [][]float64 // their outcomes without the adapter, as far as they were needed
	known   known       // of the texts that were measured last
	order   []int       // of the texts in this epoch
	ordered int         // the epoch that order is of, plus 1
	powers  [2]float64  // Beta1 and Beta2 to the power of the steps taken
	spans   []model.Span
	memory  *mem.Region // of the moments, and what Muon works in
	work    []float32   // of Muon
	added   *mem.Region // of sums
	budget  *mem.Budget
	sums    *tree
	team    *team // nil: it is alone
	failed  error // that ended the run
}

// A State is what a Run goes on from.
type State struct {
	Of    [sha256.Size]byte // a hash of the configuration, the texts, and the form of the adapter and of chunks
	Taken int               // steps
	Epoch int               // over the texts, from 0 on
	At    int               // texts of the epoch that were used

	Numbers                   []float32 // of the adapter
	FirstMoment, SecondMoment []float32 // of the gradient, by number; Muon's numbers, the last ones, have no second
}

// New returns a Run over the texts, which must stay as they are. What chunks hold depends on the texts, the configuration
// and the trainer's MaxTokens. It takes the trainer's adapter as it is.
func New(t *model.Trainer, pool *kernel.Pool, budget *mem.Budget, texts []model.Text, c Config) (*Run, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Objective != nil {
		err = checkExamples(t, texts, c.Objective)
	} else {
		err = check(texts, t)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{config: c, trainer: t, pool: pool, budget: budget, texts: texts, powers: [2]float64{1, 1}}
	n := len(t.Adapter.Numbers())
	second, work := r.divide()
	if r.memory, err = budget.Alloc("the optimiser", uint64(4*(n+second+work))); err != nil {
		return nil, err
	}
	_, waiting := placesOf(c.Chunks, 0, c.Chunks)
	if err := r.allocSums(waiting); err != nil {
		r.Close()
		return nil, err
	}
	if err := t.Adapter.Moved(pool); err != nil {
		r.Close()
		return nil, err
	}
	all := mem.Float32s(r.memory.Bytes())[:n+second+work]
	r.state = State{
		Of: r.hash(), Numbers: t.Adapter.Numbers(), FirstMoment: all[:n:n], SecondMoment: all[n : n+second : n+second],
	}
	r.work = all[n+second:]
	return r, nil
}

// divide decides what Muon takes. It returns how many numbers have second moments, and the floats that Muon works in.
func (r *Run) divide() (second, work int) {
	r.spans = r.trainer.Adapter.Spans()
	second = len(r.trainer.Adapter.Numbers())
	for i := range r.spans {
		s := &r.spans[i]
		if r.config.MuonRate == 0 {
			s.Out, s.In = 0, 0
		}
		if s.Out > 0 {
			second = min(second, s.From)
			work = max(work, kernel.MuonWork(s.Out, s.In))
		}
	}
	return second, work
}

// allocSums makes room for sums of as many chunks as wait for others at most.
func (r *Run) allocSums(waiting int) (err error) {
	n := len(r.trainer.Adapter.Numbers())
	r.freeSums()
	if r.added, err = r.budget.Alloc("sums of gradients", uint64(4*n*max(waiting, 1))); err == nil {
		r.sums = newTree(mem.Float32s(r.added.Bytes())[:n*waiting], n)
	}
	return err
}

func (r *Run) freeSums() {
	if r.added != nil {
		r.added.Close()
	}
}

// check returns an error if a text is too long, or its weights are none to divide by.
func check(texts []model.Text, t *model.Trainer) error {
	if t.Width() != 0 {
		return errors.New("texts come to vectors: training needs an objective that compares them")
	}
	for i, x := range texts {
		if n := len(x.Tokens); n < 2 || n > t.MaxText() {
			return fmt.Errorf("%s has %d tokens, want 2 to %d", nameOf(texts, i), n, t.MaxText())
		}
	}
	return checkWeights(texts, false)
}

// nameOf is how errors name a text: by the file and line of its example, or by its number.
func nameOf(texts []model.Text, i int) string {
	if where := texts[i].Where; where != "" {
		return where + ": its text"
	}
	return fmt.Sprintf("text %d", i+1)
}

// checkWeights returns an error if weights are none to divide by, of all texts together or of each.
func checkWeights(texts []model.Text, ofEach bool) error {
	all := 0.0
	for i, x := range texts {
		if len(x.Weights) != len(x.Tokens) {
			return fmt.Errorf("%s has %d tokens with %d weights", nameOf(texts, i), len(x.Tokens), len(x.Weights))
		}
		for _, w := range x.Weights[1:] {
			if w != 0 && !(w >= 1e-6 && w <= 1e6) {
				return fmt.Errorf("%s has a token of weight %v, want 0, or 1e-6 to 1e6", nameOf(texts, i), w)
			}
		}
		weight := weightOf(texts[i : i+1])
		if ofEach && weight == 0 {
			return fmt.Errorf("%s has no token of a weight behind its first", nameOf(texts, i))
		}
		all += weight
	}
	if all == 0 {
		return errors.New("no token of the texts is to be learnt")
	}
	return nil
}

// hash returns what State.Of has: all that must be the same for steps to have the same bits, but for the model's weights.
func (r *Run) hash() (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%+v %T\n%s\n%d %d\n", r.config, r.config.Objective, r.trainer.Adapter.Form(), r.trainer.MaxTokens(), len(r.texts))
	write(h, r.texts)
	h.Sum(sum[:0])
	return sum
}

// Digest returns a hash of texts.
func Digest(texts []model.Text) (sum [sha256.Size]byte) {
	h := sha256.New()
	write(h, texts)
	h.Sum(sum[:0])
	return sum
}

// write writes all that texts are to a hash, which takes all bytes.
func write(h hash.Hash, texts []model.Text) {
	for _, x := range texts {
		fmt.Fprintln(h, len(x.Tokens), len(x.Weights), len(x.Labels), x.Second)
		for _, v := range []any{x.Tokens, x.Weights, x.Labels} {
			_ = binary.Write(h, binary.LittleEndian, v)
		}
	}
}

// Config returns the configuration, with what its zeros mean.
func (r *Run) Config() Config { return r.config }

// State returns what a Run like this one goes on from. Its slices are the memory of the Run: they are to be read, and only
// until it takes another step or is closed.
func (r *Run) State() State { return r.state }

// Restore has the Run go on from a state of another with the same configuration, texts and form of the adapter. On an error
// about the state the Run is as it was. In a team it is called before Join, on rank 0.
func (r *Run) Restore(s State) error {
	if r.team != nil {
		return errJoined
	}
	return r.restore(s)
}

var errJoined = errors.New("a run that has joined others goes on from no other state")

// Load is Restore without a second state in memory: read is given the Run's own numbers and moments, with the rest of s, and
// fills them. Where that fails the run is over.
func (r *Run) Load(s State, read func(own State) error) error {
	if r.team != nil {
		return errJoined
	}
	s.Numbers, s.FirstMoment, s.SecondMoment = r.state.Numbers, r.state.FirstMoment, r.state.SecondMoment
	if err := r.fits(s); err != nil {
		return err
	}
	err := read(s)
	if err == nil {
		err = r.restore(s)
	}
	if err != nil && r.failed == nil {
		r.failed = fmt.Errorf("the run is over: %w", err)
	}
	return err
}

// fits returns an error if a state is none of a run like this one, whatever its numbers are.
func (r *Run) fits(s State) error {
	n, second := len(r.state.Numbers), len(r.state.SecondMoment)
	switch {
	case r.failed != nil:
		return r.failed
	case s.Of != r.state.Of:
		return errors.New("the state is of another configuration, of other texts, or of another form of adapter")
	case len(s.Numbers) != n || len(s.FirstMoment) != n || len(s.SecondMoment) != second:
		return fmt.Errorf("the state has %d numbers with %d and %d moments, want %d and %d", len(s.Numbers), len(s.FirstMoment), len(s.SecondMoment), n, second)
	case s.Taken < 0 || s.Taken > r.config.Steps:
		return fmt.Errorf("the state is of step %d, want 0 to %d", s.Taken, r.config.Steps)
	case s.At < 0 || s.At > len(r.texts) || s.At%r.config.each() != 0 || s.Epoch < 0 || s.Epoch > s.Taken*r.config.Chunks || s.Taken == 0 && s.At > 0:
		return fmt.Errorf("the state is at text %d of epoch %d, where %d steps do not lead", s.At, s.Epoch, s.Taken)
	}
	return nil
}

func (r *Run) restore(s State) error {
	if err := r.fits(s); err != nil {
		return err
	}
	for _, x := range [][]float32{s.Numbers, s.FirstMoment, s.SecondMoment} {
		if slices.ContainsFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			return errors.New("the state has numbers that are not finite")
		}
	}
	if slices.ContainsFunc(s.SecondMoment, func(v float32) bool { return v < 0 }) {
		return errors.New("the state has a second moment below 0")
	}
	copy(r.state.Numbers, s.Numbers)
	copy(r.state.FirstMoment, s.FirstMoment)
	copy(r.state.SecondMoment, s.SecondMoment)
	r.state.Taken, r.state.Epoch, r.state.At, r.ordered = s.Taken, s.Epoch, s.At, 0
	r.powers = [2]float64{1, 1}
	for range s.Taken { // as steps multiply them
		r.powers[0], r.powers[1] = r.powers[0]*r.config.Beta1, r.powers[1]*r.config.Beta2
	}
	return r.moved()
}

// moved has passes use the numbers as they are now. An error ends the run: the numbers have moved, and passes have not.
func (r *Run) moved() error {
	if err := r.trainer.Adapter.Moved(r.pool); err != nil {
		r.failed = fmt.Errorf("the run is over: %w", err)
	}
	return r.failed
}

// Close releases the memory of the optimiser. Closing again is a no-op.
func (r *Run) Close() {
	r.memory.Close()
	r.freeSums()
	r.team.close()
}

// Over reports whether all steps were taken.
func (r *Run) Over() bool { return r.state.Taken >= r.config.Steps }

// next returns the numbers of the texts of the next chunk, and moves on: as many of the epoch's in their order as fit, of whole
// examples.
func (r *Run) next() (chunk []int) {
	at := &r.state
	if at.At == len(r.texts) {
		at.Epoch, at.At = at.Epoch+1, 0
	}
	if r.ordered != at.Epoch+1 {
		r.order = order(len(r.texts), r.config.each(), r.config.Seed, at.Epoch)
		r.ordered = at.Epoch + 1
	}
	n := fill(r.texts, r.config.each(), r.order[at.At:], r.trainer.MaxTokens())
	chunk = r.order[at.At : at.At+n]
	at.At += n
	return chunk
}

// these returns the texts of these numbers.
func (r *Run) these(numbers []int) (texts []model.Text) {
	for _, i := range numbers {
		texts = append(texts, r.texts[i])
	}
	return texts
}

// Next takes a step. Where it fails, as with model.ErrStopped once stop (may be nil) is set, the state is that of before,
// and Next may be called again. Only where the numbers have moved and cannot be used the run is over: that error is also
// the one of all later calls.
func (r *Run) Next(stop *kernel.Stop) (Step, error) {
	switch {
	case r.failed != nil:
		return Step{}, r.failed
	case r.Over():
		return Step{}, errors.New("all steps were taken")
	}
	epoch, at := r.state.Epoch, r.state.At
	s, gradient, err := r.gradient(stop)
	if err != nil {
		r.state.Epoch, r.state.At = epoch, at
		return s, err
	}
	r.move(s, gradient)
	return s, r.moved()
}

// chunks returns those of a step that have something to learn, by their texts' numbers, and moves on. There is one at least, and
// Config.Chunks at most.
func (r *Run) chunks() (chunks [][]int, weight float64) {
	for i := 0; i < r.config.Chunks || weight == 0; i++ {
		numbers := r.next()
		if w := r.weightOf(r.these(numbers)); w > 0 {
			chunks = append(chunks, numbers)
			weight += w
		}
	}
	return chunks, weight
}

// gradient returns the sum of the gradients of a step's chunks.
func (r *Run) gradient(stop *kernel.Stop) (s Step, sum []float32, err error) {
	s = Step{Number: r.state.Taken + 1, Rate: r.config.rate(r.state.Taken + 1)}
	chunks, weight := r.chunks()
	r.sums.reset(len(chunks))
	r.sums.threads = r.pool.Threads()
	all, err := r.together(len(chunks), r.team.cuts(r.config.Chunks), func(i int) (Verdict, error) {
		v, err := r.judge(chunks[i], stop)
		if err == nil {
			r.sums.add(place{0, i}, r.trainer.Adapter.Gradient())
		}
		return v, err
	})
	if err == nil {
		sum, err = r.total()
	}
	if err != nil {
		return s, nil, err
	}
	s.mean(all, weight)
	s.GradientNorm = math.Sqrt(squares(sum)) / s.Weight
	if !(s.GradientNorm <= maxNorm) {
		return s, nil, model.ErrNotFinite
	}
	return s, sum, nil
}

// mean makes what verdicts say the step's, whose weight is that of all of them.
func (s *Step) mean(verdicts []Verdict, weight float64) {
	s.Weight = weight
	for _, v := range verdicts {
		s.Loss, s.Right, s.Margin = s.Loss+v.Loss, s.Right+v.Right, s.Margin+v.Margin
	}
	s.Loss, s.Right, s.Margin = s.Loss/weight, s.Right/weight, s.Margin/weight
}

// together returns the verdicts that do returns of each of n things, which ranks divide at the cuts. Those of others have no
// gradients.
func (r *Run) together(n int, cuts []int, do func(i int) (Verdict, error)) (verdicts []Verdict, err error) {
	r.team.begin()
	defer r.team.end()
	const each = 3 // numbers of a verdict
	values := make([]float64, each*n)
	from, to := r.team.share(cuts, n)
	for i := from; i < to && err == nil; i++ {
		var v Verdict
		v, err = do(i)
		copy(values[each*i:], []float64{v.Loss, v.Right, v.Margin})
	}
	scaled := make([]int, len(cuts))
	for i, at := range cuts {
		scaled[i] = each * at
	}
	err = r.team.agree(err, values, scaled...)
	for x := range slices.Chunk(values, each) {
		verdicts = append(verdicts, Verdict{Loss: x[0], Right: x[1], Margin: x[2]})
	}
	return verdicts, r.lost(err)
}

// total returns the sum of the gradients of all chunks.
func (r *Run) total() ([]float32, error) {
	if r.team == nil {
		return r.sums.total(), nil
	}
	r.team.begin()
	defer r.team.end()
	sum := r.trainer.Adapter.Gradient()
	return sum, r.lost(r.team.sum(sum, r.sums))
}

// lost returns err. Without the other ranks the run is over.
func (r *Run) lost(err error) error {
	if r.team != nil && r.team.lost != nil {
		r.failed = r.team.lost
	}
	return err
}

// move takes the step s by the sum of gradients.
func (r *Run) move(s Step, gradient []float32) {
	c, scale := r.config, 1/s.Weight
	if c.Clip > 0 && s.GradientNorm > c.Clip {
		scale *= c.Clip / s.GradientNorm
	}
	r.powers[0], r.powers[1] = r.powers[0]*c.Beta1, r.powers[1]*c.Beta2
	adamW := kernel.AdamW{
		Scale: float32(scale), Beta1: float32(c.Beta1), Beta2: float32(c.Beta2),
		Correction1: float32(1 / (1 - r.powers[0])), Correction2: float32(1 / (1 - r.powers[1])),
		Rate: float32(s.Rate), Decay: float32(c.Decay), Eps: float32(c.Eps),
	}
	for _, of := range r.spans {
		x, m, d := r.state.Numbers[of.From:of.To], r.state.FirstMoment[of.From:of.To], gradient[of.From:of.To]
		if of.Out > 0 {
			rate := float64(c.MuonRate * float64(s.Rate/c.Rate))
			muon := kernel.Muon{
				Scale: float32(scale), Beta: float32(c.MuonBeta), Keep: float32(1 - float64(c.MuonDecay*rate)),
				Move: float32(rate * math.Sqrt(max(1, float64(of.Out)/float64(of.In)))),
			}
			muon.Step(r.pool, x, m, d, r.work, of.Out, of.In)
			continue
		}
		step := adamW
		if of.Vector {
			step.Decay = 0
		}
		step.Step(r.pool, x, m, r.state.SecondMoment[of.From:of.To], d)
	}
	r.state.Taken++
}

// weightOf returns what the loss of texts is divided by: the weight of their tokens, or how many examples they are.
func (r *Run) weightOf(texts []model.Text) float64 {
	if r.config.Objective != nil {
		return float64(len(texts) / r.config.each())
	}
	return weightOf(texts)
}

// weightOf returns the sum of the weights of texts' tokens that have a loss.
func weightOf(texts []model.Text) (sum float64) {
	for _, x := range texts {
		for _, w := range x.Weights[1:] {
			sum += float64(w)
		}
	}
	return sum
}

// squares returns the sum of the squares, in order.
func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

// Loss returns the weighted mean of the loss of other texts' tokens, of at most as many tokens each as the Run's; with an
// objective, the mean of that of examples.
func (r *Run) Loss(texts []model.Text, stop *kernel.Stop) (float64, error) {
	s, err := r.Measure(texts, stop)
	return s.Loss, err
}

// Measure returns what a step would say of other texts, in chunks of their order, but for gradients and rates.
func (r *Run) Measure(texts []model.Text, stop *kernel.Stop) (s Step, err error) {
	if r.failed != nil {
		return s, r.failed
	}
	var parts [][]model.Text
	if o := r.config.Objective; o != nil {
		if err := checkExamples(r.trainer, texts, o); err != nil {
			return s, err
		}
		parts = r.inChunks(texts)
		if o.Base() {
			r.known.begin(texts, len(parts))
		}
	} else {
		for i := range texts { // one by one: their losses depend on no company
			if weightOf(texts[i:i+1]) > 0 {
				parts = append(parts, texts[i:i+1])
			}
		}
	}
	weight := 0.0
	for _, part := range parts {
		weight += r.weightOf(part)
	}
	if weight == 0 {
		return s, errors.New("no token of the texts has a weight")
	}
	all, err := r.together(len(parts), r.team.cuts(len(parts)), func(i int) (v Verdict, err error) {
		if r.config.Objective != nil {
			return r.measured(i, parts[i], stop)
		}
		v.Loss, err = r.trainer.Loss(parts[i], stop)
		return v, err
	})
	if err != nil {
		return s, err
	}
	s.mean(all, weight)
	return s, nil
}

// inChunks divides examples among chunks, in their order.
func (r *Run) inChunks(texts []model.Text) (parts [][]model.Text) {
	all := make([]int, len(texts))
	for i := range all {
		all[i] = i
	}
	for from := 0; from < len(texts); {
		n := fill(texts, r.config.each(), all[from:], r.trainer.MaxTokens())
		parts, from = append(parts, texts[from:from+n]), from+n
	}
	return parts
}
