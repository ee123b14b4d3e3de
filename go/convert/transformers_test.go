package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// A truth is what transformers computes of a small checkpoint. scripts/golden_hf.py writes it, and says what its fields
// are.
type truth struct {
	Name    string
	Config  json.RawMessage
	Tensors []string
	Prompt  []int32
	Greedy  []int32
	Sampled [][]float64

	Vectors [][]float64
	Scores  []float64
	Labels  [][]float64
	Second  int

	Terms  []float64
	Splade json.RawMessage

	spelling []string // of names of tensors, as projectorCase.write has it
}

// noise returns element i of the noise of a name whose hash is h.
func noise(h uint32, i int) float64 { return float64(mixed(h, i)>>8)/(1<<23) - 1 }

// mixed returns the bits of that noise.
func mixed(h uint32, i int) uint32 {
	x := uint32(i)*0x9E3779B9 + h
	x = (x ^ x>>16) * 0x85EBCA6B
	x = (x ^ x>>13) * 0xC2B2AE35
	return x ^ x>>16
}

// hashOf returns the hash of a name, FNV-1a.
func hashOf(name string) uint32 {
	hash := uint32(2166136261)
	for _, b := range []byte(name) {
		hash = (hash ^ uint32(b)) * 16777619
	}
	return hash
}

// sampledAt returns the tokens whose log-probabilities are compared at a position.
func sampledAt(ids []int32, position, n, vocab int) []int32 {
	all := []int32{ids[position+1]}
	for k := 1; k < n; k++ {
		all = append(all, int32((7*position+89*k)%vocab))
	}
	return all
}

// write writes the checkpoint. It returns the number of tokens.
func (c truth) write(t *testing.T, dir string) {
	t.Helper()
	header, data := map[string]any{}, []byte{}
	put := func(name string, shape []int, scale, given string) {
		hash, n, kind := hashOf(name), 1, "F32"
		for _, d := range shape {
			n *= d
		}
		begin, offset := len(data), 0.0
		if scale != "is" {
			offset = must(strconv.ParseFloat(given, 64))
		}
		if scale == "is" {
			kind = "I64"
			for one := range strings.SplitSeq(given, ",") {
				data = binary.LittleEndian.AppendUint64(data, uint64(must(strconv.ParseInt(one, 10, 64))))
			}
		} else if scale == "none" {
			data = append(data, make([]byte, 4*n)...)
		} else if scale == "below" {
			kind = "I64"
			for i := range n {
				data = binary.LittleEndian.AppendUint64(data, uint64((noise(hash, i)+1)/2*offset))
			}
		} else {
			times := must(strconv.ParseFloat(scale, 64))
			for i := range n {
				x := float32(offset + float64(times*noise(hash, i)))
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			}
		}
		for _, other := range c.spelling {
			was, is, _ := strings.Cut(other, ">")
			if rest, ok := strings.CutPrefix(name, was); ok {
				name = is + rest
			}
		}
		header[name] = map[string]any{"dtype": kind, "shape": shape, "data_offsets": []int{begin, len(data)}}
	}
	for _, line := range c.Tensors {
		layers := []int{-1}
		if of, rest, ok := strings.Cut(line, ": "); ok {
			layers, line = numbers(t, of), rest
		}
		words := strings.Fields(line)
		shape := []int{}
		for _, w := range words[1 : len(words)-2] {
			shape = append(shape, must(strconv.Atoi(w)))
		}
		scale, given := words[len(words)-2], words[len(words)-1]
		for _, il := range layers {
			put(strings.ReplaceAll(words[0], "#", strconv.Itoa(il)), shape, scale, given)
		}
	}
	save(t, dir, "config.json", string(c.Config))
	save(t, dir, "model.safetensors", string(safetensorsOf(t, header, data)))
	if c.Terms != nil {
		if err := os.Mkdir(filepath.Join(dir, "1_SpladePooling"), 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, dir, "modules.json", `[{"path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"},
			{"path": "1_SpladePooling", "type": "sentence_transformers.sparse_encoder.models.SpladePooling"}]`)
		save(t, dir, "1_SpladePooling/config.json", string(c.Splade))
	}
}

// TestTransformers converts small checkpoints, and compares the log-probabilities at each position and the likeliest
// tokens with what transformers computes of them.
func TestTransformers(t *testing.T) {
	paths := must(filepath.Glob("testdata/transformers/*.json"))
	if len(paths) == 0 {
		t.Fatal("no archive")
	}
	for _, path := range paths {
		for _, c := range readArchive(t, path) {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json")+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				c.compare(t)
			})
		}
	}
}

// readArchive returns the cases of a family.
func readArchive(t *testing.T, path string) []truth {
	t.Helper()
	var archive struct{ Cases []truth }
	if err := json.Unmarshal(must(os.ReadFile(path)), &archive); err != nil || len(archive.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", path, len(archive.Cases), err)
	}
	return archive.Cases
}

// nearTransformers is how far a log-probability may be from that of transformers, which computes in F32 too. The sums
// have other orders.
const nearTransformers = 3e-4

// unlike are cases that are not computed, with the setting that the error names.
var unlike = map[string]string{
	"TestTransformers/bloom/after":        "apply_residual_connection_post_layernorm",
	"TestTransformers/deepseek4/norm":     "norm_topk_prob",
	"TestTransformers/glm4moelite/halves": "rope_interleave",
	"TestTransformers/gpt2/inverse":       "scale_attn_by_inverse_layer_idx",
	"TestTransformers/gpt2/unscaled":      "scale_attn_weights",
	"TestTransformers/gptoss/limit":       "swiglu_limit",
	"TestTransformers/graniteswa/bases":   "layer_rope_theta",
	"TestTransformers/kimilinear/groups":  "num_expert_group",
	"TestTransformers/kimilinear/norm":    "moe_renormalize",
	"TestTransformers/laguna/cap":         "moe_router_logit_softcapping",
	"TestTransformers/laguna/open":        "gating",
	"TestTransformers/mellum/dense":       "mlp_layer_types",
	"TestTransformers/mimo2/norm":         "norm_topk_prob",
	"TestTransformers/minicpm3/bias":      "attn_kv_a_mqa.bias",
	"TestTransformers/olmoe/clip":         "clip_qkv",
	"TestTransformers/phimoe/jitter":      "router_jitter_noise",

	"TestTransformers/qwen4exp/ngrams-narrow": "embedding_length_per_layer_input",
	"TestTransformers/qwen4exp/ngrams-twice":  "ple_layer_ids",
}

func (c truth) compare(t *testing.T) {
	dir := t.TempDir()
	c.write(t, dir)
	var size struct {
		Vocab int `json:"vocab_size"`
		Text  struct {
			Vocab int `json:"vocab_size"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(c.Config, &size); err != nil {
		t.Fatal(err)
	}
	save(t, dir, "tokenizer.json", anyTokenizer(max(size.Vocab, size.Text.Vocab)))
	save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
	m, err := Open(dir, Options{Type: "f32", Threads: 1})
	if name := unlike[t.Name()]; name != "" {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want a refusal of %s", err, name)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	if _, err := m.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	if c.Sampled == nil {
		c.compareRead(t, b.Bytes())
		return
	}
	before, rows := c.Prompt, [][]float32(nil)
	if cfg := must(must(model.OpenBytes("test", b.Bytes())).Config()); len(cfg.Encoder) > 0 {
		before, rows = cfg.Start, answerTo(t, b.Bytes(), c.Prompt, len(c.Greedy))
	} else {
		rows = logitsOf(t, b.Bytes(), c.Prompt, c.Greedy)[:len(c.Sampled)]
	}
	ids, worst, at := slices.Concat(before, c.Greedy), 0.0, 0
	for row, logits := range rows {
		i := row + len(c.Sampled) - len(rows)
		for k, id := range sampledAt(ids, i, len(c.Sampled[i]), len(logits)) {
			if d := math.Abs(logprob(logits, id) - c.Sampled[i][k]); !(d <= worst) {
				worst, at = d, i
			}
		}
		if greedy := i - len(before) + 1; greedy >= 0 && slices.Index(logits, slices.Max(logits)) != int(c.Greedy[greedy]) {
			t.Errorf("token %d of the answer is %d, want %d", greedy, slices.Index(logits, slices.Max(logits)), c.Greedy[greedy])
			break
		}
	}
	if !(worst <= nearTransformers) {
		t.Errorf("a log-probability at position %d is %.2g from that of transformers", at, worst)
	}
}

// compareRead compares what an encoder computes of a text.
func (c truth) compareRead(t *testing.T, b []byte) {
	file, cfg := opened(t, b)
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	e, err := engine.New(file, engine.Config{Device: device, Ctx: cfg.NCtx, Batch: 128, KV: kvcache.Both(kvcache.F32), Vectors: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	read := func(pooling nn.Pooling) (rows [][]float32) {
		if err := e.Embed(t.Context(), []engine.Text{{IDs: c.Prompt, Second: c.Second}}, pooling, func(_ int, vectors [][]float32) error {
			rows = vectors
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	var settings struct {
		Labels  map[string]string `json:"id2label"`
		Problem string            `json:"problem_type"`
	}
	if err := json.Unmarshal(c.Config, &settings); err != nil {
		t.Fatal(err)
	}
	if n := len(cfg.Classifier.Labels); n != len(c.Scores) && (len(c.Labels) == 0 || n != len(c.Labels[0])) {
		t.Errorf("labels %q", cfg.Classifier.Labels)
	}
	for i, label := range cfg.Classifier.Labels {
		if want := settings.Labels[strconv.Itoa(i)]; label != want {
			t.Errorf("label %d is %q, want %q", i, label, want)
		}
	}
	if want := settings.Problem == "multi_label_classification"; cfg.Classifier.Several != want {
		t.Errorf("a text may be of several classes: %v, want %v", cfg.Classifier.Several, want)
	}
	var got, want [][]float64
	switch {
	case c.Vectors != nil:
		want = c.Vectors
		for p, row := range read(nn.PoolNone) {
			var some []float32
			for k := range want[p] {
				some = append(some, row[(7*p+89*k)%len(row)])
			}
			got = append(got, doubles(some))
		}
	case c.Scores != nil:
		want = [][]float64{c.Scores}
		got = append(got, doubles(read(nn.PoolRank)[0]))
	case c.Labels != nil:
		want = c.Labels
		for _, row := range read(nn.PoolTokens) {
			got = append(got, doubles(row))
		}
	case c.Terms != nil:
		want = [][]float64{c.Terms}
		got = append(got, doubles(read(e.Pooling())[0]))
	default:
		t.Fatal("nothing to compare")
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	worst, at := 0.0, 0
	for i, row := range want {
		if len(got[i]) != len(row) {
			t.Fatalf("row %d has %d numbers, want %d", i, len(got[i]), len(row))
		}
		for k, x := range row {
			if d := math.Abs(got[i][k] - x); !(d <= worst) {
				worst, at = d, i
			}
		}
	}
	if !(worst <= nearTransformers) {
		t.Errorf("a number of row %d is %.2g from that of transformers", at, worst)
	}
}

func doubles(row []float32) []float64 {
	all := make([]float64, len(row))
	for i, x := range row {
		all[i] = float64(x)
	}
	return all
}

// answerTo returns the log-probabilities of each token at the positions of an answer to a text that an encoder reads, of
// n tokens that are each the likeliest.
func answerTo(t *testing.T, b []byte, prompt []int32, n int) [][]float32 {
	t.Helper()
	file, cfg := opened(t, b)
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	e, err := engine.New(file, engine.Config{Device: device, Ctx: 128, Batch: 64, KV: kvcache.Both(kvcache.F32)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := must(engine.NewLoop(e, engine.LoopConfig{}))
	defer l.Close()
	a := &answer{rows: make([][]float32, 0, n), vocab: cfg.NVocab, done: make(chan error, 1)}
	p := generate.Params{Prompt: prompt, MaxTokens: n, Sampling: sample.Defaults(), TopLogprobs: cfg.NVocab}
	p.Sampling.Temp = 0
	if _, err := l.Submit(&engine.Request{Params: p, Sink: a, Slot: -1}); err != nil {
		t.Fatal(err)
	}
	if err := <-a.done; err != nil {
		t.Fatal(err)
	}
	return a.rows
}

// A source and an answer may have as many positions each as the model has a table for.
func TestSides(t *testing.T) {
	dir := t.TempDir()
	readArchive(t, "testdata/transformers/bart.json")[0].write(t, dir)
	save(t, dir, "tokenizer.json", anyTokenizer(272))
	m := must(Open(dir, Options{Type: "f32", Threads: 1}))
	defer m.Close()
	var b bytes.Buffer
	must(m.Write(t.Context(), &b))
	file, cfg := opened(t, b.Bytes())
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	e := must(engine.New(file, engine.Config{Device: device, KV: kvcache.Both(kvcache.F32)}))
	defer e.Close()
	const side = 128
	if cfg.NSide != side || e.Ctx() != 2*side {
		t.Fatalf("%d positions of a context of %d", cfg.NSide, e.Ctx())
	}
	for n, want := range map[int]int{1: side - 1, side: side - 1, side + 1: -1} {
		s, got := e.NewSequence(), 0
		p := generate.Params{Prompt: slices.Repeat([]int32{5}, n), MaxTokens: -1, Sampling: sample.Defaults(), TopLogprobs: -1}
		_, err := e.Generate(t.Context(), s, p, func(int32) error { got++; return nil })
		s.Close()
		if want < 0 && !errors.Is(err, engine.ErrTooLong) || want >= 0 && (err != nil || got != want) {
			t.Errorf("a text of %d tokens: an answer of %d, want %d: %v", n, got, want, err)
		}
	}
	if _, err := engine.New(file, engine.Config{Device: device, Ctx: 2*side + 1}); err == nil || !strings.Contains(err.Error(), "128 positions") {
		t.Errorf("a longer context: %v", err)
	}
}

// An answer collects the log-probabilities of all tokens.
type answer struct {
	rows  [][]float32
	vocab int
	done  chan error
}

func (a *answer) Progress(engine.Progress) {}
func (a *answer) Done(r engine.Result)     { a.done <- r.Err }

func (a *answer) Token(tok generate.Token) bool {
	row := make([]float32, a.vocab)
	for _, p := range tok.Top {
		row[p.ID] = float32(p.Value)
	}
	a.rows = append(a.rows, row)
	return true
}

// logprob returns the logarithm of a token's probability.
func logprob(logits []float32, id int32) float64 {
	most, sum := float64(slices.Max(logits)), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return float64(logits[id]) - most - math.Log(sum)
}

// logitsOf returns the logits at each position of a prompt, and of an answer whose tokens come one by one, but for its
// last one.
func logitsOf(t *testing.T, b []byte, prompt, answer []int32) (rows [][]float32) {
	t.Helper()
	file, cfg := opened(t, b)
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	e, err := engine.New(file, engine.Config{Device: device, Ctx: max(cfg.NCtx, len(prompt)+len(answer)), Batch: 64, KV: kvcache.Both(kvcache.F32)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := e.NewSequence()
	defer s.Close()
	keep := func(_ int, logits []float32) error {
		rows = append(rows, slices.Clone(logits))
		return nil
	}
	if err := e.Eval(t.Context(), s, prompt, 0, keep); err != nil {
		t.Fatal(err)
	}
	for i := range len(answer) - 1 {
		if err := e.Eval(t.Context(), s, answer[i:i+1], 0, keep); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}
