package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"unsafe"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
)

// Rows of media are on disk too. They are written once they are made, and read in place of being made again: a picture takes
// a second to encode where it takes a few milliseconds to read. A page has as many rows as a page of the tree has room for.

// A rowFetch is the reading of a medium's rows. The loop's lock protects it.
type rowFetch struct {
	done    bool
	region  *mem.Region // the rows, one after the other, once they are read; nil: they could not be
	dropped bool        // nobody waits for them any more
}

// drop has the rows be forgotten, now or once they are read.
func (f *rowFetch) drop() {
	if f.dropped = true; f.region != nil {
		f.region.Close()
		f.region = nil
	}
}

// rowKey is the key of a page of rows. The root has the profile of the numbers, and the hash the projector with its type.
func (s *spill) rowKey(hash [sha256.Size]byte, page int) diskcache.Key {
	b := fmt.Appendf(nil, "%s rows of a medium %s %d", s.root[:], hash[:], page)
	return sha256.Sum256(b)
}

// rowsOfPage returns how many rows a page has, and the bytes of a row. The caller holds the lock.
func (s *spill) rowsOfPage() (n, bytes int) {
	bytes = 4 * s.l.e.model.Config.MediaColumns()
	return len(s.staged.Bytes()) / bytes, bytes
}

// keepRows writes rows that are in memory, which they stay in until then. The caller holds the lock.
func (s *spill) keepRows(hash [sha256.Size]byte) {
	each, size := s.rowsOfPage()
	if each == 0 {
		return
	}
	k := s.l.e.mediaRows.use(hash)
	s.work.Go(func() {
		s.writeRows(k, each, size)
		s.l.mu.Lock()
		s.l.e.mediaRows.release(k)
		s.l.mu.Unlock()
	})
}

func (s *spill) writeRows(k *keptRows, each, size int) {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-s.ctx.Done():
		return
	}
	for page, rows := 0, k.rows; len(rows) > 0; page++ {
		if s.store.Paused() || s.store.Stuck() || s.l.e.file.Damaged() != nil {
			return
		}
		n := min(each, len(rows))
		staged := s.staged.Bytes()[:n*size]
		for i, row := range rows[:n] {
			copy(floatsOf(staged[i*size:][:size]), row)
		}
		rows = rows[n:]
		ctx, cancel := context.WithTimeout(s.ctx, putTime)
		err := panics.Catch(func() error {
			return s.store.Put(ctx, diskcache.Page{Key: s.rowKey(k.hash, page), Units: [][]byte{staged}})
		})
		if cancel(); err != nil {
			return
		}
	}
}

// fetchRows begins to read the rows of a medium; nil: they are not on disk. The caller holds the lock.
func (s *spill) fetchRows(hash [sha256.Size]byte, rows int) *rowFetch {
	each, size := s.rowsOfPage()
	if each == 0 {
		return nil
	}
	pages := (rows + each - 1) / each
	for i := range pages {
		if !s.store.Has(s.rowKey(hash, i)) {
			return nil
		}
	}
	f := &rowFetch{}
	s.work.Go(func() {
		region, err := s.l.e.device.budget.Alloc("rows of a picture or a sound", uint64(rows*size))
		if err == nil {
			ctx, cancel := context.WithTimeout(s.ctx, readLeast)
			err = panics.Share(pageReaders, pages, func(i int) error {
				unit := region.Bytes()[i*each*size:]
				unit = unit[:min(each, rows-i*each)*size]
				return s.store.Get(ctx, diskcache.Page{Key: s.rowKey(hash, i), Units: [][]byte{unit}})
			})
			cancel()
		}
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		if f.done = true; region != nil {
			if f.region = region; err != nil || f.dropped {
				f.drop()
			}
		}
		s.l.nudge()
	})
	return f
}

// fetched gives the rows that have been read to those that wait for them, and reports whether there were any. Those that could
// not be read are made. The caller holds the lock.
func (l *Loop) fetched() (any bool) {
	for _, w := range slices.Clone(l.works) {
		f := w.fetch
		if f == nil || !f.done {
			continue
		}
		w.fetch = nil
		if f.region == nil {
			continue
		}
		columns := l.e.model.Config.MediaColumns()
		var rows [][]float32
		for i := range w.in.Rows() {
			rows = append(rows, floatsOf(f.region.Bytes()[4*i*columns:][:4*columns]))
		}
		l.counts.RowRestores++
		l.have(w, rows, f.region)
		any = true
	}
	return any
}

// floatsOf returns memory outside of Go's heap as floats.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
