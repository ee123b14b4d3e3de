package train

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A team is the ranks that take a Run's steps together. Each has the whole model and all texts, and computes some chunks of a
// step, one behind the other. What ranks exchange are the sums that are places of the tree over all chunks, so that each adds
// up the rest of the tree, and takes the step: all have the same numbers to the bit, however many they are. A nil team is
// that of a Run that is alone.
type team struct {
	g      *kernel.Ranks
	pieces *kernel.Pieces
	room   *mem.Reservation // of the pieces
	chunks []int            // of a step: rank r has those from chunks[r] to chunks[r+1]
	lost   error            // that ended exchanges
}

// What ranks exchange, so that they fail where they are not at the same.
const (
	stepForm = 1<<24 + iota
	stepState
	stepStatus
	stepValues
	stepSums
)

const (
	// mostPieces is the memory of the pieces of all ranks, and mostPiece of each.
	mostPieces, mostPiece = 16 << 20, 1 << 20
)

// Patience is how long ranks wait for others at least: for one that reads its model or writes a state, or whose chunk is longer.
const Patience = 10 * time.Minute

// Join has the Run take its steps together with those of the other ranks, which join at the same time: with the same model, texts
// and configuration, and the state of rank 0. Steps, losses and the adapter have the bits that they have without others.
// Errors of one rank are those of all; where ranks are lost, the run is over.
func (r *Run) Join(g *kernel.Ranks) error {
	n := g.Count()
	if r.failed != nil || r.team != nil {
		return errors.Join(r.failed, errors.New("a run joins others once"))
	}
	if r.config.Chunks < n {
		return fmt.Errorf("a step of %d chunks has no work for %d ranks", r.config.Chunks, n)
	}
	m := &team{g: g}
	m.chunks = m.cuts(r.config.Chunks)
	most := min(mostPiece, mostPieces/n)
	var err error
	if m.room, err = r.budget.Reserve("the exchange of ranks", uint64(kernel.PiecesBytes(n, most))); err != nil {
		return err
	}
	m.pieces, r.team = kernel.NewPieces(g, most), m
	g.Patience(Patience)
	m.begin()
	defer m.end()
	_, waiting := placesOf(r.config.Chunks, m.chunks[g.Rank()], m.chunks[g.Rank()+1])
	if err := m.agree(r.allocSums(waiting), nil); err != nil {
		return err
	}
	if err := m.compare(r.form()); err != nil {
		return err
	}
	if err := m.spreadState(&r.state); err != nil {
		r.failed = err
		return err
	}
	return m.agree(r.restore(r.state), nil)
}

// form returns a hash of what is the same on all ranks.
func (r *Run) form() []byte {
	h := sha256.New()
	h.Write(r.state.Of[:])
	h.Write([]byte(r.trainer.Identity()))
	return h.Sum(nil)
}

func (m *team) close() {
	if m != nil {
		m.pieces.Close()
		m.room.Release()
	}
}

func (m *team) begin() {
	if m != nil {
		m.g.Begin(nil)
	}
}

func (m *team) end() {
	if m != nil {
		m.g.End()
	}
}

// cuts returns where n things are divided among ranks: rank r has those from cuts[r] to cuts[r+1], as many as the others but for the
// last.
func (m *team) cuts(n int) []int {
	if m == nil {
		return []int{0, n}
	}
	ranks := m.g.Count()
	cuts, each := make([]int, ranks+1), (n+ranks-1)/ranks
	for r := range cuts {
		cuts[r] = min(r*each, n)
	}
	return cuts
}

// share returns which of the things that are cut so are this rank's, of those that there are.
func (m *team) share(cuts []int, there int) (from, to int) {
	rank := 0
	if m != nil {
		rank = m.g.Rank()
	}
	return min(cuts[rank], there), min(cuts[rank+1], there)
}

// exchange has all ranks exchange whole[r] bytes of each, in as many rounds as they need: put writes this rank's from `at` on,
// and got is given those of each other.
func (m *team) exchange(step uint32, whole []int, put func(b []byte, at int), got func(rank int, b []byte, at int)) error {
	most, sizes := m.pieces.Most(), make([]int, len(whole))
	for at := 0; ; at += most {
		left := false
		for r, n := range whole {
			sizes[r] = min(max(n-at, 0), most)
			left = left || sizes[r] > 0
		}
		if !left {
			return nil
		}
		me := m.g.Rank()
		put(m.pieces.Of(me)[:sizes[me]], at)
		if err := m.pieces.Exchange(sizes, step); err != nil {
			m.lost = fmt.Errorf("the run is over: %w", err)
			return m.lost
		}
		for r, n := range sizes {
			if r != me && n > 0 {
				got(r, m.pieces.Of(r)[:n], at)
			}
		}
	}
}

// same returns the sizes of what all ranks have n bytes of.
func (m *team) same(n int) []int { return slices.Repeat([]int{n}, m.g.Count()) }

// compare returns an error where another rank has another form than rank 0.
func (m *team) compare(form []byte) error {
	all := make([]string, m.g.Count())
	all[m.g.Rank()] = string(form)
	err := m.exchange(stepForm, m.same(len(form)),
		func(b []byte, at int) { copy(b, form[at:]) },
		func(rank int, b []byte, _ int) { all[rank] += string(b) })
	if err != nil {
		return err
	}
	for rank, x := range all {
		if x != all[0] {
			return fmt.Errorf("rank %d has another model, other texts or another configuration than rank 0", rank)
		}
	}
	return nil
}

// spreadState makes rank 0's state that of all.
func (m *team) spreadState(s *State) error {
	count := []*int{&s.Taken, &s.Epoch, &s.At}
	whole := m.same(0)
	whole[0] = 8 * len(count)
	err := m.exchange(stepState, whole,
		func(b []byte, _ int) {
			for i := range len(b) / 8 {
				binary.LittleEndian.PutUint64(b[8*i:], uint64(*count[i]))
			}
		},
		func(_ int, b []byte, _ int) {
			for i, x := range count {
				*x = int(binary.LittleEndian.Uint64(b[8*i:]))
			}
		})
	for _, x := range [][]float32{s.Numbers, s.FirstMoment, s.SecondMoment} {
		if whole[0] = 4 * len(x); err == nil {
			err = m.exchange(stepState, whole,
				func(b []byte, at int) { copy(mem.Float32s(b), x[at/4:]) },
				func(_ int, b []byte, at int) { copy(x[at/4:], mem.Float32s(b)) })
		}
	}
	return err
}

// What a rank says of how it did.
const (
	wasFine = iota
	wasStopped
	wasNotFinite
	hasFailed
)

// statusText is the most bytes that a rank says of its error.
const statusText = 500

// agree returns the error of this rank or, where it has none, that of another. Without any, all ranks get the values that the
// others have: the rank whose share they are, by the cuts.
func (m *team) agree(err error, values []float64, cuts ...int) error {
	if m == nil || m.lost != nil {
		return err
	}
	status := make([]byte, 3+statusText)
	if err != nil {
		status[0] = hasFailed
		switch {
		case errors.Is(err, model.ErrStopped):
			status[0] = wasStopped
		case errors.Is(err, model.ErrNotFinite):
			status[0] = wasNotFinite
		}
		binary.LittleEndian.PutUint16(status[1:], uint16(copy(status[3:], err.Error())))
	}
	worst, text := byte(wasFine), ""
	lost := m.exchange(stepStatus, m.same(len(status)),
		func(b []byte, at int) { copy(b, status[at:]) },
		func(rank int, b []byte, _ int) {
			if b[0] > worst {
				n := min(int(binary.LittleEndian.Uint16(b[1:])), statusText)
				worst, text = b[0], fmt.Sprintf("rank %d: %.500q", rank, b[3:3+n])
			}
		})
	switch {
	case err != nil && (lost != nil || status[0] >= worst): // what it knows itself
		return err
	case lost != nil:
		return lost
	case worst == wasStopped:
		return model.ErrStopped
	case worst == wasNotFinite:
		return fmt.Errorf("%s: %w", text, model.ErrNotFinite)
	case worst == hasFailed:
		return errors.New(text)
	}
	return m.spreadValues(values, cuts)
}

func (m *team) spreadValues(x []float64, cuts []int) error {
	if len(x) == 0 {
		return nil
	}
	at := func(rank int) int { return min(cuts[rank], len(x)) }
	whole := m.same(0)
	for r := range whole {
		whole[r] = 8 * (at(r+1) - at(r))
	}
	return m.exchange(stepValues, whole,
		func(b []byte, done int) { copy(mem.Float64s(b), x[at(m.g.Rank())+done/8:]) },
		func(rank int, b []byte, done int) { copy(x[at(rank)+done/8:], mem.Float64s(b)) })
}

// sum sets x to the sum of all chunks' vectors, of which t has this rank's.
func (m *team) sum(x []float32, t *tree) error {
	all, most := make([][]place, m.g.Count()), 1
	for r := range all {
		all[r], _ = placesOf(t.n, m.chunks[r], m.chunks[r+1])
		most = max(most, len(all[r]))
	}
	some := m.pieces.Most() / 4 / most // numbers at a time
	whole := make([]int, len(all))
	for at := 0; at < len(x); at += some {
		n := min(some, len(x)-at)
		for r := range all {
			whole[r] = 4 * n * len(all[r])
		}
		err := m.exchange(stepSums, whole, func(b []byte, _ int) {
			for i, sum := range t.sums {
				copy(mem.Float32s(b)[i*n:], sum[at:at+n])
			}
		}, func(int, []byte, int) {})
		if err != nil {
			return err
		}
		together := tree{places: places{n: t.n}}
		for r, there := range all {
			sums := mem.Float32s(m.pieces.Of(r)[:whole[r]])
			for i, p := range there {
				together.adopt(p, sums[i*n:(i+1)*n])
			}
		}
		copy(x[at:at+n], together.total())
	}
	return nil
}
