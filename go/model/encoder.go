package model

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/model/projector"
)

// sliceTokens is how many tokens of an encoder a step runs over at most.
const sliceTokens = 256

// An Encoder makes embeddings of pictures or of sounds, which a text model has in place of those of words. It is immutable
// and may be shared by any number of Encodings.
type Encoder struct {
	*projector.Encoder

	model *Model
	stage []stage
	width int // of a row of embeddings

	probe   sync.Once
	largest *projector.Input // see projector.Encoder.Largest
}

// A stage is a plan that runs over all tokens, slice by slice, before the next stage begins.
type stage struct {
	plan  parts
	brung bool       // tokens bring their rows
	keys  bool       // it runs for tokens that serve others alone, too
	once  bool       // it runs over all tokens at once
	out   *nn.Output // whose rows it makes
	col   int        // of these in those of the encoder
}

// between reports whether the rows that the stage makes are the tokens of those that follow.
func (s *stage) between() bool { return s.out != nil && s.out.Name == nn.Between }

// SurveyEncoder surveys the encoder for a sense in a projector's file, whose weights are of type typ, and keys and values of
// type kv. Errors name the key or the tensor, not the file.
func SurveyEncoder(f *File, s projector.Sense, typ EncoderType, kv kernel.KVTypes) (*Survey, *projector.Encoder, error) {
	e, err := projector.Read(f.GGUF, s)
	if err != nil {
		return nil, nil, err
	}
	e.Short = typ.Shortens(f.GGUF, s)
	survey := &Survey{
		Config: e.Config, file: f, kv: kv,
		make:    func(w *weights) (*nn.Program, error) { return e.Build(w, kv) },
		unknown: func(w *weights) error { return e.Unknown(w.used()) },
		short:   e.Short,
	}
	packed, err := survey.find(Packed)
	if err != nil {
		return nil, nil, err
	}
	width := 0
	for _, o := range packed.program.Outputs {
		if o.Name == nn.Embeddings {
			width += o.Width
		}
	}
	if width -= e.Extra; width%e.Width != 0 || width <= 0 {
		return nil, nil, fmt.Errorf("rows of %d numbers, want a multiple of clip's projection_dim, %d", width, e.Width)
	}
	e.Deep = width/e.Width - 1
	survey.Layout = layout(packed.program)
	return survey, e, nil
}

// LoadEncoder loads the encoder for a sense in a projector's file, which must stay open as long as it.
func LoadEncoder(f *File, s projector.Sense, typ EncoderType, kv kernel.KVTypes, o Options) (*Encoder, error) {
	survey, e, err := SurveyEncoder(f, s, typ, kv)
	if err != nil {
		return nil, err
	}
	o.Residency, o.Early = Packed, nil
	m, err := survey.Load(o)
	if err != nil {
		return nil, err
	}
	enc := &Encoder{Encoder: e, model: m}
	if err := enc.plan(); err != nil {
		enc.Close()
		return nil, err
	}
	return enc, nil
}

// plan lays out the program for C.
func (e *Encoder) plan() error {
	p := e.model.program
	add := func(s stage, ops []kernel.Op) error {
		plan, err := planned(p.Bufs, ops)
		if err != nil {
			return err
		}
		s.plan = plan
		e.stage = append(e.stage, s)
		return nil
	}
	outputs := func(after int) error {
		for i := range p.Outputs {
			o := &p.Outputs[i]
			if o.After != after {
				continue
			}
			col := 0
			if o.Name == nn.Embeddings {
				col = e.width
				e.width += o.Width
			}
			if o.Of > sliceTokens {
				return fmt.Errorf("rows of %d patches each, want at most %d", o.Of, sliceTokens)
			}
			if err := add(stage{out: o, col: col}, o.Ops); err != nil {
				return fmt.Errorf("embeddings after layer %d: %w", after, err)
			}
		}
		return nil
	}
	if err := add(stage{brung: true, keys: true}, p.Begin); err != nil {
		return fmt.Errorf("patches: %w", err)
	}
	if err := outputs(0); err != nil {
		return err
	}
	for il, ops := range p.Layers {
		from := 0
		for i, cut := range append(slices.Clone(p.Cuts[il]), nn.Cut{At: len(ops)}) {
			part := ops[from:cut.At]
			if from = cut.At; len(part) == 0 {
				continue
			}
			again := e.stage[len(e.stage)-1].between()
			if err := add(stage{brung: again, keys: again || i == 0 && len(p.Cuts[il]) > 0, once: cut.Once}, part); err != nil {
				return fmt.Errorf("layer %d: %w", il, err)
			}
		}
		if err := outputs(il + 1); err != nil {
			return err
		}
	}
	// What a text model adds to its first layers is behind what it begins with, in the file's order.
	last := &e.stage[len(e.stage)-1]
	if len(p.Outputs) > 1 && last.out != nil && last.out.After == len(p.Layers) {
		for i := range e.stage {
			if s := &e.stage[i]; s.out != nil && s != last && !s.between() {
				s.col += last.out.Width
			}
		}
		last.col = 0
	}
	return nil
}

// Columns returns how many numbers a row of embeddings has.
func (e *Encoder) Columns() int { return e.width }

// WeightBytes returns the memory of the weights.
func (e *Encoder) WeightBytes() uint64 { return e.model.WeightBytes() }

// LayerType returns the type of the matrices of layers, that of the first one.
func (e *Encoder) LayerType() kernel.Type {
	for _, m := range e.model.weights.mats {
		if ofLayer(m.Name) {
			return m.Type
		}
	}
	return kernel.F32
}

// Damaged returns ErrDamaged once a page of the file could not be read.
func (e *Encoder) Damaged() error { return e.model.Damaged() }

// Close releases the memory of the weights. Encodings must be closed before. Closing again is a no-op.
func (e *Encoder) Close() {
	for _, s := range e.stage {
		s.plan.close()
	}
	e.stage = nil
	e.model.Close()
}

// tokens returns how many tokens the encoder runs over of an input, at most.
func tokens(in *projector.Input) int {
	if in.Again != nil {
		return max(in.Tokens, tokens(in.Again))
	}
	return in.Tokens
}

// room returns how many rows buffers have for n tokens.
func (e *Encoder) room(n int) kernel.Room {
	r := kernel.Room{Tok: min(n, sliceTokens), Out: 1, Whole: n}
	for _, s := range e.stage {
		if s.out != nil {
			r.Out = max(r.Out, r.Tok/s.out.Of)
		}
	}
	return r
}

// blocks returns how many KV blocks n tokens have.
func blocks(n int) int { return (n + kvcache.BlockTokens - 1) / kvcache.BlockTokens }

// sizes returns the memory of the parts of an encoding of n tokens: buffers, scratch, keys and values, and rows that a slice
// of the tokens brings.
func (e *Encoder) sizes(n, threads int) (bufs, scratch, kv, brought int) {
	p, r := e.model.program, e.room(n)
	for _, s := range e.stage {
		scratch = max(scratch, s.plan.scratch(r.Tok))
	}
	scratch = max(kernel.AlignUp(scratch)*threads, kernel.Align)
	for _, g := range p.Groups {
		kv += g.Bytes * blocks(n)
	}
	for _, s := range e.stage {
		brought = max(brought, r.Tok*kernel.AlignUp(4*s.plan.brings()))
	}
	return kernel.BufBytes(p.Bufs, r), scratch, kv, brought
}

// between returns the numbers of the rows of an input that others run over.
func (e *Encoder) between(in *projector.Input) (all int) {
	n := in.Tokens
	for _, s := range e.stage {
		if !s.between() {
			continue
		}
		n /= s.out.Of
		all = max(all, n*s.out.Width)
		if in != nil {
			in = in.Again
		}
		if in != nil {
			n = in.Tokens
		}
	}
	return all
}

// Bytes returns the memory of an encoding of n tokens on so many threads, with the rows that it makes.
func (e *Encoder) Bytes(n, rows, threads int) uint64 {
	bufs, scratch, kv, brought := e.sizes(n, threads)
	return uint64(bufs + scratch + kv + brought + 4*rows*e.width + 4*e.between(&projector.Input{Tokens: n}))
}

// BytesOf is Bytes of an input.
func (e *Encoder) BytesOf(in *projector.Input, threads int) uint64 {
	bufs, scratch, kv, brought := e.sizes(tokens(in), threads)
	return uint64(bufs + scratch + kv + brought + 4*max(in.Rows(), in.Made)*e.width + 4*e.between(in))
}

// Room returns the memory of the encoding of the largest picture on so many threads, of which the encoder makes so many rows or,
// where it is cut into tiles, as many as they have.
func (e *Encoder) Room(rows, threads int) uint64 {
	e.probe.Do(func() { e.largest = e.Largest() })
	merge := max(e.Merge, 1)
	n := e.Bytes(rows*merge*merge, rows, threads)
	if e.largest != nil {
		n = max(n, e.BytesOf(e.largest, threads))
	}
	return n
}

// Work returns how many multiply-adds an encoding of n tokens takes: those of products and of attention.
func (e *Encoder) Work(n int) float64 {
	sum := 0.0
	count := func(ops []kernel.Op, rows int) {
		for _, op := range ops {
			switch op := op.(type) {
			case kernel.Matmul:
				for _, p := range op.Parts {
					sum += float64(p.In) * float64(p.Out) * float64(rows)
				}
			case kernel.Attend:
				sum += float64(op.NHead) * float64(op.HeadDim+op.ValueDim) * float64(n) * float64(n)
			}
		}
	}
	p := e.model.program
	count(p.Begin, n)
	outputs := func(after int) {
		for _, o := range p.Outputs {
			if o.After != after {
				continue
			}
			if count(o.Ops, n/o.Of); o.Name == nn.Between {
				n /= o.Of
			}
		}
	}
	outputs(0)
	for il, ops := range p.Layers {
		count(ops, n)
		outputs(il + 1)
	}
	return sum
}

// encoding is the budget's purpose of the memory of an Encoding.
const encoding = "encoding a picture or a sound"

// An Encoding is the work of an encoder on one input. Steps take some milliseconds each, and the result is the same however
// they are cut. It is not safe for concurrent use.
type Encoding struct {
	e     *Encoder
	in    *projector.Input
	pool  *kernel.Pool
	runs  []run
	bufs  *kernel.Buffers
	mem   []*mem.Region // of the buffers, scratch, keys and values, brought rows, and rows between runs
	rows  *mem.Region
	stage int // that is next
	from  int // the token that it goes on with
}

// A run is what stages run over: the tokens of the input, and then the rows that are made of them.
type run struct {
	in    *projector.Input
	batch *kernel.Batch
	width int // of the rows of the run before, which the first `made` tokens bring
	made  int
}

// Begin allocates what the encoding of an input takes, from the budget. The pool is borrowed for each Step.
func (e *Encoder) Begin(in *projector.Input, pool *kernel.Pool, budget *mem.Budget) (*Encoding, error) {
	x := &Encoding{e: e, in: in, pool: pool}
	if err := x.init(budget); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func (x *Encoding) init(budget *mem.Budget) error {
	e, n := x.e, tokens(x.in)
	if x.in.Tokens < 1 || x.in.Columns < e.stage[0].plan.brings() {
		return fmt.Errorf("an input of %d tokens of %d columns, the encoder reads %d", x.in.Tokens, x.in.Columns, e.stage[0].plan.brings())
	}
	bufs, scratch, kv, brought := e.sizes(n, x.pool.Threads())
	for _, bytes := range []int{bufs, scratch, max(kv, kernel.Align), brought, max(4*e.between(x.in), kernel.Align)} {
		region, err := budget.Alloc(encoding, uint64(bytes))
		if err != nil {
			return err
		}
		x.mem = append(x.mem, region)
	}
	var err error
	if x.rows, err = budget.Alloc(encoding, uint64(4*max(x.in.Rows(), x.in.Made)*e.width)); err != nil {
		return err
	}
	p, r := e.model.program, e.room(n)
	if x.bufs, err = kernel.NewBuffers(p.Bufs, r, x.mem[0].Bytes()); err != nil {
		return err
	}
	if err := x.begin(run{in: x.in}); err != nil {
		return err
	}
	for _, s := range e.stage {
		if !s.between() {
			continue
		}
		last := x.runs[len(x.runs)-1].in
		next := run{in: last.Again, width: s.out.Width, made: last.Tokens / s.out.Of}
		if next.in == nil {
			next.in = &projector.Input{Tokens: next.made, Columns: s.out.Width}
		}
		if err := x.begin(next); err != nil {
			return err
		}
	}
	return nil
}

// begin adds a run.
func (x *Encoding) begin(r run) (err error) {
	n, p := r.in.Tokens, x.e.model.program
	if r.batch, err = kernel.NewBatch(n, 1, blocks(n), x.e.room(n).Out, p.Groups); err != nil {
		return err
	}
	x.runs = append(x.runs, r)
	var units [][]int32
	for i, g := range p.Groups {
		r.batch.SetState(i, x.mem[2].Bytes()[:g.Bytes*blocks(n)], g.Bytes)
		ids := make([]int32, blocks(n))
		for id := range ids {
			ids[id] = int32(id)
		}
		units = append(units, ids)
	}
	r.batch.AddSeq(units...)
	r.batch.Source(cmp.Or(r.in.Seen, n))
	r.add()
	return nil
}

// add adds the tokens to the batch.
func (r run) add() {
	window, end := -1, 0
	for i := range r.in.Tokens {
		r.batch.Add(0, int32(i))
		if r.in.Place != nil {
			r.batch.Place(r.in.Place(i))
		}
		if r.in.Sees != nil {
			r.batch.Sees(r.in.Sees(i))
		}
		if n := r.in.Band; n > 0 {
			r.batch.Sees(max(i-n, 0), min(i+n, r.in.Tokens-1))
		}
		if r.in.Windows == nil {
			continue
		}
		if i == end {
			window++
			end += r.in.Windows[window]
		}
		if i == end-1 {
			r.batch.Span(r.in.Windows[window])
		}
	}
}

// Step computes some more, and reports whether all is done.
func (x *Encoding) Step() (done bool) {
	s, r := x.e.stage[x.stage], x.runs[0]
	n := min(sliceTokens, r.in.Tokens)
	switch {
	case s.out != nil:
		n = n / s.out.Of * s.out.Of
	case s.once:
		n = r.in.Tokens
	}
	if !s.keys {
		x.from = max(x.from, r.in.First)
	}
	to := min(x.from+n, r.in.Tokens)
	r.batch.Look(x.from, to)
	x.bufs.Look(x.from)
	switch {
	case s.brung:
		x.bring(to)
	case s.out != nil:
		var out []int32
		for i := 0; i+s.out.Of <= to-x.from; i += s.out.Of { // a token for the whole picture is in none
			out = append(out, int32(i))
		}
		r.batch.SetOut(out)
	}
	s.plan.run(x.pool, x.bufs, r.batch, x.mem[1].Bytes())
	if s.out != nil {
		x.take(&s, (to-x.from)/s.out.Of)
	}
	if x.from = to; to == r.in.Tokens {
		if x.stage, x.from = x.stage+1, 0; s.between() {
			r.batch.Close()
			x.runs = x.runs[1:]
		}
	}
	if x.stage < len(x.e.stage) {
		return false
	}
	x.order()
	return true
}

// Done returns how much of the work is done, from 0 to 1.
func (x *Encoding) Done() float64 {
	return (float64(x.stage) + float64(x.from)/float64(x.runs[0].in.Tokens)) / float64(len(x.e.stage))
}

// bring writes the rows of the slice's tokens.
func (x *Encoding) bring(to int) {
	r, columns := x.runs[0], x.e.stage[x.stage].plan.brings()
	stride := kernel.AlignUp(4*columns) / 4
	all, between := mem.Float32s(x.mem[3].Bytes()), mem.Float32s(x.mem[4].Bytes())
	for i := x.from; i < to; i++ {
		row := all[(i-x.from)*stride:][:columns]
		if r.in.Row != nil {
			r.in.Row(row, i)
		}
		switch {
		case r.in.From != nil:
			for j, at := range r.in.From(i) {
				to := row[j*r.width:][:r.width]
				if clear(to); at >= 0 {
					copy(to, between[int(at)*r.width:])
				}
			}
		case i < r.made:
			copy(row, between[i*r.width:][:r.width])
		}
		r.batch.BringTo(i, row)
	}
}

// take copies n rows of an output. Rows are in the order of tokens until all are there.
func (x *Encoding) take(s *stage, n int) {
	to, width, most := mem.Float32s(x.rows.Bytes()), x.e.width, x.in.Made
	if s.between() {
		to, width, most = mem.Float32s(x.mem[4].Bytes()), s.out.Width, x.runs[1].made
	}
	first := (x.from - x.runs[0].in.First) / s.out.Of
	for i := range n {
		if at := first + i; at < most {
			copy(to[at*width+s.col:], x.bufs.Row(s.out.Buf, i)[:s.out.Width])
		}
	}
}

// order puts the rows into their order, with the breaks between them.
func (x *Encoding) order() {
	if x.in.Order == nil {
		return
	}
	all, w := mem.Float32s(x.rows.Bytes()), x.e.width
	made := append([]float32(nil), all[:x.in.Made*w]...)
	for i, from := range x.in.Order {
		if from < 0 {
			clear(all[i*w : (i+1)*w])
			copy(all[i*w:(i+1)*w], x.in.Breaks[-1-from])
			continue
		}
		copy(all[i*w:], made[int(from)*w:][:w])
	}
}

// Row returns row i of the embeddings, once all is done. It is in memory outside of Go's heap, and valid until Close, or
// until the memory is closed that Take returned.
func (x *Encoding) Row(i int) []float32 {
	w := x.e.width
	return mem.Float32s(x.rows.Bytes())[i*w:][:w]
}

// Take returns the memory of the embeddings, which is then the caller's to close.
func (x *Encoding) Take() *mem.Region {
	r := x.rows
	x.rows = nil
	return r
}

// Close releases the memory. Closing again is a no-op.
func (x *Encoding) Close() {
	if x.bufs != nil {
		x.bufs.Close()
	}
	for _, r := range x.runs {
		r.batch.Close()
	}
	for _, r := range append(x.mem, x.rows) {
		if r != nil {
			r.Close()
		}
	}
	x.mem, x.rows, x.bufs, x.runs = nil, nil, nil, nil
}
