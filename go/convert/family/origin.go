package family

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// An Origin is the matrix of a checkpoint that one of a file was made of.
type Origin struct {
	Name string // without .weight
	Rows []int  // row i of the file's matrix is row Rows[i] of the checkpoint's; nil: all are as they were
}

// Sizes are what the order of rows in a file depends on.
type Sizes struct {
	Heads, HeadsKV, Width, HeadDim, Layers int

	Gated bool // rows of ffn_up are those of the gate, and then its own
}

// layersOf has what stands before the number of a layer, where that is not "model.layers.".
var layersOf = map[string]string{
	"bert": "encoder.layer.", "bloom": "transformer.h.", "chatglm": "transformer.encoder.layers.", "codeshell": "transformer.h.",
	"dbrx":   "transformer.blocks.",
	"exaone": "transformer.h.", "falcon": "transformer.h.", "gemma-embedding": "layers.", "gpt2": "transformer.h.",
	"gptneox": "gpt_neox.layers.", "jais": "transformer.h.", "jina-bert-v2": "encoder.layer.", "llama-embed": "layers.",
	"mpt": "transformer.blocks.", "nemotron_h": "backbone.layers.", "neo-bert": "model.transformer_encoder.", "nomic-bert": "encoder.layers.",
	"openelm": "transformer.layers.", "plamo": "model.layers.layers.", "plamo2": "model.layers.layers.", "plamo3": "model.layers.layers.", "qwen": "transformer.h.",
	"refact": "transformer.h.", "starcoder": "transformer.h.", "talkie": "model.blocks.",
}

// errApart reports a matrix that is none of the checkpoint's alone.
var errApart = errors.New("it is no matrix of a checkpoint by itself")

// OriginOf returns the origin of a matrix of so many rows, such as blk.0.attn_q.weight, in files of an architecture. Where
// families of several names have the same architecture, it is that of the first. Models with other inputs put more before
// the names of their text model's tensors.
func OriginOf(arch string, s Sizes, tensor string, rows int) (o Origin, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%q of %s: %w", tensor, arch, err)
		}
	}()
	parts := strings.Split(tensor, ".")
	at := slices.IndexFunc(families, func(f lang.Family) bool { return f.Arch == arch })
	if at < 0 || len(parts) != 4 || parts[0] != "blk" || parts[3] != "weight" || rows < 1 || rows > 1<<24 {
		return o, errApart
	}
	f := &families[at]
	r := ruleFor(f.Rules, parts[2], s.Gated)
	if r == nil {
		return o, errApart
	}
	o.Name = cmp.Or(layersOf[arch], "model.layers.") + parts[1] + "." + strings.TrimPrefix(r.From, ".")
	if r.Do == nil {
		return o, nil
	}
	c := new(hf.Config).Part(map[string]any{
		"num_attention_heads": float64(s.Heads), "num_key_value_heads": float64(s.HeadsKV), "hidden_size": float64(s.Width),
		"head_dim": float64(s.HeadDim), "num_hidden_layers": float64(s.Layers),
	})
	o.Rows, err = moved(c, r.Do, rows)
	return o, err
}

// ruleFor returns the rule that makes a tensor of a layer alone, of one of the checkpoint's; nil if there is none, or there
// are several, of which a file does not say which it was. With gated it is not what the gate is of by itself.
func ruleFor(rules lang.Rules, to string, gated bool) (found *lang.Rule) {
	for i, r := range rules {
		switch {
		case r.To != to || strings.HasSuffix(r.From, ".weight") || gated && strings.HasSuffix(r.From, ".up_proj"):
		case len(strings.Fields(r.From)) != 1 || strings.Contains(r.From, "*"):
			return nil
		case found == nil:
			found = &rules[i]
		case found.From != r.From:
			return nil
		}
	}
	return found
}

// moved returns where an operation takes each row from: it is given a column of their numbers.
func moved(c *hf.Config, do lang.Op, rows int) ([]int, error) {
	numbers := lang.View{Shape: []uint64{uint64(rows), 1}, Read: func(dst []float32, at uint64) error {
		for i := range dst {
			dst[i] = float32(at + uint64(i))
		}
		return nil
	}}
	out, err := do(c, []lang.View{numbers})
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		return nil, err
	}
	if len(out) != 1 || !slices.Equal(out[0].Shape, numbers.Shape) {
		return nil, errApart
	}
	got := make([]float32, rows)
	if err := out[0].Read(got, 0); err != nil {
		return nil, err
	}
	from, seen := make([]int, rows), make([]bool, rows)
	for i, v := range got {
		k := int(v)
		if float32(k) != v || k < 0 || k >= rows || seen[k] {
			return nil, errors.New("its numbers are not those of the checkpoint: " + strconv.FormatFloat(float64(v), 'g', -1, 32))
		}
		from[i], seen[k] = k, true
	}
	return from, nil
}
