package model

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// Files of published models are accepted as they are, and one that lacks a tensor of the last layer,
// or has an unknown one, is refused.
func TestPublished(t *testing.T) {
	paths, err := filepath.Glob("testdata/published/*.txt")
	if err != nil || len(paths) < 131 {
		t.Fatalf("%d tables of published models: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			p := readPublished(t, path)
			for _, tt := range []struct{ without, with, refused string }{
				{}, {without: p.needs, refused: p.needs}, {with: "blk.0.ffn_other.weight", refused: "blk.0.ffn_other.weight"},
			} {
				f, err := OpenFile(p.write(t, tt.without, tt.with))
				if err != nil {
					t.Fatal(err)
				}
				for _, kv := range []kernel.KVTypes{kvF32, {K: kernel.KVI16, V: kernel.KVI16}} {
					s, err := NewSurvey(f, kv, 0)
					if tt.refused != "" {
						if err == nil || !strings.Contains(err.Error(), strconv.Quote(tt.refused)) {
							t.Errorf("without %q, with %q: error %v", tt.without, tt.with, err)
						}
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if p.drafts() {
						if _, err := s.Drafting(); err != nil {
							t.Errorf("its last layer does not draft: %v", err)
						}
					}
					for _, w := range p.wants {
						if got := fieldOf(t, s.Config, w[0]); got != w[1] {
							t.Errorf("%s is %s, want %s", w[0], got, w[1])
						}
					}
				}
				f.Close()
			}
		})
	}
}

// A published is the table of a published model's file. Lines of a table:
//
//	architecture NAME
//	layers N                            of the file, with those that predict further tokens
//	key NAME TYPE VALUE...              TYPE[] for an array; value*3 is three of them
//	tensor LAYERS NAME DIMENSION...     .weight follows the name, unless it ends in .bias, .scale or !
//	needs NAME                          a tensor without which the file is refused
//	want FIELD VALUE...                 of the configuration: Layers[3].Window, Layers[*].Window, len(Layers), For(4096).Ctx
//
// LAYERS is - for a tensor outside of the layers, * for all, or a list of N, FROM:TO and FROM:TO:STEP; ! before
// it means all others. A stem such as dec. stands before it where names begin with one.
type published struct {
	arch    string
	layers  int
	keys    [][]string // name, type, values
	tensors [][]string // layers, name, dimensions
	needs   string
	wants   [][2]string
}

func readPublished(t *testing.T, path string) (p published) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		fields := strings.Fields(rest)
		switch {
		case word == "" || word == "#":
		case word == "architecture" && len(fields) == 1:
			p.arch = fields[0]
		case word == "layers" && len(fields) == 1:
			p.layers = number(t, fields[0])
		case word == "key" && len(fields) >= 3:
			p.keys = append(p.keys, fields)
		case word == "tensor" && len(fields) >= 3:
			p.tensors = append(p.tensors, fields)
		case word == "needs" && len(fields) == 1:
			p.needs = fields[0]
		case word == "want" && len(fields) >= 2:
			p.wants = append(p.wants, [2]string{fields[0], strings.Join(fields[1:], " ")})
		default:
			t.Fatalf("line %d: %q", n, lines.Text())
		}
	}
	if p.arch == "" || p.layers == 0 || p.needs == "" || len(p.wants) == 0 || len(p.tensors) == 0 {
		t.Fatal("the table is not complete")
	}
	return p
}

func number(t testing.TB, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// drafts reports whether the file has blocks that predict further tokens.
func (p published) drafts() bool {
	return slices.ContainsFunc(p.tensors, func(tensor []string) bool { return tensor[1] == "nextn.eh_proj" })
}

// write writes the file, with nothing in its tensors, and returns its path.
func (p published) write(t *testing.T, without, with string) string {
	w := gguf.NewWriter()
	w.Set("general.architecture", p.arch)
	w.Set(p.arch+".block_count", uint32(p.layers))
	for _, k := range p.keys {
		w.Set(k[0], keyValue(t, k[1], k[2:]))
	}
	add := func(name string, dims []uint64) {
		if name == without {
			return
		}
		typ := gguf.F32
		if len(dims) > 1 && !strings.HasSuffix(name, ".bias") {
			typ = gguf.F16
		}
		if strings.Contains(name, "tid2eid") { // of integers
			typ = gguf.I32
		}
		size, err := typ.Size(dims)
		if err != nil {
			t.Fatal(err)
		}
		w.AddTensor(name, typ, dims, func(w io.Writer) error { return zeros(w, size) })
	}
	for _, tensor := range p.tensors {
		name, bare := strings.CutSuffix(tensor[1], "!")
		if !bare && !strings.HasSuffix(name, ".bias") && !strings.HasSuffix(name, ".scale") {
			name += ".weight"
		}
		var dims []uint64
		for _, s := range tensor[2:] {
			dims = append(dims, uint64(number(t, s)))
		}
		if tensor[0] == "-" {
			add(name, dims)
			continue
		}
		stem, layers := "", tensor[0]
		if i := strings.IndexByte(layers, '.'); i >= 0 {
			stem, layers = layers[:i+1], layers[i+1:]
		}
		for _, il := range layersOf(t, layers, p.layers) {
			add(fmt.Sprintf("%sblk.%d.%s", stem, il, name), dims)
		}
	}
	if with != "" {
		add(with, []uint64{32})
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := w.WriteTo(sparse{f})
	if err == nil {
		err = f.Truncate(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// keyValue returns a value of metadata.
func keyValue(t testing.TB, typ string, words []string) any {
	switch typ {
	case "u32":
		return parsed(t, words, parseUint32)[0]
	case "i32":
		return parsed(t, words, parseInt32)[0]
	case "f32":
		return parsed(t, words, parseFloat32)[0]
	case "bool":
		return parsed(t, words, strconv.ParseBool)[0]
	case "str":
		return parsed(t, words, strconv.Unquote)[0]
	case "u32[]":
		return parsed(t, words, parseUint32)
	case "i32[]":
		return parsed(t, words, parseInt32)
	case "f32[]":
		return parsed(t, words, parseFloat32)
	case "bool[]":
		return parsed(t, words, strconv.ParseBool)
	case "str[]":
		return parsed(t, words, strconv.Unquote)
	}
	t.Fatalf("type %q", typ)
	return nil
}

func parseUint32(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

func parseInt32(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err
}

func parseFloat32(s string) (float32, error) {
	x, err := strconv.ParseFloat(s, 32)
	return float32(x), err
}

// parsed returns the values of words, of which one may be value*count.
func parsed[T any](t testing.TB, words []string, parse func(string) (T, error)) (all []T) {
	for _, word := range words {
		count := 1
		if i := strings.LastIndexByte(word, '*'); i >= 0 {
			word, count = word[:i], number(t, word[i+1:])
		}
		v, err := parse(word)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Repeat([]T{v}, count)...)
	}
	return all
}

// layersOf returns the layers of n that a table means by a list.
func layersOf(t *testing.T, list string, n int) []int {
	if list == "*" {
		list = fmt.Sprintf("0:%d", n)
	}
	var all []int
	list, others := strings.CutPrefix(list, "!")
	for part := range strings.SplitSeq(list, ",") {
		bounds := strings.Split(part, ":")
		from, step := number(t, bounds[0]), 1
		to := from + 1
		if len(bounds) > 1 {
			to = number(t, bounds[1])
		}
		if len(bounds) > 2 {
			step = number(t, bounds[2])
		}
		for il := from; il < to; il += step {
			all = append(all, il)
		}
	}
	if !others {
		return all
	}
	var rest []int
	for il := range n {
		if !slices.Contains(all, il) {
			rest = append(rest, il)
		}
	}
	return rest
}

// pathStep is the next step of a path: a field, a method with at most one integer, or an index.
var pathStep = regexp.MustCompile(`^(?:\.?(\w+)(?:\((\d*)\))?|\[(\d+|\*)\])`)

// fieldOf returns a field of a configuration as tables write it.
func fieldOf(t *testing.T, c *Config, path string) string {
	if list, ok := strings.CutPrefix(path, "len("); ok {
		return strconv.Itoa(follow(t, reflect.ValueOf(c), strings.TrimSuffix(list, ")")).Len())
	}
	return tableValue(follow(t, reflect.ValueOf(c), path))
}

func follow(t *testing.T, v reflect.Value, path string) reflect.Value {
	for path != "" {
		m := pathStep.FindStringSubmatch(path)
		if m == nil {
			t.Fatalf("no field %q", path)
		}
		path = path[len(m[0]):]
		switch name, arg, index := m[1], m[2], m[3]; {
		case index == "*":
			var all []any
			for i := range v.Len() {
				all = append(all, follow(t, v.Index(i), path).Interface())
			}
			return reflect.ValueOf(all)
		case index != "":
			v = v.Index(number(t, index))
		case strings.HasSuffix(m[0], ")"):
			var args []reflect.Value
			if arg != "" {
				args = append(args, reflect.ValueOf(number(t, arg)))
			}
			v = v.MethodByName(name).Call(args)[0]
		default:
			v = reflect.Indirect(v).FieldByName(name)
		}
		if !v.IsValid() {
			t.Fatalf("no field %q", m[0])
		}
	}
	return v
}

var enumNames = map[any]string{
	kernel.RopeNone: "none", kernel.RopeNorm: "norm", kernel.RopeNeox: "neox",
	kernel.GateSoftmax: "softmax", kernel.GateSigmoid: "sigmoid",
	nn.PoolMean: "mean", nn.PoolCLS: "cls", nn.PoolLast: "last",
}

// tableValue returns a value as tables write it.
func tableValue(v reflect.Value) string {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Comparable() {
		if name, ok := enumNames[v.Interface()]; ok {
			return name
		}
	}
	switch v.Kind() {
	case reflect.Float32:
		return strconv.FormatFloat(v.Float(), 'g', -1, 32)
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice, reflect.Array:
		var words []string
		for i := 0; i < v.Len(); {
			word, run := tableValue(v.Index(i)), 1
			for i+run < v.Len() && tableValue(v.Index(i+run)) == word {
				run++
			}
			i += run
			if run > 1 {
				word += "*" + strconv.Itoa(run)
			}
			words = append(words, word)
		}
		return strings.Join(words, " ")
	}
	return fmt.Sprint(v.Interface())
}

var zero [64 << 20]byte

func zeros(w io.Writer, n uint64) error {
	for n > 0 {
		part := min(n, uint64(len(zero)))
		if _, err := w.Write(zero[:part]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// A sparse file has a hole where parts of zero are written.
type sparse struct{ f *os.File }

func (s sparse) Write(p []byte) (int, error) {
	if len(p) > 0 && &p[0] == &zero[0] {
		_, err := s.f.Seek(int64(len(p)), io.SeekCurrent)
		return len(p), err
	}
	return s.f.Write(p)
}
