package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/safetensors"
)

// modules are what sentence-transformers does with the vectors of a text's tokens, as the files of a folder say.
type modules struct {
	all   []module
	dense []*safetensors.Checkpoint // the weights of products that follow the pooling
}

func (s *modules) close() error {
	var first error
	for _, c := range s.dense {
		first = errors.Join(first, c.Close())
	}
	return first
}

// A module is an entry of modules.json.
type module struct{ kind, folder string }

// list reads modules.json. Without that file, a checkpoint with a head that guesses masked words is SPLADE's if its name
// says so.
func (s *modules) list(c *hf.Config) error {
	dir := filepath.Dir(c.Path())
	var list []map[string]any
	err := hf.ReadJSON(filepath.Join(dir, "modules.json"), &list)
	if errors.Is(err, fs.ErrNotExist) {
		whole, err := filepath.Abs(dir)
		if err != nil {
			whole = dir
		}
		names := strings.ToLower(filepath.Base(whole) + " " + c.Text("_name_or_path"))
		arch := c.Texts("architectures")
		if strings.Contains(names, "splade") && len(arch) > 0 && strings.HasSuffix(arch[0], "ForMaskedLM") {
			s.all = []module{{kind: splade}}
		}
		return c.Err()
	}
	for _, m := range list {
		kind, _ := m["type"].(string)
		folder, _ := m["path"].(string)
		s.all = append(s.all, module{kind[strings.LastIndexByte(kind, '.')+1:], folder})
	}
	return err
}

// splade is the module that makes sparse vectors.
const splade = "SpladePooling"

// sparse reports whether vectors are sparse.
func (s *modules) sparse() bool {
	return slices.ContainsFunc(s.all, func(m module) bool { return m.kind == splade })
}

// read reads what modules.json names, sets keys, and returns the tensors of products.
func (s *modules) read(dir string, k *lang.Keys) (tensors map[string]lang.View, err error) {
	tensors = map[string]lang.View{}
	var activations []string
	pooled, normal := false, false
	for i, m := range s.all {
		kind, folder := m.kind, m.folder
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s: module %d, %.40s: %s", filepath.Join(dir, "modules.json"), i, kind,
				fmt.Sprintf(format, args...))
		}
		if !filepath.IsLocal(filepath.Join(".", folder)) {
			return nil, fail("the path %.80q is not within the folder", folder)
		}
		switch kind {
		case "Transformer", "MLMTransformer":
			if folder != "" && folder != "." {
				return nil, fail("the model is in %s: want that folder's files beside modules.json", folder)
			}
		case "Dropout":
		case "Normalize":
			normal = true
		case "Pooling":
			if folder == "" {
				folder = "1_Pooling"
			}
			if len(activations) > 0 {
				return nil, fail("it is computed only before Dense")
			}
			if err := pooling(filepath.Join(dir, folder), k); err != nil {
				return nil, err
			}
			pooled = true
		case splade:
			if i < len(s.all)-1 || pooled || len(activations) > 0 {
				return nil, fail("it is computed only as the last module, right behind the model")
			}
			if err := spladePooling(filepath.Join(dir, folder), folder != "", k); err != nil {
				return nil, err
			}
			pooled = true
		case "Dense":
			if normal {
				return nil, fail("it is computed only before vectors get length 1")
			}
			name, err := s.product(filepath.Join(dir, folder), fmt.Sprintf("dense_%d", 2+len(activations)), tensors)
			if err != nil {
				return nil, err
			}
			shape := tensors[fmt.Sprintf("dense_%d.weight", 2+len(activations))].Shape
			k.N(fmt.Sprintf("dense_%d_feat_in", 2+len(activations)), int(shape[1]))
			k.N(fmt.Sprintf("dense_%d_feat_out", 2+len(activations)), int(shape[0]))
			activations = append(activations, name)
		default:
			return nil, fail("it is not computed; computed are Transformer, Pooling, SpladePooling, Dense, " +
				"Normalize and Dropout")
		}
	}
	if len(activations) > 0 {
		k.Set("quern.dense.activations", activations)
	}
	if len(activations) > 0 && !pooled { // as ColBERT's, of each token
		k.N("pooling_type", 0)
	}
	return tensors, nil
}

// ofDense are the functions after products, as torch calls them.
var ofDense = map[string]string{"Identity": "identity", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}

// product reads the product of a folder into tensors with this name, and returns the function that follows.
func (s *modules) product(dir, name string, tensors map[string]lang.View) (activation string, err error) {
	c, err := hf.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", err
	}
	fn := c.Text("activation_function")
	fn = fn[strings.LastIndexByte(fn, '.')+1:]
	if activation = ofDense[fn]; fn == "" {
		activation = "tanh" // the default
	} else if activation == "" {
		c.Fail("activation_function is %.80q, want one of %s", fn, strings.Join(slices.Sorted(maps.Keys(ofDense)), " "))
	}
	if c.Err() != nil {
		return "", c.Err()
	}
	weights, err := safetensors.Open(dir)
	if err != nil {
		return "", err
	}
	s.dense = append(s.dense, weights)
	for _, from := range weights.Names() {
		end := map[string]string{"linear.weight": ".weight", "linear.bias": ".bias"}[from]
		if end == "" {
			return "", fmt.Errorf("%s: tensor %q, want linear.weight and linear.bias", dir, from)
		}
		t := weights.Tensor(from)
		switch t.DType {
		case safetensors.F64, safetensors.F32, safetensors.F16, safetensors.BF16:
		default:
			return "", fmt.Errorf("%s: tensor %q is %s, want floats", dir, from, t.DType)
		}
		tensors[name+end] = lang.View{Shape: slices.Clone(t.Shape), Read: t.Floats}
	}
	if v, ok := tensors[name+".weight"]; !ok || len(v.Shape) != 2 {
		return "", fmt.Errorf("%s: no matrix linear.weight", dir)
	}
	return activation, nil
}

// pooling sets how the vectors of tokens become one.
func pooling(dir string, k *lang.Keys) error {
	c, err := hf.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return err
	}
	kinds := []string{"mean", "cls", "lasttoken", "max", "mean_sqrt_len", "weightedmean"}
	var on []string
	for _, kind := range kinds {
		key := "pooling_mode_" + kind
		if kind != "lasttoken" {
			key += map[bool]string{true: "_token", false: "_tokens"}[kind == "cls"]
		}
		if c.Flag(key) {
			on = append(on, kind)
		}
	}
	switch v, _ := c.Find("pooling_mode"); v := v.(type) { // as newer versions write it
	case string:
		on = append(on, v)
	case []any:
		on = append(on, c.Texts("pooling_mode")...)
	}
	if c.Err() != nil {
		return c.Err()
	}
	if len(on) != 1 {
		return fmt.Errorf("%s: the poolings %q, want one: several are not joined", c.Path(), on)
	}
	switch i := slices.Index(kinds, on[0]); {
	case i < 0:
		return fmt.Errorf("%s: the pooling %.40q is not computed; computed are %s", c.Path(), on[0], strings.Join(kinds, " "))
	case i < 3:
		k.N("pooling_type", i+1)
	default:
		k.Drop("pooling_type")
		k.Set("quern.pooling", kinds[i])
	}
	if !c.FlagOr("include_prompt", true) {
		c.Fail("include_prompt is false, want true: all tokens of a text are pooled")
	}
	return c.Err()
}

// spladePooling sets how the scores of tokens become a sparse vector.
func spladePooling(dir string, given bool, k *lang.Keys) error {
	k.Drop("pooling_type")
	pooling := "splade_max"
	if given {
		c, err := hf.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			return err
		}
		c.Want("pooling_strategy", "max", "sum")
		c.Want("activation_function", "relu", "log1p_relu")
		pooling = "splade_" + cmp.Or(c.Text("pooling_strategy"), "max")
		if fn := c.Text("activation_function"); fn != "" {
			k.Set("quern.splade.activation", fn)
		}
		if c.Err() != nil {
			return c.Err()
		}
	}
	k.Set("quern.pooling", pooling)
	return nil
}

// prompts sets what is put before texts, by names, as config_sentence_transformers.json says, and to how many tokens
// texts are cut.
func prompts(dir string, k *lang.Keys) error {
	c, err := hf.ReadFile(filepath.Join(dir, "config_sentence_transformers.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return textLength(dir, k)
	} else if err != nil {
		return err
	}
	all := c.Object("prompts")
	names, texts := slices.Sorted(maps.Keys(all)), []string{}
	for _, name := range names {
		text, ok := all[name].(string)
		if !ok {
			c.Fail("prompts has %.40v for %.40q, want a text", all[name], name)
		}
		texts = append(texts, text)
	}
	by := c.Text("default_prompt_name")
	if by != "" && all[by] == nil {
		c.Fail("default_prompt_name is %.40q, want one of %.200q", by, names)
	}
	if c.Err() != nil {
		return c.Err()
	}
	if len(names) > 0 {
		k.Set("quern.prompts.names", names)
		k.Set("quern.prompts.texts", texts)
		if by != "" {
			k.Set("quern.prompts.default", by)
		}
	}
	return textLength(dir, k)
}

// textLength sets to how many tokens texts are cut where a request asks for it.
func textLength(dir string, k *lang.Keys) error {
	c, err := hf.ReadFile(filepath.Join(dir, "sentence_bert_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if n := c.CountOr("max_seq_length", 0); n > 0 {
		k.N("quern.max_seq_length", n)
	}
	return c.Err()
}
