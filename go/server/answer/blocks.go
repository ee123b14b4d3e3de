package answer

import (
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/server/reply"
)

// A Block is a run of an answer that is of one kind, in the order in which the model
// wrote it: reasoning, text, or one call of a tool.
type Block struct {
	Kind     blockKind
	Call     int // the index of the call
	ID, Name string
	Text     strings.Builder  // of a call, its arguments
	Tokens   []generate.Token // of text, where they are wanted
}

type blockKind int

const (
	TextBlock blockKind = iota
	ThoughtBlock
	CallBlock
)

// kindOf returns the kind of block that a delta is part of.
func kindOf(d chat.Delta) blockKind {
	switch {
	case d.Call != nil:
		return CallBlock
	case d.Reasoning != "":
		return ThoughtBlock
	}
	return TextBlock
}

// continues reports whether a delta is part of the block; one of nil begins another.
func (b *Block) continues(d chat.Delta) bool {
	return b != nil && b.Kind == kindOf(d) && (d.Call == nil || d.Call.Index == b.Call)
}

// newBlock begins the block of a delta, without its text.
func newBlock(d chat.Delta) *Block {
	b := &Block{Kind: kindOf(d)}
	if d.Call != nil {
		b.Call, b.ID, b.Name = d.Call.Index, d.Call.ID, d.Call.Name
	}
	return b
}

// textOf returns what a delta adds to its block.
func textOf(d chat.Delta) string {
	if d.Call != nil {
		return d.Call.Arguments
	}
	return d.Content + d.Reasoning
}

// A blockWriter is told the blocks of an answer as they come.
type blockWriter interface {
	// Open begins a block, which is empty so far.
	Open(s *reply.Stream, b *Block) error
	// Add adds a text to the open block, which may be empty, and the tokens that it is of, where they are wanted.
	Add(s *reply.Stream, b *Block, text string, said []generate.Token) error
	// Close ends the open block. end is how the answer ended with it; nil: another block follows.
	Close(s *reply.Stream, b *Block, end *Ending) error
}

// Blocks cuts an answer into its blocks.
type Blocks struct{ current *Block }

// Write tells the blocks of a piece.
func (c *Blocks) Write(s *reply.Stream, p *Piece, to blockWriter) error {
	for i, d := range p.deltas {
		if !c.current.continues(d) {
			if err := c.End(s, nil, to); err != nil {
				return err
			}
			c.current = newBlock(d)
			if err := to.Open(s, c.current); err != nil {
				return err
			}
		}
		if err := to.Add(s, c.current, textOf(d), p.saidBy(i)); err != nil {
			return err
		}
	}
	return nil
}

// End ends the last block, if there is one.
func (c *Blocks) End(s *reply.Stream, end *Ending, to blockWriter) error {
	b := c.current
	if b == nil {
		return nil
	}
	c.current = nil
	return to.Close(s, b, end)
}

// A blockList keeps the blocks of an answer.
type blockList []*Block

func (l *blockList) Open(_ *reply.Stream, b *Block) error {
	*l = append(*l, b)
	return nil
}

func (l *blockList) Add(_ *reply.Stream, b *Block, text string, said []generate.Token) error {
	b.Text.WriteString(text)
	b.Tokens = append(b.Tokens, said...)
	return nil
}

func (l *blockList) Close(*reply.Stream, *Block, *Ending) error { return nil }

// Join returns the text of all blocks of a kind.
func (l blockList) Join(kind blockKind) string {
	var text strings.Builder
	for _, b := range l {
		if b.Kind == kind {
			text.WriteString(b.Text.String())
		}
	}
	return text.String()
}

// Calls returns the calls of tools.
func (l blockList) Calls() []chat.ToolCall {
	var all []chat.ToolCall
	for _, b := range l {
		if b.Kind == CallBlock {
			all = append(all, chat.ToolCall{ID: b.ID, Type: "function",
				Function: chat.Function{Name: b.Name, Arguments: chat.Arguments(b.Text.String())}})
		}
	}
	return all
}
