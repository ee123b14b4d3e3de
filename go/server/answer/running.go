package answer

import (
	"maps"
	"sync"

	"github.com/quern-llm/quern/go/server/ask"
)

// Running holds the running generations, by id and by the engine's ticket numbers,
// the answers that several of them make, and the last sequence of each slot.
type Running struct {
	mu   sync.Mutex
	byID map[string]*Generation
	acts map[string]act
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
	Owner  string
	Opts   *ask.Options
	seq    *Sequence // nil once it has ended
	Line   bool      // has_new_line, of a sequence that has ended
}

// An act is an answer that several generations make, with what is done between them.
type act struct {
	owner  string
	format Format
	cancel func() // what is done between generations
}

func NewRunning() *Running {
	return &Running{byID: map[string]*Generation{}, acts: map[string]act{}, by: map[ticketKey]task{}, last: map[slotKey]task{}}
}

func (r *Running) add(g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[g.ID] = g
	for i, t := range g.tickets {
		r.by[ticketKey{g.Model.Base(), t.ID()}] = task{ticket: t.ID(), Owner: g.Request.Caller.Owner, Opts: g.Opts,
			seq: g.Seqs[i]}
	}
}

func (r *Running) remove(g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, g.ID)
	for _, t := range g.tickets {
		delete(r.by, ticketKey{g.Model.Base(), t.ID()})
	}
}

// Forget drops what is kept of a model that is unloaded.
func (r *Running) Forget(m *ask.Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(k slotKey, _ task) bool { return k.model == m })
}

// ended records the last event of a sequence.
func (r *Running) ended(g *Generation, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ticket := g.tickets[e.Seq.Index].ID()
	if slot := (slotKey{g.Model.Base(), e.Usage.Slot}); slot.slot >= 0 && r.last[slot].ticket < ticket {
		r.last[slot] = task{ticket: ticket, Owner: g.Request.Caller.Owner, Opts: g.Opts, Line: e.Seq.hasLine.Load()}
	}
}

// Generation returns the generation with an id, or nil where none runs that is the caller's to end.
func (r *Running) Generation(id string, caller *Caller) *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.byID[id]; g != nil && caller.Owns(g.Request.Caller.Owner) {
		return g
	}
	return nil
}

// Act has an answer that several generations make be found by its id until done is called, also while none of them runs.
// cancel ends what is done then, and does not wait.
func (r *Running) Act(id, owner string, f Format, cancel func()) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts[id] = act{owner, f, cancel}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.acts, id)
	}
}

// Cancel cancels what runs under an id, unless it is not the caller's to end; found: it is. An answer that several
// generations make has a format.
func (r *Running) Cancel(id string, caller *Caller) (f Format, found bool) {
	r.mu.Lock()
	a, acts := r.acts[id]
	r.mu.Unlock()
	if acts && caller.Owns(a.owner) {
		a.cancel() // before the generation: none begins after that which is not cancelled
		f, found = a.format, true
	}
	if g := r.Generation(id, caller); g != nil {
		g.Cancel()
		found = true
	}
	return f, found
}

// Task returns the sequence that runs under a ticket number, or ran last in the slot.
func (r *Running) Task(m *ask.Model, ticket uint64, slot int) (t task, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok = r.by[ticketKey{m.Base(), ticket}]; ok {
		t.Line = t.seq.hasLine.Load()
		return t, true
	}
	t = r.last[slotKey{m.Base(), slot}]
	return t, t.Opts != nil && t.ticket == ticket
}
