package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A reversal rewrites a program with adapters for training. Of each layer it makes two lists: the operations again, in
// buffers that are kept, so that the second list can read them, which is the reverse: gradients of the loss with respect
// to what the layer read, given those of what it wrote. Each operation has one rule (keepOp); one without is an error that
// names it. The program's buffers keep their numbers, those of the lists come after them and are the same for all layers.
// With memory of its own for those that the reverse reads, a layer need not be computed again: a third list is the whole
// layer in the buffers of the first.
//
// A buffer that is written anew becomes another one, so what was in it stays. Gradients of what a buffer holds are in a
// buffer beside it; an operation that adds to a buffer, or changes it in place, passes gradients on in theirs.
type reversal struct {
	p         *nn.Program
	train     map[string]*lowRank // by the name of the matrix
	weights   *gradients          // of all weights, or of some; nil: they stay
	x, dx     kernel.Buf          // the residual, and gradients of it
	after     kernel.Buf          // the residual behind a layer
	capped    kernel.Buf          // logits, whose Softcap the loss reverses
	pool      map[kernel.BufSpec][]kernel.Buf
	used      map[kernel.BufSpec]int // in this list
	steady    map[kernel.Buf]bool    // written at the beginning, and by no layer
	seen      map[string]bool        // matrices that were met
	twice     string                 // one that is trained and was met again
	now       map[kernel.Buf]kernel.Buf
	gradients map[kernel.Buf]kernel.Buf // beside a buffer of this list
	has       map[kernel.Columns]bool   // gradients that there are
	acts      map[kernel.Buf]*made      // what the activations in a buffer are of
	read      map[kernel.Buf]bool       // of this list
	wrote     map[kernel.Buf][]int      // first columns of what was written
	results   map[kernel.Buf]int        // columns of what a product has stored
	ofChoices map[kernel.Buf]kernel.Buf // gradients of the weights of a routing
	kept      []keptOp
	back      []kernel.Op
	keeping   string         // the operation that is kept now
	reverse   []func() error // the rules of kept operations, in their order
	alloc     func(n int) ([]float32, error)
	constants map[float32][]float32
}

// A lowRank is an adapter's two matrices for one tensor of the model while it is trained, or those for each of n experts:
// rows of floats, outside the Go heap, and the gradients of them.
type lowRank struct {
	mats         []string  // that are multiplied: one, or parts of the rows in their order
	a, b, da, db []float32 // [n][rank][in], [n][out][rank]
	in, out, n   int
	rank         int
	scale        float32
	turned       *turning // nil: rows have no magnitudes
}

// A keptOp is an operation of the first list, and the buffers there that it reads and writes. What it adds to, or changes in
// place, it writes.
type keptOp struct {
	op            kernel.Op
	reads, writes []kernel.Buf
}

// made is activations: columns of a buffer of gradients, where those of them go, and their floats, if some product needs them.
type made struct {
	gradients kernel.Columns
	floats    kernel.Buf
}

// A reversed is a layer for training, or an output.
type reversed struct{ again, back []kernel.Op }

// A reversedLayer can also be computed once: whole is again, and what comes to the residual behind the layer, which is in
// rewriting.after. What back reads of it is in the buffers kept.
type reversedLayer struct {
	reversed
	whole []kernel.Op
	kept  []kernel.Buf
}

// A rewriting is a program for training.
type rewriting struct {
	bufs    []kernel.BufSpec
	x, dx   kernel.Buf // the residual, and gradients of it
	after   kernel.Buf // the residual behind a layer, for those that do not change it in place
	layers  []reversedLayer
	frozen  bool         // nothing of layers is trained, so they have no reverse
	output  reversed     // of logits, with the loss, or of vectors
	cleared []kernel.Buf // gradients that are added up from 0 on
	loss    kernel.Buf   // rows of one column
	logits  outRows      // before the loss, where there is one; gradients are in their place
	rows    outRows      // of vectors
	given   given        // what is made of pooled ones, if anything

	embedding reversed // nothing, where no table is trained
}

// move is the operation that has a layer change the residual in another place than that before it.
func (w *rewriting) move() kernel.Op {
	return kernel.NormRows{
		Dst: w.after, Src: w.x, Rows: kernel.TokRows, Cols: w.bufs[w.x].Width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
	}
}

// reverse rewrites the program of what is trained. targets are of a batch's tokens; with vectors, what is pooled counts in
// place of the loss. arch names the architecture in errors. alloc returns memory outside the Go heap for n numbers, as long as the
// plans are used.
func reverse(p *nn.Program, arch string, tuned *Tuned, targets *kernel.Targets, vectors *pooling, alloc func(n int) ([]float32, error)) (*rewriting, error) {
	to := *p
	to.Bufs = slices.Clone(p.Bufs)
	r := &reversal{
		p: &to, train: map[string]*lowRank{}, capped: kernel.NoBuf, pool: map[kernel.BufSpec][]kernel.Buf{}, steady: map[kernel.Buf]bool{},
		seen: map[string]bool{}, alloc: alloc, constants: map[float32][]float32{},
	}
	for _, l := range tuned.low {
		for _, part := range l.mats {
			r.train[part] = l
		}
	}
	if tuned.own() != nil {
		r.weights = tuned.gradients()
	}
	name := nn.Logits
	if vectors != nil {
		name = nn.Vectors
	}
	out, err := r.output(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be trained: %w", arch, err)
	}
	for _, op := range p.Begin {
		if table, ok := op.(kernel.RopeTable); ok {
			r.steady[table.Dst] = true
		}
	}
	residual := kernel.BufSpec{Kind: kernel.Floats, Width: to.Bufs[r.x].Width}
	w := &rewriting{x: r.x, dx: r.add(residual), after: r.add(residual)}
	r.dx, r.after, w.cleared = w.dx, w.after, []kernel.Buf{w.dx}
	w.loss = r.add(kernel.BufSpec{Kind: kernel.Floats, Rows: kernel.OutRows, Width: kernel.Panel})
	if w.frozen = len(r.train) == 0 && !r.all(); w.frozen {
		w.layers = make([]reversedLayer, len(p.Layers))
	}
	for il, ops := range p.Layers[len(w.layers):] {
		l, err := r.layer(ops)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be trained: layer %d: %w", arch, il, err)
		}
		w.layers = append(w.layers, l)
	}
	if vectors != nil {
		err = r.vectors(out, w, vectors.after)
	} else {
		r.begin(w.dx)
		w.output, err = r.head(out, w, targets)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be trained: its %s: %w", arch, name, err)
	}
	if r.twice != "" {
		return nil, fmt.Errorf("%s cannot be trained: %q is multiplied at two places", arch, r.twice)
	}
	for _, name := range slices.Sorted(maps.Keys(r.train)) {
		if !r.seen[name] {
			return nil, fmt.Errorf("%s cannot be trained: no layer multiplies %q", arch, name)
		}
	}
	if r.all() {
		if w.embedding, err = r.embeddings(); err != nil {
			return nil, fmt.Errorf("%s cannot be trained: its embeddings: %w", arch, err)
		}
	}
	if r.weights != nil {
		if err := r.weights.missed(vectors != nil); err != nil {
			return nil, fmt.Errorf("%s cannot be trained: %w", arch, err)
		}
	}
	w.bufs = to.Bufs
	if vectors == nil {
		w.bufs[out.Buf].Width = kernel.Panel // the lists have their own logits
	}
	return w, nil
}

// output finds the logits or vectors, and the residual that they are made of.
func (r *reversal) output(name string) (nn.Output, error) {
	for _, out := range r.p.Outputs {
		if out.Name != name || out.Given || len(out.Ops) == 0 {
			continue
		}
		if g, ok := out.Ops[0].(kernel.Gather); ok && g.N <= 1 {
			r.x = g.Src
			return out, nil
		}
	}
	return nn.Output{}, fmt.Errorf("it has no %s of its residual", name)
}

func (r *reversal) add(spec kernel.BufSpec) kernel.Buf {
	r.p.Bufs = append(r.p.Bufs, spec)
	return kernel.Buf(len(r.p.Bufs) - 1)
}

// embeddings rewrites what makes the residual before the first layer.
func (r *reversal) embeddings() (reversed, error) {
	r.begin(r.dx)
	delete(r.now, r.x)
	for _, op := range r.p.Begin {
		if _, ok := op.(kernel.RopeTable); ok {
			continue
		}
		if in, ok := op.(kernel.Input); ok && !in.Clear { // texts bring no rows
			continue
		}
		if err := r.keep(op); err != nil {
			return reversed{}, err
		}
	}
	return r.end()
}

// begin starts a list, in which all buffers of earlier lists are free.
func (r *reversal) begin(dx kernel.Buf) {
	r.used = map[kernel.BufSpec]int{}
	r.now = map[kernel.Buf]kernel.Buf{r.x: r.x}
	r.gradients = map[kernel.Buf]kernel.Buf{r.x: dx}
	r.has = map[kernel.Columns]bool{{Buf: dx}: true}
	r.acts = map[kernel.Buf]*made{}
	r.read, r.wrote = map[kernel.Buf]bool{}, map[kernel.Buf][]int{}
	r.results, r.ofChoices = map[kernel.Buf]int{}, map[kernel.Buf]kernel.Buf{}
	r.kept, r.back, r.reverse = nil, nil, nil
}

// layer rewrites the operations of a layer.
func (r *reversal) layer(ops []kernel.Op) (l reversedLayer, err error) {
	r.begin(r.dx)
	for _, op := range ops {
		if err := r.keep(op); err != nil {
			return l, err
		}
	}
	if l.reversed, err = r.end(); err != nil {
		return l, err
	}
	r.copy(kernel.Columns{Buf: r.after}, kernel.Columns{Buf: r.now[r.x]}, kernel.TokRows, r.p.Bufs[r.x].Width)
	l.whole = r.needed(r.after)
	read := map[kernel.Buf]bool{}
	for _, op := range l.back {
		for _, b := range buffersOf(op) {
			read[b] = true
		}
	}
	for _, k := range r.kept {
		for _, b := range k.writes {
			if (read[b] || r.p.Bufs[b].Kind == kernel.Route) && !slices.Contains(l.kept, b) {
				l.kept = append(l.kept, b)
			}
		}
	}
	return l, nil
}

// head rewrites the logits, with the loss behind them, in a list that has begun.
func (r *reversal) head(out nn.Output, w *rewriting, targets *kernel.Targets) (reversed, error) {
	r.capped = out.Buf
	for _, op := range out.Ops {
		if err := r.keep(op); err != nil {
			return reversed{}, err
		}
	}
	last, ok := out.Ops[len(out.Ops)-1].(kernel.Matmul)
	if !ok || last.Dst != out.Buf || len(last.Parts) != 1 || last.Epilogue != kernel.Store || last.Limit != 0 {
		return reversed{}, errors.New("they are no product")
	}
	logits := r.now[out.Buf]
	r.gradients[logits] = logits // the loss puts them there
	r.has[kernel.Columns{Buf: logits, Col: last.Parts[0].Col}] = true
	w.logits = outRows{x: logits, d: logits, width: out.Width}
	loss := kernel.Loss{Dst: w.loss, Logits: logits, Cols: out.Width, Softcap: last.Softcap, Targets: targets}
	l, err := r.end(logits)
	l.again = append(l.again, loss)
	return l, err
}

// end applies the rules of what was kept, last first, and leaves out what nothing reads, unless it is wanted.
func (r *reversal) end(wanted ...kernel.Buf) (reversed, error) {
	for _, rule := range slices.Backward(r.reverse) {
		if err := rule(); err != nil {
			return reversed{}, err
		}
	}
	return reversed{r.needed(wanted...), r.back}, nil
}

// needed returns the kept operations that make what the reverse reads, and what else is wanted.
func (r *reversal) needed(wanted ...kernel.Buf) (ops []kernel.Op) {
	needed := map[kernel.Buf]bool{}
	for _, b := range wanted {
		needed[b] = true
	}
	for _, op := range r.back {
		for _, b := range buffersOf(op) {
			needed[b] = true
		}
	}
	for _, k := range slices.Backward(r.kept) {
		if !slices.ContainsFunc(k.writes, func(b kernel.Buf) bool { return needed[b] }) {
			continue
		}
		for _, b := range k.reads {
			needed[b] = true
		}
		ops = append(ops, k.op)
	}
	slices.Reverse(ops)
	return ops
}

// fresh returns a buffer that no other use of this list has.
func (r *reversal) fresh(spec kernel.BufSpec, width int) kernel.Buf {
	key := spec
	key.Width, key.Whole = 0, false
	n := r.used[key]
	r.used[key]++
	if n == len(r.pool[key]) {
		spec.Whole, spec.Width = false, width
		r.pool[key] = append(r.pool[key], r.add(spec))
	}
	b := r.pool[key][n]
	r.p.Bufs[b].Width = max(r.p.Bufs[b].Width, width)
	return b
}

// anew is a fresh buffer in place of one of the program.
func (r *reversal) anew(b kernel.Buf) kernel.Buf {
	to := r.fresh(r.p.Bufs[b], r.p.Bufs[b].Width)
	r.now[b] = to
	if b == r.x {
		r.gradients[to] = r.dx
	}
	return to
}

// rows returns a buffer of floats with so many columns.
func (r *reversal) rows(rows kernel.RowSet, width int) kernel.Buf {
	return r.fresh(kernel.BufSpec{Kind: kernel.Floats, Rows: rows}, kernel.Pad(width))
}

// at returns where this list has what the program has in b.
func (r *reversal) at(b kernel.Buf) (kernel.Buf, error) {
	if to, ok := r.now[b]; ok {
		return to, nil
	}
	if r.steady[b] {
		return b, nil
	}
	return 0, errors.New("it reads what another layer made, whose gradients are not known")
}

// written returns the buffer for an operation that writes columns of b: another one, unless this list has made it and
// nothing has read it. Columns that were there before must be among these, or they would be lost.
func (r *reversal) written(b kernel.Buf, cols ...int) (kernel.Buf, error) {
	to, ok := r.now[b]
	if ok && b == r.x {
		return 0, errors.New("it replaces the residual")
	}
	if !ok || r.read[to] {
		for _, col := range r.wrote[to] {
			if ok && !slices.Contains(cols, col) {
				return 0, errNoRule
			}
		}
		to = r.anew(b)
		r.wrote[to] = nil
	}
	r.wrote[to] = append(r.wrote[to], cols...)
	return to, nil
}

// gradientBeside returns the buffer of gradients of what b holds.
func (r *reversal) gradientBeside(b kernel.Buf) kernel.Buf {
	d, ok := r.gradients[b]
	if !ok {
		d = r.rowsLike(b, r.p.Bufs[b].Width)
		r.gradients[b] = d
	}
	return d
}

// copied makes a fresh copy of b's buffer, for an operation that is to change it in place, with the same gradients.
func (r *reversal) copied(b kernel.Buf) (was, now kernel.Buf, err error) {
	if was, err = r.at(b); err != nil {
		return 0, 0, err
	}
	d := r.gradientBeside(was)
	now = r.anew(b)
	r.gradients[now] = d
	s := r.p.Bufs[was]
	width := min(s.Width, r.p.Bufs[now].Width)
	r.copy(kernel.Columns{Buf: now}, kernel.Columns{Buf: was}, s.Rows, width)
	return was, now, nil
}

func (r *reversal) emit(op kernel.Op, reads []kernel.Buf, writes ...kernel.Buf) {
	for _, b := range reads {
		r.read[b] = true
	}
	r.kept = append(r.kept, keptOp{op, reads, writes})
}

// then adds the rule of the operation that is kept now. Its errors name that one.
func (r *reversal) then(rule func() error) {
	name := r.keeping
	r.reverse = append(r.reverse, func() error {
		if err := rule(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// given returns gradients that must be there.
func (r *reversal) given(at kernel.Columns) (kernel.Columns, error) {
	if !r.has[at] {
		return at, errors.New("nothing makes gradients of its result")
	}
	return at, nil
}

// first reports whether nothing has written these gradients yet: what does now stores them, and what comes later adds.
func (r *reversal) first(at kernel.Columns) bool {
	had := r.has[at]
	r.has[at] = true
	return !had
}

// activations keeps the activations act, made of columns whose gradients are there, and returns where this list has them.
func (r *reversal) activations(act kernel.Act, m *made) (kernel.Act, []kernel.Buf) {
	to := kernel.Act{}
	m.floats = kernel.NoBuf
	var writes []kernel.Buf
	for kind := kernel.ActF32; kind <= kernel.ActBF16; kind++ {
		b, ok := act[kind]
		if !ok {
			continue
		}
		if kind == kernel.ActF32 { // the others are read at once
			m.floats = r.anew(b)
		} else {
			r.now[b] = b
		}
		to[kind] = r.now[b]
		r.acts[to[kind]] = m
		writes = append(writes, to[kind])
	}
	if r.all() && m.floats == kernel.NoBuf { // gradients of weights are of floats
		spec := r.p.Bufs[writes[0]]
		spec.Kind, spec.Fine = kernel.ActF32, false
		m.floats = r.fresh(spec, spec.Width)
		to[kernel.ActF32], r.acts[m.floats] = m.floats, m
		writes = append(writes, m.floats)
	}
	return to, writes
}

// keep adds an operation to the list, and its rule.
func (r *reversal) keep(op kernel.Op) error {
	r.keeping = strings.TrimPrefix(fmt.Sprintf("%T", op), "kernel.")
	if err := r.keepOp(op); err != nil {
		return fmt.Errorf("%s: %w", r.keeping, err)
	}
	return nil
}

// errNoRule is of operations that have no rule, or of forms of them.
var errNoRule = errors.New("gradients through this operation, or through this form of it, are not known yet")

func (r *reversal) keepOp(op kernel.Op) error {
	switch op := op.(type) {
	case kernel.Norm:
		return r.norm(op)
	case kernel.NormRows:
		return r.normRows(op)
	case kernel.ToAct:
		return r.toAct(op)
	case kernel.Adapt:
		return r.adapt(op)
	case kernel.Matmul:
		return r.matmul(op)
	case kernel.Gate:
		return r.gate(op)
	case kernel.StoreKV:
		return r.storeKV(op)
	case kernel.Attend:
		return r.attend(op)
	case kernel.Gather:
		return r.gather(op)
	case kernel.Embed:
		return r.embed(op)
	case kernel.MoeRoute:
		return r.moeRoute(op)
	case kernel.MoeGather:
		return r.moeGather(op)
	case kernel.MoeCombine:
		return r.moeCombine(op)
	case kernel.XIELU:
		return r.xielu(op)
	}
	return errNoRule
}
