package server

import (
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/reply"
)

// A block is a run of an answer that is of one kind, in the order in which the model
// wrote it: reasoning, text, or one call of a tool.
type block struct {
	kind     blockKind
	call     int // the index of the call
	id, name string
	text     strings.Builder // of a call, its arguments
	tokens   []engine.Token  // of text, where they are wanted
}

type blockKind int

const (
	textBlock blockKind = iota
	thoughtBlock
	callBlock
)

// kindOf returns the kind of block that a delta is part of.
func kindOf(d chat.Delta) blockKind {
	switch {
	case d.Call != nil:
		return callBlock
	case d.Reasoning != "":
		return thoughtBlock
	}
	return textBlock
}

// continues reports whether a delta is part of the block; one of nil begins another.
func (b *block) continues(d chat.Delta) bool {
	return b != nil && b.kind == kindOf(d) && (d.Call == nil || d.Call.Index == b.call)
}

// newBlock begins the block of a delta, without its text.
func newBlock(d chat.Delta) *block {
	b := &block{kind: kindOf(d)}
	if d.Call != nil {
		b.call, b.id, b.name = d.Call.Index, d.Call.ID, d.Call.Name
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
	// open begins a block, which is empty so far.
	open(s *reply.Stream, b *block) error
	// add adds a text to the open block, which may be empty, and the tokens that it is of, where they are wanted.
	add(s *reply.Stream, b *block, text string, said []engine.Token) error
	// close ends the open block. end is how the answer ended with it; nil: another block follows.
	close(s *reply.Stream, b *block, end *ending) error
}

// blocks cuts an answer into its blocks.
type blocks struct{ current *block }

// write tells the blocks of a piece.
func (c *blocks) write(s *reply.Stream, p *piece, to blockWriter) error {
	for i, d := range p.deltas {
		if !c.current.continues(d) {
			if err := c.end(s, nil, to); err != nil {
				return err
			}
			c.current = newBlock(d)
			if err := to.open(s, c.current); err != nil {
				return err
			}
		}
		if err := to.add(s, c.current, textOf(d), p.saidBy(i)); err != nil {
			return err
		}
	}
	return nil
}

// end ends the last block, if there is one.
func (c *blocks) end(s *reply.Stream, end *ending, to blockWriter) error {
	b := c.current
	if b == nil {
		return nil
	}
	c.current = nil
	return to.close(s, b, end)
}

// A blockList keeps the blocks of an answer.
type blockList []*block

func (l *blockList) open(_ *reply.Stream, b *block) error {
	*l = append(*l, b)
	return nil
}

func (l *blockList) add(_ *reply.Stream, b *block, text string, said []engine.Token) error {
	b.text.WriteString(text)
	b.tokens = append(b.tokens, said...)
	return nil
}

func (l *blockList) close(*reply.Stream, *block, *ending) error { return nil }

// join returns the text of all blocks of a kind.
func (l blockList) join(kind blockKind) string {
	var text strings.Builder
	for _, b := range l {
		if b.kind == kind {
			text.WriteString(b.text.String())
		}
	}
	return text.String()
}

// calls returns the calls of tools.
func (l blockList) calls() []chat.ToolCall {
	var all []chat.ToolCall
	for _, b := range l {
		if b.kind == callBlock {
			all = append(all, chat.ToolCall{ID: b.id, Type: "function", Function: chat.Function{Name: b.name, Arguments: chat.Arguments(b.text.String())}})
		}
	}
	return all
}
