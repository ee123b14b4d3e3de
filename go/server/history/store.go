// Package history keeps past answers in memory, within a limit: responses, which clients
// continue by their ids, and chat completions, which they list.
package history

import (
	"cmp"
	"container/list"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Store keeps records as long as there is room; those that run have room of their own. If there is none, the owner with the
// most bytes loses the least recently used ones; and each record expires after a time without use. What a conversation has in
// common with an earlier record is stored once, as long as any of the records that continue it.
type Store struct {
	mu    sync.Mutex
	max   int // bytes
	ttl   time.Duration
	now   func() time.Time
	bytes int            // of records that have ended
	runs  int            // bytes of those that run
	owned map[string]int // bytes of ended ones by owner; without owners of 0 bytes
	byID  map[recordKey]*Record
	items map[itemKey]*Record // of the records in byID, the newest that has the item
	used  *list.List          // the records in byID, least recently used first
	puts  uint64              // number of records that were put
}

// Clients choose ids, and two may choose the same.
type (
	recordKey struct {
		kind      Kind
		owner, id string
	}
	itemKey struct{ owner, id string }
)

// A Record is an answer, and what it adds to the conversation of the previous record. Once it is in a store, Body and
// Cancel are changed only by Update and Change.
type Record struct {
	Kind     Kind
	ID       string
	Owner    string // the only client that may see it
	Previous *Record
	Input    []Item     // items that it was given
	Body     Body       // its other items, and the rest of what its API shows
	Cancel   func()     // cancels it while it runs; nil: it has ended
	Log      *reply.Log // its events, if they are kept

	serial  uint64 // order of creation
	size    int
	refs    int // by the store, and by the records that continue it
	at      *list.Element
	expires time.Time
}

func (r *Record) key() recordKey { return recordKey{r.Kind, r.Owner, r.ID} }

// A Kind is a kind of record, as error messages name it. A record is found by its kind only.
type Kind string

// A Body is what an API stores of an answer. It is replaced, not modified.
type Body interface {
	Items() []Item // that it adds to the conversation
	Size() int     // its memory in bytes, without these items
}

// An Item is an item of a conversation: its JSON.
type Item struct {
	ID  string
	Raw jsontext.Value
}

// MarshalJSON returns the item as it is.
func (v Item) MarshalJSON() ([]byte, error) { return v.Raw, nil }

// Schema returns the JSON schema of an item.
func (Item) Schema() field.Schema { return field.Schema{"type": "object"} }

// Size returns the memory of the item in bytes.
func (v Item) Size() int { return itemBytes + len(v.ID) + len(v.Raw) }

// Memory of a record and of an item besides their texts, in bytes.
const (
	recordBytes = 4 << 10
	itemBytes   = 192 // with its place in the index
)

// New returns a store of at most max bytes, which drops records that are not used for ttl.
func New(max uint64, ttl time.Duration) *Store {
	return &Store{max: int(min(max, math.MaxInt)), ttl: ttl, now: time.Now, owned: map[string]int{}, byID: map[recordKey]*Record{}, items: map[itemKey]*Record{}, used: list.New()}
}

// Get returns a record of an owner, and makes it the most recently used.
func (s *Store) Get(kind Kind, owner, id string) (*Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	r, err := s.find(kind, owner, id)
	if err == nil {
		s.touch(r)
	}
	return r, err
}

func (s *Store) find(kind Kind, owner, id string) (*Record, error) {
	if r := s.byID[recordKey{kind, owner, id}]; r != nil {
		return r, nil
	}
	return nil, missing("there is no %s with the id %s: it was not stored, or was dropped to make room", kind, field.Quote(id))
}

func missing(format string, args ...any) error {
	return &reply.Error{Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

// Size returns the memory of all records in bytes. Those that are too old are dropped.
func (s *Store) Size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return uint64(s.bytes + s.runs)
}

// Body returns the current body of a record.
func (s *Store) Body(r *Record) Body {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Body
}

// List returns the bodies of an owner's records, oldest first.
func (s *Store) List(kind Kind, owner string) []Body {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	var all []*Record
	for _, r := range s.byID {
		if r.Owner == owner && r.Kind == kind {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int { return cmp.Compare(a.serial, b.serial) })
	bodies := make([]Body, len(all))
	for i, r := range all {
		bodies[i] = r.Body
	}
	return bodies
}

func (s *Store) touch(r *Record) {
	r.expires = s.now().Add(s.ttl)
	s.used.MoveToBack(r.at)
}

// Put stores a record under its id. Another of its kind and owner with that id is removed.
func (s *Store) Put(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byID[r.key()]; old != nil {
		s.remove(old)
	}
	r.size = r.price()
	s.hold(r)
	s.puts++
	r.serial = s.puts
	s.byID[r.key()] = r
	s.list(r)
	r.at = s.used.PushBack(r)
	r.expires = s.now().Add(s.ttl)
	s.expire()
}

// Update changes a running record, unless it has ended meanwhile.
func (s *Store) Update(r *Record, change func(*Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Cancel != nil {
		s.change(r, change)
	}
}

// Change changes a record of an owner, and makes it the most recently used.
func (s *Store) Change(kind Kind, owner, id string, change func(*Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(kind, owner, id)
	if err == nil {
		s.touch(r)
		s.change(r, change)
	}
	return err
}

func (s *Store) change(r *Record, change func(*Record)) {
	there, ran := s.byID[r.key()] == r, r.Cancel != nil
	if there {
		s.unlist(r)
	}
	if r.refs > 0 {
		s.count(r, -r.size)
	}
	change(r)
	if there {
		s.list(r)
		if ran && r.Cancel == nil { // its time begins at its end
			s.touch(r)
		}
	}
	if r.refs > 0 {
		r.size = r.price()
		s.count(r, r.size)
	}
	s.expire()
}

// Remove deletes a record of an owner, and cancels it if it runs.
func (s *Store) Remove(kind Kind, owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(kind, owner, id)
	if err == nil {
		s.remove(r)
	}
	return err
}

func (s *Store) remove(r *Record) {
	if r.Cancel != nil {
		r.Cancel()
	}
	s.drop(r)
}

// Forget drops a record, unless it was removed meanwhile or another has taken its place.
func (s *Store) Forget(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[r.key()] == r {
		s.drop(r)
	}
}

// expire drops records that are too old or for which there is no room. Running records stay, and take no room of others.
func (s *Store) expire() {
	now := s.now()
	for at := s.used.Front(); at != nil; {
		r := at.Value.(*Record)
		at = at.Next()
		if r.Cancel != nil {
			continue
		}
		if now.Before(r.expires) {
			break
		}
		s.drop(r)
	}
	over := map[string]bool{} // owners that have nothing more to drop
	for s.bytes > s.max && len(over) < len(s.owned) {
		owner, most := "", -1
		for o, n := range s.owned {
			if n > most && !over[o] {
				owner, most = o, n
			}
		}
		over[owner] = true
		for at := s.used.Front(); at != nil; at = at.Next() {
			if r := at.Value.(*Record); r.Owner == owner && r.Cancel == nil {
				s.drop(r)
				delete(over, owner)
				break
			}
		}
	}
}

func (s *Store) drop(r *Record) {
	delete(s.byID, r.key())
	s.used.Remove(r.at)
	s.unlist(r)
	s.release(r)
}

// list adds the items of a record to the index.
func (s *Store) list(r *Record) {
	for _, v := range r.adds() {
		s.items[itemKey{r.Owner, v.ID}] = r
	}
}

func (s *Store) unlist(r *Record) {
	for _, v := range r.adds() {
		if key := (itemKey{r.Owner, v.ID}); s.items[key] == r {
			delete(s.items, key)
		}
	}
}

// adds returns the items that a record adds to the conversation.
func (r *Record) adds() []Item {
	if r.Body == nil {
		return r.Input
	}
	return slices.Concat(r.Input, r.Body.Items())
}

// hold adds a reference. The first one makes the record's bytes count again.
func (s *Store) hold(r *Record) {
	for ; r != nil; r = r.Previous {
		r.refs++
		if r.refs > 1 {
			return
		}
		s.count(r, r.size)
	}
}

func (s *Store) release(r *Record) {
	for ; r != nil; r = r.Previous {
		r.refs--
		if r.refs > 0 {
			return
		}
		s.count(r, -r.size)
	}
}

// count adds bytes of a record.
func (s *Store) count(r *Record, bytes int) {
	if r.Cancel != nil {
		s.runs += bytes
		return
	}
	s.bytes += bytes
	if s.owned[r.Owner] += bytes; s.owned[r.Owner] == 0 {
		delete(s.owned, r.Owner)
	}
}

// price returns the memory of a record, in bytes.
func (r *Record) price() int {
	n := recordBytes
	if r.Body != nil {
		n += r.Body.Size()
	}
	for _, v := range r.adds() {
		n += v.Size()
	}
	if r.Log != nil {
		n += r.Log.Size()
	}
	return n
}

// Given returns the items that the record was given, after those of the conversation before it.
func (r *Record) Given() []Item {
	return slices.Concat(r.Previous.Conversation(), r.Input)
}

// Conversation returns all items up to the end of the record; none for a nil record.
func (r *Record) Conversation() []Item {
	var chain []*Record
	for ; r != nil; r = r.Previous {
		chain = append(chain, r)
	}
	var all []Item
	for _, r := range slices.Backward(chain) {
		all = append(all, r.adds()...)
	}
	return all
}

// Item returns an item of an owner's records.
func (s *Store) Item(owner, id string) (jsontext.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if r := s.items[itemKey{owner, id}]; r != nil {
		for _, v := range r.adds() {
			if v.ID == id {
				s.touch(r)
				return v.Raw, nil
			}
		}
	}
	return nil, missing("there is no item with the id %s: its response was not stored, or was dropped to make room", field.Quote(id))
}
