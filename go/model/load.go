package model

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// Residency is where the weights are while the model runs.
type Residency int

const (
	Auto     Residency = iota // packed if that fits the budget, else streamed, or mapped
	Packed                    // in anonymous huge pages, in the form that is fastest
	Mapped                    // in the file's pages, packed each time they are used
	Streamed                  // layers read from the disk as they are needed, as many kept as fit
)

// String returns the name of the residency.
func (r Residency) String() string {
	switch r {
	case Auto:
		return "auto"
	case Packed:
		return "packed"
	case Mapped:
		return "mapped"
	case Streamed:
		return "streamed"
	}
	return fmt.Sprintf("residency %d", int(r))
}

// ParseResidency returns the residency with that name.
func ParseResidency(s string) (Residency, error) {
	for _, r := range []Residency{Auto, Packed, Mapped, Streamed} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown residency %q, want auto, packed, mapped or streamed", s)
}

// Options say how to load.
type Options struct {
	Pack func(dst kernel.Matrix, first int, src kernel.Matrix) error // as kernel.Pool's PackInto, which it may be
	// Turn calls do when the caller may compute with so many threads for some milliseconds; nil: at once, with all CPUs.
	Turn      func(do func(threads int) error) error
	Budget    *mem.Budget
	Nodes     []int // the NUMA nodes of the places that packed weights are divided over, -1 if unknown; nil: one place
	Residency Residency
	// Spare is how much of the budget streamed weights leave for others.
	Spare uint64
	// Lent is how much of the budget the caller holds for later allocations. Load may use it in the meantime.
	Lent uint64
	// Shared holds matrices shared between models; nil: no sharing.
	Shared *Shared
	// Progress is called with the number of bytes read so far; may be nil.
	Progress func(done, total uint64)
	// Early, unless nil, makes Load return before all matrices are packed, if weights are Packed: passes wait
	// for those of each layer, and fail if they cannot be read. It is called by the goroutine that packs,
	// which calls the returned function when it is done.
	Early func() (leave func())
	// Until is a context whose end aborts loading with its error; may be nil.
	Until context.Context
}

// A Model is a loaded model. It is immutable and may be shared by any number of Runners.
type Model struct {
	Config    *Config
	Layout    kvcache.Layout // state of a sequence
	Residency Residency      // Packed, Mapped or Streamed

	file     *File
	weights  *weights
	program  *nn.Program
	stays    *mem.Reservation // of what is in memory of a file that is elsewhere; nil: it is here
	passing  *mem.Reservation // of what is while it is loaded
	stream   *layerStream     // nil unless Streamed
	division Ranks            // how it is divided
	ranks    *kernel.Ranks    // nil unless this is one rank's part of the model
	warming  warming

	arriving *arrival // nil unless passes began before all weights were packed
}

// Load allocates the tensors and packs them, unless they stay mapped. The caller keeps ownership of the file,
// which must stay open as long as the model.
func (s *Survey) Load(o Options) (*Model, error) {
	m := &Model{Config: s.Config, Layout: s.Layout, Residency: o.Residency, file: s.file, division: s.ranks, ranks: s.ranks.Group}
	if m.ranks != nil {
		o.Nodes = nil // what this rank has is panels that lie one after the other
	}
	if m.Residency == Streamed && m.ranks != nil {
		return nil, errors.New("a model that is divided among ranks cannot be streamed; give it more of them")
	}
	if m.Residency == Auto && s.file.Remote() {
		m.Residency = Packed
	}
	if m.Residency == Auto {
		m.Residency = Packed
		f, err := s.find(Packed)
		if err != nil {
			return nil, err
		}
		if checks := f.weights.checkBytes(); f.weights.bytesIn(len(o.Nodes))+checks-min(checks, o.Lent) > o.Budget.Free() {
			m.Residency = Mapped
		}
	}
	f, err := s.find(m.Residency)
	if err != nil {
		return nil, err
	}
	m.program = f.program // for the order of use, until there is one with memory
	if m.weights, err = s.take(m.Residency); err != nil {
		return nil, err
	}
	if err := m.load(s, o); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Model) load(s *Survey, o Options) (err error) {
	if m.file.Remote() {
		err := m.fetchFirst(&o)
		defer m.passing.Release()
		if err != nil {
			return err
		}
	} else {
		for _, v := range m.weights.vecs {
			m.file.ask(v.t)
		}
	}
	if err := m.weights.bind(o.Budget, o.Shared, o.Nodes); err != nil {
		return err
	}
	if m.Residency == Streamed {
		if m.stream, err = s.openStream(m.weights, o); err != nil {
			return err
		}
	}
	r, err := m.read(o)
	defer func() { r.feed.close() }() // unless arrive has taken it over
	defer r.haul.close()
	if err != nil {
		return err
	}
	m.scatter()
	m.program, err = s.build(m.weights) // as in the survey, now with memory
	m.weights.dropSquares()
	if err == nil {
		err = m.Damaged()
	}
	if err == nil && m.file.Packed() && m.Residency == Mapped {
		m.warm()
	}
	if err == nil && o.Early != nil && m.Residency == Packed {
		m.arrive(&r)
	}
	return err
}

// read packs every matrix, except those that arrive later. For a matrix that stays in the file it checks that
// the values are finite. It releases the pages that were read, and returns the position at which reading
// continues.
func (m *Model) read(o Options) (reading, error) {
	r := reading{Options: o, file: m.file, total: m.weights.sourceBytes()}
	spare, err := o.borrow("panels to check the weights", m.weights.checkBytes())
	if err != nil {
		return r, err
	}
	defer spare.Close()
	r.spare = spare.Bytes()
	waits := func(x *matrix) bool {
		return o.Early != nil && m.Residency == Packed && x.canWait() && m.weights.readNow(x)
	}
	var mats []*matrix
	for _, x := range m.weights.mats {
		if m.weights.readNow(x) && !waits(x) {
			mats = append(mats, x)
		}
	}
	for _, x := range inOrder(&find{m.weights, m.program}) {
		if waits(x) {
			r.later = append(r.later, x)
		}
	}
	if m.file.Remote() {
		o.Lent -= min(o.Lent, m.weights.checkBytes())
		if r.haul, err = m.haul(o); err != nil {
			return r, err
		}
		mats = r.haul.mats
	} else if m.Residency != Mapped { // else the file's pages are what is used
		o.Lent -= min(o.Lent, m.weights.checkBytes())
		r.feed = m.newFeed(mats, r.later, o)
	}
	for _, x := range mats {
		before := r.done
		if !m.weights.readNow(x) {
			if err := r.haul.table(x); err != nil {
				return r, fmt.Errorf("tensor %q: %w", x.parts[0].Name, err)
			}
			continue
		}
		err := r.matrix(x)
		for errors.Is(err, errOther) || errors.Is(err, kernel.ErrWide) {
			r.done = before
			m.weights.free(x)
			if x.Layout = packedLayout(x.Matrix); errors.Is(err, kernel.ErrWide) {
				x.Layout = kernel.X16
			}
			if err = m.weights.alone(x, o.Budget); err != nil && r.feed != nil {
				r.feed.close() // its buffer may be what is missing; the rest is read by mapped pages
				r.feed = nil
				err = m.weights.alone(x, o.Budget)
			}
			if err == nil {
				err = r.matrix(x)
			}
		}
		if err != nil {
			return r, err
		}
		if r.haul != nil {
			r.haul.done(x)
		}
	}
	if r.haul != nil {
		err = r.haul.end()
	}
	return r, err
}

// scatter tells the kernel that rows of lookup tables in the file are accessed at random. Otherwise a page
// fault reads the disk's whole read-ahead, which may be thousands of rows.
func (m *Model) scatter() {
	if m.Residency == Mapped && !m.file.Packed() {
		return // the same pages may be a matrix's, which is read in order
	}
	for _, x := range m.weights.mats {
		if x.rows {
			t := x.parts[0]
			_ = m.file.regions[t.Shard].Random(int(t.Offset), len(t.Data)) // advice
		}
	}
}

// packMat packs all of src into dst, in a layout of panels.
func (o *Options) packMat(dst []byte, l kernel.Layout, src kernel.Matrix) error {
	to := src
	to.Layout, to.Data = l, dst
	return o.Pack(to, 0, src)
}

// errOther reports that a matrix differs from the shared one that its samples matched.
var errOther = errors.New("another matrix")

// A reading is a walk over the file's matrices.
type reading struct {
	Options
	file        *File
	spare       []byte
	feed        *feed     // nil: chunks are in the file's pages
	haul        *haul     // that they come with, of a file that is elsewhere; nil: it is here
	later       []*matrix // that are to arrive when passes run, in the order of their use
	done, total uint64
	asked       span // bytes of the file that were asked for
}

// aheadBytes is the read-ahead of the kernel during packing.
const aheadBytes = 2 * chunkBytes

// ahead asks for the bytes after position `at` of a tensor. Files are about in order of use.
func (r *reading) ahead(t *gguf.Tensor, at int) {
	from := int(t.Offset) + at
	begin, end := from, min(from+aheadBytes, len(r.file.regions[t.Shard].Bytes()))
	if asked := r.asked.from + r.asked.n; r.asked.from <= from && from <= asked { // go on
		if asked-from > chunkBytes {
			return
		}
		from = asked
	}
	if from < end {
		_ = r.file.regions[t.Shard].Ahead(from, end-from) // advice
		r.asked = span{begin, end - begin}
	}
}

// matrix packs a matrix, or checks its values.
func (r *reading) matrix(x *matrix) (err error) {
	if x.panels != nil {
		return r.copy(x)
	}
	src := x.Matrix
	src.Layout, src.N, src.Scales, src.Places, src.Stride = kernel.Rows, 1, nil, 0, 0
	panel, rowBytes := x.PanelBytes(), kernel.RowBytes(x.Type, x.In)
	at := 0           // bytes of the panels before
	var remade []byte // of the chunk's tensor
	var samples maphash.Hash
	offered := r.Shared != nil && x.shared == nil && x.sharable()
	if offered {
		samples.SetSeed(r.Shared.seed)
	}
	for _, c := range x.chunks() {
		if err := r.over(); err != nil {
			return err
		}
		src.Out = c.rows
		switch {
		case x.remade == nil:
			src.Data, err = r.bytes(c)
		case c.row == 0:
			if err = r.whole(c.t); err == nil {
				remade, err = x.remade(r.spare, c.t)
			}
			if err != nil {
				break
			}
			fallthrough
		default:
			src.Data = remade[c.row*rowBytes : (c.row+c.rows)*rowBytes]
		}
		if err == nil && together(c.t) > 1 && x.remade == nil {
			src.Data, err = apart(r.spare, c.t, x.In, src.Data)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", c.t.Name, err)
		}
		packed := kernel.Pad(src.Out) / kernel.Panel * panel
		switch {
		case x.streamed: // it is checked when it comes
		case x.shared != nil:
			dst := r.spare[:packed:packed]
			clear(dst) // panels may have gaps, which are zeros in the other's
			if err = r.packMat(dst, x.Layout, src); err == nil && r.file.Damaged() == nil && !x.shared.same(at, dst) {
				return errOther
			}
		case x.Layout == kernel.Rows:
			err = r.packMat(r.spare[:packed:packed], kernel.X16, src)
		default:
			err = r.Pack(x.Matrix, at/panel, src)
		}
		at += packed
		if damage := r.file.Damaged(); damage != nil {
			err = damage
		}
		if err == nil && x.squares != nil {
			err = x.squares.read(x, c.first, src.Data)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", c.t.Name, err)
		}
		if offered {
			hashSamples(&samples, x, c.t, c.row, src.Data)
		}
		r.read(c)
	}
	if offered {
		r.Shared.offer(x, &samples)
	}
	return nil
}

// copy copies panels.
func (r *reading) copy(x *matrix) error {
	for _, c := range x.chunks() {
		if err := r.over(); err != nil {
			return err
		}
		from, err := r.bytes(c)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", x.Name, err)
		}
		for to := range x.Pieces(c.at, len(from)) {
			from = from[copy(to, from):]
		}
		if err := r.file.Damaged(); err != nil {
			return fmt.Errorf("tensor %q: %w", x.Name, err)
		}
		r.read(c)
	}
	return nil
}

// whole asks for a tensor, or waits until it is there.
func (r *reading) whole(t *gguf.Tensor) error {
	if r.haul != nil {
		_, err := r.haul.bytes(chunk{t: t, n: len(t.Data)})
		return err
	}
	r.ahead(t, 0)
	return nil
}

// read releases the pages of a chunk after it was read.
func (r *reading) read(c chunk) {
	r.file.Drop(c.t, c.at, c.n)
	r.progress(r.done + uint64(c.n))
}

// progress records that so many bytes were read.
func (r *reading) progress(done uint64) {
	if r.done = done; r.Progress != nil {
		r.Progress(done, r.total)
	}
}

// over returns the reason to stop reading, or nil.
func (r *reading) over() error {
	if r.Until == nil {
		return nil
	}
	return r.Until.Err()
}

// borrow allocates n bytes. Only those beyond the lent ones are reserved from the budget.
func (o *Options) borrow(purpose string, n uint64) (*loan, error) {
	res, err := o.Budget.Reserve(purpose, n-min(n, o.Lent))
	if err != nil {
		return nil, err
	}
	l := &loan{new(mem.Region), res}
	if n > 0 {
		if l.Region, err = mem.Alloc(n, purpose); err != nil {
			res.Release()
			return nil, err
		}
	}
	return l, nil
}

// A loan is memory that is released before Load returns.
type loan struct {
	*mem.Region
	reserved *mem.Reservation
}

func (l *loan) Close() {
	l.Region.Close()
	l.reserved.Release()
}

// WeightBytes returns the memory of the weights outside the file.
func (m *Model) WeightBytes() uint64 {
	n := m.weights.bytes()
	if m.stays != nil {
		n += m.stays.Bytes()
	}
	if m.stream != nil {
		n += m.stream.taken.Bytes()
	}
	return n
}

// Has reports whether the model has an output, such as nn.Logits.
func (m *Model) Has(output string) bool {
	return output == nn.Aligned && m.program.Aligned != nil || slices.ContainsFunc(m.program.Outputs, func(o nn.Output) bool { return o.Name == output })
}

// Compile-time check: the kernels and the cache use the same block size.
var _ [kernel.KVBlock]struct{} = [kvcache.BlockTokens]struct{}{}

// layout is the only place that maps the state of operations to memory.
func layout(p *nn.Program) kvcache.Layout {
	groups := make([]kvcache.Group, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = kvcache.Group(g)
	}
	return kvcache.NewLayout(groups...)
}

// Damaged returns ErrDamaged once a page of the file could not be read: outputs since then are wrong. That
// also applies to packed models, because embedding tables stay in the file. If all weights are in the file,
// it also returns ErrDamaged once the file was modified. Outputs of a model that is divided among ranks are wrong as well
// once these have failed: see kernel.Ranks.
func (m *Model) Damaged() error {
	if err := m.ranks.Failed(); err != nil {
		return err
	}
	if m.Residency == Mapped {
		if err := m.file.Unchanged(); err != nil {
			return err
		}
	}
	return m.file.Damaged()
}

// Divided reports whether the model is one rank's part.
func (m *Model) Divided() bool { return m.ranks != nil }

// GGUF returns the file that the model was loaded from, for its tokenizer.
func (m *Model) GGUF() *gguf.File { return m.file.GGUF }

// Close releases the memory of the weights. Runners must be closed before. Closing
// again is a no-op.
func (m *Model) Close() {
	m.arriving.end()
	m.warming.end()
	if m.stream != nil {
		m.stream.close()
	}
	m.weights.close()
	m.file.forget()
	if m.stays != nil {
		m.stays.Release()
	}
}

// ErrToken reports a token id outside the vocabulary.
var ErrToken = errors.New("no such token in the vocabulary")
