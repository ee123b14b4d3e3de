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
	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/safetensors"
)

// A Config is what a JSON file of a checkpoint says. Its methods take alternatives for a name, with spaces between; null is
// no value. The first error sticks.
type Config struct {
	m    map[string]any
	file string
	err  error

	Layer int // whose tensors are made
}

// ReadJSON reads a JSON file that Python has written: NaN and infinities become null.
func ReadJSON(path string, into any) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(withoutNaN(text), into); err != nil {
		return fmt.Errorf("%s: %q", path, err.Error())
	}
	return nil
}

// withoutNaN returns text with null for each NaN, Infinity and -Infinity outside of strings.
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

// Read reads config.json. What a model of several kinds of input says of its text model comes first.
func Read(dir string) (*Config, error) {
	c := &Config{file: filepath.Join(dir, "config.json")}
	err := ReadJSON(c.file, &c.m)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
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
	for _, name := range []string{"text_config", "llm_config", "language_config"} {
		for key, v := range c.Object(name) {
			if _, root := c.m[key]; v != nil && (key != "architectures" || !root) {
				c.m[key] = v
			}
		}
	}
	return c, nil
}

// Part returns a config of what an object says, in the same file.
func (c *Config) Part(object map[string]any) *Config { return &Config{m: object, file: c.file} }

// Value returns what a name stands for, nil if it is not there.
func (c *Config) Value(name string) any { return c.m[name] }

// Put makes a name stand for a value.
func (c *Config) Put(name string, v any) { c.m[name] = v }

// Remove makes a name stand for nothing.
func (c *Config) Remove(name string) { delete(c.m, name) }

// Path returns the name of the file.
func (c *Config) Path() string { return c.file }

// Exists reports whether the file's folder has another file.
func (c *Config) Exists(name string) bool { return Exists(filepath.Dir(c.file), name) }

// Exists reports whether a folder has a file.
func Exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Err returns the first error.
func (c *Config) Err() error { return c.err }

func (c *Config) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", c.file, fmt.Sprintf(format, args...))
	}
}

// Find returns the first value that there is of several names.
func (c *Config) Find(names string) (v any, name string) {
	for name := range strings.FieldsSeq(names) {
		if v := c.m[name]; v != nil {
			return v, name
		}
	}
	return nil, ""
}

// Has reports whether there is a value.
func (c *Config) Has(names string) bool {
	_, name := c.Find(names)
	return name != ""
}

// missing fails with the name of what is not there.
func (c *Config) missing(names string) {
	first, _, _ := strings.Cut(names, " ")
	c.Fail("no %s", first)
}

// Count returns an integer from 0 to 2^31 - 1, which must be there.
func (c *Config) Count(names string) int {
	if !c.Has(names) {
		c.missing(names)
	}
	return c.CountOr(names, 0)
}

// CountOr returns an integer from 0 to 2^31 - 1, or otherwise.
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

func AsCount(v any) (int, bool) {
	f, ok := v.(float64)
	if !ok || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// Number returns a number, which must be there.
func (c *Config) Number(names string) float64 {
	if !c.Has(names) {
		c.missing(names)
	}
	return c.NumberOr(names, 0)
}

func (c *Config) NumberOr(names string, otherwise float64) float64 {
	return get(c, names, otherwise, "a number")
}

// Flag returns a bool, or false.
func (c *Config) Flag(names string) bool { return c.FlagOr(names, false) }

// FlagOr returns a bool, or otherwise.
func (c *Config) FlagOr(names string, otherwise bool) bool {
	return get(c, names, otherwise, "true or false")
}

// Text returns a string, or "".
func (c *Config) Text(names string) string { return get(c, names, "", "a string") }

// List returns a list, or nil.
func (c *Config) List(names string) []any { return get[[]any](c, names, nil, "a list") }

// get returns a value of a type that JSON has, or otherwise where none of the names is there.
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

// Texts returns a list of strings, or nil.
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

// Numbers returns a list of numbers, or nil.
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

// Object returns an object, or nil.
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

// Within returns what an object says, an empty config if there is none. Its errors are c's as well once it is asked for
// them with c.take.
func (c *Config) Within(names string) *Config {
	return &Config{m: c.Object(names), file: c.file}
}

// Take makes the error of a part that of the whole.
func (c *Config) Take(part *Config) {
	if c.err == nil {
		c.err = part.err
	}
}

// Layers returns the number of layers.
func (c *Config) Layers() int {
	n := c.Count("num_hidden_layers n_layers n_layer num_layers num_transformer_layers")
	if n > 1<<12 {
		c.Fail("%d layers, the most is %d", n, 1<<12)
		return 0
	}
	return n
}

func (c *Config) Heads() int   { return c.Count("num_attention_heads n_head n_heads") }
func (c *Config) HeadsKV() int { return c.CountOr("num_key_value_heads n_kv_heads", c.Heads()) }

// HeadDim returns the channels of a head.
func (c *Config) HeadDim() int {
	return c.Channels(c.CountOr("head_dim", c.Count("hidden_size n_embd")/max(c.Heads(), 1)))
}

// Channels returns a number of channels of a head: tables are as long.
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

// TypesOf returns which layers are of a kind, by layer_types.
func (c *Config) TypesOf(kinds string) []bool {
	var all []bool
	for _, t := range c.Texts("layer_types layers_block_type") {
		is := false
		for kind := range strings.FieldsSeq(kinds) {
			is = is || t == kind
		}
		all = append(all, is)
	}
	if n := c.Layers(); len(all) != n {
		c.Fail("layer_types names %d layers of %d", len(all), n)
		return make([]bool, n)
	}
	return all
}

// Want fails unless a setting has one of the values that the architecture computes.
func (c *Config) Want(name string, values ...string) {
	v, _ := c.Find(name)
	if v == nil {
		return
	}
	for _, w := range values {
		if fmt.Sprint(v) == w {
			return
		}
	}
	c.Fail("%s is %.40v, want %s", name, v, strings.Join(values, " or "))
}

// Leading returns how many layers are dense before those with experts.
func (c *Config) Leading() int {
	kinds := c.Texts("mlp_layer_types")
	lead := slices.IndexFunc(kinds, func(kind string) bool { return kind != "dense" })
	if lead < 0 || slices.Contains(kinds[lead:], "dense") {
		c.Fail("mlp_layer_types: want dense layers, and then others")
	}
	return max(lead, 0)
}

// Digits reads a number of decimal digits.
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
