package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
)

// Residency says where the weights are while the model runs.
type Residency int

const (
	Auto   Residency = iota // packed if that fits the budget, else mapped
	Packed                  // in anonymous huge pages, in the form that is fastest
	Mapped                  // in the file's pages, packed each time they are used
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
	}
	return fmt.Sprintf("residency %d", int(r))
}

// ParseResidency returns the residency called s.
func ParseResidency(s string) (Residency, error) {
	for _, r := range []Residency{Auto, Packed, Mapped} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown residency %q, want auto, packed or mapped", s)
}

// Options say how to load.
type Options struct {
	Pack      func(dst []byte, src kernel.Matrix) error // as kernel.Pool's PackMat, which it may be
	Budget    *mem.Budget
	Residency Residency
	// Lent is how much of the budget the caller holds for later allocations. Load may
	// use it in the meantime.
	Lent uint64
	// Progress is called with how many bytes of the file were read; nil: not called.
	Progress func(done, total uint64)
}

// A Model is a loaded model. It is immutable, and may be shared by any number of
// Runners.
type Model struct {
	Config    *Config
	Layout    kvcache.Layout // state of a sequence
	Residency Residency      // Packed or Mapped

	file    *File
	weights *weights
	program *arch.Program
}

// Load allocates the tensors and packs them unless they stay mapped. The caller keeps
// ownership of the file, which must stay open as long as the model.
func (s *Survey) Load(o Options) (*Model, error) {
	m := &Model{Config: s.Config, Layout: s.Layout, Residency: o.Residency, file: s.file}
	if m.Residency == Auto {
		m.Residency = Packed
		f, err := s.find(Packed)
		if err != nil {
			return nil, err
		}
		if checks := f.weights.checkBytes(); f.weights.bytes()+checks-min(checks, o.Lent) > o.Budget.Free() {
			m.Residency = Mapped
		}
	}
	var err error
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
	if err := m.weights.bind(o.Budget); err != nil {
		return err
	}
	if err := m.read(o); err != nil {
		return err
	}
	m.program, err = s.arch.Build(s.Config, m.weights, s.kv) // as in the survey, now with memory
	m.weights.dropSquares()
	if err == nil {
		err = m.Damaged()
	}
	return err
}

// chunkBytes is how much of a tensor is read before its pages are released: small
// relative to a model, large relative to the cost of starting the threads.
const chunkBytes = 32 << 20

// chunkRows returns the most rows of a chunk of x.
func chunkRows(x *matrix) int {
	return max(chunkBytes/kernel.RowBytes(x.Type, x.In)/kernel.Panel, 1) * kernel.Panel
}

// read packs every matrix, or, where it stays in the file, checks that its
// values are finite, and releases the pages that were read.
func (m *Model) read(o Options) error {
	spare, err := o.borrow("panels to check the weights", m.weights.checkBytes())
	if err != nil {
		return err
	}
	defer spare.Close()
	done, total := uint64(0), m.weights.sourceBytes()
	for _, x := range m.weights.mats {
		if m.weights.readElsewhere(x) {
			continue
		}
		src := x.Matrix
		src.Layout, src.N, src.Scales = kernel.Rows, 1, nil
		panel, rowBytes := kernel.PanelBytes(x.Type, x.In), kernel.RowBytes(x.Type, x.In)
		step := chunkRows(x)
		dst, before := x.Data, 0 // rows of the parts before this one
		for _, t := range x.parts {
			data := t.Data
			if x.transposed {
				if data, err = transpose(spare.Bytes(), t); err != nil {
					return fmt.Errorf("tensor %q: %w", t.Name, err)
				}
			}
			rows := len(data) / rowBytes
			for row := 0; row < rows; {
				// A chunk ends where a matrix or a part of one does: the next begins a new panel.
				src.Out = min(step, x.Out-row%x.Out, rows-row)
				src.Data = data[row*rowBytes : (row+src.Out)*rowBytes]
				if together(t) > 1 && !x.transposed {
					if src.Data, err = apart(spare.Bytes(), t, x.In, src.Data); err != nil {
						return fmt.Errorf("tensor %q: %w", t.Name, err)
					}
				}
				packed := kernel.Pad(src.Out) / kernel.Panel * panel
				if x.Layout == kernel.Rows {
					dst = spare.Bytes()
				}
				err := o.Pack(dst[:packed:packed], src)
				if damage := m.file.Damaged(); damage != nil {
					err = damage
				}
				if err != nil {
					return fmt.Errorf("tensor %q: %w", t.Name, err)
				}
				dst = dst[packed:]
				if x.squares != nil {
					x.squares.read(x, before+row, src.Data)
				}
				at, n := row*rowBytes, len(src.Data)
				if x.transposed {
					at, n = len(t.Data)*row/rows, len(t.Data)*src.Out/rows
				}
				m.file.drop(t, at, n)
				row += src.Out
				done += uint64(n)
				if o.Progress != nil {
					o.Progress(done, total)
				}
			}
			before += rows
		}
	}
	return nil
}

// borrow allocates n bytes, of which only those beyond the lent ones are reserved from
// the budget.
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

// WeightBytes returns the memory that the weights take outside the file.
func (m *Model) WeightBytes() uint64 { return m.weights.bytes() }

// Has reports whether the model has an output, such as arch.Logits.
func (m *Model) Has(output string) bool {
	return slices.ContainsFunc(m.program.Outputs, func(o arch.Output) bool { return o.Name == output })
}

// Compile-time check: the kernels and the cache use the same block size.
var _ [kernel.KVBlock]struct{} = [kvcache.BlockTokens]struct{}{}

// layout is the only place where the state of operations is mapped to memory.
func layout(p *arch.Program) kvcache.Layout {
	groups := make([]kvcache.Group, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = kvcache.Group(g)
	}
	return kvcache.NewLayout(groups...)
}

// Damaged returns ErrDamaged once a page of the file could not be read: outputs since then are
// wrong. Weights that are packed were read before, but tables of embeddings stay in the file.
func (m *Model) Damaged() error { return m.file.Damaged() }

// GGUF returns the file that the model was loaded from, for its tokenizer.
func (m *Model) GGUF() *gguf.File { return m.file.GGUF }

// Close releases the memory of the weights. Runners must be closed before. Closing
// again is a no-op.
func (m *Model) Close() { m.weights.close() }

// ErrToken reports a token that is not in the vocabulary.
var ErrToken = errors.New("no such token in the vocabulary")
