package family

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
)

// debertaV2 is DeBERTa 2 and 3.
var debertaV2 = lang.Family{
	Arch: "deberta",
	Names: "DebertaV2Model DebertaV2ForMaskedLM DebertaV2ForSequenceClassification " +
		"DebertaV2ForTokenClassification",
	Rules: lang.Rules{
		{"attention.self.query_proj", "attn_q", nil},
		{"attention.self.key_proj", "attn_k", nil},
		{"attention.self.value_proj", "attn_v", nil},
		{"attention.self.pos_key_proj", "rel_k", nil},
		{"attention.self.pos_query_proj", "rel_q", nil},
		{"encoder.LayerNorm", "rel_embd_norm", nil},
		{"encoder.conv.conv.weight", "conv.weight", tapsBeside},
		{"encoder.conv.conv.bias", "conv.bias", nil},
		{"encoder.conv.LayerNorm", "conv_norm", nil},
	}.And(debertaRules),
	Keys: func(k *lang.Keys) {
		debertaKeys(k)
		if k.Has("conv_kernel_size") && k.Number("conv_kernel_size") > 0 {
			if n := k.Count("conv_kernel_size"); n != 3 && n != 5 && n != 7 {
				k.Fail("conv_kernel_size is %d, want 3, 5 or 7, or 0 for no convolution", n)
			}
			k.Want("conv_groups", "1")
			k.SetActivation("quern.conv.activation", cmp.Or(k.Text("conv_act"), "tanh"))
		}
	},
	Finish:     debertaTensors,
	Folded:     debertaFolded,
	Rename:     oldNorms,
	Prefix:     "deberta.",
	Skip:       debertaSkip,
	Vocab:      debertaVocab,
	Activation: "gelu",
	Fixed:      causalNot,
}

// deberta is DeBERTa, whose queries, keys and values are one matrix.
var deberta = lang.Family{
	Arch:  "deberta",
	Names: "DebertaModel DebertaForMaskedLM DebertaForSequenceClassification DebertaForTokenClassification",
	Rules: lang.Rules{
		{"attention.self.in_proj.weight", "attn_q.weight attn_k.weight attn_v.weight", threeOfHeads},
		{"attention.self.q_bias", "attn_q.bias", nil},
		{"attention.self.v_bias", "attn_v.bias", nil},
		{"attention.self.pos_proj", "rel_k", nil},
		{"attention.self.pos_q_proj", "rel_q", nil},
	}.And(debertaRules),
	Keys: func(k *lang.Keys) {
		k.Want("position_buckets", "-1", "0")
		k.Want("share_att_key", "false")
		k.Want("norm_rel_ebd", "none")
		debertaKeys(k)
	},
	Finish:     debertaTensors,
	Folded:     debertaFolded,
	Rename:     oldNorms,
	Prefix:     "deberta.",
	Skip:       debertaSkip,
	Vocab:      debertaVocab,
	Activation: "gelu",
	Fixed:      causalNot.And(lang.Fixed{{"talking_head", "false"}}),
}

// debertaRules is what all versions have in common. What rel_embd and others beside it make is the rows of distanceRows,
// and they are no tensors of the file.
var debertaRules = lang.Rules{{"encoder.rel_embeddings", "rel_embd", nil}}.And(bertRules)

// debertaSkip is what guesses masked words.
var debertaSkip = []string{"cls.", "lm_predictions.", "mask_predictions.", "embeddings.position_ids",
	"deberta.embeddings.position_ids"}

// debertaKeys are those of all versions.
func debertaKeys(k *lang.Keys) {
	encoderKeys(k)
	classifierKeys(k, "cls", cmp.Or(k.Text("pooler_hidden_act"), "gelu"))
	hidden, heads := k.Count("hidden_size"), max(k.Count("num_attention_heads"), 1)
	for name, want := range map[string]int{
		"embedding_size": hidden, "pooler_hidden_size": hidden, "attention_head_size": hidden / heads,
	} {
		if n := k.CountOr(name, want); n != want {
			k.Fail("%s is %d, which is not computed; want %d", name, n, want)
		}
	}
	k.F("attention.scale", 1/math.Sqrt(float64(hidden/heads*(1+len(distanceTerms(k.Config))))))
	positions, buckets := k.NumberOr("max_relative_positions", -1), k.NumberOr("position_buckets", -1)
	if positions < 1 {
		positions = float64(k.Count("max_position_embeddings"))
	}
	for name, n := range map[string]float64{"max_relative_positions": positions, "position_buckets": buckets} {
		if n > math.MaxInt32 {
			k.Fail("%s is %g, want at most %d", name, n, math.MaxInt32)
		}
	}
	if k.FlagOr("relative_attention", false) {
		k.N("attention.relative_positions", int(positions))
		if buckets > 0 {
			k.N("attention.relative_buckets_count", int(buckets))
		}
	}
	k.Flag("share_att_key") // debertaTensors asks for these two
	k.Flag("position_biased_input")
	for part := range strings.SplitSeq(strings.ToLower(cmp.Or(k.Text("norm_rel_ebd"), "none")), "|") {
		if part = strings.TrimSpace(part); part != "none" && part != "layer_norm" {
			k.Fail("norm_rel_ebd is %.40q, want none or layer_norm", part)
		}
	}
}

// distanceTerms returns which products scores have beside that of content with content: c2p, p2c or both.
func distanceTerms(c *hf.Config) []string {
	var names []string
	switch v, _ := c.Find("pos_att_type"); v := v.(type) {
	case string:
		for name := range strings.SplitSeq(strings.ToLower(v), "|") {
			if name = strings.TrimSpace(name); name != "" && name != "none" {
				names = append(names, name)
			}
		}
	case []any:
		for _, name := range v {
			text, _ := name.(string)
			names = append(names, text)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) || slices.ContainsFunc(names,
		func(name string) bool { return name != "c2p" && name != "p2c" }) {
		c.Fail("pos_att_type is %.40q, want c2p, p2c or both", strings.Join(names, "|"))
	}
	return names
}

// debertaVocab sets the tokens around texts, which files of tokenizers may not say.
func debertaVocab(c *hf.Config, v *vocab.Vocabulary) {
	typesOfTexts(c, v)
	for _, special := range []struct{ name, token string }{
		{"bos", "[CLS]"}, {"eos", "[SEP]"}, {"unk", "[UNK]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"cls", "[CLS]"},
		{"mask", "[MASK]"},
	} {
		if id := slices.Index(v.Tokens, special.token); id >= 0 { // whatever config.json says
			v.ReplaceSpecial(special.name, id)
		}
	}
	for _, name := range []string{"bos", "eos"} {
		if v.Special(name) >= 0 {
			v.SetAdd(name, true)
		}
	}
}

// debertaFolded returns the projections that rows of distances are made with.
func debertaFolded(c *hf.Config) string {
	if c.FlagOr("share_att_key", false) {
		return "attn_q attn_k rel_q rel_k"
	}
	return "rel_q rel_k"
}

// oldNorms gives the weights of norms the names that they have in all checkpoints but the first.
func oldNorms(_ *hf.Config, name string) string {
	if stem, ok := strings.CutSuffix(name, ".gamma"); ok {
		return stem + ".weight"
	}
	if stem, ok := strings.CutSuffix(name, ".beta"); ok {
		return stem + ".bias"
	}
	return name
}

// threeOfHeads splits rows that are of each head the query's, the key's and the value's.
var threeOfHeads lang.Op = func(c *hf.Config, in []lang.View) (out []lang.View, err error) {
	rows, each := in[0].Rows()
	heads := uint64(max(c.Heads(), 1))
	if len(in[0].Shape) != 2 || rows%(3*heads) != 0 {
		return nil, fmt.Errorf("the shape %v, want rows of queries, keys and values of %d heads", in[0].Shape, heads)
	}
	d := rows / (3 * heads)
	for i := range uint64(3) {
		v := in[0].Strided(i*d*each, lang.Dim{heads, 3 * d * each}, lang.Dim{d, each}, lang.Dim{each, 1})
		if v, err = v.As(heads*d, each); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// tapsBeside gives the weights of a convolution, [out][in][taps], as a matrix whose columns are those of each tap.
var tapsBeside = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 3 {
		return lang.View{}, fmt.Errorf("the shape %v, want three dimensions", v.Shape)
	}
	out, in, taps := v.Shape[0], v.Shape[1], v.Shape[2]
	return v.Strided(0, lang.Dim{out, in * taps}, lang.Dim{taps, 1}, lang.Dim{in, taps}).As(out, taps*in)
})

// debertaTensors leaves out a table of positions that is not used, and makes the rows of distances.
func debertaTensors(d *lang.Draft, k *lang.Keys) {
	const positions = "position_embd.weight"
	if !k.FlagOr("position_biased_input", true) {
		d.Targets = slices.DeleteFunc(d.Targets, func(t *lang.Target) bool { return t.Name == positions })
	} else if d.Target(positions) == nil {
		k.Fail("position_biased_input is true, and there is no embeddings.position_embeddings.weight")
	}
	distanceRows(d, k)
}

// distanceRows makes keys and queries of distances of their embeddings, for each layer and head: these and the layers'
// projections do not change with a text.
func distanceRows(d *lang.Draft, k *lang.Keys) {
	taken := map[string]*lang.Target{}
	d.Targets = slices.DeleteFunc(d.Targets, func(t *lang.Target) bool {
		_, name, layered := strings.Cut(strings.TrimPrefix(t.Name, "blk."), ".")
		if !layered || !strings.HasPrefix(t.Name, "blk.") {
			name = t.Name
		}
		is := strings.HasPrefix(name, "rel_")
		if is {
			taken[t.Name] = t
		}
		return is
	})
	table := distanceTable{of: taken["rel_embd.weight"]}
	if table.of == nil {
		if k.FlagOr("relative_attention", false) {
			k.Fail("relative_attention is true, and there is no encoder.rel_embeddings.weight")
		}
		return
	}
	if strings.Contains(strings.ToLower(k.Text("norm_rel_ebd")), "layer_norm") {
		table.weight, table.bias = taken["rel_embd_norm.weight"], taken["rel_embd_norm.bias"]
		table.eps = k.NumberOr("layer_norm_eps", 1e-7)
		if table.weight == nil || table.bias == nil {
			k.Fail("norm_rel_ebd is layer_norm, and there is no encoder.LayerNorm")
			return
		}
	}
	shared := k.FlagOr("share_att_key", false)
	for _, term := range distanceTerms(k.Config) {
		kind := map[string]string{"c2p": "k", "p2c": "q"}[term]
		for il := range d.Layers {
			blk := fmt.Sprintf("blk.%d.", il)
			matrix, bias := taken[blk+"rel_"+kind+".weight"], taken[blk+"rel_"+kind+".bias"]
			if shared {
				matrix, bias = d.Target(blk+"attn_"+kind+".weight"), d.Target(blk+"attn_"+kind+".bias")
			}
			if matrix == nil {
				k.Fail("pos_att_type has %s, and layer %d has no projection for it", term, il)
				return
			}
			t, err := table.projected(matrix, bias, k.Heads())
			if err != nil {
				k.Fail("%s of layer %d: %s", term, il, err)
				return
			}
			t.Name = blk + "attn_rel_" + kind + ".weight"
			d.Targets = append(d.Targets, t)
		}
	}
}

// A distanceTable is the embeddings of distances, normalised if there is a norm.
type distanceTable struct {
	of, weight, bias *lang.Target
	eps              float64

	once sync.Once
	rows []float32
	err  error
}

// numbers reads a tensor whole.
func numbers(t *lang.Target) ([]float32, error) {
	v := make([]float32, t.Elems())
	return v, t.Read(v, 0)
}

// read returns the rows.
func (d *distanceTable) read() ([]float32, error) {
	d.once.Do(func() {
		if d.rows, d.err = numbers(d.of); d.err != nil || d.weight == nil {
			return
		}
		var weight, bias []float32
		if weight, d.err = numbers(d.weight); d.err != nil {
			return
		}
		if bias, d.err = numbers(d.bias); d.err != nil {
			return
		}
		for row := range slices.Chunk(d.rows, len(weight)) {
			mean, square := 0.0, 0.0
			for _, x := range row {
				mean += float64(x) / float64(len(row))
			}
			for _, x := range row {
				square += float64((float64(x) - mean) * (float64(x) - mean))
			}
			by := 1 / math.Sqrt(square/float64(len(row))+d.eps)
			for i, x := range row {
				row[i] = float32(float64((float64(x)-mean)*by*float64(weight[i])) + float64(bias[i]))
			}
		}
	})
	return d.rows, d.err
}

// projected returns the products of the rows with a matrix, plus a bias, which may be nil: [heads][rows][channels].
func (d *distanceTable) projected(matrix, bias *lang.Target, heads int) (*lang.Target, error) {
	n, h := matrix.Shape[0], uint64(max(heads, 1))
	if len(d.of.Shape) != 2 || len(matrix.Shape) != 2 || d.of.Shape[1] != matrix.Shape[1] || n%h != 0 ||
		bias != nil && bias.Elems() != n {
		return nil, fmt.Errorf("shapes %v and %v, want rows of as many columns, and those of %d heads", d.of.Shape,
			matrix.Shape, h)
	}
	for _, norm := range []*lang.Target{d.weight, d.bias} {
		if norm != nil && norm.Elems() != d.of.Shape[1] {
			return nil, fmt.Errorf("shapes %v and %v, want a norm of rows", d.of.Shape, norm.Shape)
		}
	}
	rows, width, channels := d.of.Shape[0], matrix.Shape[1], n/h
	t := &lang.Target{Type: matrix.Type, Dims: []uint64{channels, rows, h}}
	if matrix.Quantized || channels%uint64(max(t.Type.BlockElems(), 1)) != 0 {
		t.Type = gguf.F16
	}
	t.View = lang.View{Shape: []uint64{h, rows, channels}, Read: func(dst []float32, at uint64) error {
		table, err := d.read()
		if err != nil {
			return err
		}
		w, err := numbers(matrix)
		if err != nil {
			return err
		}
		add := make([]float32, n)
		if bias != nil {
			if err := bias.Read(add, 0); err != nil {
				return err
			}
		}
		const part = 1 << 14 // numbers that are computed on one CPU
		return panics.Each((len(dst)+part-1)/part, func(p int) error {
			for i := p * part; i < min((p+1)*part, len(dst)); i++ {
				e := at + uint64(i)
				r, c := e/channels%rows, e/channels/rows*channels+e%channels
				dst[i] = add[c] + dot(table[r*width:(r+1)*width], w[c*width:(c+1)*width])
			}
			return nil
		})
	}}
	return t, nil
}

// dot returns the product of two vectors. Four sums at a time wait less for each other; products are converted, so that no
// compiler fuses them with a sum.
func dot(a, b []float32) float32 {
	var sum [4]float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		sum[0] += float64(float64(a[i]) * float64(b[i]))
		sum[1] += float64(float64(a[i+1]) * float64(b[i+1]))
		sum[2] += float64(float64(a[i+2]) * float64(b[i+2]))
		sum[3] += float64(float64(a[i+3]) * float64(b[i+3]))
	}
	for ; i < len(a); i++ {
		sum[0] += float64(float64(a[i]) * float64(b[i]))
	}
	return float32(sum[0] + sum[1] + sum[2] + sum[3])
}
