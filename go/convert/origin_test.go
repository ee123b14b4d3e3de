package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// The matrices that adapters change have the names in checkpoints that tables of these have, or there is an error.
func TestOriginsOfMatrices(t *testing.T) {
	named, refused := 0, map[string][]string{}
	for _, name := range tables(t, "origins") {
		if name == "grok-1" || name == "granitehybrid-dense" {
			continue // files do not say that they were made of these checkpoints, and not of others
		}
		o := readOrigin(t, name)
		dir := t.TempDir()
		save(t, dir, "config.json", o.config)
		c, err := hf.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := family.Of(c)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		var own []string
		for _, line := range o.names {
			own = append(own, strings.Fields(line)...)
		}
		for _, line := range slices.Concat(o.names, usually(t)) {
			fields := strings.Fields(line)
			if len(fields) > 1 && want[fields[1]] == "" {
				want[fields[1]] = fields[0]
			}
		}
		for _, word := range strings.Fields("attn_q attn_k attn_v attn_qkv attn_output ffn_gate ffn_up ffn_down") {
			got, err := family.OriginOf(f.Arch, family.Sizes{Heads: 4, HeadsKV: 4, Width: 64, HeadDim: 16, Layers: 4}, "blk.3."+word+".weight", 64)
			if err != nil {
				refused[name] = append(refused[name], word)
				continue
			}
			from, ok := strings.CutPrefix(want[word], ".")
			if !ok {
				continue // the model has none of it
			}
			named++
			layers := lang.Plain(strings.ReplaceAll(o.layers, "#", "3"))
			if !slices.Contains(own, word) && strings.HasPrefix(got.Name, layers) {
				from = strings.TrimPrefix(got.Name, layers) // the table says nothing of it alone
			}
			if got.Name != layers+from {
				t.Errorf("%s: %s is %q, want %q", name, word, got.Name, layers+from)
			}
		}
	}
	t.Logf("%d names; refused: %v", named, refused)
	if named < 500 {
		t.Errorf("%d names", named)
	}
	for _, name := range []string{"llama", "qwen2", "qwen3", "gemma3", "phi3", "smollm3"} {
		if words := slices.DeleteFunc(refused[name], func(w string) bool { return w == "attn_qkv" }); len(words) > 0 && name != "phi3" {
			t.Errorf("%s: %v have no origin", name, words)
		}
	}
}

// A matrix that is gate and up in one is the checkpoint's of that name, where only one can be meant.
func TestOriginOfGateAndUp(t *testing.T) {
	for arch, want := range map[string]string{
		"phi3": "model.layers.3.mlp.gate_up_proj", "glm4": "model.layers.3.mlp.gate_up_proj", "chatglm": "",
		"modern-bert": "model.layers.3.mlp.Wi", "plamo3": "model.layers.layers.3.mlp.gate_up_proj",
	} {
		s := family.Sizes{Heads: 4, HeadsKV: 4, Width: 64, HeadDim: 16, Layers: 4, Gated: true}
		o, err := family.OriginOf(arch, s, "blk.3.ffn_up.weight", 64)
		if o.Name != want || o.Rows != nil || (err == nil) != (want != "") {
			t.Errorf("%s: %+v, %v, want %q", arch, o, err, want)
		}
	}
}

// Rows of queries are put back as checkpoints have them.
func TestOriginOfRows(t *testing.T) {
	o, err := family.OriginOf("llama", family.Sizes{Heads: 2, HeadsKV: 1, Width: 8, HeadDim: 4, Layers: 1}, "blk.0.attn_q.weight", 8)
	if err != nil || !slices.Equal(o.Rows, []int{0, 2, 1, 3, 4, 6, 5, 7}) || o.Name != "model.layers.0.self_attn.q_proj" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, tensor := range []string{"token_embd.weight", "blk.0.attn_q.bias", "blk.0.nothing.weight", "blk.0.attn_q"} {
		if o, err := family.OriginOf("llama", family.Sizes{Heads: 2, HeadsKV: 1}, tensor, 8); err == nil {
			t.Errorf("%s is %+v", tensor, o)
		}
	}
	if _, err := family.OriginOf("none", family.Sizes{}, "blk.0.attn_q.weight", 8); err == nil {
		t.Error("an unknown architecture")
	}
}
