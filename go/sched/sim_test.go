package sched

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const blockTokens = 64

// sim is an engine without a model. It has a number of KV blocks, keeps those of preempted requests while no
// other request needs them, and takes the true cost as the time of a pass.
type sim struct {
	t      testing.TB
	s      *Scheduler
	now    time.Duration
	blocks int
	live   map[uint64]*simSeq
	kept   []*simSeq // preempted, the oldest first
	cost   func(Shape) time.Duration
	ended  map[uint64]string
	plan   []Item // of the last pass
}

type simSeq struct {
	id                uint64
	prompt, max       int
	draft             int                         // guesses at a time
	chance            float64                     // of each, as claimed
	right             func(guessed int) int       // how many of so many are right; nil: some
	tree              []Draft                     // drafts as a tree; nil: a chain
	accepted          func(it Item) (n, last int) // how many of its drafts are accepted, and the last of them
	positions, tokens int                         // in KV blocks, and in all
	running           bool
	lastToken         time.Duration
	gaps              []time.Duration // between two tokens
	first             int             // passes until its first token, counted from its arrival
}

func newSim(t testing.TB, c Config, blocks int, cost func(Shape) time.Duration) *sim {
	c.Memory = simMemory{}
	m := &sim{t: t, s: New(c), blocks: blocks, live: map[uint64]*simSeq{}, ended: map[uint64]string{}, cost: cost}
	for _, n := range []int{1, 8, 64, 256} {
		m.s.Cost.Observe(Shape{Tokens: n, Rows: n}, cost(Shape{Tokens: n}))
	}
	m.s.Cost.Set(cost(Shape{Attended: 1e6}), cost(Shape{Read: 1e6}))
	return m
}

// simMemory has blocks of one byte.
type simMemory struct{}

func (simMemory) Bytes(positions int) uint64 { return uint64(simBlocks(positions)) }
func (simMemory) Growth(from, to int) uint64 { return uint64(simBlocks(to) - simBlocks(from)) }
func (simMemory) Copy() uint64               { return 1 }

func simBlocks(positions int) int { return (positions + blockTokens - 1) / blockTokens }

func (m *sim) held() (running, kept int) {
	for _, q := range m.live {
		if q.running {
			running += simBlocks(q.positions)
		}
	}
	for _, q := range m.kept {
		kept += simBlocks(q.positions)
	}
	return running, kept
}

func (m *sim) available() int {
	running, _ := m.held()
	return m.blocks - running
}

func (m *sim) add(r Request) error {
	dropped, err := m.s.Add(r, m.now)
	if err != nil {
		return err
	}
	if dropped != 0 {
		m.end(dropped, "dropped")
	}
	m.live[r.ID] = &simSeq{id: r.ID, prompt: r.Prompt, max: r.MaxTokens, tokens: r.Prompt, chance: 1}
	return nil
}

func (m *sim) end(id uint64, why string) {
	m.forget(id)
	delete(m.live, id)
	m.ended[id] = why
}

func (m *sim) forget(id uint64) {
	m.kept = slices.DeleteFunc(m.kept, func(q *simSeq) bool { return q.id == id })
}

func (m *sim) cancel(id uint64) {
	if !m.s.Remove(id) {
		m.t.Fatalf("request %d was not there to be cancelled", id)
	}
	m.end(id, "cancelled")
}

// step runs a pass and returns what happened in words.
func (m *sim) step() string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	a := m.s.Admit(m.now, uint64(m.available()), func(id uint64) Prefix {
		for _, q := range m.kept {
			if q.id == id {
				return Prefix{Tokens: q.positions}
			}
		}
		return Prefix{}
	})
	for _, id := range a.Expired {
		say("expired %d", id)
		m.end(id, "expired")
	}
	for _, id := range a.Preempted {
		say("preempted %d", id)
		if q := m.live[id]; q.running {
			q.running = false
			m.kept = append(m.kept, q)
		}
	}
	for _, id := range a.Admitted {
		q := m.live[id]
		found := 0
		for _, k := range m.kept {
			if k.id == id {
				found = k.positions
			}
		}
		m.forget(id)
		q.running, q.positions = true, min(found, q.tokens-1)
		m.s.Found(id, q.positions, 0)
		if found > 0 {
			say("resumed %d after %d", id, q.positions)
		} else {
			say("admitted %d", id)
		}
	}
	items := m.s.Next(m.now, uint64(m.available()))
	m.plan = items
	if len(items) == 0 {
		return strings.Join(append(out, "idle"), ", ")
	}
	total, guessed, byID, before := 0, map[uint64]int{}, map[uint64]Item{}, map[uint64]int{}
	for _, it := range items {
		q := m.live[it.ID]
		if q == nil || !q.running || it.Tokens < 1 || it.Tokens-it.Draft > q.tokens-q.positions || it.Draft > q.draft {
			m.t.Fatalf("item %+v of %+v", it, q)
		}
		before[it.ID] = q.positions
		q.positions += it.Tokens - it.Draft
		guessed[it.ID], byID[it.ID] = it.Draft, it
		total += it.All()
		if say("%d:%d", it.ID, it.Tokens-it.Draft); it.Draft > 0 {
			out[len(out)-1] += fmt.Sprintf("+%d", it.Draft)
		}
	}
	if total > m.s.cfg.Batch {
		m.t.Fatalf("a pass of %d tokens", total)
	}
	running, kept := m.held()
	if running > m.blocks {
		m.t.Fatalf("%d blocks in use of %d", running, m.blocks)
	}
	for ; running+kept > m.blocks; _, kept = m.held() { // evict from the cache
		m.kept[0].positions = 0
		m.kept = m.kept[1:]
	}
	took := m.cost(m.s.Shape(items))
	m.now += took
	for _, q := range m.live {
		if q.tokens == q.prompt {
			q.first++
		}
	}
	for _, id := range m.s.Ran(items, took) {
		q := m.live[id]
		if q.tokens > q.prompt {
			q.gaps = append(q.gaps, m.now-q.lastToken)
		}
		q.lastToken = m.now
		right := (q.tokens * 7) % (guessed[id] + 1) // an arbitrary number
		if q.right != nil {
			right = q.right(guessed[id])
		}
		last, it := right-1, byID[id]
		if q.tree != nil {
			right, last = q.accepted(it)
		}
		q.positions += right
		if t := (tree{it.Draft, it.Branches}); m.s.cfg.Replays && it.Draft > 0 && !t.ends(last) {
			q.positions = before[id]
		}
		q.tokens += 1 + right
		if q.tokens-q.prompt >= q.max {
			say("done %d", id)
			m.s.Remove(id)
			m.end(id, "done")
		} else {
			m.s.Sampled(id, 1+right, q.positions)
			if q.tree != nil {
				m.s.Drafted(id, q.tree)
			} else {
				m.s.Drafted(id, chain(min(q.draft, max(q.prompt+q.max-q.tokens-1, 0)), q.chance))
			}
		}
	}
	return strings.Join(out, ", ")
}

// flatCost is the cost on a machine where reading the weights takes as long as computing several tokens, such as
// ten.
func flatCost(first, each time.Duration) func(Shape) time.Duration {
	return func(s Shape) time.Duration {
		t := max(float64(first), float64(each)*float64(s.Tokens))
		if s.Tokens == 0 {
			t = 0
		}
		return time.Duration(math.Round(t + 100*float64(s.Attended) + 500*float64(s.Read)))
	}
}
