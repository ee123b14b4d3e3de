package model

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/scripted"
)

const headed = "tiny-llama-f32.gguf" // the model that heads of these tests draft for

// headOf writes a head for the golden model, and returns it as drafted as well.
func headOf(t *testing.T, h scripted.Head) (string, *draft) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(golden, headed))
	if err == nil {
		raw, err = h.GGUF(raw)
	}
	path := filepath.Join(t.TempDir(), "head.gguf")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, read(t, path)
}

// surveyed surveys a model with a head, that is to draft.
func surveyed(t *testing.T, model, head string) (*Survey, error) {
	t.Helper()
	f, err := OpenFile(model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	h, err := OpenFile(head)
	if err != nil {
		t.Fatal(err)
	}
	if !h.IsHead() || f.IsHead() {
		t.Errorf("a head: %v, the model: %v", h.IsHead(), f.IsHead())
	}
	if err := f.DraftBy(h); err != nil {
		h.Close()
		return nil, err
	}
	s, err := NewSurvey(f, kvF32, 0)
	if err == nil {
		s, err = s.Drafting()
	}
	return s, err
}

// withHead loads a model with a head.
func withHead(t *testing.T, model, head string, r Residency) *Model {
	t.Helper()
	s, err := surveyed(t, model, head)
	return loaded(t, s, err, r)
}

// heads are heads of each kind, by the name under which testdata/heads.json has what llama.cpp makes of them.
var heads = map[string]scripted.Head{
	"eagle3":         {Arch: "eagle3", Inputs: []int{0, 1, 1}},
	"eagle3 normed":  {Arch: "eagle3", Inputs: []int{1, 0, 1}, NormInputs: true, NormResidual: true},
	"eagle3 mapped":  {Arch: "eagle3", Inputs: []int{0, 1, 1}, Guesses: 80},
	"eagle3 of 48":   {Arch: "eagle3", Inputs: []int{0, 0, 1}, NEmbd: 48, Guesses: 100},
	"eagle3 of last": {Arch: "eagle3", Inputs: []int{0, 1, 2}}, // which llama.cpp does not give for this model
	"dflash":         {Arch: "dflash", Inputs: []int{0, 1, 1, 0}},
	"dflash mapped":  {Arch: "dflash", Inputs: []int{1}, Guesses: 80},
	"dflash in windows": {Arch: "dflash", Inputs: []int{1, 0}, Keys: map[string]any{
		"attention.sliding_window": uint32(6), "attention.sliding_window_pattern": []bool{true, false},
	}},
	"dflash forwards": {Arch: "dflash", Inputs: []int{1, 0}, Keys: map[string]any{"attention.causal": true}},
}

// headText is a text of the golden model.
var headText = []int32{1, 66, 101, 119, 104, 35, 120, 115, 114, 113, 35, 100, 35, 119, 108, 112, 104, 47, 35, 119, 107}

// A foreseen token is what another implementation makes of a text and its own guesses.
type foreseen struct {
	ID     int32     `json:"id"`
	P      float64   `json:"p"`
	Logits []float32 `json:"logits"` // the first of those that there are
	Hidden []float32 `json:"hidden"` // the first
}

// guess is the likeliest token of a row of logits.
func (s *stepper) guess(i int) foreseen {
	row, after := s.r.Next(i)
	best, sum := 0, 0.0
	for k, v := range row {
		if v > row[best] {
			best = k
		}
	}
	for _, v := range row {
		sum += math.Exp(float64(v - row[best]))
	}
	return foreseen{s.r.NextToken(int32(best)), 1 / sum, slices.Clone(row), slices.Clone(after)}
}

// chainOf returns n guesses of a head, each given the one before, or all at once, the hidden states before them, and what it read of the
// text.
func chainOf(t *testing.T, m *Model, ids []int32, n int) (got []foreseen, states [][]float32, inputs [][]float32) {
	t.Helper()
	last := len(ids) - 1
	s := newStepper(t, m, len(ids)+n+1)
	next := m.program.Next
	for from := 0; from < last; { // in slices
		to := min(from+8, last)
		s.fill(t, ids[from:to])
		s.r.KeepNext(ids[from+1 : to+1])
		if len(m.Config.Head.Inputs) > 0 {
			for i := range to - from {
				inputs = append(inputs, slices.Clone(s.r.bufs.Row(takes(next), i)))
			}
		}
		from = to
	}
	hidden := slices.Clone(s.r.Hidden((last - 1) % 8))
	if err := s.table.Grow(n + 1); err != nil {
		t.Fatal(err)
	}
	defer s.table.Undo()
	id, b := ids[last], s.r.Batch()
	b.Reset()
	b.AddSeq(s.table.Units()...)
	if next.Block > 0 {
		var rows []int32
		b.Add(id, int32(last))
		for i := range n {
			b.Add(next.Mask, int32(last+1+i))
			rows = append(rows, int32(1+i))
		}
		s.r.StepNext(0, nil, rows)
		for i := range n {
			got = append(got, s.guess(i))
		}
		return got, nil, inputs
	}
	if m.NextSteps() > 0 { // each guess has a layer of its own, which is given all before it
		known := []int32{id}
		for i := range n {
			states = append(states, hidden)
			b.Reset()
			b.AddSeq(s.table.Units()...)
			for k, id := range known {
				b.Add(id, int32(last-1+k))
			}
			s.r.StepNext(i, states, []int32{int32(i)})
			g := s.guess(0)
			got, known, hidden = append(got, g), append(known, g.ID), g.Hidden
		}
		return got, states, inputs
	}
	for i := range n {
		b.Reset()
		b.AddSeq(s.table.Units()...)
		at := last - 1
		if !next.Still {
			at += i
		}
		b.Add(id, int32(at))
		states = append(states, hidden)
		s.r.StepNext(0, [][]float32{hidden}, []int32{0})
		g := s.guess(0)
		got, id, hidden = append(got, g), g.ID, g.Hidden
	}
	return got, states, inputs
}

// takes returns the buffer of what a head takes of the model's layers.
func takes(next *nn.Next) kernel.Buf {
	for _, op := range next.Take {
		switch op := op.(type) {
		case kernel.ToAct:
			return op.Src
		case kernel.Norm:
			return op.Src
		}
	}
	panic("nothing is taken")
}

// headsOfLlamaCPP returns what llama.cpp makes of heads, and of models' own layers, by their names.
func headsOfLlamaCPP(t *testing.T) (all map[string][]foreseen) {
	t.Helper()
	raw, err := os.ReadFile("testdata/heads.json")
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What a head guesses is what llama.cpp makes of the same files, and what the formulas of its paper say, in plain Go. The weights
// may lie anywhere.
func TestHeads(t *testing.T) {
	all := headsOfLlamaCPP(t)
	for name, h := range heads {
		t.Run(name, func(t *testing.T) {
			path, d := headOf(t, h)
			m := withHead(t, filepath.Join(golden, headed), path, Packed)
			const n = 4
			got, states, inputs := chainOf(t, m, headText, n)
			want, ok := all[name]
			if ok != (name != "eagle3 of last") {
				t.Fatalf("llama.cpp: %v", want)
			}
			for i, w := range want {
				k, g := min(len(w.Logits), len(got[i].Logits)), got[i]
				if g.ID != w.ID || math.Abs(g.P-w.P) > 1e-4 || k < 8 || !near(g.Logits[:k], w.Logits[:k], 2e-4) || !near(g.Hidden[:len(w.Hidden)], w.Hidden, 2e-4) {
					t.Errorf("guess %d: %d %v %v %v, llama.cpp has %+v", i, g.ID, g.P, g.Logits[:k], g.Hidden[:8], w)
				}
			}
			if h.Arch == "eagle3" {
				eagleByFormulas(t, m, d, h, got, states, inputs)
			} else {
				flashByFormulas(t, m, d, h, got, inputs)
			}
			for _, r := range []Residency{Mapped, Streamed} {
				again, _, _ := chainOf(t, withHead(t, filepath.Join(golden, headed), path, r), headText, n)
				for i := range again {
					if !slices.Equal(again[i].Logits, got[i].Logits) {
						t.Errorf("%v weights: other logits of guess %d", r, i)
					}
				}
			}
		})
	}
}

// formulas are what heads compute, in plain Go.
type formulas struct {
	t       *testing.T
	d, of   *draft // the head, and the model
	neox    bool   // rotations are of halves, not of neighbours
	keys    [][]float64
	values  [][]float64
	decoded map[string][]float32
}

const headHeads, headKV, headDim = 4, 2, 16 // as scripted.Head has them

func (f *formulas) floats(name string) []float32 {
	if v, ok := f.decoded[name]; ok {
		return v
	}
	d := f.of
	if f.d.has(name) {
		d = f.d
	}
	f.decoded[name] = slices.Clone(d.floats(f.t, name))
	return f.decoded[name]
}

func (f *formulas) norm(x []float64, name string) (y []float64) {
	sum, w := 0.0, f.floats(name)
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		y = append(y, v/math.Sqrt(sum/float64(len(x))+1e-5)*float64(w[i]))
	}
	return y
}

func (f *formulas) mul(name string, x []float64) (y []float64) {
	w := f.floats(name)
	for at := 0; at < len(w); at += len(x) {
		sum := 0.0
		for i, v := range x {
			sum += v * float64(w[at+i])
		}
		y = append(y, sum)
	}
	return y
}

// heads normalises heads, where a norm is named, and rotates them.
func (f *formulas) heads(x []float64, norm string, pos int) []float64 {
	for at := 0; at < len(x); at += headDim {
		head := x[at : at+headDim]
		if norm != "" {
			copy(head, f.norm(head, norm))
		}
		for i := range headDim / 2 {
			a, b := 2*i, 2*i+1
			if f.neox {
				a, b = i, i+headDim/2
			}
			sin, cos := math.Sincos(float64(pos) * math.Pow(10000, -2*float64(i)/headDim))
			head[a], head[b] = head[a]*cos-head[b]*sin, head[a]*sin+head[b]*cos
		}
	}
	return x
}

// attend adds to x what a query makes of keys and values.
func (f *formulas) attend(blk string, x, query []float64, keys, values [][]float64) {
	var made []float64
	for head := range headHeads {
		q, k := query[head*headDim:][:headDim], head/(headHeads/headKV)*headDim
		var weights []float64
		sum := 0.0
		for _, key := range keys {
			score := 0.0
			for c := range headDim {
				score += q[c] * key[k+c]
			}
			weights = append(weights, math.Exp(score/math.Sqrt(headDim)))
			sum += weights[len(weights)-1]
		}
		for c := range headDim {
			v := 0.0
			for j, w := range weights {
				v += w / sum * values[j][k+c]
			}
			made = append(made, v)
		}
	}
	for c, v := range f.mul(blk+"attn_output.weight", made) {
		x[c] += v
	}
}

// feed adds to x what its feed-forward makes of it.
func (f *formulas) feed(blk string, x []float64) {
	in := f.norm(x, blk+"ffn_norm.weight")
	gate, up := f.mul(blk+"ffn_gate.weight", in), f.mul(blk+"ffn_up.weight", in)
	for c := range gate {
		gate[c] *= up[c] / (1 + math.Exp(-gate[c]))
	}
	for c, v := range f.mul(blk+"ffn_down.weight", gate) {
		x[c] += v
	}
}

func (f *formulas) embedding(id int32, n int) (x []float64) {
	return wide(f.floats("token_embd.weight")[int(id)*n:][:n])
}

func wide(x []float32) (y []float64) {
	for _, v := range x {
		y = append(y, float64(v))
	}
	return y
}

func narrow(x []float64) (y []float32) {
	for _, v := range x {
		y = append(y, float32(v))
	}
	return y
}

func newFormulas(t *testing.T, d *draft, neox bool) *formulas {
	return &formulas{t: t, d: d, of: read(t, headed), neox: neox, decoded: map[string][]float32{}}
}

// The drafter of Gemma 4, and layers of models themselves, guess what llama.cpp does, be it one layer again and again or one for each
// guess. Weights of 16 bits round what they are multiplied by there.
func TestDraftersOfOthers(t *testing.T) {
	all := headsOfLlamaCPP(t)
	for name, m := range others(t) {
		n, within := 4, 2e-2
		if steps := m.NextSteps(); steps > 0 { // of chains, in F32
			n, within = steps, 2e-4
		}
		got, _, _ := chainOf(t, m, headText, n)
		if len(all[name]) != len(got) {
			t.Fatalf("%s: llama.cpp: %v", name, all[name])
		}
		for i, w := range all[name] {
			g, k := got[i], len(w.Logits)
			if k < 8 || !near(g.Logits[:k], w.Logits, within) || !near(g.Hidden[:len(w.Hidden)], w.Hidden, within) || math.Abs(g.P-w.P) > within/2 {
				t.Errorf("%s: guess %d: %d %v %v %v, llama.cpp has %+v", name, i, g.ID, g.P, g.Logits[:k], g.Hidden[:8], w)
			}
		}
	}
}

// others are models with what drafts for them, of test data.
func others(t *testing.T) map[string]*Model {
	t.Helper()
	all := map[string]*Model{}
	gemma := testdata.Path(t, "archs/gemma4.gguf")
	raw, err := os.ReadFile(gemma)
	if err == nil {
		raw, err = scripted.Head{Arch: "gemma4-assistant"}.GGUF(raw)
	}
	path := filepath.Join(t.TempDir(), "assistant.gguf")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	all["gemma4-assistant"] = withHead(t, gemma, path, Packed)
	for name, like := range map[string]int{"glm4moe": 2, "qwen35": 3, "deepseek2": 2} {
		all["mtp "+name] = drafting(t, withNext(t, name, like).write(t, name+".gguf"), kvF32)
	}
	for name := range chains {
		all["mtp "+name] = drafting(t, chained(t, name).write(t, name+".gguf"), kvF32)
	}
	return all
}

// eagleByFormulas holds the guesses of EAGLE-3 against its formulas, given the inputs of the model's layers.
func eagleByFormulas(t *testing.T, m *Model, d *draft, h scripted.Head, got []foreseen, states, inputs [][]float32) {
	t.Helper()
	f := newFormulas(t, d, false)
	width := int(f.of.tensor("token_embd.weight").Dims[0])
	n, last := m.program.Next.Width, len(headText)-1
	at := func(pos int, id int32, hidden []float64) (residual, query []float64) {
		normed := f.norm(hidden, "blk.0.attn_norm_2.weight")
		both := append(f.norm(f.embedding(id, n), "blk.0.attn_norm.weight"), normed...)
		f.keys = append(f.keys, f.heads(f.mul("blk.0.attn_k.weight", both), "", pos))
		f.values = append(f.values, f.mul("blk.0.attn_v.weight", both))
		if h.NormResidual {
			hidden = normed
		}
		return slices.Clone(hidden), f.heads(f.mul("blk.0.attn_q.weight", both), "", pos)
	}
	for pos := range last - 1 {
		in := wide(inputs[pos][:width*len(h.Inputs)])
		if first := f.of.floats(t, "token_embd.weight")[int(headText[pos])*width:][:width]; h.Inputs[0] == 0 && !near(inputs[pos][:width], first, 0) {
			t.Fatalf("position %d: what goes into the first layer is not the embedding", pos)
		}
		if h.NormInputs {
			in = f.norm(in, "enc.output_norm.weight")
		}
		at(pos, headText[pos+1], f.mul("fc.weight", in))
	}
	id := headText[last]
	for i, g := range got {
		x, query := at(last-1+i, id, wide(states[i]))
		f.attend("blk.0.", x, query, f.keys, f.values)
		f.feed("blk.0.", x)
		logits := f.mul("output.weight", f.norm(x, "output_norm.weight"))
		if !near(g.Logits, narrow(logits), 2e-3) || !near(g.Hidden, narrow(x), 2e-3) {
			t.Errorf("guess %d: logits %v..., hidden state %v..., the formulas have %v... and %v...", i, g.Logits[:4], g.Hidden[:4], logits[:4], x[:4])
		}
		id = g.ID
	}
}

// flashByFormulas holds the guesses of DFlash against its formulas, given the inputs of the model's layers.
func flashByFormulas(t *testing.T, m *Model, d *draft, h scripted.Head, got []foreseen, inputs [][]float32) {
	t.Helper()
	f := newFormulas(t, d, true)
	width := int(f.of.tensor("token_embd.weight").Dims[0])
	n, last, layers := m.program.Next.Width, len(headText)-1, len(m.Config.Head.Layers)
	var block [][]float64
	for i := range len(got) + 1 {
		id := m.program.Next.Mask
		if i == 0 {
			id = headText[last]
		}
		block = append(block, f.embedding(id, n))
	}
	window := func(il, pos, from int) int { // the first key that is seen, of those from a position on
		if w := m.Config.Head.Layers[il].Window; w > 0 {
			return max(pos-w+1-from, 0)
		}
		return 0
	}
	for il := range layers {
		blk := fmt.Sprintf("blk.%d.", il)
		var keys, values, queries [][]float64
		store := func(pos int, x []float64) {
			keys = append(keys, f.heads(f.mul(blk+"attn_k.weight", x), blk+"attn_k_norm.weight", pos))
			values = append(values, f.mul(blk+"attn_v.weight", x))
		}
		for pos := range last {
			store(pos, f.norm(f.mul("fc.weight", wide(inputs[pos][:width*len(h.Inputs)])), "enc.output_norm.weight"))
		}
		for i, x := range block {
			in := f.norm(x, blk+"attn_norm.weight")
			store(last+i, in)
			queries = append(queries, f.heads(f.mul(blk+"attn_q.weight", in), blk+"attn_q_norm.weight", last+i))
		}
		for i, x := range block {
			end := len(keys)
			if m.Config.Head.Causal {
				end = last + i + 1
			}
			first := window(il, last+i, 0)
			f.attend(blk, x, queries[i], keys[first:end], values[first:end])
			f.feed(blk, x)
		}
	}
	for i, g := range got {
		logits := f.mul("output.weight", f.norm(block[i+1], "output_norm.weight"))
		if !near(g.Logits, narrow(logits), 2e-3) {
			t.Errorf("guess %d: logits %v..., the formulas have %v...", i, g.Logits[:4], logits[:4])
		}
	}
}

// Beside a packed model a head is packed as it is loaded.
func TestHeadOfPacked(t *testing.T) {
	path, _ := headOf(t, heads["eagle3 of 48"])
	plain := filepath.Join(golden, headed)
	want, _, _ := chainOf(t, withHead(t, plain, path, Packed), headText, 3)
	packed := filepath.Join(t.TempDir(), "packed.gguf")
	f, err := OpenFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := Pack(out, f, Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test")}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Residency{Packed, Mapped, Streamed} {
		got, _, _ := chainOf(t, withHead(t, packed, path, r), headText, 3)
		for i := range got {
			if !slices.Equal(got[i].Logits, want[i].Logits) {
				t.Errorf("%v: other logits of guess %d", r, i)
			}
		}
	}
	h, err := OpenFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.DraftBy(h); err == nil {
		t.Error("a model drafts for itself")
	}
}

// A head that was made for another model is refused in one line that says why.
func TestHeadRefuses(t *testing.T) {
	eagle := scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 1}}
	with := func(key string, v any) scripted.Head {
		h := eagle
		h.Keys = map[string]any{key: v}
		return h
	}
	lack := func(tensor string) scripted.Head {
		h := eagle
		h.Lack = tensor
		return h
	}
	mapped, wide := eagle, eagle
	mapped.Guesses = 120
	wide.NEmbd, wide.Lack = 48, "token_embd.weight"
	for _, tt := range []struct {
		name string
		h    scripted.Head
		want string
	}{
		{"width", with("target_hidden_size", uint32(64)), "made for a model of width 64, and this one has 32"},
		{"layers", with("target_layers", []int32{1, 2, 30}), "layer 30, and the model has 2"},
		{"no layers", with("target_layers", []int32{}), `"eagle3.target_layers": 0 layers`},
		{"no key of layers", with("target_layers", nil), "eagle3.target_layers"},
		{"below the first", with("target_layers", []int32{-1}), "-1, want 0 to"},
		{"several layers", with("block_count", uint32(2)), "2, want 1"},
		{"no width", with("embedding_length", nil), "eagle3.embedding_length"},
		{"matrix", lack("fc.weight"), `"head.fc.weight" is missing`},
		{"norm", lack("blk.0.attn_norm_2.weight"), "attn_norm_2"},
		{"map", mapped, "element 100 is 301, want 0 to 300"},
		{"map without output", func() scripted.Head { h := mapped; h.Lack = "output.weight"; return h }(), `"d2t": shape [120]`},
		{"embeddings", wide, "no token_embd.weight, and its width of 48"},
		{"another vocabulary", func() scripted.Head { h := wide; h.Lack = "output.weight"; return h }(), "no output.weight, and its width of 48"},
	} {
		path, _ := headOf(t, tt.h)
		_, err := surveyed(t, filepath.Join(golden, headed), path)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}

	// Models with several streams, made by AltUp or mixed, have no head.
	for _, c := range []nn.Config{{AltUp: true}, {Hyper: nn.Hyper{Streams: 4}}} {
		c.Arch = "other"
		err := (&nn.Head{Arch: "eagle3", Width: 32}).Fits(&c)
		if err == nil || !strings.Contains(err.Error(), "other has a residual of several streams") {
			t.Errorf("%+v: %v", c, err)
		}
	}

	path, d := headOf(t, eagle)
	_, err := surveyed(t, filepath.Join(testdata.Path(t, "archs"), "gemma3n.gguf"), path)
	if err == nil || !strings.Contains(err.Error(), "gemma3n has a residual of several streams") {
		t.Errorf("gemma3n: %v", err)
	}
	d.add("blk.0.markov.weight", gguf.F32, make([]byte, 4*16), 16)
	if _, err := surveyed(t, filepath.Join(golden, headed), d.write(t, "more.gguf")); err == nil || !strings.Contains(err.Error(), `"blk.0.markov.weight" of the head`) {
		t.Errorf("one tensor more: %v", err)
	}
	if f, err := OpenFile(path); err == nil { // for itself it is nothing
		defer f.Close()
		if _, err := f.Config(); err == nil || !strings.Contains(err.Error(), "drafts tokens for another model") {
			t.Errorf("alone: %v", err)
		}
	}
}

// FuzzHead has files of any bytes draft for a model: they do, or are refused in one line.
func FuzzHead(f *testing.F) {
	plain, err := os.ReadFile(filepath.Join(golden, headed))
	if err != nil {
		f.Fatal(err)
	}
	for _, h := range heads {
		raw, err := h.GGUF(plain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	path, head := filepath.Join(golden, headed), filepath.Join(f.TempDir(), "head.gguf")
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := OpenFile(path)
		if err == nil {
			err = os.WriteFile(head, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		h, err := OpenFile(head)
		if err != nil {
			return
		}
		if err = file.DraftBy(h); err != nil {
			h.Close()
		} else {
			var s *Survey
			if s, err = NewSurvey(file, kvF32, 64); err == nil {
				_, err = s.Drafting()
			}
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %v", err)
		}
	})
}
