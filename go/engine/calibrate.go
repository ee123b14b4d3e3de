package engine

import (
	"context"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sched"
)

// calibrate initializes the cost model: it times a few passes of representative sizes, and the cost of
// attention in the middle of a text. The contents of the KV cache there do not matter.
func (l *Loop) calibrate() error {
	const slow = 500 * time.Millisecond // longer passes can be extrapolated
	const short = 50 * time.Millisecond // shorter passes of few tokens are noisy: they are timed three times
	const few = 16                      // maximum tokens of a pass of streams and drafts
	layout := l.e.kv.Layout()
	at := min(2048, l.e.ctx/2)
	at = min(at, room(l.e.ctx, l.e.kv.Limit(), func(n int) uint64 { return least(layout, n) })-kvcache.BlockTokens)
	at -= at % kvcache.BlockTokens // whole blocks: one pass may follow them even if blocks age
	logits := l.e.model.Has(nn.Logits) && len(l.e.model.Config.Encoder) == 0
	run := func(depth, n, rows int) (time.Duration, error) {
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
		var took time.Duration
		items := []Item{{Seq: s, IDs: make([]int32, n)}}
		for i := range items[0].IDs { // different tokens, for different experts
			items[0].IDs[i] = int32(i * 7919 % l.e.model.Config.NVocab)
		}
		if l.e.model.Has(nn.Logits) {
			items[0].Rows = rows
		}
		err = l.e.device.inTurn(func() error {
			start := time.Now()
			if err := l.e.pass(canceler{ctx: context.Background()}, items); err != nil {
				return err
			}
			err := l.e.heads(items, func([]part) error { return nil })
			took = time.Since(start)
			return err
		})
		return took, err
	}
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
				return all[0], nil
			}
		}
		slices.Sort(all)
		return all[1], nil
	}
	side, took := l.e.model.Config.NSide, map[int]time.Duration{}
	var seen []sched.Shape
	sizes, reads := []int{1, 4, 8, few, 64, 256}, l.e.reads()
	if reads { // a pass takes as long as reading the weights, which may be seconds, and hardly longer with more tokens
		sizes = []int{1, few, 64}
	}
	for _, n := range sizes {
		if n > layout.Room(0, l.e.batch) || n >= l.e.ctx || side > 0 && n > side {
			break
		}
		s := sched.Shape{Tokens: n, Rows: 1}
		if n <= few && logits {
			s.Rows = n // as with drafts
		}
		t, err := median(n, s.Rows)
		if err != nil {
			return err
		}
		seen = append(seen, s)
		if took[n] = t; t > slow && n >= few && !reads {
			break
		}
	}
	if took[few] > 0 && logits && !reads { // the same pass with the rows of a prompt
		t, err := median(few, 1)
		if err != nil {
			return err
		}
		l.sched.Cost.SetRow((took[few] - t) / (few - 1))
	}
	for _, s := range seen {
		l.sched.Cost.Observe(s, took[s.Tokens])
	}
	if reads || at < kvcache.BlockTokens || took[64] == 0 || l.e.model.Config.OnePass() {
		return nil // attention is negligible beside a disk or in so small a context; one-pass models always begin at 0
	}
	one, err := run(at, 1, 1)
	if err != nil {
		return err
	}
	many, err := run(at, 64, 1)
	if err != nil {
		return err
	}
	per := func(d time.Duration, positions int) time.Duration {
		return time.Duration(float64(d) / float64(positions) * 1e6)
	}
	read := max(one-took[1], 0)
	l.sched.Cost.Set(per(max(many-took[64]-read, 0), 64*at), per(read, at))
	return nil
}
