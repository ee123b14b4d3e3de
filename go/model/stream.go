package model

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/stream"
)

// errNoStream reports a model without a file.
var errNoStream = errors.New("weights of the model inside the program cannot be streamed; they are always in memory")

// A layerStream streams the weights of layers from disk.
type layerStream struct {
	store *stream.Store
	taken *mem.Reservation
	dense map[*matrix]int    // number of the unit that has it
	first map[*matrix]int    // number of the unit that has it for expert 0; the others follow
	rows  map[*matrix][]byte // as they are read, of those that are packed in place
	begin map[*matrix]int    // where matrices of panels that all tokens use begin in the address space

	mu      sync.Mutex
	checked []bool // units of rows whose values are known to be finite
	panels  *mem.Region
}

// units lays out the reads of steps: the weights that all tokens use are one unit per step, and each expert
// is one.
func (w *weights) units(steps []step) (l stream.Layout, dense, first map[*matrix]int) {
	dense, first = map[*matrix]int{}, map[*matrix]int{}
	add := func(mats []*matrix, at map[*matrix]int, as func([][]stream.Range)) {
		if len(mats) == 0 {
			return
		}
		var parts [][]stream.Range
		for _, m := range mats {
			at[m] = len(l.Units)
			parts = append(parts, m.source())
		}
		as(parts)
	}
	for _, s := range steps {
		add(s.dense, dense, l.Ordered)
		add(s.experts, first, l.Grouped)
	}
	return l, dense, first
}

// source returns where each of N matrices is in the file.
func (m *matrix) source() []stream.Range {
	t := m.parts[0]
	if m.panels != nil {
		t = m.panels
	}
	all, each := make([]stream.Range, m.N), m.Bytes()/m.N
	for i := range all {
		all[i] = stream.Range{File: t.Shard, Off: int64(t.Offset) + int64(i*each), N: each}
		if m.sums != nil {
			all[i].Sum, all[i].Summed = m.sums[i], true
		}
	}
	return all
}

// streamBytes returns the minimum memory of streaming, and the memory with which nothing is read twice.
func streamBytes(f *find) (least, all uint64) {
	l, _, _ := f.weights.units(f.weights.steps(f.program))
	for _, u := range l.Units {
		all += u.Bytes()
	}
	panels := f.weights.streamCheckBytes()
	return stream.Least(l.Units) + panels, all + panels
}

// streamChunkRows returns the maximum number of rows packed at a time.
func streamChunkRows(m *matrix) int {
	return max((4<<20)/kernel.RowBytes(m.Type, m.In)/kernel.Panel, 1) * kernel.Panel
}

// streamCheckBytes returns the memory of the panels in which streamed rows are packed, or checked.
func (w *weights) streamCheckBytes() uint64 {
	n := 0
	for _, m := range w.mats {
		if m.streamed && m.panels == nil {
			n = max(n, min(streamChunkRows(m), kernel.Pad(m.Out))/kernel.Panel*kernel.PanelBytes(m.Type, m.In))
		}
	}
	return uint64(n)
}

// openStream opens the files for direct reads, with the memory available, and assigns addresses to the
// matrices.
func (s *Survey) openStream(w *weights, o Options) (*layerStream, error) {
	if !s.file.CanStream() {
		return nil, errNoStream
	}
	f, err := s.find(Streamed)
	if err != nil {
		return nil, err
	}
	least, all := streamBytes(f)
	free := o.Budget.Free()
	limit := min(max(free-min(free, o.Spare), least), all)
	ls := &layerStream{}
	if ls.taken, err = o.Budget.Reserve("streamed weights", limit); err != nil {
		return nil, err
	}
	if err := ls.open(s.file, w, f, limit); err != nil {
		ls.close()
		return nil, err
	}
	ls.store.Spread(o.Nodes)
	ls.place(o.Nodes)
	ls.store.Begin()
	return ls, nil
}

// place asks that the panels of matrices that all tokens use be on the NUMA nodes of the threads that read them. Experts, which
// take the memory of others, stay on all nodes in turns.
func (ls *layerStream) place(nodes []int) {
	for m, at := range ls.begin {
		n, size := kernel.Pad(m.Out)/kernel.Panel, m.PanelBytes()
		for k, node := range nodes {
			from, to := n*k/len(nodes), n*(k+1)/len(nodes)
			ls.store.Place(at+from*size, (to-from)*size, node)
		}
	}
}

func (ls *layerStream) open(file *File, w *weights, f *find, limit uint64) (err error) {
	// The survey's matrices are the same as w's, by name.
	steps := w.steps(f.program)
	var l stream.Layout
	l, ls.dense, ls.first = w.units(steps)
	if len(l.Units) == 0 {
		return errors.New("none of the weights can be streamed; use --weights packed or mapped")
	}
	panels := w.streamCheckBytes()
	if panels > 0 {
		if ls.panels, err = mem.Alloc(panels, "panels to check the weights"); err != nil {
			return err
		}
	}
	r, err := stream.Open(file.Paths)
	if err != nil {
		return err
	}
	if !file.is(r) {
		r.Close()
		return ErrDamaged
	}
	if ls.store, err = stream.NewStore(&l, r, limit-panels); err != nil {
		r.Close()
		return err
	}
	ls.checked, ls.rows, ls.begin = make([]bool, len(l.Units)), map[*matrix][]byte{}, map[*matrix]int{}
	for _, of := range []map[*matrix]int{ls.dense, ls.first} {
		for m, i := range of {
			begin := m.source()[0]
			for _, r := range l.Units[i].Ranges {
				if r.File == begin.File && r.Off == begin.Off {
					at := r.At
					if m.Layout != kernel.Rows && m.panels == nil {
						at = at / kernel.Align * kernel.Align
						ls.rows[m] = ls.store.Bytes()[r.At : r.At+m.Bytes() : r.At+m.Bytes()]
					}
					m.Data = ls.store.Bytes()[at : at+m.Bytes() : at+m.Bytes()]
					if m.N == 1 && m.Layout != kernel.Rows {
						ls.begin[m] = at
					}
				}
			}
		}
	}
	return nil
}

func (ls *layerStream) close() {
	if ls.store != nil {
		ls.store.Close()
	}
	if ls.panels != nil {
		ls.panels.Close()
	}
	ls.taken.Release()
}

// SetStreamLimit changes the memory of streamed weights, but not below the minimum, and returns the limit in
// effect; 0 for a model whose weights are not streamed.
func (m *Model) SetStreamLimit(n uint64) uint64 {
	if m.stream == nil {
		return 0
	}
	return m.stream.setLimit(n)
}

func (ls *layerStream) setLimit(n uint64) uint64 {
	panels := uint64(0)
	if ls.panels != nil {
		panels = uint64(len(ls.panels.Bytes()))
	}
	st := ls.store.Stats()
	n = min(max(n, st.Least+panels), st.Bytes+panels)
	if ls.taken.Resize(n) == nil {
		ls.store.SetLimit(n - panels)
	}
	return ls.taken.Bytes()
}

// Stream returns the memory and the counters of streamed weights; ok is false if weights are not streamed.
func (m *Model) Stream() (st stream.Stats, ok bool) {
	if m.stream == nil {
		return st, false
	}
	st = m.stream.store.Stats()
	st.Limit = m.stream.taken.Bytes()
	return st, true
}

// streamed runs some tokens of the batch through the layers, waiting for weights.
func (r *Runner) streamed(from, to int, ps *plans, stop *kernel.Stop, between func()) error {
	if from == to {
		return nil
	}
	ls := r.model.stream
	if ls.store.Unchanged() != nil {
		return ErrDamaged
	}
	return r.stepwise(from, to, ps, stop, between, func(i int) error { return r.step(ls, ps, i) })
}

// step runs a step once its weights are in memory.
func (r *Runner) step(ls *layerStream, ps *plans, i int) (err error) {
	s := &ps.steps[i]
	need := ls.needed(s, r.bufs)
	if a := ps.prefetches[i]; a.plan != nil && len(r.batch.Tokens()) >= a.least {
		ls.store.Start(need...)
		a.plan.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
		ls.store.Guess(ls.routed(a.route, a.of, r.bufs)...)
	}
	wait := func() { err = ls.store.Need(need...) }
	if r.config.Wait != nil && len(need) > 0 {
		r.config.Wait(wait)
	} else {
		wait()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrDamaged
	}
	if err != nil {
		return err
	}
	defer ls.store.Release(need...)
	if err := ls.prepare(s, need, r.pool); err != nil {
		ls.store.Spoil(need...)
		return err
	}
	ps.layers[i].Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	return nil
}

// needed returns the units of a step, each once: of experts, those that tokens are routed to.
func (ls *layerStream) needed(s *step, bufs *kernel.Buffers) []int {
	var need []int
	if len(s.dense) > 0 {
		need = append(need, ls.dense[s.dense[0]])
	}
	if len(s.experts) > 0 {
		need = append(need, ls.routed(s.route, s, bufs)...)
	}
	return need
}

// routed returns the units of the experts of a step that tokens are routed to.
func (ls *layerStream) routed(route kernel.Buf, s *step, bufs *kernel.Buffers) (units []int) {
	first, last := ls.first[s.experts[0]], -1
	for e := range bufs.Routed(route) { // in order
		if i := first + e/s.share; i != last {
			units, last = append(units, i), i
		}
	}
	return units
}

// prepare packs the units of a step that were just read, in place, and checks that the values of other rows
// are finite when they are first read. Packed files were checked when they were written.
func (ls *layerStream) prepare(s *step, units []int, pool *kernel.Pool) error {
	if ls.panels == nil {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, i := range ls.store.Fresh(units...) {
		for _, m := range s.dense {
			if ls.dense[m] == i && (m.Layout != kernel.Rows || !ls.checked[i]) {
				if err := ls.pack(m, 0, m.N, pool); err != nil {
					return err
				}
			}
		}
		for _, m := range s.experts {
			if e := i - ls.first[m]; e >= 0 && e < m.N && (m.Layout != kernel.Rows || !ls.checked[i]) {
				if err := ls.pack(m, e, 1, pool); err != nil {
					return err
				}
			}
		}
		ls.checked[i] = true
	}
	return nil
}

// pack packs n of a matrix's matrices, in place if it is used as panels; otherwise it only checks the values.
func (ls *layerStream) pack(m *matrix, from, n int, pool *kernel.Pool) error {
	rows, inPlace := ls.rows[m]
	if !inPlace {
		rows = m.Data
	}
	row, step := kernel.RowBytes(m.Type, m.In), streamChunkRows(m)
	for at := from * m.Out; at < (from+n)*m.Out; {
		src := m.Matrix
		src.N, src.Scales, src.Layout = 1, nil, kernel.Rows
		src.Out = min(step, m.Out-at%m.Out)
		src.Data = rows[at*row : (at+src.Out)*row]
		bytes := kernel.Pad(src.Out) / kernel.Panel * kernel.PanelBytes(m.Type, m.In)
		panels := ls.panels.Bytes()[:bytes:bytes]
		if err := pool.PackMat(panels, src); err != nil {
			return fmt.Errorf("tensor %q: %w", m.parts[0].Name, err)
		}
		if inPlace { // what was packed begins no later than its rows, so rows that follow are still there
			if err := spread(m.Data[at*row:], panels, pool.Threads()); err != nil {
				return err
			}
		}
		at += src.Out
	}
	return nil
}

// spread copies src to the beginning of dst with several threads.
func spread(dst, src []byte, threads int) error {
	share := (len(src)+threads-1)/threads/kernel.Align*kernel.Align + kernel.Align
	return panics.Each((len(src)+share-1)/share, func(i int) error {
		copy(dst[i*share:], src[i*share:min((i+1)*share, len(src))])
		return nil
	})
}
