package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// HeadSteps is how many tokens in a row a head learns to guess: from its second on it is given what it made itself, as in use
// (Li et al. 2025, "training-time test").
const HeadSteps = 4

// An unrolled is the program of a head for training. All steps guess from each token of the texts at once. Row a of step k has
// the hidden state that step k-1 made in row a, or that of the model's layers, and token a+1+k, whose key is at position a+k; it
// guesses token a+2+k. It sees what it sees in use: keys of step 0 of rows up to a, and those of steps 1 to k in its own row, whose
// share of the attention is added here (see beside). So gradients go through all steps, as they were.
type unrolled struct {
	first       []kernel.Op // what is made of the model's layers, and rotations
	again, back []kernel.Op // of all steps
	outputs     []reversed  // the logits of each, with the loss
	hidden      []kernel.Buf
	logits      kernel.Buf // of the list of outputs
	rows        map[int32]int32
	nVocab      int

	begin, forward, backward []leg
	plans                    []backPlans // of outputs
	guesses                  []parts     // logits without the loss
}

// inGo is an operation that is not of C, between those that are.
type inGo struct {
	kernel.Op // nil
	do        func(t *Trainer) error
	reads     []kernel.Buf
}

// A leg is plans, or something else.
type leg struct {
	plans parts
	do    func(t *Trainer) error
}

// unroll rewrites the program of the head that drafts for m, all of whose weights are trained.
func unroll(m *Model, tuned *Tuned, targets *kernel.Targets, alloc func(n int) ([]float32, error)) (*rewriting, *unrolled, error) {
	next := m.program.Next
	to := *m.program
	to.Bufs = slices.Clone(to.Bufs)
	r := &reversal{
		p: &to, train: map[string]*lowRank{}, x: kernel.NoBuf, capped: next.Logits, pool: map[kernel.BufSpec][]kernel.Buf{},
		steady: map[kernel.Buf]bool{}, seen: map[string]bool{}, alloc: alloc, constants: map[float32][]float32{},
		weights: tuned.gradients(),
	}
	u := &unrolled{nVocab: next.NVocab}
	if next.IDs != nil {
		u.rows = map[int32]int32{}
		for i, id := range next.IDs {
			u.rows[id] = int32(i)
		}
	}
	w := &rewriting{x: next.Hidden}
	w.loss = r.add(kernel.BufSpec{Kind: kernel.Floats, Rows: kernel.OutRows, Width: kernel.Panel})
	if err := r.unroll(u, next, w, targets); err != nil {
		return nil, nil, fmt.Errorf("a head of %s cannot be trained: %w", m.Config.Arch, err)
	}
	if err := r.weights.missed(false); err != nil {
		return nil, nil, fmt.Errorf("a head of %s cannot be trained: %w", m.Config.Arch, err)
	}
	w.bufs = to.Bufs
	for _, out := range append(slices.Clone(to.Outputs), nn.Output{Buf: next.Logits}) { // the lists have their own
		w.bufs[out.Buf].Width = kernel.Panel
	}
	return w, u, nil
}

func (r *reversal) unroll(u *unrolled, next *nn.Next, w *rewriting, targets *kernel.Targets) error {
	head := next.Steps[0].Head
	gather, ok := head[0].(kernel.Gather)
	if !ok || len(next.Steps) != 1 || next.Block > 0 || next.Still {
		return errNoRule
	}
	r.begin(kernel.NoBuf)
	if err := r.take(u, next); err != nil {
		return err
	}
	steps := unrolling{reversal: r, u: u, x: gather.Src}
	for k := range HeadSteps {
		if err := steps.step(k, next); err != nil {
			return fmt.Errorf("step %d: %w", k, err)
		}
	}
	var gradients []kernel.Buf
	for _, b := range u.hidden {
		d := r.gradientBeside(b)
		r.has[kernel.Columns{Buf: d}] = true // of the logits
		gradients = append(gradients, d)
	}
	all, err := r.end(u.hidden...)
	if err != nil {
		return err
	}
	u.again, u.back = all.again, all.back
	w.cleared = append(slices.Clone(gradients), steps.cleared...)
	for i, b := range u.hidden {
		r.begin(gradients[i])
		r.now = map[kernel.Buf]kernel.Buf{gather.Src: b}
		r.gradients = map[kernel.Buf]kernel.Buf{b: gradients[i]}
		out, err := r.head(nn.Output{Ops: head, Buf: next.Logits, Width: next.NVocab}, w, targets)
		if err != nil {
			return fmt.Errorf("its logits: %w", err)
		}
		u.outputs, u.logits = append(u.outputs, out), r.now[next.Logits]
	}
	return nil
}

// take keeps what makes hidden states of the model's layers, whose inputs come from the model's own program.
func (r *reversal) take(u *unrolled, next *nn.Next) error {
	for _, op := range next.Take {
		if tap, ok := op.(kernel.NormRows); ok && tap.Kind == kernel.NoNorm { // the output of the last layer
			u.first = append(u.first, op)
			continue
		}
		switch op := op.(type) {
		case kernel.Norm:
			r.steady[op.Src] = true
		case kernel.ToAct:
			r.steady[op.Src] = true
		}
		if err := r.keep(op); err != nil {
			return err
		}
	}
	return nil
}

// unrolling keeps one step after the other.
type unrolling struct {
	*reversal
	u       *unrolled
	x       kernel.Buf // the residual
	store   kernel.StoreKV
	qkv     []kernel.Buf              // queries, keys and values of each step
	added   []kernel.Buf              // gradients of keys and values of step 0 that later steps have, in their columns
	cleared []kernel.Buf              // gradients that are added up
	table   map[kernel.Buf]kernel.Buf // rotations of this step
}

func (s *unrolling) step(k int, next *nn.Next) error {
	s.table = map[kernel.Buf]kernel.Buf{}
	if k > 0 {
		s.now = map[kernel.Buf]kernel.Buf{next.Hidden: s.u.hidden[k-1]}
	}
	for _, op := range next.Steps[0].Step {
		if err := s.operation(k, op); err != nil {
			return err
		}
	}
	hidden, err := s.at(s.x)
	if err != nil {
		return err
	}
	s.u.hidden = append(s.u.hidden, hidden)
	return nil
}

func (s *unrolling) operation(k int, op kernel.Op) error {
	switch op := op.(type) {
	case kernel.RopeTable:
		dst := op.Dst
		if k > 0 {
			dst = s.add(s.p.Bufs[op.Dst])
		}
		s.table[op.Dst], s.steady[dst] = dst, true
		op.Dst, op.Shift = dst, op.Shift+k
		s.u.first = append(s.u.first, op)
		return nil
	case kernel.Embed: // of the model, whose weights stay
		dst, err := s.written(op.Dst, 0)
		if err != nil {
			return err
		}
		op.Dst = dst
		s.emit(inGo{do: func(t *Trainer) error { t.follow(k); return nil }}, nil, dst)
		s.emit(op, nil, dst)
		return nil
	case kernel.ToAct:
		src, err := s.at(op.Src)
		if err != nil {
			return err
		}
		d, cols := s.gradientBeside(src), slices.Clone(s.wrote[src])
		s.then(func() error { // what was written side by side has gradients at once
			for _, col := range cols {
				s.has[kernel.Columns{Buf: d, Col: col}] = true
			}
			return nil
		})
		return s.keep(op)
	case kernel.StoreKV:
		op.Table = s.table[op.Table]
		if s.store = op; k > 0 { // see attend
			return nil
		}
		if err := s.keep(op); err != nil {
			return err
		}
		return s.addGradients(op)
	case kernel.Attend:
		buf, err := s.at(op.QKV)
		if err != nil {
			return err
		}
		if s.qkv = append(s.qkv, buf); k == 0 {
			return s.keep(op)
		}
		return s.attend(op)
	}
	return s.keep(op)
}

// addGradients adds those of keys and values of step 0 that later steps have.
func (s *unrolling) addGradients(op kernel.StoreKV) error {
	buf, err := s.at(op.QKV)
	if err != nil {
		return err
	}
	d := s.gradientBeside(buf)
	s.then(func() error {
		for _, from := range s.added {
			for i := 1; i <= 2; i++ {
				s.back = append(s.back, addOf(d, from, op.Col[i], s.columns(op.Heads)[i]))
			}
		}
		return nil
	})
	return nil
}

// addOf adds n columns of a buffer to the same ones of another.
func addOf(dst, src kernel.Buf, col, n int) kernel.Op {
	return kernel.NormRows{
		Dst: dst, DstCol: col, Src: src, SrcCol: col, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
	}
}

// columns returns how many columns queries, keys and values have.
func (s *unrolling) columns(h kernel.Heads) [3]int {
	v := h.ValueDim
	if v == 0 {
		v = h.HeadDim
	}
	return [3]int{h.NHead * h.HeadDim, h.NHeadKV * h.HeadDim, h.NHeadKV * v}
}

// attend keeps the attention of a later step.
func (s *unrolling) attend(op kernel.Attend) error {
	k, store := len(s.qkv)-1, s.store
	if store.QueriesOnly || store.InKeys || len(store.Tiers) > 0 || store.QNorm != nil || store.KNorm != nil || store.KMul != nil || store.VMul != nil {
		return errNoRule
	}
	if op.Window != 0 || op.Ahead != 0 || op.Sinks != nil || op.Softcap != 0 || op.Bias.By != nil || op.Mul != nil {
		return errNoRule
	}
	buf := s.qkv[k]
	width, cols := s.p.Bufs[buf].Width, s.columns(store.Heads)
	store.QKV = buf
	queries, keys := store, store // both are rotated, and not stored
	queries.QueriesOnly = true
	keys.QueriesOnly, keys.NHead, keys.Col[0], keys.Scale, keys.QMul = true, store.NHeadKV, store.Col[1], 1, nil
	keys.Temperature = kernel.Temperature{}
	s.emit(queries, nil, buf)
	s.emit(keys, nil, buf)
	dqkv := s.gradientBeside(buf)
	s.cleared = append(s.cleared, dqkv)
	s.then(func() error {
		for _, col := range store.Col {
			s.has[kernel.Columns{Buf: dqkv, Col: col}] = true
		}
		rotated := store
		rotated.QKV = dqkv
		s.back = append(s.back, kernel.BackStoreKV{StoreKV: rotated, Was: kernel.NoBuf})
		return nil
	})

	// The queries of this step beside keys and values of step 0.
	both := s.rowsLike(buf, width)
	for i, from := range []kernel.Buf{buf, s.qkv[0], s.qkv[0]} {
		at := kernel.Columns{Buf: both, Col: store.Col[i]}
		s.copy(at, kernel.Columns{Buf: from, Col: store.Col[i]}, kernel.TokRows, cols[i])
	}
	b := beside{
		h: store.Heads, dims: cols[2] / store.NHeadKV, own: slices.Clone(s.qkv[1:]),
		text: s.rowsLike(buf, op.NHead*cols[2]/store.NHeadKV), stats: s.rows(kernel.TokRows, 2*store.NHead),
		shares: s.rows(kernel.TokRows, (k+1)*store.NHead),
	}
	op.QKV = buf
	dst := op.Dst
	op.Dst = b.text
	s.emit(op, []kernel.Buf{buf}, b.text)
	// Of its reverse, the logarithm of each sum is needed here.
	dboth := s.rowsLike(buf, width)
	op.QKV = both
	reverse := kernel.BackAttend{Attend: op, DQKV: dboth, DY: b.text, Stats: b.stats}
	s.emit(reverse, []kernel.Buf{both, b.text}, b.stats, dboth)
	var err error
	if b.all, err = s.written(dst, 0); err != nil {
		return err
	}
	b.dAll, b.dText = s.gradientBeside(b.all), s.rowsLike(b.text, s.p.Bufs[b.text].Width)
	for _, own := range b.own {
		b.dOwn = append(b.dOwn, s.gradientBeside(own))
	}
	s.emit(inGo{do: b.add}, append(slices.Clone(b.own), b.text, b.stats), b.all, b.shares)
	s.then(func() error {
		if _, err := s.given(kernel.Columns{Buf: b.dAll}); err != nil {
			return err
		}
		reverse.Attend.Dst, reverse.DY = b.all, b.dText
		s.back = append(s.back,
			inGo{do: b.reverse, reads: append(slices.Clone(b.own), b.all, b.shares)}, reverse, addOf(dqkv, dboth, store.Col[0], cols[0]))
		return nil
	})
	s.added = append(s.added, dboth)
	return nil
}

// plan lays the lists out for C. It returns the scratch memory of a thread.
func (u *unrolled) plan(bufs []kernel.BufSpec, maxTok int) (scratch int, err error) {
	if u.begin, err = legs(bufs, u.first); err == nil {
		u.forward, err = legs(bufs, u.again)
	}
	if err == nil {
		u.backward, err = legs(bufs, u.back)
	}
	for _, out := range u.outputs {
		var p backPlans
		if p.again, err = planned(bufs, out.again); err == nil {
			p.back, err = planned(bufs, out.back)
		}
		var guess parts
		if err == nil {
			guess, err = planned(bufs, out.again[:len(out.again)-1])
		}
		if u.plans, u.guesses = append(u.plans, p), append(u.guesses, guess); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	for _, p := range u.all() {
		scratch = max(scratch, kernel.AlignUp(p.scratch(maxTok)))
	}
	return scratch, nil
}

// legs divides operations where some are not of C.
func legs(bufs []kernel.BufSpec, ops []kernel.Op) (all []leg, err error) {
	for len(ops) > 0 {
		n := slices.IndexFunc(ops, func(op kernel.Op) bool { _, ok := op.(inGo); return ok })
		if n == 0 {
			all, ops = append(all, leg{do: ops[0].(inGo).do}), ops[1:]
			continue
		}
		if n < 0 {
			n = len(ops)
		}
		p, err := planned(bufs, ops[:n])
		if err != nil {
			return all, err
		}
		all, ops = append(all, leg{plans: p}), ops[n:]
	}
	return all, nil
}

// all returns all plans.
func (u *unrolled) all() (list []parts) {
	for _, s := range slices.Concat(u.begin, u.forward, u.backward) {
		list = append(list, s.plans)
	}
	for i, p := range u.plans {
		list = append(list, p.again, p.back, u.guesses[i])
	}
	return list
}

func (u *unrolled) close() {
	for _, p := range u.all() {
		p.close()
	}
}

// legs runs some, one after the other.
func (t *Trainer) legs(all []leg, stop *kernel.Stop) error {
	for _, s := range all {
		if err := t.pause(stop); err != nil {
			return err
		}
		if s.do == nil {
			t.run(s.plans)
		} else if err := s.do(t); err != nil {
			return err
		}
	}
	return nil
}

// follow makes the tokens of the batch those that step k reads. Beyond the end of a text there is none, and nothing is learnt.
func (t *Trainer) follow(k int) {
	ids := make([]int32, 0, len(t.batch.Tokens()))
	for _, x := range t.texts {
		for a := range x.Tokens {
			id := int32(0)
			if a+1+k < len(x.Tokens) {
				id = x.Tokens[a+1+k]
			}
			ids = append(ids, id)
		}
	}
	t.batch.Follow(ids)
}

// stepShares are how much steps count, each less than the one before, as in the reference implementation; all together as one.
var stepShares = func() (shares [HeadSteps]float32) {
	const less = 0.8
	sum, share := 0.0, 1.0
	for range shares {
		sum, share = sum+share, float64(share*less)
	}
	share = 1 / sum
	for k := range shares {
		shares[k], share = float32(share), float64(share*less)
	}
	return shares
}()

// aim finds the rows of step k that have a loss, and what they are to guess.
func (t *Trainer) aim(k int) {
	t.rows, t.of = t.rows[:0], t.of[:0]
	at := 0
	for of, x := range t.texts {
		for a := range x.Tokens {
			if i := a + 2 + k; i < len(x.Tokens) && x.Weights[i] != 0 {
				if id, ok := t.unrolled.row(x.Tokens[i]); ok {
					t.targets.IDs[at+a], t.targets.Weights[at+a] = id, x.Weights[i]*stepShares[k]
					t.rows, t.of = append(t.rows, int32(at+a)), append(t.of, of)
				}
			}
		}
		at += len(x.Tokens)
	}
}

// row returns which logit is a token's.
func (u *unrolled) row(id int32) (int32, bool) {
	if u.rows == nil {
		return id, int(id) < u.nVocab
	}
	row, ok := u.rows[id]
	return row, ok
}

// unrolledLosses is losses of a head.
func (t *Trainer) unrolledLosses(back bool, stop *kernel.Stop) ([][]float64, error) {
	u := t.unrolled
	for _, all := range [][]leg{u.begin, u.forward} {
		if err := t.legs(all, stop); err != nil {
			return nil, err
		}
	}
	sums := noLosses(len(t.texts))
	for k, p := range u.plans {
		t.aim(k)
		if err := t.addLosses(p, sums, back, stop); err != nil {
			return nil, err
		}
	}
	return sums, allFinite(sums)
}

var errNotUnrolled = errors.New("no head is trained")

// Guessed returns which tokens of a text a head guesses, for each of HeadSteps steps, given that those before them were right:
// [k][i] is of token i, which was guessed in step k.
func (t *Trainer) Guessed(text Text, stop *kernel.Stop) ([][]bool, error) {
	u := t.unrolled
	if u == nil {
		return nil, errNotUnrolled
	}
	if err := t.forward([]Text{text}, false, false, stop); err != nil {
		return nil, err
	}
	for _, all := range [][]leg{u.begin, u.forward} {
		if err := t.legs(all, stop); err != nil {
			return nil, err
		}
	}
	right := make([][]bool, HeadSteps)
	n := len(text.Tokens)
	for k := range right {
		right[k] = make([]bool, n)
		for from := 0; from+2+k < n; from += t.maxOut {
			if err := t.pause(stop); err != nil {
				return nil, err
			}
			var some []int32
			for a := from; a < from+t.maxOut && a+2+k < n; a++ {
				some = append(some, int32(a))
			}
			t.batch.SetOut(some)
			t.run(u.guesses[k])
			for i, a := range some {
				id := text.Tokens[int(a)+2+k]
				row, ok := u.row(id)
				right[k][int(a)+2+k] = ok && sample.Likeliest(t.bufs.Row(u.logits, i)[:u.nVocab]) == row
			}
		}
	}
	return right, t.m.Damaged()
}
