package model

import (
	"context"
	"encoding/json"
	"fmt"
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
	var err error
	if w := words(body); kind == msgAdapters {
		err = f.busy(func() error { return f.adapt(w) })
	} else if len(w) != 1 || w[0] < 0 || w[0] >= mostAdapters {
		return fmt.Errorf("the number of an adapter of rank 0 is %d: %w", w, ErrRank)
	} else {
		err = f.busy(func() error { return f.loadAdapter(ctx, int(w[0])) })
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
	f.incoming, _ = f.Budget.Alloc("the file of an adapter", all) // who is to load it says so
	return nil
}

// loadAdapter loads the adapter whose file has come.
func (f *Follower) loadAdapter(ctx context.Context, number int) error {
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
	for len(f.adapters) <= number {
		f.adapters = append(f.adapters, nil)
	}
	if old := f.adapters[number]; old != nil { // it was never used: rank 0 has told of it, and then could not use it
		old.Close()
	}
	f.adapters[number] = a
	return nil
}

// adapt makes the adapters of these numbers, and no others, those of batches.
func (f *Follower) adapt(numbers []int32) error {
	list := slices.Clone(f.adapters)
	for i := range list {
		if !slices.Contains(numbers, int32(i)) {
			list[i] = nil
		}
	}
	for _, n := range numbers {
		if int(n) >= len(list) || list[n] == nil {
			return fmt.Errorf("adapter %d of rank 0 is not here", n)
		}
	}
	if err := f.runner.SetAdapters(list); err != nil {
		return err
	}
	for i, a := range f.adapters {
		if a != nil && list[i] == nil {
			a.Close()
		}
	}
	f.adapters = list
	return nil
}
