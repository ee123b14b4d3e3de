package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// aBERT writes a small BERT with files of sentence-transformers into a folder. It returns a text for it.
func aBERT(t *testing.T, dir string, files map[string]string) (ids []int32) {
	t.Helper()
	var archive struct{ Cases []truth }
	if err := json.Unmarshal(must(os.ReadFile("testdata/transformers/bert.json")), &archive); err != nil {
		t.Fatal(err)
	}
	c := archive.Cases[0]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.write(t, dir)
	save(t, dir, "tokenizer.json", anyTokenizer(272))
	save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, dir, name, text)
	}
	return c.Prompt[:20]
}

// dense is the files of a product with so many rows of 64 columns, and its weights.
func dense(t *testing.T, folder string, rows, cols int, fn string, bias bool, files map[string]string) (w, b []float64) {
	t.Helper()
	header, data := map[string]any{}, []byte{}
	put := func(name string, shape []int) (all []float64) {
		begin, n := len(data), 1
		for _, d := range shape {
			n *= d
		}
		for i := range n {
			x := float32(noise(uint32(len(folder)+n), i) / 8)
			all = append(all, float64(x))
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{begin, len(data)}}
		return all
	}
	w = put("linear.weight", []int{rows, cols})
	b = make([]float64, rows)
	if bias {
		b = put("linear.bias", []int{rows})
	}
	files[folder+"/model.safetensors"] = string(safetensorsOf(t, header, data))
	files[folder+"/config.json"] = fmt.Sprintf(`{"in_features": %d, "out_features": %d, "activation_function": %q}`, cols, rows, fn)
	return w, b
}

const (
	ofTransformer = `{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}`
	ofPooling     = `{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}`
	ofTerms       = `{"idx": 1, "path": "1_SpladePooling", "type": "sentence_transformers.sparse_encoder.models.SpladePooling"}`
	ofLength      = `{"idx": 4, "path": "4_Normalize", "type": "sentence_transformers.models.Normalize"}`
)

// ofProduct is a module that multiplies.
func ofProduct(folder string) string {
	return fmt.Sprintf(`{"path": %q, "type": "sentence_transformers.models.Dense"}`, folder)
}

// TestModules pools vectors of tokens, whose numbers TestTransformers compares, in each way that a folder of
// sentence-transformers says, and multiplies them by matrices.
func TestModules(t *testing.T) {
	for kind, pool := range map[string]func(x []float64) float64{
		"mean_tokens":          func(x []float64) float64 { return sum(x) / float64(len(x)) },
		"cls_token":            func(x []float64) float64 { return x[0] },
		"lasttoken":            func(x []float64) float64 { return x[len(x)-1] },
		"max_tokens":           slices.Max[[]float64],
		"mean_sqrt_len_tokens": func(x []float64) float64 { return sum(x) / math.Sqrt(float64(len(x))) },
		"weightedmean_tokens": func(x []float64) float64 {
			s, all := 0.0, 0.0
			for i, v := range x {
				s += float64(i+1) * v
				all += float64(i + 1)
			}
			return s / all
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{
				"modules.json":          fmt.Sprintf("[%s, %s, %s, %s, %s]", ofTransformer, ofPooling, ofProduct("2_Dense"), ofProduct("3_Dense"), ofLength),
				"1_Pooling/config.json": fmt.Sprintf(`{"word_embedding_dimension": 64, "pooling_mode_%s": true, "include_prompt": true}`, kind),
			}
			w, b := dense(t, "2_Dense", 48, 64, "torch.nn.modules.activation.Tanh", true, files)
			w2, _ := dense(t, "3_Dense", 16, 48, "torch.nn.modules.linear.Identity", false, files)
			dir := t.TempDir()
			ids := aBERT(t, dir, files)
			m := must(Open(dir, Options{Type: "f32", Threads: 1}))
			defer m.Close()
			var buf bytes.Buffer
			if _, err := m.Write(context.Background(), &buf); err != nil {
				t.Fatal(err)
			}
			file, cfg := opened(t, buf.Bytes())
			if got := cfg.VectorWidth(); got != 16 {
				t.Errorf("vectors of %d numbers, want 16", got)
			}
			device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
			defer device.Close()
			e := must(engine.New(file, engine.Config{Device: device, Ctx: cfg.NCtx, Batch: 128, KV: kvcache.Both(kvcache.F32), Vectors: true}))
			defer e.Close()
			read := func(pooling nn.Pooling) (rows [][]float32) {
				if err := e.Embed(t.Context(), []engine.Text{{IDs: ids}}, pooling, func(_ int, vectors [][]float32) error {
					rows = vectors
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return rows
			}
			tokens, got := read(nn.PoolNone), read(e.Pooling())
			pooled := make([]float64, 64)
			for i := range pooled {
				var column []float64
				for _, row := range tokens {
					column = append(column, float64(row[i]))
				}
				pooled[i] = pool(column)
			}
			hidden := product(w, b, pooled)
			for i, x := range hidden {
				hidden[i] = math.Tanh(x)
			}
			if len(tokens) != len(ids) || len(got) != 1 || len(got[0]) != 16 {
				t.Fatalf("%d tokens, %d vectors", len(tokens), len(got))
			}
			for i, want := range product(w2, make([]float64, 16), hidden) {
				if d := math.Abs(float64(got[0][i]) - want); !(d < 1e-5) {
					t.Errorf("number %d is %v, want %v", i, got[0][i], want)
				}
			}
		})
	}
}

// TestTokenVectors makes a vector of length 1 for each token of a ColBERT, by a product, which is in a folder of its own or
// among the tensors of the model.
func TestTokenVectors(t *testing.T) {
	files := map[string]string{}
	w, _ := dense(t, "1_Dense", 16, 64, "torch.nn.modules.linear.Identity", false, files)
	plain, own := t.TempDir(), t.TempDir()
	ids := aBERT(t, plain, nil)
	files["modules.json"] = "[" + ofTransformer + `, {"path": "1_Dense", "type": "pylate.models.Dense.Dense"}]`
	aBERT(t, own, files)
	inside := t.TempDir()
	aBERT(t, inside, nil)
	raw := must(os.ReadFile(inside + "/model.safetensors"))
	size := binary.LittleEndian.Uint64(raw)
	var header map[string]any
	if err := json.Unmarshal(raw[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	data := raw[8+size:]
	header["linear.weight"] = map[string]any{"dtype": "F32", "shape": []int{16, 64}, "data_offsets": []int{len(data), len(data) + 4*16*64}}
	for _, x := range w {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
	}
	save(t, inside, "model.safetensors", string(safetensorsOf(t, header, data)))
	config := string(must(os.ReadFile(inside + "/config.json")))
	save(t, inside, "config.json", strings.Replace(config, "BertModel", "HF_ColBERT", 1))
	tokens := tokenVectors(t, plain, ids)
	for _, dir := range []string{own, inside} {
		got := tokenVectors(t, dir, ids)
		if len(got) != len(ids) || len(got[0]) != 16 {
			t.Fatalf("%d vectors of %d numbers", len(got), len(got[0]))
		}
		for i, row := range tokens {
			want := product(w, make([]float64, 16), doubles(row))
			length := 0.0
			for _, x := range want {
				length += x * x
			}
			for k, x := range want {
				if d := math.Abs(float64(got[i][k]) - x/math.Sqrt(length)); !(d < 1e-5) {
					t.Fatalf("number %d of token %d is %v, want %v", k, i, got[i][k], x/math.Sqrt(length))
				}
			}
		}
	}
}

// tokenVectors converts a checkpoint and returns the vectors of a text's tokens.
func tokenVectors(t *testing.T, dir string, ids []int32) (rows [][]float32) {
	t.Helper()
	m := must(Open(dir, Options{Type: "f32", Threads: 1}))
	defer m.Close()
	var buf bytes.Buffer
	if _, err := m.Write(context.Background(), &buf); err != nil {
		t.Fatal(err)
	}
	file, cfg := opened(t, buf.Bytes())
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	e := must(engine.New(file, engine.Config{Device: device, Ctx: cfg.NCtx, Batch: 128, KV: kvcache.Both(kvcache.F32), Vectors: true}))
	defer e.Close()
	if err := e.Embed(t.Context(), []engine.Text{{IDs: ids}}, nn.PoolNone, func(_ int, vectors [][]float32) error {
		rows = vectors
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestModulesRefused names the module or the setting that is not computed.
func TestModulesRefused(t *testing.T) {
	mean := `{"pooling_mode_mean_tokens": true}`
	for _, c := range []struct {
		name, modules, pooling string
		want                   []string
	}{
		{"two poolings", ofPooling, `{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}`, []string{"1_Pooling", "mean", "cls"}},
		{"no pooling", ofPooling, `{}`, []string{"1_Pooling", "want one"}},
		{"an unknown pooling", ofPooling, `{"pooling_mode": "attention"}`, []string{"1_Pooling", "attention"}},
		{"no prompt", ofPooling, `{"pooling_mode_cls_token": true, "include_prompt": false}`, []string{"include_prompt"}},
		{"an unknown module", `{"type": "sentence_transformers.models.LSTM"}`, mean, []string{"modules.json", "LSTM"}},
		{"a product before", ofProduct("3_Dense") + "," + ofPooling, mean, []string{"modules.json", "Pooling", "before Dense"}},
		{"a product that is missing", ofPooling + "," + ofProduct("7_Dense"), mean, []string{"7_Dense"}},
		{"a folder outside", ofPooling + "," + ofProduct("../x"), mean, []string{"modules.json", "../x"}},
		{"a model elsewhere", `{"path": "0_BERT", "type": "Transformer"}`, mean, []string{"0_BERT"}},
		{"sparse vectors of no scores", ofTerms, mean, []string{"BertModel", "sparse", "BertForMaskedLM"}},
		{"another function", ofPooling + "," + ofProduct("2_Dense"), mean, []string{"2_Dense", "Softsign"}},
	} {
		dir, files := t.TempDir(), map[string]string{"modules.json": "[" + c.modules + "]", "1_Pooling/config.json": c.pooling}
		dense(t, "2_Dense", 4, 64, "torch.nn.modules.activation.Softsign", false, files)
		dense(t, "3_Dense", 4, 64, "torch.nn.modules.linear.Identity", false, files)
		aBERT(t, dir, files)
		_, err := Open(dir, Options{})
		refused(t, c.name, err, c.want...)
	}
}

// TestSparseModules reads SpladePooling, and names what of it is not computed. Without modules.json, the name of a folder
// says that vectors are sparse.
func TestSparseModules(t *testing.T) {
	all := readArchive(t, "testdata/transformers/bert.json")
	at := slices.IndexFunc(all, func(c truth) bool { return c.Name == "terms" })
	for _, c := range []struct {
		name, modules, settings string
		want                    []string
	}{
		{"another strategy", ofTransformer + "," + ofTerms, `{"pooling_strategy": "mean"}`, []string{"1_SpladePooling", "pooling_strategy", "mean"}},
		{"another function", ofTransformer + "," + ofTerms, `{"activation_function": "gelu"}`, []string{"1_SpladePooling", "activation_function", "gelu"}},
		{"no settings", ofTransformer + "," + ofTerms, "", []string{"1_SpladePooling", "config.json"}},
		{"what follows", ofTerms + "," + ofLength, `{}`, []string{"modules.json", "SpladePooling", "last"}},
		{"two poolings", ofPooling + "," + ofTerms, `{}`, []string{"modules.json", "SpladePooling", "right behind"}},
		{"a table of queries", `{"type": "sentence_transformers.sparse_encoder.models.SparseStaticEmbedding"}`, `{}`, []string{"SparseStaticEmbedding"}},
	} {
		dir := t.TempDir()
		aBERT(t, dir, map[string]string{"1_Pooling/config.json": `{"pooling_mode_mean_tokens": true}`})
		all[at].write(t, dir)
		save(t, dir, "modules.json", "["+c.modules+"]")
		save(t, dir, "1_SpladePooling/config.json", c.settings)
		if c.settings == "" {
			if err := os.Remove(filepath.Join(dir, "1_SpladePooling/config.json")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(dir, Options{})
		refused(t, c.name, err, c.want...)
	}
	for name, want := range map[string]bool{"naver-SPLADE-v3": true, "bert-base": false} {
		dir := filepath.Join(t.TempDir(), name)
		aBERT(t, dir, map[string]string{"x": ""})
		all[at].write(t, dir)
		if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
			t.Fatal(err)
		}
		m := must(Open(dir, Options{}))
		defer m.Close()
		var buf bytes.Buffer
		if _, err := m.Write(t.Context(), &buf); err != nil {
			t.Fatal(err)
		}
		_, cfg := opened(t, buf.Bytes())
		if got := cfg.Pooling == nn.PoolTerms; got != want {
			t.Errorf("%s: sparse vectors %v, want %v", name, got, want)
		}
		if width := cfg.VectorWidth(); want && width != 272 || !want && width != 64 {
			t.Errorf("%s: vectors of %d numbers", name, width)
		}
	}
}

// TestPrompts keeps what is put before texts, and to how many tokens they are cut.
func TestPrompts(t *testing.T) {
	dir := t.TempDir()
	aBERT(t, dir, map[string]string{
		"config_sentence_transformers.json": `{"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}`,
		"sentence_bert_config.json":         `{"max_seq_length": 100, "do_lower_case": false}`,
	})
	m := must(Open(dir, Options{}))
	defer m.Close()
	var buf bytes.Buffer
	if _, err := m.Write(context.Background(), &buf); err != nil {
		t.Fatal(err)
	}
	_, cfg := opened(t, buf.Bytes())
	if p := cfg.Prompts; !slices.Equal(p.Names, []string{"document", "query"}) || !slices.Equal(p.Texts, []string{"", "query: "}) ||
		p.Default != "query" || cfg.MaxText != 100 {
		t.Errorf("%+v, %d tokens", p, cfg.MaxText)
	}
	save(t, dir, "config_sentence_transformers.json", `{"prompts": {}, "default_prompt_name": "query"}`)
	_, err := Open(dir, Options{})
	refused(t, "a default that is none", err, "default_prompt_name", "query")
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// product returns the rows of w times x, and b.
func product(w, b, x []float64) []float64 {
	all := slices.Clone(b)
	for r := range all {
		for c, v := range x {
			all[r] += w[r*len(x)+c] * v
		}
	}
	return all
}
