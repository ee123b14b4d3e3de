package convert

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/scripted"
)

// The layer of Qwen 3 Next that predicts a further token, which config.json does not count, becomes a block after the last
// one, and the model can draft with it. Without its tensors there is no such block, and a part of them is refused.
func TestNextOfQwen3Next(t *testing.T) {
	plain := readCheckpoint(t, "qwen3next")
	const next = `
mtp.fc.weight 32 64
mtp.norm.weight 32
mtp.pre_fc_norm_embedding.weight 32
mtp.pre_fc_norm_hidden.weight 32
mtp.layers.0.input_layernorm.weight 32
mtp.layers.0.post_attention_layernorm.weight 32
mtp.layers.0.self_attn.q_proj.weight 256 32
mtp.layers.0.self_attn.k_proj.weight 64 32
mtp.layers.0.self_attn.v_proj.weight 64 32
mtp.layers.0.self_attn.o_proj.weight 32 128
mtp.layers.0.self_attn.q_norm.weight 32
mtp.layers.0.self_attn.k_norm.weight 32
mtp.layers.0.mlp.gate.weight 8 32
mtp.layers.0.mlp.experts.*.gate_proj.weight 32 32
mtp.layers.0.mlp.experts.*.up_proj.weight 32 32
mtp.layers.0.mlp.experts.*.down_proj.weight 32 32
mtp.layers.0.mlp.shared_expert.gate_proj.weight 32 32
mtp.layers.0.mlp.shared_expert.up_proj.weight 32 32
mtp.layers.0.mlp.shared_expert.down_proj.weight 32 32
mtp.layers.0.mlp.shared_expert_gate.weight 1 32
`
	made := func(tensors string, o Options) (*gguf.File, error) {
		dir := t.TempDir()
		checkpoint{config: plain.config, tensors: tensors}.write(t, dir)
		return converted(t, dir, o)
	}
	without := must(made(plain.tensors, Options{}))
	with := must(made(plain.tensors+next, Options{}))
	if n, err := with.Uint("qwen3next.nextn_predict_layers"); n != 1 || err != nil {
		t.Errorf("%d layers predict further tokens, %v", n, err)
	}
	if n, err := with.Uint("qwen3next.block_count"); n != 9 || err != nil {
		t.Errorf("%d blocks, %v", n, err)
	}
	var more []string
	for _, x := range with.Tensors {
		if _, ok := without.Tensor(x.Name); !ok {
			more = append(more, x.Name)
		}
	}
	if len(more) != 20 || slices.ContainsFunc(more, func(s string) bool { return !strings.HasPrefix(s, "blk.8.") }) {
		t.Errorf("%d more tensors, want 20 of block 8: %v", len(more), more)
	}
	if _, ok := without.Value("qwen3next.nextn_predict_layers"); ok {
		t.Error("without its tensors there is a layer that predicts further tokens")
	}
	drafts(t, with)
	if _, err := made(plain.tensors+"mtp.norm.weight 32\n", Options{}); err == nil || !strings.Contains(err.Error(), "mtp.norm.weight") {
		t.Errorf("a part of a layer: %v", err)
	}
	skip := Options{Skip: []string{"mtp.norm.weight"}}
	must(made(plain.tensors+"mtp.norm.weight 32\n", skip))
}

// drafts checks that a file's model can draft by itself.
func drafts(t *testing.T, f *gguf.File) {
	t.Helper()
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		w.Set(kv.Key, kv.Value)
	}
	device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
	defer device.Close()
	file := must(model.OpenBytes("test", bytesOf(t, w, f, func(s string) string { return s })))
	e := must(engine.New(file, engine.Config{Device: device, Ctx: 64, MTP: true}))
	defer e.Close()
	if err := e.MTP(); err != nil {
		t.Error(err)
	}
}

// The layers of MiMo V2 that predict further tokens, which config.json does not count, become blocks with windows after the
// last one.
func TestNextOfMiMo2(t *testing.T) {
	dir := t.TempDir()
	const layer = `
0-1: AT.input_layernorm.weight 32
0-1: AT.self_attn.q_proj.weight 128 32
0-1: AT.self_attn.o_proj.weight 32 64
0-1: AT.mlp.gate_proj.weight 64 32
0-1: AT.mlp.up_proj.weight 64 32
0-1: AT.mlp.down_proj.weight 32 64
`
	checkpoint{config: sized("MiMoV2ForCausalLM", 2, 32, 64, 4, 1, 512, `"head_dim": 32, "v_head_dim": 16, "layernorm_epsilon": 1e-5, "partial_rotary_factor": 0.5, "rope_theta": 5000000,
"swa_rope_theta": 10000, "sliding_window": 16, "hybrid_layer_pattern": [0, 1], "swa_num_key_value_heads": 2, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32`), tensors: `
model.embed_tokens.weight 512 32
model.norm.weight 32
lm_head.weight 512 32
` + strings.ReplaceAll(layer, "AT", "model.layers.#") + strings.ReplaceAll(layer, "AT", "model.mtp.layers.#") + `
0-1: model.layers.#.post_attention_layernorm.weight 32
0: model.layers.#.self_attn.k_proj.weight 32 32
0: model.layers.#.self_attn.v_proj.weight 16 32
1: model.layers.#.self_attn.k_proj.weight 64 32
1: model.layers.#.self_attn.v_proj.weight 32 32
0-1: model.mtp.layers.#.self_attn.k_proj.weight 64 32
0-1: model.mtp.layers.#.self_attn.v_proj.weight 32 32
0-1: model.mtp.layers.#.pre_mlp_layernorm.weight 32
0-1: model.mtp.layers.#.final_layernorm.weight 32
0-1: model.mtp.layers.#.enorm.weight 32
0-1: model.mtp.layers.#.hnorm.weight 32
0-1: model.mtp.layers.#.eh_proj.weight 32 64
`}.write(t, dir)
	made := must(converted(t, dir, Options{}))
	if n, err := made.Uint("mimo2.nextn_predict_layers"); n != 2 || err != nil {
		t.Errorf("%d layers predict further tokens, %v", n, err)
	}
	drafts(t, made)
}

// Layers after the last one that predict further tokens become what a file with such layers has. That of dots3-note has
// attention to a window, a network without experts and embeddings of its own, and config.json does not count it.
func TestNextBehindTheLast(t *testing.T) {
	for _, name := range []string{"cohere2moe", "deepseek32", "dots3note"} {
		t.Run(name, func(t *testing.T) {
			o := readOrigin(t, name)
			path := filepath.Join("../model/testdata/archs", name+".gguf")
			if _, err := os.Stat(path); err != nil {
				path = testdata.Path(t, "archs/"+name+".gguf")
			}
			raw := must(os.ReadFile(path))
			want := must(gguf.Parse(must(scripted.WithNext(raw, 1))))
			layers := must(must(gguf.Parse(raw)).Uint(name + ".block_count"))
			blk := fmt.Sprintf("blk.%d.", layers)
			o.names = append(o.names, ".eh_proj nextn.eh_proj", ".enorm nextn.enorm", ".hnorm nextn.hnorm", ".shared_head.norm nextn.shared_head_norm")
			if name != "dots3note" {
				o.config = strings.Replace(o.config, "{", `{"num_nextn_predict_layers": 1, `, 1)
			} else {
				o.names = slices.Concat([]string{
					fmt.Sprintf("model.layers.8.self_attn.kv_a_layernorm blk.8.attn_kv_a_norm over:%v", math.Sqrt(32.0/48)),
					"model.mtp.embed_tokens blk.8.nextn.embed_tokens",
				}, o.names)
				own := map[string]*gguf.Tensor{}
				for to, from := range map[string]string{
					"ffn_gate.weight": "blk.0.ffn_gate.weight", "ffn_up.weight": "blk.0.ffn_up.weight", "ffn_down.weight": "blk.0.ffn_down.weight",
					"nextn.embed_tokens.weight": "output.weight",
				} {
					x, _ := want.Tensor(from)
					own[to] = &gguf.Tensor{Name: blk + to, Type: x.Type, Dims: x.Dims, Data: x.Data}
				}
				want.Tensors = slices.DeleteFunc(want.Tensors, func(x gguf.Tensor) bool {
					return strings.HasPrefix(x.Name, blk+"ffn_") && x.Name != blk+"ffn_norm.weight" || strings.HasPrefix(x.Name, blk+"exp_probs")
				})
				for _, x := range own {
					want.Tensors = append(want.Tensors, *x)
				}
				want = must(gguf.Parse(asRun(t, want, want, nil)))
			}
			dir := t.TempDir()
			save(t, dir, "config.json", o.config)
			save(t, dir, "tokenizer.json", anyTokenizer(128))
			save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
			used := checkpointOf(t, dir, want, o)
			for _, x := range want.Tensors {
				if !used[x.Name] {
					t.Errorf("no tensor of the checkpoint is %s", x.Name)
				}
			}
			got := must(converted(t, dir, Options{Type: "f16"}))
			compareTensors(t, got, want, regexp.MustCompile("^$"))
			differ := append(o.differ, "attention.head_count")
			for _, line := range diff(settingsOf(got, differ), settingsOf(want, differ)) {
				t.Error(line)
			}
			if heads, err := got.Ints("dots3note.attention.head_count"); err == nil && !slices.Equal(heads, []int64{8, 4, 4, 4, 8, 4, 4, 4, 4}) {
				t.Errorf("heads %v", heads)
			}
			drafts(t, got)
		})
	}
}
