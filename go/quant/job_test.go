package quant

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// Whatever parts a tensor is written in, each row is encoded with the importance of its own matrix, by each method.
func TestRowsOfTensors(t *testing.T) {
	for _, r := range []struct {
		dims   []uint64
		method Method
		to     gguf.Type
	}{
		{[]uint64{256, 205, 5}, Fast, gguf.Q4_0}, {[]uint64{256, 2049}, Fast, gguf.Q8_0}, {[]uint64{256, 1}, Fast, gguf.Q4_0},
		{[]uint64{1 << 19, 2}, Fast, gguf.Q8_0}, {[]uint64{256, 37, 3}, Search, gguf.Q4_0},
	} {
		n, rows := int(r.dims[0]), 1
		for _, d := range r.dims[1:] {
			rows *= int(d)
		}
		x := &gguf.Tensor{Name: "x.weight", Type: gguf.F32, Dims: r.dims, Data: ramp(n, rows)}
		matrices := rows / int(r.dims[1])
		importance := make([]float32, n*matrices)
		for i := range importance {
			importance[i] = float32(i % 1009 * (1 + i/n)) // 0 for some
		}
		counts := importance
		if r.method == Search {
			counts = floored(importance, n)
		}
		size := RowBytes(r.to, n)
		want := make([]byte, rows*size)
		for row := range rows {
			columns := counts[row/int(r.dims[1])*n:][:n]
			dst, w := want[row*size:][:size], floats(x.Data[row*n*4:][:n*4])
			err := Encode(r.to, dst, w, n, columns)
			if r.method == Search {
				err = kernel.EncodeSearch(kernel.CPU(), kernel.Type(r.to), dst, w, n, columns, make([]byte, size))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for threads := 1; threads <= 3; threads += 2 {
			done, released := 0, 0
			j := &Job{Threads: threads, Importance: Importance{"x.weight": importance}, Done: func(n uint64) { done = int(n) }}
			j.Release = func(_ *gguf.Tensor, at, n int) {
				if at != released || n < 1 {
					t.Errorf("%v: %d bytes at %d are released after %d", r.dims, n, at, released)
				}
				released += n
			}
			var out bytes.Buffer
			if err := j.tensor(t.Context(), &out, &Choice{Tensor: x, To: r.to}, r.method); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) || done != len(x.Data) || released != done {
				t.Errorf("%v with %d threads: other bytes, or %d of %d done, %d released", r.dims, threads, done, len(x.Data), released)
			}
		}
	}
}

// A method counts only for types that it finds codes of; the same errors are made good only where there is something to
// know of the inputs.
func TestPrepare(t *testing.T) {
	x := &gguf.Tensor{Name: "x.weight", Type: gguf.F32, Dims: []uint64{32, 2}, Data: ramp(32, 2)}
	zero := make([]float32, 32)
	asked := 0
	j := &Job{Threads: 1, Hessian: func(context.Context, *gguf.Tensor) (*Hessian, error) {
		asked++
		return &Hessian{Columns: 32, Span: 32, Products: make([]float32, 32*32)}, nil
	}}
	for _, r := range []struct {
		to            gguf.Type
		method, is    Method
		hessian, kept bool
	}{
		{gguf.Q4_0, Fast, Fast, false, true}, {gguf.BF16, GPTQ, Fast, false, true}, {gguf.Q4_0, Search, Search, false, false},
		{gguf.Q4_0, GPTQ, GPTQ, true, false},
	} {
		asked = 0
		e := newEncoder(&Choice{Tensor: x, To: r.to}, zero)
		if err := j.prepare(t.Context(), e, r.method); err != nil {
			t.Fatal(err)
		}
		if e.method != r.is || (e.hessian != nil) != r.hessian || asked > 0 != r.hessian || (e.importance[0] == 0) != r.kept {
			t.Errorf("%v to %v: it is %v, a Hessian %v, asked %d, importance %v", r.method, r.to, e.method, e.hessian != nil, asked, e.importance[0])
		}
	}
	j.Hessian = nil
	e := newEncoder(&Choice{Tensor: x, To: gguf.Q4_0}, nil)
	if err := j.prepare(t.Context(), e, GPTQ); err != nil || e.importance != nil || e.hessian != nil || e.method != GPTQ {
		t.Errorf("nothing is known: %+v, %v", e, err)
	}
}

// Columns that count nothing count a thousandth of the mean of their own matrix, or 1 where all count nothing.
func TestFloored(t *testing.T) {
	got := floored([]float32{0, 4, 0, 0, 3e-4, 0.3, 5, 5, 0}, 2)
	want := []float32{2e-3, 4, 1, 1, 3e-4, 0.3, 5, 5, 0} // the last is of no whole matrix
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-7*float64(1+want[i]) {
			t.Errorf("column %d counts %v, want %v", i, got[i], want[i])
		}
	}
}

// Why a tensor cannot be what was chosen: the first reason of several.
func TestCheck(t *testing.T) {
	q2 := Mix{Name: "Q2_K_S"}
	for _, r := range []struct {
		name       string
		from, to   gguf.Type
		n          uint64
		mix        Mix
		importance int
		want       string
	}{
		{"blk.0.attn_q.weight", gguf.F32, gguf.F32, 7, q2, 5, ""}, // as it is
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q4_K, 256, q2, 5, "the importance matrix has 5 columns, the tensor 256"},
		{"token_embd.weight", gguf.F32, gguf.Q4_K, 256, q2, 5, ""},
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q4_K, 32, q2, 0, "rows of 32 weights cannot be Q4_K"},
		{"blk.0.attn_q.weight", gguf.F32, gguf.IQ4_K, 256, q2, 0, "cannot be IQ4_K"},
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q2_K, 256, q2, 0, "Q2_K needs an importance matrix"},
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q2_K, 256, q2, 256, ""},
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q2_K, 256, Mix{Name: "Q2_K"}, 0, ""},
		{"blk.0.attn_q.weight", gguf.F32, gguf.Q4_K, 256, q2, 0, ""},
		{"output.weight", gguf.F32, gguf.Q2_K, 256, q2, 0, ""},
		{"token_embd.weight", gguf.F32, gguf.Q2_K, 256, q2, 0, ""},
		{"token_embd.weight", gguf.F32, gguf.IQ2_XS, 256, q2, 0, "IQ2_XS needs an importance matrix"},
		{"blk.0.attn_q.weight", gguf.F32, gguf.IQ3_XXS, 256, Mix{}, 0, "IQ3_XXS needs an importance matrix"},
		{"blk.0.attn_q.weight", gguf.F32, gguf.IQ2_S, 256, Mix{}, 0, "IQ2_S needs an importance matrix"},
		{"output.weight", gguf.F32, gguf.IQ3_XXS, 256, Mix{}, 0, ""},
		{"output.weight", gguf.F32, gguf.IQ2_S, 256, Mix{}, 0, ""},
		{"blk.0.attn_q.weight", gguf.F32, gguf.IQ3_S, 256, Mix{}, 0, ""},
	} {
		j := &Job{Mix: r.mix}
		if r.importance > 0 {
			j.Importance = Importance{r.name: make([]float32, r.importance)}
		}
		j.Choices = []Choice{{Tensor: &gguf.Tensor{Name: r.name, Type: r.from, Dims: []uint64{r.n, 2}}, To: r.to}}
		err := j.Check()
		if r.want == "" && err != nil || r.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "tensor "+r.name+": ") || !strings.Contains(err.Error(), r.want)) {
			t.Errorf("%s from %v to %v: %v, want %q", r.name, r.from, r.to, err, r.want)
		}
	}
}

// A file that is written in parts has in each the tensors of that part of what is read, in their order there, and only the
// first says what the model is, now as what it was made to; what it said of being split is gone.
func TestShards(t *testing.T) {
	kvs := slices.Concat(llama, []gguf.KV{{Key: "general.file_type", Value: uint32(1)}, {Key: "general.name", Value: "old"}, {Key: "split.no", Value: uint16(7)}})
	x := func(name string, rows int) gguf.Tensor {
		return gguf.Tensor{Name: name, Type: gguf.F32, Dims: []uint64{32, uint64(rows)}, Data: ramp(32, rows)}
	}
	f := model(kvs, x("blk.1.b.weight", 3), x("blk.0.a.weight", 2), x("blk.0.c.weight", 4))
	f.Tensors[2].Shard = 1
	j := &Job{From: f, Threads: 1, Mix: Mix{Kind: 7, Base: gguf.Q8_0}, Set: []gguf.KV{{Key: "general.name", Value: "new"}, {Key: "general.more", Value: "x"}}}
	var err error
	if j.Choices, err = Choose(f, j.Mix, Options{}); err != nil {
		t.Fatal(err)
	}
	if want := uint64(34 * (3 + 2 + 4)); j.Bytes() != want {
		t.Errorf("%d bytes of tensors, want %d", j.Bytes(), want)
	}
	for _, r := range []struct {
		i, of int
		names []string
	}{
		{0, 1, []string{"blk.0.a.weight", "blk.0.c.weight", "blk.1.b.weight"}},
		{0, 2, []string{"blk.1.b.weight", "blk.0.a.weight"}}, {1, 2, []string{"blk.0.c.weight"}},
	} {
		var out bytes.Buffer
		n, err := j.WriteShard(t.Context(), &out, r.i, r.of)
		if err != nil || n != int64(out.Len()) {
			t.Fatalf("%d bytes of %d, %v", n, out.Len(), err)
		}
		got, err := gguf.Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range got.Tensors {
			names = append(names, x.Name)
			if x.Type != gguf.Q8_0 {
				t.Errorf("%s is %v", x.Name, x.Type)
			}
		}
		if !slices.Equal(names, r.names) {
			t.Errorf("part %d of %d: %v, want %v", r.i, r.of, names, r.names)
		}
		kind, _ := got.Uint("general.file_type")
		version, _ := got.Uint("general.quantization_version")
		name, _ := got.Str("general.name")
		more, _ := got.Str("general.more")
		if r.i == 0 && (kind != 7 || version != 2 || name != "new" || more != "x") {
			t.Errorf("part %d of %d: type %d, version %d, name %q, %q", r.i, r.of, kind, version, name, more)
		}
		if _, ok := got.Value("general.name"); ok && r.i > 0 {
			t.Errorf("part %d says what the model is", r.i)
		}
		if part, err := got.Uint("split.no"); r.of > 1 && (part != uint64(r.i) || err != nil) || r.of == 1 && err == nil {
			t.Errorf("part %d of %d is %d, %v", r.i, r.of, part, err)
		}
		if count, _ := got.Uint("split.tensors.count"); r.of > 1 && count != 3 {
			t.Errorf("part %d of %d: of %d tensors", r.i, r.of, count)
		}
		if size, err := j.FileBytes(); r.of == 1 && (err != nil || size != uint64(out.Len())) {
			t.Errorf("%d bytes were said, %v; %d came", size, err, out.Len())
		}
	}
}

// What stays as it is goes through in pieces, each released once it is written, and ends between them.
func TestCopy(t *testing.T) {
	const step = 16 << 20
	x := &gguf.Tensor{Name: "x", Type: gguf.F32, Data: make([]byte, 2*step+4)}
	x.Data[step], x.Data[2*step] = 1, 2
	var at []int
	j := &Job{Threads: 1, Release: func(y *gguf.Tensor, from, n int) { at = append(at, from, n) }}
	var out bytes.Buffer
	if err := j.tensor(t.Context(), &out, &Choice{Tensor: x, To: gguf.F32}, Fast); err != nil || !bytes.Equal(out.Bytes(), x.Data) {
		t.Errorf("other bytes, or %v", err)
	}
	if want := []int{0, step, step, step, 2 * step, 4}; !slices.Equal(at, want) {
		t.Errorf("released were %v, want %v", at, want)
	}
	at, x.Data = nil, x.Data[:step]
	if err := j.tensor(t.Context(), &out, &Choice{Tensor: x, To: gguf.F32}, Fast); err != nil || !slices.Equal(at, []int{0, step}) {
		t.Errorf("one whole piece: released were %v, %v", at, err)
	}
	full, w := io.Pipe()
	full.CloseWithError(io.ErrShortWrite)
	if err := j.tensor(t.Context(), w, &Choice{Tensor: x, To: gguf.F32}, Fast); err != io.ErrShortWrite {
		t.Errorf("an output that is full: %v", err)
	}
	x.Data = x.Data[:2*step]
	j.Release = nil
	written := &countedWriter{}
	if err := j.tensor(&endingContext{Context: t.Context(), left: 1}, written, &Choice{Tensor: x, To: gguf.F32}, Fast); !errors.Is(err, context.Canceled) || written.n != step {
		t.Errorf("ended after a piece: %v, %d bytes were written", err, written.n)
	}
	// So does what is encoded.
	y := &gguf.Tensor{Name: "y", Type: gguf.F32, Dims: []uint64{256, 3000}, Data: ramp(256, 3000)}
	written.n = 0
	if err := j.tensor(&endingContext{Context: t.Context(), left: 1}, written, &Choice{Tensor: y, To: gguf.Q8_0}, Fast); !errors.Is(err, context.Canceled) || written.n != RowBytes(gguf.Q8_0, 256)*partWeights/256 {
		t.Errorf("ended after a part: %v, %d bytes were written", err, written.n)
	}
}

// Weights that are no numbers, and types that cannot be read, end a job by each method.
func TestWeightsThatAreNone(t *testing.T) {
	weights := floats(ramp(256, 4))
	weights[700] = float32(math.NaN())
	for _, x := range []*gguf.Tensor{
		{Name: "x", Type: gguf.F32, Dims: []uint64{256, 4}, Data: bytesOf(weights)}, {Name: "x", Type: gguf.I32, Dims: []uint64{256, 4}, Data: make([]byte, 4*1024)},
	} {
		c := &Choice{Tensor: x, To: gguf.Q4_0}
		j := &Job{Threads: 1}
		for _, method := range []Method{Fast, Search} {
			if err := j.tensor(t.Context(), io.Discard, c, method); err == nil {
				t.Errorf("%v by %v: no error", x.Type, method)
			}
		}
		if err := j.measure(t.Context(), []Sized{{Choice: *c}, {Choice: *c}}); err == nil {
			t.Errorf("%v was measured", x.Type)
		}
	}
}

type countedWriter struct{ n int }

func (w *countedWriter) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}
