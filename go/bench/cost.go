package bench

import (
	"math"

	"github.com/quern-llm/quern/go/measure"
)

// A cost is the memory traffic and the multiply-adds of a forward pass.
type cost struct {
	bytes, macs             float64 // of every token's layers, without experts
	expertBytes, expertMACs float64 // of all experts together
	outputBytes, outputMACs float64 // per token whose logits are computed
	kvBytes                 float64 // of one position
	nExpert, nUsed          int
}

// step returns the roofline bound, in seconds, of a forward pass of n tokens of a
// sequence after pos others; logits of the last one are computed if out is set.
func (c cost) step(r measure.Roofline, n, pos int, out bool) float64 {
	tokens := float64(n)
	bytes := c.bytes + c.kvBytes*float64(pos+n)
	macs := c.macs * tokens
	if c.nExpert > 0 {
		// With random routing, some experts serve several tokens.
		used := float64(c.nUsed) / float64(c.nExpert)
		bytes += c.expertBytes * (1 - math.Pow(1-used, tokens))
		macs += c.expertMACs * used * tokens
	}
	if out {
		bytes += c.outputBytes
		macs += c.outputMACs
	}
	return max(bytes/r.ReadBytesPerSec, macs/r.Int8MACPerSec)
}

// speed returns the roofline bound, in tokens per second, of a test: a prompt in slices
// of ubatch, then tokens one by one, after depth others.
func (c cost) speed(r measure.Roofline, prompt, gen, depth, ubatch int) float64 {
	var seconds float64
	for done := 0; done < prompt; {
		n := min(ubatch, prompt-done)
		seconds += c.step(r, n, depth+done, done+n == prompt)
		done += n
	}
	for i := range gen {
		seconds += c.step(r, 1, depth+prompt+i, true)
	}
	return float64(prompt+gen) / seconds
}
