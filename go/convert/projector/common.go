package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// within returns rules whose names begin with from in a checkpoint, and with to in the file.
func within(from, to string, rules lang.Rules) lang.Rules {
	var all lang.Rules
	for _, r := range rules {
		all = append(all, lang.Rule{From: from + r.From, To: to + r.To, Do: r.Do})
	}
	return all
}

// vit is a transformer of pictures as CLIP and SigLIP have it.
var vit = lang.Rules{
	{"vision_tower.embeddings.class_embedding", "v.class_embd", nil},
	{"vision_tower.embeddings.patch_embedding", "v.patch_embd", nil},
	{"vision_tower.embeddings.position_embedding", "v.position_embd", nil},
	{"vision_tower.pre_layrnorm", "v.pre_ln", nil}, // so called in checkpoints
	{"vision_tower.post_layernorm", "v.post_ln", nil},
}.And(within("vision_tower.encoder.layers.#.", "v.blk.#.", siglip))

// siglip is a layer of such a transformer.
var siglip = lang.Rules{
	{"layer_norm1", "ln1", nil},
	{"layer_norm2", "ln2", nil},
	{"self_attn.q_proj", "attn_q", nil},
	{"self_attn.k_proj", "attn_k", nil},
	{"self_attn.v_proj", "attn_v", nil},
	{"self_attn.out_proj", "attn_out", nil},
	{"mlp.fc1", "ffn_up", nil},
	{"mlp.fc2", "ffn_down", nil},
}

// gated is a feed-forward network with a gate.
var gated = lang.Rules{
	{"mlp.gate_proj", "ffn_gate", nil},
	{"mlp.up_proj", "ffn_up", nil},
	{"mlp.down_proj", "ffn_down", nil},
}

// part returns an object of config.json, or of the part that understands where others speak; nil if there is none.
func part(c *hf.Config, name string) *hf.Config {
	if c.Object(name) != nil {
		return c.Within(name)
	}
	if t := c.Within("thinker_config"); t.Object(name) != nil {
		return t.Within(name)
	}
	return nil
}

// encoder returns the settings of the encoder of pictures or of sounds. It fails if there is none.
func encoder(k *lang.Keys, name string) *hf.Config {
	v := part(k.Config, name)
	if v == nil {
		k.Fail("no %s: the model has no such encoder", name)
		v = k.Part(nil)
	}
	return v
}

// width returns the width of the text model.
func width(k *lang.Keys) int {
	if t := k.Within("thinker_config"); t.Object("text_config") != nil {
		text := t.Within("text_config")
		defer k.Take(text)
		return text.Count("hidden_size")
	}
	return k.Count("hidden_size n_embd")
}

// The names of settings of encoders.
const (
	layersNames = "num_hidden_layers depth encoder_layers num_layers n_layers layers vt_num_hidden_layers"
	widthNames  = "hidden_size embed_dim d_model vt_hidden_size width"
	innerNames  = "intermediate_size encoder_ffn_dim vt_intermediate_size"
	headsNames  = "num_heads num_attention_heads encoder_attention_heads vt_num_attention_heads heads n_heads"
)

// defaults are transformers' values of settings that checkpoints leave out, by the types of encoders.
var defaults = map[string]map[string]float64{
	"pixtral":              vitSizes(1024, 4096, 24, 16, 1024, 16),
	"siglip_vision_model":  vitSizes(768, 3072, 12, 12, 224, 16),
	"siglip2_vision_model": vitSizes(768, 3072, 12, 12, 256, 16),
	"clip_vision_model":    vitSizes(768, 3072, 12, 12, 224, 32),
	"idefics3":             vitSizes(1152, 3072, 12, 16, 224, 32),
	"idefics3_vision":      vitSizes(1152, 3072, 12, 16, 224, 32),
	"smolvlm_vision":       vitSizes(1152, 3072, 12, 16, 224, 32),
	"internvl_vision":      vitSizes(1024, 4096, 24, 16, 448, 14),
	"llama4_vision_model":  vitSizes(768, 5632, 34, 16, 448, 14),
}

func vitSizes(width, inner, layers, heads, image, patch float64) map[string]float64 {
	return map[string]float64{"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
		"num_attention_heads": heads, "image_size": image, "patch_size": patch}
}

// with returns an object with the values of others for what it says nothing of.
func with(object map[string]any, others map[string]float64) map[string]any {
	all := maps.Clone(object)
	if all == nil {
		return nil
	}
	for name, v := range others {
		if all[name] == nil {
			all[name] = v
		}
	}
	return all
}

// without returns an object without a name.
func without(object map[string]any, name string) map[string]any {
	all := maps.Clone(object)
	delete(all, name)
	return all
}

// signed returns integers as lists of GGUF have them.
func signed(all []uint32) []int32 {
	var list []int32
	for _, n := range all {
		list = append(list, int32(n))
	}
	return list
}

// A pixels says how large pictures are when config.json leaves it out.
type pixels struct{ image, patch int }

// vision sets what all encoders of pictures have, and returns their settings. Where these are left out, d has transformers'
// defaults.
func vision(k *lang.Keys, d pixels) *hf.Config { return visionAs(k, d, nil) }

// Means and deviations of colours that processors have where files do not say them.
var (
	clip     = map[string][]float32{"image_mean": {0.48145466, 0.4578275, 0.40821073}, "image_std": {0.26862954, 0.26130258, 0.27577711}}
	half     = map[string][]float32{"image_mean": {0.5, 0.5, 0.5}, "image_std": {0.5, 0.5, 0.5}}
	imagenet = map[string][]float32{"image_mean": {0.485, 0.456, 0.406}, "image_std": {0.229, 0.224, 0.225}}
)

// visionAs is vision of pictures whose colours are these where nothing says so.
func visionAs(k *lang.Keys, d pixels, colours map[string][]float32) *hf.Config {
	v := encoder(k, "vision_config")
	v.Default(defaults[v.Text("model_type")])
	k.B("has_vision_encoder", true)
	k.N("vision.projection_dim", width(k))
	k.N("vision.image_size", side(v, "image_size", d.image))
	k.N("vision.patch_size", side(v, "patch_size", d.patch))
	k.N("vision.embedding_length", v.Count(widthNames))
	k.N("vision.feed_forward_length", v.CountOr(innerNames, 0))
	k.N("vision.block_count", layers(v))
	k.N("vision.attention.head_count", v.Count(headsNames))
	p := processorOr(k, colours != nil)
	for _, name := range []string{"image_mean", "image_std"} {
		values := p.Numbers(name)
		if len(values) == 0 {
			values = colours[name]
		}
		if len(values) != 3 && p.Err() == nil {
			p.Fail("%s has %d numbers, want one for each of 3 colours", name, len(values))
		}
		k.Set("vision."+name, values)
	}
	k.Take(p)
	return v
}

// audio sets what all encoders of sounds have, and returns their settings.
func audio(k *lang.Keys) *hf.Config {
	a := encoder(k, "audio_config")
	k.B("has_audio_encoder", true)
	k.N("audio.projection_dim", width(k))
	k.N("audio.embedding_length", a.Count(widthNames))
	k.N("audio.feed_forward_length", a.CountOr(innerNames, 0))
	k.N("audio.block_count", layers(a))
	k.N("audio.attention.head_count", a.Count(headsNames))
	return a
}

// layers returns the number of an encoder's layers.
func layers(c *hf.Config) int {
	n := c.Count(layersNames)
	if n > 1<<12 {
		c.Fail("%d layers, the most is %d", n, 1<<12)
		return 0
	}
	return n
}

// sidesOf returns a number or a list of numbers.
func sidesOf(c *hf.Config, name string) []int {
	list, is := c.Value(name).([]any)
	if !is {
		if c.Has(name) {
			return []int{c.Count(name)}
		}
		return nil
	}
	var all []int
	for _, v := range list {
		n, ok := hf.AsCount(v)
		if !ok {
			c.Fail("%s has %.40v, want integers of 0 or more", name, v)
		}
		all = append(all, n)
	}
	return all
}

// maxSide is the most pixels, or patches, on a side of a picture.
const maxSide = 1 << 14

// side returns a size of pictures, which some checkpoints have as height and width.
func side(c *hf.Config, name string, otherwise int) int {
	n, sides := otherwise, sidesOf(c, name)
	for i, s := range sides {
		if n = s; i > 0 && s != sides[0] {
			c.Fail("%s is %v, want a square", name, sides)
		}
	}
	if n < 1 || n > maxSide {
		c.Fail("%s is %d, want 1 to %d", name, n, maxSide)
		return 1
	}
	return n
}

// processor returns the settings of pictures and sounds before they are encoded: those of processor_config.json, and of
// preprocessor_config.json.
func processor(k *lang.Keys) *hf.Config { return processorOr(k, false) }

// processorOr is processor of what may say nothing.
func processorOr(k *lang.Keys, none bool) *hf.Config {
	var all *hf.Config
	for _, file := range []struct{ name, inner string }{
		{"processor_config.json", "image_processor"}, {"preprocessor_config.json", "media_proc_cfg"},
		{"preprocessor_config.json", "vision_config"},
	} {
		c, err := hf.ReadFile(filepath.Join(filepath.Dir(k.Path()), file.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			k.Fail("%v", err)
			return k.Part(nil)
		}
		for name, v := range c.Object(file.inner) {
			c.Put(name, v)
		}
		if all == nil {
			all = c
			continue
		}
		all.Fill(c)
	}
	if all == nil {
		if !none {
			k.Fail("no preprocessor_config.json beside it, which says how pictures are prepared")
		}
		return k.Part(nil)
	}
	return all
}

// gelu says which function the feed-forward networks of pictures have: that of config.json, by default GELU.
func gelu(k *lang.Keys, v *hf.Config) {
	switch fn := v.Text("hidden_act hidden_activation"); fn {
	case "", "gelu", "gelu_pytorch_tanh", "gelu_new":
		k.B("use_gelu", true)
	case "silu":
		k.B("use_silu", true)
	default:
		k.Fail("an encoder with the activation %.40q is not known", fn)
	}
}

// frames splits the weights of patches of two pictures, the neighbours in time, into those of each.
var frames lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	if len(v.Shape) != 5 || v.Shape[2] != 2 {
		return nil, fmt.Errorf("the shape %v, want patches of 2 pictures", v.Shape)
	}
	parts, err := lang.CutAxis(v, 2, 2, false)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if parts[i], err = p.As(v.Shape[0], v.Shape[1], v.Shape[3], v.Shape[4]); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// thirds splits queries, keys and values.
var thirds lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) { return lang.CutAxis(in[0], 0, 3, false) }

// zipped returns what f makes of the numbers of two tensors of one shape.
func zipped(a, b lang.View, f func(a, b float32) float32) (lang.View, error) {
	if !slices.Equal(a.Shape, b.Shape) || a.Read == nil || b.Read == nil {
		return lang.View{}, fmt.Errorf("the shapes %v and %v, want two tensors of as many numbers", a.Shape, b.Shape)
	}
	return lang.View{Shape: a.Shape, Read: func(dst []float32, at uint64) error {
		if err := a.Read(dst, at); err != nil {
			return err
		}
		other := make([]float32, len(dst))
		if err := b.Read(other, at); err != nil {
			return err
		}
		for i, x := range other {
			dst[i] = f(dst[i], x)
		}
		return nil
	}}, nil
}

// upright gives the bias of a convolution of sounds the dimension along time.
var upright = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) { return v.As(v.Elems(), 1) })
