package engine

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// Rows of media come with a request, or an encoder makes them of an input when the first token of the medium is next to be
// evaluated: never if the prefix cache has what is made of them. One encoding is for all requests that wait for it. It runs
// in slices of milliseconds between passes, and ends when nobody waits for it. Rows are kept by the hash of their medium.

// senses is how many kinds of encoders there are.
const senses = 2

// encoderKV returns how an encoder keeps keys and values: as exact as its weights are.
func (s *encoders) encoderKV(sense projector.Sense) kernel.KVTypes {
	if s.typ.Shortens(s.file.GGUF, sense) {
		return kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}
	}
	return kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}
}

// defaultMediaCache is how many bytes of rows are kept.
const defaultMediaCache = 256 << 20

// An encoders are those of an engine.
type encoders struct {
	file   *model.File
	typ    model.EncoderType
	kinds  [senses]*projector.Encoder // nil: the file has none
	loaded [senses]*model.Encoder     // nil: it was not needed since the engine slept
}

// open reads what encoders the configured file has.
func (s *encoders) open(c *Config) error {
	if c.Media == nil || c.Media.Projector == nil {
		return nil
	}
	f := c.Media.Projector
	of, err := f.GGUF.Projector()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	s.file, s.typ = f, c.Media.Type
	for sense, name := range [senses]string{projector.Sight: of.Vision, projector.Hearing: of.Audio} {
		if name == "" {
			continue
		}
		if _, s.kinds[sense], err = model.SurveyEncoder(f, projector.Sense(sense), s.typ, s.encoderKV(projector.Sense(sense))); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	m := *c.Media
	m.Span = max(m.Span, s.span())
	c.Media = &m
	return nil
}

// close releases the weights.
func (s *encoders) close() {
	for sense, enc := range s.loaded {
		if enc != nil {
			enc.Close()
			s.loaded[sense] = nil
		}
	}
}

// bytes returns about what the weights take.
func (s *encoders) bytes() uint64 {
	if s.file == nil {
		return 0
	}
	return s.file.Size()
}

// span returns the most tokens of a medium that see each other.
func (s *encoders) span() (most int) {
	for _, k := range s.kinds {
		if k != nil && k.BothWays() {
			most = max(most, mostRows(k))
		}
	}
	return most
}

// mostRows returns how many rows an encoder makes at most of a picture.
func mostRows(k *projector.Encoder) int {
	if k.MaxRows > 0 || k.Patch == 0 {
		return k.MaxRows
	}
	side := k.Side / k.Patch / max(k.Merge, 1)
	return side * side
}

// fits returns an error unless the rows of the encoders are those that a text model reads.
func (s *encoders) fits(c *model.Config) error {
	for _, k := range s.kinds {
		if k == nil {
			continue
		}
		if n := k.RowColumns(); n != c.MediaColumns() {
			return fmt.Errorf("%s: its rows have %d columns, %s reads %d: it is of another model", s.file.Name(), n, c.Arch, c.MediaColumns())
		}
	}
	return nil
}

// encoder returns the encoder of a sense, which it loads if that has not been done.
func (e *Engine) encoder(s projector.Sense) (*model.Encoder, error) {
	if enc := e.encoders.loaded[s]; enc != nil {
		return enc, nil
	}
	enc, err := model.LoadEncoder(e.encoders.file, s, e.encoders.typ, e.encoders.encoderKV(s), model.Options{Pack: e.device.pack, Budget: e.device.budget})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.encoders.file.Name(), err)
	}
	e.encoders.loaded[s] = enc
	return enc, nil
}

// loadEncoders loads all of them.
func (e *Engine) loadEncoders() error {
	leave := e.device.enter()
	defer leave()
	for s, k := range e.encoders.kinds {
		if k == nil {
			continue
		}
		if _, err := e.encoder(projector.Sense(s)); err != nil {
			return err
		}
	}
	return nil
}

// encodingRoom returns the memory for the encoding of the largest picture, and for the rows that are kept.
func (e *Engine) encodingRoom() (n uint64) {
	for s, enc := range e.encoders.loaded {
		if k := e.encoders.kinds[s]; enc != nil {
			n = max(n, enc.Room(max(mostRows(k), 1), e.device.Threads()))
		}
	}
	if n > 0 {
		n += e.mediaRows.limit
	}
	return n
}

// Projector returns the encoder for a sense, which says what stands in a prompt for a picture or a sound; nil: there is none.
func (e *Engine) Projector(s projector.Sense) *projector.Encoder { return e.encoders.kinds[s] }

// Projector is Engine.Projector.
func (l *Loop) Projector(s projector.Sense) *projector.Encoder { return l.e.Projector(s) }

// rowStore keeps the rows of media by their hashes.
type rowStore struct {
	limit, bytes uint64
	byHash       map[[sha256.Size]byte]*keptRows
	uses         uint64
}

// keptRows are the rows of a medium.
type keptRows struct {
	hash  [sha256.Size]byte
	rows  [][]float32
	mem   *mem.Region
	users int // requests that will evaluate tokens of the medium
	last  uint64
}

// use returns the rows of a hash, which stay until they are released; nil: there are none.
func (s *rowStore) use(hash [sha256.Size]byte) *keptRows {
	k := s.byHash[hash]
	if k != nil {
		s.uses++
		k.users++
		k.last = s.uses
	}
	return k
}

// add adds rows.
func (s *rowStore) add(hash [sha256.Size]byte, rows [][]float32, region *mem.Region) {
	s.uses++
	s.byHash[hash] = &keptRows{hash: hash, rows: rows, mem: region, last: s.uses}
	s.bytes += uint64(len(region.Bytes()))
}

// release undoes use.
func (s *rowStore) release(k *keptRows) {
	k.users--
	s.trim(s.limit)
}

// trim forgets the rows that were used least recently, and that nobody uses, until no more than so many bytes are left. It
// returns how many it forgot.
func (s *rowStore) trim(most uint64) (freed uint64) {
	for s.bytes > most {
		var first *keptRows
		for _, k := range s.byHash {
			if k.users == 0 && (first == nil || k.last < first.last) {
				first = k
			}
		}
		if first == nil {
			break
		}
		n := uint64(len(first.mem.Bytes()))
		delete(s.byHash, first.hash)
		first.mem.Close()
		s.bytes -= n
		freed += n
	}
	return freed
}

// A work is an encoding that requests wait for.
type work struct {
	hash  [sha256.Size]byte
	sense projector.Sense
	in    *projector.Input
	jobs  []*job

	run     *model.Encoding // nil: it has not begun
	threads int             // that it was begun with
	fetch   *rowFetch       // its rows are being read from disk; nil: they are to be made
}

// priority returns the highest of those that wait.
func (w *work) priority() int {
	return slices.MaxFunc(w.jobs, func(a, b *job) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
}

// close releases the memory.
func (w *work) close() {
	if w.fetch != nil {
		w.fetch.drop()
		w.fetch = nil
	}
	if w.run != nil {
		w.run.Close()
		w.run = nil
	}
}

// seek finds the rows of the media that a running request will evaluate, or has them made, and tells the scheduler up to
// which token it can be evaluated. The caller holds the lock.
func (l *Loop) seek(j *job) {
	if len(j.media) == 0 {
		return
	}
	ready := math.MaxInt
	for i := range j.media {
		p := &j.media[i]
		if p.At+p.Tokens <= j.seq.Len()+j.gen.Dropped() || p.Rows != nil {
			continue
		}
		if k := l.e.mediaRows.use(p.Hash); k != nil {
			p.kept, p.Rows = k, k.rows
			continue
		}
		ready = min(ready, p.At)
		l.await(j, p)
	}
	l.sched.Limit(j.id, ready)
}

// await has the rows of a medium made for a request.
func (l *Loop) await(j *job, p *placed) {
	i := slices.IndexFunc(l.works, func(w *work) bool { return w.hash == p.Hash })
	if i < 0 {
		i = len(l.works)
		w := &work{hash: p.Hash, sense: p.Sense, in: p.Input}
		if l.spill != nil {
			w.fetch = l.spill.fetchRows(p.Hash, p.Tokens)
		}
		l.works = append(l.works, w)
	}
	if w := l.works[i]; !slices.Contains(w.jobs, j) {
		w.jobs = append(w.jobs, j)
	}
}

// seen releases the rows of media that a request has evaluated; with all, also of others, which it no longer waits for. The
// caller holds the lock.
func (l *Loop) seen(j *job, all bool) {
	for i := range j.media {
		p := &j.media[i]
		if p.kept != nil && (all || p.At+p.Tokens <= j.seq.Len()) {
			l.e.mediaRows.release(p.kept)
			p.kept, p.Rows = nil, nil
		}
	}
	if !all || len(j.media) == 0 {
		return
	}
	l.works = slices.DeleteFunc(l.works, func(w *work) bool {
		w.jobs = slices.DeleteFunc(w.jobs, func(o *job) bool { return o == j })
		if len(w.jobs) == 0 {
			w.close()
		}
		return len(w.jobs) == 0
	})
}

// encode runs the work of the highest priority that was asked for first, for the time that is left beside the pass that has
// been planned, and at least a step. It reports whether there was any.
func (l *Loop) encode() bool {
	if len(l.works) == 0 {
		return false
	}
	l.mu.Lock()
	if l.fetched() {
		l.mu.Unlock()
		return true
	}
	var w *work
	for _, o := range l.works {
		if o.fetch == nil && (w == nil || o.priority() > w.priority()) {
			w = o
		}
	}
	left := l.sched.Left()
	l.mu.Unlock()
	if w == nil { // all are being read
		return false
	}
	var done bool
	err := l.e.device.inTurn(func() (err error) {
		done, err = l.slice(w, time.Now().Add(left))
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		for _, j := range w.jobs {
			if j.ended == nil {
				j.end(err)
			}
		}
	case done:
		l.made(w)
	}
	return true
}

// slice runs steps of a work until a time, or until the loop is woken. It begins the work if need be.
func (l *Loop) slice(w *work, until time.Time) (done bool, err error) {
	if w.run != nil && w.threads < l.e.device.Threads() { // it has scratch memory for fewer
		w.close()
	}
	if w.run == nil {
		if err := l.beginWork(w); err != nil {
			return false, err
		}
	}
	last := time.Now()
	for done = w.run.Step(); !done && len(l.wake) == 0; done = w.run.Step() {
		now := time.Now()
		if now.Add(now.Sub(last)).After(until) { // there is no time for another step as long
			break
		}
		last = now
	}
	return done, l.e.encoders.loaded[w.sense].Damaged()
}

// beginWork allocates what an encoding takes, for which rows that nobody uses make room.
func (l *Loop) beginWork(w *work) error {
	d := l.e.device
	enc, err := l.e.encoder(w.sense)
	if err != nil {
		return err
	}
	w.threads = d.Threads()
	var limit *mem.LimitError
	if w.run, err = enc.Begin(w.in, d.pool, d.budget); errors.As(err, &limit) {
		l.mu.Lock()
		l.e.mediaRows.trim(0)
		l.mu.Unlock()
		w.run, err = enc.Begin(w.in, d.pool, d.budget)
	}
	if errors.As(err, &limit) {
		limit, reason := d.budget.Limit()
		return &MemoryError{limit, reason, RetryPressure, enc.BytesOf(w.in, w.threads), d.budget.Free(), "a picture or a sound"}
	}
	return err
}

// made gives the rows that a work has made to those that wait for them. The caller holds the lock.
func (l *Loop) made(w *work) {
	var rows [][]float32
	for i := range w.in.Rows() {
		rows = append(rows, w.run.Row(i))
	}
	l.counts.Encodings++
	l.have(w, rows, w.run.Take())
}

// have gives rows in a region to those that wait for a work. The caller holds the lock.
func (l *Loop) have(w *work, rows [][]float32, region *mem.Region) {
	l.e.mediaRows.add(w.hash, rows, region)
	if l.spill != nil && w.run != nil {
		l.spill.keepRows(w.hash)
	}
	w.close()
	l.works = slices.DeleteFunc(l.works, func(o *work) bool { return o == w })
	for _, j := range w.jobs {
		l.seek(j)
	}
	l.e.mediaRows.trim(l.e.mediaRows.limit)
}
