package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// alloc returns n zeroed bytes outside the Go heap.
func alloc(tb testing.TB, n int) []byte {
	tb.Helper()
	r, err := mem.Alloc(uint64(max(n, 1)), "a test")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r.Bytes()[:n]
}

// floats returns v, padded to whole panels, outside the Go heap.
func floats(tb testing.TB, v []float32) []float32 {
	tb.Helper()
	out := mem.Float32s(alloc(tb, 4*Pad(len(v))))
	copy(out, v)
	return out
}

func newPool(tb testing.TB, threads int) *Pool {
	tb.Helper()
	p, err := NewPool(threads, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// A rig runs operations over a batch.
type rig struct {
	pool *Pool
	bufs *Buffers
	*Batch
	specs []BufSpec
}

func newRig(tb testing.TB, specs []BufSpec, maxTok, maxSeq, maxBlocks int) *rig {
	tb.Helper()
	r := &rig{pool: newPool(tb, 2), specs: specs}
	var err error
	if r.bufs, err = NewBuffers(specs, Room{Tok: maxTok, Out: maxTok}, alloc(tb, BufBytes(specs, Room{Tok: maxTok, Out: maxTok}))); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.bufs.Close)
	if r.Batch, err = NewBatch(maxTok, maxSeq, maxBlocks, maxTok, []Group{{}}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Batch.Close)
	return r
}

// tokens fills the batch with one sequence at positions from 0.
func (r *rig) tokens(n int) {
	r.Reset()
	r.SetState(0, r.bufs.at[0][:64], 1)
	blocks := make([]int32, (n+KVBlock-1)/KVBlock)
	r.AddSeq(blocks)
	for i := range n {
		r.Add(0, int32(i))
	}
}

func (r *rig) run(tb testing.TB, ops ...Op) {
	tb.Helper()
	p, err := NewPlan(r.specs, ops...)
	if err != nil {
		tb.Fatal(err)
	}
	defer p.Close()
	p.Run(r.pool, r.bufs, r.Batch, alloc(tb, max(p.Scratch(r.nTok()), Align)*r.pool.Threads()))
}

func identity(tb testing.TB, n int) Matrix {
	tb.Helper()
	m := Matrix{Data: alloc(tb, 4*n*n), Type: F32, In: n, Out: n, N: 1}
	w := mem.Float32s(m.Data)
	for i := range n {
		w[i*n+i] = 1
	}
	return m
}

const (
	bufX Buf = iota
	bufAct
	bufY
)

func smallRig(tb testing.TB) (*rig, []Op) {
	specs := []BufSpec{{Width: 32}, {Kind: ActF32, Width: 32}, {Width: 32}}
	r := newRig(tb, specs, 4, 1, 1)
	r.tokens(4)
	ones := make([]float32, 32)
	for i := range ones {
		ones[i] = 1
	}
	act := Act{ActF32: bufAct}
	return r, []Op{
		Norm{Act: act, Src: bufX, Cols: 32, Weight: floats(tb, ones), Eps: 1e-5},
		Matmul{Dst: bufY, Act: act, Parts: []Part{{Matrix: identity(tb, 32)}}},
	}
}

func TestRunDoesNotAllocate(t *testing.T) {
	r, ops := smallRig(t)
	p, err := NewPlan(r.specs, ops...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	scratch := alloc(t, max(p.Scratch(4), Align)*2)
	if n := testing.AllocsPerRun(100, func() { p.Run(r.pool, r.bufs, r.Batch, scratch) }); n != 0 {
		t.Errorf("%v allocations a call, want 0", n)
	}
	out := []int32{1, 3}
	if n := testing.AllocsPerRun(100, func() {
		r.tokensAgain()
		r.SetOut(out)
	}); n != 0 {
		t.Errorf("%v allocations to fill a batch, want 0", n)
	}
}

func (r *rig) tokensAgain() {
	r.Reset()
	r.AddSeq([]int32{0})
	r.Add(0, 0)
	r.Add(0, 1)
	r.Add(0, 2)
	r.Add(0, 3)
}

// What only a bug can get wrong panics, and says so.
func TestMisusePanics(t *testing.T) {
	r, ops := smallRig(t)
	p, err := NewPlan(r.specs, ops...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	scratch := alloc(t, 2*max(p.Scratch(4), Align)+Align)
	unbound, err := NewPlan(r.specs, RopeTable{Dst: bufX, NRot: 8, Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer unbound.Close()
	attend, err := NewPlan(r.specs, Attend{Heads: Heads{NHead: 2, NHeadKV: 1, HeadDim: 8, KVOffset: 128, QKV: bufX, Col: [3]int{0, 16, 16}}, Dst: bufY})
	if err != nil {
		t.Fatal(err)
	}
	defer attend.Close()
	closedPool, _ := NewPool(1, nil)
	closedPool.Close()
	closedPool.Close()
	closedPlan, _ := NewPlan(r.specs, ops...)
	closedPlan.Close()
	closedPlan.Close()
	other, err := NewBuffers(r.specs[:2], Room{Tok: 4, Out: 4}, alloc(t, BufBytes(r.specs[:2], Room{Tok: 4, Out: 4})))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	small, err := NewBuffers(r.specs, Room{Tok: 2, Out: 2}, alloc(t, BufBytes(r.specs, Room{Tok: 2, Out: 2})))
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	for _, tt := range []struct {
		name string
		f    func()
		want string
	}{
		{"closed pool", func() { p.Run(closedPool, r.bufs, r.Batch, scratch) }, "pool is closed"},
		{"closed plan", func() { closedPlan.Run(r.pool, r.bufs, r.Batch, scratch) }, "plan is closed"},
		{"unbound", func() { unbound.Run(r.pool, r.bufs, r.Batch, scratch) }, "without memory"},
		{"other buffers", func() { p.Run(r.pool, other, r.Batch, scratch) }, "not those of the plan"},
		{"batch too large", func() { p.Run(r.pool, small, r.Batch, scratch) }, "larger than the buffers"},
		{"misaligned scratch", func() { p.Run(r.pool, r.bufs, r.Batch, scratch[1:]) }, "scratch"},
		{"too many tokens", func() { r.Add(0, 4) }, "too many"},
		{"too many sequences", func() { r.AddSeq(nil) }, "too many"},
		{"unknown KV block", func() { r.Reset(); r.AddSeq([]int32{64}) }, "KV block 64"},
		{"KV blocks too small", func() { r.tokens(4); attend.Run(r.pool, r.bufs, r.Batch, scratch) }, "units of 1 bytes, the plan reaches " + strconv.Itoa(128+KVBytes(KVTypes{}, 1, 8, 8))},
		{"position without a block", func() { r.tokens(1); r.Reset(); r.AddSeq(nil); r.Add(0, 0) }, "no KV block"},
		{"positions with a gap", func() { r.tokens(1); r.Add(0, 2) }, "position 2 after 0"},
		{"rows out of order", func() { r.tokens(2); r.SetOut([]int32{1, 0}) }, "logits of token 0"},
		{"row out of range", func() { r.tokens(2); r.SetOut([]int32{2}) }, "logits of token 2"},
		{"row of activations", func() { r.bufs.Row(bufAct, 0) }, "row 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, tt.want) {
					t.Errorf("panic %q, want one with %q", got, tt.want)
				}
			}()
			tt.f()
		})
	}
}

// A table as long as the context is not written anew for every token, and what
// an earlier pass left in it is not taken for blocks of this one.
func TestAddSeqWritesOnlyItsBlocks(t *testing.T) {
	b, err := NewBatch(KVBlock+1, 2, 4, 1, []Group{{}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.SetState(0, alloc(t, 10), 1)
	b.AddSeq([]int32{5, 6, 7, 8})
	b.Reset()
	b.AddSeq([]int32{9})
	if want := []int32{9, 6, 7, 8}; !slices.Equal(b.groups[0].table[:4], want) {
		t.Errorf("table %v, want %v", b.groups[0].table[:4], want)
	}
	for pos := range int32(KVBlock) {
		b.Add(0, pos)
	}
	defer func() {
		if got, _ := recover().(string); got != `kernel: group "": position 64 has no KV block` {
			t.Errorf("panic %q for a position in a block of the pass before", got)
		}
	}()
	b.Add(0, KVBlock)
}

// As many tokens as arrays of C are long are put in order, and more are refused.
func TestOrder(t *testing.T) {
	tokens := make([]Token, LogitsOrder+1)
	for i := range tokens {
		tokens[i] = Token{ID: int32(i), Logit: float32(i * 7 % 11)}
	}
	want := slices.Clone(tokens[:LogitsOrder])
	slices.SortStableFunc(want, func(a, b Token) int { return cmp.Compare(b.Logit, a.Logit) })
	if got := Order(slices.Clone(tokens[:LogitsOrder]), 100); !slices.Equal(got, want[:100]) {
		t.Errorf("order %v, want %v", got, want[:100])
	}
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "in order") {
			t.Errorf("panic %q of %d tokens", got, len(tokens))
		}
	}()
	Order(tokens, 1)
}

// Blocks behind the window need not be there, those in it must; and a batch of
// several groups is what the plan takes it to be.
func TestBatchOfGroups(t *testing.T) {
	groups := []Group{{Name: "all"}, {Name: "near", Window: 70}, {Name: "state", PerSequence: true}}
	b, err := NewBatch(8, 2, 4, 1, groups)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	units := alloc(t, 640)
	for i := range groups {
		b.SetState(i, units, 64)
	}
	panics := func(want string, f func()) {
		t.Helper()
		defer func() {
			t.Helper()
			if got, _ := recover().(string); !strings.Contains(got, want) || want == "" {
				t.Errorf("panic %q, want one with %q", got, want)
			}
		}()
		f()
	}
	all := []int32{1, 2, 3}
	b.AddSeq(all, []int32{-1, 2, 3}, []int32{-1, 0})
	b.Add(0, 133) // sees 64 and later
	b.Add(0, 134)
	b.AddSeq(all, []int32{-1, 2, 3}, []int32{0, 1})
	panics(`group "near": position 0 has no KV block, and 132 sees it`, func() { b.Add(0, 132) })
	b.Reset()
	b.AddSeq([]int32{-1, 2, 3}, all, []int32{0, 1})
	panics(`group "all": position 0 has no KV block`, func() { b.Add(0, 133) })
	b.Reset()
	panics("groups", func() { b.AddSeq(all) })
	panics(`"state"`, func() { b.AddSeq(all, all, []int32{0}) })
	panics(`"state"`, func() { b.AddSeq(all, all, []int32{3, 3}) })
	panics(`"state"`, func() { b.AddSeq(all, all, []int32{3, -1}) })
	panics(`"all": KV block -2`, func() { b.AddSeq([]int32{-2}, all, []int32{0, 1}) })

	panics("group 3 of 3", func() { b.mustServe(groupUse{group: 3}) })
	panics("reaches 65", func() { b.mustServe(groupUse{bytes: 65}) })
	panics("state of a sequence", func() { b.mustServe(groupUse{group: 2}) })
	panics("the plan looks at 71", func() { b.mustServe(groupUse{group: 1, window: 71}) })
	panics("the plan looks at 0", func() { b.mustServe(groupUse{group: 1}) })
	b.mustServe(groupUse{group: 1, window: 70, bytes: 64})
	b.mustServe(groupUse{group: 2, perSequence: true})

	b.SetUnits(0, Units{Memory: alloc(t, 640), Bytes: 128, Places: 2, Stride: 320})
	if n := b.groups[0].units; n != 5 {
		t.Errorf("%d units, want 5", n)
	}
	b.mustServe(groupUse{bytes: 128, heads: 4})
	panics("reaches 129", func() { b.mustServe(groupUse{bytes: 129, heads: 4}) })
	panics("in 2 places, the plan has 3 heads", func() { b.mustServe(groupUse{bytes: 128, heads: 3}) })
	panics("in 2 places, the plan has 0 heads", func() { b.mustServe(groupUse{bytes: 128}) })
	panics("in 3 places", func() { b.SetUnits(0, Units{Memory: alloc(t, 640), Bytes: 128, Places: 3, Stride: 192}) })
	panics("2 places every 321 bytes", func() { b.SetUnits(0, Units{Memory: alloc(t, 640), Bytes: 128, Places: 2, Stride: 321}) })
	panics("2 places every 704 bytes", func() { b.SetUnits(0, Units{Memory: alloc(t, 640), Bytes: 128, Places: 2, Stride: 704}) })
}

// What a file can get wrong is an error when the plan is built.
func TestNewPlanRejects(t *testing.T) {
	specs := []BufSpec{{Width: 32}, {Kind: ActF32, Width: 32}, {Width: 32}, {Kind: ActQ8x32, Width: 256}}
	act := Act{ActF32: bufAct}
	good := identity(t, 32)
	part := func(change func(m *Matrix)) Matmul {
		m := good
		change(&m)
		return Matmul{Dst: bufY, Act: act, Parts: []Part{{Matrix: m}}}
	}
	heads := Heads{NHead: 2, NHeadKV: 1, HeadDim: 8, QKV: bufX, Col: [3]int{0, 16, 16}}
	scan := func(change func(s *Scan)) Scan {
		s := Scan{Dst: bufY, Src: bufX, Col: [3]int{0, 16, 16}, Steps: bufX, NHead: 1, NGroup: 1, StateDim: 4, HeadDim: 16}
		change(&s)
		return s
	}
	if p, err := NewPlan(specs, part(func(*Matrix) {}), Attend{Heads: heads, Dst: bufY}, scan(func(*Scan) {})); err != nil {
		t.Fatal(err)
	} else {
		p.Close()
	}
	for _, tt := range []struct {
		name string
		op   Op
		want error
	}{
		{"short data", part(func(m *Matrix) { m.Data = m.Data[1:] }), ErrShape},
		{"unknown type", part(func(m *Matrix) { m.Type = 15 }), ErrType},
		{"partial block", part(func(m *Matrix) { m.Type, m.In = Q4_K, 32 }), ErrShape},
		{"no rows", part(func(m *Matrix) { m.Out, m.Data = 0, nil }), ErrShape},
		{"huge", part(func(m *Matrix) { m.Out, m.Data = math.MaxInt32, nil }), ErrShape},
		{"too wide for the activations", part(func(m *Matrix) { m.In, m.Out, m.Data = 64, 16, nil }), ErrShape},
		{"too high for the result", part(func(m *Matrix) { m.Out, m.Data = 33, nil }), ErrShape},
		{"activations of the other kind", part(func(m *Matrix) { m.Type, m.Data = Q8_0, nil }), ErrShape},
		{"no matrices", Matmul{Dst: bufY, Act: act}, ErrShape},
		{"column inside a panel", Matmul{Dst: bufY, Act: act, Parts: []Part{{Matrix: good, Col: 8}}}, ErrShape},
		{"short bias", Matmul{Dst: bufY, Act: act, Parts: []Part{{Matrix: good, Bias: make([]float32, 31)}}}, ErrShape},
		{"half a swiglu", Matmul{Dst: bufY, Act: act, Epilogue: GLU, Parts: []Part{{Matrix: good}}}, ErrShape},
		{"no activations", Norm{Act: Act{}, Src: bufX, Cols: 32}, ErrShape},
		{"short norm", Norm{Act: act, Src: bufX, Cols: 32, Weight: make([]float32, 16)}, ErrShape},
		{"norm of activations", Norm{Act: act, Src: bufAct, Cols: 32}, ErrShape},
		{"no such buffer", Gather{Dst: 9, Src: bufX}, ErrShape},
		{"packed table", Embed{Dst: bufX, Table: Matrix{Layout: X16, Type: F32, In: 32, Out: 32, N: 1}}, ErrShape},
		{"odd rotation", RopeTable{Dst: bufX, NRot: 7}, ErrShape},
		{"heads that do not divide", Attend{Heads: Heads{NHead: 3, NHeadKV: 2, HeadDim: 8, QKV: bufX}, Dst: bufY}, ErrShape},
		{"huge heads", Attend{Heads: Heads{NHead: 1, NHeadKV: 1, HeadDim: 1 << 20, QKV: bufX}, Dst: bufY}, ErrShape},
		{"groups that do not divide", scan(func(s *Scan) { s.NHead, s.NGroup = 1, 2 }), ErrShape},
		{"columns of a state in no panels", scan(func(s *Scan) { s.HeadDim = 8 }), ErrShape},
		{"b beyond the row", scan(func(s *Scan) { s.Col[1] = 32 }), ErrShape},
		{"steps beyond the row", scan(func(s *Scan) { s.StepCol = 32 }), ErrShape},
		{"steps of channels beyond the row", scan(func(s *Scan) { s.ByChannel, s.StepCol = true, 32 }), ErrShape},
		{"short rates", scan(func(s *Scan) { s.ByChannel, s.Rate = true, make([]float32, 16) }), ErrShape},
		{"wide state of channels", scan(func(s *Scan) { s.ByChannel, s.StateDim = true, 1<<20 }), ErrShape},
		{"window over chosen spans", Attend{Heads: heads, Dst: bufY, Window: 64, Best: 1, Each: 64, Near: 64, Chosen: bufX}, ErrShape},
		{"route into floats", MoeRoute{Dst: bufY, Src: bufX}, ErrShape},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := NewPlan(specs, tt.op)
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if err == nil {
				p.Close()
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
		})
	}
}

// An operation that C refuses is described by its sizes, whatever its kind.
func TestDescribe(t *testing.T) {
	all := []Op{Adapt{}, StoreKV{}, Attend{}, ChooseBlocks{}, Select{}, Compress{}, Conv{}, Decay{}, Delta{}, Matmul{}, MoeRoute{}, MoeGather{},
		MoeCombine{}, NGram{}, Embed{}, RopeTable{}, Gather{}, Norm{}, NormRows{}, ToAct{}, Gate{}, XIELU{}, Scan{}, Sparse{},
		Match{}, Mix{}, MixByScores{}, Blend{}, Connect{}, Agree{}, WKV{}, LRU{}, Share{}, Input{}, MoeHeads{},
		Loss{}, Scatter{}, BackX{}, BackLow{}, BackNorm{}, BackGate{}, BackStoreKV{}, BackAttend{}, BackW{}, BackV{}, BackEmbed{},
		BackXIELU{}, BackRoute{}, BackCombine{}, BackPairs{}}
	var kinds []string
	for _, op := range all {
		kinds = append(kinds, kindOf(op))
		v := reflect.New(reflect.TypeOf(op)).Elem()
		v.Set(reflect.ValueOf(op))
		var want []string
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch _, isBuf := v.Field(i).Interface().(Buf); {
			case isBuf:
				v.Field(i).SetInt(9999) // no size
			case v.Field(i).CanInt():
				v.Field(i).SetInt(int64(1000 + i))
				if v.Field(i).Type() == reflect.TypeFor[int]() {
					want = append(want, fmt.Sprintf("%s %d", name, 1000+i))
				}
			case v.Field(i).CanFloat():
				v.Field(i).SetFloat(float64(i) + 0.5)
				want = append(want, fmt.Sprintf("%s %g", name, float64(i)+0.5))
			case v.Field(i).Type() == reflect.TypeFor[[]float32]():
				v.Field(i).Set(reflect.ValueOf(make([]float32, 1000+i)))
				want = append(want, fmt.Sprintf("%s of %d", name, 1000+i))
			}
		}
		got := describe(v.Interface().(Op))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%T: got %q, want %q in it", op, got, w)
			}
		}
		if strings.Contains(got, "9999") || strings.Contains(got, "\n") || len(want) == 0 && got != "or its buffers" {
			t.Errorf("%T: got %q", op, got)
		}
	}
	// All there are.
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fill := regexp.MustCompile(`(?m)^func \(\w+ (\w+)\) fill\(b \*planBuilder, op \*C\.struct_qn_op\) error`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fill.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(kinds, m[1]) {
				t.Errorf("%s is not described here", m[1])
			}
		}
	}

	heads := Heads{NHead: 6, NHeadKV: 2, HeadDim: 8, QKV: bufX, Col: [3]int{0, 16}}
	for want, op := range map[string]Op{
		"NHead 6, NHeadKV 2, HeadDim 8, Col[1] 16, NRot 6, KNorm of 8, or its buffers": StoreKV{Heads: heads, NRot: 6, KNorm: make([]float32, 8)},
		"Parts[0].Type Q4_K, Parts[0].In 256, Parts[0].Out 32, Parts[0].N 1, Parts[0].Bias of 32, Parts[1].N 2, or its buffers": Matmul{
			Act: Act{ActF32: bufAct}, Parts: []Part{{Matrix: Matrix{Type: Q4_K, In: 256, Out: 32, N: 1}, Bias: make([]float32, 32)}, {Matrix: Matrix{N: 2}}}},
	} {
		if got := describe(op); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := NewPlan([]BufSpec{{Width: 32}}, RopeTable{NRot: 7}); err == nil || !strings.Contains(err.Error(), "NRot 7, or its") {
		t.Errorf("got %v", err)
	}
}

// Rows and panels give the same bits: packing loses nothing, whatever the type,
// and rows that do not fill the last panel are zeros.
func TestPackedMatchesRows(t *testing.T) {
	const n, in, tok, seed = 37, 512, 3, 11
	r := rand.New(rand.NewPCG(seed, seed))
	for _, typ := range Types() {
		t.Run(typ.String(), func(t *testing.T) {
			rows := Matrix{Type: typ, In: in, Out: n, N: 1, Data: alloc(t, n*RowBytes(typ, in))}
			pool := newPool(t, 2)
			packed := rows
			packed.Layout = X16
			packed.Data = alloc(t, packed.Bytes())
			for try := 0; ; try++ { // random bits, until no scale is infinite
				if typ == F32 {
					for i := range mem.Float32s(rows.Data) {
						mem.Float32s(rows.Data)[i] = r.Float32() - 0.5
					}
				} else {
					fill(r, typ, rows.Data, in)
				}
				err := pool.PackMat(packed.Data, rows)
				if err == nil {
					break
				}
				if !errors.Is(err, ErrNotFinite) || try > 100 {
					t.Fatal(err)
				}
			}
			specs := []BufSpec{{Width: in}, {Kind: typ.Act(), Width: in}, {Width: Pad(n)}, {Width: Pad(n)}}
			g := newRig(t, specs, tok, 1, 1)
			g.tokens(tok)
			for i := range tok {
				for j := range g.bufs.Row(0, i) {
					g.bufs.Row(0, i)[j] = r.Float32() - 0.5
				}
			}
			act := Act{typ.Act(): 1}
			g.run(t, ToAct{Act: act, Src: 0, Cols: in},
				Matmul{Dst: 2, Act: act, Parts: []Part{{Matrix: rows}}},
				Matmul{Dst: 3, Act: act, Parts: []Part{{Matrix: packed}}})
			for i := range tok {
				a, b := g.bufs.Row(2, i), g.bufs.Row(3, i)
				for j := range a {
					if math.Float32bits(a[j]) != math.Float32bits(b[j]) {
						t.Fatalf("token %d, row %d: %g by rows, %g packed", i, j, a[j], b[j])
					}
					if j >= n && a[j] != 0 {
						t.Errorf("token %d, row %d is padding, and %g", i, j, a[j])
					}
				}
			}
			// One panel by hand is the first of them.
			panel := alloc(t, PanelBytes(typ, in))
			if err := Pack(typ, panel, rows.Data[:Panel*RowBytes(typ, in)], Panel, in); err != nil {
				t.Fatal(err)
			}
			if string(panel) != string(packed.Data[:len(panel)]) {
				t.Error("Pack and PackMat differ")
			}
		})
	}
}

// fill sets random bits of rows of n elements, with 16-bit floats that are small.
func fill(r *rand.Rand, typ Type, b []byte, n int) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if typ == F16 || typ == BF16 {
		for i := 1; i < len(b); i += 2 {
			b[i] = b[i]&0x80 | 0x38 | b[i]&3 // exponents near 1
		}
		return
	}
	// Scales lie at different places of each type's block: 0x24 in the high byte
	// of any 16 bits is a small and finite number.
	block := (RowBytes(typ, 512) - RowBytes(typ, 256)) / (256 / blockLen(typ))
	if row := RowBytes(typ, n); RowBytes(typ, 256) != block*(256/blockLen(typ)) { // a scale of the row, of 2 bytes or 4
		for at := 0; at < len(b); at += row {
			copy(b[at:], []byte{0, 0x24, 0, 0x3c}[:RowBytes(typ, 256)-block])
		}
		return
	}
	for at := 0; at < len(b); at += block {
		if typ == MXFP4 { // a byte, of which 0x24 is a power of two
			b[at] = 0x24
			continue
		}
		if typ == NVFP4 { // four bytes, each a number, of which 0x24 is 1/4
			copy(b[at:], []byte{0x24, 0x25, 0x26, 0x27})
			continue
		}
		if typ == IQ1_M { // a nibble above every second byte of scales
			b[at+55] = b[at+55]&15 | 0x20
			continue
		}
		for _, off := range scales(typ, block) {
			b[at+off+1] = 0x24
		}
	}
}

func blockLen(typ Type) int {
	for _, n := range []int{32, 64, 128, 256} {
		if typ.Check(n) == nil {
			return n
		}
	}
	panic("no block")
}

// scales returns where in a block the 16-bit floats are.
func scales(typ Type, block int) []int {
	switch typ {
	case Q4_1, Q5_1, Q4_K, Q5_K:
		return []int{0, 2}
	case Q2_K:
		return []int{block - 4, block - 2}
	case Q3_K, Q6_K, TQ1_0, TQ2_0:
		return []int{block - 2}
	}
	return []int{0}
}

func TestNotFinite(t *testing.T) {
	pool := newPool(t, 1)
	m := identity(t, 32)
	dst := alloc(t, Matrix{Type: F32, Layout: X16, In: 32, Out: 32, N: 1}.Bytes())
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		mem.Float32s(m.Data)[777] = bad
		if err := pool.PackMat(dst, m); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v: error = %v, want ErrNotFinite", bad, err)
		}
	}
}

func TestISA(t *testing.T) {
	for _, tt := range []struct {
		name string
		want ISA
	}{
		{"scalar", Scalar}, {"avx2", AVX2}, {"avx512", AVX2 | AVXVNNI | AVX512}, {"i8mm", NEON | DotProd | I8MM}, {"rvv256", RVV | RVV256},
		{"best", Best},
	} {
		if got, err := ParseISA(tt.name); got != tt.want || err != nil {
			t.Errorf("ParseISA(%q) = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	if _, err := ParseISA("sse9"); err == nil || !strings.Contains(err.Error(), "avx512vnni") {
		t.Errorf("error = %v, want one that lists the names", err)
	}
	if got := (AVX2 | AVX512).String(); got != "avx2 avx512" {
		t.Errorf("String = %q", got)
	}
	defer Init(Best)
	if got := Init(Scalar); got != Scalar {
		t.Errorf("Init(Scalar) = %v", got)
	}
	// The kernels of a set hand work down to those below it, so it is not used alone.
	for _, tt := range []struct{ allow, want ISA }{
		{AVX2 | AMX, AVX2}, {AVX2 | AVX512VNNI | AMX, AVX2}, {AVX512, Scalar}, {AVXVNNI, Scalar},
		{AVX2 | AVX512 | AMX, AVX2 | AVX512}, {NEON | I8MM, NEON}, {RVV256, Scalar},
	} {
		if got, want := Init(tt.allow), tt.want&CPU(); got != want {
			t.Errorf("Init(%v) = %v, want %v", tt.allow, got, want)
		}
	}
	if got, cpu := Init(Best), CPU(); got&^cpu != 0 {
		t.Errorf("in use %v, the CPU has %v", got, cpu)
	}
}

func TestPoolRejects(t *testing.T) {
	for _, tt := range []struct {
		threads int
		at      []Thread
	}{
		{0, nil}, {MaxThreads + 1, nil}, {2, []Thread{{}}}, {2, []Thread{{Place: 1}, {Place: 1}}}, {2, []Thread{{}, {Place: 2}}},
		{3, []Thread{{}, {Place: 1}, {}}}, {2, []Thread{{Place: -1}, {}}},
	} {
		if p, err := NewPool(tt.threads, tt.at); err == nil {
			p.Close()
			t.Errorf("a pool of %d threads at %v was made", tt.threads, tt.at)
		}
	}
}

// Panels in several places are those of one, wherever a part of them begins, and give the same products.
func TestPlaces(t *testing.T) {
	const in, out, n = 512, 90, 3 // six panels of each
	rows := Matrix{Type: Q4_K, In: in, Out: out, N: n, Data: alloc(t, n*out*RowBytes(Q4_K, in))}
	fill(rand.New(rand.NewPCG(2, 3)), Q4_K, rows.Data, in)
	one := rows
	one.Layout = X16
	one.Data = alloc(t, one.Bytes())
	pools := []*Pool{newPool(t, 2)}
	for _, at := range [][]Thread{{{}, {Place: 1}}, {{}, {Place: 1}, {Place: 1}, {Place: 2}}} {
		p, err := NewPool(len(at), at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		pools = append(pools, p)
	}
	if err := pools[0].PackMat(one.Data, rows); err != nil {
		t.Fatal(err)
	}
	panel := PanelBytes(Q4_K, in)
	for places := 1; places <= 8; places++ {
		for _, pool := range pools {
			m := one
			m.Data = nil
			m.Places, m.Stride = places, m.PartBytes(places)+5*Align
			m.Data = alloc(t, m.Span())
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
			for i := range n { // matrix by matrix, the last one first, its second half before the first
				part := rows
				part.N = 1
				of := rows.Data[(n-1-i)*out*RowBytes(Q4_K, in):][:out*RowBytes(Q4_K, in)]
				part.Out, part.Data = out-32, of[32*RowBytes(Q4_K, in):]
				if err := pool.PackInto(m, (n-1-i)*6+2, part); err != nil {
					t.Fatal(err)
				}
				part.Out, part.Data = 32, of[:32*RowBytes(Q4_K, in)]
				if err := pool.PackInto(m, (n-1-i)*6, part); err != nil {
					t.Fatal(err)
				}
			}
			for _, cut := range []struct{ at, n int }{{0, m.Bytes()}, {1, m.Bytes() - 1}, {panel + 7, 3*panel - 9}, {5*panel - 1, 2}, {m.Bytes(), 0}} {
				var got []byte
				for piece := range m.Pieces(cut.at, cut.n) {
					got = append(got, piece...)
				}
				if string(got) != string(one.Data[cut.at:cut.at+cut.n]) {
					t.Errorf("%d places, %d threads: bytes %d to %d differ", places, pool.Threads(), cut.at, cut.at+cut.n)
				}
			}
			for _, bad := range []Matrix{
				{Places: MaxPlaces + 1, Stride: m.Stride}, {Places: -1}, {Places: max(places, 2), Stride: m.PartBytes(max(places, 2)) - Align},
				{Places: max(places, 2), Stride: m.Stride + 1},
			} {
				x := m
				x.Places, x.Stride, x.Data = bad.Places, bad.Stride, nil
				if err := x.check(); !errors.Is(err, ErrShape) {
					t.Errorf("%d places, %d bytes apart: %v", x.Places, x.Stride, err)
				}
			}
			part := rows
			if err := pool.PackInto(m, 1, part); !errors.Is(err, ErrShape) {
				t.Errorf("packed beyond the last panel: %v", err)
			}
			part.Type = Q5_K
			part.Data = nil
			if err := pool.PackInto(m, 0, part); !errors.Is(err, ErrShape) {
				t.Errorf("packed rows without data: %v", err)
			}
		}
	}
}

func TestMeasure(t *testing.T) {
	p := newPool(t, 2)
	if got := p.MeasureRead(alloc(t, 1<<20), 3); !(got > 1e6) {
		t.Errorf("read %g bytes a second", got)
	}
	if got := p.MeasureCopy(alloc(t, 1<<20), alloc(t, 1<<20), 3); !(got > 1e6) {
		t.Errorf("copied %g bytes a second", got)
	}
	if got := p.MeasureInt8(1000); !(got > 1e6) {
		t.Errorf("%g multiply-adds a second", got)
	}
}

func BenchmarkRun(b *testing.B) {
	r, ops := smallRig(b)
	p, err := NewPlan(r.specs, ops...)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	scratch := alloc(b, max(p.Scratch(4), Align)*2)
	for b.Loop() {
		p.Run(r.pool, r.bufs, r.Batch, scratch)
	}
}
