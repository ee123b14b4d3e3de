package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/stream"
)

// A haul is what a load reads of a file that is elsewhere: each byte once, in about the order of the file. Most of it
// passes through a feed's buffer. A tensor is put in its place as a whole where rows of it are looked up later, where
// more than one matrix is made of it, or where a matrix is made of it as a whole. So are those of which a part is there.
type haul struct {
	file   *File
	mats   []*matrix // in the order in which they are read
	parts  []stretch
	uses   map[string]int // matrices that are still to be made, by tensor
	placed map[string]bool
	tables map[string]bool // tensors that stay

	feed   *stream.Feed
	at     int            // parts that were read
	taken  map[start]bool // chunks that passed through the buffer
	room   *loan          // its buffer
	again  *mem.Region    // for chunks that are read again; nil: there was none
	fetch  func(file int, p []byte, off int64) error
	cancel context.CancelFunc

	sums    []hash.Hash                 // of each source; nil: none is computed
	summed  []int                       // bytes in them
	present [][]span                    // bytes of each source that were fetched before, in order
	firsts  map[start][sha256.Size]byte // sums of chunks that may be read again
	summing sync.WaitGroup
	idle    []*gguf.Tensor // that are in their place, and no matrix needs any more
}

// A stretch is a part of a haul: of a tensor that is put in its place, of a matrix, or of neither.
type stretch struct {
	stream.Range
	placed string // name of the tensor; empty: it passes through the buffer
	chunk  int    // bytes of a matrix's chunk that it begins with; 0: of none
	twice  bool   // that matrix is read again if it does not fit its layout
}

// A start is where something begins.
type start struct {
	file int
	off  int64
}

// seam is how many bytes between two parts are read with the first, if all of a file is read: padding of tensors is not
// worth a request.
const seam = 64 << 10

// haul returns what is to be read for the weights.
func (f *File) haul(w *weights) *haul {
	h := &haul{file: f, uses: map[string]int{}, placed: map[string]bool{}, tables: map[string]bool{}, taken: map[start]bool{}}
	for _, x := range w.mats {
		if w.readNow(x) || x.rows {
			h.mats = append(h.mats, x)
		}
		if x.rows {
			h.tables[x.parts[0].Name] = true
		}
	}
	slices.SortStableFunc(h.mats, func(a, b *matrix) int {
		s, t := a.tensors()[0], b.tensors()[0]
		return cmp.Or(cmp.Compare(s.Shard, t.Shard), cmp.Compare(s.Offset, t.Offset))
	})
	little := map[string]bool{}
	for _, t := range w.little() {
		little[t.Name] = true
	}
	for _, x := range h.mats {
		for name := range x.names() {
			h.uses[name]++
			if h.uses[name] > 1 || h.tables[name] || x.remade != nil || f.remote.here[name] > 0 || little[name] {
				h.placed[name] = true
			}
		}
	}
	emitted := map[string]bool{}
	for _, x := range h.mats {
		for _, c := range x.chunks() {
			if name := c.t.Name; !h.placed[name] {
				h.parts = append(h.parts, stretch{Range: c.source(), chunk: c.n, twice: x.Layout == kernel.X12})
			} else if !emitted[name] {
				emitted[name] = true
				h.place(f.whole(name))
			}
		}
	}
	return h
}

// tensors returns what a matrix is made of.
func (x *matrix) tensors() []*gguf.Tensor {
	if x.panels != nil {
		return []*gguf.Tensor{x.panels}
	}
	return x.parts
}

// names returns the names of these tensors.
func (x *matrix) names() map[string]bool {
	names := map[string]bool{}
	for _, t := range x.tensors() {
		names[t.Name] = true
	}
	return names
}

// place adds the parts of a tensor that is put in its place.
func (h *haul) place(t *gguf.Tensor) {
	for at := h.file.remote.here[t.Name]; at < len(t.Data); at += chunkBytes {
		h.parts = append(h.parts, stretch{placed: t.Name, Range: stream.Range{
			File: t.Shard, Off: int64(t.Offset) + int64(at), N: min(chunkBytes, len(t.Data)-at),
		}})
	}
}

// stay returns the bytes of the file that are in memory as long as the model.
func (h *haul) stay() uint64 {
	n := uint64(0)
	for i := range h.file.remote.front {
		n += uint64(h.file.headBytes(i))
	}
	for _, names := range []map[string]bool{h.tables, h.file.remote.stays} {
		for name := range names {
			n += uint64(len(h.file.whole(name).Data))
		}
	}
	return n
}

// pass returns the most bytes of the file that are in memory at a time beside these and the buffer: vectors, which are fetched
// before all others, and tensors that are in their place until the last matrix was made of them.
func (h *haul) pass(w *weights) uint64 {
	size := func(name string) uint64 {
		if h.tables[name] || h.file.remote.stays[name] {
			return 0
		}
		return uint64(len(h.file.whole(name).Data))
	}
	now := uint64(0)
	in := map[string]bool{}
	add := func(name string) {
		if !in[name] {
			in[name] = true
			now += size(name)
		}
	}
	for _, t := range w.little() {
		add(t.Name)
	}
	for name := range h.file.remote.here {
		add(name)
	}
	most, left := now, map[string]int{}
	for _, x := range h.mats {
		for name := range x.names() {
			if h.placed[name] {
				add(name)
				left[name]++
			}
		}
		most = max(most, now)
		for name := range x.names() {
			if h.placed[name] && left[name] == h.uses[name] {
				now -= size(name)
			}
		}
	}
	for _, x := range h.mats {
		if x.Layout == kernel.X12 { // one that does not fit is read again
			return most + chunkBytes
		}
	}
	return most
}

// little returns the tensors that are read before matrices.
func (w *weights) little() (all []*gguf.Tensor) {
	for _, v := range w.vecs {
		all = append(all, v.t)
	}
	for _, c := range w.choices {
		all = append(all, c.t)
	}
	return all
}

// cover adds the parts of the file that no matrix needs, if all of it is then read in order: its sum can be computed.
func (h *haul) cover() {
	m := h.file.remote
	for i, s := range m.sources {
		if s.SHA256() == "" {
			return
		}
		spans := []span{{0, m.front[i]}}
		for name, n := range m.here {
			if t := h.file.whole(name); t.Shard == i {
				spans = append(spans, span{int(t.Offset), n})
			}
		}
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		h.present = append(h.present, spans)
	}
	var all []stretch
	parts := h.parts
	for i, s := range m.sources {
		at, spans := 0, h.present[i]
		for {
			for len(spans) > 0 && spans[0].from <= at {
				at, spans = max(at, spans[0].from+spans[0].n), spans[1:]
			}
			end := int(s.Size())
			if len(spans) > 0 {
				end = spans[0].from
			}
			here := len(parts) > 0 && parts[0].File == i
			if here {
				if int(parts[0].Off) < at {
					h.present = nil // it goes back
					return
				}
				end = min(end, int(parts[0].Off))
			}
			if gap := end - at; gap > 0 {
				if n := len(all); n > 0 && gap <= seam && all[n-1].File == i && int(all[n-1].Off)+all[n-1].N == at {
					all[n-1].N += gap
				} else {
					gap = min(gap, chunkBytes)
					all = append(all, stretch{Range: stream.Range{File: i, Off: int64(at), N: gap}})
				}
				at += gap
				continue
			}
			if !here || int(parts[0].Off) != at {
				if end == int(s.Size()) {
					break
				}
				continue
			}
			all = append(all, parts[0])
			at += parts[0].N
			parts = parts[1:]
		}
	}
	if len(parts) > 0 {
		h.present = nil
		return
	}
	h.parts, h.summed, h.firsts = all, make([]int, len(m.sources)), map[start][sha256.Size]byte{}
	for i := range m.sources {
		h.sums = append(h.sums, sha256.New())
		h.sum(i, nil)
	}
}

// sum adds bytes of a source to its sum, and those that follow and were fetched before.
func (h *haul) sum(source int, b []byte) {
	h.sums[source].Write(b)
	h.summed[source] += len(b)
	for _, s := range h.present[source] {
		if at, end := h.summed[source], s.from+s.n; s.from <= at && at < end {
			h.sums[source].Write(h.file.regions[source].Bytes()[at:end])
			h.summed[source] = end
		}
	}
}

// begin begins to read, through a buffer.
func (h *haul) begin(ctx context.Context, room []byte) error {
	for _, p := range h.parts {
		if p.placed != "" {
			if _, err := h.file.regions[p.File].Fill(int(p.Off), p.N); err != nil {
				return err
			}
		}
	}
	ctx, h.cancel = context.WithCancel(ctx)
	h.fetch = func(file int, p []byte, off int64) error { return h.file.remote.sources[file].Fetch(ctx, p, off) }
	h.feed = stream.NewFeed(stream.NewFetcher(h.fetch, pieceBytes, requests), h.ranges(), room, func(stream.Range) bool { return false })
	begun := 0
	h.feed.Keep(func(r stream.Range) []byte {
		p := h.parts[begun]
		if begun++; p.placed == "" {
			return nil
		}
		return h.file.regions[r.File].Bytes()[r.Off:][:r.N:r.N]
	})
	return nil
}

func (h *haul) ranges() []stream.Range {
	all := make([]stream.Range, len(h.parts))
	for i, p := range h.parts {
		all[i] = p.Range
	}
	return all
}

// next waits for the next part and returns its bytes, which are valid until the next call.
func (h *haul) next() ([]byte, error) {
	h.summing.Wait()
	h.release()
	if h.at == len(h.parts) {
		return nil, errors.New("more was read than there is")
	}
	p := h.parts[h.at]
	h.at++
	b, err := h.feed.Next()
	if err != nil {
		return nil, err
	}
	if h.sums != nil {
		h.summing.Go(func() {
			h.sum(p.File, b)
			if p.twice {
				h.firsts[start{p.File, p.Off}] = sha256.Sum256(b[:p.chunk])
			}
		})
	}
	if p.placed != "" {
		t := h.file.whole(p.placed)
		h.file.remote.here[p.placed] = min(int(p.Off)+p.N-int(t.Offset), len(t.Data))
	}
	h.taken[start{p.File, p.Off}] = p.chunk > 0
	return b, nil
}

// bytes returns a chunk, which is valid until the next call.
func (h *haul) bytes(c chunk) ([]byte, error) {
	if h.placed[c.t.Name] {
		whole := h.file.whole(c.t.Name)
		if err := h.come(whole, int(c.t.Offset-whole.Offset)+c.at+c.n); err != nil {
			return nil, err
		}
		return c.t.Data[c.at : c.at+c.n], nil
	}
	from := c.source()
	if h.taken[start{from.File, from.Off}] { // its matrix is read again
		return h.second(from)
	}
	for {
		at := h.at
		b, err := h.next()
		if err != nil {
			return nil, err
		}
		if p := h.parts[at]; p.chunk > 0 && p.File == from.File && p.Off == from.Off {
			return b[:from.N], nil
		}
	}
}

// second reads a chunk again. Where there are sums, they are those of what came first: it has to be the same.
func (h *haul) second(from stream.Range) (b []byte, err error) {
	if h.again == nil || len(h.again.Bytes()) < from.N {
		h.dropSecond()
		if h.again, err = mem.Hollow(uint64(from.N), "weights that are read again"); err != nil {
			return nil, err
		}
	}
	if b, err = h.again.Fill(0, from.N); err != nil {
		return nil, err
	}
	if err := h.fetch(from.File, b, from.Off); err != nil {
		return nil, err
	}
	h.summing.Wait()
	if first, ok := h.firsts[start{from.File, from.Off}]; h.sums != nil && (!ok || first != sha256.Sum256(b)) {
		return nil, errors.New("other bytes came when it was read again: the file has changed, or the server is broken")
	}
	return b, nil
}

// dropSecond releases the memory of chunks that are read again.
func (h *haul) dropSecond() {
	if h.again != nil {
		h.again.Close()
		h.again = nil
	}
}

// come waits until the first n bytes of a tensor are in their place.
func (h *haul) come(t *gguf.Tensor, n int) error {
	for h.file.remote.here[t.Name] < n {
		if _, err := h.next(); err != nil {
			return err
		}
	}
	return nil
}

// table waits for a tensor of which rows are looked up.
func (h *haul) table(x *matrix) error {
	t := h.file.whole(x.parts[0].Name)
	return h.come(t, len(t.Data))
}

// done reports that a matrix was made.
func (h *haul) done(x *matrix) {
	h.dropSecond()
	for name := range x.names() {
		if h.uses[name]--; h.uses[name] == 0 && !h.tables[name] {
			h.idle = append(h.idle, h.file.whole(name))
		}
	}
}

// release releases tensors that are not needed any more, once they are in the sum.
func (h *haul) release() {
	h.idle = slices.DeleteFunc(h.idle, func(t *gguf.Tensor) bool {
		if h.sums != nil && h.summed[t.Shard] < int(t.Offset)+len(t.Data) {
			return false
		}
		h.file.drop(t)
		return true
	})
}

// end reads what is left for the sums, compares them, and releases what was only needed for the load.
func (h *haul) end() error {
	for h.sums != nil && h.at < len(h.parts) {
		if _, err := h.next(); err != nil {
			return err
		}
	}
	h.summing.Wait()
	for i, sum := range h.sums {
		s := h.file.remote.sources[i]
		if got := hex.EncodeToString(sum.Sum(nil)); got != s.SHA256() {
			return fmt.Errorf("%s: the sha256 of what came is %s, want %s", s.Name(), got, s.SHA256())
		}
	}
	h.file.remote.checked = h.sums != nil
	for name := range h.file.remote.here {
		if !h.tables[name] {
			h.file.drop(h.file.whole(name))
		}
	}
	return nil
}

// close ends the reading.
func (h *haul) close() {
	if h == nil {
		return
	}
	if h.feed != nil {
		h.cancel()
		h.feed.Close()
	}
	h.summing.Wait()
	h.dropSecond()
	if h.room != nil {
		h.room.Close()
	}
}

// fetchFirst reserves the memory of what stays of a file that is elsewhere, and of what is in its place for a while, and
// fetches vectors, which are needed before all others.
func (m *Model) fetchFirst(o *Options) (err error) {
	if m.Residency != Packed {
		return errRemote
	}
	o.Shared, o.Early = nil, nil // samples would be requests; and a defect of the file is one of the load
	h := m.file.haul(m.weights)
	if m.stays, err = o.Budget.Reserve("tables and the head of the file", h.stay()); err != nil {
		return err
	}
	n := h.pass(m.weights)
	lent := min(n, o.Lent)
	if m.passing, err = o.Budget.Reserve(onTheWay, n-lent); err != nil {
		return err
	}
	o.Lent -= lent
	return m.file.need(o.until(), m.weights.little()...)
}

// until returns the context in which a load reads.
func (o *Options) until() context.Context {
	if o.Until == nil {
		return context.Background()
	}
	return o.Until
}

// haul begins to read a file that is elsewhere.
func (m *Model) haul(o Options) (*haul, error) {
	h := m.file.haul(m.weights)
	var err error
	if h.room, err = o.borrow(onTheWay, h.buffer()); err == nil {
		h.cover()
		err = h.begin(o.until(), h.room.Bytes())
	}
	return h, err
}

// remoteBytes returns the memory of what a file that is elsewhere has beside what is packed: as long as the model is there, and
// while it is loaded.
func (f *find) remoteBytes(file *File) (stay, load uint64) {
	h := file.haul(f.weights)
	return h.stay(), h.pass(f.weights) + h.buffer()
}

// buffer returns the bytes of the buffer: for the part that is used and those that are read ahead.
func (h *haul) buffer() uint64 {
	most := 0
	for _, p := range h.parts {
		most = max(most, p.N)
	}
	return max(uint64(most)+seam, min(feedBytes, h.file.Size()))
}

// Unchecked returns why the sha256 of a file that is elsewhere was not computed when it was loaded; empty if it was, or if the
// file is here.
func (f *File) Unchecked() string {
	if f.remote == nil || f.remote.checked {
		return ""
	}
	for _, s := range f.remote.sources {
		if s.SHA256() == "" {
			return "nothing says what sha256 it should have"
		}
	}
	return "its matrices are not used in the order of the file"
}
