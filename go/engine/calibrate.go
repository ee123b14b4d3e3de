package engine

import (
	"time"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// calibrate gives the model of cost something to begin with: a few passes of
// sizes that matter, and what attention adds to them in the middle of a text. What
// lies in the cache there is of no matter.
func (l *Loop) calibrate() error {
	const slow = 500 * time.Millisecond // longer passes can be extrapolated
	layout := l.e.kv.Layout()
	at := min(2048, l.e.ctx/2)
	at = min(at, room(l.e.ctx, l.e.kv.Limit(), func(n int) uint64 { return least(layout, n) })-kvcache.BlockTokens)
	run := func(depth, n int) (time.Duration, error) {
		table, err := l.e.kv.NewTableOf(depth)
		if err != nil {
			return 0, err
		}
		s := &Sequence{e: l.e, table: table, ids: make([]int32, depth)}
		defer s.Close()
		leave := l.e.device.enter()
		defer leave()
		var took time.Duration
		items := []Item{{Seq: s, IDs: make([]int32, n), Rows: 1}}
		err = l.e.device.inTurn(func() error {
			start := time.Now()
			if err := l.e.pass(nil, items); err != nil {
				return err
			}
			err := l.e.heads(items, func([]part) error { return nil })
			took = time.Since(start)
			return err
		})
		return took, err
	}
	if _, err := run(0, 1); err != nil { // the first finds nothing in the caches
		return err
	}
	took := map[int]time.Duration{}
	for _, n := range []int{1, 8, 64, 256} {
		if n > l.e.batch || n >= l.e.ctx {
			break
		}
		t, err := run(0, n)
		if err != nil {
			return err
		}
		l.sched.Cost.Observe(sched.Shape{Tokens: n}, t)
		if took[n] = t; t > slow {
			break
		}
	}
	if at < kvcache.BlockTokens || took[64] == 0 {
		return nil // a context so small that attention is nothing
	}
	one, err := run(at, 1)
	if err != nil {
		return err
	}
	many, err := run(at, 64)
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
