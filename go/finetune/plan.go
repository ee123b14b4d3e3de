package finetune

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// A Plan is what is trained, and how. Nothing of the model's weights is needed to make it.
type Plan struct {
	Settings  Settings
	Texts     []model.Text // that are learnt
	Held      []model.Text // of which the loss is measured
	Learnt    data.Counts  // of Texts
	HeldOut   data.Counts  // of Held
	MaxTokens int          // of a chunk
	Objective train.Objective
	Pooling   nn.Pooling // of vectors, or of scores; PoolNone: what a model writes is learnt
	Classes   []string   // of the classifier whose Labels the texts have; nil: they have none
	Config    train.Config
	Every     int // steps between measurements; 0: there is nothing held out

	fixed bool // MaxTokens is that of a run that was saved
}

// What a step has where Settings leave it open: a part of an epoch's tokens, within limits. Small data gets more steps, and
// large data chunks with which products reach their full speed.
const (
	stepsOfEpoch         = 64
	leastBatch, topBatch = 512, 8192
)

// NewPlan renders examples, and divides them into steps. held may be empty: then a share of the examples is held out. The
// renderer's MaxTokens and Long are set here. longest is the most tokens that the model takes, 0 for any number.
func NewPlan(r *data.Renderer, learn, held []data.Example, longest int, s Settings) (*Plan, error) {
	if s.Preference != "" {
		return nil, fmt.Errorf("%s learns from pairs of a better and a worse answer, and these are examples of one", s.Preference)
	}
	p, err := planFor(r, longest, s)
	if err != nil {
		return nil, err
	}
	if len(held) == 0 {
		learn, held = data.Split(learn, s.Share)
	}
	if p.Texts, p.Learnt, err = r.Render(learn); err != nil {
		return nil, err
	}
	if p.Held, p.HeldOut, err = r.Render(held); err != nil {
		return nil, err
	}
	return p, p.divide(0)
}

// NewTextPlan is NewPlan for texts that are rendered already, none longer than the settings' Context. Nothing is held out of those
// that are learnt.
func NewTextPlan(learn, held []model.Text, learnt, heldOut data.Counts, longest int, s Settings) (*Plan, error) {
	if err := s.complete(longest); err != nil {
		return nil, err
	}
	p := &Plan{Settings: s, Texts: learn, Held: held, Learnt: learnt, HeldOut: heldOut}
	return p, p.divide(0)
}

// NewPairPlan is NewPlan for pairs of answers, of which the settings' Preference learns.
func NewPairPlan(r *data.Renderer, learn, held []data.Pair, longest int, s Settings) (*Plan, error) {
	if s.Preference == "" {
		return nil, errors.New("these are pairs of a better and a worse answer; want DPO or ORPO for them")
	}
	p, err := planFor(r, longest, s)
	if err != nil {
		return nil, err
	}
	if len(held) == 0 {
		learn, held = data.SplitPairs(learn, s.Share)
	}
	render := func(pairs []data.Pair) (texts []model.Text, c data.Counts, err error) {
		chosen, rejected, c, err := r.RenderPairs(pairs)
		for i := range chosen {
			texts = append(texts, chosen[i], rejected[i])
		}
		return texts, c, err
	}
	if p.Texts, p.Learnt, err = render(learn); err != nil {
		return nil, err
	}
	if p.Held, p.HeldOut, err = render(held); err != nil {
		return nil, err
	}
	return p, p.divide(0)
}

// planFor returns a Plan without texts, and tells the renderer how long these may be.
func planFor(r *data.Renderer, longest int, s Settings) (*Plan, error) {
	if err := s.complete(longest); err != nil {
		return nil, err
	}
	r.MaxTokens, r.Long = s.Context, s.Long
	return &Plan{Settings: s, Objective: s.objective()}, nil
}

// complete checks the settings, and sets the tokens of an example for a model that takes so many, 0 for any number.
func (s *Settings) complete(longest int) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Weights != "" { // under one of its names
		mix, err := quant.ParseMix(s.Weights)
		if err != nil {
			return err
		}
		s.Weights = mix.Name
	}
	if s.Context == 0 {
		s.Context = DefaultContext
		if longest > 0 {
			s.Context = min(s.Context, longest)
		}
	}
	if longest > 0 && s.Context > longest {
		return fmt.Errorf("examples of %d tokens: the model was made for %d at most", s.Context, longest)
	}
	return nil
}

// objective returns what a run makes small; nil: the loss of what is learnt.
func (s *Settings) objective() train.Objective {
	switch s.Preference {
	case DPO:
		return train.DPO{Beta: s.Beta}
	case ORPO:
		return train.ORPO{Beta: s.Beta}
	}
	return nil
}

// longest returns the tokens that the longest example takes of a chunk.
func (p *Plan) longest() (n int) {
	for _, all := range [][]model.Text{p.Texts, p.Held} {
		for example := range slices.Chunk(all, p.each()) {
			n = max(n, p.room(example))
		}
	}
	return n
}

// divide decides what a step is: chunks of at most `most` tokens each, 0 for as many as a step has.
func (p *Plan) divide(most int) error {
	if len(p.Texts) == 0 {
		return errors.New("no example has anything to learn within the tokens that it may have")
	}
	s, longest := &p.Settings, p.longest()
	batch := s.Batch
	if batch == 0 {
		batch = min(max(p.Learnt.Tokens/stepsOfEpoch, leastBatch), topBatch)
	}
	p.MaxTokens = min(max(batch, longest), max(s.Context, longest))
	if p.Pooling != nn.PoolNone { // in one chunk, where they are compared with each other, if memory allows
		batch = p.compared()
		p.MaxTokens = max(batch, longest)
	}
	if most > 0 {
		p.MaxTokens = max(min(p.MaxTokens, most), longest)
	}
	p.MaxTokens = model.WholeBlocks(p.MaxTokens)
	p.Config = train.Config{
		Chunks: max((batch+p.MaxTokens/2)/p.MaxTokens, 1), Rate: s.Rate, Least: s.Least, Schedule: s.Schedule,
		Decay: s.Decay, Clip: s.Clip, Seed: s.Seed, Steps: s.Steps, Beta2: s.Beta2, MuonRate: s.Muon, MuonDecay: s.MuonDecay,
		Objective: p.Objective,
	}
	if s.Steps == 0 {
		chunks := train.Chunks(p.Texts, p.Config.Objective, p.MaxTokens, s.Seed, s.Epochs)
		p.Config.Steps = max((chunks+p.Config.Chunks-1)/p.Config.Chunks, 1)
	}
	if p.Config.Steps > maxSteps {
		return fmt.Errorf("%d steps, want at most %d", p.Config.Steps, maxSteps)
	}
	p.Config.Warmup = min(int(math.Ceil(s.Warmup*float64(p.Config.Steps))), p.Config.Steps)
	p.Every = 0
	if len(p.Held) > 0 {
		if p.Every = s.Every; p.Every == 0 {
			p.Every = max(p.Config.Steps/10, 1)
		}
	}
	return nil
}

// Limit makes chunks of at most so many tokens, unless an example has more, or texts are compared with others of their chunk: a
// layer of a chunk is what others wait for beside a run.
func (p *Plan) Limit(tokens int) error {
	if p.Pooling != nn.PoolNone || p.MaxTokens <= tokens {
		return nil
	}
	return p.divide(tokens)
}

// shrink makes chunks smaller, so that they take less memory, and reports whether it could: those of a saved run stay.
func (p *Plan) shrink() bool {
	before := p.MaxTokens
	return !p.fixed && before/2 >= leastBatch && p.divide(before/2) == nil && p.MaxTokens < before
}
