package quant

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// A Job is a file to write: the tensors of one that is read, as the types chosen for them.
type Job struct {
	From       *gguf.File
	Mix        Mix
	Choices    []Choice
	Importance Importance // nil: all columns count alike
	Requantize bool       // types that are quantized already are taken as well
	Set        []gguf.KV  // metadata to set at the end, in place of what the file has
	Threads    int        // at least 1
	Method     Method

	// Hessian returns what GPTQ knows of a tensor's inputs, nil where that is nothing: then the tensor is encoded as by
	// Search. It is called when the tensor's turn comes, and its result used until the next call.
	Hessian func(ctx context.Context, t *gguf.Tensor) (*Hessian, error)

	// Done is called with the bytes read so far, one call at a time, and Wrote with each tensor that is written, and the time
	// that it took. Release is called with the part of a tensor that will not be read again. Each may be nil.
	Done    func(bytes uint64)
	Wrote   func(c *Choice, took time.Duration)
	Release func(t *gguf.Tensor, at, n int)

	read uint64
}

// Check returns an error where a tensor cannot be what was chosen for it, before anything is written.
func (j *Job) Check() error {
	for i := range j.Choices {
		c := &j.Choices[i]
		if c.To == c.Type {
			continue
		}
		if err := j.check(c); err != nil {
			return fmt.Errorf("tensor %s: %w", c.Name, err)
		}
	}
	return nil
}

func (j *Job) check(c *Choice) error {
	n := int(c.Dims[0])
	importance, err := j.Importance.of(c.Tensor)
	switch _, together := c.Type.Apart(); {
	case err != nil:
		return err
	case together > 1:
		return fmt.Errorf("%v has interleaved rows; make the file from one that has not", c.Type)
	case c.Type.BlockElems() > 1 && !j.Requantize:
		return fmt.Errorf("it is %v already; --allow-requantize makes %v of that, with the errors of both", c.Type, c.To)
	case !CanEncode(c.Type, n) && !canDecode(c.Type, n):
		return fmt.Errorf("no way to %v from %v", c.To, c.Type)
	case !CanEncode(c.To, n):
		return fmt.Errorf("rows of %d weights cannot be %v", n, c.To)
	case importance == nil && needsImportance(c, j.Mix):
		return fmt.Errorf("%v needs an importance matrix, or what comes out is of no use: give one with --imatrix (see %q)", c.To, "quern imatrix")
	}
	return nil
}

func canDecode(t gguf.Type, n int) bool { return RowBytes(t, n) > 0 }

// needsImportance reports whether llama-quantize would refuse a choice without importance.
func needsImportance(c *Choice, m Mix) bool {
	if NeedsImportance(c.To) {
		return true
	}
	if r := roleOf(c.Name); r == embed || r == output {
		return false
	}
	return c.To == gguf.IQ3_XXS || c.To == gguf.IQ2_S || c.To == gguf.Q2_K && m.Name == "Q2_K_S"
}

// Bytes returns the size of the tensors that are written.
func (j *Job) Bytes() (n uint64) {
	for _, c := range j.Choices {
		size, _ := c.To.Size(c.Dims)
		n += size
	}
	return n
}

// FileBytes returns the size of the file that WriteShard writes of all of the model.
func (j *Job) FileBytes() (uint64, error) {
	w := gguf.NewWriter()
	j.metadata(w)
	for _, c := range j.Choices {
		w.AddTensor(c.Name, c.To, c.Dims, nil)
	}
	return w.Size()
}

// quantizationVersion is general.quantization_version: that of ggml's blocks.
const quantizationVersion = 2

// WriteShard writes one of `of` files: all of the model, or shard i of what is read, which then has as many. Memory is
// bounded whatever the size of the tensors.
func (j *Job) WriteShard(ctx context.Context, out io.Writer, i, of int) (int64, error) {
	w := gguf.NewWriter()
	choices := j.Choices
	if of > 1 {
		choices = slices.Clone(choices)
		choices = slices.DeleteFunc(choices, func(c Choice) bool { return c.Shard != i })
		slices.SortStableFunc(choices, func(a, b Choice) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	if i == 0 {
		j.metadata(w)
	}
	if of > 1 {
		w.SetShard(i, of, len(j.Choices))
	}
	return j.write(ctx, w, out, choices)
}

// metadata sets what the file has, less what says that it was split, and then what it is now.
func (j *Job) metadata(w *gguf.Writer) {
	set := append([]gguf.KV{{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
		{Key: "general.file_type", Value: j.Mix.Kind}}, j.Set...)
	anew := map[string]bool{}
	for _, kv := range set {
		anew[kv.Key] = true
	}
	for _, kv := range j.From.KVs {
		if !anew[kv.Key] && !strings.HasPrefix(kv.Key, "split.") {
			w.Set(kv.Key, kv.Value)
		}
	}
	for _, kv := range set {
		w.Set(kv.Key, kv.Value)
	}
}

func (j *Job) write(ctx context.Context, w *gguf.Writer, out io.Writer, choices []Choice) (int64, error) {
	for i := range choices {
		c := &choices[i]
		w.AddTensor(c.Name, c.To, c.Dims, func(out io.Writer) error {
			start := time.Now()
			if err := j.tensor(ctx, out, c, j.Method); err != nil {
				return err
			}
			j.read += uint64(len(c.Data))
			j.done(0)
			if j.Wrote != nil {
				j.Wrote(c, time.Since(start))
			}
			return nil
		})
	}
	return w.WriteTo(out)
}

// done reports the bytes read so far, with the given bytes of the current tensor.
func (j *Job) done(of int) {
	if j.Done != nil {
		j.Done(j.read + uint64(of))
	}
}

// partWeights is how many weights a thread encodes at a time.
const partWeights = 1 << 18

// tensor writes one tensor: parts of whole rows, a thread's each, and as many at a time as there are threads.
func (j *Job) tensor(ctx context.Context, out io.Writer, c *Choice, method Method) error {
	if c.To == c.Type {
		return j.copy(ctx, out, c)
	}
	importance, err := j.Importance.of(c.Tensor)
	if err != nil {
		return err
	}
	e := newEncoder(c, importance)
	if err := j.prepare(ctx, e, method); err != nil {
		return fmt.Errorf("tensor %s: %w", c.Name, err)
	}
	n := e.n
	each := min(max(partWeights/n, 1), e.rows)
	if method != Fast {
		each = min(max(each, kernel.Panel), e.rows) // a row to a lane
	}
	parts := make([]part, j.Threads)
	for at := 0; at < e.rows; {
		if err := ctx.Err(); err != nil {
			return err
		}
		first, used := at, 0
		for ; used < len(parts) && at < e.rows; used++ {
			parts[used].at, parts[used].rows = at, min(each, e.rows-at)
			at += parts[used].rows
		}
		if err := e.encode(parts[:used]); err != nil {
			return err
		}
		for i := range parts[:used] {
			if _, err := out.Write(parts[i].out); err != nil {
				return err
			}
		}
		size := RowBytes(c.Type, n)
		if j.Release != nil {
			j.Release(c.Tensor, first*size, (at-first)*size)
		}
		j.done(at * size)
	}
	return nil
}

// prepare tells an encoder its method, as far as its type has a choice.
func (j *Job) prepare(ctx context.Context, e *encoder, method Method) (err error) {
	if method == Fast || !Searched(e.To) {
		return nil
	}
	e.method = method
	if e.importance != nil {
		e.importance = floored(e.importance, e.n)
	}
	if method != GPTQ || j.Hessian == nil || !Correctable(e.To) {
		return nil
	}
	if e.hessian, err = j.Hessian(ctx, e.Tensor); err != nil || e.hessian == nil {
		return err
	}
	if err := e.hessian.fits(e); err != nil {
		return err
	}
	return e.hessian.factor(ctx, j.Threads)
}

// copy writes a tensor as it is.
func (j *Job) copy(ctx context.Context, out io.Writer, c *Choice) error {
	const step = 16 << 20
	for at := 0; at < len(c.Data); at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := c.Data[at:min(at+step, len(c.Data))]
		if _, err := out.Write(p); err != nil {
			return err
		}
		if j.Release != nil {
			j.Release(c.Tensor, at, len(p))
		}
	}
	return nil
}

// An encoder makes the rows of one tensor.
type encoder struct {
	*Choice
	n, rows, perMatrix int // weights of a row, rows in all, and in each matrix
	importance         []float32
	method             Method
	hessian            *Hessian // nil: errors are not made good
}

func newEncoder(c *Choice, importance []float32) *encoder {
	n := int(c.Dims[0])
	e := &encoder{Choice: c, n: n, importance: importance, rows: int(c.Elems()) / n, perMatrix: 1}
	if len(c.Dims) > 1 {
		e.perMatrix = int(c.Dims[1])
	}
	return e
}

// A part is some rows and the memory for them, kept from one to the next.
type part struct {
	at, rows int
	weights  []float32
	out      []byte
	found    []byte    // by Search, before it is compared with Fast's
	scratch  []float32 // of GPTQ
}

// encode encodes parts, each in a goroutine of its own.
func (e *encoder) encode(parts []part) error {
	return panics.Each(len(parts), func(i int) error { return e.part(&parts[i]) })
}

func (e *encoder) part(p *part) error {
	from, to := RowBytes(e.Type, e.n), RowBytes(e.To, e.n)
	p.weights = grow(p.weights, p.rows*e.n)
	p.out = grow(p.out, p.rows*to)
	for r := range p.rows {
		if err := Decode(e.Type, p.weights[r*e.n:][:e.n], e.Data[(p.at+r)*from:][:from]); err != nil {
			return err
		}
	}
	// Each matrix has an importance of its own.
	for r := 0; r < p.rows; {
		matrix := (p.at + r) / e.perMatrix
		rows := min(p.rows-r, (matrix+1)*e.perMatrix-p.at-r)
		var importance []float32
		if e.importance != nil {
			importance = e.importance[matrix*e.n%len(e.importance):][:e.n]
		}
		if err := e.rowsOf(matrix, p, p.out[r*to:][:rows*to], p.weights[r*e.n:][:rows*e.n], importance); err != nil {
			return err
		}
		r += rows
	}
	return nil
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
