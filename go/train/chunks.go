package train

import (
	"math"
	"math/rand/v2"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// order returns the order of n texts in an epoch, in which those of an example, `each` in succession, stay together.
func order(n, each int, seed uint64, epoch int) (all []int) {
	for _, example := range rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n / each) {
		for k := range each {
			all = append(all, example*each+k)
		}
	}
	return all
}

// fill returns how many of the texts, in an order, are in the next chunk of maxTokens tokens: as many as fit, of whole examples.
func fill(texts []model.Text, each int, order []int, maxTokens int) (n int) {
	tokens, blocks := 0, 0
	for _, i := range order {
		tokens, blocks = tokens+len(texts[i].Tokens), blocks+model.KVBlocks(len(texts[i].Tokens))
		if tokens > maxTokens || blocks > model.ChunkBlocks(maxTokens) {
			break
		}
		n++
	}
	return n - n%each
}

// counted is how many texts Chunks looks at, but for an epoch that has more.
const counted = 1 << 20

// Chunks returns how many chunks of maxTokens tokens so many epochs over the texts are, which New would accept, with an objective
// or nil. Of many epochs it counts the first ones, and takes the others to be like them: their chunks differ little.
func Chunks(texts []model.Text, o Objective, maxTokens int, seed uint64, epochs int) (n int) {
	c := Config{Objective: o}
	first := min(epochs, max(counted/max(len(texts), 1), 1))
	for epoch := range first {
		for left := order(len(texts), c.each(), seed, epoch); len(left) > 0; n++ {
			k := fill(texts, c.each(), left, maxTokens)
			if k == 0 {
				return n // a text that is too long
			}
			left = left[k:]
		}
	}
	if first < epochs {
		n = int(math.Ceil(float64(n) / float64(first) * float64(epochs)))
	}
	return n
}

// Rehearse computes the gradient of the next chunk, which is thrown away, and returns how many tokens it has.
func (r *Run) Rehearse(stop *kernel.Stop) (tokens int, err error) {
	before := r.state
	numbers := r.next()
	r.state = before
	for _, x := range r.these(numbers) {
		tokens += len(x.Tokens)
	}
	_, err = r.judge(numbers, stop)
	return tokens, err
}

// Bytes returns the memory of the optimiser, and of the sums of gradients.
func (r *Run) Bytes() uint64 { return uint64(len(r.memory.Bytes()) + len(r.added.Bytes())) }
