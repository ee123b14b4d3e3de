package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// Prompts may read some of their keys (Config.Sparse): each block of positions from Sparse.From on chooses the blocks of keys
// that its queries read. A block is in one pass, for all of its queries have a say. What a token reads is thus a matter of its
// text and its place in the request: whole blocks of the prompt choose, and what is behind them, the rest of the prompt and
// the answer, reads all keys. Of a text that is longer than its prompt, or not of whole blocks, the state from there on is not
// the one that the same tokens would have in a prompt. So it is not in the prefix tree, and the next turn of a conversation
// evaluates the last answer again.

// fillSparse refuses what excludes prompts that read some of their keys.
func (c *Config) fillSparse() error {
	switch {
	case c.Sparse.Part == 0:
	case c.Shift:
		return errors.New("a shifted text has lost the blocks that its prompt was read in; leave out --sparse-prompts or --context-shift")
	case c.Batch < kvcache.BlockTokens:
		return fmt.Errorf("a batch of %d tokens: prompts that read some of their keys are evaluated in blocks of %d; give a larger one",
			c.Batch, kvcache.BlockTokens)
	}
	return nil
}

// wholeBlocks returns the positions of the whole blocks of n.
func wholeBlocks(n int) int { return n - n%kvcache.BlockTokens }

// findable returns how many of the first tokens of a text, which begins with a prompt of n, have the state that they would
// have in any prompt.
func (e *Engine) findable(n int) int {
	if e.config.Sparse.Part == 0 {
		return math.MaxInt
	}
	return max(e.config.Sparse.From, wholeBlocks(n))
}

// blockSpans returns the blocks of a prompt of n tokens that are in one pass each. Where there are some, no medium is.
func (e *Engine) blockSpans(n int) (spans []sched.Span) {
	if e.config.Sparse.Part == 0 {
		return nil
	}
	for at := e.config.Sparse.From; at+kvcache.BlockTokens <= n; at += kvcache.BlockTokens {
		spans = append(spans, sched.Span{From: at, To: at + kvcache.BlockTokens})
	}
	return spans
}

// whole returns n, at most what is findable of a text, or where a medium or a block begins that n is inside of and that is
// evaluated whole.
func (e *Engine) whole(media []placed, n int) int {
	n = whole(media, n)
	if s := e.config.Sparse; s.Part > 0 && n > s.From {
		return wholeBlocks(n)
	}
	return n
}

// promptOf returns Sequence.prompt where n tokens are appended to s as a part of a prompt. They are not if s ends inside a
// block that would have to be in one pass.
func (e *Engine) promptOf(s *Sequence, n int) int {
	if from := s.Len(); from > e.config.Sparse.From && from != wholeBlocks(from) {
		return s.prompt
	}
	return wholeBlocks(s.Len() + n)
}

// slice returns how many of the next n tokens of s, which is evaluated alone, are in one pass.
func (e *Engine) slice(s *Sequence, n int) int {
	end := s.Len() + n
	if sp := e.config.Sparse; sp.Part > 0 && end > sp.From && end < s.prompt {
		return wholeBlocks(end) - s.Len()
	}
	return n
}
