package model

import (
	"context"
	"fmt"
)

// partBytes is how much of a file is in a message.
const partBytes = 1 << 20

// share gives the other ranks an adapter's file, by which they make their own of the same number: adapters come at any time,
// and from paths of rank 0.
func (l *Lead) share(ctx context.Context, number int, a *Adapter) error {
	shards := a.file.Shards()
	var sizes []int
	for _, s := range shards {
		sizes = append(sizes, len(s))
	}
	if err := l.tell(msgFile, sizes); err != nil {
		return err
	}
	for _, s := range shards {
		for len(s) > 0 {
			n := min(len(s), partBytes)
			l.msg = append(append(l.msg[:0], msgPart), s[:n]...)
			if err := l.send(l.msg); err != nil {
				return err
			}
			s = s[n:]
		}
	}
	if err := a.file.Damaged(); err != nil { // they have loaded nothing
		return err
	}
	if err := l.words(msgAdapter, []int32{int32(number)}); err != nil {
		return err
	}
	return l.ready(ctx, nil)
}

// adapters has the other ranks use these adapters, as Runner.SetAdapters does. Where one cannot, none does: each allocates what
// it needs beside what it has, and changes to it, or drops it, when all have answered.
func (l *Lead) adapters(ctx context.Context, list []*Adapter) error {
	if l == nil {
		return nil
	}
	err := l.prepare(ctx, list)
	if err != nil {
		_ = l.words(msgAdapted, []int32{0}) // it fails if the ranks are lost, which err says
		return err
	}
	if err := l.words(msgAdapted, []int32{1}); err != nil {
		return err
	}
	for _, a := range list {
		if a != nil && a.file != nil {
			a.file.Close()
			a.file = nil
		}
	}
	return nil
}

// prepare has the other ranks load what they have not, and get ready to use these adapters.
func (l *Lead) prepare(ctx context.Context, list []*Adapter) error {
	var numbers []int32
	for i, a := range list {
		if a == nil {
			continue
		}
		if numbers = append(numbers, int32(i)); a.file == nil {
			continue
		}
		if err := l.share(ctx, i, a); err != nil {
			return fmt.Errorf("an adapter is not on all ranks: %w", err)
		}
	}
	if err := l.words(msgAdapters, numbers); err != nil {
		return err
	}
	return l.ready(ctx, nil)
}
