package models

// An Event is a change of a model.
type Event struct {
	Model    string // its own name; empty: of all
	State    State
	Part     float64 // of loading that is done
	Err      error   // why it could not be loaded
	First    bool    // it was loaded, not woken
	Evicted  bool    // it sleeps since others needed its place
	Removed  bool    // there is no such model any more
	Reloaded bool    // the list of models was read again
	Download any     // how far a download of the model is, in the form of who told it; nil: the event is of none
}

// eventsKept is how many events a watcher may be behind.
const eventsKept = 256

type watcher struct{ events chan Event }

// Watch returns the events from now on, in their order, until stop is called. One who is too far behind is cut off: the
// channel is closed.
func (s *Set[M]) Watch() (events <-chan Event, stop func()) {
	w := &watcher{make(chan Event, eventsKept)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.unwatched {
		close(w.events)
		return w.events, func() {}
	}
	s.watchers[w] = struct{}{}
	return w.events, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(w)
	}
}

// Unwatch ends all watches, and those that come: streams of events would outlast the requests.
func (s *Set[M]) Unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatched = true
	for w := range s.watchers {
		s.drop(w)
	}
}

// Reloaded tells those who watch that the list of models was read again.
func (s *Set[M]) Reloaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(Event{Reloaded: true})
}

// Downloading tells those who watch about a download of a model.
func (s *Set[M]) Downloading(model string, download any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(Event{Model: model, Download: download})
}

// drop ends a watch. The caller holds the lock.
func (s *Set[M]) drop(w *watcher) {
	if _, ok := s.watchers[w]; ok {
		delete(s.watchers, w)
		close(w.events)
	}
}

// tell sends an event to all who watch. The caller holds the lock, and so the events have one order.
func (s *Set[M]) tell(e Event) {
	for w := range s.watchers {
		select {
		case w.events <- e:
		default:
			s.drop(w)
		}
	}
}

// set changes the state of a model. The caller holds the lock.
func (s *Set[M]) set(e *entry[M], st State, first bool) {
	e.state = st
	if st == Loaded {
		e.evicted = false
	}
	if !e.removed {
		s.tell(Event{Model: e.spec.Names[0], State: st, Part: e.part, Err: e.err, First: first, Evicted: e.evicted})
	}
}
