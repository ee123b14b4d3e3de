package nn

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A Program is what a model computes: operations over numbered buffers.
type Program struct {
	Bufs    []kernel.BufSpec
	Groups  []kernel.Group // state of a sequence that the operations keep
	Begin   []kernel.Op    // once per batch: embedding, tables of rotations
	Encoder [][]kernel.Op  // what tokens of sources go through in place of the layers: see kernel.Batch
	Layers  [][]kernel.Op  // one list for each layer
	Cuts    [][]Cut        // of an encoder of rows: where parts of each layer end, but for the last
	Outputs []Output       // outputs available for the tokens of a batch
	Next    *Next          // what drafts; nil unless Config.Drafts
	Aligned *Alignment     // see Config.Aligned; nil if there are none
	Sparse  bool           // some layers read some of the keys of prompts: see Config.Sparse

	// Of layers that ranks have each as a whole, what part of their weights the rank with the most has; 0: batches are not
	// computed in parts.
	Widest float64
}

// An Alignment is buffers that have rows after a batch: one of the tokens of sources, and one of those behind.
type Alignment struct {
	Keys, Queries kernel.Buf
	Width         int
}

// A Cut ends a part of a layer of an encoder of rows, which runs for all tokens before the next part does.
type Cut struct {
	At   int  // operations up to here
	Once bool // it runs over all tokens at once, on buffers that have rows of all, and not slice by slice
}

// Blocks returns the operations of the layers, and of the blocks that draft, if they run: all that store something per
// position.
func (p *Program) Blocks() [][]kernel.Op {
	if p.Next == nil {
		return p.Layers
	}
	all := slices.Clip(p.Layers)
	for _, s := range p.Next.Steps {
		all = append(all, s.Step)
	}
	return all
}

// Lists returns the operations of all parts.
func (p *Program) Lists() [][]kernel.Op {
	all := slices.Concat([][]kernel.Op{p.Begin}, p.Encoder, p.Layers)
	for _, o := range p.Outputs {
		all = append(all, o.Ops)
	}
	if n := p.Next; n != nil {
		all = append(all, n.Take, n.Keep)
		for _, s := range n.Steps {
			all = append(all, s.Step, s.Head)
		}
	}
	return all
}

// An Output is a named result of a Program: operations on the tokens for which it is requested, or on given rows, and
// the buffer that then has its rows.
type Output struct {
	Name  string
	Ops   []kernel.Op
	Given bool       // rows of NEmbd, in the buffer In
	In    kernel.Buf // of those
	Buf   kernel.Buf
	Width int
	After int // of an encoder of rows: it is what this many layers make
	Of    int // the same: a row of it is of as many tokens in succession; 0: one
}

// The outputs that a program may have.
const (
	Logits  = "logits"  // a number for each token of the vocabulary
	Vectors = "vectors" // the last hidden state, normalised
	Scores  = "scores"  // of a classifier, given what was made of the vectors of a text's tokens

	TokenScores = "token scores" // of a classifier of tokens

	Pooled = "pooled" // the vector of a text, given what was made of the vectors of its tokens

	Embeddings = "embeddings" // of an encoder of rows: what a text model has in place of those of words
	Between    = "between"    // the same: what the layers that follow run over in place of its tokens
)

// Aligned is what attention to the source is made of in the heads of Config.Aligned, side by side: the keys of the tokens of a
// source, and the queries of those behind it. It is no Output: all tokens have it after a batch.
const Aligned = "aligned"

// A Tier is the types of keys and values that are From to To positions old: see kernel.Group. The first tier is the
// youngest.
type Tier struct {
	KV       kernel.KVTypes
	From, To int // 0: none
}
