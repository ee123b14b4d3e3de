package engine

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
	"github.com/quern-llm/quern/go/sched"
)

// Media configures an engine whose prompts may have pictures and sounds.
type Media struct {
	Projector *model.File       // has the encoders, and is the engine's to close; nil: requests bring rows
	Type      model.EncoderType // that the weights of the encoders' layers have in memory
	Span      int               // tokens of the largest medium whose tokens see each other in both directions: a pass has as many at least; 0: by the encoders
	Cache     uint64            // bytes of rows that are kept; 0: 256 MiB
}

// A Medium is a picture or a sound in a prompt.
type Medium struct {
	At, Tokens int                            // its tokens in the prompt, whose ids are below 0
	Hash       [sha256.Size]byte              // of all that decides its rows and places: pixels or samples, settings, the projector
	Advance    int                            // by how many places what follows is further on; 0: as Place has it, or Tokens
	Place      func(i int) [kernel.Axes]int32 // of token i, counted from that of the medium; nil: by the input's grid, or one after the other
	BothWays   bool                           // its tokens see each other in both directions, if the model was trained so

	// Its rows are made of an input by the encoder of a sense, unless they are kept or not needed.
	Sense projector.Sense
	Input *projector.Input

	// Or they are given: of each token nn.Config.MediaColumns numbers outside of Go's heap, as they are until Done.
	Rows [][]float32
}

// ErrBlind reports a medium in a request to a model that was opened without them.
var ErrBlind = errors.New("reads text only: it was opened without a projector, which makes pictures and sounds readable")

// A placed is a medium where it is in a text.
type placed struct {
	Medium
	from int32     // its place
	kept *keptRows // whose rows it has; nil: it has none, or the request's
}

// after returns the place of what follows the medium, less its index in the text.
func (p *placed) after() int32 {
	return p.from + int32(cmp.Or(p.Advance, p.Tokens)) - int32(p.At+p.Tokens)
}

// place returns where token i of the text is, in the medium or behind it; own is nn.Config.OwnPlaces.
func (p *placed) place(i int, own bool) (at [kernel.Axes]int32) {
	if k := i - p.At; k < p.Tokens && p.Place != nil {
		at = p.Place(k)
		for axis := range at {
			if axis == 0 || !own {
				at[axis] += p.from
			}
		}
		return at
	}
	n := int32(i) + p.after()
	if i < p.At+p.Tokens {
		n = p.from + int32(i-p.At)
	}
	return [kernel.Axes]int32{n, n, n, n}
}

// look returns the media of a prompt where they are. It refuses those that are not, and ids of media that there are none of.
func (e *Engine) look(prompt []int32, media []Medium) (list []placed, err error) {
	c := e.model.Config
	if len(media) > 0 && !c.Media {
		return nil, fmt.Errorf("%s %w", c.Arch, ErrBlind)
	}
	at, ahead := 0, int32(0) // of the text, and how much further its places are
	text := func(to int) error {
		for i, id := range prompt[at:to] {
			if id < 0 || int(id) >= c.NVocab {
				return fmt.Errorf("%w: token %d is %d, want 0 to %d", model.ErrToken, at+i, id, c.NVocab-1)
			}
		}
		return nil
	}
	for i, m := range media {
		switch {
		case m.Tokens < 1 || m.At < at || m.At > len(prompt)-m.Tokens:
			return nil, fmt.Errorf("medium %d: tokens %d to %d, want at least one from %d on, of %d", i, m.At, m.At+m.Tokens, at, len(prompt))
		case m.Advance < 0 || m.Advance > m.Tokens:
			return nil, fmt.Errorf("medium %d: it is %d places long, want at most the %d of its tokens", i, m.Advance, m.Tokens)
		case m.Rows == nil && m.Input != nil:
			if m.Sense < 0 || m.Sense >= senses || e.encoders.kinds[m.Sense] == nil {
				return nil, fmt.Errorf("medium %d: %s", i, lacking(m.Sense))
			}
			if n := m.Input.Rows(); n != m.Tokens {
				return nil, fmt.Errorf("medium %d: an encoder makes %d rows of it, for %d tokens", i, n, m.Tokens)
			}
		case len(m.Rows) != m.Tokens:
			return nil, fmt.Errorf("medium %d: %d rows for %d tokens", i, len(m.Rows), m.Tokens)
		}
		for t, row := range m.Rows {
			if n := c.MediaColumns(); len(row) != n {
				return nil, fmt.Errorf("medium %d: its row %d has %d columns, %s reads %d", i, t, len(row), c.Arch, n)
			}
		}
		for k, id := range prompt[m.At:][:m.Tokens] {
			if id >= 0 {
				return nil, fmt.Errorf("medium %d: token %d of the prompt is %d, want one below 0", i, m.At+k, id)
			}
		}
		if err := text(m.At); err != nil {
			return nil, err
		}
		if m.BothWays = m.BothWays && c.SeesMedia(); m.BothWays && m.Tokens > e.batch-e.seqs+1 {
			return nil, fmt.Errorf("medium %d: its %d tokens see each other, and a pass has %d beside others; make it smaller", i, m.Tokens, e.batch-e.seqs+1)
		}
		if m.Place == nil && m.Input != nil && c.ByPlaces() {
			if c.OwnPlaces {
				m.Place = ownPlaces(m.Input, int32(m.At)+ahead, int32(i))
			} else {
				m.Place, m.Advance = placesOf(m.Input)
			}
		}
		p := placed{Medium: m, from: int32(m.At) + ahead}
		ahead, at = p.after(), m.At+m.Tokens
		list = append(list, p)
	}
	return list, text(len(prompt))
}

// placesOf returns where the tokens of what an encoder reads are, and by how many places what follows is further on: in a
// picture all at one time, each in its row and its column, and in one of a film counted from where that begins.
func placesOf(in *projector.Input) (place func(i int) [kernel.Axes]int32, advance int) {
	if n := int32(in.Rows()); in.OnePlace && n > 2 {
		return func(i int) [kernel.Axes]int32 {
			at := min(int32(i), 1)
			if int32(i) == n-1 {
				at = 2
			}
			return [kernel.Axes]int32{at, at, at, at}
		}, 3
	}
	grid := in.Grid
	if grid.Columns < 1 {
		return nil, 0
	}
	at := in.Step
	if at.After == 0 {
		at.After = max(grid.Columns, grid.Rows)
	}
	return func(i int) [kernel.Axes]int32 {
		return [kernel.Axes]int32{int32(at.Time - at.Before), int32(i/grid.Columns - at.Before), int32(i%grid.Columns - at.Before), 0}
	}, at.After - at.Before
}

// ownPlaces is placesOf with nn.Config.OwnPlaces: the tokens of picture `number` of a text, which begins at place from, are one
// after another, each in its column, its row and that picture. Tokens before and behind its rows are as those of texts.
func ownPlaces(in *projector.Input, from, number int32) func(i int) [kernel.Axes]int32 {
	grid := in.Grid
	if grid.Columns < 1 {
		return nil
	}
	n := grid.Columns * grid.Rows
	before := (in.Rows() - n) / 2
	return func(i int) [kernel.Axes]int32 {
		k := i - before
		if k < 0 || k >= n {
			return [kernel.Axes]int32{int32(i), from + int32(i), from + int32(i), from + int32(i)}
		}
		return [kernel.Axes]int32{int32(i), int32(k % grid.Columns), int32(k / grid.Columns), number}
	}
}

// lacking says that there is no encoder for a sense.
func lacking(s projector.Sense) string {
	if s == projector.Hearing {
		return "the projector has no encoder of sounds"
	}
	return "the projector has no encoder of pictures"
}

// spansOf returns the tokens of a prompt of n that are in one pass each: media that are evaluated whole, and blocks.
func (e *Engine) spansOf(media []placed, n int) (spans []sched.Span) {
	for i := range media {
		if p := &media[i]; p.BothWays {
			spans = append(spans, sched.Span{From: p.At, To: p.At + p.Tokens})
		}
	}
	return append(spans, e.blockSpans(n)...)
}

// whole returns n, or where the medium begins that n is inside of and that is evaluated whole.
func whole(media []placed, n int) int {
	for i := range media {
		if p := &media[i]; p.BothWays && n > p.At && n < p.At+p.Tokens {
			return p.At
		}
	}
	return n
}

// place gives the token added last to a batch, number `at` of the sequence, its places, but no row.
func (s *Sequence) place(b *kernel.Batch, at int) {
	if p := s.lastMedium(at); p != nil {
		b.Place(p.place(at, s.e.model.Config.OwnPlaces))
	}
}

// lastMedium returns the last one that begins at or before a token of the sequence; nil: there is none. In a shifted
// sequence, all tokens are behind the media, and their places are their positions.
func (s *Sequence) lastMedium(at int) *placed {
	k := sort.Search(len(s.media), func(i int) bool { return s.media[i].At > at }) - 1
	if k < 0 || s.shifted {
		return nil
	}
	return &s.media[k]
}

// bring gives the token added last to a batch, number `at` of the sequence, its row, its span and its places.
func (s *Sequence) bring(b *kernel.Batch, at int) {
	p := s.lastMedium(at)
	if p == nil {
		return
	}
	b.Place(p.place(at, s.e.model.Config.OwnPlaces))
	if i := at - p.At; i < p.Tokens {
		b.Bring(p.Rows[i])
		if p.BothWays && i == p.Tokens-1 {
			b.Span(p.Tokens)
		}
	}
}

// mediaIDs numbers media by their hashes: -1 - number is the id of all of the tokens of a medium, so that whoever compares
// ids compares media. An id is forgotten when nobody holds it and no text that is kept has it.
type mediaIDs struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*mediaID
	byID   map[int32]*mediaID
	last   int32
	room   int // how many there may be before some are forgotten
}

// A mediaID is the id of a medium.
type mediaID struct {
	id      int32
	hash    [sha256.Size]byte
	holders int
}

// leastMediaIDs is how many ids are kept in any case.
const leastMediaIDs = 1024

func newMediaIDs() *mediaIDs {
	// -1 is no id yet, and between texts in the histories that drafts come from.
	return &mediaIDs{byHash: map[[sha256.Size]byte]*mediaID{}, byID: map[int32]*mediaID{}, last: -1, room: leastMediaIDs}
}

// hold returns the id of a hash, until it is released as often.
func (m *mediaIDs) hold(hash [sha256.Size]byte) *mediaID {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byHash[hash]
	if one == nil {
		m.last--
		one = &mediaID{id: m.last, hash: hash}
		m.byHash[hash], m.byID[one.id] = one, one
	}
	one.holders++
	return one
}

// again holds what is held once more.
func (m *mediaIDs) again(held []*mediaID) []*mediaID {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range held {
		one.holders++
	}
	return held
}

// release undoes hold.
func (m *mediaIDs) release(held []*mediaID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range held {
		one.holders--
	}
}

// hash returns the hash of an id.
func (m *mediaIDs) hash(id int32) (hash [sha256.Size]byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.byID[id]; one != nil {
		return one.hash, true
	}
	return hash, false
}

// numbered returns a text with numbers in place of the ids of its media, -1 for the first, and their hashes. ok: all are known.
func (m *mediaIDs) numbered(ids []int32) (hashes [][sha256.Size]byte, text []int32, ok bool) {
	numbers := map[int32]int32{}
	for i, id := range ids {
		if id >= 0 {
			continue
		}
		if text == nil {
			text = slices.Clone(ids)
		}
		n, seen := numbers[id]
		if !seen {
			h, known := m.hash(id)
			if !known {
				return nil, nil, false
			}
			hashes = append(hashes, h)
			n = int32(-len(hashes))
			numbers[id] = n
		}
		text[i] = n
	}
	if text == nil {
		text = ids
	}
	return hashes, text, true
}

// sweep forgets ids, if there are many, that nobody holds and that are not in the texts that each calls its argument with.
func (m *mediaIDs) sweep(each func(text func(ids []int32))) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.byID) < m.room {
		return
	}
	used := map[int32]bool{}
	each(func(ids []int32) {
		for _, id := range ids {
			if id < 0 {
				used[id] = true
			}
		}
	})
	for id, one := range m.byID {
		if one.holders == 0 && !used[id] {
			delete(m.byID, id)
			delete(m.byHash, one.hash)
		}
	}
	m.room = max(2*len(m.byID), leastMediaIDs)
}

// name returns a prompt with the ids of its media, and holds them.
func (e *Engine) name(prompt []int32, media []placed) ([]int32, []*mediaID) {
	if len(media) == 0 {
		return prompt, nil
	}
	var held []*mediaID
	prompt = slices.Clone(prompt)
	for i := range media {
		p := &media[i]
		one := e.mediaIDs.hold(p.Hash)
		held = append(held, one)
		for k := range p.Tokens {
			prompt[p.At+k] = one.id
		}
	}
	return prompt, held
}

// sweepMedia forgets the ids of media that nobody uses. The caller holds the lock.
func (l *Loop) sweepMedia() {
	l.e.mediaIDs.sweep(func(text func(ids []int32)) {
		l.tree.Texts(text)
		for i := range l.slots {
			text(l.slots[i].ids)
		}
	})
}

// reusable returns the tokens of a request that need not be evaluated if their state is cached, but for those behind what the
// tree has, where that ends inside a medium, or a block, that is evaluated whole.
func (l *Loop) reusable(j *job) []int32 {
	ids := l.skippable(j)
	if len(j.media) == 0 && l.e.config.Sparse.Part == 0 {
		return ids
	}
	ids = ids[:l.e.whole(j.media, len(ids))]
	for {
		n := l.tree.Len(j.namespace, ids)
		at := l.e.whole(j.media, n)
		if n == at {
			return ids
		}
		ids = ids[:at]
	}
}
