package main

import (
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A chunkedText is a text that a model reads in chunks of equal length, each a sequence of its own: what it is multiplied
// by is measured meanwhile.
type chunkedText struct {
	ids    []int32
	ctx    int // tokens of a chunk
	first  int // chunks that are left out before
	chunks int
	addBOS bool
	bos    int32 // in place of each chunk's first token
	output bool  // the output matrix is multiplied as well
}

// chunked cuts a text into chunks of ctx tokens, at most `most` of them where that is above 0, after `from` chunks.
func chunked(tok *tokenizer.Tokenizer, text string, ctx, from, most int, output bool) (*chunkedText, error) {
	c := &chunkedText{ids: tok.Encode(text, tokenizer.Options{}), ctx: ctx, output: output}
	c.first = min(from, len(c.ids)/ctx)
	c.chunks = len(c.ids)/ctx - c.first
	if c.chunks == 0 {
		return nil, fmt.Errorf("the text has %d tokens, and no chunk of %d after the first %d; give a longer text or a smaller context", len(c.ids), ctx, from)
	}
	if most > 0 {
		c.chunks = min(c.chunks, most)
	}
	bos, ok := tok.BOS()
	c.bos, c.addBOS = bos, ok && tok.AddBOS()
	return c, nil
}

// read has a model read the chunks, and calls done after each with how many were read. It ends where that returns an error.
func (c *chunkedText) read(ctx context.Context, eng *engine.Engine, done func(n int) error) error {
	chunk := make([]int32, c.ctx)
	for n := range c.chunks {
		copy(chunk, c.ids[(c.first+n)*c.ctx:])
		if c.addBOS {
			chunk[0] = c.bos
		}
		err := c.readOne(ctx, eng, chunk)
		if err == nil {
			err = done(n + 1)
		}
		if err != nil {
			return fmt.Errorf("chunk %d of %d: %w", n+1, c.chunks, err)
		}
	}
	return nil
}

func (c *chunkedText) readOne(ctx context.Context, eng *engine.Engine, chunk []int32) error {
	seq := eng.NewSequence()
	defer seq.Close()
	if !c.output {
		return eng.Eval(ctx, seq, chunk, 0, nil)
	}
	return eng.Eval(ctx, seq, chunk, 0, func(int, []float32) error { return nil })
}
