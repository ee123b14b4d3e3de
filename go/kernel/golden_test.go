package kernel

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

const goldenDir = "../../scripts/golden"

// A goldenCase is one of ops.json: see scripts/golden.py.
type goldenCase struct {
	Name, Op string
	Params   struct {
		Type        string
		GGMLType    Type `json:"ggml_type"`
		Rows, Cols  int
		NTok        int `json:"n_tok"`
		NPast       int `json:"n_past"`
		Fn          string
		NHead       int `json:"n_head"`
		NHeadKV     int `json:"n_head_kv"`
		HeadDim     int `json:"head_dim"`
		NExpert     int `json:"n_expert"`
		NUsed       int `json:"n_expert_used"`
		Renormalise bool
		Gating      string
		Groups      int
		GroupsUsed  int `json:"groups_used"`
		Eps         float32
		KVType      string `json:"kv_type"`
		Window      int
		Softcap     float32
		Cap, Scale  float32 // of back.json
		Centred     bool
		Targets     []int32
		Sinks       []float32
		Weights     []float32
	}
	Tensors map[string]struct {
		DType  string
		Shape  []int
		Offset int
		Bytes  int
	}
	data []byte
}

func goldenCases(tb testing.TB, file string) []goldenCase {
	tb.Helper()
	var index struct {
		Data  string
		Cases []goldenCase
	}
	raw, err := os.ReadFile(filepath.Join(goldenDir, file))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(goldenDir, index.Data))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range index.Cases {
		index.Cases[i].data = data
	}
	return index.Cases
}

func (c *goldenCase) raw(name string) []byte {
	t := c.Tensors[name]
	return c.data[t.Offset : t.Offset+t.Bytes]
}

// values returns a tensor as float64, whatever it is stored as.
func (c *goldenCase) values(tb testing.TB, name string) []float64 {
	tb.Helper()
	b := c.raw(name)
	var v []float64
	for le := binary.LittleEndian; len(b) > 0; {
		switch c.Tensors[name].DType {
		case "f64":
			v, b = append(v, math.Float64frombits(le.Uint64(b))), b[8:]
		case "f32":
			v, b = append(v, float64(math.Float32frombits(le.Uint32(b)))), b[4:]
		case "i32":
			v, b = append(v, float64(int32(le.Uint32(b)))), b[4:]
		case "f16":
			var y [1]float32
			if err := Dequantize(F16, y[:], b[:2]); err != nil {
				tb.Fatal(err)
			}
			v, b = append(v, float64(y[0])), b[2:]
		default:
			tb.Fatalf("tensor %s of %s", name, c.Tensors[name].DType)
		}
	}
	if len(v) == 0 {
		tb.Fatalf("no tensor %s", name)
	}
	return v
}

// vector returns a tensor of floats outside the Go heap, nil where the case has none.
func (c *goldenCase) vector(tb testing.TB, name string) []float32 {
	if _, ok := c.Tensors[name]; !ok {
		return nil
	}
	return mem.Float32s(c.off(tb, name))
}

// off returns tensor bytes outside the Go heap.
func (c *goldenCase) off(tb testing.TB, name string) []byte {
	b := alloc(tb, len(c.raw(name)))
	copy(b, c.raw(name))
	return b
}

// Every operation, against vectors that share no code with it. Rotations need a
// model's frequencies: they are tested where those are made.
func TestGoldenOps(t *testing.T) {
	runGolden(t, goldenCases(t, "ops.json"), map[string]func(*testing.T, *goldenCase){
		"dequant": goldenDequant, "matmul": goldenMatmul, "rmsnorm": goldenNorm, "layernorm": goldenNorm, "glu": goldenGLU, "softcap": goldenSoftcap, "conv": goldenConv,
		"attend": goldenAttend, "moe_route": goldenRoute, "softmax": goldenSoftmax, "convert": goldenConvert,
	}, "rope")
}

// runGolden tests each case by its operation, but for those that are tested elsewhere.
func runGolden(t *testing.T, cases []goldenCase, tests map[string]func(*testing.T, *goldenCase), elsewhere ...string) {
	ran := map[string]int{}
	for _, c := range cases {
		if f := tests[c.Op]; f != nil {
			ran[c.Op]++
			t.Run(c.Name, func(t *testing.T) { f(t, &c) })
		} else if !slices.Contains(elsewhere, c.Op) {
			t.Errorf("%s: nothing tests %q", c.Name, c.Op)
		}
	}
	for op := range tests {
		if ran[op] == 0 {
			t.Errorf("no golden case of %s", op)
		}
	}
}

func goldenDequant(t *testing.T, c *goldenCase) {
	p, want := c.Params, c.values(t, "y")
	row := RowBytes(p.GGMLType, p.Cols)
	y := make([]float32, p.Cols)
	for r := range p.Rows {
		if err := Dequantize(p.GGMLType, y, c.raw("w")[r*row:(r+1)*row]); err != nil {
			t.Fatal(err)
		}
		for i, got := range y {
			if w := want[r*p.Cols+i]; float64(got) != w {
				t.Fatalf("row %d, column %d is %g, want %g", r, i, got, w)
			}
		}
	}
}

func goldenMatmul(t *testing.T, c *goldenCase) {
	goldenProduct(t, c, false)
	if c.Params.GGMLType.Act().Eight() {
		goldenProduct(t, c, true)
	}
}

func goldenProduct(t *testing.T, c *goldenCase, fine bool) {
	p := c.Params
	rows := Matrix{Data: c.off(t, "w"), Type: p.GGMLType, In: p.Cols, Out: p.Rows, N: 1}
	packed := rows
	packed.Layout = X16
	packed.Data = alloc(t, packed.Bytes())
	kind := p.GGMLType.Act()
	specs := []BufSpec{{Width: Pad(p.Cols)}, {Kind: kind, Width: Pad(p.Cols), Fine: fine}, {Width: 2 * Pad(p.Rows)}}
	g := newRig(t, specs, p.NTok, 1, 1)
	if err := g.pool.PackMat(packed.Data, rows); err != nil {
		t.Fatal(err)
	}
	g.tokens(p.NTok)
	g.set(0, c.values(t, "x"), p.Cols)
	act := Act{kind: 1}
	g.run(t, ToAct{Act: act, Src: 0, Cols: p.Cols},
		Matmul{Dst: 2, Act: act, Parts: []Part{{Matrix: packed}, {Matrix: rows, Col: Pad(p.Rows)}}})
	// Sums of floats: 8 roundings of the sum of magnitudes. With activations of
	// 8 bits each is off by up to 1/254 of its block's largest, at random: in
	// sums of 256 and more that is below 1/1000 of the magnitudes, measured, and
	// a scale that is wrong for 32 of 512 columns is 1/60.
	// With 8 bits more they are off by a 250th of that.
	tolerance := 1e-6
	if fine {
		tolerance = 3e-3 / 250
	} else if kind != ActF32 {
		tolerance = 3e-3
	}
	want, abs := c.values(t, "y"), c.values(t, "abs")
	for i := range p.NTok {
		for j := range p.Rows {
			for k, what := range []string{"packed", "by rows"} {
				got, at := float64(g.bufs.Row(2, i)[k*Pad(p.Rows)+j]), i*p.Rows+j
				if !(math.Abs(got-want[at]) <= tolerance*abs[at]) {
					t.Fatalf("%s, fine %v, token %d, row %d is %g, want %g, off by %.2g of the terms", what, fine, i, j, got, want[at], math.Abs(got-want[at])/abs[at])
				}
			}
		}
	}
}

// set fills a buffer of floats with rows of n values.
func (r *rig) set(buf Buf, v []float64, n int) {
	for i := range len(v) / n {
		row := r.bufs.Row(buf, i)
		for j := range n {
			row[j] = float32(v[i*n+j])
		}
	}
}

// act reads an element of float activations.
func (r *rig) act(buf Buf, row, col, rows int) float32 {
	at := 4 * ((col/actBlock*rows+row)*actBlock + col%actBlock)
	return mem.Float32s(r.bufs.at[buf][at : at+4])[0]
}

// A norm, into activations and into rows, stored and added.
func goldenNorm(t *testing.T, c *goldenCase) {
	shape := c.Tensors["x"].Shape
	tok, n := shape[0], shape[1]
	kind := RMS
	if c.Op == "layernorm" {
		kind = LayerNorm
	}
	g := newRig(t, []BufSpec{{Width: Pad(n)}, {Kind: ActF32, Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}}, tok, 1, 1)
	g.tokens(tok)
	g.set(0, c.values(t, "x"), n)
	g.set(3, c.values(t, "x"), n)
	w, b := c.vector(t, "w"), c.vector(t, "b")
	rows := NormRows{Dst: 2, Src: 0, Cols: n, Segs: 1, Kind: kind, Weight: w, Bias: b, Eps: c.Params.Eps, Scale: 0.5}
	added := rows
	added.Dst, added.Epilogue = 3, Add
	g.run(t, Norm{Act: Act{ActF32: 1}, Src: 0, Cols: n, Kind: kind, Weight: w, Bias: b, Eps: c.Params.Eps}, rows, added)
	x := c.values(t, "x")
	for i, want := range c.values(t, "y") {
		// Where the mean is taken away, what is left is off by what the mean is.
		tolerance := 1e-6 * math.Abs(want)
		if kind == LayerNorm {
			row := x[i/n*n : i/n*n+n]
			size := slices.Max(row) - slices.Min(row) + math.Sqrt(float64(c.Params.Eps))
			tolerance += 1e-6 * (1 + largest(row)/size) * (1 + math.Abs(float64(w[i%n])))
		}
		if got := float64(g.act(1, i/n, i%n, tok)); !(math.Abs(got-want) <= tolerance) {
			t.Fatalf("token %d, column %d is %g, want %g", i/n, i%n, got, want)
		}
		if got := float64(g.bufs.Row(2, i/n)[i%n]); !(math.Abs(got-want/2) <= tolerance) {
			t.Fatalf("token %d, column %d of rows is %g, want %g", i/n, i%n, got, want/2)
		}
		if got, want := float64(g.bufs.Row(3, i/n)[i%n]), x[i]+want/2; !(math.Abs(got-want) <= tolerance+1e-7*math.Abs(want)) {
			t.Fatalf("token %d, column %d added is %g, want %g", i/n, i%n, got, want)
		}
	}
}

// pick is a matrix that picks n columns of `of`, from number `from` on.
func pick(t *testing.T, from, n, of int) Matrix {
	m := Matrix{Data: alloc(t, 4*n*of), Type: F32, In: of, Out: n, N: 1}
	for i := range n {
		mem.Float32s(m.Data)[i*of+from+i] = 1
	}
	return m
}

// gate and up come out of matrices that pick their half of the activations, or
// one of them of a buffer.
func goldenGLU(t *testing.T, c *goldenCase) {
	fn := map[string]Fn{"silu": SiLU, "sigmoid": Sigmoid, "gelu": GELU, "gelu_erf": GELUErf, "relu2": ReLU2}[c.Params.Fn]
	gate, up := c.values(t, "gate"), c.values(t, "up")
	n := len(gate)
	g := newRig(t, []BufSpec{{Width: Pad(2 * n)}, {Kind: ActF32, Width: Pad(2 * n)}, {Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}}, 1, 1, 1)
	g.tokens(1)
	g.set(0, append(append([]float64{}, gate...), up...), 2*n)
	g.set(4, up, n)
	act := Act{ActF32: 1}
	one, two := Part{Matrix: pick(t, 0, n, 2*n)}, Part{Matrix: pick(t, n, n, 2*n)}
	g.run(t, ToAct{Act: act, Src: 0, Cols: 2 * n},
		Matmul{Dst: 2, Act: act, Epilogue: GLU, Fn: fn, Parts: []Part{one, two}},
		Matmul{Dst: 3, Act: act, Epilogue: Apply, Fn: fn, Parts: []Part{one}},
		Gate{Dst: 4, Src: 0, Cols: n, Fn: fn})
	plain := c.values(t, "plain")
	for i, want := range c.values(t, "y") {
		// Far below zero e^-g leaves the range of floats: there 0 is right enough. The
		// Gaussian ones are cut off earlier.
		least := 1e-36
		if fn == GELU || fn == GELUErf {
			least = 3e-7
		}
		for what, got := range map[string]float64{"product": float64(g.bufs.Row(2, 0)[i]), "gate": float64(g.bufs.Row(4, 0)[i])} {
			if !(math.Abs(got-want) <= 1e-6*math.Abs(want)+least*(1+math.Abs(up[i]))) {
				t.Errorf("%s of %g and %g: %g, want %g", what, gate[i], up[i], got, want)
			}
		}
		if got := float64(g.bufs.Row(3, 0)[i]); !(math.Abs(got-plain[i]) <= 1e-6*math.Abs(plain[i])+least) {
			t.Errorf("of %g: %g, want %g", gate[i], got, plain[i])
		}
	}
}

func goldenSoftcap(t *testing.T, c *goldenCase) {
	x := c.values(t, "x")
	n := len(x)
	g := newRig(t, []BufSpec{{Width: Pad(n)}, {Kind: ActF32, Width: Pad(n)}, {Width: Pad(n)}}, 1, 1, 1)
	g.tokens(1)
	g.set(0, x, n)
	act := Act{ActF32: 1}
	g.run(t, ToAct{Act: act, Src: 0, Cols: n}, Matmul{Dst: 2, Act: act, Softcap: c.Params.Softcap, Parts: []Part{{Matrix: pick(t, 0, n, n)}}})
	for i, want := range c.values(t, "y") {
		if got := float64(g.bufs.Row(2, 0)[i]); !(math.Abs(got-want) <= 1e-6) {
			t.Errorf("of %g: %g, want %g", x[i], got, want)
		}
	}
}

// A convolution over all tokens, and over the last alone, from the state that the
// others left.
func goldenConv(t *testing.T, c *goldenCase) {
	nTok, n, taps := c.Tensors["a"].Shape[0], c.Tensors["a"].Shape[1], c.Tensors["w"].Shape[1]
	g := newRig(t, []BufSpec{{Width: 3 * Pad(n)}, {Width: Pad(n)}}, nTok, 1, 1)
	g.Batch.Close()
	state := ConvBytes(n, taps)
	var err error
	if g.Batch, err = NewBatch(nTok, 1, 1, nTok, []Group{{Bytes: state, PerSequence: true}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Batch.Close)
	g.SetState(0, alloc(t, 2*state), state)
	parts := [3][]float64{c.values(t, "a"), c.values(t, "b"), c.values(t, "c")}
	op := Conv{Dst: 1, Src: 0, Col: [3]int{0, Pad(n), 2 * Pad(n)}, Gated: true, Cols: n, Taps: taps, Weight: c.vector(t, "w")}
	want := c.values(t, "y")
	pass := func(from, to int, in, out int32) {
		g.Reset()
		g.AddSeq([]int32{in, out})
		for pos := from; pos < to; pos++ {
			g.Add(0, int32(pos))
			row := g.bufs.Row(0, pos-from)
			for k, x := range parts {
				for i := range n {
					row[k*Pad(n)+i] = float32(x[pos*n+i])
				}
			}
		}
		g.run(t, op)
		for i := range (to - from) * n {
			if got := float64(g.bufs.Row(1, i/n)[i%n]); !(math.Abs(got-want[from*n+i]) <= 2e-6) {
				t.Fatalf("tokens from %d: token %d, column %d is %g, want %g", from, from+i/n, i%n, got, want[from*n+i])
			}
		}
	}
	pass(0, nTok, -1, 0)
	pass(0, nTok-1, -1, 1)
	pass(nTok-1, nTok, 1, 0)
}

// kv returns a batch's memory for keys and values of one layer.
func (r *rig) kv(tb testing.TB, t KVTypes, nHeadKV, headDim, blocks int) []int32 {
	bytes := AlignUp(KVBytes(t, nHeadKV, headDim, headDim))
	r.SetState(0, alloc(tb, bytes*blocks), bytes)
	table := make([]int32, blocks)
	for i := range table { // backwards, so that the table counts
		table[i] = int32(blocks - 1 - i)
	}
	return table
}

func goldenAttend(t *testing.T, c *goldenCase) {
	p := c.Params
	total := p.NPast + p.NTok
	nq, nkv := p.NHead*p.HeadDim, p.NHeadKV*p.HeadDim
	q, k, v, want := c.values(t, "q"), c.values(t, "k"), c.values(t, "v"), c.values(t, "y")
	attend := Attend{Dst: 1, Window: p.Window, Softcap: p.Softcap, Sinks: c.vector(t, "sinks")}
	if slopes := c.vector(t, "slopes"); slopes != nil { // a number for each distance
		attend.Bias = Bias{Span: total, By: mem.Float32s(alloc(t, 4*p.NHead*BiasWidth(total)))}
		for h := range p.NHead {
			for i := -total; i <= total; i++ {
				attend.Bias.By[h*BiasWidth(total)+BiasAt(total, i)] = slopes[h] * float32(i)
			}
		}
	}
	types := []KVType{KVF32, KVI16}
	if p.KVType == "F16" {
		types = append(types, KVF16)
	}
	for _, typ := range types {
		specs := []BufSpec{{Width: Pad(nq) + 2*Pad(nkv)}, {Width: Pad(nq)}}
		g := newRig(t, specs, total, 1, 4)
		table := g.kv(t, KVTypes{typ, typ}, p.NHeadKV, p.HeadDim, 4)
		heads := Heads{
			NHead: p.NHead, NHeadKV: p.NHeadKV, HeadDim: p.HeadDim, KV: KVTypes{typ, typ},
			QKV: 0, Col: [3]int{0, Pad(nq), Pad(nq) + Pad(nkv)},
		}
		attend.Heads = heads
		pass := func(from, to int) {
			g.Reset()
			g.AddSeq(table)
			for pos := from; pos < to; pos++ {
				row := g.bufs.Row(0, pos-from)
				for i := range nq {
					row[i] = 0
					if pos >= p.NPast {
						row[i] = float32(q[(pos-p.NPast)*nq+i])
					}
				}
				for i := range nkv {
					row[heads.Col[1]+i], row[heads.Col[2]+i] = float32(k[pos*nkv+i]), float32(v[pos*nkv+i])
				}
				g.Add(0, int32(pos))
			}
			g.run(t, StoreKV{Heads: heads, Scale: float32(1 / math.Sqrt(float64(p.HeadDim)))}, attend)
		}
		if p.NPast > 0 {
			pass(0, p.NPast)
		}
		pass(p.NPast, total)
		// A score is a sum in floats, and what it is off by is what the weight of
		// its position is off by, relatively.
		qmax, kmax, vmax := largest(q), largest(k), largest(v)
		tolerance := (4e-7*qmax*kmax*math.Sqrt(float64(p.HeadDim)) + 2e-6) * vmax
		if typ == KVI16 { // queries, keys, values and weights are rounded to integers
			tolerance += (2e-5*qmax*kmax + 2e-4) * vmax
		}
		for i := range want {
			if got := float64(g.bufs.Row(1, i/nq)[i%nq]); !(math.Abs(got-want[i]) <= tolerance) {
				t.Fatalf("KV type %d: token %d, column %d is %g, want %g", typ, i/nq, i%nq, got, want[i])
			}
		}
	}
}

func largest(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		most = max(most, math.Abs(x))
	}
	return most
}

// experts runs a routing with experts that answer with their own number: what is
// combined is then the weight of each expert.
func experts(t *testing.T, logits []float64, nExpert, nUsed int, op MoeRoute) [][]float32 {
	tok := len(logits) / nExpert
	specs := []BufSpec{
		{Width: Pad(nExpert)}, // logits
		{Kind: Route, Width: Panel, NExpert: nExpert, NUsed: nUsed},
		{Width: 16}, // a one, and zeros
		{Kind: ActF32, Width: 16},
		{Kind: ActF32, Rows: PairRows, Width: 16, NExpert: nExpert, NUsed: nUsed},
		{Rows: PairRows, Width: Pad(nExpert), NExpert: nExpert, NUsed: nUsed},
		{Width: Pad(nExpert)}, // combined
	}
	g := newRig(t, specs, tok, 1, 1)
	g.tokens(tok)
	g.set(0, logits, nExpert)
	m := Matrix{Data: alloc(t, 4*nExpert*nExpert*16), Type: F32, In: 16, Out: nExpert, N: nExpert}
	for e := range nExpert {
		mem.Float32s(m.Data)[(e*nExpert+e)*16] = 1
	}
	for i := range tok {
		g.bufs.Row(2, i)[0] = 1
	}
	one, pair := Act{ActF32: 3}, Act{ActF32: 4}
	op.Dst, op.Src, op.Scale = 1, 0, 1
	g.run(t, op, ToAct{Act: one, Src: 2, Cols: 16},
		MoeGather{Dst: pair, Src: one, Cols: 16, Route: 1},
		Matmul{Dst: 5, Act: pair, Rows: PairRows, Route: 1, Parts: []Part{{Matrix: m}}},
		MoeCombine{Dst: 6, Src: 5, Route: 1})
	got := make([][]float32, tok)
	for i := range got {
		got[i] = g.bufs.Row(6, i)[:nExpert]
	}
	return got
}

func goldenRoute(t *testing.T, c *goldenCase) {
	p := c.Params
	gating, ok := map[string]Gating{"": GateSoftmax, "softmax": GateSoftmax, "sigmoid": GateSigmoid, "chosen": GateChosen}[p.Gating]
	if !ok {
		t.Fatalf("gating %q", p.Gating)
	}
	got := experts(t, c.values(t, "logits"), p.NExpert, p.NUsed, MoeRoute{
		Gating: gating, Bias: c.vector(t, "bias"), Groups: p.Groups, GroupsUsed: p.GroupsUsed, Renorm: p.Renormalise,
	})
	ids, weights := c.values(t, "ids"), c.values(t, "weights")
	for i, row := range got {
		want := make([]float64, p.NExpert)
		for k := range p.NUsed {
			want[int(ids[i*p.NUsed+k])] = weights[i*p.NUsed+k]
		}
		for e, w := range want {
			if !(math.Abs(float64(row[e])-w) <= 1e-6*w) {
				t.Errorf("token %d, expert %d weighs %g, want %g", i, e, row[e], w)
			}
		}
	}
}

func goldenSoftmax(t *testing.T, c *goldenCase) {
	n := c.Tensors["x"].Shape[1]
	x, want := c.values(t, "x"), c.values(t, "y")
	for i, row := range experts(t, x, n, n, MoeRoute{}) {
		top := slices.Max(x[i*n : (i+1)*n])
		for e, got := range row {
			// The difference to the largest is rounded to a float before e is
			// raised to it: relative to the result that is half an ulp of it.
			w, far := want[i*n+e], top-x[i*n+e]
			if math.IsInf(far, 0) {
				far = 0
			}
			if !(math.Abs(float64(got)-w) <= (2e-6+1e-7*far)*w+1e-37) {
				t.Errorf("row %d, element %d is %g, want %g", i, e, got, w)
			}
		}
	}
}

// Keys and values are what the engine itself converts to 16 bits.
func goldenConvert(t *testing.T, c *goldenCase) {
	if c.Params.Type != "F16" {
		return // nothing is converted to bf16 here
	}
	const headDim = 16
	x, want := c.values(t, "x"), c.raw("y")
	tok := len(x) / headDim
	g := newRig(t, []BufSpec{{Width: 3 * headDim}}, tok, 1, 1)
	table := g.kv(t, KVTypes{}, 1, headDim, 1)
	g.Reset()
	g.AddSeq(table)
	for i := range tok {
		for j := range headDim {
			g.bufs.Row(0, i)[2*headDim+j] = float32(x[i*headDim+j])
		}
		g.Add(0, int32(i))
	}
	g.run(t, StoreKV{Heads: Heads{NHead: 1, NHeadKV: 1, HeadDim: headDim, Col: [3]int{0, headDim, 2 * headDim}}, Scale: 1})
	values := g.Batch.groups[0].state.Memory[2*headDim*KVBlock:] // after the keys
	for i := range tok * headDim {
		got, w := binary.LittleEndian.Uint16(values[2*i:]), binary.LittleEndian.Uint16(want[2*i:])
		if w&0x7fff == 0x7c00 { // an infinite value would spoil all attention: it stays at the largest
			w--
		}
		if got != w {
			t.Errorf("%g becomes %#04x, want %#04x", x[i], got, w)
		}
	}
}
