// Package generate is what generates one text, apart from the model: which tokens are evaluated next, which of them are
// drafts, what is sampled from the logits, and where the text ends.
//
// A Generation is a pure state machine: it has no model, no clock and no goroutine. Whoever drives it evaluates its
// pending tokens and gives it rows of logits. A Proposal collects what a draft model guesses about such a text, from
// rows of its logits, in its own vocabulary where that differs (Translation).
package generate

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// Params are the parameters of a generation. Their slices are only read, and may be shared.
type Params struct {
	Prompt      []int32
	MaxTokens   int  // to generate; -1: until the context is full, or without an end where it is shifted; 0: the prompt is evaluated, nothing generated
	Keep        int  // first tokens that stay when the context is shifted; -1: the prompt
	Discard     int  // tokens that go then; 0: half of the others
	NoShift     bool // the text ends where the context is full
	Sampling    sample.Params
	Bias        []sample.Bias
	Stop        func(id int32) bool  // whether id is a stop token; nil: none is
	TopLogprobs int                  // -1: no logprobs; else each token has its own and those of the n likeliest
	PostProbs   bool                 // logprobs are those after the samplers, not the model's own
	Constraint  constrain.Constraint // owned by the generation; nil: none
	// Rule changes the logits of what may follow the tokens that were generated. Logprobs are those after it; nil: none
	Rule  func(generated []int32, logits []float32)
	Draft draft.Options // what is guessed, to verify several tokens in a pass; zero: nothing
}

// MaxTopLogprobs is the maximum number of alternatives reported with a token.
const MaxTopLogprobs = 1000

// TokenBytes returns the memory of a token with `top` alternatives. The Sink that receives tokens owns them
// and must account for those that it keeps.
func TokenBytes(top int) int {
	return int(reflect.TypeFor[Token]().Size()) + max(top, 0)*int(reflect.TypeFor[sample.Logprob]().Size())
}

// Bytes returns the maximum memory of a Generation beside its text: the sampler's scratch, a copy of the logits, and
// the tokens sampled from `rows` rows at a time.
func Bytes(nVocab, rows int) int {
	return sample.Bytes(nVocab) + 4*nVocab + rows*(nVocab/8+TokenBytes(MaxTopLogprobs))
}

// TextBytes returns the maximum memory of a Generation with these parameters for a text of n tokens: its ids, the n-gram
// index for drafts, and what the sampler knows of the text.
func (p *Params) TextBytes(nVocab, n int) int {
	if p.MaxTokens == 0 {
		return 0 // the ids are those of the prompt
	}
	bytes := mem.Appended(4*n) + p.Sampling.TextBytes(nVocab, n)
	if p.Draft.Sources.Has(draft.NGram) {
		bytes += draft.Bytes(n)
	}
	return bytes
}

// Finish is the reason why a generation ended.
type Finish string

const (
	Stopped  Finish = "stop"    // at a stop token
	MaxedOut Finish = "length"  // at Params.MaxTokens
	CtxFull  Finish = "context" // with the token that fills the context
)

// A Token is a sampled token.
type Token struct {
	ID      int32
	Stop    bool             // a stop token: it ends the text and is not part of it
	Logprob sample.Logprob   // its own, if logprobs were requested
	Top     []sample.Logprob // the likeliest, best first
}

// A Step is the result of a pass.
type Step struct {
	Tokens []Token // sampled, in order; valid until the next
	Finish Finish  // why these were the last; empty: there may be more
	Drafts draft.Counts
}

// A Generation is the state machine that generates one text: it lists the tokens to be evaluated and those
// whose logits are needed, and samples tokens from the logits. It has no model, no clock and no goroutine,
// and is not safe for concurrent use.
//
// Draft tokens may be evaluated together with the last known token (speculative decoding). Each is verified
// with the logits of the token before it: once another token is sampled, the drafts after it are dropped. The
// output is the same with any drafts, since logits do not depend on later tokens and the sampler draws once
// per token. Tokens forced by a constraint come first among the drafts; then come the guesses of a Drafter.
// These may be a tree: its trunk is evaluated with the known tokens, other branches beside them.
type Generation struct {
	Params
	Config
	smp       *sample.Sampler // created on first use
	ids       []int32         // the prompt and the sampled tokens; aliases the prompt while there are none
	done      int             // of which are evaluated
	drafts                    // that follow
	drafter   *draft.Drafter  // nil: only what is forced is drafted
	nodes     []sched.Draft   // the drafts, for the Scheduler
	taken     int             // which sequence of the last pass has the accepted drafts: 0, or a branch, which count from 1
	order     []int           // scratch: the drafts in the pass
	descent   descent         // scratch
	generated int
	tokens    []Token         // of the last step
	masks     []constrain.Set // tokens allowed after the last of ids, and after each draft in the pass
	prepared  int             // of masks: how many are computed
	forecast  []int32         // scratch of the constraint's
	dropped   int             // of the evaluated tokens: those that its sequence has lost to shifts
}

// Config is what a Generation knows of its model.
type Config struct {
	Vocab   int     // tokens of the vocabulary: all ids of the Params are below it
	Ctx     int     // positions of a sequence
	MaxRows int     // of logits that are computed at a time
	Banned  []int32 // tokens that are never generated
	Shift   Shift
}

// New returns a Generation. It refuses parameters that are out of range.
func New(p Params, c Config) (*Generation, error) {
	if len(p.Prompt) == 0 {
		return nil, errors.New("the prompt is empty, want one token at least")
	}
	if err := p.Sampling.Validate(); err != nil {
		return nil, err
	}
	if p.TopLogprobs > MaxTopLogprobs {
		return nil, fmt.Errorf("%d alternatives to each token, want at most %d", p.TopLogprobs, MaxTopLogprobs)
	}
	// Without spare capacity, so that append copies and the caller's slice is not written.
	ids := p.Prompt[:len(p.Prompt):len(p.Prompt)]
	return &Generation{Params: p, Config: c, ids: ids}, nil
}

// Skippable returns the known tokens that need not be evaluated if their state is cached: all except the
// last, whose logits are needed, and tokens after the first shift.
func (g *Generation) Skippable() []int32 { return g.Shift.Findable(g.ids[:len(g.ids)-1]) }

// Known returns the prompt and the sampled tokens. The slice belongs to the Generation.
func (g *Generation) Known() []int32 { return g.ids }

// Evaluated returns how many of the known tokens are evaluated. A sequence that has more, because drafts were
// rejected, must be truncated to that number.
func (g *Generation) Evaluated() int { return g.done }

// Positions returns how many positions a sequence of the evaluated tokens has: their number, less the tokens
// discarded by shifts.
func (g *Generation) Positions() int { return g.done - g.dropped }

// Dropped returns how many of the evaluated tokens the sequence has lost to shifts.
func (g *Generation) Dropped() int { return g.dropped }

// Shifted records that the sequence was shifted.
func (g *Generation) Shifted() { g.dropped += g.Shift.By }

// Generated returns how many tokens were sampled.
func (g *Generation) Generated() int { return g.generated }

// Resume records that only n of the known tokens are evaluated. Drafts are dropped.
func (g *Generation) Resume(n int) {
	g.done = n
	g.drop()
}

// Rewind records that nothing is evaluated: the sequence begins again, without shifts.
func (g *Generation) Rewind() {
	g.dropped = 0
	g.Resume(0)
}

// Settle records that the sequence has only so many positions left. Drafts of what follows the text stay.
func (g *Generation) Settle(positions int) { g.done = positions + g.dropped }

// Taken returns which sequence of the last pass has the accepted drafts: 0 is the text's own, branches count from 1.
func (g *Generation) Taken() int { return g.taken }

// drop drops the drafts.
func (g *Generation) drop() { g.draft, g.guesses, g.prepared = g.draft[:0], g.guesses[:0], 0 }

// Rest releases memory that is needed only while the generation runs.
func (g *Generation) Rest() {
	g.Resume(0)
	g.tokens, g.masks = nil, nil
	if g.smp != nil {
		g.smp.Trim()
	}
}

// Propose replaces the drafts after the known tokens, up to the number of tokens that may still be generated,
// and returns how many it accepted.
func (g *Generation) Propose(ids []int32) int {
	g.drop()
	g.draft = append(g.draft, ids[:g.Draftable(len(ids))]...)
	return len(g.draft)
}

// Draftable returns how many of n drafts may still be generated before the last token.
func (g *Generation) Draftable(n int) int {
	if g.Shift.Limit == 0 {
		n = min(n, g.Ctx-len(g.ids)-1)
	}
	if g.MaxTokens >= 0 {
		n = min(n, g.MaxTokens-g.generated-1)
	}
	return max(n, 0)
}

// Pending appends the next n tokens to be evaluated to ids, or fewer if there are fewer: known tokens, then
// drafts.
func (g *Generation) Pending(ids []int32, n int) []int32 {
	known := min(n, len(g.ids)-g.done)
	ids = append(ids, g.ids[g.done:g.done+known]...)
	return append(ids, g.draft[:min(n-known, g.trunk())]...)
}

// Rows returns how many of the next n pending tokens need logits; they are the last ones.
func (g *Generation) Rows(n int) int {
	if g.MaxTokens == 0 {
		return 0
	}
	return max(g.done+n-len(g.ids)+1, 0)
}

// Prepare computes the part of Advance(n, ...) that needs no logits: the masks of the constraint, for the
// drafts of that pass too. It may run on another goroutine while the pass runs. It is optional.
func (g *Generation) Prepare(n int) {
	drafts := max(min(n-(len(g.ids)-g.done), g.trunk()), 0)
	if g.Constraint == nil || g.prepared > drafts {
		return
	}
	g.descent.begin(g)
	g.order = g.evaluated(g.order[:0], drafts)
	for k, v := range g.order {
		if k == len(g.masks) {
			g.masks = append(g.masks, constrain.NewSet(g.Vocab))
		}
		if clear(g.masks[k]); g.descent.to(v) { // drafts after one that is not allowed are never reached
			g.Constraint.Mask(g.masks[k])
		}
	}
	g.descent.end()
	g.prepared = drafts + 1
}

// Advance records that the next n pending tokens were evaluated, and samples from the rows of logits
// requested by Rows(n). It may overwrite them.
func (g *Generation) Advance(n int, rows [][]float32) (Step, error) {
	g.tokens = g.tokens[:0]
	known := min(n, len(g.ids)-g.done)
	if g.done+known == len(g.ids) && g.MaxTokens != 0 {
		g.Prepare(n)
	}
	g.done += known
	switch {
	case g.done < len(g.ids):
		return Step{}, nil
	case g.MaxTokens == 0:
		return Step{Finish: MaxedOut}, nil
	}
	g.order = g.evaluated(g.order[:0], n-known)
	all := g.drafts
	var counts draft.Counts
	for _, v := range g.order[1:] {
		counts[all.source(v)].Guessed++
	}
	g.drop()
	end := func(f Finish) Step { return Step{g.tokens, f, counts} }
	g.taken = all.sequence(-1, n-known)
	for k, last := 0, -1; k < len(rows); {
		logits := rows[k]
		if g.Constraint != nil && g.masks[k].Empty() {
			if err := g.failed(); err != nil {
				return end(""), err
			}
			return end(Stopped), nil // the text is complete
		}
		t, err := g.choose(logits, k)
		if err != nil {
			return end(""), err
		}
		g.ids = append(g.ids, t.ID)
		g.tokens = append(g.tokens, t)
		g.generated++
		right := false
		if k = all.follows(g.order, last, t.ID); k > 0 {
			right, last = true, g.order[k]
			counts[all.source(last)].Right++
		}
		switch {
		case t.Stop:
			return end(Stopped), nil
		case g.generated == g.MaxTokens:
			return end(MaxedOut), nil
		case len(g.ids) >= g.Ctx && g.Shift.Limit == 0:
			return end(CtxFull), nil
		}
		if g.Constraint != nil && !g.Constraint.Accept(t.ID) {
			if err := g.failed(); err != nil {
				return end(""), err
			}
			return end(""), constrain.ErrLimit // it bounds what it follows more tightly than what it allows
		}
		if !right {
			break
		}
		g.done++
		g.taken = all.sequence(last, n-known)
	}
	if f, ok := g.Constraint.(constrain.Forecaster); ok {
		g.forecast = f.Forecast(g.forecast[:0])
		g.Propose(g.forecast[:min(len(g.forecast), max(g.MaxRows/2-1, 0))]) // with the token before them, half of the rows
	}
	return end(""), nil
}

// ErrBanned reports a text that cannot go on, since the request bans each token that its format allows next.
var ErrBanned = errors.New("logit_bias bans each token that may come next; allow one of them")

// bans reports whether the biases ban each token that may come after row k.
func (g *Generation) bans(k int) bool {
	may := constrain.NewSet(g.Vocab)
	if g.Constraint != nil {
		copy(may, g.masks[k])
	} else {
		for id := range int32(g.Vocab) {
			may.Add(id)
		}
	}
	for _, b := range g.Bias {
		if math.IsInf(float64(b.Value), -1) {
			may.Remove(b.ID)
		}
	}
	for _, id := range g.Banned {
		may.Remove(id)
	}
	return len(g.Bias) > 0 && may.Empty()
}

// failed returns why the constraint allows nothing any more, if it has failed.
func (g *Generation) failed() error {
	if f, ok := g.Constraint.(constrain.Failer); ok {
		return f.Err()
	}
	return nil
}

// Cut ends the text after the first n tokens of the last step and discards the others.
func (g *Generation) Cut(n int) {
	drop := len(g.tokens) - n
	g.ids = g.ids[:len(g.ids)-drop]
	g.generated -= drop
	g.done = min(g.done, len(g.ids)-1)
}

// choose samples from the k-th row of logits.
func (g *Generation) choose(logits []float32, k int) (t Token, err error) {
	if g.Rule != nil {
		for _, id := range g.Banned {
			logits[id] = float32(math.Inf(-1))
		}
		g.Rule(g.ids[len(g.Prompt):], logits)
	}
	raw := logits // logprobs are the model's own, before bias and constraint
	if g.TopLogprobs >= 0 && !g.PostProbs && (len(g.Bias) > 0 || len(g.Banned) > 0 || g.Constraint != nil) {
		logits = append([]float32(nil), logits...)
	}
	for _, b := range g.Bias {
		logits[b.ID] += b.Value
	}
	for _, id := range g.Banned {
		logits[id] = float32(math.Inf(-1))
	}
	if g.Constraint != nil {
		g.masks[k].Ban(logits, float32(math.Inf(-1)))
	}
	if g.smp == nil {
		g.smp = sample.New(g.Sampling, g.Vocab)
		for _, id := range g.Prompt {
			g.smp.Accept(id)
		}
	}
	if t.ID, err = g.smp.Sample(logits); err != nil {
		if errors.Is(err, sample.ErrNoToken) && g.bans(k) {
			err = ErrBanned
		}
		return t, err
	}
	switch {
	case g.TopLogprobs >= 0 && g.PostProbs:
		t.Logprob, t.Top = g.smp.Chances(logits, t.ID, g.TopLogprobs)
	case g.TopLogprobs >= 0:
		t.Logprob, t.Top = sample.Logprobs(raw, t.ID, g.TopLogprobs)
	}
	g.smp.Accept(t.ID)
	t.Stop = g.Stop != nil && g.Stop(t.ID)
	return t, nil
}
