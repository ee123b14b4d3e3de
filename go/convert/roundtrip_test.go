package convert

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/sample"
)

// An origin says how the file of a small model comes from a checkpoint. It is a table of testdata/origins;
// testdata/README.md describes its parts.
type origin struct {
	config   string      // config.json; none: that of the checkpoint of the same name
	layers   string      // the beginning of names of layers; empty: model.layers.#.
	names    []string    // lines: what the checkpoint calls tensors, first those that count; see split
	prefix   string      // of the names of integers
	differ   []string    // keys that such a checkpoint says otherwise, or not at all: the model is run with the file's
	lost     string      // an expression for tensors that the checkpoint does not have
	other    string      // one for those that are in another form afterwards: the model is run with the file's
	spare    bool        // what is lost is not in the file either, when it is run
	integers [][2]string // the names of tensors of integers of 64 bits, and the keys that they become
	swap     bool        // layers, two by two: the file's order is one that no config.json says
}

// readOrigin reads a table of testdata/origins.
func readOrigin(tb testing.TB, name string) origin {
	tb.Helper()
	f := readTable(tb, filepath.Join("testdata/origins", name+".txt"), "layers prefix differ lost other spare swap", "config.json names integers")
	o := origin{
		config: f.sections["config.json"], layers: cmp.Or(f.values["layers"], "model.layers.#."), prefix: f.values["prefix"],
		names:  slices.Collect(strings.Lines(f.sections["names"])),
		differ: strings.Fields(f.values["differ"]), lost: f.values["lost"], other: f.values["other"],
		spare: f.truth(tb, "spare"), swap: f.truth(tb, "swap"),
	}
	if o.config == "" {
		o.config = readCheckpoint(tb, name).config
	}
	for line := range strings.Lines(f.sections["integers"]) {
		from, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		o.integers = append(o.integers, [2]string{from, key})
	}
	return o
}

// usually returns how most checkpoints call their tensors.
func usually(tb testing.TB) []string {
	tb.Helper()
	f := readTable(tb, "testdata/usually.txt", "", "names")
	return slices.Collect(strings.Lines(f.sections["names"]))
}

// An array is a tensor's numbers.
type array struct {
	shape []int
	v     []float32
}

// rows returns the rows of all dimensions but the first.
func (a array) rows() (n, each int) { return a.shape[0], len(a.v) / a.shape[0] }

// pick returns an array of a shape whose element i is element from(i).
func (a array) pick(shape []int, from func(i int) int) array {
	out := array{shape: shape}
	n := 1
	for _, d := range shape {
		n *= d
	}
	for i := range n {
		out.v = append(out.v, a.v[from(i)])
	}
	return out
}

// byRows returns the rows in another order: row i is row from(i).
func (a array) byRows(from func(i int) int) array {
	_, each := a.rows()
	return a.pick(a.shape, func(i int) int { return from(i/each)*each + i%each })
}

func (a array) transposed() array {
	k := len(a.shape)
	r, c := a.shape[k-2], a.shape[k-1]
	shape := append(slices.Clone(a.shape[:k-2]), c, r)
	return a.pick(shape, func(i int) int { m, j := i/(r*c), i%(r*c); return m*r*c + j%r*c + j/r })
}

// stack puts arrays one after another along an axis.
func stack(axis int, parts ...array) array {
	out := array{shape: slices.Clone(parts[0].shape)}
	out.shape[axis] = 0
	outer := 1
	for _, d := range parts[0].shape[:axis] {
		outer *= d
	}
	for _, p := range parts {
		out.shape[axis] += p.shape[axis]
	}
	for o := range outer {
		for _, p := range parts {
			n := len(p.v) / outer
			out.v = append(out.v, p.v[o*n:(o+1)*n]...)
		}
	}
	return out
}

// halved returns the rows of heads of d channels as checkpoints have them: of each pair of rows, the first comes from
// the first half.
func halved(a array, d int) array {
	return a.byRows(func(i int) int { h, j := i/d, i%d; return h*d + j%(d/2)*2 + j/(d/2) })
}

// undo makes tensors of a checkpoint from those of a file. A word says how.
func undo(t *testing.T, f *gguf.File, word string, in []array) []array {
	t.Helper()
	word, arg, _ := strings.Cut(word, ":")
	a := in[0]
	number := func() float64 {
		x, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	each := func(do func(x float64) float64) []array {
		for i, x := range a.v {
			a.v[i] = float32(do(float64(x)))
		}
		return []array{a}
	}
	key := func(name string) int {
		n, err := f.Uint(must(f.Str("general.architecture")) + "." + name)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	switch word {
	case "less":
		return each(func(x float64) float64 { return x - number() })
	case "factors": // what is a product
		by := array{a.shape, slices.Repeat([]float32{2}, len(a.v))}
		return append(each(func(x float64) float64 { return x / 2 }), by)
	case "over":
		return each(func(x float64) float64 { return x / number() })
	case "log":
		return each(func(x float64) float64 { return math.Log(-x) })
	case "T":
		return []array{a.transposed()}
	case "flat":
		return []array{{[]int{len(a.v)}, a.v}}
	case "conv": // a dimension of 1 between channels and taps
		return []array{{[]int{a.shape[0], 1, len(a.v) / a.shape[0]}, a.v}}
	case "wide": // as RWKV has vectors
		return []array{{append([]int{1, 1}, a.shape...), a.v}}
	case "below": // experts one below the other
		return []array{{[]int{a.shape[0] * a.shape[1], a.shape[2]}, a.v}}
	case "halves":
		return []array{stack(max(len(a.shape)-2, 0), in...)}
	case "columns":
		return []array{stack(len(a.shape)-1, in...)}
	case "turns": // of rows, or of columns of vectors
		axis := len(a.shape) - 2
		if arg == "last" {
			axis++
		}
		inner := 1
		for _, d := range a.shape[axis+1:] {
			inner *= d
		}
		both := slices.Clone(a.shape)
		both[axis] *= 2
		out := array{shape: both}
		for i := 0; i < len(a.v); i += inner {
			out.v = append(append(out.v, a.v[i:i+inner]...), in[1].v[i:i+inner]...)
		}
		return []array{out}
	case "pairs": // of heads of this many channels: in a checkpoint, pairs are halves
		return []array{halved(a, int(number()))}
	case "packed": // queries and keys as in pairs, and values, in one tensor
		return []array{stack(0, halved(in[0], int(number())), halved(in[1], int(number())), in[2])}
	case "grouped": // the same, but for each group its queries, its key and its value
		d, keys := int(number()), key("attention.head_count_kv")
		q, k := halved(in[0], d), halved(in[1], d)
		var parts []array
		for g := range keys {
			for _, x := range []array{q, k, in[2]} {
				rows, _ := x.rows()
				n := rows / keys
				parts = append(parts, x.pick([]int{n, x.shape[1]}, func(i int) int { return g*n*x.shape[1] + i }))
			}
		}
		return []array{stack(0, parts...)}
	case "groups": // for each group its queries, its key and its value, of one tensor and without pairs
		d, keys := int(number()), key("attention.head_count_kv")
		rows, _ := a.rows()
		q := rows/d/keys - 2 // heads of queries of a group
		return []array{a.byRows(func(i int) int {
			g, h, j := i/(d*(q+2)), i/d%(q+2), i%d
			switch {
			case h < q:
				return (g*q+h)*d + j
			case h == q:
				return (keys*q+g)*d + j
			}
			return (keys*(q+1)+g)*d + j
		})}
	case "ln":
		return each(math.Log)
	case "shards": // this many parts of the rows
		n := int(number())
		return []array{{[]int{n, a.shape[0] / n, a.shape[1]}, a.v}}
	case "headpairs": // as pairs, for norms that each head has of its own
		d := a.shape[1]
		flat := array{[]int{len(a.v)}, a.v}.byRows(func(i int) int { h, j := i/d, i%d; return h*d + j%(d/2)*2 + j/(d/2) })
		return []array{{a.shape, flat.v}}
	case "backwards": // negates the second half of the channels of each head
		d := int(number())
		_, each := a.rows()
		for i := range a.v {
			if i/each%d >= d/2 {
				a.v[i] = -a.v[i]
			}
		}
		return []array{a}
	case "threes": // for each head its query, key and value
		h := key("attention.head_count")
		rows, _ := a.rows()
		d := rows / (3 * h)
		return []array{a.byRows(func(i int) int { head, part, j := i/(3*d), i/d%3, i%d; return part*h*d + head*d + j })}
	case "keys+values": // for each head its keys, transposed, and its values
		k := a.transposed() // heads, channels, rank
		h, nope, rank := k.shape[0], k.shape[1], k.shape[2]
		value := in[1].shape[1]
		all := stack(1, k, in[1])
		return []array{{[]int{h * (nope + value), rank}, all.v}}
	case "untile": // heads of values of this many channels, after this many rows: those with the same head of keys are neighbours
		width, skip, _ := strings.Cut(arg, ",")
		d, _ := strconv.Atoi(width)
		from, _ := strconv.Atoi(skip)
		heads, keys := key("ssm.time_step_rank"), key("ssm.group_count")
		r := heads / keys
		order := func(i int) int {
			if i < from {
				return i
			}
			i -= from
			h, j := i/d, i%d
			return from + (h%r*keys+h/r)*d + j
		}
		if len(a.shape) == 2 && a.shape[0] != heads*d+from {
			return []array{a.transposed().byRows(order).transposed()}
		}
		return []array{a.byRows(order)}
	case "by-heads": // for each head of keys its queries, keys, values and gates
		keys, dk := key("ssm.group_count"), key("ssm.state_size")
		values := (in[0].shape[0] - 2*keys*dk) / keys
		all := stack(0, in...)
		q, k, v := 0, keys*dk, 2*keys*dk
		z := v + keys*values
		return []array{all.byRows(func(i int) int {
			h, j := i/(2*dk+2*values), i%(2*dk+2*values)
			switch {
			case j < dk:
				return q + h*dk + j
			case j < 2*dk:
				return k + h*dk + j - dk
			case j < 2*dk+values:
				return v + h*values + j - 2*dk
			}
			return z + h*values + j - 2*dk - values
		})}
	case "ternary": // signs times a number, so that the mean of absolute values is the scale
		ones := 0.0
		for _, x := range a.v {
			ones += math.Abs(float64(x))
		}
		scale := float64(in[1].v[0]) * float64(len(a.v)) / ones
		return each(func(x float64) float64 { return x * scale })
	case "padded": // with this many rows of zeros in front
		_, width := a.rows()
		n := int(number())
		return []array{{[]int{a.shape[0] + n, width}, append(make([]float32, n*width), a.v...)}}
	case "order": // of equal parts of the rows
		var from []int
		for c := range strings.SplitSeq(arg, ",") {
			i, _ := strconv.Atoi(c)
			from = append(from, i)
		}
		rows, _ := a.rows()
		n := rows / len(from)
		return []array{a.byRows(func(i int) int { return from[i/n]*n + i%n })}
	}
	t.Fatalf("%q is no word", word)
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// numbersOf reads a tensor.
func numbersOf(t *testing.T, x *gguf.Tensor) array {
	t.Helper()
	a := array{}
	n := 1
	for _, d := range slices.Backward(x.Dims) {
		a.shape = append(a.shape, int(d))
		n *= int(d)
	}
	a.v = make([]float32, n)
	if x.Type == gguf.I32 {
		for i := range a.v {
			a.v[i] = float32(int32(binary.LittleEndian.Uint32(x.Data[4*i:])))
		}
		return a
	}
	row := int(x.Dims[0])
	size := len(x.Data) / (n / row)
	for r := range n / row {
		if err := quant.Decode(x.Type, a.v[r*row:(r+1)*row], x.Data[r*size:(r+1)*size]); err != nil {
			t.Fatalf("%s: %v", x.Name, err)
		}
	}
	return a
}

// checkpointOf writes the weights of the checkpoint that a file comes from. It returns the names of the file's tensors
// that it has.
func checkpointOf(t *testing.T, dir string, f *gguf.File, o origin) map[string]bool {
	t.Helper()
	used, header, data := map[string]bool{}, map[string]any{}, []byte{}
	put := func(name string, a array) {
		begin := len(data)
		for _, x := range a.v {
			u := math.Float32bits(x)
			data = append(data, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
		}
		if _, twice := header[name]; twice {
			t.Fatalf("two tensors become %s", name)
		}
		header[name] = map[string]any{"dtype": "F32", "shape": a.shape, "data_offsets": []int{begin, len(data)}}
	}
	lost := regexp.MustCompile("^$")
	if o.lost != "" {
		lost = regexp.MustCompile(o.lost)
	}
	make_ := func(to string, from, words []string, il int) (made bool) {
		var in []array
		for _, name := range from {
			if key, ok := strings.CutPrefix(name, "key:"); ok { // a number for each layer
				if all, err := f.Floats(key); err == nil && il < len(all) {
					put(to, array{[]int{1}, []float32{all[il]}})
				} else if v, err := f.Float(key); err == nil {
					put(to, array{[]int{1}, []float32{float32(v)}})
				}
				return true
			}
			if lost.MatchString(name) {
				return false
			}
			x, ok := f.Tensor(name)
			if !ok || used[name] {
				return false
			}
			in = append(in, numbersOf(t, x))
		}
		for _, name := range from {
			used[name] = true
		}
		for _, w := range words {
			in = undo(t, f, w, in)
		}
		before, after, many := strings.Cut(to, "*")
		letters := ""
		if open := strings.IndexByte(to, '['); open >= 0 { // a letter for each
			many = true
			before = to[:open]
			letters, after, _ = strings.Cut(to[open+1:], "]")
		}
		if !many {
			for i, name := range strings.Split(to, "|") {
				put(name, in[i])
			}
			return true
		}
		rows, each := in[0].rows()
		for i := range rows {
			number := strconv.Itoa(i)
			if letters != "" {
				number = letters[i : i+1]
			}
			put(before+number+after, array{in[0].shape[1:], in[0].v[i*each : (i+1)*each]})
		}
		return true
	}
	count := 0
	for _, x := range f.Tensors {
		for part := range strings.SplitSeq(x.Name, ".") {
			if n, err := strconv.Atoi(part); err == nil {
				count = max(count, n+1)
			}
		}
	}
	for i, line := range slices.Concat(o.names, usually(t)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			t.Fatalf("%q, want a name of the checkpoint and one of the file", line)
		}
		to, from := words[0], strings.Split(words[1], "+")
		made, first := false, 0
		if n, rest, ok := strings.Cut(to, ">"); ok { // from a layer on
			first, _ = strconv.Atoi(n)
			to = rest
		}
		to, whole := strings.CutSuffix(to, "=")
		if rest, ok := strings.CutPrefix(to, "."); ok {
			to = o.layers + strings.ReplaceAll(rest, "|.", "|"+o.layers)
			for k, name := range from {
				if !strings.Contains(name, "#") && !strings.HasPrefix(name, "key:") {
					from[k] = "blk.#." + name
				}
			}
		}
		for il := first; il < count && (strings.Contains(to, "#") || il == 0); il++ {
			for _, end := range []string{".weight", ".bias", ""} {
				if (end == "") != whole {
					continue
				}
				var names []string
				for _, name := range from {
					names = append(names, strings.ReplaceAll(name, "#", strconv.Itoa(il))+end)
				}
				made = make_(strings.ReplaceAll(to, "#", strconv.Itoa(il))+end, names, words[2:], il) || made
			}
		}
		if i < len(o.names) && !made {
			t.Errorf("the file has no tensor of which %q is made", strings.TrimSpace(line))
		}
	}
	for _, of := range o.integers {
		name, key := of[0], of[1]
		all, err := f.Ints(key)
		if err != nil {
			t.Fatal(err)
		}
		begin := len(data)
		for _, n := range all {
			data = binary.LittleEndian.AppendUint64(data, uint64(n))
		}
		header[o.prefix+name] = map[string]any{"dtype": "I64", "shape": []int{len(all)}, "data_offsets": []int{begin, len(data)}}
	}
	save(t, dir, "model.safetensors", string(safetensorsOf(t, header, data)))
	return used
}

// TestRoundTrip makes checkpoints from small models that other programs have computed logits of, converts them, and
// compares the results with the files: each tensor, each key, and what the models compute.
func TestRoundTrip(t *testing.T) {
	for _, name := range tables(t, "origins") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			device := must(engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")}))
			defer device.Close()
			o := readOrigin(t, name)
			path := filepath.Join("../model/testdata/archs", name+".gguf")
			if _, err := os.Stat(path); err != nil {
				path = testdata.Path(t, "archs/"+name+".gguf")
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := gguf.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if o.swap {
				raw = swapped(t, want)
				want = must(gguf.Parse(raw))
			}
			dir := t.TempDir()
			tokens, ok := want.Tensor("token_embd.weight")
			if !ok {
				tokens, _ = want.Tensor("output.weight")
			}
			save(t, dir, "config.json", o.config)
			save(t, dir, "tokenizer.json", anyTokenizer(int(tokens.Dims[1])))
			save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
			used := checkpointOf(t, dir, want, o)
			lost := regexp.MustCompile("^rope_f") // these are computed from settings
			for _, more := range []string{o.lost, o.other} {
				if more != "" {
					lost = regexp.MustCompile(lost.String() + "|" + more)
				}
			}
			for _, x := range want.Tensors {
				if !used[x.Name] && !lost.MatchString(x.Name) {
					t.Errorf("no tensor of the checkpoint is %s", x.Name)
				}
			}
			got, err := converted(t, dir, Options{Type: "f16"})
			if err != nil {
				t.Fatal(err)
			}
			compareTensors(t, got, want, lost)
			for _, line := range diff(settingsOf(got, o.differ), settingsOf(want, o.differ)) {
				t.Error(line)
			}
			if t.Failed() {
				return
			}
			sameLogits(t, device, asRun(t, got, want, o.differ), without(t, want, o), strings.TrimSuffix(path, ".gguf")+".json")
		})
	}
}

// compareTensors compares tensors with those of the file. Tensors that are computed may differ in their last bits.
func compareTensors(t *testing.T, got, want *gguf.File, lost *regexp.Regexp) {
	t.Helper()
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		switch {
		case !ok && lost.MatchString(w.Name):
		case !ok:
			t.Errorf("no %s", w.Name)
		case !slices.Equal(g.Dims, w.Dims):
			t.Errorf("%s is %v, want %v", w.Name, g.Dims, w.Dims)
		case lost.MatchString(w.Name):
			if len(g.Data) == len(w.Data) {
				copy(g.Data, w.Data)
			}
		default:
			a, b := numbersOf(t, g), numbersOf(t, &w)
			for i := range a.v {
				if d := math.Abs(float64(a.v[i] - b.v[i])); !(d <= 2e-3*math.Abs(float64(b.v[i]))+1e-6) {
					t.Errorf("%s: element %d is %v, want %v", w.Name, i, a.v[i], b.v[i])
					break
				}
			}
		}
	}
	for _, g := range got.Tensors {
		if _, ok := want.Tensor(g.Name); !ok && !lost.MatchString(g.Name) {
			t.Errorf("%s is not in the file", g.Name)
		}
	}
}

// asRun returns the converted file with the keys of the other file that differ.
func asRun(t *testing.T, got, want *gguf.File, differ []string) []byte {
	t.Helper()
	w := gguf.NewWriter()
	for i, kvs := range [][]gguf.KV{got.KVs, want.KVs} {
		for _, kv := range kvs {
			if _, key, _ := strings.Cut(kv.Key, "."); slices.Contains(differ, key) == (i == 1) && !strings.HasPrefix(key, afterwards) {
				w.Set(kv.Key, kv.Value)
			}
		}
	}
	return bytesOf(t, w, got, func(name string) string { return name })
}

// afterwards begins keys about what some programs do with vectors, which are not in the checkpoint's files.
const afterwards = "dense_"

// without returns a file without the tensors that no checkpoint has.
func without(t *testing.T, f *gguf.File, o origin) []byte {
	t.Helper()
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if _, key, _ := strings.Cut(kv.Key, "."); !strings.HasPrefix(key, afterwards) {
			w.Set(kv.Key, kv.Value)
		}
	}
	if o.spare {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(x gguf.Tensor) bool { return regexp.MustCompile(o.lost).MatchString(x.Name) })
	}
	return bytesOf(t, w, f, func(name string) string { return name })
}

// bytesOf returns a file with the keys of w, and the tensors of f under other names.
func bytesOf(t *testing.T, w *gguf.Writer, f *gguf.File, name func(string) string) []byte {
	t.Helper()
	for _, x := range f.Tensors {
		w.AddTensor(name(x.Name), x.Type, x.Dims, func(to io.Writer) error { _, err := to.Write(x.Data); return err })
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// swapped returns a file in which each two layers are exchanged.
func swapped(t *testing.T, f *gguf.File) []byte {
	t.Helper()
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if all, ok := kv.Value.([]int32); ok && strings.Contains(kv.Key, "head_count") {
			for i := 0; i+1 < len(all); i += 2 {
				all[i], all[i+1] = all[i+1], all[i]
			}
		}
		if all, ok := kv.Value.([]uint32); ok && strings.Contains(kv.Key, "head_count") {
			for i := 0; i+1 < len(all); i += 2 {
				all[i], all[i+1] = all[i+1], all[i]
			}
		}
		w.Set(kv.Key, kv.Value)
	}
	return bytesOf(t, w, f, func(name string) string {
		il := layerOf(name)
		if il < 0 {
			return name
		}
		return strings.Replace(name, fmt.Sprintf("blk.%d.", il), fmt.Sprintf("blk.%d.", il^1), 1)
	})
}

// sameLogits runs two files on the same text and compares the results.
func sameLogits(t *testing.T, device *engine.Device, got, want []byte, witness string) {
	t.Helper()
	var w struct{ IDs []int32 }
	if err := json.Unmarshal(must(os.ReadFile(witness)), &w); err != nil {
		t.Fatal(err)
	}
	w.IDs = w.IDs[:min(len(w.IDs), 24)] // longer than a window
	var all [2][]float32
	for i, b := range [][]byte{got, want} {
		all[i] = computed(t, device, b, w.IDs)
	}
	if len(all[0]) != len(all[1]) || len(all[0]) == 0 {
		t.Fatalf("%d numbers, want %d", len(all[0]), len(all[1]))
	}
	for i, x := range all[0] {
		if d := math.Abs(float64(x - all[1][i])); !(d <= 1e-2) {
			t.Fatalf("number %d is %v, want %v", i, x, all[1][i])
		}
	}
}

// opened returns a file in memory, and what its keys say.
func opened(t *testing.T, b []byte) (*model.File, *nn.Config) {
	t.Helper()
	file, err := model.OpenBytes("test", b)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := file.Config()
	if err != nil {
		t.Fatal(err)
	}
	return file, cfg
}

// computed returns what a model computes from a text: logits, vectors, or the tokens of an answer.
func computed(t *testing.T, d *engine.Device, b []byte, ids []int32) (all []float32) {
	t.Helper()
	file, cfg := opened(t, b)
	c := engine.Config{Device: d, Ctx: 128, Batch: 64, KV: kvcache.Both(kvcache.F32), Vectors: cfg.BothWays}
	e, err := engine.New(file, c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	switch {
	case cfg.BothWays:
		err = e.Embed(t.Context(), []engine.Text{{IDs: ids}}, nn.PoolMean, func(_ int, vectors [][]float32) error {
			all = append(all, slices.Concat(vectors...)...)
			return nil
		})
	case len(cfg.Encoder) > 0:
		s := e.NewSequence()
		defer s.Close()
		p := generate.Params{Prompt: ids, MaxTokens: 12, Sampling: sample.Defaults(), TopLogprobs: -1}
		p.Sampling.Temp = 0
		_, err = e.Generate(t.Context(), s, p, func(id int32) error {
			all = append(all, float32(id))
			return nil
		})
	default:
		s := e.NewSequence()
		defer s.Close()
		err = e.Eval(t.Context(), s, ids, 0, func(_ int, logits []float32) error {
			all = append(all, logits...)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anyTokenizer returns a tokenizer for a model of n tokens.
func anyTokenizer(n int) string {
	if n >= 261 {
		return smallTokenizer(n)
	}
	var b strings.Builder
	b.WriteString(`{"added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["<s>", 0], ["</s>", 0]`)
	for i := range n - 3 {
		fmt.Fprintf(&b, `, ["%c", -%d]`, 'Ā'+i, i+1)
	}
	b.WriteString("]}}")
	return b.String()
}

// sized returns a config.json.
func sized(arch string, layers, width, ff, heads, keys, vocab int, more string) string {
	return fmt.Sprintf(`{"architectures": [%q], "num_hidden_layers": %d, "hidden_size": %d, "intermediate_size": %d, "num_attention_heads": %d, "num_key_value_heads": %d,
"max_position_embeddings": 512, "vocab_size": %d, %s}`, arch, layers, width, ff, heads, keys, vocab, more)
}
