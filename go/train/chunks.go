package train

import (
	"math/rand/v2"

	"github.com/quern-llm/quern/go/model"
)

// order returns the order of n texts in an epoch.
func order(n int, seed uint64, epoch int) []int {
	return rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n)
}

// fill returns how many of the texts, in an order, are in the next chunk of maxTokens tokens: as many as fit.
func fill(texts []model.Text, order []int, maxTokens int) (n int) {
	tokens, blocks := 0, 0
	for _, i := range order {
		tokens, blocks = tokens+len(texts[i].Tokens), blocks+model.KVBlocks(len(texts[i].Tokens))
		if tokens > maxTokens || blocks > model.ChunkBlocks(maxTokens) {
			break
		}
		n++
	}
	return n
}

// Chunks returns how many chunks of maxTokens tokens so many epochs over the texts are, which New would accept.
func Chunks(texts []model.Text, maxTokens int, seed uint64, epochs int) (n int) {
	for epoch := range epochs {
		for left := order(len(texts), seed, epoch); len(left) > 0; n++ {
			k := fill(texts, left, maxTokens)
			if k == 0 {
				return n // a text that is too long
			}
			left = left[k:]
		}
	}
	return n
}

// Peek returns the texts of the next chunk, without moving on.
func (r *Run) Peek() []model.Text {
	before := r.state
	defer func() { r.state = before }()
	return r.next()
}

// Bytes returns the memory of the optimiser, and of the sums of gradients.
func (r *Run) Bytes() uint64 { return uint64(len(r.memory.Bytes()) + len(r.added.Bytes())) }
