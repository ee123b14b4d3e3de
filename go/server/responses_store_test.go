package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// stored is a response of about n bytes that goes on with another.
func stored(id string, n int, previous *storedResponse) *storedResponse {
	raw := jsontext.Value(`"` + strings.Repeat("x", n-storedBytes-storedItemBytes-len("item-"+id)-2) + `"`)
	return &storedResponse{id: id, owner: "me", previous: previous, input: []storedItem{{"item-" + id, raw}}}
}

func (s *responseStore) has(ids ...string) string {
	var got []string
	for _, id := range ids {
		s.mu.Lock()
		if s.byID[id] != nil {
			got = append(got, id)
		}
		s.mu.Unlock()
	}
	return strings.Join(got, "")
}

func TestStoreIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := newResponseStore(30_000, time.Hour)
	s.now = func() time.Time { return now }
	a, b, c := stored("a", 10_000, nil), stored("b", 10_000, nil), stored("c", 10_000, nil)
	s.put(a)
	s.put(b)
	s.put(c)
	if got := s.has("a", "b", "c"); got != "abc" || s.bytes != 30_000 {
		t.Fatalf("%s in %d bytes", got, s.bytes)
	}
	if _, err := s.get("me", "a"); err != nil { // b is now the longest unused
		t.Fatal(err)
	}
	s.put(stored("d", 10_000, nil))
	if got := s.has("a", "b", "c", "d"); got != "acd" {
		t.Errorf("it has %s", got)
	}
	// What one goes on with is kept as long as it, and counts.
	e := stored("e", 10_000, a)
	s.put(e) // drops c
	if got := s.has("a", "c", "d", "e"); got != "ade" || s.bytes != 30_000 {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	if err := s.remove("me", "a"); err != nil || s.bytes != 30_000 || len(e.given()) != 2 {
		t.Errorf("without a: %v, %d bytes, %d items", err, s.bytes, len(e.given()))
	}
	if err := s.remove("me", "e"); err != nil || s.bytes != 10_000 {
		t.Errorf("without e: %v, %d bytes", err, s.bytes)
	}
	// A conversation whose beginning was dropped meanwhile counts anew.
	s.put(stored("f", 10_000, a))
	if s.bytes != 30_000 {
		t.Errorf("%d bytes with a again", s.bytes)
	}
	// One that is too large is not kept, and one that runs is.
	s.put(stored("g", 40_000, nil))
	if got := s.has("d", "f", "g"); got != "" || s.bytes != 0 {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	h := stored("h", 40_000, nil)
	h.cancel = func() {}
	s.put(h)
	s.put(stored("i", 10_000, nil))
	if got := s.has("h", "i"); got != "h" {
		t.Errorf("it has %s", got)
	}
	s.update(h, func(r *storedResponse) { r.cancel, r.input = nil, nil })
	s.put(stored("j", 10_000, nil))
	if got := s.has("h", "j"); got != "hj" || s.bytes != 10_000+storedBytes {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	now = now.Add(30 * time.Minute)
	if _, err := s.get("me", "h"); err != nil {
		t.Error(err)
	}
	now = now.Add(40 * time.Minute)
	if _, err := s.get("me", "j"); err == nil || s.has("h") != "h" {
		t.Errorf("after its time: %v", err)
	}
	if _, err := s.item("me", "item-j"); err == nil {
		t.Error("its item is there")
	}
	if s.used.Len() != len(s.byID) {
		t.Errorf("%d in order, %d by id", s.used.Len(), len(s.byID))
	}
}

// What is stored is there for its owner alone, who finds the newest of items with the same id.
func TestStoreHasOwners(t *testing.T) {
	s := newResponseStore(1<<20, time.Hour)
	item := func(owner, id, text string) *storedResponse {
		r := &storedResponse{id: id, owner: owner, input: []storedItem{{"msg_1", jsontext.Value(text)}}}
		s.put(r)
		return r
	}
	item("me", "a", `"mine"`)
	item("you", "b", `"yours"`)
	for owner, want := range map[string]string{"me": `"mine"`, "you": `"yours"`, "": ""} {
		if v, err := s.item(owner, "msg_1"); string(v) != want || (err == nil) != (want != "") {
			t.Errorf("%q has %s: %v", owner, v, err)
		}
	}
	if _, err := s.get("you", "a"); err == nil {
		t.Error("a response of another is there")
	}
	if err := s.remove("you", "a"); err == nil || s.has("a") != "a" {
		t.Errorf("another removes it: %v", err)
	}
	newer := item("me", "c", `"newer"`)
	newer.body.User = new(strings.Repeat("u", 5000))
	if v, _ := s.item("me", "msg_1"); string(v) != `"newer"` || newer.price() < 9000 {
		t.Errorf("%s, %d bytes", v, newer.price())
	}
	for _, id := range []string{"a", "c"} {
		if err := s.remove("me", id); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.item("me", "msg_1"); err == nil || len(s.items) != 1 {
		t.Errorf("%d items are left", len(s.items))
	}
}

// Whatever happens at the same time, the store holds no more than it may, and nothing
// when all is deleted.
func TestStoreTogether(t *testing.T) {
	s := newResponseStore(50_000, time.Hour)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			var last *storedResponse
			for i := range 200 {
				r := stored(fmt.Sprint(w, "-", i), 6000+i, last)
				if i%3 == 0 {
					r.cancel = func() {}
				}
				s.put(r)
				s.update(r, func(r *storedResponse) { r.cancel = nil })
				if last, _ = s.get("me", r.id); last != nil && i%5 == 0 {
					last.conversation()
					_ = s.remove("me", last.id)
				}
				if i%7 == 0 {
					last = nil
				}
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	if s.bytes > s.max {
		t.Errorf("%d bytes", s.bytes)
	}
	for _, r := range s.byID {
		s.drop(r)
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes of nothing", s.bytes)
	}
	s.mu.Unlock()
}
