package model

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/stream"
)

// chunkBytes is how much of a tensor is read before its pages are released: small
// relative to a model, large relative to the cost of starting the threads.
const chunkBytes = 32 << 20

// chunkRows returns the most rows of a chunk of x.
func chunkRows(x *matrix) int {
	return max(chunkBytes/kernel.RowBytes(x.Type, x.In)/kernel.Panel, 1) * kernel.Panel
}

// A chunk is what is read of a matrix at a time: rows of one of its tensors, or bytes of its panels.
type chunk struct {
	t         *gguf.Tensor
	row, rows int // of the tensor; where it is transposed, of the transpose
	first     int // row of the matrix, which may have several tensors
	at, n     int // bytes of the tensor; where it is transposed, about these
}

// chunks returns the chunks of x in the order in which they are read. One ends where a matrix or a part of one does: the
// next begins a new panel.
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
		if x.transposed {
			rows = x.Out
		}
		for row := 0; row < rows; {
			n := min(step, x.Out-row%x.Out, rows-row)
			c := chunk{t: t, row: row, rows: n, first: before + row, at: row * size, n: n * size}
			if x.transposed {
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

// sources returns what is read of matrices, in order, but for those that are read as a whole, in any order.
func sources(mats []*matrix) (parts []stream.Range) {
	for _, x := range mats {
		if x.transposed {
			continue
		}
		for _, c := range x.chunks() {
			parts = append(parts, c.source())
		}
	}
	return parts
}

// feedBuffers is how many chunks are in memory at a time, or on their way.
const feedBuffers = 3

// A feed is the chunks of a file that is not in the page cache, read ahead of their use: into buffers, or, where parts is
// nil, into the page cache.
type feed struct {
	parts *stream.Feed
	room  *loan
}

// newFeed returns a feed of what is read of these matrices. Where the whole file has room in the page cache it stays there: the
// kernel reads it there by itself, without a copy, as fast as the disk is, and goes on with what is read of later matrices. Else
// chunks pass through buffers. It is nil where there is nothing to read, or no memory for buffers: then chunks are in the file's
// pages.
func (m *Model) newFeed(mats, later []*matrix, o Options) *feed {
	f := m.file
	cached := func(r stream.Range) bool { return f.regions[r.File].Present(int(r.Off), r.N) }
	unread := func(parts []stream.Range) bool { return f.CanStream() && len(parts) > 0 && !allCached(parts, cached) }
	parts := sources(mats)
	if o.Budget.Free() > f.Size() {
		if parts = append(parts, sources(later)...); !unread(parts) {
			return nil
		}
		m.warming.start(f, parts)
		return &feed{}
	}
	if !unread(parts) {
		return nil
	}
	room, err := o.borrow("weights on their way", uint64(stream.FeedBytes(parts, feedBuffers)))
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
	return &feed{parts: stream.NewFeed(r, parts, room.Bytes(), cached), room: room}
}

// allCached reports whether no part has to be read, as far as a few of them show: small files are read in no time.
func allCached(parts []stream.Range, cached func(stream.Range) bool) bool {
	const probes = 64
	for i := range min(probes, len(parts)) {
		if !cached(parts[i*len(parts)/min(probes, len(parts))]) {
			return false
		}
	}
	return true
}

// bytes returns a chunk of a tensor: from the feed, or in the file's pages. What cannot be read is not there
// either, which Damaged finds.
func (r *reading) bytes(c chunk) []byte {
	switch {
	case r.feed == nil:
		r.ahead(c.t, c.at)
	case r.feed.parts == nil: // it is asked for
	case r.feed.parts.Is(c.source()):
		if b, err := r.feed.parts.Next(); err == nil && b != nil {
			return b
		}
		fallthrough
	default:
		r.ahead(c.t, c.at)
	}
	return c.t.Data[c.at : c.at+c.n]
}

func (f *feed) close() {
	if f != nil && f.parts != nil {
		f.parts.Close()
		f.room.Close()
	}
}

// is reports whether the files of r are those that are mapped: of others the offsets would be other weights.
func (f *File) is(r *stream.Reader) bool {
	for i, region := range f.regions {
		if !region.Is(r.Info(i)) {
			return false
		}
	}
	return true
}
