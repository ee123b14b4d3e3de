package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// Whole says how all weights of a model are trained.
type Whole struct {
	KV kernel.KVTypes // of keys and values in passes
	// Type returns the type of a matrix that passes multiply with, and that is written: its numbers rounded to it, whose
	// gradients are taken as those of the numbers ("straight through", Bengio et al. 2013). nil: F32. Other tensors are F32.
	Type func(t *gguf.Tensor) gguf.Type
	Set  []gguf.KV // metadata in place of what the file has, or beside it
}

// whole is all weights of a model in training. They are a file in memory, which the model is loaded from and whose bytes
// change, so passes compute what they do once it is written. Numbers are in the order of its tensors, of which those
// that Muon does not take come first, and begin at multiples of wholeAlign; between them are zeros.
type whole struct {
	model    *Model
	file     *File
	weights  []weight
	byName   map[string]*weight
	inImage  bool   // numbers are the file's own
	identity string // of the file that this was made of
	target   *File  // the file is a head's, which drafts for this model; nil: it is a model
}

// filling calls do with some rows of a tensor at a time, and the number of the first of them.
type filling func(do func(first int, rows []float32) error) error

// A weight is a tensor that is trained.
type weight struct {
	*gguf.Tensor
	at, n   int // of its numbers
	reached bool
}

// wholeAlign is how many floats a tensor begins at a multiple of: the alignment of tensors in files.
const wholeAlign = 8

// A Span is a part of the numbers that steps treat alike.
type Span struct {
	From, To int
	Out, In  int  // of a matrix of a layer, for Muon; else 0
	Vector   bool // it is norms, biases or magnitudes
}

// Spans returns the parts of the numbers, in order, once there is a Trainer. Between them are numbers without gradients.
func (a *Tuned) Spans() []Span {
	var all []Span
	if a.plain > 0 {
		all = append(all, Span{To: a.plain})
	}
	if a.plain < a.adapted { // a magnitude that decays pulls its row to nothing, and not to the model's
		all = append(all, Span{From: a.plain, To: a.adapted, Vector: true})
	}
	own := a.own()
	if own == nil {
		return all
	}
	for _, w := range own.weights {
		if !w.reached {
			continue
		}
		s := Span{From: w.at, To: w.at + w.n, Vector: len(w.Dims) == 1}
		if w.hidden() {
			s.In, s.Out = int(w.Dims[0]), int(w.Dims[1])
		}
		all = append(all, s)
	}
	return all
}

// hidden reports whether the tensor is a matrix of a layer.
func (w *weight) hidden() bool { return len(w.Dims) == 2 && strings.HasPrefix(w.Name, "blk.") }

// ofOutput reports whether the tensor is of logits, or of a classifier.
func (w *weight) ofOutput() bool {
	name, _, _ := strings.Cut(w.Name, ".")
	return name == "output" || name == "cls"
}

// Model returns the model whose weights are trained, nil for an adapter. It is closed with it.
func (a *Tuned) Model() *Model {
	if a.whole == nil {
		return nil
	}
	return a.whole.model
}

// program returns the model's program, with the adapter if it is one.
func (a *Tuned) program(m *Model) (*nn.Program, error) {
	switch {
	case a.whole == nil:
		return adapt(m.program, []*Adapter{a.adapter})
	case a.whole.model != m:
		return nil, errors.New("the weights in training are another model's")
	}
	return m.program, nil
}

// NewWhole returns all weights of the model in f, as numbers to train. f is only read.
func NewWhole(f *File, w Whole, pool *kernel.Pool, budget *mem.Budget) (*Tuned, error) {
	a := &Tuned{whole: &whole{byName: map[string]*weight{}, identity: f.given()}}
	if err := a.initWhole(f, w, pool, budget); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// list finds what is trained: every tensor that the model's program has, but for factors of rotations and choices.
func (x *whole) list(f *File, w Whole) (rest []*gguf.Tensor, err error) {
	s, err := NewSurvey(f, w.KV, 0)
	if err != nil {
		return nil, err
	}
	if f.Packed() {
		return nil, errors.New("a packed file cannot be trained; give the one that it was made of")
	}
	found, err := s.find(Mapped)
	if err != nil {
		return nil, err
	}
	trained := map[string]bool{}
	for _, m := range found.weights.mats {
		for _, t := range m.parts {
			trained[t.Name] = true
		}
	}
	for _, v := range found.weights.vecs {
		trained[v.t.Name] = true
	}
	for _, r := range found.weights.ropes {
		if r.factors != nil {
			delete(trained, r.factors.t.Name)
		}
	}
	for i := range f.GGUF.Tensors {
		t := &f.GGUF.Tensors[i]
		switch {
		case !trained[t.Name]:
			rest = append(rest, t)
		case together(t) > 1:
			return nil, fmt.Errorf("tensor %q: %v has interleaved rows, which cannot be trained", t.Name, t.Type)
		default:
			x.weights = append(x.weights, weight{Tensor: t})
		}
	}
	return rest, nil
}

// sort puts what Muon may take behind the rest.
func (x *whole) sort() {
	slices.SortStableFunc(x.weights, func(a, b weight) int {
		last := func(w weight) int {
			if w.hidden() {
				return 1
			}
			return 0
		}
		return cmp.Compare(last(a), last(b))
	})
}

// typeFor returns the type that a tensor is to have.
func (w *Whole) typeFor(t *gguf.Tensor) (gguf.Type, error) {
	typ := gguf.F32
	if len(t.Dims) > 1 && w.Type != nil {
		typ = w.Type(t)
	}
	if n := int(t.Dims[0]); typ != gguf.F32 && !kernel.CanEncode(kernel.Type(typ), n) {
		return typ, fmt.Errorf("tensor %q: rows of %d weights cannot be rounded to %v", t.Name, n, typ)
	}
	if kernel.NeedsImportance(kernel.Type(typ)) {
		return typ, fmt.Errorf("tensor %q: %v needs an importance matrix, and weights in training have none", t.Name, typ)
	}
	return typ, nil
}

func (a *Tuned) initWhole(f *File, w Whole, pool *kernel.Pool, budget *mem.Budget) error {
	x := a.whole
	rest, err := x.list(f, w)
	if err != nil {
		return err
	}
	out := gguf.NewWriter()
	for _, kv := range f.GGUF.KVs {
		if !strings.HasPrefix(kv.Key, "split.") && kv.Key != "general.alignment" {
			out.Set(kv.Key, kv.Value)
		}
	}
	rows := func(t *gguf.Tensor) filling {
		return func(do func(first int, rows []float32) error) error { return eachRows(t, do) }
	}
	return a.fillWhole(out, f.Name(), rows, rest, w, pool, budget)
}

// fillWhole makes the file in memory, of whose weights rows has the first numbers, and loads the model from it.
func (a *Tuned) fillWhole(out *gguf.Writer, name string, rows func(t *gguf.Tensor) filling, rest []*gguf.Tensor, w Whole, pool *kernel.Pool, budget *mem.Budget) error {
	x := a.whole
	for _, kv := range w.Set {
		out.Set(kv.Key, kv.Value)
	}
	x.sort()
	x.inImage = true
	at := 0
	for i := range x.weights {
		t := &x.weights[i]
		t.at, t.n = at, int(t.Elems())
		at += (t.n + wholeAlign - 1) / wholeAlign * wholeAlign
		typ, err := w.typeFor(t.Tensor)
		if err != nil {
			return err
		}
		x.inImage = x.inImage && typ == gguf.F32
		each, n := rows(t.Tensor), int(t.Dims[0])
		out.AddTensor(t.Name, typ, t.Dims, func(out io.Writer) error {
			return each(func(first int, rows []float32) error {
				if !x.inImage {
					copy(a.Numbers()[t.at+first:], rows)
				}
				return writeRows(out, typ, rows, n)
			})
		})
	}
	for _, t := range rest {
		out.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
	}
	return a.loadWhole(out, name, at, w, pool, budget)
}

// loadWhole makes the file in memory, of which n numbers are trained, and loads the model from it.
func (a *Tuned) loadWhole(out *gguf.Writer, name string, n int, w Whole, pool *kernel.Pool, budget *mem.Budget) error {
	x := a.whole
	size, err := out.Size()
	if err != nil {
		return err
	}
	image, err := a.alloc(budget, "the weights that passes use", int(size))
	if err != nil {
		return err
	}
	gradient, err := a.alloc(budget, "the gradient of all weights", 4*n)
	if err != nil {
		return err
	}
	if !x.inImage {
		if a.numbers, err = a.alloc(budget, "the weights in training", 4*n); err != nil {
			return err
		}
	}
	a.gradient = mem.Float32s(gradient)
	if _, err := out.WriteTo(&into{image}); err != nil {
		return err
	}
	if x.file, err = OpenBytes(name, image); err != nil {
		return err
	}
	if x.inImage {
		first := int(x.file.GGUF.DataOffset)
		a.numbers = image[first : first+4*n : first+4*n]
	}
	for i := range x.weights {
		t := &x.weights[i]
		t.Tensor, _ = x.file.GGUF.Tensor(t.Name)
		x.byName[t.Name] = t
		if len(t.Dims) > 1 {
			a.Matrices++
		}
	}
	s, err := x.survey(w.KV)
	if err != nil {
		return err
	}
	x.model, err = s.Load(Options{Pack: pool.PackInto, Budget: budget, Residency: Mapped})
	if err == nil {
		err = trainable(x.model)
	}
	return err
}

// survey surveys the model, or that which the head drafts for, with it.
func (x *whole) survey(kv kernel.KVTypes) (*Survey, error) {
	if x.target == nil {
		return NewSurvey(x.file, kv, 0)
	}
	both := *x.target
	if err := both.DraftBy(x.file); err != nil {
		return nil, err
	}
	s, err := NewSurvey(&both, kv, 0)
	if err != nil {
		return nil, err
	}
	if s, err = s.Drafting(); err == nil {
		s.rows = true
	}
	return s, err
}

// inModel returns the name that the model has for a tensor of the file.
func (x *whole) inModel(name string) string {
	if x.target != nil {
		return nn.HeadPrefix + name
	}
	return name
}

// weight returns the weight that the model has a name for; nil: it is not trained.
func (x *whole) weight(inModel string) *weight {
	if x.target == nil {
		return x.byName[inModel]
	}
	name, ok := strings.CutPrefix(inModel, nn.HeadPrefix)
	if !ok {
		return nil
	}
	return x.byName[name]
}

// into writes to memory of just the size.
type into struct{ b []byte }

func (w *into) Write(p []byte) (int, error) {
	n := copy(w.b, p)
	if w.b = w.b[n:]; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// wholeRows is about how many numbers are converted at a time.
const wholeRows = 1 << 16

// eachRows calls do with some rows of a tensor at a time as floats, and the number of the first of them.
func eachRows(t *gguf.Tensor, do func(first int, rows []float32) error) error {
	return theseRows(t, int(t.Elems()/t.Dims[0]), func(i int) int { return i }, do)
}

// theseRows is eachRows of a matrix whose row i is row which(i) of the tensor.
func theseRows(t *gguf.Tensor, count int, which func(i int) int, do func(first int, rows []float32) error) error {
	n := int(t.Dims[0])
	row := kernel.RowBytes(typeOf(t), n)
	some := min(max(wholeRows/n, 1), count)
	y := make([]float32, some*n)
	for i := 0; i < count; i += some {
		rows := y[:min(some, count-i)*n]
		for r := range len(rows) / n {
			from := which(i+r) * row
			if err := kernel.Dequantize(typeOf(t), rows[r*n:(r+1)*n], t.Data[from:from+row]); err != nil {
				return unsupported(t, err)
			}
		}
		if err := finite(rows); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if err := do(i*n, rows); err != nil {
			return err
		}
	}
	return nil
}

// writeRows writes rows of n numbers each as a type.
func writeRows(out io.Writer, typ gguf.Type, rows []float32, n int) error {
	if typ == gguf.F32 {
		return writeFloats(out, rows)
	}
	b := make([]byte, len(rows)/n*kernel.RowBytes(kernel.Type(typ), n))
	if err := kernel.Encode(kernel.CPU(), kernel.Type(typ), b, rows, n, nil); err != nil {
		return err
	}
	_, err := out.Write(b)
	return err
}

// moved has passes use the numbers: rounds matrices to their types, and copies what models have copies of.
func (x *whole) moved(numbers []float32, threads int) error {
	type job struct {
		w        *weight
		from, to int // of its numbers
	}
	var jobs []job
	for i := range x.weights {
		w := &x.weights[i]
		if v := x.model.weights.byVec[x.inModel(w.Name)]; v != nil {
			copy(v.v, numbers[w.at:w.at+v.n])
		}
		if x.inImage {
			continue
		}
		some := max(wholeRows/int(w.Dims[0]), 1) * int(w.Dims[0])
		for from := 0; from < w.n; from += some {
			jobs = append(jobs, job{w, from, min(from+some, w.n)})
		}
	}
	each := max((len(jobs)+threads-1)/max(threads, 1), 1)
	return panics.Each((len(jobs)+each-1)/each, func(i int) error {
		for _, j := range jobs[i*each : min((i+1)*each, len(jobs))] {
			n := int(j.w.Dims[0])
			row := kernel.RowBytes(typeOf(j.w.Tensor), n)
			to := j.w.Data[j.from/n*row : j.to/n*row]
			rows := numbers[j.w.at+j.from : j.w.at+j.to]
			if j.w.Type == gguf.F32 {
				copy(mem.Float32s(to), rows)
			} else if err := kernel.Encode(kernel.CPU(), typeOf(j.w.Tensor), to, rows, n, nil); err != nil {
				return fmt.Errorf("%q: %w", j.w.Name, err)
			}
		}
		return nil
	})
}

// form returns what makes numbers those of the same tensors.
func (x *whole) form() string {
	var form strings.Builder
	form.WriteString("all weights:")
	for _, w := range x.weights {
		fmt.Fprintf(&form, " %s %v %v", w.Name, w.Type, w.Dims)
	}
	return form.String()
}

// write returns the model with these numbers as a file.
func (x *whole) write(numbers []float32) *gguf.Writer {
	out := gguf.NewWriter()
	for _, kv := range x.file.GGUF.KVs {
		out.Set(kv.Key, kv.Value)
	}
	for i := range x.file.GGUF.Tensors {
		t := &x.file.GGUF.Tensors[i]
		w := x.byName[t.Name]
		if w == nil {
			out.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
			continue
		}
		out.AddTensor(t.Name, t.Type, t.Dims, func(out io.Writer) error {
			n := int(t.Dims[0])
			for rows := range slices.Chunk(numbers[w.at:w.at+w.n], max(wholeRows/n, 1)*n) {
				if err := writeRows(out, t.Type, rows, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return out
}

func (x *whole) close() {
	if x.model != nil {
		x.model.Close()
	}
	if x.file != nil {
		x.file.Close()
	}
}

// A gradients finds where gradients of weights go, by what operations have of these.
type gradients struct {
	of       *whole
	gradient []float32               // the Tuned's
	all      bool                    // of all weights; else others than those of a new classifier have none
	vectors  map[*float32]vectorPart // by the address of each panel of them
}

// A vectorPart is a vector from one of its numbers on.
type vectorPart struct {
	*vector
	start int
}

func (a *Tuned) gradients() *gradients {
	g := &gradients{of: a.own(), gradient: a.gradient, all: a.whole != nil, vectors: map[*float32]vectorPart{}}
	for _, v := range g.of.model.weights.vecs {
		for at := 0; at < v.n; at += kernel.Panel {
			g.vectors[&v.v[at]] = vectorPart{v, at}
		}
	}
	return g
}

// matrix returns the gradient of a matrix of the program, row by row; nil: it stays as it is.
func (g *gradients) matrix(p kernel.Matrix) ([]float32, error) {
	x := g.of
	m := x.model.weights.byName[p.Name]
	if !g.all && (m == nil || x.weight(m.parts[0].Name) == nil) {
		return nil, nil
	}
	if m == nil || len(m.parts) != 1 || m.remade != nil || m.scales != nil || m.N != 1 || m.Layout != kernel.Rows || m.columns != nil {
		return nil, fmt.Errorf("%q is not multiplied as it is in the file", p.Name)
	}
	w := x.weight(m.parts[0].Name)
	if w == nil {
		return nil, fmt.Errorf("%q is not trained", p.Name)
	}
	w.reached = true
	row := uint64(kernel.RowBytes(typeOf(w.Tensor), p.In))
	at := w.at + int((m.parts[0].Offset-w.Offset)/row)*p.In
	if n := p.In * p.Out; at+n <= w.at+w.n {
		return g.gradient[at : at+n : at+n], nil
	}
	return nil, fmt.Errorf("%q has another shape in the file", p.Name)
}

// vector returns the gradient of n numbers of a vector of the program; nil: it stays as it is.
func (g *gradients) vector(v []float32, n int) ([]float32, error) {
	if len(v) == 0 {
		return nil, errors.New("weights that are not in memory")
	}
	from, ok := g.vectors[&v[0]]
	if !g.all && (!ok || g.of.weight(from.t.Name) == nil) {
		return nil, nil
	}
	if !ok {
		return nil, errors.New("weights that are computed of others are not trained")
	}
	w := g.of.weight(from.t.Name)
	if w == nil || from.start+n > w.n {
		return nil, fmt.Errorf("%q is not trained", from.t.Name)
	}
	w.reached = true
	at := w.at + from.start
	return g.gradient[at : at+n : at+n], nil
}

// missed returns an error if gradients of some tensor are not known. Where vectors or scores are trained, what only other outputs
// have stays as it is: that of logits, or of a classifier beside an embedding.
func (g *gradients) missed(vectors bool) error {
	for _, w := range g.of.weights {
		if !w.reached && !(g.all && vectors && w.ofOutput()) {
			return fmt.Errorf("gradients of %q are not known yet", w.Name)
		}
	}
	return nil
}
