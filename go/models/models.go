// Package models is a server's models by name. They are loaded when a request wants them, and leased to it. They share
// the memory: the one that costs the least to load again per byte makes room for another.
//
// A model is unloaded, loading, loaded or sleeping. One that sleeps has no weights in memory, and whatever else is cheap to
// keep. A model with leases keeps its weights in any case. With a single model names are not needed: it is meant by any name.
package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A State is how far a model is from answering.
type State int

const (
	Unloaded State = iota
	Loading
	Loaded
	Sleeping
)

// String returns the name of the state.
func (s State) String() string { return [...]string{"unloaded", "loading", "loaded", "sleeping"}[s] }

// Errors about models.
var (
	ErrLoading = errors.New("the model is being loaded")
	ErrClosed  = errors.New("the server is shutting down")
)

// A NotFoundError reports that no model has the name.
type NotFoundError struct {
	Name  string
	Names []string // of all models
}

// maxNamed is how many names an error lists.
const maxNamed = 20

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no model %q, %s", e.Name, e.Wanted())
}

// Wanted says which names there are.
func (e *NotFoundError) Wanted() string {
	if len(e.Names) == 0 {
		return "nor any other"
	}
	names, more := e.Names, ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d others", len(e.Names)-maxNamed)
	}
	return fmt.Sprintf("want one of %s%s", strings.Join(names, ", "), more)
}

// A NotLoadedError reports a model that is there, and that requests do not load.
type NotLoadedError struct{ Name string }

func (e *NotLoadedError) Error() string {
	return fmt.Sprintf("the model %q is not loaded; POST /models/load loads it", e.Name)
}

// A BusyError reports that too many requests wait for a model that is not loaded yet.
type BusyError struct {
	Name    string
	Waiting int
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests wait for the model %q to be loaded already, want one later", e.Waiting, e.Name)
}

// A LoadError reports that a model could not be loaded.
type LoadError struct {
	Name string
	Err  error
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("the model %q cannot be loaded: %v", e.Name, e.Err)
}
func (e *LoadError) Unwrap() error { return e.Err }

// A PanicError is a panic in what reads or runs the file of a model: a bug that the file found. It is the error of
// that model, and others go on.
type PanicError struct {
	Name string
	*panics.Panic
}

// A Spec is a model that can be loaded.
type Spec[M any] struct {
	Names []string // its own, then its aliases
	// Broken is why it cannot be loaded, as far as that is known without trying; nil: it is not.
	Broken error
	// Starting: requests are told that it is loading until it was loaded once.
	Starting bool
	// Elsewhere: loading it mostly waits for another machine, so others are loaded meanwhile.
	Elsewhere bool
	// Need returns the memory that it takes at least, where `room` bytes are free, or why that is too little for it. An error
	// for want of memory, here and of other functions, wraps one with a method Missing: how many bytes more would have done.
	Need func(room uint64) (uint64, error)
	// Load loads it, unless ctx ends. It may be called again after the instance was closed.
	Load func(ctx context.Context, progress func(part float64)) (Instance[M], error)
}

// An Instance is a loaded model. Its methods are called one at a time, but for Model and Bytes.
type Instance[M any] interface {
	Model() *M
	Bytes() uint64                    // that closing it would free
	Need(room uint64) (uint64, error) // that waking it takes, where room bytes are free
	Sleep() error
	Wake(ctx context.Context, progress func(part float64)) error
	Drain(ctx context.Context) // lets what runs finish, until ctx ends
	Close()
}

// Memory is what models share. The functions that free some return how many bytes.
type Memory interface {
	Free() uint64
	Spare(n uint64) uint64 // frees what is reserved and unused
	Trim(n uint64) uint64  // frees caches
	Collect()              // frees what nothing uses any more, and is not known to be free
}

// Config says how models share the machine. The zero value is valid.
type Config struct {
	Most      int           // weights of so many models in memory at most; 0: as many as fit
	Manual    bool          // requests do not load models, unless they say so
	KeepAlive time.Duration // until an unused model is unloaded; 0: until its memory is needed
	Sleep     time.Duration // until an unused model sleeps; 0: never
	Stay      time.Duration // least time that a model is in memory while others wait; at least as long as loading it took
	Queue     int           // requests that wait for a model at most; 0: any number
	Memory    Memory        // nil: there is enough

	OnPanic func(*PanicError) // is told of each, for the log; may be nil
}

// A Set is models of type M. It is safe for concurrent use.
type Set[M any] struct {
	c Config

	mu        sync.Mutex
	entries   []*entry[M]
	removed   []*entry[M] // not unloaded yet
	by        map[string]*entry[M]
	queue     []*entry[M] // to be loaded, in the order in which that was asked for
	running   bool        // there is a goroutine that has the turn to make room and to load
	line      []*entry[M] // that gave the turn away and want it back, in that order; empty unless it is another's
	level     float64     // the value of what was evicted last
	closed    bool
	unwatched bool          // nobody may watch any more
	changed   chan struct{} // closed at the next change that a load may wait for
	watchers  map[*watcher]struct{}
}

// An entry is a model's place in a Set.
type entry[M any] struct {
	spec     Spec[M]
	state    State
	inst     Instance[M] // nil unless it is loaded or sleeps
	err      error       // why it could not be loaded
	starting bool
	removed  bool

	loading bool   // a goroutine brings it into memory
	apart   bool   // that goroutine has not the turn
	cancel  func() // ends that, while the model's own function runs; nil: it does not

	leases  int
	moving  bool      // falls asleep or is unloaded at this moment
	leaving bool      // has no new leases, and goes to `next` once it has none
	next    State     // Unloaded or Sleeping
	evicted bool      // it sleeps, or is about to, since others need its place
	round   *round    // of those that wait for it; nil: none do
	part    float64   // of loading
	since   time.Time // when it was loaded or woken
	used    time.Time // when its last lease ended
	cost    time.Duration
	value   float64 // see worth
	uses    float64
	keep    time.Duration // negative: for good
	timer   *time.Timer   // for the end of its time unused
}

// A round is a wait for a model.
type round struct {
	waiters []*waiter
	asked   bool          // it is loaded even if nobody waits
	done    chan struct{} // closed at the end
	err     error         // set before done is closed; nil: each that waits has a lease
}

// New returns a Set without models.
func New[M any](c Config) *Set[M] {
	return &Set[M]{c: c, by: map[string]*entry[M]{}, changed: make(chan struct{}), watchers: map[*watcher]struct{}{}}
}

// Add adds a model, unloaded. The first one that is starting is the default. A name that another model has is an error.
func (s *Set[M]) Add(spec Spec[M]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(spec.Names) == 0 || slices.Contains(spec.Names, "") {
		return errors.New("a model without a name")
	}
	for i, name := range spec.Names {
		if s.by[name] != nil || slices.Contains(spec.Names[:i], name) {
			return fmt.Errorf("two models are called %q", name)
		}
	}
	e := &entry[M]{spec: spec, err: spec.Broken, starting: spec.Starting, keep: s.keep()}
	for _, name := range spec.Names {
		s.by[name] = e
	}
	s.entries = append(s.entries, e)
	return nil
}

func (s *Set[M]) keep() time.Duration {
	if s.c.KeepAlive == 0 {
		return -1
	}
	return s.c.KeepAlive
}

// Remove removes a model: no request finds it from now on, and it is unloaded when those that use it have ended.
func (s *Set[M]) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.by[name]
	if e == nil || e.removed {
		return
	}
	e.removed = true
	for _, n := range e.spec.Names {
		delete(s.by, n)
	}
	s.entries = slices.DeleteFunc(s.entries, func(o *entry[M]) bool { return o == e })
	s.tell(Event{Model: e.spec.Names[0], Removed: true})
	s.removed = append(s.removed, e)
	if !e.loading {
		s.dequeue(e, &NotFoundError{name, s.names()})
		s.retire(e, Unloaded)
	} else {
		s.stop(e)
	}
	s.forget()
}

// held returns the models that may take memory: those that there are, and removed ones until they are unloaded. The caller
// holds the lock.
func (s *Set[M]) held() []*entry[M] { return slices.Concat(s.entries, s.removed) }

// forget lets go of removed models that take no memory any more. The caller holds the lock.
func (s *Set[M]) forget() {
	s.removed = slices.DeleteFunc(s.removed, func(e *entry[M]) bool { return e.inst == nil && !e.loading })
}

// find returns the model of a name: the only one or the default where it is empty. The caller holds the lock.
func (s *Set[M]) find(name string) (*entry[M], error) {
	switch e := s.by[name]; {
	case e != nil:
		return e, nil
	case len(s.entries) == 0 && s.closed:
		return nil, ErrClosed
	case len(s.entries) == 1 || name == "" && len(s.entries) > 0 && s.entries[0].spec.Starting:
		return s.entries[0], nil
	}
	return nil, &NotFoundError{name, s.names()}
}

// Several reports whether requests have to name the model.
func (s *Set[M]) Several() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) > 1
}

// Default reports whether there is a model that requests mean which name none.
func (s *Set[M]) Default() bool {
	_, err := s.Status("")
	return err == nil
}

// Ready reports whether all models that are starting are loaded.
func (s *Set[M]) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.entries, func(e *entry[M]) bool { return e.starting })
}

// Loaded returns the models that are loaded or sleep, in the order in which they were added.
func (s *Set[M]) Loaded() []*M {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*M
	for _, e := range s.entries {
		if e.inst != nil {
			all = append(all, e.inst.Model())
		}
	}
	return all
}

// Has reports whether a model has the name.
func (s *Set[M]) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[name] != nil
}

// Names returns each model's own name.
func (s *Set[M]) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names()
}

func (s *Set[M]) names() []string {
	var names []string
	for _, e := range s.entries {
		names = append(names, e.spec.Names[0])
	}
	return names
}

// A Status is the state of a model.
type Status[M any] struct {
	Names   []string
	Model   *M // nil unless it is loaded or sleeps
	State   State
	Err     error   // why it could not be loaded; nil: nothing is known against it
	Part    float64 // of loading that is done
	Bytes   uint64  // that unloading it would free
	Leases  int
	Waiting int       // requests that wait for it to be loaded
	Evicted bool      // it sleeps since others needed its place
	Expires time.Time // when it will be unloaded; zero: not unless its memory is needed
}

// List returns the state of all models, in the order in which they were added.
func (s *Set[M]) List() []Status[M] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status[M]
	for _, e := range s.entries {
		all = append(all, s.status(e))
	}
	return all
}

// Status returns the state of the model of a name, as Acquire finds it.
func (s *Set[M]) Status(name string) (Status[M], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(name)
	if err != nil {
		return Status[M]{}, err
	}
	return s.status(e), nil
}

func (s *Set[M]) status(e *entry[M]) Status[M] {
	st := Status[M]{Names: e.spec.Names, State: e.state, Err: e.err, Part: e.part, Leases: e.leases,
		Evicted: e.evicted && e.state == Sleeping}
	if e.inst != nil {
		st.Model, st.Bytes = e.inst.Model(), e.inst.Bytes()
		if e.keep >= 0 {
			if st.Expires = e.used.Add(e.keep); e.leases > 0 {
				st.Expires = time.Now().Add(e.keep)
			}
		}
	}
	if e.round != nil {
		st.Waiting = len(e.round.waiters)
	}
	return st
}
