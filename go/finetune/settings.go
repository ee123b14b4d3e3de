// Package finetune trains an adapter, or all weights, from beginning to end: it plans how examples are learnt in steps, says what that takes
// before it begins, runs the steps, measures the loss on examples that are held out, keeps the best adapter, saves what a
// run goes on from, and writes the results. It knows no terminal, no flags and no server; it reads and writes only the
// files that it is told.
package finetune

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// Settings say how an adapter is trained. Defaults has good ones.
type Settings struct {
	LoRA model.LoRA
	// Weights has all weights trained in place of an adapter, and is their type, or mix of types: passes multiply with weights
	// rounded to it, and so are they written. "": an adapter is trained.
	Weights string

	// Head has a head trained that drafts for the model, whose weights stay; HeadTokens is how many tokens it guesses among at
	// most, 0 for any number.
	Head       bool
	HeadTokens int

	// Classes are of the new classifier that the model's file was given (model.File.Classify), which is trained; nil: it was given none.
	Classes []string

	Preference Preference // that pairs of answers are learnt with; empty: examples of one are learnt
	Beta       float64    // of it; 0: 0.1

	Temperature float64 // of texts that are compared, see train.Contrast; 0: 0.05

	Epochs   int // over the examples, unless Steps says otherwise
	Steps    int // 0: as many as Epochs are
	Context  int // most tokens of an example; 0: DefaultContext, or the model's if that is shorter
	Batch    int // tokens of a step; 0: by how many there are
	Long     data.Long
	Rate     float64
	Least    float64 // what is left of it at the end, from 0 to 1
	Warmup   float64 // of the steps, from 0 to 1
	Schedule train.Schedule
	Decay    float64
	Beta2    float64 // of AdamW; 0: train's
	// Muon is the largest rate of Muon, for the matrices of layers, with Weights; 0: AdamW takes these too.
	Muon, MuonDecay float64
	Clip            float64 // 0: gradients may have any norm
	Seed            uint64

	Share    float64 // of the examples that is held out where none are given for that
	Every    int     // steps between measurements of the held-out loss; 0: a tenth of all
	Patience int     // measurements without a better one after which the run ends; 0: it does not
}

// fresh reports whether what is trained has a model of its own, and not an adapter.
func (s *Settings) fresh() bool { return s.Weights != "" || s.Head }

// ClassifierAlone reports whether a new classifier is trained without an adapter: no target is a matrix that the model had.
func (s *Settings) ClassifierAlone() bool {
	own := func(word string) bool { return slices.Contains(model.ClassifierTargets, word) }
	return s.Classes != nil && s.Weights == "" && len(s.LoRA.Targets) > 0 && !slices.ContainsFunc(s.LoRA.Targets, func(w string) bool { return !own(w) })
}

// OfModel reports whether what is written is a model, and not an adapter.
func (s *Settings) OfModel() bool { return s.fresh() || s.Classes != nil }

// A Preference is a way to learn from pairs of a better and a worse answer, see train.DPO and train.ORPO.
type Preference string

// The ways.
const (
	DPO  Preference = "dpo"
	ORPO Preference = "orpo"
)

// UsualRate returns a rate that suits most models and data: of the literature's. All weights move together, and take less than
// adapters; a head's are random at first, and take more, as do those of a new classifier, which is a single product.
func (s *Settings) UsualRate() float64 {
	switch {
	case s.Head:
		return 5e-4
	case s.ClassifierAlone():
		return 2e-2
	case s.Classes != nil && s.Weights == "":
		return 1e-3
	case s.Classes != nil:
		return 1e-4
	case s.Weights == "":
		return s.Preference.Rate()
	case s.Preference == DPO:
		return 1e-6
	case s.Preference == ORPO:
		return 5e-6
	}
	return 2e-5
}

// Rate returns that of adapters.
func (p Preference) Rate() float64 {
	switch p {
	case DPO:
		return 2e-5
	case ORPO:
		return 5e-5
	}
	return 2e-4
}

// DefaultContext is the most tokens of an example where the settings leave it open.
const DefaultContext = 2048

// Defaults returns settings that suit most models and data. Adapters on all matrices, with an alpha of twice the rank: Biderman
// et al. 2024, "LoRA Learns Less and Forgets Less"; the rate: Dettmers et al. 2023, "QLoRA".
func Defaults() Settings {
	return Settings{LoRA: model.LoRA{Rank: 16, Alpha: 32}, Epochs: 3, Long: data.Cut, Rate: Preference("").Rate(), Warmup: 0.03,
		Clip: 1, Share: 0.05, Patience: 3}
}

// Limits of settings.
const (
	maxEpochs = 10_000
	maxSteps  = 1 << 24
	maxTokens = 1 << 20 // of an example or a step's chunk
	maxBatch  = 1 << 28
)

// Check returns an error that names a setting that is out of range. What else there is to check, train and model do.
func (s *Settings) Check() error {
	within := func(x, low, high float64) bool { return x >= low && x <= high } // not NaN
	switch {
	case s.Steps == 0 && (s.Epochs < 1 || s.Epochs > maxEpochs):
		return fmt.Errorf("%d epochs, want 1 to %d", s.Epochs, maxEpochs)
	case s.Steps < 0 || s.Steps > maxSteps:
		return fmt.Errorf("%d steps, want 1 to %d", s.Steps, maxSteps)
	case s.Context < 0 || s.Context == 1 || s.Context > maxTokens:
		return fmt.Errorf("examples of %d tokens, want 2 to %d", s.Context, maxTokens)
	case s.Batch < 0 || s.Batch > maxBatch:
		return fmt.Errorf("steps of %d tokens, want 1 to %d", s.Batch, maxBatch)
	case !within(s.Rate, 1e-12, 10):
		return fmt.Errorf("a rate of %v, want a number above 0, such as 2e-4", s.Rate)
	case !within(s.Least, 0, 1) || !within(s.Warmup, 0, 1) || !within(s.Share, 0, 0.9) || !within(s.Decay, 0, 1):
		return errors.New("shares of the rate, of the steps, of the examples, and decay: want numbers from 0 to 1")
	case !within(s.Clip, 0, math.MaxFloat32):
		return fmt.Errorf("gradients clipped to %v, want a norm such as 1, or 0 for none", s.Clip)
	case s.Preference != "" && s.Preference != DPO && s.Preference != ORPO:
		return fmt.Errorf("preference %q, want %s or %s", s.Preference, DPO, ORPO)
	case !within(s.Beta, 0, 1000):
		return fmt.Errorf("a beta of %v, want a number such as 0.1", s.Beta)
	case s.Head && (s.Weights != "" || s.Preference != "") || s.HeadTokens < 0:
		return errors.New("a head is trained by itself, and learns answers")
	case s.Classes != nil && (s.Head || s.Preference != ""):
		return errors.New("a new classifier learns the classes of texts, and drafts or prefers nothing")
	case s.Every < 0 || s.Patience < 0:
		return errors.New("measurements and patience: want numbers from 0 on")
	}
	return nil
}
