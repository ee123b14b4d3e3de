package finetune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train"
)

// A Job is a fine-tuning. It is not safe for concurrent use.
type Job struct {
	*Plan
	model   *model.Model
	pool    *kernel.Pool
	budget  *mem.Budget
	trainer *model.Trainer
	run     *train.Run
	best    *mem.Region // the numbers of the best adapter so far; nil: there is nothing held out
	ranks   *kernel.Ranks
	joined  bool // the others
	progress
}

// progress is what else a run goes on from.
type progress struct {
	Points    []Point
	Evaluated int     // the last step after which the held-out loss was measured; -1: never
	Best      float64 // the smallest one
	BestStep  int
	Worse     int  // measurements since
	Early     bool // these were too many
}

// A Point is what is known of a step.
type Point struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss,omitzero"` // of what was learnt in it, before it
	Rate float64 `json:"rate,omitzero"`
	Norm float64 `json:"norm,omitzero"` // of the gradient
	Held float64 `json:"held,omitzero"` // the held-out loss after it, where it was measured

	HeldRight float64 `json:"held_right,omitzero"` // the share of held-out examples that are right, see train.Step
}

// Source is the model's file, of which a Job has its identity, and what computes.
type Source struct {
	File   *model.File
	Pool   *kernel.Pool
	Budget *mem.Budget
	// Spare: what is left of the Budget is not needed by others meanwhile, and half of it may make the run faster.
	Spare bool
	// Between is called often, where others may use the pool. It may be nil.
	Between func()
	// Ranks are those that take the steps together, each with the same model, examples and settings: New is called by all of them
	// at the same time. nil: there are no others.
	Ranks *kernel.Ranks
}

// pack packs parts of matrices, with others' turns between them.
func (s *Source) pack(dst kernel.Matrix, first int, src kernel.Matrix) error {
	if s.Between != nil {
		s.Between()
	}
	return s.Pool.PackInto(dst, first, src)
}

// New loads the model, and allocates all that a run needs, so that it does not fail for memory later. Where that does not
// fit, chunks become smaller as far as examples allow; a *mem.LimitError says what is missing.
func New(ctx context.Context, src Source, p *Plan) (_ *Job, err error) {
	j := &Job{Plan: p, pool: src.Pool, budget: src.Budget, ranks: src.Ranks, progress: progress{Evaluated: -1}}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	if !p.Settings.fresh() {
		survey, err := model.NewSurvey(src.File, keysAndValues, 0)
		if err != nil {
			return nil, err
		}
		j.model, err = survey.Load(model.Options{Pack: src.pack, Budget: src.Budget, Residency: model.Mapped, Until: ctx})
		if err != nil {
			return nil, err
		}
		if p.Pooling == nn.PoolNone && !j.model.Has(nn.Logits) {
			return nil, fmt.Errorf("%s makes no texts; give it texts to compare, or with classes", j.model.Config.Arch)
		}
	}
	if src.Ranks != nil {
		if err := p.share(src.Ranks.Count()); err != nil {
			return nil, err
		}
	}
	for {
		err := j.allocate(src)
		var full *mem.LimitError
		if err == nil && src.Ranks != nil {
			err = j.alike(src)
		}
		if err == nil {
			return j, nil
		}
		if !errors.As(err, &full) || !p.shrink() {
			return nil, err
		}
	}
}

func (j *Job) allocate(src Source) (err error) {
	defer func() {
		if err != nil {
			j.release()
		}
	}()
	adapter, err := j.tuned(src)
	if err != nil {
		return err
	}
	j.trainer, err = model.NewTrainer(j.model, adapter, model.TrainerConfig{
		Pool: src.Pool, Budget: src.Budget, MaxTokens: j.MaxTokens, Pooling: j.Pooling, Between: src.Between,
	})
	if err != nil {
		return err
	}
	if j.run, err = train.New(j.trainer, src.Pool, src.Budget, j.Texts, j.Config); err != nil {
		return err
	}
	if len(j.Held) > 0 {
		if j.best, err = src.Budget.Alloc("the best adapter", uint64(len(adapter.Numbers())*4)); err != nil {
			return err
		}
	}
	if src.Spare && src.Ranks == nil { // ranks of one machine would each take half of the same memory
		j.trainer.Keep(j.trainer.Spare())
	}
	return nil
}

// release frees what allocate has allocated.
func (j *Job) release() {
	if j.best != nil {
		j.best.Close()
	}
	if j.run != nil {
		j.run.Close()
	}
	if j.trainer != nil {
		j.trainer.Close()
	}
	if j.Settings.fresh() {
		j.model = nil // it was the trainer's
	}
	j.best, j.run, j.trainer = nil, nil, nil
}

// Close releases the memory. Closing again is a no-op.
func (j *Job) Close() {
	j.release()
	if j.model != nil {
		j.model.Close()
	}
	j.model = nil
}

// Size is what an adapter and its training take.
type Size struct {
	Matrices, Numbers int    // that are trained
	Adapter           uint64 // bytes of its file, about
	Memory            uint64 // bytes beside the model's weights
	Kept              uint64 // of them, what there is so that layers are not computed twice
	Checkpoint        uint64 // bytes of the file of Save, about
}

// Size returns what the Job takes.
func (j *Job) Size() Size {
	n := len(j.trainer.Adapter.Numbers())
	s := Size{Matrices: j.trainer.Adapter.Matrices, Numbers: n, Adapter: uint64(4 * n), Checkpoint: uint64(12 * n)}
	_, s.Kept = j.trainer.Kept()
	if j.Settings.fresh() {
		s.Adapter, _ = j.trainer.Adapter.Write("", j.trainer.Adapter.Numbers()).Size() // which it had before
	}
	s.Memory = j.trainer.Bytes() + j.trainer.Adapter.Bytes() + j.run.Bytes()
	if j.best != nil {
		s.Memory += uint64(len(j.best.Bytes()))
		s.Checkpoint += uint64(4 * n)
	}
	return s
}

// Adapts reports whether there is an adapter of a tensor of the model.
func (j *Job) Adapts(tensor string) bool { return j.trainer.Adapter.Adapts(tensor) }

// comparesWithBeginning reports whether the objective needs what the weights before the first step make of texts.
func (j *Job) comparesWithBeginning() bool {
	return j.Settings.Weights != "" && j.Objective != nil && j.Objective.Base()
}

// Measure computes the gradient of the first chunk, which is thrown away, and returns how many tokens a second that was, and
// how long what is left of the run takes at this speed, about, but no more than a century.
func (j *Job) Measure(ctx context.Context) (speed float64, left time.Duration, err error) {
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	start := time.Now()
	n, err := j.run.Rehearse(stop)
	if err != nil {
		return 0, 0, stopped(ctx, err)
	}
	took := time.Since(start)
	speed = float64(n) / max(took.Seconds(), 1e-9)
	steps := j.Config.Steps - j.run.State().Taken
	tokens := float64(steps*j.Config.Chunks) * j.tokensOfChunk()
	const forward = 4                                // a loss takes a quarter of a gradient, about
	if j.comparesWithBeginning() && j.Taken() == 0 { // what the beginning makes of them
		tokens += float64(j.Learnt.Tokens) / forward
	}
	if j.Every > 0 {
		tokens += float64(steps/j.Every+2) * float64(j.HeldOut.Tokens) / forward
	}
	const century = 100 * 365 * 24 * time.Hour
	return speed, time.Duration(min(tokens/speed*float64(time.Second), float64(century))), nil
}

// tokensOfChunk returns how many tokens a chunk has on average.
func (j *Job) tokensOfChunk() float64 {
	return float64(j.Learnt.Tokens) / float64(train.Chunks(j.Texts, j.Config.Objective, j.MaxTokens, j.Config.Seed, 1))
}

// Tokens returns how many tokens all steps learn from, about.
func (j *Job) Tokens() float64 { return float64(j.Config.Steps*j.Config.Chunks) * j.tokensOfChunk() }

// Events are called while a Job runs. Each may be nil.
type Events struct {
	Step func(train.Step)         // was taken
	Held func(p Point, best bool) // the held-out loss was measured
	Each func() error             // after each of these, when the Job may be saved; an error ends the run
}

// Taken returns how many steps were taken.
func (j *Job) Taken() int { return j.run.State().Taken }

// Base returns the held-out loss before the first step, which is that of the model without an adapter; ok: it was measured.
func (j *Job) Base() (loss float64, ok bool) {
	if len(j.Points) == 0 || j.Points[0].Step != 0 {
		return 0, false
	}
	return j.Points[0].Held, true
}

// Run takes all steps that are left, unless the held-out loss does not get better any more, and ctx does not end. Then the
// Job is as after the last whole step, and may be saved, or run again. With ranks all call it at the same time; what one of them
// ends for is so on all, and rank 0 has the results.
func (j *Job) Run(ctx context.Context, e Events) error {
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	each := func() error {
		if e.Each != nil {
			return e.Each()
		}
		return nil
	}
	if err := j.join(); err != nil {
		return err
	}
	if err := j.run.Begin(j.Held, stop); err != nil {
		return stopped(ctx, err)
	}
	for {
		taken := j.Taken()
		if j.due(taken) && j.Evaluated < taken {
			if err := j.measure(stop, e); err != nil {
				return stopped(ctx, err)
			}
			if err := each(); err != nil {
				return err
			}
		}
		if j.run.Over() || j.Early {
			j.trainer.Keep(0)
			return nil
		}
		s, err := j.run.Next(stop)
		if err != nil {
			if errors.Is(err, model.ErrNotFinite) {
				err = fmt.Errorf("step %d: %w", s.Number, err)
			}
			return stopped(ctx, err)
		}
		j.Points = append(j.Points, Point{Step: s.Number, Loss: s.Loss, Rate: s.Rate, Norm: s.GradientNorm})
		if e.Step != nil {
			e.Step(s)
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// due reports whether the held-out loss is to be measured after a step.
func (j *Job) due(taken int) bool {
	return j.Every > 0 && (taken%j.Every == 0 || taken == j.Config.Steps)
}

// measure measures the held-out loss, and keeps the adapter if it is the best so far.
func (j *Job) measure(stop *kernel.Stop, e Events) error {
	m, err := j.run.Measure(j.Held, stop)
	if err != nil {
		return err
	}
	loss, taken := m.Loss, j.Taken()
	if n := len(j.Points); n == 0 || j.Points[n-1].Step != taken {
		j.Points = append(j.Points, Point{Step: taken})
	}
	last := &j.Points[len(j.Points)-1]
	last.Held, last.HeldRight = loss, m.Right
	best := j.Evaluated < 0 || loss < j.Best
	j.Evaluated = taken
	if best {
		j.Best, j.BestStep, j.Worse = loss, taken, 0
		copy(mem.Float32s(j.best.Bytes()), j.run.State().Numbers)
	} else {
		j.Worse++
		j.Early = j.impatient()
	}
	if e.Held != nil {
		e.Held(j.Points[len(j.Points)-1], best)
	}
	return nil
}

// impatient reports whether too many measurements brought nothing better.
func (j *Job) impatient() bool { return j.Settings.Patience > 0 && j.Worse >= j.Settings.Patience }

// Numbers returns those of the best adapter, or of the latest where nothing was measured. They are memory of the Job.
func (j *Job) Numbers() []float32 {
	if j.Evaluated < 0 || j.best == nil {
		return j.run.State().Numbers
	}
	return mem.Float32s(j.best.Bytes())[:len(j.run.State().Numbers)]
}

// stopped is the context's error where that is why something stopped.
func stopped(ctx context.Context, err error) error {
	if errors.Is(err, model.ErrStopped) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
