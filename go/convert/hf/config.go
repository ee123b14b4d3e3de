// Package hf reads the JSON files of a Hugging Face checkpoint: config.json, and others that hold one object.
package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/quern-llm/quern/go/platform"

	"github.com/quern-llm/quern/go/safetensors"
)

// A Config holds the values of a JSON file of a checkpoint, or of an object in it. Where a method takes names, these
// are alternatives with spaces between them, and the first that has a value counts. Null is no value. After the first
// error, which Err returns, methods return zero values or defaults.
type Config struct {
	m    map[string]any
	file string
	err  error
	path string          // of an object within the file, with a dot at its end
	read map[string]bool // paths of values that were asked for; an object's Within counts alone what is asked for of it

	Layer int // the layer whose tensors are computed, for operations that depend on it
}

// ReadJSON reads a JSON file. Python writes NaN and infinities into such files: they are read as null.
func ReadJSON(path string, into any) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(withoutNaN(text), into); err != nil {
		return fmt.Errorf("%s: %q", path, err.Error())
	}
	if object, ok := into.(*map[string]any); ok {
		withoutTags(*object)
	}
	return nil
}

// withoutTags puts null in place of objects such as {"__float__": "Infinity"}, which transformers writes since version 5.
func withoutTags(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutTags(v[i])
		}
	case map[string]any:
		if _, is := v["__float__"]; is && len(v) == 1 {
			return nil
		}
		for name := range v {
			v[name] = withoutTags(v[name])
		}
	}
	return v
}

// withoutNaN returns text with null in place of each NaN, Infinity and -Infinity outside of strings.
func withoutNaN(text []byte) []byte {
	var out []byte
	done, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == 'N' || c == 'I' || c == '-'):
			for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
				if strings.HasPrefix(string(text[i:min(i+len(word), len(text))]), word) {
					out = append(append(out, text[done:i]...), "null"...)
					i += len(word) - 1
					done = i + 1
				}
			}
		}
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// ReadFile reads a JSON file that holds one object.
func ReadFile(path string) (*Config, error) {
	c := &Config{file: path}
	return c, ReadJSON(path, &c.m)
}

// Read reads config.json in a folder. If the model also takes images or sounds, the values of its text model replace
// those of the whole.
func Read(dir string) (*Config, error) {
	c := &Config{file: filepath.Join(dir, "config.json")}
	err := ReadJSON(c.file, &c.m)
	if errors.Is(err, fs.ErrNotExist) || platform.NotFolder(err) {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s has no config.json: want the folder of a Hugging Face checkpoint", dir)
	}
	if err != nil {
		return nil, err
	}
	if c.m == nil {
		return nil, fmt.Errorf("%s: null, want an object", c.file)
	}
	for _, name := range []string{"text_config", "llm_config", "language_config", "lm_config", "lfm"} {
		for key, v := range c.Object(name) {
			whole := slices.Contains(ofWhole, key) && c.m[key] != nil
			if !whole && (v != nil || c.m[key] == nil) {
				c.m[key] = v
			}
		}
		if kind, _ := c.Object(name)["model_type"].(string); kind != "" {
			c.Default(ofText[kind])
		}
	}
	c.spell()
	return c, nil
}

// ofWhole are settings of the whole model, which its text model has too.
var ofWhole = []string{"architectures", "tie_word_embeddings"}

// ofText are transformers' values of settings that the text models of larger ones leave out, by their types.
var ofText = map[string]map[string]float64{
	"llama": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
		"rms_norm_eps": 1e-6},
	"mistral": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
		"num_key_value_heads": 8, "rms_norm_eps": 1e-6},
	"qwen2": {"hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
		"rms_norm_eps": 1e-6},
}

// Default sets the values of names that have none.
func (c *Config) Default(values map[string]float64) {
	for name, v := range values {
		if c.m[name] == nil {
			c.m[name] = v
		}
	}
}

// Part returns a Config of another object in the same file.
func (c *Config) Part(object map[string]any) *Config { return &Config{m: object, file: c.file} }

// Value returns the value of a name, nil if it has none.
func (c *Config) Value(name string) any {
	c.mark(name)
	return c.m[name]
}

// Put sets the value of a name.
func (c *Config) Put(name string, v any) {
	c.mark(name)
	c.m[name] = v
}

// Fill takes over the values of names that c has none of.
func (c *Config) Fill(other *Config) {
	for name, v := range other.m {
		if c.m[name] == nil {
			c.m[name] = v
		}
	}
}

// Remove removes the value of a name.
func (c *Config) Remove(name string) { delete(c.m, name) }

// Path returns the path of the file.
func (c *Config) Path() string { return c.file }

// Exists reports whether the folder of the file has another file of this name.
func (c *Config) Exists(name string) bool { return Exists(filepath.Dir(c.file), name) }

// Exists reports whether a folder has a file.
func Exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Err returns the first error, one line that begins with the path of the file.
func (c *Config) Err() error { return c.err }

// Fail sets the error, unless there is one already.
func (c *Config) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", c.file, fmt.Sprintf(format, args...))
	}
}

// Find returns the value and the name of the first of several names that has a value.
func (c *Config) Find(names string) (v any, name string) {
	v, name = c.first(names)
	for other := range strings.FieldsSeq(names) {
		c.mark(other)
	}
	return v, name
}

// mark says that a value is read.
func (c *Config) mark(name string) { c.marks()[c.path+name] = true }

// marks returns the paths of the values that are read, which objects of a file share.
func (c *Config) marks() map[string]bool {
	if c.read == nil {
		c.read = map[string]bool{}
	}
	return c.read
}

// first is Find, and what it returns does not count as read.
func (c *Config) first(names string) (v any, name string) {
	for name := range strings.FieldsSeq(names) {
		if v := c.m[name]; v != nil {
			return v, name
		}
	}
	return nil, ""
}

// Null reports whether a name has the value null.
func (c *Config) Null(name string) bool {
	c.mark(name)
	v, ok := c.m[name]
	return ok && v == nil
}

// Unread returns the paths of values that nobody has asked for, sorted. Null is no value, and an empty object or list
// says nothing.
func (c *Config) Unread() []string {
	var paths []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if v == nil || c.read[path] {
			return
		}
		if o, ok := v.(map[string]any); ok {
			for name, v := range o {
				walk(path+"."+name, v)
			}
			return
		}
		if list, ok := v.([]any); !ok || len(list) > 0 {
			paths = append(paths, path)
		}
	}
	for name, v := range c.m {
		walk(c.path+name, v)
	}
	slices.Sort(paths)
	return paths
}

// Has reports whether one of several names has a value.
func (c *Config) Has(names string) bool {
	_, name := c.Find(names)
	return name != ""
}

// missing fails because none of several names has a value.
func (c *Config) missing(names string) {
	first, _, _ := strings.Cut(names, " ")
	c.Fail("no %s", first)
}

// Count returns an integer from 0 to 2^31 - 1. It fails if there is no value.
func (c *Config) Count(names string) int {
	if !c.Has(names) {
		c.missing(names)
	}
	return c.CountOr(names, 0)
}

// CountOr returns an integer from 0 to 2^31 - 1, or otherwise if there is no value.
func (c *Config) CountOr(names string, otherwise int) int {
	v, name := c.Find(names)
	if name == "" {
		return otherwise
	}
	n, ok := AsCount(v)
	if !ok {
		c.Fail("%s is %.40v, want an integer from 0 to %d", name, v, math.MaxInt32)
	}
	return n
}

// AsCount returns a JSON value as an integer, and whether it is one from 0 to 2^31 - 1.
func AsCount(v any) (int, bool) {
	f, ok := v.(float64)
	if !ok || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// Number returns a number. It fails if there is no value.
func (c *Config) Number(names string) float64 {
	if !c.Has(names) {
		c.missing(names)
	}
	return c.NumberOr(names, 0)
}

// NumberOr returns a number, or otherwise if there is no value.
func (c *Config) NumberOr(names string, otherwise float64) float64 {
	return get(c, names, otherwise, "a number")
}

// Flag returns true or false, and false if there is no value.
func (c *Config) Flag(names string) bool { return c.FlagOr(names, false) }

// FlagOr returns true or false, or otherwise if there is no value.
func (c *Config) FlagOr(names string, otherwise bool) bool {
	return get(c, names, otherwise, "true or false")
}

// Text returns a string, "" if there is no value.
func (c *Config) Text(names string) string { return get(c, names, "", "a string") }

// List returns a list, nil if there is no value.
func (c *Config) List(names string) []any { return get[[]any](c, names, nil, "a list") }

// get returns a value of one of JSON's types, or otherwise if there is no value.
func get[T any](c *Config, names string, otherwise T, want string) T {
	v, name := c.Find(names)
	if name == "" {
		return otherwise
	}
	x, ok := v.(T)
	if !ok {
		c.Fail("%s is %.40v, want %s", name, v, want)
	}
	return x
}

// Texts returns a list of strings, nil if there is no value.
func (c *Config) Texts(names string) []string {
	var all []string
	for _, v := range c.List(names) {
		s, ok := v.(string)
		if !ok {
			c.Fail("%s has %.40v, want strings", names, v)
		}
		all = append(all, s)
	}
	return all
}

// Numbers returns a list of numbers, nil if there is no value.
func (c *Config) Numbers(names string) []float32 {
	var all []float32
	for _, v := range c.List(names) {
		f, ok := v.(float64)
		if !ok {
			c.Fail("%s has %.40v, want numbers", names, v)
		}
		all = append(all, float32(f))
	}
	return all
}

// Object returns an object, nil if there is no value.
func (c *Config) Object(names string) map[string]any {
	v, name := c.Find(names)
	if name == "" {
		return nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		c.Fail("%s is %.40v, want an object", name, v)
	}
	return o
}

// Within returns the values of an object within this one, none if there is no such object. Take takes over its error.
func (c *Config) Within(names string) *Config {
	v, name := c.first(names)
	part := &Config{file: c.file, path: c.path + name + ".", read: c.marks()}
	if o, ok := v.(map[string]any); ok {
		part.m = o
	} else if name != "" {
		part.Fail("%s is %.40v, want an object", name, v)
	}
	return part
}

// Take takes over the error of a part.
func (c *Config) Take(part *Config) {
	if c.err == nil {
		c.err = part.err
	}
}

// Layers returns the number of layers.
func (c *Config) Layers() int {
	const names = "num_hidden_layers n_layers n_layer num_layers num_transformer_layers"
	n := 0
	if kinds := c.List("layer_types layers_block_type"); kinds != nil && !c.Has(names) {
		n = len(kinds) // which say it too
	} else {
		n = c.Count(names)
	}
	if n > 1<<12 {
		c.Fail("%d layers, the most is %d", n, 1<<12)
		return 0
	}
	return n
}

// Heads returns the number of attention heads.
func (c *Config) Heads() int { return c.Count("num_attention_heads n_head n_heads") }

// HeadsKV returns the number of heads of keys and values, by default that of queries.
func (c *Config) HeadsKV() int { return c.CountOr("num_key_value_heads n_kv_heads", c.Heads()) }

// HeadDim returns the number of channels of a head.
func (c *Config) HeadDim() int {
	return c.Channels(c.CountOr("head_dim", c.Count("hidden_size n_embd")/max(c.Heads(), 1)))
}

// Channels returns n, a number of channels of a head. It fails if n is absurd, since tables of this length are made.
func (c *Config) Channels(n int) int {
	if n > 1<<16 {
		c.Fail("%d channels of a head, the most is %d", n, 1<<16)
		return 0
	}
	return n
}

// Experts returns the number of experts, 0 if there are none.
func (c *Config) Experts() int {
	return c.CountOr("num_local_experts num_experts n_routed_experts moe_num_experts moe_num_primary_experts", 0)
}

// TypesOf returns which layers have one of several kinds, as the list layer_types says.
func (c *Config) TypesOf(kinds string) []bool {
	var all []bool
	for _, t := range c.Texts("layer_types layers_block_type") {
		is := false
		for want := range strings.FieldsSeq(kinds) {
			is = is || kind(t) == kind(want)
		}
		all = append(all, is)
	}
	if n := c.Layers(); len(all) != n {
		c.Fail("layer_types names %d layers of %d", len(all), n)
		return make([]bool, n)
	}
	return all
}

// Want fails if a name has another value than these, which are all that the architecture computes, or a list with
// another element.
func (c *Config) Want(name string, values ...string) {
	v, _ := c.Find(name)
	if v == nil {
		return
	}
	all, isList := v.([]any)
	if !isList {
		all = []any{v}
	}
	for _, v := range all {
		if !slices.Contains(values, fmt.Sprint(v)) {
			c.Fail("%s is %.40v, want %s", name, v, strings.Join(values, " or "))
		}
	}
}

// Leading returns how many layers at the beginning have no experts. It fails if a layer after one with experts has none.
func (c *Config) Leading() int {
	kinds := c.Texts("mlp_layer_types")
	lead := slices.IndexFunc(kinds, func(kind string) bool { return kind != "dense" })
	if lead < 0 && len(kinds) > 0 {
		return len(kinds)
	}
	if lead < 0 || slices.Contains(kinds[lead:], "dense") {
		c.Fail("mlp_layer_types: want dense layers, and then others")
	}
	return max(lead, 0)
}

// Digits returns a text of decimal digits as a number, and whether it is one of at most eight digits.
func Digits(s string) (int, bool) {
	if s == "" || len(s) > 8 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
