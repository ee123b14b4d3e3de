package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
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
	"github.com/quern-llm/quern/go/synth"
)

// withNext drafts a file of a model of test data with a layer that predicts a further token, a copy of one of its own.
func withNext(t *testing.T, name string, like ...int) *draft {
	t.Helper()
	path := filepath.Join("testdata/archs", name+".gguf")
	if _, err := os.Stat(path); err != nil {
		path = testdata.Path(t, "archs/"+name+".gguf")
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		raw, err = scripted.WithNext(raw, like...)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &draft{f.KVs, f.Tensors}
}

// key is a key of the file's architecture.
func (d *draft) key(name string) string {
	for _, kv := range d.kvs {
		if kv.Key == "general.architecture" {
			return kv.Value.(string) + "." + name
		}
	}
	panic("no architecture")
}

func (d *draft) blocks() int {
	for _, kv := range d.kvs {
		if kv.Key == d.key("block_count") {
			return int(kv.Value.(uint32))
		}
	}
	panic("no number of blocks")
}

// nexts are models, and the layer of each that is like the one that predicts further tokens.
var nexts = []struct {
	name  string
	like  int
	alone map[string]any // settings of a model of that layer alone that are not the model's
}{
	{"qwen35", 3, nil},
	{"qwen35moe", 3, nil},
	{"qwen3next", 3, nil},
	{"glm4moe", 2, nil},
	{"deepseek2", 2, nil},
	{"deepseek32", 2, nil},
	{"bailingmoe2", 2, nil},
	{"llama", 1, nil},
	// Its layers with rotations have a window, but for the one that predicts further tokens.
	{"cohere2moe", 1, map[string]any{"attention.sliding_window": uint32(256), "attention.sliding_window_pattern": []bool{true}}},
	{"dots3note", 1, map[string]any{
		"attention.head_count": uint32(4), "attention.sliding_window_pattern": []bool{true}, "attention.indexer.types": []bool{false},
	}},
}

// drafting loads a file with its layer that drafts.
func drafting(t *testing.T, path string, kv kernel.KVTypes) *Model {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s, err := NewSurvey(f, kv, 0)
	if err == nil {
		s, err = s.Drafting()
	}
	return loaded(t, s, err, Packed)
}

// loaded loads a model that was surveyed.
func loaded(t *testing.T, s *Survey, err error, r Residency) *Model {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Residency: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// What the layer predicts is what a model of that layer alone does, whose tokens have the embeddings that are computed here, in
// plain Go, of the hidden states of the whole model and the tokens that follow.
func TestNext(t *testing.T) {
	const tokens = 21
	for _, of := range nexts {
		t.Run(of.name, func(t *testing.T) {
			d := withNext(t, of.name, of.like)
			path := d.write(t, "next.gguf")
			m := drafting(t, path, kvF32)
			plain, err := load(t, path, Packed)
			if err != nil {
				t.Fatal(err)
			}
			n, vocab := m.Config.NEmbd, m.Config.NVocab
			r := rand.New(rand.NewPCG(1, 2))
			ids := make([]int32, tokens+1)
			for i := range ids {
				ids[i] = int32(r.IntN(vocab))
			}

			// The hidden states, by another way than the layer has them.
			s := newStepper(t, plain, tokens)
			s.r.Compute(nn.Vectors, s.fill(t, ids[:tokens]))
			hidden := make([][]float32, tokens)
			for i := range hidden {
				hidden[i] = slices.Clone(s.r.Row(i))
			}
			one := oneLayer(t, d, d.blocks()-1, of.alone, hidden, ids[1:])
			want := newStepper(t, one, tokens)
			order := make([]int32, tokens)
			for i := range order {
				order[i] = int32(i)
			}
			logits := want.step(t, order)
			want.r.Compute(nn.Vectors, order)

			got := newStepper(t, m, tokens)
			for from := 0; from < tokens; { // in slices
				to := min(from+8, tokens)
				got.fill(t, ids[from:to])
				got.r.KeepNext(ids[from+1 : to+1])
				if i := to - from - 1; !near(got.r.Hidden(i), hidden[to-1], 1e-5) {
					t.Fatalf("the hidden state after token %d is another", to-1)
				}
				from = to
			}
			// The last two positions again, one step each.
			b := got.r.Batch()
			if err := got.table.Grow(1); err != nil { // memory for the state that a batch of it has
				t.Fatal(err)
			}
			for at := tokens - 2; at < tokens; at++ {
				b.Reset()
				b.AddSeq(got.table.Units()...)
				b.Add(ids[at+1], int32(at))
				got.r.StepNext(0, [][]float32{hidden[at]}, []int32{0})
				row, next := got.r.Next(0)
				if !near(row, logits[at], 2e-3) || len(row) != vocab || len(next) != n {
					t.Errorf("position %d: logits %v..., want %v...", at, row[:4], logits[at][:4])
				}
				if !near(next, want.r.Row(at), 2e-3) {
					t.Errorf("position %d: hidden state %v..., want %v...", at, next[:4], want.r.Row(at)[:4])
				}
			}
			got.table.Undo()
		})
	}
}

// Of several layers the k-th predicts the k-th token: of the text it has seen the model's hidden states, and behind that those of the
// layers before it.
func TestNexts(t *testing.T) {
	const tokens = 17
	for _, of := range nexts {
		t.Run(of.name, func(t *testing.T) {
			d := withNext(t, of.name, of.like, of.like, of.like)
			path := d.write(t, "next.gguf")
			m := drafting(t, path, kvF32)
			if m.NextSteps() != 3 {
				t.Fatalf("%d layers draft, want 3", m.NextSteps())
			}
			r := rand.New(rand.NewPCG(3, 4))
			ids := make([]int32, tokens+1)
			for i := range ids {
				ids[i] = int32(r.IntN(m.Config.NVocab))
			}
			s := newStepper(t, m, tokens+3)
			s.fill(t, ids[:tokens])
			s.r.KeepNext(ids[1:])
			hidden := make([][]float32, tokens)
			for i := range hidden {
				hidden[i] = slices.Clone(s.r.Hidden(i))
			}
			if err := s.table.Grow(3); err != nil {
				t.Fatal(err)
			}
			defer s.table.Undo()
			for k := range 3 {
				b := s.r.Batch()
				b.Reset()
				b.AddSeq(s.table.Units()...)
				for i := range k + 1 {
					b.Add(ids[tokens+i], int32(tokens-1+i))
				}
				s.r.StepNext(k, hidden[tokens-1:], []int32{int32(k)})
				row, next := s.r.Next(0)

				one := oneLayer(t, d, d.blocks()-3+k, of.alone, hidden, ids[1:])
				want := newStepper(t, one, len(hidden))
				order := make([]int32, len(hidden))
				for i := range order {
					order[i] = int32(i)
				}
				logits := want.step(t, order)
				want.r.Compute(nn.Vectors, order)
				last := len(order) - 1
				if !near(row, logits[last], 2e-3) || !near(next, want.r.Row(last), 2e-3) {
					t.Errorf("layer %d: logits %v..., want %v...", k, row[:4], logits[last][:4])
				}
				best := 0
				for i, v := range row {
					if v > row[best] {
						best = i
					}
				}
				ids, hidden = append(ids, int32(best)), append(hidden, slices.Clone(next))
			}
		})
	}
}

func near(a, b []float32, tolerance float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); !(d <= tolerance*max(1, math.Abs(float64(b[i])))) {
			return false
		}
	}
	return true
}

// oneLayer loads a model of a layer that predicts further tokens alone. Token i of it has as its embedding what the layer is given of hidden
// state i and the token that follows.
func oneLayer(t *testing.T, d *draft, il int, alone map[string]any, hidden [][]float32, next []int32) *Model {
	t.Helper()
	blk := fmt.Sprintf("blk.%d.", il)
	floats := func(name string) []float32 {
		x := d.tensor(name)
		v, rows := []float32(nil), 1
		for _, k := range x.Dims[1:] {
			rows *= int(k)
		}
		for i := range rows {
			row := make([]float32, x.Dims[0])
			size := kernel.RowBytes(kernel.Type(x.Type), len(row))
			if err := kernel.Dequantize(kernel.Type(x.Type), row, x.Data[i*size:(i+1)*size]); err != nil {
				t.Fatal(err)
			}
			v = append(v, row...)
		}
		return v
	}
	has := func(name string) bool {
		return slices.ContainsFunc(d.tensors, func(x gguf.Tensor) bool { return x.Name == name })
	}
	eps, centred := 0.0, false
	for _, kv := range d.kvs {
		switch kv.Key {
		case d.key("attention.layer_norm_epsilon"):
			eps, centred = float64(kv.Value.(float32)), true
		case d.key("attention.layer_norm_rms_epsilon"):
			eps = float64(kv.Value.(float32))
		}
	}
	norm := func(x, w []float32) (y []float64) {
		mean, sum := 0.0, 0.0
		for _, v := range x {
			if centred {
				mean += float64(v) / float64(len(x))
			}
		}
		for _, v := range x {
			sum += (float64(v) - mean) * (float64(v) - mean)
		}
		for i, v := range x {
			y = append(y, (float64(v)-mean)/math.Sqrt(sum/float64(len(x))+eps)*float64(w[i]))
		}
		return y
	}
	table, n := "token_embd.weight", len(hidden[0])
	if has(blk + "nextn.embed_tokens.weight") {
		table = blk + "nextn.embed_tokens.weight"
	}
	embd, enorm, hnorm, proj := floats(table), floats(blk+"nextn.enorm.weight"), floats(blk+"nextn.hnorm.weight"), floats(blk+"nextn.eh_proj.weight")
	made := make([]byte, 4*len(embd))
	for i, h := range hidden {
		both := append(norm(embd[int(next[i])*n:][:n], enorm), norm(h, hnorm)...)
		for k := range n {
			sum := 0.0
			for c, v := range both {
				sum += v * float64(proj[k*2*n+c])
			}
			binary.LittleEndian.PutUint32(made[4*(i*n+k):], math.Float32bits(float32(sum)))
		}
	}

	one := &draft{kvs: slices.Clone(d.kvs)}
	one.set(d.key("block_count"), uint32(1))
	one.set(d.key("nextn_predict_layers"), uint32(0))
	for key, v := range map[string]any{"leading_dense_block_count": uint32(0), "full_attention_interval": uint32(1)} {
		if slices.ContainsFunc(d.kvs, func(kv gguf.KV) bool { return kv.Key == d.key(key) }) {
			one.set(d.key(key), v)
		}
	}
	for key, v := range alone {
		one.set(d.key(key), v)
	}
	one.kvs = slices.DeleteFunc(one.kvs, func(kv gguf.KV) bool { return kv.Key == d.key("attention.recurrent_layers") })
	head := "token_embd.weight"
	for _, name := range []string{"output.weight", blk + "nextn.shared_head_head.weight"} {
		if has(name) {
			head = name
		}
	}
	last := "output_norm.weight"
	if has(blk + "nextn.shared_head_norm.weight") {
		last = blk + "nextn.shared_head_norm.weight"
	}
	one.add("token_embd.weight", gguf.F32, made, d.tensor("token_embd.weight").Dims...)
	for _, x := range d.tensors {
		if rest, ok := strings.CutPrefix(x.Name, blk); ok && !strings.HasPrefix(rest, "nextn.") {
			x.Name = "blk.0." + rest
			one.tensors = append(one.tensors, x)
		}
		switch x.Name {
		case head:
			x.Name = "output.weight"
			one.tensors = append(one.tensors, x)
		case last:
			x.Name = "output_norm.weight"
			one.tensors = append(one.tensors, x)
		case "rope_freqs.weight":
			one.tensors = append(one.tensors, x)
		}
	}
	m, err := load(t, one.write(t, "one.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Without a tensor of the layer, or with one of another shape, a model runs without it, and why is one line.
func TestNextIsMissing(t *testing.T) {
	for name, change := range map[string]func(d *draft, blk string){
		"nextn.eh_proj.weight": func(d *draft, blk string) { d.drop(blk + "nextn.eh_proj.weight") },
		"nextn.enorm.weight":   func(d *draft, blk string) { d.tensor(blk + "nextn.enorm.weight").Dims[0]-- },
		"attn_k.weight":        func(d *draft, blk string) { d.drop(blk + "attn_k.weight") },
	} {
		d := withNext(t, "qwen35", 3)
		for i := range d.tensors {
			d.tensors[i].Dims = slices.Clone(d.tensors[i].Dims)
		}
		blk := fmt.Sprintf("blk.%d.", d.blocks()-1)
		if change(d, blk); name == "nextn.enorm.weight" {
			x := d.tensor(blk + name)
			x.Data = x.Data[:len(x.Data)-4]
		}
		f, err := OpenFile(d.write(t, "x.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSurvey(f, kvF32, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Drafting(); err == nil || !strings.Contains(err.Error(), blk+name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
		f.Close()
	}
	f, err := OpenFile(filepath.Join(golden, "tiny-llama-mixed.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Drafting(); err == nil {
		t.Error("a model without such a layer has one")
	}
}

// Models with random weights have such a layer where that is asked for.
func TestNextOfRandomWeights(t *testing.T) {
	for _, name := range []string{"tiny+mtp", "tiny-delta+mtp", "tiny-latent/2+MTP:Q4_K_M"} {
		shape, err := synth.ParseShape(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.gguf")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shape.Write(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if m := drafting(t, path, kvF32); !m.Drafts() {
			t.Errorf("%s: no layer drafts", name)
		}
	}
	if _, err := synth.ParseShape("tiny-rwkv7+mtp"); err == nil {
		t.Error("RWKV with such a layer")
	}
}
