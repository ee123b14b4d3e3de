package model

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// What a rank does with adapters. Where it cannot, for lack of memory, it says so, and goes on as before.

func (f *Follower) adapter(ctx context.Context, kind byte, body []byte) error {
	switch kind {
	case msgFile:
		return f.beginFile(body)
	case msgPart:
		if f.incoming == nil { // there was no memory for it
			return nil
		}
		if len(body) > len(f.incoming.Bytes())-f.read {
			return fmt.Errorf("an adapter of rank 0 is longer than it says: %w", ErrRank)
		}
		f.read += copy(f.incoming.Bytes()[f.read:], body)
		return nil
	}
	w := words(body)
	var err error
	switch {
	case kind == msgAdapters:
		err = f.busy(func() error { return f.prepare(w) })
	case len(w) != 1 || w[0] < 0 || w[0] >= mostAdapters:
		return fmt.Errorf("of an adapter of rank 0 there is %d: %w", w, ErrRank)
	case kind == msgAdapter:
		err = f.busy(func() error { return f.loadAdapter(ctx, w[0]) })
	case w[0] == 1:
		return f.adapt()
	default:
		f.drop()
		return nil
	}
	return f.answered(f.answer(nil, err), err)
}

// mostAdapters bounds the numbers of adapters.
const mostAdapters = 1 << 16

// beginFile makes room for the file of an adapter.
func (f *Follower) beginFile(body []byte) error {
	if err := json.Unmarshal(body, &f.shards); err != nil {
		return err
	}
	all := uint64(0)
	for _, n := range f.shards {
		if n < 1 || n > 1<<40 {
			return fmt.Errorf("an adapter of rank 0 has a file of %d bytes: %w", n, ErrRank)
		}
		all += uint64(n)
	}
	f.read = 0
	f.forget()
	f.incoming, _ = f.Budget.Alloc("the file of an adapter", all) // who is to load it says so
	return nil
}

// loadAdapter loads the adapter whose file has come.
func (f *Follower) loadAdapter(ctx context.Context, number int32) error {
	file := f.incoming
	f.incoming = nil
	if file == nil {
		return fmt.Errorf("there is no memory for the file of an adapter")
	}
	defer file.Close()
	if f.read != len(file.Bytes()) {
		return fmt.Errorf("%d bytes of an adapter of %d have come", f.read, len(file.Bytes()))
	}
	of, err := openShards("an adapter of rank 0", file.Bytes(), f.shards)
	if err != nil {
		return err
	}
	a, err := f.model.readAdapter(of, Options{Pack: f.Pool.PackInto, Budget: f.Budget, Until: ctx})
	if err != nil {
		return err
	}
	f.unprepare() // which may be with the one that this replaces
	if old := f.loaded[number]; old != nil {
		old.Close()
	}
	if f.loaded == nil {
		f.loaded = map[int32]*Adapter{}
	}
	f.loaded[number] = a
	return nil
}

// prepare allocates what a runner with the adapters of these numbers, and no others, has.
func (f *Follower) prepare(numbers []int32) error {
	f.unprepare()
	var list []*Adapter
	for _, n := range numbers {
		a := f.loaded[n]
		if a == nil && n >= 0 && int(n) < len(f.adapters) {
			a = f.adapters[n]
		}
		if a == nil {
			return fmt.Errorf("adapter %d of rank 0 is not here", n)
		}
		list = append(list, make([]*Adapter, max(int(n)+1-len(list), 0))...)
		list[n] = a
	}
	next, err := f.runner.with(list)
	if err == nil {
		f.next = next
	}
	return err
}

// adapt makes the adapters of batches those that were prepared, and closes the others.
func (f *Follower) adapt() error {
	if f.next == nil {
		return fmt.Errorf("adapters of rank 0 that were not prepared: %w", ErrRank)
	}
	old := f.adapters
	f.adapters = f.next.adapters
	f.runner.adopt(f.next)
	f.next = nil
	for _, a := range f.adapters {
		maps.DeleteFunc(f.loaded, func(_ int32, b *Adapter) bool { return a == b })
	}
	f.drop()
	for _, a := range old {
		if a != nil && !slices.Contains(f.adapters, a) {
			a.Close()
		}
	}
	return nil
}

// unprepare releases what a runner would have had.
func (f *Follower) unprepare() {
	if f.next != nil {
		f.next.Close()
		f.next = nil
	}
}

// drop releases what was loaded, or came, for adapters that batches do not have.
func (f *Follower) drop() {
	f.unprepare()
	for _, a := range f.loaded {
		a.Close()
	}
	f.loaded = nil
	f.forget()
}

// forget releases the file of an adapter that was not loaded.
func (f *Follower) forget() {
	if f.incoming != nil {
		f.incoming.Close()
		f.incoming = nil
	}
}
