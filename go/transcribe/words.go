package transcribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// Times of words are those of OpenAI's Whisper: heads of the decoder's attention follow what is said, and the cheapest way
// through their attention to a window, token by token, says when each was said (dynamic time warping, Giorgino 2009).

// A Word is one that is said, with its times in seconds. Text has the blank before it and the punctuation beside it.
type Word struct {
	Start, End float64
	Text       string
}

// An Aligner is a Model whose attention is known to follow what is said.
type Aligner interface {
	// Align returns the scores of the attention of tokens to the first positions of what the model hears, which are Step a
	// second: [head][token][position], in units of the logarithm of a weight.
	Align(ctx context.Context, tokens []int32, positions int) ([][][]float32, error)
}

// ErrWords reports a model whose file does not say which of its heads follow what is said.
var ErrWords = errors.New("its file does not say which heads of attention follow what is said (alignment_heads in generation_config.json), " +
	"so the times of words are not known")

// Rules of times.
const (
	medianWidth = 7   // of weights in succession, of which the median counts
	longest     = 0.7 // seconds of a median word at most
)

// words finds when the words of segments of a window are said, and gives them to the segments, whose times become those of their
// words.
func (t *task) words(list []Segment) error {
	a, ok := t.m.(Aligner)
	if !ok {
		return ErrWords
	}
	var text []int32
	counts := make([]int, len(list))
	for i, s := range list {
		for _, id := range s.Tokens {
			if id < t.v.end {
				text = append(text, id)
				counts[i]++
			}
		}
	}
	if len(text) == 0 {
		return nil
	}
	head, _ := t.v.head(nil, 0, t.language, t.Translate)
	positions := max(t.window*Step/100, 1) // of the encoder, which a sound of a hundredth has one of
	scores, err := a.Align(t.ctx, slices.Concat(head, []int32{t.v.noTimes}, text, []int32{t.v.end}), positions)
	if err != nil {
		return err
	}
	language := t.out.Language
	if t.Translate {
		language = "en"
	}
	all := t.v.words(text, language, alignment(scores, len(head)))
	span := shorten(all)
	joinPunctuation(all)
	for i := range list {
		s := &list[i]
		for said := 0; said < counts[i] && len(all) > 0; all = all[1:] {
			if w := all[0]; w.Text != "" {
				offset := float64(s.Seek) / 100
				s.Words = append(s.Words, Word{hundredths(offset + w.Start), hundredths(offset + w.End), w.Text})
			}
			said += all[0].tokens
		}
		t.spoken = s.settle(t.spoken, span)
	}
	return nil
}

func hundredths(seconds float64) float64 { return math.Round(seconds*100) / 100 }

// alignment returns when tokens are said, in seconds: those behind the one after `lead` others, which the attention of the
// tokens before them follows, and the end.
func alignment(scores [][][]float32, lead int) []float64 {
	tokens, positions := len(scores[0]), len(scores[0][0])
	mean := make([][]float64, tokens)
	for i := range mean {
		mean[i] = make([]float64, positions)
	}
	for _, head := range scores {
		weights := make([][]float64, tokens)
		for i, row := range head {
			weights[i] = softmax(row)
		}
		standardise(weights)
		for i, row := range weights {
			for j, w := range medians(row) {
				mean[i][j] += w / float64(len(scores))
			}
		}
	}
	return warp(mean[lead : tokens-1])
}

// softmax returns the weights that scores have.
func softmax(row []float32) []float64 {
	top := float64(slices.Max(row))
	all, sum := make([]float64, len(row)), 0.0
	for i, x := range row {
		all[i] = exactmath.Pow(math.E, float64(x)-top)
		sum += all[i]
	}
	for i := range all {
		all[i] /= sum
	}
	return all
}

// standardise gives each column the mean 0 and the deviation 1.
func standardise(rows [][]float64) {
	n := float64(len(rows))
	for j := range rows[0] {
		mean, square := 0.0, 0.0
		for _, r := range rows {
			mean += r[j] / n
		}
		for _, r := range rows {
			square += (r[j] - mean) * (r[j] - mean) / n
		}
		deviation := math.Sqrt(square)
		for _, r := range rows {
			if r[j] -= mean; deviation > 0 {
				r[j] /= deviation
			}
		}
	}
}

// medians returns the median of each number and its neighbours; beyond an end are those before it, mirrored.
func medians(row []float64) []float64 {
	const half = medianWidth / 2
	if len(row) <= half {
		return row
	}
	out := make([]float64, len(row))
	var near [medianWidth]float64
	for i := range row {
		for k := range near {
			at := i + k - half
			if at < 0 {
				at = -at
			} else if at >= len(row) {
				at = 2*(len(row)-1) - at
			}
			near[k] = row[at]
		}
		slices.Sort(near[:])
		out[i] = near[half]
	}
	return out
}

// warp returns when each row of weights is passed, in seconds, on the way through positions that has the largest weights, on
// which neither rows nor positions go back.
func warp(weights [][]float64) []float64 {
	const both, row, position = 0, 1, 2
	n, m := len(weights), len(weights[0])
	before, now := make([]float64, m+1), make([]float64, m+1)
	steps := make([][]byte, n+1)
	for i := range steps {
		steps[i] = make([]byte, m+1)
		steps[i][0] = row
	}
	for j := range steps[0] {
		steps[0][j] = position
		before[j] = math.Inf(1)
	}
	before[0] = 0
	for i := 1; i <= n; i++ {
		now[0] = math.Inf(1)
		for j := 1; j <= m; j++ {
			step, cost := byte(position), now[j-1]
			switch a, b := before[j-1], before[j]; {
			case a < b && a < cost:
				step, cost = both, a
			case b < a && b < cost:
				step, cost = row, b
			}
			now[j], steps[i][j] = cost-weights[i-1][j-1], step
		}
		before, now = now, before
	}
	times := make([]float64, n)
	for i, j := n, m; i > 0 || j > 0; {
		if i > 0 {
			times[i-1] = float64(j-1) / Step // the last that is written is the first of the row
		}
		switch steps[i][j] {
		case both:
			i, j = i-1, j-1
		case row:
			i--
		default:
			j--
		}
	}
	return times
}

// A timed is a word within a window, and how many tokens it has.
type timed struct {
	Word
	tokens int
}

// unspaced are the languages whose words have no blanks between them: each character is one.
var unspaced = []string{"zh", "ja", "th", "lo", "my", "yue"}

// words returns the words of tokens of text. times are when each of the tokens is said, and the end.
func (v *Vocabulary) words(text []int32, language string, times []float64) (all []timed) {
	for at := 0; at < len(text); {
		n, part := v.part(text[at:])
		if last := len(all) - 1; last >= 0 && !slices.Contains(unspaced, language) && !strings.HasPrefix(part, " ") && !isPunctuation(part) {
			all[last].Text, all[last].tokens = all[last].Text+part, all[last].tokens+n
		} else {
			all = append(all, timed{Word{Start: times[at], Text: part}, n})
		}
		at += n
		all[len(all)-1].End = times[at]
	}
	return all
}

// part returns the fewest tokens that are whole characters, and these.
func (v *Vocabulary) part(text []int32) (n int, s string) {
	var b []byte
	for n < len(text) {
		b = append(b, v.tok.Piece(text[n], false)...)
		n++
		rest := b
		for r, size := utf8.DecodeRune(rest); size > 0 && (r != utf8.RuneError || size > 1); r, size = utf8.DecodeRune(rest) {
			rest = rest[size:]
		}
		if len(rest) == 0 || utf8.FullRune(rest) { // else the next token has more of a character
			break
		}
	}
	return n, strings.ToValidUTF8(string(b), "\uFFFD")
}

// isPunctuation reports whether a text is a sign of ASCII, or several that have successive numbers there: the reference looks for
// it in a list of all. Others, such as an ellipsis, stay with what is before them.
func isPunctuation(s string) bool {
	return strings.Contains("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", strings.TrimSpace(s))
}

// shorten makes words shorter that are much longer than others, at ends of sentences, where a pause counts to them. It returns
// how long the median word is.
func shorten(all []timed) float64 {
	var spans []float64
	for _, w := range all {
		if w.End != w.Start {
			spans = append(spans, w.End-w.Start)
		}
	}
	if spans == nil {
		return 0
	}
	slices.Sort(spans)
	median := spans[len(spans)/2]
	if len(spans)%2 == 0 {
		median = (median + spans[len(spans)/2-1]) / 2
	}
	median = min(median, longest)
	ends := func(s string) bool { return s != "" && strings.Contains(".。!！?？", s) }
	for i := 1; i < len(all); i++ {
		if w := &all[i]; w.End-w.Start > 2*median {
			if ends(w.Text) {
				w.End = w.Start + 2*median
			} else if ends(all[i-1].Text) {
				w.Start = w.End - 2*median
			}
		}
	}
	return median
}

// joinPunctuation makes signs part of the words that they belong to: those that open of the next one, and those that close of the
// one before. What is left without a text is none.
func joinPunctuation(all []timed) {
	is := func(signs, s string) bool { return s != "" && strings.Contains(signs, s) }
	for i, next := len(all)-2, len(all)-1; i >= 0; i-- {
		if w := &all[i]; strings.HasPrefix(w.Text, " ") && is("\"'“¿([{-", strings.TrimSpace(w.Text)) {
			all[next].Text, all[next].tokens = w.Text+all[next].Text, w.tokens+all[next].tokens
			w.Text, w.tokens = "", 0
		} else {
			next = i
		}
	}
	for i, last := 1, 0; i < len(all); i++ {
		if w := &all[i]; !strings.HasSuffix(all[last].Text, " ") && is("\"'.。,，!！?？:：”)]}、", w.Text) {
			all[last].Text, all[last].tokens = all[last].Text+w.Text, all[last].tokens+w.tokens
			w.Text, w.tokens = "", 0
		} else {
			last = i
		}
	}
}

// settle makes the times of a segment those of its words, but where the first or the last word would be too long: then they have
// the times of the segment. before is when the last word before it ended, and span how long a median word is. It returns when its
// last one ends.
func (s *Segment) settle(before, span float64) float64 {
	if len(s.Words) == 0 {
		return before
	}
	first, last := &s.Words[0], &s.Words[len(s.Words)-1]
	pair := len(s.Words) > 1
	if most := 2 * span; first.End-before > 4*span && (first.End-first.Start > most || pair && s.Words[1].End-first.Start > 2*most) {
		if second := &s.Words[min(1, len(s.Words)-1)]; pair && second.End-second.Start > most {
			border := max(second.End/2, second.End-most)
			first.End, second.Start = border, border
		}
		first.Start = max(0, first.End-most)
	}
	if s.Start < first.End && s.Start-0.5 > first.Start {
		first.Start = max(0, min(first.End-span, s.Start))
	} else {
		s.Start = first.Start
	}
	if s.End > last.Start && s.End+0.5 < last.End {
		last.End = max(last.Start+span, s.End)
	} else {
		s.End = last.End
	}
	return s.End
}

// lastWord returns when the last word of segments ends, or without words the last segment.
func lastWord(list []Segment) float64 {
	for _, s := range slices.Backward(list) {
		if len(s.Words) > 0 {
			return s.Words[len(s.Words)-1].End
		}
	}
	return list[len(list)-1].End
}

// Align implements Aligner: a request evaluates the text as a whole.
func (e *Engine) Align(ctx context.Context, tokens []int32, positions int) ([][][]float32, error) {
	c := e.config
	if len(c.Aligned) == 0 {
		return nil, ErrWords
	}
	if len(tokens) > e.answer {
		return nil, fmt.Errorf("a text of %d tokens, the model has positions for %d", len(tokens), e.answer)
	}
	a := &aligning{source: len(e.frames), heads: len(c.Aligned), to: len(e.frames) + len(tokens), positions: min(positions, len(e.frames))}
	r := e.Request
	s := &saying{done: make(chan error, 1)}
	r.Frames, r.Sink, r.Slot, r.Reader = e.frames, s, -1, a
	r.Params = textAlone(tokens)
	if _, err := s.wait(ctx, e.submit, &r); err != nil {
		return nil, err
	}
	dim := c.Layers[0].HeadDim
	return a.scores(dim, cmp.Or(float64(c.Layers[0].AttnScale), 1/math.Sqrt(float64(dim)))), nil
}

// textAlone are parameters with which a text is evaluated, and nothing is said.
func textAlone(tokens []int32) generate.Params {
	p := generate.Params{Prompt: tokens, TopLogprobs: -1, Sampling: sample.Defaults()}
	p.Sampling.Temp = 0
	return p
}

// aligning is the Reader of a request: it keeps what attention is made of.
type aligning struct {
	source, to, heads, positions int
	keys, queries                [][]float32
}

func (a *aligning) Reads() (output string, from, to int) { return nn.Aligned, 0, a.to }

func (a *aligning) Read(i int, row []float32) {
	switch {
	case i >= a.source:
		a.queries = append(a.queries, slices.Clone(row))
	case i < a.positions:
		a.keys = append(a.keys, slices.Clone(row))
	}
}

func (a *aligning) End(func(output string, given []float32) []float32) {}

// scores are the products of queries and keys of heads of so many numbers, times a scale.
func (a *aligning) scores(dim int, scale float64) [][][]float32 {
	step := len(a.queries[0]) / a.heads
	all := make([][][]float32, a.heads)
	for h := range all {
		for _, q := range a.queries {
			row := make([]float32, len(a.keys))
			q = q[h*step:][:dim]
			for p, k := range a.keys {
				sum := 0.0
				for i, x := range k[h*step:][:dim] {
					sum += float64(float64(x) * float64(q[i])) // not fused, so that it is the same on all machines
				}
				row[p] = float32(sum * scale)
			}
			all[h] = append(all[h], row)
		}
	}
	return all
}
