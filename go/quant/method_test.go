package quant_test

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/quant"
)

// alike are products of n columns of which those less than 1/how apart are alike.
func alike(n, span, matrices int, how float64) []float32 {
	var all []float32
	for m := range matrices {
		for at := 0; at < n; at += span {
			w := min(span, n-at)
			for i := range w {
				for j := range w {
					all = append(all, float32(math.Exp(-how*math.Abs(float64(i-j)))*float64(1+m)))
				}
			}
		}
	}
	return all
}

// What the methods write is of the same size, loses less by their own measures, each expert by its own, and does not depend
// on threads; products of another model are refused.
func TestMethods(t *testing.T) {
	const how = 0.05
	f := peerModel(t, t.TempDir(), "TinyStories-656K-moe4x2-f16")
	importance, err := someMatrix(f).Importance()
	if err != nil {
		t.Fatal(err)
	}
	mix, err := quant.ParseMix("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0 // columns that products have too many
	write := func(method quant.Method, threads int) ([]byte, error) {
		j := &quant.Job{From: f, Mix: mix, Threads: threads, Importance: importance, Method: method}
		j.Hessian = func(_ context.Context, x *gguf.Tensor) (*quant.Hessian, error) {
			n, matrices := int(x.Dims[0])+wrong, 1
			if len(x.Dims) > 2 {
				matrices = int(x.Dims[2])
			}
			if strings.Contains(x.Name, "attn_k") {
				return nil, nil // is searched
			}
			return &quant.Hessian{Columns: n, Span: min(256, n), Products: alike(n, min(256, n), matrices, how)}, nil
		}
		if j.Choices, err = quant.Choose(f, mix, quant.Options{Importance: importance}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, err := j.WriteShard(context.Background(), &out, 0, 1)
		return out.Bytes(), err
	}
	all := map[quant.Method]*gguf.File{}
	size := 0
	for method, name := range quant.Methods() {
		m, err := quant.ParseMethod(name)
		if err != nil || m != quant.Method(method) || m.String() != name {
			t.Fatalf("%q is %v, %v", name, m, err)
		}
		b, err := write(m, 1)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := write(m, 3); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%v: other bytes with three threads, %v", m, err)
		}
		if size == 0 {
			size = len(b)
		}
		if len(b) != size {
			t.Errorf("%v: %d bytes, others have %d", m, len(b), size)
		}
		if all[m], err = gguf.Parse(b); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range f.Tensors {
		if of, _ := all[quant.Fast].Tensor(x.Name); of.Type == x.Type {
			continue
		}
		n := int(x.Dims[0])
		h := alike(n, min(256, n), 1, how)
		loss := func(m quant.Method) (weighted, correlated float64) {
			of, _ := all[m].Tensor(x.Name)
			v, w := make([]float32, n), make([]float32, n)
			for row := range int(x.Elems()) / n {
				if err := quant.Decode(x.Type, v, x.Data[row*2*n:][:2*n]); err != nil {
					t.Fatal(err)
				}
				size := quant.RowBytes(of.Type, n)
				if err := quant.Decode(of.Type, w, of.Data[row*size:][:size]); err != nil {
					t.Fatal(err)
				}
				columns := importance[x.Name]
				for i := range n {
					e := float64(v[i] - w[i])
					c := 1.0
					if columns != nil {
						mean := 0.0
						for _, u := range v[i/32*32:][:32] {
							mean += float64(u) * float64(u) / 32
						}
						c = float64(columns[(row/int(x.Dims[1])*n+i)%len(columns)]) * math.Sqrt(mean+float64(v[i])*float64(v[i]))
					}
					weighted += c * e * e
				}
				for at, rest := 0, h; at < n; at += 256 {
					wide := min(256, n-at)
					for i := range wide {
						for j := range wide {
							correlated += float64(v[at+i]-w[at+i]) * float64(v[at+j]-w[at+j]) * float64(rest[i*wide+j])
						}
					}
					rest = rest[wide*wide:]
				}
			}
			return weighted, correlated
		}
		fastWeighted, _ := loss(quant.Fast)
		weighted, correlated := loss(quant.Search)
		_, corrected := loss(quant.GPTQ)
		if weighted > fastWeighted*(1+1e-6) {
			t.Errorf("%s: a search loses %g, %g without", x.Name, weighted, fastWeighted)
		}
		if strings.Contains(x.Name, "attn_k") {
			if corrected != correlated {
				t.Errorf("%s is not as searched", x.Name)
			}
		} else if corrected > 0.5*correlated {
			t.Errorf("%s: %g is lost where errors are made good, %g where not", x.Name, corrected, correlated)
		}
	}
	if _, err := quant.ParseMethod("best"); err == nil || !strings.Contains(err.Error(), "fast, search, gptq") {
		t.Errorf("got %v", err)
	}
	wrong = 32
	if _, err := write(quant.GPTQ, 1); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("products of other columns: %v", err)
	}
}

// Products that no inputs have are an error, and products of no inputs, an expert's that no token chose, are not.
func TestHessian(t *testing.T) {
	f := peerModel(t, t.TempDir(), "rows")
	mix, err := quant.ParseMix("Q4_K_S")
	if err != nil {
		t.Fatal(err)
	}
	var fill float32
	j := &quant.Job{From: f, Mix: mix, Threads: 2, Method: quant.GPTQ}
	j.Hessian = func(_ context.Context, x *gguf.Tensor) (*quant.Hessian, error) {
		n := int(x.Dims[0])
		h := &quant.Hessian{Columns: n, Span: 256, Products: make([]float32, kernel.SpanFloats(n, 256))}
		for i := range h.Products {
			h.Products[i] = fill
		}
		return h, nil
	}
	if j.Choices, err = quant.Choose(f, mix, quant.Options{}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := j.WriteShard(context.Background(), &out, 0, 1); err != nil {
		t.Errorf("no inputs: %v", err)
	}
	fill = float32(math.NaN())
	if _, err := j.WriteShard(context.Background(), &out, 0, 1); err == nil || !strings.Contains(err.Error(), "NaN") || !strings.Contains(err.Error(), "weight") {
		t.Errorf("inputs that are no numbers: %v", err)
	}
}
