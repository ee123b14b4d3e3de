package projector

import (
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// Files of the kinds here are written as the scripts that llama.cpp had before its converter did: up and down of feed-forwards
// are exchanged, and positions are in F16.

// oldVit is a transformer of pictures in such files.
var oldVit = within("vision_tower.encoder.layers.#.", "v.blk.#.", lang.Rules{
	{"mlp.fc1", "ffn_down", nil},
	{"mlp.fc2", "ffn_up", nil},
}).And(vit)

// oldTypes are those of such files.
var oldTypes = lang.Types{{"v.position_embd.", gguf.F16}, {"v.patch_embd.", gguf.F16}}

// resampler has learned queries that ask the patches of slices: MiniCPM-V 2.5 to 4.5, and what sees of MiniCPM-o.
var resampler = lang.Family{
	Arch:  arch,
	Names: "MiniCPMV MiniCPMO",
	Rules: lang.Rules{
		{"resampler.query", "resampler.query", nil},
		{"resampler.pos_embed", "resampler.pos_embed", nil},
		{"resampler.proj", "resampler.proj.weight", lang.Then(lang.Transpose, lang.Times(perEmbedding))},
		{"resampler.kv_proj", "resampler.kv", nil},
		{"resampler.attn.in_proj_weight", "resampler.attn.q.weight resampler.attn.k.weight resampler.attn.v.weight", thirds},
		{"resampler.attn.in_proj_bias", "resampler.attn.q.bias resampler.attn.k.bias resampler.attn.v.bias", thirds},
		{"resampler.attn.out_proj", "resampler.attn.out", nil},
		{"resampler.ln_q", "resampler.ln_q", nil},
		{"resampler.ln_kv", "resampler.ln_kv", nil},
		{"resampler.ln_post", "resampler.ln_post", nil},
	}.And(oldVit),
	Types: oldTypes,
	Extra: resamplerPlaces,
	Rename: func(_ *hf.Config, name string) string {
		if rest, ok := strings.CutPrefix(name, "vpm."); ok {
			return "vision_tower." + rest
		}
		if strings.HasPrefix(name, "resampler.") {
			return name
		}
		return "" // of the text model, and of what hears and speaks
	},
	Keys: func(k *lang.Keys) {
		version := minicpmVersion(k.Config)
		k.Put("vision_config", with(orEmpty(k.Object("vision_config")), vitSizes(1152, 4304, 27, 16, 980, 14)))
		v := visionAs(k, pixels{980, 14}, half)
		k.B("has_text_encoder", false)
		k.B("has_minicpmv_projector", true)
		k.Set("projector_type", "resampler")
		k.Set("minicpmv_version", version)
		k.N("minicpmv_query_num", k.Count("query_num"))
		k.N("vision.image_size", side(k.Config, "image_size", 448)) // of a slice
		k.N("vision.projection_dim", 0)                             // resampler.proj.weight says it
		k.F("vision.attention.layer_norm_epsilon", 1e-6)
		k.B("use_gelu", true)
		if k.FlagOr("drop_vision_last_layer", false) {
			k.N("vision.block_count", max(layers(v)-1, 0))
		}
		k.Take(v)
	},
}

// orEmpty returns an object that is not nil.
func orEmpty(o map[string]any) map[string]any {
	if o == nil {
		return map[string]any{}
	}
	return o
}

// minicpmVersion returns the number that llama.cpp has for a version of MiniCPM-V or MiniCPM-o, which chooses what stands
// around pictures. Config.json of 2.5 says none.
func minicpmVersion(c *hf.Config) int32 {
	version := "2.5"
	switch v := c.Value("version").(type) {
	case string:
		version = v
	case float64:
		version = fmt.Sprintf("%.1f", v)
	}
	names := c.Texts("architectures")
	if len(names) > 0 {
		version = strings.TrimPrefix(names[0], "MiniCPM") + " " + version
	}
	numbers := map[string]int32{"V 2.5": 2, "V 2.6": 3, "O 2.6": 4, "V 4.0": 5, "V 4.5": 6, "O 4.0": 6, "O 4.5": 100045}
	n, ok := numbers[version]
	if !ok {
		c.Fail("MiniCPM-%.20s has no projector that is converted; want V 2.5, 2.6, 4.0 or 4.5, or O 2.6, 4.0 or 4.5", version)
	}
	return n
}

// perEmbedding returns what the rows of pictures are multiplied by, since the text model multiplies all embeddings.
func perEmbedding(c *hf.Config) float64 {
	scale := c.NumberOr("scale_emb", 1)
	if scale == 0 {
		c.Fail("scale_emb is 0")
		return 1
	}
	return 1 / scale
}

// resamplerSide is the patches on a side of a picture that have positions in files.
const resamplerSide = 70

// resamplerPlaces returns the positions of patches, which checkpoints leave to the program: waves of columns and then of rows,
// sines before cosines (Attention Is All You Need, section 3.5).
func resamplerPlaces(c *hf.Config) map[string]lang.View {
	n := c.Count("hidden_size")
	if n < 4 || n > 1<<15 || n%4 != 0 {
		c.Fail("embeddings of %d numbers, want a multiple of 4", n)
		return nil
	}
	quarter := n / 4
	waves := make([][]float32, resamplerSide) // of a place along an axis
	for p := range waves {
		waves[p] = make([]float32, 2*quarter)
		for i := range quarter {
			step := float32(1 / math.Pow(10000, float64(i)/float64(quarter)))
			angle := float64(float32(p) * step)
			waves[p][i], waves[p][quarter+i] = float32(math.Sin(angle)), float32(math.Cos(angle))
		}
	}
	v := lang.View{Shape: []uint64{resamplerSide * resamplerSide, uint64(n)}}
	v.Read = func(dst []float32, at uint64) error {
		for i := range dst {
			row, column := (at+uint64(i))/uint64(n), int((at+uint64(i))%uint64(n))
			if column < n/2 {
				dst[i] = waves[row%resamplerSide][column]
			} else {
				dst[i] = waves[row/resamplerSide][column-n/2]
			}
		}
		return nil
	}
	return map[string]lang.View{"resampler.pos_embed_k": v}
}

// glmEdge is the projector of GLM-Edge-V: a convolution and a gated feed-forward.
var glmEdge = lang.Family{
	Arch:  arch,
	Names: "GlmForCausalLM",
	Rules: lang.Rules{
		{"adapter.boi", "adapter.boi", nil},
		{"adapter.eoi", "adapter.eoi", nil},
		{"adapter.conv", "adapter.conv", nil},
		{"adapter.linear.linear", "adapter.linear.linear", nil},
		{"adapter.linear.norm1", "adapter.linear.norm1", nil},
		{"adapter.linear.gate_proj", "adapter.linear.gate", nil},
		{"adapter.linear.dense_h_to_4h", "adapter.linear.dense_h_to_4h", nil},
		{"adapter.linear.dense_4h_to_h", "adapter.linear.dense_4h_to_h", nil},
	}.And(oldVit),
	Types: append(lang.Types{{"adapter.", gguf.F16}}, oldTypes...),
	Rename: func(_ *hf.Config, name string) string {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "model."), "vision.")
		if !ok {
			return ""
		}
		return plain(strings.TrimPrefix(rest, "vit.model."))
	},
	Keys: func(k *lang.Keys) {
		v := visionAs(k, pixels{672, 14}, half)
		k.B("has_text_encoder", false)
		k.B("has_glm_projector", true)
		k.Set("projector_type", "adapter")
		k.N("vision.projection_dim", 0)
		k.F("vision.attention.layer_norm_epsilon", 1e-6)
		k.B("use_gelu", true)
		k.Take(v)
	},
}
