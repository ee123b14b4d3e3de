package server

import (
	"container/list"
	"iter"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A responseStore keeps responses for as long as there is room: the ones that were not
// used for the longest time are dropped first, and each after a time without use. What a
// conversation has in common with an earlier response is kept once, and for as long as
// one of those that continue it.
type responseStore struct {
	mu    sync.Mutex
	max   int // bytes
	ttl   time.Duration
	now   func() time.Time
	bytes int
	byID  map[string]*storedResponse
	items map[itemKey]*storedResponse // of those in byID, the newest that has the item
	used  *list.List                  // of those in byID, the longest unused first
	count uint64                      // that were put
}

// An itemKey is an item as its owner knows it: clients choose ids, and two may choose the
// same.
type itemKey struct{ owner, id string }

// A storedResponse is a response, and what it adds to the conversation of the one
// before.
type storedResponse struct {
	id       string
	owner    string // the only one who may see it
	previous *storedResponse
	input    []storedItem // which it was given
	body     response     // replaced when it changes, and only read otherwise; its output has the other items
	cancel   func()       // of one that runs; nil: it has ended
	chat     *storedChat  // it is a chat completion, and has nothing of what follows; nil: it is a response
	serial   uint64       // the order in which they came
	log      *reply.Log   // of one that was asked for as a stream, and runs or ran in the background

	size    int
	refs    int // by the store, and by the responses that continue it
	at      *list.Element
	expires time.Time
}

// A storedItem is an item of a conversation.
type storedItem struct {
	id  string
	raw jsontext.Value
}

// Prices of what a stored response takes besides its texts, in bytes.
const (
	storedBytes     = 4 << 10
	storedItemBytes = 192 // with its place in the index
)

func newResponseStore(max uint64, ttl time.Duration) *responseStore {
	return &responseStore{max: int(min(max, math.MaxInt)), ttl: ttl, now: time.Now, byID: map[string]*storedResponse{}, items: map[itemKey]*storedResponse{}, used: list.New()}
}

// get returns a response of an owner, which is then the one that was used last.
func (s *responseStore) get(owner, id string) (*storedResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	r := s.find(owner, id, false)
	if r == nil {
		return nil, notStored("response", id)
	}
	s.touch(r)
	return r, nil
}

// find returns a response of an owner, or a chat completion; nil if there is none.
func (s *responseStore) find(owner, id string, chat bool) *storedResponse {
	if r := s.byID[id]; r != nil && r.owner == owner && (r.chat != nil) == chat {
		return r
	}
	return nil
}

func notStored(what, id string) error {
	return &reply.Error{Status: http.StatusNotFound, Message: "there is no " + what + " with the id " + field.Quote(id) + ": it was not stored, or was dropped to make room"}
}

// size returns what is kept, in bytes.
func (s *responseStore) size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(s.bytes)
}

// body returns a response as it is now.
func (s *responseStore) body(r *storedResponse) response {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.body
}

func (s *responseStore) touch(r *storedResponse) {
	r.expires = s.now().Add(s.ttl)
	s.used.MoveToBack(r.at)
}

// put stores a response under its id.
func (s *responseStore) put(r *storedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.size = r.price()
	s.hold(r)
	s.count++
	r.serial = s.count
	s.byID[r.id] = r
	s.list(r)
	r.at = s.used.PushBack(r)
	r.expires = s.now().Add(s.ttl)
	s.expire()
}

// update changes a response that runs, unless it has ended otherwise or is deleted.
func (s *responseStore) update(r *storedResponse, change func(*storedResponse)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.cancel == nil {
		return
	}
	there := s.byID[r.id] == r
	if there {
		s.unlist(r)
	}
	change(r)
	if there {
		s.list(r)
	}
	if r.refs > 0 {
		was := r.size
		r.size = r.price()
		s.bytes += r.size - was
	}
	s.expire()
}

// remove deletes a response of an owner.
func (s *responseStore) remove(owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(owner, id, false)
	if r == nil {
		return notStored("response", id)
	}
	if r.cancel != nil {
		r.cancel()
	}
	s.drop(r)
	return nil
}

// expire drops what is too old, and what there is no room for. Responses that run stay.
func (s *responseStore) expire() {
	now := s.now()
	for at := s.used.Front(); at != nil; {
		r := at.Value.(*storedResponse)
		at = at.Next()
		if r.cancel != nil {
			continue
		}
		if s.bytes <= s.max && now.Before(r.expires) {
			return
		}
		s.drop(r)
	}
}

func (s *responseStore) drop(r *storedResponse) {
	delete(s.byID, r.id)
	s.used.Remove(r.at)
	s.unlist(r)
	s.release(r)
}

// list makes the items of a response known.
func (s *responseStore) list(r *storedResponse) {
	for v := range r.items() {
		s.items[itemKey{r.owner, v.id}] = r
	}
}

func (s *responseStore) unlist(r *storedResponse) {
	for v := range r.items() {
		if key := (itemKey{r.owner, v.id}); s.items[key] == r {
			delete(s.items, key)
		}
	}
}

// items are those that the response adds to the conversation.
func (r *storedResponse) items() iter.Seq[storedItem] {
	return func(yield func(storedItem) bool) {
		for _, items := range [][]storedItem{r.input, r.body.Output} {
			for _, v := range items {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// hold adds a reference. A response that nothing has referred to counts anew.
func (s *responseStore) hold(r *storedResponse) {
	for ; r != nil; r = r.previous {
		r.refs++
		if r.refs > 1 {
			return
		}
		s.bytes += r.size
	}
}

func (s *responseStore) release(r *storedResponse) {
	for ; r != nil; r = r.previous {
		r.refs--
		if r.refs > 0 {
			return
		}
		s.bytes -= r.size
	}
}

// price is the memory of a response.
func (r *storedResponse) price() int {
	n := storedBytes + len(r.body.Tools) + len(r.body.Metadata) + len(r.body.Choice) + len(r.body.Text.Format)
	for _, text := range []*string{r.body.Instructions, r.body.User, r.body.CacheKey, r.body.Safety} {
		if text != nil {
			n += len(*text)
		}
	}
	for v := range r.items() {
		n += storedItemBytes + len(v.id) + len(v.raw)
	}
	if r.log != nil {
		n += r.log.Size()
	}
	if r.chat != nil {
		n += r.chat.price()
	}
	return n
}

// given returns the items that the response was given, those of the conversation before
// it first.
func (r *storedResponse) given() []storedItem {
	if r == nil {
		return nil
	}
	return slices.Concat(r.previous.conversation(), r.input)
}

// conversation returns all items up to the end of the response.
func (r *storedResponse) conversation() []storedItem {
	var chain []*storedResponse
	for ; r != nil; r = r.previous {
		chain = append(chain, r)
	}
	var all []storedItem
	for _, r := range slices.Backward(chain) {
		all = append(append(all, r.input...), r.body.Output...)
	}
	return all
}

// item returns an item of an owner's stored response.
func (s *responseStore) item(owner, id string) (jsontext.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if r := s.items[itemKey{owner, id}]; r != nil {
		for v := range r.items() {
			if v.id == id {
				s.touch(r)
				return v.raw, nil
			}
		}
	}
	return nil, &reply.Error{Status: http.StatusNotFound, Message: "there is no item with the id " + field.Quote(id) + ": its response was not stored, or was dropped to make room"}
}
