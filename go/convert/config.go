package convert

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

// A config is what a JSON file of a checkpoint says. Its methods take alternatives for a name, with spaces between; null is
// no value. The first error sticks.
type config struct {
	m    map[string]any
	file string
	err  error

	layer int // whose tensors are made
}

// readJSON reads a JSON file that Python has written: NaN and infinities become null.
func readJSON(path string, into any) error {
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

// readFile reads a JSON file that holds one object.
func readFile(path string) (*config, error) {
	c := &config{file: path}
	return c, readJSON(path, &c.m)
}

// readConfig reads config.json. What a model of several kinds of input says of its text model comes first.
func readConfig(dir string) (*config, error) {
	c := &config{file: filepath.Join(dir, "config.json")}
	err := readJSON(c.file, &c.m)
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
		for key, v := range c.object(name) {
			if _, root := c.m[key]; v != nil && (key != "architectures" || !root) {
				c.m[key] = v
			}
		}
	}
	return c, nil
}

// part returns a config of what an object says, in the same file.
func (c *config) part(object map[string]any) *config { return &config{m: object, file: c.file} }

// value returns what a name stands for, nil if it is not there.
func (c *config) value(name string) any { return c.m[name] }

// put makes a name stand for a value.
func (c *config) put(name string, v any) { c.m[name] = v }

// remove makes a name stand for nothing.
func (c *config) remove(name string) { delete(c.m, name) }

// path returns the name of the file.
func (c *config) path() string { return c.file }

// exists reports whether the file's folder has another file.
func (c *config) exists(name string) bool { return exists(filepath.Dir(c.file), name) }

// exists reports whether a folder has a file.
func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// failure returns the first error.
func (c *config) failure() error { return c.err }

func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", c.file, fmt.Sprintf(format, args...))
	}
}

// find returns the first value that there is of several names.
func (c *config) find(names string) (v any, name string) {
	for name := range strings.FieldsSeq(names) {
		if v := c.m[name]; v != nil {
			return v, name
		}
	}
	return nil, ""
}

// has reports whether there is a value.
func (c *config) has(names string) bool {
	_, name := c.find(names)
	return name != ""
}

// missing fails with the name of what is not there.
func (c *config) missing(names string) {
	first, _, _ := strings.Cut(names, " ")
	c.fail("no %s", first)
}

// count returns an integer from 0 to 2^31 - 1, which must be there.
func (c *config) count(names string) int {
	if !c.has(names) {
		c.missing(names)
	}
	return c.countOr(names, 0)
}

// countOr returns an integer from 0 to 2^31 - 1, or otherwise.
func (c *config) countOr(names string, otherwise int) int {
	v, name := c.find(names)
	if name == "" {
		return otherwise
	}
	n, ok := asCount(v)
	if !ok {
		c.fail("%s is %.40v, want an integer from 0 to %d", name, v, math.MaxInt32)
	}
	return n
}

func asCount(v any) (int, bool) {
	f, ok := v.(float64)
	if !ok || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// number returns a number, which must be there.
func (c *config) number(names string) float64 {
	if !c.has(names) {
		c.missing(names)
	}
	return c.numberOr(names, 0)
}

func (c *config) numberOr(names string, otherwise float64) float64 {
	return get(c, names, otherwise, "a number")
}

// flag returns a bool, or false.
func (c *config) flag(names string) bool { return c.flagOr(names, false) }

// flagOr returns a bool, or otherwise.
func (c *config) flagOr(names string, otherwise bool) bool {
	return get(c, names, otherwise, "true or false")
}

// text returns a string, or "".
func (c *config) text(names string) string { return get(c, names, "", "a string") }

// list returns a list, or nil.
func (c *config) list(names string) []any { return get[[]any](c, names, nil, "a list") }

// get returns a value of a type that JSON has, or otherwise where none of the names is there.
func get[T any](c *config, names string, otherwise T, want string) T {
	v, name := c.find(names)
	if name == "" {
		return otherwise
	}
	x, ok := v.(T)
	if !ok {
		c.fail("%s is %.40v, want %s", name, v, want)
	}
	return x
}

// texts returns a list of strings, or nil.
func (c *config) texts(names string) []string {
	var all []string
	for _, v := range c.list(names) {
		s, ok := v.(string)
		if !ok {
			c.fail("%s has %.40v, want strings", names, v)
		}
		all = append(all, s)
	}
	return all
}

// numbers returns a list of numbers, or nil.
func (c *config) numbers(names string) []float32 {
	var all []float32
	for _, v := range c.list(names) {
		f, ok := v.(float64)
		if !ok {
			c.fail("%s has %.40v, want numbers", names, v)
		}
		all = append(all, float32(f))
	}
	return all
}

// object returns an object, or nil.
func (c *config) object(names string) map[string]any {
	v, name := c.find(names)
	if name == "" {
		return nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		c.fail("%s is %.40v, want an object", name, v)
	}
	return o
}

// within returns what an object says, an empty config if there is none. Its errors are c's as well once it is asked for
// them with c.take.
func (c *config) within(names string) *config {
	return &config{m: c.object(names), file: c.file}
}

// take makes the error of a part that of the whole.
func (c *config) take(part *config) {
	if c.err == nil {
		c.err = part.err
	}
}

// layers returns the number of layers.
func (c *config) layers() int {
	n := c.count("num_hidden_layers n_layers n_layer num_layers num_transformer_layers")
	if n > 1<<12 {
		c.fail("%d layers, the most is %d", n, 1<<12)
		return 0
	}
	return n
}

func (c *config) heads() int   { return c.count("num_attention_heads n_head n_heads") }
func (c *config) headsKV() int { return c.countOr("num_key_value_heads n_kv_heads", c.heads()) }

// headDim returns the channels of a head.
func (c *config) headDim() int {
	return c.channels(c.countOr("head_dim", c.count("hidden_size n_embd")/max(c.heads(), 1)))
}

// channels returns a number of channels of a head: tables are as long.
func (c *config) channels(n int) int {
	if n > 1<<16 {
		c.fail("%d channels of a head, the most is %d", n, 1<<16)
		return 0
	}
	return n
}

// experts returns the number of experts, 0 if there are none.
func (c *config) experts() int {
	return c.countOr("num_local_experts num_experts n_routed_experts moe_num_experts moe_num_primary_experts", 0)
}

// typesOf returns which layers are of a kind, by layer_types.
func (c *config) typesOf(kinds string) []bool {
	var all []bool
	for _, t := range c.texts("layer_types layers_block_type") {
		is := false
		for kind := range strings.FieldsSeq(kinds) {
			is = is || t == kind
		}
		all = append(all, is)
	}
	if n := c.layers(); len(all) != n {
		c.fail("layer_types names %d layers of %d", len(all), n)
		return make([]bool, n)
	}
	return all
}

// want fails unless a setting has one of the values that the architecture computes.
func (c *config) want(name string, values ...string) {
	v, _ := c.find(name)
	if v == nil {
		return
	}
	for _, w := range values {
		if fmt.Sprint(v) == w {
			return
		}
	}
	c.fail("%s is %.40v, want %s", name, v, strings.Join(values, " or "))
}

// leading returns how many layers are dense before those with experts.
func (c *config) leading() int {
	kinds := c.texts("mlp_layer_types")
	lead := slices.IndexFunc(kinds, func(kind string) bool { return kind != "dense" })
	if lead < 0 || slices.Contains(kinds[lead:], "dense") {
		c.fail("mlp_layer_types: want dense layers, and then others")
	}
	return max(lead, 0)
}

// digits reads a number of decimal digits.
func digits(s string) (int, bool) {
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
