package history

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// stored is a response of about n bytes that goes on with another.
func stored(id string, n int, previous *Record) *Record {
	raw := jsontext.Value(`"` + strings.Repeat("x", n-recordBytes-itemBytes-len("item-"+id)-2) + `"`)
	return &Record{Kind: answers, ID: id, Owner: "me", Previous: previous, Input: []Item{{"item-" + id, raw}}}
}

const answers = Kind("answer")

// text is a body without items.
type text string

func (text) Items() []Item { return nil }
func (t text) Size() int   { return len(t) }

func (s *Store) has(ids ...string) string {
	var got []string
	for _, id := range ids {
		s.mu.Lock()
		for key := range s.byID {
			if key.id == id {
				got = append(got, id)
			}
		}
		s.mu.Unlock()
	}
	return strings.Join(got, "")
}

func TestStoreIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(30_000, time.Hour)
	s.now = func() time.Time { return now }
	a, b, c := stored("a", 10_000, nil), stored("b", 10_000, nil), stored("c", 10_000, nil)
	s.Put(a)
	s.Put(b)
	s.Put(c)
	if got := s.has("a", "b", "c"); got != "abc" || s.bytes != 30_000 {
		t.Fatalf("%s in %d bytes", got, s.bytes)
	}
	if _, err := s.Get(answers, "me", "a"); err != nil { // b is now the longest unused
		t.Fatal(err)
	}
	s.Put(stored("d", 10_000, nil))
	if got := s.has("a", "b", "c", "d"); got != "acd" {
		t.Errorf("it has %s", got)
	}
	// What one goes on with is kept as long as it, and counts.
	e := stored("e", 10_000, a)
	s.Put(e) // drops c
	if got := s.has("a", "c", "d", "e"); got != "ade" || s.bytes != 30_000 {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	if err := s.Remove(answers, "me", "a"); err != nil || s.bytes != 30_000 || len(e.Given()) != 2 {
		t.Errorf("without a: %v, %d bytes, %d items", err, s.bytes, len(e.Given()))
	}
	if err := s.Remove(answers, "me", "e"); err != nil || s.bytes != 10_000 {
		t.Errorf("without e: %v, %d bytes", err, s.bytes)
	}
	// A conversation whose beginning was dropped meanwhile counts anew.
	s.Put(stored("f", 10_000, a))
	if s.bytes != 30_000 {
		t.Errorf("%d bytes with a again", s.bytes)
	}
	// One that is too large is not kept, and one that runs is.
	s.Put(stored("g", 40_000, nil))
	if got := s.has("d", "f", "g"); got != "" || s.bytes != 0 {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	h := stored("h", 40_000, nil)
	h.Cancel = func() {}
	s.Put(h)
	s.Put(stored("i", 10_000, nil))
	if got := s.has("h", "i"); got != "hi" || s.bytes != 10_000 || s.Size() != 50_000 {
		t.Errorf("it has %s in %d bytes, %d of ended ones", got, s.Size(), s.bytes)
	}
	if err := s.Remove(answers, "me", "i"); err != nil {
		t.Error(err)
	}
	s.Update(h, func(r *Record) { r.Cancel, r.Input = nil, nil })
	s.Put(stored("j", 10_000, nil))
	if got := s.has("h", "j"); got != "hj" || s.bytes != 10_000+recordBytes || s.runs != 0 {
		t.Errorf("it has %s in %d bytes", got, s.bytes)
	}
	now = now.Add(30 * time.Minute)
	if _, err := s.Get(answers, "me", "h"); err != nil {
		t.Error(err)
	}
	now = now.Add(40 * time.Minute)
	if _, err := s.Get(answers, "me", "j"); err == nil || s.has("h") != "h" {
		t.Errorf("after its time: %v", err)
	}
	if _, err := s.Item("me", "item-j"); err == nil {
		t.Error("its item is there")
	}
	if s.used.Len() != len(s.byID) {
		t.Errorf("%d in order, %d by id", s.used.Len(), len(s.byID))
	}
}

// One who stores more and more loses the oldest of his own, and nobody else's.
func TestStoreIsShared(t *testing.T) {
	s := New(60_000, time.Hour)
	of := func(owner, id string, size int) *Record {
		r := stored(id, size, nil)
		r.Owner = owner
		return r
	}
	s.Put(of("light", "a", 10_000))
	s.Put(of("light", "b", 10_000))
	for i := range 20 {
		s.Put(of("flood", fmt.Sprint(i), 10_000))
	}
	if got := s.has("a", "b", "15", "16", "17", "18", "19"); got != "ab16171819" {
		t.Errorf("it has %s", got)
	}
	running := of("flood", "r", 40_000) // stays while it runs, and takes no room of others
	running.Cancel = func() {}
	s.Put(running)
	if got := s.has("a", "b", "r", "19"); got != "abr19" || s.bytes != 60_000 {
		t.Errorf("beside one that runs it has %s in %d bytes", got, s.bytes)
	}
	s.Update(running, func(r *Record) { r.Cancel = nil }) // now there is no room for anything else of its owner, which was there before
	if got := s.has("a", "b", "r", "19"); got != "abr" || s.bytes != 60_000 || s.runs != 0 {
		t.Errorf("once it has ended it has %s in %d bytes", got, s.bytes)
	}
	for _, id := range []string{"a", "b", "r"} {
		if err := s.Remove(answers, map[string]string{"a": "light", "b": "light", "r": "flood"}[id], id); err != nil {
			t.Error(err)
		}
	}
	if s.bytes != 0 || len(s.owned) != 0 || s.used.Len() != 0 {
		t.Errorf("%d bytes, %d owners and %d records are left", s.bytes, len(s.owned), s.used.Len())
	}
}

// What is stored is there for its owner alone, who finds the newest of items with the same id.
func TestStoreHasOwners(t *testing.T) {
	s := New(1<<20, time.Hour)
	item := func(owner, id, text string) *Record {
		r := &Record{Kind: answers, ID: id, Owner: owner, Input: []Item{{"msg_1", jsontext.Value(text)}}}
		s.Put(r)
		return r
	}
	item("me", "a", `"mine"`)
	item("you", "b", `"yours"`)
	for owner, want := range map[string]string{"me": `"mine"`, "you": `"yours"`, "": ""} {
		if v, err := s.Item(owner, "msg_1"); string(v) != want || (err == nil) != (want != "") {
			t.Errorf("%q has %s: %v", owner, v, err)
		}
	}
	if _, err := s.Get(answers, "you", "a"); err == nil {
		t.Error("a response of another is there")
	}
	if err := s.Remove(answers, "you", "a"); err == nil || s.has("a") != "a" {
		t.Errorf("another removes it: %v", err)
	}
	newer := item("me", "c", `"newer"`)
	newer.Body = text(strings.Repeat("u", 5000))
	if v, _ := s.Item("me", "msg_1"); string(v) != `"newer"` || newer.price() < 9000 {
		t.Errorf("%s, %d bytes", v, newer.price())
	}
	for _, id := range []string{"a", "c"} {
		if err := s.Remove(answers, "me", id); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Item("me", "msg_1"); err == nil || len(s.items) != 1 {
		t.Errorf("%d items are left", len(s.items))
	}
}

// What runs for one owner drops nothing of another, however much it is, and is bounded as the others once it has ended.
func TestRunningOnesTakeNoRoom(t *testing.T) {
	t.Parallel()
	s := New(30_000, time.Hour)
	yours := stored("yours", 10_000, nil)
	yours.Owner = "you"
	s.Put(yours)
	var mine []*Record
	for _, id := range []string{"a", "b", "c", "d"} {
		r := stored(id, 10_000, nil)
		r.Cancel = func() {}
		s.Put(r)
		mine = append(mine, r)
	}
	if _, err := s.Get(answers, "you", "yours"); err != nil || s.Size() != 50_000 {
		t.Errorf("%v, %d bytes", err, s.Size())
	}
	for _, r := range mine {
		s.Update(r, func(r *Record) { r.Cancel = nil })
	}
	if _, err := s.Get(answers, "you", "yours"); err != nil || s.has("a", "b", "c", "d") != "cd" || s.Size() != 30_000 {
		t.Errorf("%v, there are %s, in %d bytes", err, s.has("a", "b", "c", "d"), s.Size())
	}
	for _, id := range []string{"c", "d"} {
		if err := s.Remove(answers, "me", id); err != nil {
			t.Error(err)
		}
	}
	if s.Size() != 10_000 || s.runs != 0 {
		t.Errorf("%d bytes are left, %d of them of what runs", s.Size(), s.runs)
	}
}

// Whatever happens at the same time, the store holds no more than it may, and nothing
// when all is deleted.
func TestStoreTogether(t *testing.T) {
	s := New(50_000, time.Hour)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			var last *Record
			for i := range 200 {
				r := stored(fmt.Sprint(w, "-", i), 6000+i, last)
				if i%3 == 0 {
					r.Cancel = func() {}
				}
				s.Put(r)
				s.Update(r, func(r *Record) { r.Cancel = nil })
				if last, _ = s.Get(answers, "me", r.ID); last != nil && i%5 == 0 {
					last.Conversation()
					_ = s.Remove(answers, "me", last.ID)
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

// A list has an owner's records of a kind, the oldest first.
func TestStoreLists(t *testing.T) {
	s := New(1_000_000, time.Hour)
	want := ""
	for i := range 12 {
		r := stored(fmt.Sprint(i), 10_000, nil)
		r.Body = text(fmt.Sprint(i, " "))
		s.Put(r)
		want += fmt.Sprint(i, " ")
	}
	other, kind := stored("o", 10_000, nil), stored("k", 10_000, nil)
	other.Owner, kind.Kind = "you", Kind("chat")
	s.Put(other)
	s.Put(kind)
	if _, err := s.Get(answers, "me", "3"); err != nil { // a use changes no order
		t.Fatal(err)
	}
	got := ""
	for _, b := range s.List(answers, "me") {
		got += string(b.(text))
	}
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Owners may choose the same ids, as they may for records of other kinds; one that is there gives way to the next, and is
// cancelled. What is dropped by its record is not the next.
func TestSameID(t *testing.T) {
	s := New(1<<20, time.Hour)
	cancelled := 0
	put := func(kind Kind, owner string) *Record {
		r := &Record{Kind: kind, ID: "x", Owner: owner, Body: text("1"), Cancel: func() { cancelled++ }}
		s.Put(r)
		return r
	}
	mine, other := put(answers, "me"), put(answers, "you")
	put("note", "me")
	if r, err := s.Get(answers, "me", "x"); err != nil || r != mine || cancelled != 0 {
		t.Errorf("%v: %v, %d are cancelled", r, err, cancelled)
	}
	next := put(answers, "me")
	s.Forget(mine)
	if r, err := s.Get(answers, "me", "x"); err != nil || r != next || cancelled != 1 {
		t.Errorf("after the next: %v: %v, %d are cancelled", r, err, cancelled)
	}
	s.Forget(next)
	if _, err := s.Get(answers, "me", "x"); err == nil || cancelled != 1 {
		t.Errorf("after it is dropped: %v, %d are cancelled", err, cancelled)
	}
	if r, err := s.Get(answers, "you", "x"); err != nil || r != other {
		t.Errorf("another's: %v: %v", r, err)
	}
}

// What has run for longer than records are kept is there when it has ended, and as long as others from then on.
func TestTimeBeginsAtTheEnd(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(1<<20, time.Hour)
	s.now = func() time.Time { return now }
	r := stored("a", 10_000, nil)
	r.Cancel = func() {}
	s.Put(r)
	now = now.Add(2 * time.Hour)
	s.Update(r, func(r *Record) { r.Cancel = nil })
	now = now.Add(59 * time.Minute)
	if s.Size() == 0 {
		t.Error("it was dropped when it had ended")
	}
	now = now.Add(time.Minute)
	if n := s.Size(); n != 0 {
		t.Errorf("after its time it has %d bytes", n)
	}
}
