package model

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/stream"
)

// chunkBytes is how much of a tensor is read before its pages are released: small relative to a model, large
// relative to the cost of starting the threads.
const chunkBytes = 32 << 20

// chunkRows returns the maximum number of rows of a chunk of x.
func chunkRows(x *matrix) int {
	return max(chunkBytes/kernel.RowBytes(x.Type, x.In)/kernel.Panel, 1) * kernel.Panel
}

// A chunk is the part of a matrix that is read at a time: rows of one of its tensors, or bytes of its panels.
type chunk struct {
	t         *gguf.Tensor
	row, rows int // of the tensor; where it is remade, of what it becomes
	first     int // row of the matrix, which may have several tensors
	at, n     int // bytes of the tensor; where it is remade, about these
}

// chunks returns the chunks of x in reading order. A chunk ends where a matrix or a part of one does, because
// the next row begins a new panel.
func (x *matrix) chunks() (all []chunk) {
	if t := x.panels; t != nil {
		for at := 0; at < len(t.Data); at += chunkBytes {
			all = append(all, chunk{t: t, at: at, n: min(chunkBytes, len(t.Data)-at)})
		}
		return all
	}
	step, size, before := chunkRows(x), kernel.RowBytes(x.Type, x.In), 0
	for _, t := range x.parts {
		rows := len(t.Data) / size
		if x.remade != nil {
			rows = x.Out
		}
		for row := 0; row < rows; {
			n := min(step, x.Out-row%x.Out, rows-row)
			c := chunk{t: t, row: row, rows: n, first: before + row, at: row * size, n: n * size}
			if x.remade != nil {
				c.at = len(t.Data) * row / rows
				c.n = len(t.Data)*(row+n)/rows - c.at
			}
			all = append(all, c)
			row += n
		}
		before += rows
	}
	return all
}

// source returns where the chunk is in the file.
func (c chunk) source() stream.Range {
	return stream.Range{File: c.t.Shard, Off: int64(c.t.Offset) + int64(c.at), N: c.n}
}

// sources returns the file ranges of matrices in reading order, except those of matrices that are read as a
// whole and out of order.
func sources(mats []*matrix) (parts []stream.Range) {
	for _, x := range mats {
		if x.remade != nil {
			continue
		}
		for _, c := range x.chunks() {
			parts = append(parts, c.source())
		}
	}
	return parts
}

// feedBytes is the most bytes of a file that are in the feed's buffer: the chunk being packed, and those being read.
const feedBytes = 3 * chunkBytes

// A feed reads the chunks of a file that is not in the page cache ahead of their use: into a buffer or, if
// parts is nil, into the page cache.
type feed struct {
	parts *stream.Feed
	room  *loan
	later bool // it reads what is packed after the load as well
}

// onTheWay is the purpose of its memory.
const onTheWay = "weights on their way"

// newFeed returns a feed for these matrices, and for those that are packed after the load if it can: the disk
// then does not wait between the two. If the whole file fits in the page cache, it reads the file there: the
// kernel needs no copy. Otherwise chunks pass through a buffer. A feed for later matrices outlives the load, so
// borrowed memory does not do for it. It returns nil if there is nothing to read, or no memory for a buffer; chunks are
// then read from the mapping.
func (m *Model) newFeed(mats, later []*matrix, o Options) *feed {
	f := m.file
	cached := func(r stream.Range) bool { return f.regions[r.File].Present(int(r.Off), r.N) }
	parts := sources(mats)
	all := append(parts[:len(parts):len(parts)], sources(later)...)
	if !f.CanStream() || allCached(all, cached) {
		return nil
	}
	if o.Budget.Free() > f.Size() {
		m.warming.start(f, all)
		return &feed{later: true}
	}
	about := int(min(feedBytes, f.Size()/4))
	lent := o.Lent
	if len(later) > 0 {
		o.Lent = 0
	}
	room, err := o.borrow(onTheWay, uint64(stream.FeedBytes(all, about)))
	whole := err == nil
	if !whole && len(later) > 0 && !allCached(parts, cached) {
		o.Lent, all = lent, parts
		room, err = o.borrow(onTheWay, uint64(stream.FeedBytes(all, about)))
	}
	if err != nil {
		return nil
	}
	r, err := stream.Open(f.Paths)
	if err != nil || !f.is(r) {
		if err == nil {
			r.Close()
		}
		room.Close()
		return nil
	}
	return &feed{parts: stream.NewFeed(r, all, room.Bytes(), cached), room: room, later: whole}
}

// allCached reports whether all parts are in the page cache, judged by a sample.
func allCached(parts []stream.Range, cached func(stream.Range) bool) bool {
	const probes = 64
	for i := range min(probes, len(parts)) {
		if !cached(parts[i*len(parts)/min(probes, len(parts))]) {
			return false
		}
	}
	return true
}

// bytes returns a chunk of a tensor, from the feed or the mapping. If the feed's read fails, reading the
// mapping fails too, which Damaged detects. The error is of a file that is elsewhere.
func (r *reading) bytes(c chunk) ([]byte, error) {
	switch {
	case r.haul != nil:
		return r.haul.bytes(c)
	case r.feed == nil:
		r.ahead(c.t, c.at)
	case r.feed.parts == nil: // it is asked for
	case r.feed.parts.Is(c.source()):
		if b, err := r.feed.parts.Next(); err == nil && b != nil {
			return b, nil
		}
		fallthrough
	default:
		r.ahead(c.t, c.at)
	}
	return c.t.Data[c.at : c.at+c.n], nil
}

func (f *feed) close() {
	if f != nil && f.parts != nil {
		f.parts.Close()
		f.room.Close()
	}
}

// is reports whether the files of r are the mapped ones: in other files the offsets would be of other
// weights.
func (f *File) is(r *stream.Reader) bool {
	for i, region := range f.regions {
		if !region.Is(r.Info(i)) {
			return false
		}
	}
	return true
}
