package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// tuneChunk is how many tokens are learnt at once, unless an example has more. Requests wait for a layer of so many; products of
// matrices have about their full speed with as many.
const tuneChunk = 512

// tuneSteps is how many steps a job may have: of each there are numbers in memory, in what it is saved to, and in its table.
const tuneSteps = 100_000

// tuneSaves is how often the state of a fine-tuning job is saved.
const tuneSaves = 30 * time.Second

// A tuner fine-tunes the models of a fleet. It implements server.Tuner.
type tuner struct{ *Fleet }

// Identity implements server.Tuner.
func (f tuner) Identity(name string) (string, error) {
	m, err := f.tunedModel(name)
	if err != nil {
		return "", err
	}
	head, err := f.c.Files.Survey(m.Path, f.opening(m))
	if err != nil {
		return "", err
	}
	defer head.Close()
	return head.File.Identity(), head.File.Damaged()
}

// Tune implements server.Tuner. The model's file is mapped again, whatever serves it: training reads the rows as they lie in the
// file, whose pages are in the kernel's cache once for all who map them.
func (f tuner) Tune(ctx context.Context, w *batch.Work) error {
	model, err := f.tunedModel(w.Job.Model)
	if err != nil {
		return err
	}
	m, err := f.read(*model)
	if err != nil {
		return err
	}
	defer m.head.Close()
	if m.head.File.Identity() != w.Base {
		return &batch.TuneFault{Code: "model_changed", Message: fmt.Sprintf("the file of %.64q has changed since the job was created", w.Job.Model)}
	}
	t := &tuning{f: f.Fleet, w: w, m: m}
	if err := t.read(ctx); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	state, err := t.state()
	if err != nil {
		t.anew(err)
	} else if state != nil {
		defer state.Close()
	}
	room, err := t.reserve("examples of a fine-tuning job", t.exampleBytes())
	if err != nil {
		return err
	}
	defer room.Release()
	for again := false; ; again = true {
		f.device.Give(t.need())
		err := f.device.Guest(ctx, func(g *engine.Guest) error { return t.run(ctx, g, state) })
		var full *mem.LimitError
		if !errors.As(err, &full) {
			return err
		}
		if again {
			return noMemory(err)
		}
		f.device.Give(full.Need)
		f.device.Collect()
	}
}

// state opens what the job was saved to; nil: it was not.
func (t *tuning) state() (*finetune.Checkpoint, error) {
	path := t.w.State()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c, err := finetune.OpenCheckpoint(path)
	if err != nil {
		return nil, err
	}
	if err := c.Plan(t.plan); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// anew says that what was saved is lost, as where the program has changed.
func (t *tuning) anew(err error) {
	t.f.log.Warn().Str("job", t.w.Job.ID).Err(err).Msg("a fine-tuning job begins anew")
	t.w.Warn("What the job had saved cannot be used: it begins anew.")
}

func noMemory(err error) error {
	return &batch.TuneFault{Code: "server_error", Message: fmt.Sprintf("there is not enough memory for the job: %v", err)}
}

// tunedModel returns the model of a name, which is trained.
func (f *Fleet) tunedModel(name string) (*Model, error) {
	for _, m := range f.start {
		if m.Names[0] == name {
			return &m.Model, nil
		}
	}
	f.lister.mu.Lock()
	listed := f.lister.all[name]
	f.lister.mu.Unlock()
	if listed == nil {
		return nil, &batch.TuneFault{Code: "model_not_found", Message: fmt.Sprintf("there is no model %.64q any more", name)}
	}
	if listed.Broken != nil {
		return nil, listed.Broken
	}
	return &listed.Model, nil
}

// A tuning is a fine-tuning job that runs.
type tuning struct {
	f     *Fleet
	w     *batch.Work
	m     *member
	plan  *finetune.Plan
	saved time.Time

	unsaved bool // the last try failed
}

// A stoppable is a file that ends with a context's error.
type stoppable struct {
	io.Reader
	ctx context.Context
}

func (s stoppable) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(b)
}

// open opens a file of the job.
func (t *tuning) open(ctx context.Context, id string) (io.Reader, io.Closer, string, error) {
	in, name, err := t.w.Open(id)
	if err != nil {
		return nil, nil, "", err
	}
	return stoppable{in, ctx}, in, name, nil
}

// roomOf returns the memory that reading a file takes, about: some for each of its bytes, and for each object, as examples and
// their messages are.
func (t *tuning) roomOf(ctx context.Context, id string) (uint64, error) {
	in, file, _, err := t.open(ctx, id)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	const byByte, byObject = 4, 768
	var n uint64
	for some := make([]byte, 1<<16); ; {
		k, err := in.Read(some)
		n += byByte*uint64(k) + byObject*uint64(bytes.Count(some[:k], []byte("{")))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// examples reads a file of the job, of what its method learns from.
func (t *tuning) examples(ctx context.Context, id, param string) (*data.Set, error) {
	in, file, name, err := t.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	set, err := data.ReadFrom(in, name, data.Auto)
	if dpo := t.w.Wishes.Method == batch.DPO; err == nil && dpo != (len(set.Pairs) > 0) {
		want := "texts and answers; of pairs learns the method dpo"
		if dpo {
			want = "pairs of a better and a worse answer"
		}
		err = fmt.Errorf("%s: %s, want %s", name, set.Kind(), want)
	}
	if err != nil {
		return nil, badFile(param, err)
	}
	return set, nil
}

func badFile(param string, err error) error {
	return &batch.TuneFault{Code: "invalid_" + param, Message: err.Error(), Param: &param}
}

// read reads the files, and plans the steps.
func (t *tuning) read(ctx context.Context) error {
	need, err := t.roomOf(ctx, t.w.Job.Training)
	if v := t.w.Job.Validation; v != nil && err == nil {
		var more uint64
		more, err = t.roomOf(ctx, *v)
		need += more
	}
	if err != nil {
		return err
	}
	room, err := t.reserve("files of a fine-tuning job", need)
	if err != nil {
		return err
	}
	defer room.Release()
	learn, err := t.examples(ctx, t.w.Job.Training, "training_file")
	if err != nil {
		return err
	}
	held := &data.Set{}
	if v := t.w.Job.Validation; v != nil {
		if held, err = t.examples(ctx, *v, "validation_file"); err != nil {
			return err
		}
		if held.Kind() != learn.Kind() {
			return badFile("validation_file", fmt.Errorf("%s, and the training file has %s", held.Kind(), learn.Kind()))
		}
	}
	s, wish := finetune.Defaults(), t.w.Wishes
	s.Share, s.Patience = 0, 0 // all examples of the file, as often as was asked for
	s.Seed, s.LoRA.Seed, s.LoRA.Magnitudes = uint64(wish.Seed), uint64(wish.Seed), wish.DoRA
	if wish.Method == batch.DPO {
		s.Preference, s.Beta = finetune.DPO, wish.Beta
		s.Rate = s.Preference.Rate()
	}
	if wish.Epochs > 0 {
		s.Epochs = wish.Epochs
	}
	if wish.Rate > 0 {
		s.Rate *= wish.Rate
	}
	plan := func() (err error) {
		head, longest := t.m.head, t.m.head.Config.NCtx
		r := data.Renderer{Tokenizer: head.Tokenizer, Template: t.m.template, Now: time.Unix(t.w.Job.Created, 0), Until: ctx, Workers: 1}
		switch {
		case len(learn.Compared) > 0:
			t.plan, err = finetune.NewComparison(finetune.NewEncoder(head.Config, head.Tokenizer, head.Pair), learn.Compared, held.Compared, longest, s)
		case s.Preference != "":
			t.plan, err = finetune.NewPairPlan(&r, learn.Pairs, held.Pairs, longest, s)
		default:
			t.plan, err = finetune.NewPlan(&r, learn.Examples, held.Examples, longest, s)
		}
		if err != nil {
			return badFile("training_file", err)
		}
		return nil
	}
	if err = plan(); err == nil && wish.Examples > 0 {
		s.Batch = max(wish.Examples*t.plan.Learnt.Tokens/max(t.plan.Learnt.Examples, 1), 1)
		err = plan()
	}
	if err == nil {
		err = t.plan.Limit(tuneChunk)
	}
	if err != nil {
		return err
	}
	if n := t.plan.Config.Steps; n > tuneSteps {
		param := "hyperparameters"
		return &batch.TuneFault{Code: "invalid_" + param, Param: &param, Message: fmt.Sprintf(
			"these are %d steps, want at most %d; fewer n_epochs or a larger batch_size make it so", n, tuneSteps)}
	}
	return nil
}

// exampleBytes is what the examples' tokens take, with their weights.
func (t *tuning) exampleBytes() uint64 {
	const text = 128 // besides
	return 8*uint64(t.plan.Learnt.Tokens+t.plan.HeldOut.Tokens) + text*uint64(len(t.plan.Texts)+len(t.plan.Held))
}

// reserve reserves memory, for which caches make room.
func (t *tuning) reserve(purpose string, n uint64) (*mem.Reservation, error) {
	room, err := t.f.device.Budget().Reserve(purpose, n)
	if full := (*mem.LimitError)(nil); errors.As(err, &full) {
		t.f.device.Give(full.Need)
		room, err = t.f.device.Budget().Reserve(purpose, n)
	}
	if err != nil {
		return nil, noMemory(err)
	}
	return room, nil
}

// need is about what training takes, for which caches make room: it runs in less, in smaller chunks.
func (t *tuning) need() uint64 {
	c, rank := t.m.head.Config, t.plan.Settings.LoRA.Rank
	const matrices, copies = 14, 6 // wide and narrow sides of a layer's, and what there is for each number
	numbers := uint64(rank) * matrices * uint64(c.NEmbd*len(c.Layers))
	return 4*uint64(t.plan.MaxTokens)*uint64(c.NEmbd)*uint64(len(c.Layers)+40) + 4*copies*numbers + 128<<20
}

// run trains, as a guest of the device.
func (t *tuning) run(ctx context.Context, g *engine.Guest, state *finetune.Checkpoint) error {
	w := t.w
	job, err := finetune.New(ctx, finetune.Source{File: t.m.head.File, Pool: g.Pool(), Budget: t.f.device.Budget(), Between: g.Between}, t.plan)
	if err != nil {
		if full := (*mem.LimitError)(nil); errors.As(err, &full) || ctx.Err() != nil {
			return err
		}
		return &batch.TuneFault{Code: "server_error", Message: err.Error()}
	}
	defer job.Close()
	const curve = 1 << 20 // bytes, and what else a file of numbers has
	if err := w.ReserveResults(int64(job.Size().Adapter) + curve); err != nil {
		if state != nil && errors.Is(err, batch.ErrFull) { // what it has learnt is not to be lost
			if paused := w.Pause(fmt.Sprintf("There is no room for an adapter of %s: %v. The job is paused, and goes on when it is resumed.",
				mem.FormatBytes(job.Size().Adapter), err)); paused == nil {
				return context.Canceled
			}
		}
		return &batch.TuneFault{Code: "server_error", Message: fmt.Sprintf("there is no room for an adapter of %s: %v",
			mem.FormatBytes(job.Size().Adapter), err)}
	}
	if state != nil {
		if err := job.Restore(state); err != nil {
			t.anew(err)
		}
	}
	_, left, err := job.Measure(ctx)
	if err != nil {
		return t.failed(err)
	}
	s, steps := t.plan.Settings, t.plan.Config.Steps
	rate := cmp.Or(w.Wishes.Rate, 1)
	examples := max(s.Batch*t.plan.Learnt.Examples/max(t.plan.Learnt.Tokens, 1), 1)
	if s.Batch == 0 {
		examples = max(t.plan.Config.Chunks*t.plan.MaxTokens*t.plan.Learnt.Examples/max(t.plan.Learnt.Tokens, 1), 1)
	}
	shown := batch.TuneSettings{Batch: min(examples, t.plan.Learnt.Examples), Rate: rate, Epochs: s.Epochs, Beta: cmp.Or(s.Beta, train.DefaultBeta), DoRA: s.LoRA.Magnitudes}
	if err := w.Begin(shown, time.Now().Add(left)); err != nil {
		return err
	}
	if job.Taken() == 0 {
		w.Event(fmt.Sprintf("The job has begun: %d steps over %d examples of %d tokens, %s.", steps, t.plan.Learnt.Examples, t.plan.Learnt.Tokens,
			mem.FormatBytes(job.Size().Memory)), nil)
	} else {
		w.Event(fmt.Sprintf("The job goes on behind step %d of %d.", job.Taken(), steps), nil)
	}
	t.saved = time.Now()
	err = job.Run(ctx, finetune.Events{
		Step: func(s train.Step) {
			if every := max(steps/100, 1); s.Number == 1 || s.Number == steps || s.Number%every == 0 {
				w.Event(fmt.Sprintf("Step %d/%d: training loss=%.4f", s.Number, steps, s.Loss), &batch.TunePoint{Step: s.Number, Loss: s.Loss})
			}
		},
		Held: func(p finetune.Point, _ bool) {
			w.Event(fmt.Sprintf("Step %d/%d: validation loss=%.4f", p.Step, steps, p.Held), &batch.TunePoint{Step: p.Step, Held: p.Held})
		},
		Each: func() error {
			if time.Since(t.saved) < tuneSaves {
				return nil
			}
			t.save(g, job)
			return nil
		},
	})
	if err != nil {
		if ctx.Err() == nil {
			return t.failed(err)
		}
		t.save(g, job)
		return ctx.Err()
	}
	return t.finish(g, job)
}

// failed is an error of a run, as the client is told.
func (t *tuning) failed(err error) error {
	if errors.Is(err, model.ErrNotFinite) {
		return &batch.TuneFault{Code: "server_error", Message: err.Error() + "; a smaller learning_rate_multiplier may help"}
	}
	return err
}

// save saves what the job goes on from. Where it cannot, the job goes on without, and what it was saved to before stays.
func (t *tuning) save(g *engine.Guest, job *finetune.Job) {
	t.saved = time.Now()
	const head = 1 << 20
	err := t.w.Reserve(int64(job.Size().Checkpoint) + head)
	if err == nil {
		g.Aside(func() { err = job.Save(t.w.State(), time.Unix(t.w.Job.Created, 0)) })
	}
	if err != nil && !t.unsaved {
		t.f.log.Warn().Str("job", t.w.Job.ID).Err(err).Msg("a fine-tuning job cannot be saved")
		why := "the log of the server has more"
		if errors.Is(err, batch.ErrFull) {
			why = err.Error()
		}
		t.w.Warn(fmt.Sprintf("After step %d the job cannot be saved: %s. If it is interrupted it goes on from where it was saved before.", job.Taken(), why))
	}
	t.unsaved = err != nil
}

// finish writes the results.
func (t *tuning) finish(g *engine.Guest, job *finetune.Job) (err error) {
	best := batch.TunePoint{Step: job.Taken()}
	var curve bytes.Buffer
	fmt.Fprintln(&curve, "step,train_loss,valid_loss")
	number := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.6g", x)
	}
	for _, p := range job.Points {
		fmt.Fprintf(&curve, "%d,%s,%s\n", p.Step, number(p.Loss), number(p.Held))
		if job.Evaluated >= 0 && p.Step == job.BestStep || job.Evaluated < 0 && p.Step == best.Step {
			best = batch.TunePoint{Step: p.Step, Loss: p.Loss, Held: p.Held}
		}
	}
	if job.Evaluated >= 0 && job.BestStep == 0 {
		t.w.Warn("No step made the validation loss smaller: the model is as it was before. A smaller learning_rate_multiplier may help.")
	}
	tokens := int(job.Tokens() * float64(job.Taken()) / float64(t.plan.Config.Steps))
	var name string
	g.Aside(func() {
		name, err = t.w.Done(func(path string) (int64, error) { return job.WriteGGUF(path, true, 0o600) }, curve.Bytes(), best, tokens)
	})
	if err != nil {
		return err
	}
	t.w.Event(fmt.Sprintf("The job has succeeded: the model is %s, as after step %d.", name, best.Step), nil)
	t.f.log.Info().Str("job", t.w.Job.ID).Str("model", name).Int("steps", job.Taken()).Msg("a model is fine-tuned")
	return nil
}
