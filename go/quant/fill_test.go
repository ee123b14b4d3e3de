package quant

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// sized are types of one tensor, of these sizes and errors.
func sized(pairs ...[2]float64) []Sized {
	var types []Sized
	for i, p := range pairs {
		x := &gguf.Tensor{Name: "x", Dims: []uint64{256, 1}}
		types = append(types, Sized{Choice{Tensor: x, To: gguf.Type(i)}, uint64(p[0]), p[1]})
	}
	return types
}

// What is chosen fits the budget and leaves no room for a larger type of any tensor. Where the budget is what tensors take
// that each choose by a price of a byte, the loss is the least of all choices that fit.
func TestFillIsTheLeastLoss(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a := &Allocation{}
		for range 3 {
			bytes, loss := float64(1+random.IntN(9)), 1.0
			types := sized()
			for range 1 + random.IntN(4) {
				types = append(types, sized([2]float64{bytes, loss})...)
				bytes, loss = bytes+float64(1+random.IntN(9)), loss*random.Float64()
			}
			a.Tensors = append(a.Tensors, Allocated{Types: types, Weight: 0.5 + random.Float64()})
		}
		chosen := func() (bytes uint64, loss float64) {
			for i := range a.Tensors {
				bytes += a.Chosen(i).Bytes
				loss += a.Tensors[i].Weight * a.Chosen(i).Error
			}
			return bytes, loss
		}
		least, most := a.Bounds()
		for budget := least; budget <= most+1; budget++ {
			a.Fill(budget)
			bytes, _ := chosen()
			if bytes > budget {
				t.Fatalf("%d bytes were chosen of %d", bytes, budget)
			}
			for i := range a.Tensors {
				if x := &a.Tensors[i]; x.chosen+1 < len(x.Types) && bytes+x.Types[x.chosen+1].Bytes-x.Types[x.chosen].Bytes <= budget {
					t.Fatalf("%d bytes of %d, and tensor %d could be larger", bytes, budget, i)
				}
			}
		}
		if bytes, _ := chosen(); bytes != most {
			t.Fatalf("%d bytes of %d, which all could have", bytes, most)
		}
		if a.Fill(least - 1); a.Tensors[0].chosen+a.Tensors[1].chosen+a.Tensors[2].chosen != 0 {
			t.Fatal("less than the smallest is not the smallest")
		}
		for price := 1.0; price > 1e-3; price /= 1.7 {
			var budget uint64
			want := 0.0
			for _, x := range a.Tensors {
				best := slices.MinFunc(x.Types, func(a, b Sized) int {
					cost := func(s Sized) float64 { return x.Weight*s.Error + price*float64(s.Bytes) }
					return int(math.Copysign(1, cost(a)-cost(b)))
				})
				budget, want = budget+best.Bytes, want+x.Weight*best.Error
			}
			a.Fill(budget)
			if bytes, loss := chosen(); bytes != budget || math.Abs(loss-want) > 1e-12 {
				t.Fatalf("%d bytes of %d lose %v, want %v", bytes, budget, loss, want)
			}
		}
	}
}

// Of equals the first has what there is room for.
func TestFillEquals(t *testing.T) {
	a := &Allocation{Tensors: []Allocated{{Types: sized([2]float64{1, 3}, [2]float64{2, 1}), Weight: 1}, {Types: sized([2]float64{1, 3}, [2]float64{2, 1}), Weight: 1}}}
	if a.Fill(3); a.Chosen(0).Bytes != 2 || a.Chosen(1).Bytes != 1 {
		t.Errorf("the first has %d bytes, the second %d", a.Chosen(0).Bytes, a.Chosen(1).Bytes)
	}
}

// A tensor is rounded to the type that was chosen for it, or where that rounds nothing to the next smaller one that does.
func TestRounding(t *testing.T) {
	types := sized([2]float64{1, 3}, [2]float64{2, 2}, [2]float64{3, 1}, [2]float64{4, 0})
	for chosen, want := range []uint64{1, 2, 3, 3} {
		p := &Probe{From: &Allocation{Tensors: []Allocated{{Types: types, chosen: chosen}}}}
		if got := p.rounding(0); got == nil || got.Bytes != want {
			t.Errorf("chosen are %d bytes, rounded %+v", 1+chosen, got)
		}
	}
	p := &Probe{From: &Allocation{Tensors: []Allocated{{Types: types[:3], chosen: 2}}}}
	if got := p.rounding(0); got == nil || got.Bytes != 3 {
		t.Errorf("the largest rounds something: rounded %+v", got)
	}
	for _, types := range [][]Sized{sized([2]float64{4, 0}), sized([2]float64{3, 0}, [2]float64{4, 0})} {
		if got := (&Probe{From: &Allocation{Tensors: []Allocated{{Types: types}}}}).rounding(0); got != nil {
			t.Errorf("%d types without an error: %+v", len(types), got)
		}
	}
	if _, err := offsets(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a copy that is not there: %v", err)
	}
}

// Of a tensor's types those are left that are the best of their size or below, the smallest first.
func TestPrune(t *testing.T) {
	x := &Allocated{Types: sized([2]float64{9, 0}, [2]float64{5, 3}, [2]float64{2, 7}, [2]float64{5, 2}, [2]float64{6, 2}, [2]float64{7, 4}, [2]float64{2, 8})}
	x.prune()
	var left [][2]float64
	for _, s := range x.Types {
		left = append(left, [2]float64{float64(s.Bytes), s.Error})
	}
	if want := [][2]float64{{2, 7}, {5, 2}, {9, 0}}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// A file is called by the type that most weights have, by the first mix of that type, and never as one of experts.
func TestMixOf(t *testing.T) {
	of := func(to gguf.Type, rows uint64) Choice {
		return Choice{Tensor: &gguf.Tensor{Dims: []uint64{32, rows}}, To: to}
	}
	for want, choices := range map[string][]Choice{
		"F32":    nil,
		"Q5_K_M": {of(gguf.Q6_K, 2), of(gguf.Q6_K, 2), of(gguf.Q5_K, 5)},
		"Q6_K":   {of(gguf.Q6_K, 2), of(gguf.Q6_K, 3), of(gguf.Q8_0, 1), of(gguf.Q5_K, 4)},
		"Q4_0":   {of(gguf.MXFP4, 5), of(gguf.Q4_0, 1)},
		"Q8_0":   {of(gguf.Q6_K, 2), of(gguf.Q8_0, 2)}, // the first of equals
		"IQ1_S":  {of(gguf.IQ1_S, 1)},
	} {
		if got := MixOf(choices); got.Name != want {
			t.Errorf("%s, want %s", got.Name, want)
		}
	}
}

// ramp are rows of n weights that grow from row to row, from 1.
func ramp(n, rows int) []byte {
	v := make([]float32, n*rows)
	for i := range v {
		v[i] = float32(1+i/n) * float32(math.Sin(float64(i)*1.7))
	}
	return bytesOf(v)
}

// model is a file of these tensors, of floats.
func model(kvs []gguf.KV, tensors ...gguf.Tensor) *gguf.File {
	w := gguf.NewWriter()
	for _, kv := range kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	var b strings.Builder
	if _, err := w.WriteTo(&b); err != nil {
		panic(err)
	}
	f, err := gguf.Parse([]byte(b.String()))
	if err != nil {
		panic(err)
	}
	return f
}

var llama = []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(3)}}

// The last matrix counts as many times as there are layers, where the file says how many.
func TestLastMatrix(t *testing.T) {
	embed := gguf.Tensor{Name: "token_embd.weight", Type: gguf.F32, Dims: []uint64{32}, Data: ramp(32, 1)}
	out := embed
	out.Name = "output.weight"
	arch := llama[:1]
	for _, r := range []struct {
		f      *gguf.File
		name   string
		weight float64
	}{
		{model(llama, embed, out), "output.weight", 3}, {model(llama, embed), "token_embd.weight", 3}, {model(arch, out), "output.weight", 1},
		{model(nil, embed), "token_embd.weight", 1},
		{model(append(slices.Clone(arch), gguf.KV{Key: "llama.block_count", Value: uint32(0)}), embed), "token_embd.weight", 1},
	} {
		if name, weight := lastMatrix(r.f); name != r.name || weight != r.weight {
			t.Errorf("%s counts %v, want %s, %v", name, weight, r.name, r.weight)
		}
	}
}

// The types of a tensor are smaller than what it is, fit its rows, need no importance that there is not, and the largest of
// them is what it is, or halves of floats.
func TestTypesOfAllocation(t *testing.T) {
	tensor := func(name string, typ gguf.Type, n, rows int) gguf.Tensor {
		data := ramp(n, rows)
		if typ != gguf.F32 {
			to := make([]byte, rows*RowBytes(typ, n))
			if err := Encode(typ, to, floats(data), n, nil); err != nil {
				t.Fatal(err)
			}
			data = to
		}
		return gguf.Tensor{Name: name, Type: typ, Dims: []uint64{uint64(n), uint64(rows)}, Data: data}
	}
	f := model(llama, tensor("blk.0.attn_k.weight", gguf.F32, 256, 4), tensor("blk.0.attn_norm.weight", gguf.F32, 32, 1),
		tensor("blk.0.attn_q.weight", gguf.Q8_0, 256, 4), tensor("blk.0.attn_v.weight", gguf.F16, 32, 4), tensor("blk.0.ffn_up.weight", gguf.F32, 33, 2),
		tensor("blk.0.ffn_down.weight", gguf.F32, 256, 4), tensor("token_embd.weight", gguf.F32, 256, 4), tensor("blk.0.attn_output.weight", gguf.Q3_K, 256, 4))
	var counted []uint64
	j := &Job{From: f, Threads: 2, Requantize: true, Done: func(n uint64) { counted = append(counted, n) }}
	o := Options{Overrides: []Override{{Pattern: someRegexp("ffn_down"), Type: gguf.Q5_1}}}
	a, err := NewAllocation(t.Context(), j, o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]gguf.Type{
		"blk.0.attn_k.weight":      {gguf.Q2_K, gguf.F16},
		"blk.0.attn_norm.weight":   {gguf.F32, gguf.F32},
		"blk.0.attn_output.weight": {gguf.Q2_K, gguf.Q3_K}, // no others
		"blk.0.attn_q.weight":      {gguf.Q2_K, gguf.Q8_0},
		"blk.0.attn_v.weight":      {gguf.IQ4_NL, gguf.F16},
		"blk.0.ffn_up.weight":      {gguf.F16, gguf.F16},
		"blk.0.ffn_down.weight":    {gguf.Q5_1, gguf.Q5_1},
		// Without importance, of tables llama-quantize takes types that it takes of no other matrix.
		"token_embd.weight": {gguf.IQ2_S, gguf.F16},
	}
	elems, read := uint64(0), uint64(0)
	for i, x := range a.Tensors {
		first, last := x.Types[0], x.Types[len(x.Types)-1]
		if w := want[first.Name]; first.To != w[0] || last.To != w[1] {
			t.Errorf("%s is %v to %v, want %v", first.Name, first.To, last.To, w)
		}
		for k, s := range x.Types {
			size, err := s.To.Size(s.Dims)
			if err != nil || s.Bytes != size || s.Wanted != s.To || s.Type != s.To && len(x.Types) > 1 && !(s.Error > 0 && s.Error < 1) {
				t.Errorf("%s: %v in place of %v, %d bytes, want %d, with an error of %v", s.Name, s.To, s.Wanted, s.Bytes, size, s.Error)
			}
			if k > 0 && (s.Bytes <= x.Types[k-1].Bytes || s.Error >= x.Types[k-1].Error) {
				t.Errorf("%s: %v after %v", s.Name, s.To, x.Types[k-1].To)
			}
			if s.To == s.Type && s.Error != 0 {
				t.Errorf("%s: %v of itself has an error of %v", s.Name, s.To, s.Error)
			}
		}
		elems += first.Elems()
		if read += uint64(len(first.Data)); i >= len(counted) || counted[i] != read {
			t.Errorf("%s: %v bytes were counted, want %d", first.Name, counted, read)
		}
	}
	if a.Elems() != elems {
		t.Errorf("%d weights, want %d", a.Elems(), elems)
	}
	if j.read != 0 {
		t.Errorf("a job that was measured begins at %d bytes", j.read)
	}
	j.Importance = Importance{"blk.0.attn_q.weight": make([]float32, 3)}
	if _, err := NewAllocation(t.Context(), j, o); err == nil || !strings.HasPrefix(err.Error(), "tensor blk.0.attn_q.weight: the importance matrix has 3 columns, the tensor 256") {
		t.Errorf("importance of another model: %v", err)
	}
	j.Importance, j.Requantize = nil, false
	if _, err := NewAllocation(t.Context(), j, o); err == nil || !strings.HasPrefix(err.Error(), "tensor blk.0.attn_output.weight: it is Q3_K already") {
		t.Errorf("a type that may not be taken: %v", err)
	}
	j.Requantize = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewAllocation(ctx, j, o); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "tensor ") {
		t.Errorf("measuring that was ended: %v", err)
	}
	if a, err := NewAllocation(t.Context(), &Job{From: model(llama, tensor("blk.0.attn_q.weight", gguf.Q8_0, 256, 4)), Threads: 1},
		Options{Overrides: []Override{{Pattern: someRegexp("attn_q"), Type: gguf.Q5_1}}}); err != nil || len(a.Tensors[0].Types) != 1 {
		t.Errorf("without a choice there is nothing to measure: %v", err)
	}
	if _, err := NewAllocation(t.Context(), &Job{From: model(llama, tensor("blk.0.attn_q.weight", gguf.Q3_K, 256, 4)), Threads: 1}, o); err == nil {
		t.Error("of two types one may not be taken")
	}
	if _, err := NewAllocation(t.Context(), &Job{From: model(nil, tensor("x.weight", gguf.F32, 32, 2)), Threads: 1}, o); err == nil {
		t.Error("a file without an architecture was measured")
	}
}
