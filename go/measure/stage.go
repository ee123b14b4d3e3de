package measure

import (
	"math/rand/v2"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A stage is the environment of plans: buffers, the first of which holds random
// numbers, a batch of tokens of one sequence, and scratch memory.
type stage struct {
	b       *Bench
	specs   []kernel.BufSpec
	region  *mem.Region
	bufs    *kernel.Buffers
	batch   *kernel.Batch
	plans   []*kernel.Plan
	scratch *mem.Region
}

// stage sets up n tokens at positions from 0. KV blocks are of one byte until sequence
// sets others: most operations do not use them.
func (b *Bench) stage(specs []kernel.BufSpec, n int) (*stage, error) {
	s, room := &stage{b: b, specs: specs}, kernel.Room{Tok: n, Out: n}
	var err error
	if s.region, err = b.Budget.Alloc("buffers of a kernel", uint64(kernel.BufBytes(specs, room))); err != nil {
		return nil, err
	}
	if s.bufs, err = kernel.NewBuffers(specs, room, s.region.Bytes()); err != nil {
		s.close()
		return nil, err
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		row := s.bufs.Row(0, i)
		for j := range row {
			row[j] = random.Float32() - 0.5
		}
	}
	if err := s.sequence(n, 0, 1, s.region.Bytes()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// sequence makes the batch n tokens after depth others, with KV blocks in kv.
func (s *stage) sequence(n, depth, blockBytes int, kv []byte) error {
	if s.batch != nil {
		s.batch.Close()
	}
	blocks := (depth + n + kernel.KVBlock - 1) / kernel.KVBlock
	var err error
	if s.batch, err = kernel.NewBatch(n, 1, blocks, n, []kernel.Group{{Name: "attention"}}); err != nil {
		return err
	}
	s.batch.SetState(0, kv[:blocks*blockBytes], blockBytes)
	table := make([]int32, blocks)
	for i := range table {
		table[i] = int32(i)
	}
	s.batch.AddSeq(table)
	for i := range n {
		s.batch.Add(0, int32(depth+i))
	}
	return nil
}

// prepare makes a plan of each list of operations, and allocates scratch for them.
func (s *stage) prepare(lists ...[]kernel.Op) error {
	s.drop()
	each := 0
	for _, ops := range lists {
		p, err := kernel.NewPlan(s.specs, ops...)
		if err != nil {
			return err
		}
		s.plans = append(s.plans, p)
		each = max(each, kernel.AlignUp(p.Scratch(len(s.batch.Tokens()))))
	}
	var err error
	s.scratch, err = s.b.Budget.Alloc("scratch of a kernel", uint64(max(each, kernel.Align)*s.b.Pool.Threads()))
	return err
}

// once runs operations whose results the measured ones need.
func (s *stage) once(ops ...kernel.Op) error {
	if err := s.prepare(ops); err != nil {
		return err
	}
	s.run(0)
	return nil
}

// run runs the plans alternately.
func (s *stage) run(i int) {
	s.plans[i%len(s.plans)].Run(s.b.Pool, s.bufs, s.batch, s.scratch.Bytes())
}

// sample measures the plans, each of which repeats r's operation `times` times.
func (s *stage) sample(r *Result, times int) {
	s.b.sample(r, times, s.run)
}

// drop releases the plans.
func (s *stage) drop() {
	for _, p := range s.plans {
		p.Close()
	}
	s.plans = nil
	if s.scratch != nil {
		s.scratch.Close()
		s.scratch = nil
	}
}

func (s *stage) close() {
	s.drop()
	if s.batch != nil {
		s.batch.Close()
	}
	if s.bufs != nil {
		s.bufs.Close()
	}
	s.region.Close()
}
