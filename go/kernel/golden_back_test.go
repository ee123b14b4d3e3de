package kernel

import (
	"math"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// The reverse of every operation, against vectors that share no code with it.
func TestGoldenBackOps(t *testing.T) {
	runGolden(t, goldenCases(t, "back.json"), map[string]func(*testing.T, *goldenCase){
		"product": goldenBackProduct, "low": goldenBackLow, "norm": goldenBackNorm, "gate": goldenBackGate,
		"apply": goldenBackGate, "loss": goldenLoss, "attend": goldenBackAttend,
	})
}

// near compares rows of n numbers with a tensor: tolerance is a share of its largest number, that of a few
// roundings.
func near(t *testing.T, c *goldenCase, name string, n int, tolerance float64, row func(i int) []float32) {
	t.Helper()
	want := c.values(t, name)
	most := largest(want)
	for i := range len(want) / n {
		want, got := want[i*n:(i+1)*n], row(i)
		for j, w := range want {
			if !(math.Abs(float64(got[j])-w) <= tolerance*most) {
				t.Fatalf("%s, row %d, number %d is %g, want %g: off by %.2g of the largest", name, i, j, got[j], w,
					math.Abs(float64(got[j])-w)/most)
			}
		}
	}
}

// rows returns rows of a buffer from a column on.
func (r *rig) rows(buf Buf, col int) func(i int) []float32 {
	return func(i int) []float32 { return r.bufs.Row(buf, i)[col:] }
}

// Both factors are rounded to BF16 as in the vectors, so what is left is the order of sums.
func goldenBackProduct(t *testing.T, c *goldenCase) {
	tok, out, in := c.Tensors["dy"].Shape[0], c.Tensors["dy"].Shape[1], c.Tensors["x"].Shape[1]
	w := Matrix{Data: c.off(t, "w"), Type: c.Params.GGMLType, In: in, Out: out, N: 1}
	g := newRig(t, []BufSpec{{Width: Pad(out)}, {Kind: ActBF16, Width: Pad(out)}, {Width: Pad(in)}}, tok, 1, 1)
	g.tokens(tok)
	g.set(0, c.values(t, "dy"), out)
	dx := BackX{Dst: Columns{Buf: 2}, Act: 1, Matrix: w, Scale: c.Params.Scale}
	g.run(t, ToAct{Act: Act{ActBF16: 1}, Src: 0, Cols: out}, dx)
	near(t, c, "dx", in, 2e-6, g.rows(2, 0))
	dx.Add = true
	g.run(t, dx)
	near(t, c, "dx", in, 4e-6, func(i int) []float32 {
		row := g.bufs.Row(2, i)
		for j := range row {
			row[j] /= 2
		}
		return row
	})
}

func goldenBackLow(t *testing.T, c *goldenCase) {
	tok, in, rank, out := c.Tensors["x"].Shape[0], c.Tensors["x"].Shape[1], c.Tensors["a"].Shape[0], c.Tensors["b"].Shape[0]
	da, db := mem.Float32s(alloc(t, 4*rank*in)), mem.Float32s(alloc(t, 4*rank*out))
	g := newRig(t, []BufSpec{{Width: Pad(in)}, {Kind: ActF32, Width: Pad(in)}, {Width: Pad(out)}, {Width: Pad(in)}, {Width: Pad(2 * rank)}}, tok, 1, 1)
	g.tokens(tok)
	g.set(0, c.values(t, "x"), in)
	g.set(2, c.values(t, "dy"), out)
	for i := range tok {
		clear(g.bufs.Row(3, i))
	}
	g.run(t, ToAct{Act: Act{ActF32: 1}, Src: 0, Cols: in}, BackLow{
		Dst: Columns{Buf: 3}, Src: Columns{Buf: 2}, Act: 1, Low: 4, A: c.vector(t, "a"), B: c.vector(t, "b"), DA: da, DB: db,
		In: in, Out: out, Rank: rank, Scale: c.Params.Scale,
	})
	near(t, c, "dx", in, 2e-6, g.rows(3, 0))
	near(t, c, "da", in, 2e-6, func(i int) []float32 { return da[i*in:] })
	near(t, c, "db", rank, 2e-6, func(i int) []float32 { return db[i*rank:] })
}

func goldenBackNorm(t *testing.T, c *goldenCase) {
	tok, n := c.Tensors["x"].Shape[0], c.Tensors["x"].Shape[1]
	kind := RMS
	if c.Params.Centred {
		kind = LayerNorm
	}
	g := newRig(t, []BufSpec{{Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}}, tok, 1, 1)
	g.tokens(tok)
	g.set(0, c.values(t, "x"), n)
	g.set(1, c.values(t, "dy"), n)
	g.run(t, BackNorm{
		Dst: Columns{Buf: 2}, X: Columns{Buf: 0}, DY: Columns{Buf: 1}, Cols: n, Segs: 1, Kind: kind, Weight: c.vector(t, "w"),
		Eps: c.Params.Eps, Scale: 1,
	})
	near(t, c, "dx", n, 4e-6, g.rows(2, 0))
}

func goldenBackGate(t *testing.T, c *goldenCase) {
	n := c.Tensors["g"].Shape[1]
	fn := map[string]Fn{"silu": SiLU, "sigmoid": Sigmoid, "gelu": GELU, "gelu_erf": GELUErf, "relu2": ReLU2}[c.Params.Fn]
	g := newRig(t, []BufSpec{{Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}, {Width: Pad(n)}}, 1, 1, 1)
	g.tokens(1)
	g.set(0, c.values(t, "g"), n)
	g.set(2, c.values(t, "dy"), n)
	op := BackGate{DG: Columns{Buf: 3}, G: Columns{Buf: 0}, U: Columns{Buf: NoBuf}, DY: Columns{Buf: 2}, Cols: n, Fn: fn}
	if c.Op == "gate" {
		g.set(1, c.values(t, "u"), n)
		op.U, op.DU = Columns{Buf: 1}, Columns{Buf: 4}
	}
	g.run(t, op)
	near(t, c, "dg", n, 2e-6, g.rows(3, 0))
	if c.Op == "gate" {
		near(t, c, "du", n, 2e-6, g.rows(4, 0))
	}
}

// The loss reads what the cap has left of the logits.
func goldenLoss(t *testing.T, c *goldenCase) {
	tok, n := c.Tensors["z"].Shape[0], c.Tensors["z"].Shape[1]
	rows := []BufSpec{{Rows: OutRows, Width: Pad(n)}, {Rows: OutRows, Width: Panel}}
	g := newRig(t, rows, tok, 1, 1)
	g.tokens(tok)
	out := make([]int32, tok)
	for i := range out {
		out[i] = int32(i)
	}
	g.SetOut(out)
	z := c.values(t, "z")
	for i, v := range z {
		if cap := float64(c.Params.Softcap); cap > 0 {
			z[i] = cap * math.Tanh(v/cap)
		}
	}
	g.set(0, z, n)
	targets := NewTargets(tok)
	defer targets.Close()
	copy(targets.IDs, c.Params.Targets)
	copy(targets.Weights, c.Params.Weights)
	g.run(t, Loss{Dst: 1, Logits: 0, Cols: n, Softcap: c.Params.Softcap, Targets: targets})
	near(t, c, "dz", n, 2e-6, g.rows(0, 0))
	sum := float32(0)
	for i := range tok {
		sum += g.bufs.Row(1, i)[0]
	}
	near(t, c, "y", 1, 1e-6, func(int) []float32 { return []float32{sum} })
}

// Queries are scaled where keys are stored, so gradients go through both.
func goldenBackAttend(t *testing.T, c *goldenCase) {
	shape := c.Tensors["q"].Shape
	tok, heads, dims, headsKV := shape[0], shape[1], shape[2], c.Tensors["k"].Shape[1]
	nq, nkv := heads*dims, headsKV*dims
	specs := []BufSpec{{Width: Pad(nq) + 2*Pad(nkv)}, {Width: Pad(nq)}, {Width: Pad(nq) + 2*Pad(nkv)}, {Width: Pad(nq)}, {Width: Pad(2 * heads)}}
	g := newRig(t, specs, tok, 1, 2)
	h := Heads{
		NHead: heads, NHeadKV: headsKV, HeadDim: dims, KV: KVTypes{KVF32, KVF32},
		QKV: 0, Col: [3]int{0, Pad(nq), Pad(nq) + Pad(nkv)},
	}
	table := g.kv(t, h.KV, headsKV, dims, 2)
	g.Reset()
	g.AddSeq(table)
	for i := range tok {
		g.Add(0, int32(i))
	}
	for k, name := range []string{"q", "k", "v"} {
		n := len(c.values(t, name)) / tok
		for i, v := range c.values(t, name) {
			g.bufs.Row(0, i/n)[h.Col[k]+i%n] = float32(v)
		}
	}
	g.set(3, c.values(t, "dy"), nq)
	store := StoreKV{Heads: h, Scale: c.Params.Scale}
	attend := Attend{Heads: h, Dst: 1, Window: c.Params.Window, Softcap: c.Params.Cap, Sinks: c.sinks(t)}
	back := BackStoreKV{StoreKV: store, Was: NoBuf}
	back.QKV = 2
	g.run(t, store, attend, BackAttend{Attend: attend, DQKV: 2, DY: 3, Stats: 4}, back)
	for k, name := range []string{"dq", "dk", "dv"} {
		near(t, c, name, len(c.values(t, name))/tok, 4e-6, g.rows(2, h.Col[k])) // weights are exponentials of sums
	}
}

// sinks returns the sinks of a case, nil where it has none.
func (c *goldenCase) sinks(tb testing.TB) []float32 {
	if c.Params.Sinks == nil {
		return nil
	}
	x := mem.Float32s(alloc(tb, 4*len(c.Params.Sinks)))
	copy(x, c.Params.Sinks)
	return x
}
