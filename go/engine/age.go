package engine

import "github.com/quern-llm/quern/go/kvcache"

// age requantizes the blocks of s that become too old for their tier before it grows by n tokens. The caller
// holds the device's turn. It fails as Table.Grow does.
func (s *Sequence) age(n int) error {
	if n == 0 {
		return nil
	}
	aging, err := s.table.Age()
	if aging != nil {
		s.e.age(aging)
		aging.Done()
	}
	return err
}

// age requantizes blocks, on all ranks, in the device's turn.
func (e *Engine) age(a *kvcache.Aging) {
	e.lead.Aged(a)
	e.mover.Age(e.device.pool, e.kv, a)
}

// age does so for all running sequences, and preempts those for which there is no memory. The lock is
// released while blocks are requantized.
func (l *Loop) age() {
	if len(l.e.kvTiers) == 0 {
		return
	}
	var all []*kvcache.Aging
	for _, j := range l.jobs {
		if j.seq == nil || j.late != nil {
			continue
		}
		aging, err := j.seq.table.Age()
		if err != nil {
			l.lacks(j, err)
		} else if aging != nil {
			all = append(all, aging)
		}
	}
	if len(all) == 0 {
		return
	}
	l.mu.Unlock()
	_ = l.e.device.inTurn(func() error { // what is run cannot fail
		for _, aging := range all {
			l.e.age(aging)
		}
		return nil
	})
	l.mu.Lock()
	for _, aging := range all {
		aging.Done()
	}
}
