package finetune

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/train"
)

// leastChunk is how small chunks are made so that each rank has one of a step's.
const leastChunk = 64

// share makes chunks so small that each of n ranks has one in a step.
func (p *Plan) share(n int) error {
	for p.Config.Chunks < n {
		before := p.MaxTokens
		if p.fixed || before/2 < leastChunk || p.divide(before/2) != nil || p.MaxTokens == before {
			return fmt.Errorf("a step of %d tokens in chunks of %d has no work for %d ranks; give it more tokens", p.Config.Chunks*p.MaxTokens, p.MaxTokens, n)
		}
	}
	return nil
}

// alike allocates the Job anew where chunks of other ranks are smaller, for lack of memory or after an interrupt, so that they
// are the same on all.
func (j *Job) alike(src Source) error {
	const stepOfChunks = 1 << 23
	g := src.Ranks
	g.Patience(train.Patience) // while another is reading the model
	p := kernel.NewPieces(g, 8)
	defer p.Close()
	said := uint64(j.MaxTokens) << 1
	if j.fixed {
		said |= 1
	}
	binary.LittleEndian.PutUint64(p.Of(g.Rank()), said)
	g.Begin(nil)
	defer g.End()
	if err := p.Exchange(slices.Repeat([]int{8}, g.Count()), stepOfChunks); err != nil {
		return err
	}
	least, fixed := uint64(j.MaxTokens), uint64(0)
	for r := range g.Count() {
		said := binary.LittleEndian.Uint64(p.Of(r))
		least = min(least, said>>1)
		if said&1 != 0 {
			fixed = max(fixed, said>>1)
		}
	}
	if least < fixed {
		return fmt.Errorf("a rank has chunks of %d tokens, for lack of memory or of work, and the saved run has %d", least, fixed)
	}
	if least == uint64(j.MaxTokens) {
		return nil
	}
	j.release()
	if err := j.divide(int(least)); err != nil {
		return err
	}
	return j.allocate(src)
}

// join has the Job take its steps with those of the other ranks, from where rank 0 is. What it measured before counts on all.
func (j *Job) join() error {
	g := j.ranks
	if g == nil || j.joined {
		return nil
	}
	j.joined = true
	if err := j.run.Join(g); err != nil {
		return err
	}
	if g.Rank() == 0 {
		said := j.progress
		said.Points = nil
		text, err := json.Marshal(said)
		if err != nil {
			return err
		}
		return g.Send(kernel.Everyone, text)
	}
	text, err := g.Recv(0, make([]byte, 1<<12), train.Patience)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &j.progress)
}
