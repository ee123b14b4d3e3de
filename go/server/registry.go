package server

import (
	"maps"
	"sync"

	"github.com/quern-llm/quern/go/server/ask"
)

// A registry holds the running generations, by id and by the engine's ticket numbers,
// and the last sequence of each slot.
type registry struct {
	mu   sync.Mutex
	byID map[string]*generation
	by   map[ticketKey]task
	last map[slotKey]task
}

// Ticket numbers and slots are per model.
type (
	ticketKey struct {
		model  *ask.Model
		ticket uint64
	}
	slotKey struct {
		model *ask.Model
		slot  int
	}
)

// A task is a sequence as /slots shows it.
type task struct {
	ticket uint64
	owner  string
	opts   *ask.Options
	seq    *sequence // nil once it has ended
	line   bool      // has_new_line, of a sequence that has ended
}

func newRegistry() *registry {
	return &registry{byID: map[string]*generation{}, by: map[ticketKey]task{}, last: map[slotKey]task{}}
}

func (r *registry) add(g *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[g.id] = g
	for i, t := range g.tickets {
		r.by[ticketKey{g.model, t.ID()}] = task{ticket: t.ID(), owner: g.request.Caller.Owner, opts: g.opts, seq: g.seqs[i]}
	}
}

func (r *registry) remove(g *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, g.id)
	for _, t := range g.tickets {
		delete(r.by, ticketKey{g.model, t.ID()})
	}
}

// forget drops what is kept of a model that is unloaded.
func (r *registry) forget(m *ask.Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(k slotKey, _ task) bool { return k.model == m })
}

// ended records the last event of a sequence.
func (r *registry) ended(g *generation, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ticket := g.tickets[e.seq.index].ID()
	if slot := (slotKey{g.model, e.usage.Slot}); slot.slot >= 0 && r.last[slot].ticket < ticket {
		r.last[slot] = task{ticket: ticket, owner: g.request.Caller.Owner, opts: g.opts, line: e.seq.hasLine.Load()}
	}
}

// generation returns the generation with an id, or nil where none runs that is the caller's to end.
func (r *registry) generation(id string, caller *Caller) *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.byID[id]; g != nil && caller.owns(g.request.Caller.Owner) {
		return g
	}
	return nil
}

// task returns the sequence that runs under a ticket number, or ran last in the slot.
func (r *registry) task(m *ask.Model, ticket uint64, slot int) (t task, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok = r.by[ticketKey{m, ticket}]; ok {
		t.line = t.seq.hasLine.Load()
		return t, true
	}
	t = r.last[slotKey{m, slot}]
	return t, t.opts != nil && t.ticket == ticket
}
