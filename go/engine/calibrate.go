package engine

import (
	"context"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// calibrate initializes the cost model: it times a few passes of representative sizes, and the cost of
// attention in the middle of a text. The contents of the KV cache there do not matter.
func (l *Loop) calibrate() error { return l.calibration().measure(&l.sched.Cost, l.timed) }

// A calibration says which passes are timed.
type calibration struct {
	most   int  // tokens of a pass at the beginning of a text
	at     int  // positions of the middle of a text, in whole blocks, which one pass may follow even if blocks age; 0: none
	logits bool // several tokens of a text may have rows of logits, as drafts do
	reads  bool // passes read weights from disk
}

// calibration returns which passes of the loop's model are timed.
func (l *Loop) calibration() calibration {
	e, c, layout := l.e, l.e.model.Config, l.e.kv.Layout()
	k := calibration{
		most: min(layout.Room(0, e.batch), e.ctx-1), reads: e.reads(),
		logits: e.model.Has(nn.Logits) && len(c.Encoder) == 0,
	}
	if c.NSide > 0 {
		k.most = min(k.most, c.NSide)
	}
	if !c.OnePass() { // such passes always begin at 0
		fits := room(e.ctx, e.kv.Limit(), func(n int) uint64 { return least(layout, n) })
		k.at = max(min(2048, e.ctx/2, fits-kvcache.BlockTokens), 0) / kvcache.BlockTokens * kvcache.BlockTokens
	}
	return k
}

// timed runs a pass of n tokens of a text after `depth` positions, with so many rows of logits, and returns its time.
func (l *Loop) timed(depth, n, rows int) (took time.Duration, err error) {
	table, err := l.e.kv.NewTableOf(depth)
	if err != nil {
		return 0, err
	}
	s := &Sequence{e: l.e, table: table, ids: make([]int32, depth)}
	if len(l.e.model.Config.Encoder) > 0 {
		s.source = n
		n++
	}
	defer s.Close()
	leave := l.e.device.enter()
	defer leave()
	items := []Item{{Seq: s, IDs: make([]int32, n)}}
	for i := range items[0].IDs { // different tokens, for different experts
		items[0].IDs[i] = int32(i * 7919 % l.e.model.Config.NVocab)
	}
	if l.e.model.Has(nn.Logits) {
		items[0].Rows = rows
	}
	err = l.e.device.inTurn(func() error {
		start := platform.Clock()
		if err := l.e.pass(canceler{ctx: context.Background()}, items); err != nil {
			return err
		}
		err := l.e.heads(items, func([]part) error { return nil })
		took = platform.Clock() - start
		return err
	})
	return took, err
}

// measure sets a cost model by passes that run times.
func (k calibration) measure(cost *sched.Cost, run func(depth, n, rows int) (time.Duration, error)) error {
	const slow = 500 * time.Millisecond     // longer passes can be extrapolated
	const short = 50 * time.Millisecond     // shorter passes of few tokens are noisy: they are timed three times
	const few = 16                          // maximum tokens of a pass of streams and drafts
	if _, err := run(0, 1, 1); err != nil { // warm-up: the CPU caches are cold
		return err
	}
	median := func(n, rows int) (time.Duration, error) {
		var all []time.Duration
		for len(all) < 3 {
			t, err := run(0, n, rows)
			if err != nil {
				return 0, err
			}
			if all = append(all, t); t > short || n > few {
				return t, nil
			}
		}
		slices.Sort(all)
		return all[1], nil
	}
	took := map[int]time.Duration{}
	var seen []sched.Shape
	sizes := []int{1, 4, 8, few, 64, 256}
	if k.reads { // a pass takes as long as reading the weights, maybe seconds, and hardly longer with more tokens
		sizes = []int{1, few, 64}
	}
	for _, n := range sizes {
		if n > k.most {
			break
		}
		s := sched.Shape{Tokens: n, Rows: 1}
		if n <= few && k.logits {
			s.Rows = n // as with drafts
		}
		t, err := median(n, s.Rows)
		if err != nil {
			return err
		}
		seen = append(seen, s)
		if took[n] = t; t > slow && n >= few && !k.reads {
			break
		}
	}
	if took[few] > 0 && k.logits && !k.reads { // the same pass with the rows of a prompt
		t, err := median(few, 1)
		if err != nil {
			return err
		}
		cost.SetRow((took[few] - t) / (few - 1))
	}
	for _, s := range seen {
		cost.Observe(s, took[s.Tokens])
	}
	if k.reads || k.at == 0 || took[64] == 0 {
		return nil // attention is negligible beside a disk or in so small a context
	}
	one, err := run(k.at, 1, 1)
	if err != nil {
		return err
	}
	many, err := run(k.at, 64, 1)
	if err != nil {
		return err
	}
	per := func(d time.Duration, positions int) time.Duration {
		return time.Duration(float64(d) / float64(positions) * 1e6)
	}
	read := max(one-took[1], 0)
	cost.Set(per(max(many-took[64]-read, 0), 64*k.at), per(read, k.at))
	return nil
}
