package model

import (
	"context"
	"encoding/binary"
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

// adapters has the other ranks use these adapters, as Runner.SetAdapters does. Where one cannot, none does.
func (l *Lead) adapters(ctx context.Context, before, after []*Adapter) error {
	if l == nil {
		return nil
	}
	for i, a := range after {
		if a == nil || a.file == nil {
			continue
		}
		if err := l.share(ctx, i, a); err != nil {
			return fmt.Errorf("an adapter is not on all ranks: %w", err)
		}
		a.file.Close()
		a.file = nil
	}
	err := l.use(ctx, after)
	if err != nil {
		_ = l.use(ctx, before) // who has it already keeps it
	}
	return err
}

func (l *Lead) use(ctx context.Context, list []*Adapter) error {
	msg := append(l.msg[:0], msgAdapters)
	for i, a := range list {
		if a != nil {
			msg = binary.LittleEndian.AppendUint32(msg, uint32(i))
		}
	}
	l.msg = msg
	if err := l.send(msg); err != nil {
		return err
	}
	return l.ready(ctx, nil)
}
