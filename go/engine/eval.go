package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// A Sequence is the evaluated tokens of one text, with their state.
type Sequence struct {
	e     *Engine
	table *kvcache.Table
	ids   []int32

	source int         // how many of the first tokens an encoder reads
	frames [][]float32 // that it hears in place of them; nil: none
	media  []placed    // of the prompt, in order
	held   []*mediaID  // of a caller's sequence: those of media
	second int         // where the second text of a pair begins; 0: it is one text

	shifted bool // it has lost tokens: only the state of the first `intact` is that of the tokens alone
	intact  int

	prompt int // of its first positions, whole blocks of a prompt that may read some of their keys: see Config.Sparse

	// Its adapters, and the namespace of its state in the prefix tree.
	numbers []int32
	scales  []float32
	space   string
}

// NewSequence returns an empty sequence. Its memory is allocated from the shared pool as it grows.
func (e *Engine) NewSequence() *Sequence { return &Sequence{e: e, table: e.kv.NewTable()} }

// Len returns the number of tokens.
func (s *Sequence) Len() int { return len(s.ids) }

// Tokens returns the ids. The slice belongs to the sequence and is valid until it changes.
func (s *Sequence) Tokens() []int32 { return s.ids }

// Truncate keeps the first n tokens, or fewer if the model cannot continue from there: the tokens after them
// must be evaluated again. It returns the number of tokens left.
func (s *Sequence) Truncate(n int) int {
	n = s.table.Truncate(n)
	s.ids = s.ids[:n]
	s.shifted = s.shifted && n > s.intact
	s.prompt = min(s.prompt, wholeBlocks(n))
	return n
}

// rewind keeps the longest prefix of ids that the sequence has, and returns its length. If the sequence
// cannot be truncated there, it takes its state from the engine's prefix tree, which has the ends of texts.
func (s *Sequence) rewind(ids []int32) int {
	shared := kvcache.Common(s.ids, ids)
	if s.shifted {
		shared = min(shared, s.intact)
	} else if s.e.kv.Layout().Forgets() {
		s.keep(s.space, kvcache.How{End: true})
	}
	shared = min(shared, s.e.findable(s.prompt))
	if s.table.Back(shared) == shared {
		return s.Truncate(shared)
	}
	s.table.Free()
	s.shifted = false
	s.table = s.e.tree.Find(s.space, ids)
	s.ids = append(s.ids[:0], ids[:s.table.Len()]...)
	return len(s.ids)
}

// begin prepares the sequence for the prompt of a request, and returns how many tokens of it are evaluated. The last one is
// evaluated in any case, for its logits.
func (s *Sequence) begin(j *job) int {
	if s.e.model.Config.OnePass() {
		s.Truncate(0)
		s.source = j.source
	}
	was := s.held
	s.media, s.held = j.media, s.e.mediaIDs.again(j.held)
	defer s.e.mediaIDs.release(was)
	for n := min(len(j.Prompt)-1, s.e.findable(len(j.Prompt))); ; {
		n = s.rewind(j.Prompt[:n])
		at := s.e.whole(s.media, n)
		if n == at {
			return n
		}
		n = at
	}
}

// keep stores the sequence's state in the tree, as far as it is that of its tokens alone.
func (s *Sequence) keep(namespace string, how kvcache.How) {
	how.Behind = max(len(s.ids)-s.e.findable(s.prompt), 0)
	s.e.tree.Keep(namespace, s.table, s.ids, how)
}

// keepPrompt stores the evaluated part of a prompt of so many tokens in the tree.
func (s *Sequence) keepPrompt(namespace string, c cuts, prompt int) {
	end := c.has(s.Len()) || s.Len() >= prompt
	s.keep(namespace, kvcache.How{Whole: true, End: end})
}

// Fork returns a sequence of the same tokens that shares their memory.
func (s *Sequence) Fork() *Sequence {
	f := *s
	f.table, f.ids = s.table.Fork(), append([]int32(nil), s.ids...)
	f.held = s.e.mediaIDs.again(s.held)
	return &f
}

// Close releases the memory and leaves the sequence empty.
func (s *Sequence) Close() {
	s.table.Free()
	s.e.mediaIDs.release(s.held)
	s.ids, s.shifted, s.media, s.held, s.prompt = s.ids[:0], false, nil, nil, 0
}

// An Item is the part of one sequence in a pass.
type Item struct {
	Seq  *Sequence
	IDs  []int32 // tokens to append
	Rows int     // of logits: after each of the last Rows tokens

	Branches []Branch // other tokens in the place of these; fill leaves out the last where there is no room for them

	read int // of IDs: those that an encoder reads; set by fill
}

// A Branch is an alternative continuation of a sequence in a pass. It is a sequence of its own that shares
// the state before the pass.
type Branch struct {
	IDs  []int32
	Rows int // as an Item has them

	table *kvcache.Table // set by fill
}

// branches returns the branches of a text in a pass.
func branches(of []generate.Branch) (list []Branch) {
	for _, b := range of {
		list = append(list, Branch{IDs: b.IDs, Rows: b.Rows})
	}
	return list
}

// maxBranches is the maximum number of branches in a pass.
const maxBranches = 16

// sequence returns the tokens of the item's own sequence (0) or of a branch, counted from 1.
func (it *Item) sequence(branch int) []int32 {
	if branch > 0 {
		return it.Branches[branch-1].IDs
	}
	return it.IDs
}

// adopt makes a branch, counted from 1, the item's sequence after a pass; 0 keeps the item's own. The other
// branches are released.
func (it *Item) adopt(branch int) {
	for i := range it.Branches {
		b := &it.Branches[i]
		if b.table == nil {
			continue
		}
		if s := it.Seq; i == branch-1 {
			s.table, b.table = b.table, s.table
			s.ids = append(s.ids[:len(s.ids)-len(it.IDs)], b.IDs...)
		}
		b.table.Free()
		b.table = nil
	}
}

// source returns the tokens of the item that are the encoder's, the first ones.
func (it *Item) source() []int32 {
	return it.IDs[:min(max(it.Seq.source-it.Seq.Len(), 0), len(it.IDs))]
}

// Eval appends ids to s, as a part of a prompt, in slices of at most Batch. visit, unless nil, is called with the logits after each
// ids[i] for i >= from; they are valid only during the call. On an error s keeps the completed slices.
func (e *Engine) Eval(ctx context.Context, s *Sequence, ids []int32, from int, visit func(i int, logits []float32) error) error {
	if err := e.fits(s, len(ids)); err != nil {
		return err
	}
	if c := e.model.Config; len(c.Encoder) > 0 {
		return answersOnly(c)
	}
	leave := e.device.enter()
	defer leave()
	c, forget := cancelOf(ctx)
	defer forget()
	defer clear(e.item[:])
	s.prompt = e.promptOf(s, len(ids))
	for at := 0; at < len(ids); {
		room := min(e.kv.Layout().Room(s.Len(), e.batch), len(ids)-at)
		it := Item{Seq: s, IDs: ids[at : at+e.slice(s, room)]}
		n := len(it.IDs)
		if visit != nil {
			it.Rows = min(max(at+n-from, 0), n)
		}
		e.item[0] = it
		next := at + n - it.Rows
		err := e.device.inTurn(func() error {
			if err := e.pass(c, e.item[:]); err != nil {
				return err
			}
			return e.heads(e.item[:], func(parts []part) error {
				for _, logits := range parts[0].rows {
					if err := visit(next, logits); err != nil {
						return err
					}
					next++
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fits returns an error if n more tokens exceed the context.
func (e *Engine) fits(s *Sequence, n int) error {
	if s.Len()+n <= e.ctx {
		return nil
	}
	if s.Len() == 0 {
		return fmt.Errorf("%w: %d tokens in a context of %d", ErrTooLong, n, e.ctx)
	}
	return fmt.Errorf("%w: %d tokens after %d in a context of %d", ErrTooLong, n, s.Len(), e.ctx)
}

// pass appends the items' tokens to their sequences and runs the model over them, without logits. The caller
// holds the device's turn. If it fails, the sequences are unchanged.
func (e *Engine) pass(c canceler, items []Item) error {
	for _, it := range items {
		if err := known(it.IDs, e.model.Config.NVocab); err != nil {
			return err
		}
		for _, b := range it.Branches {
			if err := known(b.IDs, e.model.Config.NVocab); err != nil {
				return err
			}
		}
	}
	for _, it := range items {
		if err := it.Seq.age(len(it.IDs)); err != nil {
			return err
		}
	}
	work, err := e.fill(items)
	if err != nil || !work {
		return err
	}
	err = c.ctx.Err()
	if err == nil {
		err = e.forward(items, c.stop, nil)
	}
	if errors.Is(err, model.ErrStopped) {
		err = c.ctx.Err()
	}
	if err != nil {
		undo(items)
		return err
	}
	commit(items)
	return nil
}

// A canceler stops passes when its context is done.
type canceler struct {
	ctx  context.Context
	stop *kernel.Stop // nil for a context that never is
}

// cancelOf returns a canceler for ctx, valid for any number of passes until forget is called.
func cancelOf(ctx context.Context) (c canceler, forget func() bool) {
	if c.ctx = ctx; ctx.Done() == nil {
		return c, func() bool { return true }
	}
	c.stop = new(kernel.Stop)
	return c, context.AfterFunc(ctx, c.stop.Set)
}

// fill allocates positions for the items' tokens and fills the batch with them. It reports whether there are
// any. If it fails, the sequences are unchanged.
func (e *Engine) fill(items []Item) (work bool, err error) {
	b := e.runner.Batch()
	b.Reset()
	for k, it := range items {
		if err := it.Seq.table.Grow(len(it.IDs)); err != nil {
			undo(items[:k])
			return false, err
		}
		work = work || len(it.IDs) > 0
	}
	branch(items)
	add := func(s *Sequence, table *kvcache.Table, ids []int32, pos int) {
		if len(ids) == 0 {
			return
		}
		b.AddSeq(table.Units()...)
		b.Source(s.source)
		b.Second(s.second)
		b.Prompt(s.prompt)
		b.Adapt(s.numbers, s.scales)
		for i, id := range ids {
			b.Add(max(id, 0), int32(pos+i))
			if len(s.media) > 0 {
				s.bring(b, pos+i)
			}
			if at := pos + i; at < len(s.frames) {
				b.Bring(s.frames[at])
			}
		}
	}
	for k := range items { // encoders come first
		source := items[k].source()
		items[k].read = len(source)
		add(items[k].Seq, items[k].Seq.table, source, items[k].Seq.Len())
	}
	for _, it := range items {
		add(it.Seq, it.Seq.table, it.IDs[it.read:], it.Seq.Len()+it.read)
		for _, b := range it.Branches {
			add(it.Seq, b.table, b.IDs, it.Seq.Len())
		}
	}
	return work, nil
}

// branch allocates positions for branches, after those of all items, because a pass can run without branches.
func branch(items []Item) {
	room := maxBranches
	for k := range items {
		it := &items[k]
		for i := range it.Branches {
			b := &it.Branches[i]
			table := it.Seq.table.Branch()
			if room == 0 || table.Grow(len(b.IDs)) != nil {
				table.Free()
				it.Branches = it.Branches[:i]
				break
			}
			b.table = table
			room--
		}
	}
}

// undo releases the positions that fill allocated for the items' tokens.
func undo(items []Item) {
	for k := range items {
		items[k].Seq.table.Undo()
		items[k].adopt(0)
	}
}

// commit records that the items' tokens were evaluated.
func commit(items []Item) {
	for _, it := range items {
		it.Seq.table.Commit()
		it.Seq.ids = append(it.Seq.ids, it.IDs...)
		for _, b := range it.Branches {
			b.table.Commit()
		}
	}
}

// A part is the next rows of logits of an item, followed by those of its branches.
type part struct {
	item int
	rows [][]float32
}

// heads computes the requested logits of the last pass, in chunks that fit the buffer, and calls show with
// them. All rows of an item are in one call if they fit; an item that requests none has no rows. The rows are
// valid only during the call.
func (e *Engine) heads(items []Item, show func(parts []part) error) error {
	rows, parts, room := e.rows[:0], e.parts[:0], len(e.logits)
	flush := func() error {
		if len(rows) > 0 {
			e.runner.Head(rows)
		}
		for k := range rows {
			e.logits[k] = e.runner.Logits(k)
		}
		err := e.model.Damaged()
		if err == nil {
			err = show(parts)
		}
		rows, parts = rows[:0], parts[:0]
		return err
	}
	end := int32(0) // of the item's tokens in the pass, without those that encoders read
	for k, it := range items {
		wanted := e.wanted[:0]
		add := func(tokens, n int) {
			end += int32(tokens)
			for i := range n {
				wanted = append(wanted, end-int32(n-i))
			}
		}
		add(len(it.IDs)-it.read, it.Rows)
		for _, b := range it.Branches {
			add(len(b.IDs), b.Rows)
		}
		for e.wanted = wanted; ; {
			if min(len(wanted), room) > room-len(rows) {
				if err := flush(); err != nil {
					return err
				}
			}
			n := min(len(wanted), room)
			parts = append(parts, part{k, e.logits[len(rows) : len(rows)+n]})
			rows = append(rows, wanted[:n]...)
			if wanted = wanted[n:]; len(wanted) == 0 {
				break
			}
		}
	}
	e.parts = parts
	if len(parts) == 0 {
		return nil
	}
	return flush()
}
