package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// NewClasses say what a new classifier is: a product of the vector of a text, which has a score for each class.
type NewClasses struct {
	Names   []string
	Several bool // a text may be of several, or of none
	Seed    uint64
}

// Limits of new classes.
const (
	mostClasses   = 1 << 12
	mostClassName = 256 // bytes
)

// Check returns an error if these are no classes that a text can be told to be of.
func (c *NewClasses) Check() error {
	if n := len(c.Names); n < 2 || n > mostClasses {
		return fmt.Errorf("%d classes, want 2 to %d", n, mostClasses)
	}
	seen := map[string]bool{}
	for _, name := range c.Names {
		switch {
		case name == "":
			return errors.New("a class without a name")
		case len(name) > mostClassName:
			return fmt.Errorf("class %.40q...: a name of %d bytes, want at most %d", name, len(name), mostClassName)
		case seen[name]:
			return fmt.Errorf("class %.40q comes twice", name)
		}
		seen[name] = true
	}
	return nil
}

// Classify gives the model in f a new classifier, as a shard in memory, whose numbers a Tuned of a model that is loaded from f
// trains. It is given what vectors of texts are pooled by: the first token, the last or the mean. Its matrix is random as those
// of LoRA are, the same for the same seed, and its biases are 0. It must be called before f is surveyed; where there is an error f
// is as it was.
func (f *File) Classify(c NewClasses) error {
	cfg, err := f.Config()
	if err == nil {
		err = c.Check()
	}
	switch {
	case err != nil:
		return err
	case f.Packed():
		return errors.New("a packed file cannot be trained; give the one that it was made of")
	case cfg.Classifier.NScore > 0 || cfg.Pooling.Sparse():
		return errors.New("the model has a classifier already, whose classes stay as they are")
	}
	of := nn.Classifier{Pooling: cfg.TextPooling(), Several: c.Several, Labels: c.Names}
	if of.Pooling != nn.PoolCLS && of.Pooling != nn.PoolLast {
		of.Pooling = nn.PoolMean
	}
	keys, matrix, bias := of.Plain(cfg.Arch, cfg.NEmbd)
	for _, t := range []*gguf.Tensor{&matrix, &bias} {
		if _, ok := f.GGUF.Tensor(t.Name); ok {
			return fmt.Errorf("tensor %q: the model has one that belongs to no classifier", t.Name)
		}
	}
	first := make([]float32, matrix.Elems())
	random(first, c.Seed, classifierStream, cfg.NEmbd)
	w := gguf.NewWriter()
	w.AddTensor(matrix.Name, matrix.Type, matrix.Dims, func(out io.Writer) error { return writeFloats(out, first) })
	w.AddTensor(bias.Name, bias.Type, bias.Dims, gguf.Bytes(make([]byte, 4*bias.Elems())))
	size, err := w.Size()
	if err != nil {
		return err
	}
	memory, err := mem.Alloc(size, "a classifier")
	if err != nil {
		return err
	}
	if err := f.classifyBy(memory, w, keys); err != nil {
		memory.Close()
		return err
	}
	return nil
}

// classifyBy adds the shard that w writes to memory, and its keys.
func (f *File) classifyBy(memory *mem.Region, w *gguf.Writer, keys []gguf.KV) error {
	if _, err := w.WriteTo(&into{memory.Bytes()}); err != nil {
		return err
	}
	shard, err := gguf.Parse(memory.Bytes())
	if err != nil {
		return err
	}
	all := slices.Clone(f.GGUF.Tensors)
	for _, t := range shard.Tensors {
		t.Shard = len(f.regions)
		all = append(all, t)
	}
	both, err := f.GGUF.With(all)
	if err != nil {
		return err
	}
	for _, kv := range keys {
		if err := both.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	f.GGUF, f.config, f.classes = both, nil, memory
	f.regions = append(slices.Clip(f.regions), mem.Static(memory.Bytes()))
	return nil
}

// classifierStream is the number of a new classifier's random numbers, which no matrix of an adapter has.
const classifierStream = 1 << 32

// fresh returns the tensors of a new classifier, of a file that has one.
func (f *File) fresh() (all []*gguf.Tensor) {
	if f.classes == nil {
		return nil
	}
	for i := range f.GGUF.Tensors {
		if t := &f.GGUF.Tensors[i]; t.Shard == len(f.regions)-1 {
			all = append(all, t)
		}
	}
	return all
}

// listHead lists a new classifier's tensors, whose numbers begin at number n, and returns where they end.
func (a *Tuned) listHead(m *Model, n int) (end int) {
	fresh := m.file.fresh()
	if len(fresh) == 0 {
		return n
	}
	a.head = &whole{model: m, byName: map[string]*weight{}, identity: m.file.given()}
	for _, t := range fresh {
		a.head.weights = append(a.head.weights, weight{Tensor: t, at: n, n: int(t.Elems())})
		n += int(t.Elems())
	}
	for i := range a.head.weights {
		w := &a.head.weights[i]
		a.head.byName[w.Name] = w
	}
	return n
}

// beginHead has the numbers of a new classifier be what its file has.
func (a *Tuned) beginHead() error {
	if a.head == nil {
		return nil
	}
	for _, w := range a.head.weights {
		err := eachRows(w.Tensor, func(first int, rows []float32) error {
			copy(a.Numbers()[w.at+first:], rows)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// own returns the weights that are trained as they are: all of a model, or a new classifier beside an adapter; nil: none.
func (a *Tuned) own() *whole { return cmp.Or(a.whole, a.head) }
