package lang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
)

// TestRules finds the rules of tensors by their names, and the names of what they make.
func TestRules(t *testing.T) {
	rules := Rules{{"norm", "first_norm", nil}, {"a b", "ab", nil}, {"exact.weight", "x.weight", nil}}.And(
		Rules{{"norm", "output_norm", nil}, {".norm", "attn_norm", nil}}, Rules{
			{"mlp.experts.*.up", "ffn_up_exps", nil}, {"stack", "enc.blk.#.y", nil}, {"gone", "", nil},
		})
	for _, c := range []struct{ name, want string }{ // rule, part, results
		{"model.norm.weight", "0 0 first_norm.weight"},
		{"norm.bias", "0 0 first_norm.bias"},
		{"model.layers.3.norm.weight", "0 0 blk.3.first_norm.weight"}, // the first counts
		{"model.b.weight", "1 1 ab.weight"},
		{"model.exact.weight", "2 0 x.weight"},
		{"model.exact.bias", "none"},
		{"model.layers.12.mlp.experts.7.up.weight", "5 0 blk.12.ffn_up_exps.weight"},
		{"transformer.h.0.stack", "6 0 enc.blk.0.y"},
		{"gone.weight", "7 0 "},
		{"other.norm.weight", "none"},
	} {
		s := Parse(c.name, []string{"model.", "transformer."})
		got := "none"
		if r, part, suffix := Match(rules, s); r != nil {
			i := slices.IndexFunc(rules, func(x Rule) bool { return x.From == r.From && x.To == r.To })
			got = fmt.Sprintf("%d %d %s", i, part, strings.Join(Targets(r, s.Layer, suffix), " "))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if s := Parse("model.layers.12.mlp.experts.7.up.weight", nil); s != (Source{12, "mlp.experts.*.up.weight", 7}) {
		t.Errorf("%+v", s)
	}
	if s := Parse("norm.weight", nil); s != (Source{-1, "norm.weight", -1}) {
		t.Errorf("%+v", s)
	}
}

// TestPlain removes what models with other inputs put before the names of their text model.
func TestPlain(t *testing.T) {
	for name, want := range map[string]string{
		"model.language_model.layers.0.x": "model.layers.0.x", "language_model.model.norm.weight": "model.norm.weight",
		"language_model.lm_head.weight": "lm_head.weight", "model.text_model.norm.weight": "model.norm.weight",
		"model.norm.weight": "model.norm.weight",
	} {
		if got := Plain(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}

// TestKeys sets keys of settings, of which the last that has a value counts.
func TestKeys(t *testing.T) {
	c := new(hf.Config).Part(map[string]any{
		"num_hidden_layers": 2., "hidden_size": 8., "n_embd": 9., "width": []any{3., 4.}, "scale": 0.5, "on": true, "none": nil,
		"routed": "sigmoid", "limits": []any{nil, 2.5},
	})
	k := &Keys{Config: c, Arch: "x"}
	layers := k.All(&Family{
		Settings: Settings{{"feed_forward_length", 'n', "width"}, {"a", 'f', "scale"}}.And(Settings{{"b", 'b', "none on"}, {"c", 'n', "none"}}),
		Keys: func(k *Keys) {
			k.Gating("softmax")
			k.Limits("limit", "limits", 2)
			k.Limits("nothing", "nowhere", 2)
			k.N("block_count", 5)
			k.N("gone", 1)
			k.Drop("gone", "never there")
		},
	})
	want := []string{
		"x.block_count 5", "x.embedding_length 8", "x.feed_forward_length [3 4]", "x.a 0.5", "x.b true", "x.expert_gating_func 1",
		"x.limit [0 2.5]",
	}
	var got []string
	for _, kv := range k.KVs {
		got = append(got, fmt.Sprintf("%s %v", kv.Key, kv.Value))
	}
	if layers != 5 || c.Err() != nil || !slices.Equal(got, want) {
		t.Errorf("%d layers, %v, %q\nwant %q", layers, c.Err(), got, want)
	}
	for name, do := range map[string]func(k *Keys){
		"scored by": func(k *Keys) { k.Gating("dice") }, "rotations of the type": func(k *Keys) {
			k.Put("rope_scaling", map[string]any{"type": "spiral"})
			k.rope()
		}, "want numbers": func(k *Keys) { k.Limits("limit", "texts", 1) }, "integers of 0": func(k *Keys) { k.Integers("x", []any{-1.}) },
	} {
		k := &Keys{Config: new(hf.Config).Part(map[string]any{"texts": []any{"a"}})}
		do(k)
		if k.Err() == nil || !strings.Contains(k.Err().Error(), name) {
			t.Errorf("%v, want %s", k.Err(), name)
		}
	}
}

// TestRope sets the keys of rotations by their type.
func TestRope(t *testing.T) {
	for _, c := range []struct {
		settings map[string]any
		want     string
	}{
		{map[string]any{}, "[]"},
		{map[string]any{"rope_theta": 5., "local_rope_theta": 6.}, "[{x.rope.freq_base 5} {x.rope.freq_base_swa 6}]"},
		{map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2.}}, "[{x.rope.scaling.type linear} {x.rope.scaling.factor 2}]"},
		{map[string]any{"rope_scaling": map[string]any{"rope_type": "longrope"}}, "[{x.rope.scaling.type longrope} {x.rope.scaling.original_context_length 0} {x.rope.scaling.attn_factor 1}]"},
		{map[string]any{"max_position_embeddings": 64., "rope_scaling": map[string]any{"rope_type": "yarn", "original_max_position_embeddings": 16., "truncate": false, "attention_factor": 1.}},
			"[{x.rope.scaling.type yarn} {x.rope.scaling.factor 4} {x.rope.scaling.original_context_length 16} {x.rope.scaling.yarn_attn_factor 1} {quern.rope.scaling.yarn_truncate false} {quern.rope.scaling.yarn_length 1}]"},
		{map[string]any{"rope_scaling": map[string]any{"rope_type": "dynamic", "factor": 2.}}, "[{quern.rope.scaling.dynamic_factor 2}]"},
		{map[string]any{"max_position_embeddings": 9., "rope_scaling": map[string]any{"type": "yarn", "factor": 2., "beta_fast": 3., "attn_factor": 4.}},
			"[{x.rope.scaling.type yarn} {x.rope.scaling.factor 2} {x.rope.scaling.original_context_length 9} {x.rope.scaling.yarn_attn_factor 4} {x.rope.scaling.yarn_beta_fast 3}]"},
		{map[string]any{"rope_scaling": map[string]any{"type": "mrope", "mrope_section": []any{1., 2., 3.}}}, "[{x.rope.dimension_sections [1 2 3 0]}]"},
		{map[string]any{"rope_parameters": map[string]any{
			"sliding_attention": map[string]any{"rope_theta": 7.}, "full_attention": map[string]any{"rope_theta": 8.},
		}}, "[{x.rope.freq_base 8} {x.rope.freq_base_swa 7}]"},
	} {
		k := &Keys{Config: new(hf.Config).Part(c.settings), Arch: "x"}
		k.rope()
		if got := fmt.Sprint(k.KVs); got != c.want || k.Err() != nil {
			t.Errorf("%v: %s, %v, want %s", c.settings, got, k.Err(), c.want)
		}
	}
	for name, number := range map[string]uint32{"softmax": 1, "sigmoid": 2, "sqrtsoftplus": 4} {
		k := &Keys{Config: new(hf.Config).Part(map[string]any{"scoring_func": strings.ToUpper(name)}), Arch: "x"}
		if k.Gating(""); k.Err() != nil || len(k.KVs) != 1 || k.KVs[0].Value != number {
			t.Errorf("%s: %v, %v", name, k.KVs, k.Err())
		}
	}
}

// TestLists makes lists of layers.
func TestLists(t *testing.T) {
	is := Every(7, 1, 3)
	if !slices.Equal(is, []bool{false, true, false, false, true, false, false}) {
		t.Errorf("every third: %v", is)
	}
	if got := Where(is[:3], 5, 2); !slices.Equal(got, []uint32{2, 5, 2}) {
		t.Errorf("numbers of layers: %v", got)
	}
	if got := Every(2, 0, 0); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("a period of 0: %v", got)
	}
}
