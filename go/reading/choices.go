package reading

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Text is tokens with their Reader; nil: they are evaluated for those that begin with them.
type Text struct {
	IDs    []int32
	Media  []engine.Medium
	Reader engine.Reader
}

// A Stem is what the choices of a question go on from, and they as branches.
type Stem struct {
	ids      []int32 // the tokens that all begin with, less one, for its logits
	media    []engine.Medium
	branches []*branch
}

// NewStem returns the tokens of a text with each of the choices behind it. The end of the text may be spelled by another
// token there: the stem is what all of them and the text alone begin with, and branches have the rest of the text and the
// choice. If ends, a choice counts as all that follows the text. before is what is in front of the text, up to the last
// medium; empty: there is none. encode returns the tokens of a text; its first error ends all.
func NewStem(
	ctx context.Context, tok *tokenizer.Tokenizer, before *Prompt, text string, choices []string, ends bool,
	encode func(text string) ([]int32, error),
) (*Stem, error) {
	s := &Stem{media: before.Media}
	head := s.head(tok, before.IDs)
	open := func(text string) ([]int32, error) {
		ids, err := encode(text)
		if err != nil {
			return nil, err
		}
		ids = slices.Concat(head, ids)
		return tok.Begin(withoutEnd(tok, ids)), nil
	}
	common, err := open(text)
	if err != nil {
		return nil, err
	}
	whole := make([][]int32, len(choices))
	for i, choice := range choices {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if whole[i], err = open(text + choice); err != nil {
			return nil, err
		}
		common = shared(common, whole[i])
	}
	if len(common) == 0 {
		return nil, errors.New("no token of the prompt stays the same with each choice behind it, want a longer prompt")
	}
	s.ids = common[:len(common)-1]
	for _, ids := range whole {
		b := &branch{ids: ids, from: len(common)}
		if len(ids) == len(common) {
			return nil, errors.New("a choice adds no token to the prompt")
		}
		if ends {
			b.stops = tok.EOG()
		}
		s.branches = append(s.branches, b)
	}
	return s, nil
}

// head returns the tokens of what is in front of the texts. Those of media are told apart by what they are of.
func (s *Stem) head(tok *tokenizer.Tokenizer, ids []int32) []int32 {
	ids = slices.Clone(withoutEnd(tok, ids))
	for _, m := range s.media {
		id := int32(binary.LittleEndian.Uint32(m.Hash[:]) | 1<<31)
		for i := range m.Tokens {
			ids[m.At+i] = id
		}
	}
	return ids
}

// withoutEnd returns the tokens of a text that goes on.
func withoutEnd(tok *tokenizer.Tokenizer, ids []int32) []int32 {
	if eos, ok := tok.EOS(); ok && tok.AddEOS() && len(ids) > 0 && ids[len(ids)-1] == eos {
		return ids[:len(ids)-1]
	}
	return ids
}

// of returns the text of some tokens that the stem begins with, without a medium that they end inside of.
func (s *Stem) of(ids []int32, r engine.Reader) Text {
	n := 0
	for _, m := range s.media {
		if m.At+m.Tokens > len(ids) {
			ids = ids[:min(m.At, len(ids))]
			break
		}
		n++
	}
	return Text{ids, s.media[:n], r}
}

// shared returns what two lists of tokens begin with.
func shared(a, b []int32) []int32 {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// Stages returns the texts that are evaluated for stems, one stage after the other. What all have in common is evaluated
// first, then what those of a question have, then the branches: each stage finds the one before in the cache, so that no
// token is evaluated twice. Choices of a token that may go on are read from one row: such a question is one text.
func Stages(stems []*Stem) [][]Text {
	trunk := trunk(stems)
	var questions, branches []Text
	common := stems[0].of(trunk, nil)
	for _, st := range stems {
		groups := st.groups()
		if t := st.of(st.ids, nil); len(groups) > 1 && len(t.IDs) > len(common.IDs) {
			questions = append(questions, t)
		}
		for _, g := range groups {
			branches = append(branches, st.of(g[0].read(), g))
		}
	}
	stages := [][]Text{questions, branches}
	if len(common.IDs) > 0 && len(questions) != 1 && len(branches) > 1 {
		stages = slices.Insert(stages, 0, []Text{common})
	}
	return stages
}

// Tokens returns how many the stages of stems have: so many are evaluated where the cache has none of them.
func Tokens(stems []*Stem) int {
	trunk := len(trunk(stems))
	n := trunk
	for _, st := range stems {
		n += len(st.ids) - trunk
		for _, g := range st.groups() {
			n += len(g[0].read()) - len(st.ids)
		}
	}
	return n
}

// trunk returns what all stems begin with.
func trunk(stems []*Stem) []int32 {
	all := stems[0].ids
	for _, st := range stems {
		all = shared(all, st.ids)
	}
	return all
}

// Overflows reports whether the model's numbers were not finite.
func (s *Stem) Overflows() bool {
	return slices.ContainsFunc(s.branches, func(b *branch) bool { return b.overflows })
}

// A Likelihood is how likely a choice is.
type Likelihood struct {
	Probability float64 // among the choices
	Logprob     float64 // of its tokens; -Inf: it cannot come
	Tokens      int
}

// Compare returns how likely the choices of an evaluated stem are, by their scores.
func (s *Stem) Compare(scores []float64, c *Calibration) []Likelihood {
	all := make([]Likelihood, len(s.branches))
	chances := c.Chances(scores)
	for i, b := range s.branches {
		all[i] = Likelihood{Probability: chances[i], Logprob: b.sum, Tokens: b.tokens()}
	}
	return all
}

// mostScore is more than any difference of logarithms that are finite, and finite with any temperature.
const mostScore = 1e12

// Scores returns the logarithms of the choices of an evaluated stem. What they owe to another one with the same choices is
// taken off, unless prior is nil; per, unless it is nil, returns what the logarithm of a choice is divided by. What cannot come
// has -Inf, with and without a prior; what comes and cannot come by the prior has a large number.
func (s *Stem) Scores(prior *Stem, per func(i, tokens int) float64) []float64 {
	scores := make([]float64, len(s.branches))
	for i, b := range s.branches {
		scores[i] = b.sum
		if prior != nil {
			scores[i] -= prior.branches[i].sum
		}
		if per != nil {
			scores[i] /= per(i, b.tokens())
		}
		if scores[i] = min(scores[i], mostScore); math.IsNaN(scores[i]) { // -Inf less -Inf
			scores[i] = math.Inf(-1)
		}
	}
	return scores
}

// A branch is a choice behind its stem: tokens, and what was read of their log-probabilities.
type branch struct {
	ids   []int32
	from  int // the first that is not of the stem
	stops []int32
	sum   float64

	overflows bool // the model's numbers were not finite
}

// tokens returns how many the choice has.
func (b *branch) tokens() int { return len(b.ids) - b.from }

// read returns the tokens whose rows are read, with those before: the last is none where the choice may go on.
func (b *branch) read() []int32 {
	if b.stops != nil {
		return b.ids
	}
	return b.ids[:len(b.ids)-1]
}

// take adds what a row, of what comes after its token, says of the choice.
func (b *branch) take(i int, row *sample.Row, logits []float32) {
	logprob := func(id int32) float64 {
		own := float64(row.Logprob(id))
		if math.IsInf(own, -1) { // the token is ruled out, or all are
			b.overflows = b.overflows || len(row.Top(1)) == 0
		}
		b.overflows = b.overflows || !(logits[id] <= math.MaxFloat32)
		return own
	}
	if i+1 < len(b.ids) {
		b.sum += logprob(b.ids[i+1])
		return
	}
	p := 0.0
	for _, id := range b.stops {
		if l := logprob(id); l > -700 {
			p += exactmath.Pow(math.E, l)
		}
	}
	if p == 0 {
		b.sum = math.Inf(-1)
		return
	}
	b.sum += exactmath.Log(p)
}

// A group is the branches of a stem that are read from the same rows.
type group []*branch

// groups returns those of a stem, in the order of its branches.
func (s *Stem) groups() (all []group) {
	for _, b := range s.branches {
		i := slices.IndexFunc(all, func(g group) bool { return slices.Equal(g[0].read()[b.from:], b.read()[b.from:]) })
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], b)
	}
	return all
}

// Reads implements engine.Reader.
func (g group) Reads() (output string, from, to int) {
	return nn.Logits, g[0].from - 1, len(g[0].read())
}

// Read implements engine.Reader.
func (g group) Read(i int, logits []float32) {
	row := sample.RowOf(logits)
	for _, b := range g {
		b.take(i, &row, logits)
	}
}

// End implements engine.Reader.
func (g group) End(func(output string, given []float32) []float32) {}
