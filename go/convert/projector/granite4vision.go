package projector

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// granite4Vision is SigLIP, and Q-Formers that ask what some of its layers make: for squares of patches, and for each corner of
// them. They are in the order of the layers of the text model that have them added.
var granite4Vision = lang.Family{
	Arch:  arch,
	Names: "Granite4VisionForConditionalGeneration",
	Rules: lang.Rules{
		{"image_newline", "v.image_newline", nil},
	}.And(within("asked.#.", "v.proj_blk.#.", lang.Rules{
		{"image_positions", "img_pos", nil},
		{"query", "query", nil},
		{"norm", "norm", nil},
		{"out_linear", "linear", nil},
		{"qformer.layernorm", "post_norm", nil},
	}.And(qformer)), vit),
	Rename: func(c *hf.Config, name string) string {
		name = plain(name)
		kind, rest, ok := strings.Cut(name, "_projectors.")
		if number, inner, is := strings.Cut(rest, "."); ok && is {
			n, _ := hf.Digits(number)
			if i := slices.IndexFunc(askers(c), func(a asker) bool { return a.kind == kind && a.number == n }); i >= 0 {
				return "asked." + strconv.Itoa(i) + "." + strings.Replace(inner, "qformer.encoder.layer.0.", "", 1)
			}
		}
		return strings.Replace(name, "vision_tower.vision_model.", "vision_tower.", 1)
	},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{384, 16})
		k.Set("projector_type", "granite4_vision")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.B("use_gelu", true)
		k.N("vision.preproc_image_size", side(v, "image_size", 384))
		query, window, _ := strings.Cut(k.Text("downsample_rate"), "/")
		sides := [2]int{}
		for i, text := range []string{query, window} {
			n, ok := hf.Digits(text)
			if !ok || n < 1 || n > 1<<8 {
				k.Fail("downsample_rate is %.40q, want rows and patches of a side, such as 4/8", k.Text("downsample_rate"))
			}
			sides[i] = n
		}
		k.N("vision.projector.query_side", sides[0])
		k.N("vision.projector.window_side", sides[1])
		var layers, corners, sizes []int32
		for _, a := range askers(k.Config) {
			corner := int32(-1)
			if a.kind == "spatial" {
				corner = int32(a.number)
			}
			layers, corners = append(layers, int32(a.from)), append(corners, corner)
		}
		k.Set("vision.feature_layer", layers)
		k.Set("vision.projector.spatial_offsets", corners)
		for _, pair := range k.List("image_grid_pinpoints") {
			list, _ := pair.([]any)
			if size := signed(k.Integers("image_grid_pinpoints", list)); len(size) == 2 {
				sizes = append(sizes, size[1], size[0]) // widths first
			}
		}
		if sizes != nil {
			k.Set("vision.image_grid_pinpoints", sizes)
		}
		k.Take(v)
	},
}

// An asker is a Q-Former: what its tensors are called, the layer that it asks, and the layer of the text model that gets its rows.
type asker struct {
	kind         string
	number       int
	from, behind int
}

// askers returns the Q-Formers of a checkpoint in the order of the file.
func askers(c *hf.Config) (all []asker) {
	v, layers := c.Within("vision_config"), c.Layers()
	n := v.CountOr(layersNames, 0)
	c.Take(v)
	at := func(x any, n int) int {
		f, _ := x.(float64)
		if f < 0 {
			f += float64(n)
		}
		if i := int(f); f == float64(i) && i >= 0 && i < n {
			return i
		}
		c.Fail("a layer %.40v of %d", x, n)
		return 0
	}
	type pair struct{ from, to any }
	var pairs []pair
	for _, p := range c.List("deepstack_layer_map") {
		list, _ := p.([]any)
		if len(list) != 2 {
			c.Fail("deepstack_layer_map has %.40v, want pairs of layers", p)
			return nil
		}
		pairs = append(pairs, pair{list[0], list[1]})
	}
	number := func(x any) float64 { f, _ := x.(float64); return f }
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(number(a.from), number(b.from)), cmp.Compare(number(a.to), number(b.to)))
	})
	for i, p := range pairs {
		all = append(all, asker{"layerwise", i, at(p.from, n), at(p.to, layers)})
	}
	from := any(-1.0)
	if given := c.Value("spatial_vision_layer"); given != nil {
		from = given
	}
	for i, to := range c.List("spatial_target_layers") {
		all = append(all, asker{"spatial", i, at(from, n), at(to, layers)})
	}
	slices.SortStableFunc(all, func(a, b asker) int { return cmp.Compare(a.behind, b.behind) })
	return all
}
