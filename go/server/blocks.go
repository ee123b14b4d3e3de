package server

import (
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
)

// A block is a run of an answer that is of one kind, in the order in which the model
// wrote it: reasoning, text, or one call of a tool.
type block struct {
	kind     blockKind
	call     int // the index of the call
	id, name string
	text     strings.Builder // of a call, its arguments
	input    customText      // of a call of a custom tool that is streamed
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

// blocks are those of an answer.
type blocks []*block

func (l *blocks) add(d chat.Delta, said ...engine.Token) {
	n := len(*l)
	if n == 0 || !(*l)[n-1].continues(d) {
		*l = append(*l, newBlock(d))
		n++
	}
	(*l)[n-1].text.WriteString(textOf(d))
	(*l)[n-1].tokens = append((*l)[n-1].tokens, said...)
}

// join returns the text of all blocks of a kind.
func (l blocks) join(kind blockKind) string {
	var text strings.Builder
	for _, b := range l {
		if b.kind == kind {
			text.WriteString(b.text.String())
		}
	}
	return text.String()
}

// calls returns the calls of tools.
func (l blocks) calls() []chat.ToolCall {
	var all []chat.ToolCall
	for _, b := range l {
		if b.kind == callBlock {
			all = append(all, chat.ToolCall{ID: b.id, Type: "function", Function: chat.Function{Name: b.name, Arguments: chat.Arguments(b.text.String())}})
		}
	}
	return all
}
