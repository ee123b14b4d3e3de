package quant_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

const choicesFile = "testdata/choices.txt"

// A shape is what types are chosen by: how many layers there are, of what, and how many heads share keys.
type shape struct {
	arch                        string
	layers, heads, keys, expert int
	tied                        bool
}

func (s shape) String() string {
	text := fmt.Sprintf("%s/%d/%d:%d", s.arch, s.layers, s.heads, s.keys)
	if s.expert > 0 {
		text += fmt.Sprintf("/%d", s.expert)
	}
	if s.tied {
		text += "/tied"
	}
	return text
}

var shapes = []shape{
	{"llama", 32, 8, 8, 0, false}, {"llama", 32, 8, 2, 0, false}, {"llama", 17, 9, 3, 0, true}, {"llama", 24, 8, 2, 8, false},
	{"llama", 32, 8, 8, 4, false}, {"falcon", 32, 8, 1, 0, false}, {"llama", 80, 8, 1, 0, false}, {"llama", 80, 8, 8, 0, false},
	{"qwen2", 80, 8, 8, 0, false}, {"olmo", 80, 8, 8, 0, false}, {"qwen2", 28, 8, 8, 0, false}, {"jais2", 68, 8, 8, 0, false},
	{"jais2", 32, 8, 8, 0, false},
}

// mixes returns the mixes to compare, true for those with importance too. What is special in other architectures is how
// they see that a model is large, which few mixes ask for.
func (s shape) mixes() map[string]bool {
	if s.arch != "llama" && s.arch != "falcon" || s.layers > 32 {
		return map[string]bool{"Q2_K": false, "Q3_K_S": false, "Q3_K_M": false, "Q4_K_M": false, "IQ3_M": false}
	}
	all := map[string]bool{}
	for _, mix := range quant.Mixes() {
		switch mix {
		case "NVFP4", "IQ1_KT", "IQ2_KT", "IQ3_KT", "IQ4_KT": // no mix of llama-quantize
		case "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ4_NL", "IQ4_XS", "Q4_0", "Q5_0", "Q2_K_S":
			all[mix] = true
		default:
			all[mix] = false
		}
	}
	return all
}

// model returns a model of the shape, whose matrices have two rows.
func (s shape) model() *gguf.Writer {
	w := gguf.NewWriter()
	w.Set("general.architecture", s.arch)
	for key, n := range map[string]int{
		"context_length": 64, "embedding_length": 256, "feed_forward_length": 256, "vocab_size": 2, "block_count": s.layers,
		"attention.head_count": s.heads, "attention.head_count_kv": s.keys,
	} {
		w.Set(s.arch+"."+key, uint32(n))
	}
	w.Set(s.arch+".attention.layer_norm_rms_epsilon", float32(1e-5))
	w.Set(s.arch+".attention.layer_norm_epsilon", float32(1e-5))
	add := func(name string, dims ...uint64) {
		n := uint64(4)
		for _, d := range dims {
			n *= d
		}
		w.AddTensor(name, gguf.F32, dims, gguf.Bytes(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, int(n/4))))
	}
	add("token_embd.weight", 256, 2)
	if !s.tied {
		add("output.weight", 256, 2)
	}
	names := []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}
	if s.arch == "falcon" {
		names = []string{"attn_qkv", "attn_output", "ffn_up", "ffn_down"}
	}
	for i := range s.layers {
		for _, name := range names {
			if name = fmt.Sprintf("blk.%d.%s", i, name); s.expert > 0 && strings.Contains(name, "ffn") {
				add(name+"_exps.weight", 256, 2, uint64(s.expert))
			} else {
				add(name+".weight", 256, 2)
			}
		}
	}
	if s.expert > 0 {
		w.Set(s.arch+".expert_count", uint32(s.expert))
		w.Set(s.arch+".expert_used_count", uint32(2))
	}
	return w
}

// The types of each kind of matrix, over the layers, in every mix are those that llama.cpp chooses, for models of many layers.
func TestChoicesOfLlamaCPP(t *testing.T) {
	if *oracle != "" {
		writeChoices(t)
	}
	b, err := os.ReadFile(choicesFile)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]*gguf.File{}
	for _, s := range shapes {
		if models[s.String()], err = s.model().Outline(); err != nil {
			t.Fatal(err)
		}
	}
	lines, want := 0, 0
	for _, s := range shapes {
		want += len(s.mixes())
	}
	for r := bufio.NewScanner(bytes.NewReader(b)); r.Scan(); lines++ {
		head, kinds, _ := strings.Cut(r.Text(), "  ")
		words := strings.Fields(head)
		f, mixName := models[words[0]], words[1]
		if f == nil {
			t.Fatalf("%s: no such shape", words[0])
		}
		mix, err := quant.ParseMix(mixName)
		if err != nil {
			t.Fatal(err)
		}
		var o quant.Options
		if len(words) > 2 {
			if o.Importance, err = someMatrix(f).Importance(); err != nil {
				t.Fatal(err)
			}
		}
		choices, err := quant.Choose(f, mix, o)
		if err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		types := map[string]gguf.Type{}
		for _, c := range choices {
			types[c.Name] = c.To
		}
		if got := byKind(f, types); got != kinds {
			t.Errorf("%s:\ngot  %s\nwant %s", head, got, kinds)
		}
	}
	if lines < want {
		t.Errorf("%d cases, want %d at least", lines, want)
	}
}

// byKind writes the types of each kind of matrix over the layers, each with how often it comes in a row.
func byKind(f *gguf.File, types map[string]gguf.Type) string {
	var kinds []string
	rows := map[string][]gguf.Type{}
	for _, x := range f.Tensors {
		kind := strings.TrimSuffix(x.Name, ".weight")
		if rest, ok := strings.CutPrefix(kind, "blk."); ok {
			_, kind, _ = strings.Cut(rest, ".")
		}
		if rows[kind] == nil {
			kinds = append(kinds, kind)
		}
		rows[kind] = append(rows[kind], types[x.Name])
	}
	var out []string
	for _, kind := range kinds {
		text := kind + "="
		for row := rows[kind]; len(row) > 0; {
			n := 1
			for n < len(row) && row[n] == row[0] {
				n++
			}
			text += row[0].String()
			if n > 1 {
				text += fmt.Sprintf("*%d", n)
			}
			if row = row[n:]; len(row) > 0 {
				text += ","
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// writeChoices asks the oracle for the types in every mix, without importance and with it.
func writeChoices(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for _, s := range shapes {
		var b bytes.Buffer
		if _, err := s.model().WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		in, out, matrix := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf"), filepath.Join(dir, "matrix.gguf")
		var m bytes.Buffer
		if _, err := someMatrix(f).WriteTo(&m); err != nil {
			t.Fatal(err)
		}
		for path, data := range map[string][]byte{in: b.Bytes(), matrix: m.Bytes()} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		mixes := s.mixes()
		for _, mix := range slices.Sorted(maps.Keys(mixes)) {
			for _, with := range [][]string{nil, {"--imatrix", matrix}} {
				if with != nil && !mixes[mix] {
					continue
				}
				os.Remove(out)
				if msg, err := exec.Command(*oracle, append([]string{"quantize", in, out, mix}, with...)...).CombinedOutput(); err != nil {
					if !strings.Contains(string(msg), "requires an imatrix") {
						t.Fatalf("%v %s: %v: %s", s, mix, err, msg)
					}
					continue
				}
				b, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				got, err := gguf.Parse(b)
				if err != nil {
					t.Fatal(err)
				}
				types := map[string]gguf.Type{}
				for _, x := range got.Tensors {
					types[x.Name] = x.Type
				}
				head := fmt.Sprint(s, " ", mix)
				if with != nil {
					head += " imatrix"
				}
				fmt.Fprintf(&text, "%s  %s\n", head, byKind(f, types))
			}
		}
		if err := os.WriteFile(choicesFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// outline is a file of tensors of 256 columns, with the metadata of an architecture.
func outline(t *testing.T, arch string, kvs map[string]any, names ...string) *gguf.File {
	t.Helper()
	w := gguf.NewWriter()
	w.Set("general.architecture", arch)
	for key, value := range kvs {
		w.Set(arch+"."+key, value)
	}
	for _, name := range names {
		dims := []uint64{256, 2}
		if strings.Contains(name, "exps") {
			dims = append(dims, 8)
		}
		w.AddTensor(name, gguf.F32, dims, nil)
	}
	f, err := w.Outline()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// typesIn returns the types that a mix gives to the tensors of a file.
func typesIn(t *testing.T, f *gguf.File, mix string) (map[string]gguf.Type, error) {
	t.Helper()
	m, err := quant.ParseMix(mix)
	if err != nil {
		t.Fatal(err)
	}
	choices, err := quant.Choose(f, m, quant.Options{})
	types := map[string]gguf.Type{}
	for _, c := range choices {
		types[c.Name] = c.To
	}
	return types, err
}

// Values have more bits where four heads or more share them: numbers may be of the model or a list by layer, and heads of
// keys that the file does not name are as many as those of queries.
func TestSharedKeysInMetadata(t *testing.T) {
	for _, r := range []struct {
		heads, keys any
		shared      bool
	}{
		{uint32(8), uint32(2), true}, {uint32(8), uint32(3), false}, {uint32(8), nil, false}, {uint32(8), uint32(0), false},
		{uint32(8), []uint32{2}, true}, {[]uint32{8, 1}, []uint32{2, 8}, true}, {[]uint32{8}, []uint32{8, 2}, false},
		{nil, nil, false}, {nil, uint32(2), false}, {uint32(3), uint32(1), false}, {uint32(4), uint32(1), true},
	} {
		kvs := map[string]any{"block_count": uint32(1)}
		if r.heads != nil {
			kvs["attention.head_count"] = r.heads
		}
		if r.keys != nil {
			kvs["attention.head_count_kv"] = r.keys
		}
		types, err := typesIn(t, outline(t, "llama", kvs, "blk.0.attn_v.weight"), "Q2_K")
		want := gguf.Q3_K
		if r.shared {
			want = gguf.Q4_K
		}
		if got := types["blk.0.attn_v.weight"]; got != want || err != nil {
			t.Errorf("%v heads, %v of keys: values as %v, %v; want %v", r.heads, r.keys, got, err, want)
		}
	}
}

// Experts may lie in any order, so their layer is the one in their name, which must be one of the model's.
func TestLayersOfExperts(t *testing.T) {
	kvs := map[string]any{"block_count": uint32(16), "expert_count": uint32(8)}
	for name, ok := range map[string]bool{
		"blk.0.ffn_down_exps.weight": true, "blk.15.ffn_down_exps.weight": true, "blk.16.ffn_down_exps.weight": false,
		"ffn_down_exps.weight": false, "blk.x.ffn_down_exps.weight": false, "blk.-1.ffn_down_exps.weight": false,
	} {
		types, err := typesIn(t, outline(t, "llama", kvs, name), "Q4_K_S")
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "no layer of 0 to 15 in its name") {
			t.Errorf("%s: %v, %v", name, types, err)
		}
	}
	for name, want := range map[string]int{
		"blk.0.x": 0, "blk.12.ffn_up.weight": 12, "blk.12": -1, "blk..x": -1, "blk.x.y": -1, "output.weight": -1, "12.x": -1, "": -1,
	} {
		if got := quant.LayerOf(name); got != want {
			t.Errorf("the layer of %q is %d, want %d", name, got, want)
		}
	}
}

// In MXFP4_MOE experts are MXFP4 and the rest is Q8_0. Of bailingmoe3, which has other tensors by experts, only those of the
// feed-forward networks are.
func TestExpertsOfMXFP4(t *testing.T) {
	names := []string{"blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight", "blk.0.attn_k_exps.weight"}
	for arch, other := range map[string]gguf.Type{"llama": gguf.MXFP4, "bailingmoe3": gguf.Q8_0} {
		types, err := typesIn(t, outline(t, arch, map[string]any{"block_count": uint32(1)}, names...), "MXFP4_MOE")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []gguf.Type{gguf.Q8_0, gguf.MXFP4, gguf.MXFP4, gguf.MXFP4, other} {
			if got := types[names[i]]; got != want {
				t.Errorf("%s: %s is %v, want %v", arch, names[i], got, want)
			}
		}
	}
}

// Vectors stay as they are, whatever their number of dimensions, and so do tables of positions and types, and biases.
func TestVectorsStay(t *testing.T) {
	w := gguf.NewWriter()
	w.Set("general.architecture", "llama")
	for name, dims := range map[string][]uint64{"a.weight": {256}, "b.weight": {256, 1}, "c.weight": {256, 1, 1, 1}, "d.weight": {1, 1}, "e.weight": {1}} {
		w.AddTensor(name, gguf.F32, dims, nil)
	}
	for _, name := range []string{"position_embd.weight", "token_types.weight", "c.bias", "blk.0.attn_norm.weight"} {
		w.AddTensor(name, gguf.F32, []uint64{256, 2}, nil)
	}
	for name, dims := range map[string][]uint64{"m.weight": {256, 2}, "n.weight": {256, 1, 2}} {
		w.AddTensor(name, gguf.F32, dims, nil)
	}
	f, err := w.Outline()
	if err != nil {
		t.Fatal(err)
	}
	types, err := typesIn(t, f, "Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range types {
		want := gguf.F32
		if name[0] == 'm' || name[0] == 'n' {
			want = gguf.Q8_0
		}
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A type for a flag is one that can be written.
func TestParseType(t *testing.T) {
	if got, err := quant.ParseType("q4_k"); got != gguf.Q4_K || err != nil {
		t.Errorf("q4_k is %v, %v", got, err)
	}
	for s, want := range map[string]string{"IQ4_K": "no encoder for tensor type IQ4_K", "I32": "no encoder for tensor type I32", "Q4": "unknown tensor type"} {
		if _, err := quant.ParseType(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}

// What can be read can be quantized again if it was asked for, also where it cannot be written.
func TestTypesToTakeFrom(t *testing.T) {
	for typ, want := range map[gguf.Type]string{
		gguf.F32: "", gguf.BF16: "", gguf.Q4_0: "is Q4_0 already", gguf.IQ4_K: "is IQ4_K already", gguf.I32: "no way to Q8_0 from I32", 202: "has interleaved rows",
	} {
		x := &gguf.Tensor{Name: "x.weight", Type: typ, Dims: []uint64{256, 8}}
		for _, again := range []bool{false, true} {
			j := &quant.Job{Choices: []quant.Choice{{Tensor: x, To: gguf.Q8_0}}, Requantize: again}
			err := j.Check()
			if want == "" || again && strings.Contains(want, "already") {
				if err != nil {
					t.Errorf("%v, again %v: %v", typ, again, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, again %v: %v, want %q", typ, again, err, want)
			}
		}
	}
}

// Where rows are no whole blocks, types are those that llama.cpp falls back to, trellis types as others of such sizes.
func TestFallback(t *testing.T) {
	for to, types := range map[gguf.Type][]gguf.Type{
		gguf.IQ4_NL: {gguf.IQ1_KT, gguf.IQ2_KT, gguf.IQ3_KT, gguf.IQ4_KT, gguf.IQ1_S, gguf.IQ1_M, gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_XS},
		gguf.Q4_0:   {gguf.Q2_K, gguf.Q3_K, gguf.TQ1_0, gguf.TQ2_0, gguf.Q4_0},
		gguf.Q5_0:   {gguf.Q4_K}, gguf.Q5_1: {gguf.Q5_K}, gguf.Q8_0: {gguf.Q6_K, gguf.Q8_0}, gguf.F32: {gguf.F32}, gguf.F16: {gguf.F16},
	} {
		for _, typ := range types {
			if got := quant.Fallback(typ, 512); got != typ {
				t.Errorf("%v is %v where it fits", typ, got)
			}
			if got := quant.Fallback(typ, 96); got != to {
				t.Errorf("%v is %v in rows of 96, want %v", typ, got, to)
			}
			want := gguf.F16
			if typ == gguf.F32 {
				want = typ
			}
			if got := quant.Fallback(typ, 40); got != want {
				t.Errorf("%v is %v in rows of 40, want %v", typ, got, want)
			}
		}
	}
}

// A mix has a name in any case, a short one, or the number that llama.cpp gives it.
func TestParseMix(t *testing.T) {
	for s, want := range map[string]string{
		"q4_k_m": "Q4_K_M", "Q4_K": "Q4_K_M", "q3_k": "Q3_K_M", "Q5_K": "Q5_K_M", "mxfp4": "MXFP4_MOE", "15": "Q4_K_M", "0": "F32", "41": "Q2_0", "iq1_s": "IQ1_S",
		"": "", "Q4": "", "-1": "", "42": "", "4294967311": "", "015x": "",
	} {
		got, err := quant.ParseMix(s)
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", s, got.Name, err, want)
		}
	}
}

// What is asked for a tensor by name or by role comes before what a mix says, and plain floats before names.
func TestOptions(t *testing.T) {
	f := outline(t, "llama", nil, "token_embd.weight", "per_layer_token_embd.weight", "output.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_gate_inp.weight")
	q5, q8 := gguf.Q5_K, gguf.Q8_0
	overrides := []quant.Override{{Pattern: regexp.MustCompile("attn_q|token"), Type: gguf.Q3_K}, {Pattern: regexp.MustCompile("attn"), Type: gguf.Q2_K}}
	for _, r := range []struct {
		mix  string
		o    quant.Options
		want string // in the order in which they are written
	}{
		{"Q4_K_S", quant.Options{}, "Q6_K Q4_K Q4_K Q4_K Q4_K F32"},
		{"Q4_K_S", quant.Options{LeaveOutput: true}, "F32 Q4_K Q4_K Q4_K Q4_K F32"},
		{"Q4_K_S", quant.Options{Pure: true}, "Q4_K Q4_K Q4_K Q4_K Q4_K F32"},
		{"Q4_K_S", quant.Options{Output: &q8, Embedding: &q5}, "Q8_0 Q5_K Q5_K Q4_K Q4_K F32"},
		{"Q4_K_S", quant.Options{Output: &q8, Embedding: &q5, Overrides: overrides}, "Q8_0 Q3_K Q5_K Q2_K Q3_K F32"},
		{"Q4_K_S", quant.Options{Pure: true, Overrides: overrides}, "Q4_K Q3_K Q3_K Q2_K Q3_K F32"},
		{"F16", quant.Options{Output: &q8, Overrides: overrides}, "Q8_0 F16 F16 F16 F16 F32"},
		{"Q5_0", quant.Options{}, "Q6_K Q5_0 Q5_0 Q5_0 Q5_0 F32"},
	} {
		mix, err := quant.ParseMix(r.mix)
		if err != nil {
			t.Fatal(err)
		}
		choices, err := quant.Choose(f, mix, r.o)
		if err != nil {
			t.Fatal(err)
		}
		var got, names []string
		for _, c := range choices {
			got, names = append(got, c.To.String()), append(names, c.Name)
		}
		if strings.Join(got, " ") != r.want {
			t.Errorf("%s, %+v: %v of %v, want %s", r.mix, r.o, got, names, r.want)
		}
	}
}

// Without importance, the mix of three bits gives more to values, to the first eighth of layers, and to the rest of what
// follows them.
func TestThreeBitsWithoutImportance(t *testing.T) {
	var names []string
	for i := range 17 {
		names = append(names, fmt.Sprintf("blk.%d.ffn_down.weight", i), fmt.Sprintf("blk.%d.attn_v.weight", i))
	}
	types, err := typesIn(t, outline(t, "llama", map[string]any{"block_count": uint32(17)}, names...), "IQ3_XXS")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 17 {
		want := gguf.Q3_K
		if i < 2 {
			want = gguf.Q4_K
		}
		if down, values := types[names[2*i]], types[names[2*i+1]]; down != want || values != gguf.IQ3_S {
			t.Errorf("layer %d: %v and %v, want %v and IQ3_S", i, down, values, want)
		}
	}
}

// In the mix between three bits and less, gates and what they gate have less in the layers between the eighths at both ends.
func TestMiddleLayers(t *testing.T) {
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprintf("blk.%d.ffn_gate.weight", i), fmt.Sprintf("blk.%d.ffn_up.weight", i))
	}
	types, err := typesIn(t, outline(t, "llama", map[string]any{"block_count": uint32(16)}, names...), "IQ3_XS")
	if err != nil {
		t.Fatal(err)
	}
	for k, name := range names {
		want := gguf.IQ3_XXS
		if i := k / 2; i < 2 || i >= 14 {
			want = gguf.IQ3_S
		}
		if types[name] != want {
			t.Errorf("%s is %v, want %v", name, types[name], want)
		}
	}
}

// Without experts layers count as they come, whatever their names; an empty list of numbers says nothing.
func TestLayersAsTheyCome(t *testing.T) {
	kvs := map[string]any{"block_count": uint32(16), "attention.head_count": []uint32{}}
	types, err := typesIn(t, outline(t, "llama", kvs, "blk.7.ffn_down.weight", "blk.8.ffn_down.weight", "blk.99.ffn_down.weight"), "Q4_K_S")
	if want := map[string]gguf.Type{"blk.7.ffn_down.weight": gguf.Q5_K, "blk.8.ffn_down.weight": gguf.Q5_K, "blk.99.ffn_down.weight": gguf.Q4_K}; err != nil || !maps.Equal(types, want) {
		t.Errorf("%v, %v, want %v", types, err, want)
	}
}

// A large model whose file does not name heads of keys has as many as of queries, so that no few values are for many queries.
func TestHeadsThatAreNotNamed(t *testing.T) {
	kvs := map[string]any{"block_count": uint32(80), "attention.head_count": uint32(8)}
	names := []string{"blk.0.attn_v.weight", "blk.1.attn_v.weight", "blk.2.attn_v.weight"}
	for keys, want := range map[uint32]gguf.Type{0: gguf.Q4_K, 8: gguf.Q4_K, 1: gguf.Q5_K} {
		if keys > 0 {
			kvs["attention.head_count_kv"] = keys
		}
		types, err := typesIn(t, outline(t, "llama", kvs, names...), "Q3_K_M")
		delete(kvs, "attention.head_count_kv")
		if got := types[names[2]]; got != want || err != nil {
			t.Errorf("%d heads of keys: %v, %v, want %v", keys, got, err, want)
		}
	}
}

// Of a projector, matrices of whole blocks are quantized; patches, positions and vectors stay, and rows that are not whole
// blocks become F16.
func TestProjectors(t *testing.T) {
	w := gguf.NewWriter()
	w.Set("general.architecture", "clip")
	want := map[string]gguf.Type{}
	add := func(name string, from, to gguf.Type, dims ...uint64) {
		w.AddTensor(name, from, dims, nil)
		want[name] = to
	}
	add("v.blk.0.ffn_up.weight", gguf.F16, gguf.Q8_0, 1152, 4304)
	add("v.blk.0.ffn_down.weight", gguf.F16, gguf.F16, 4304, 1152)
	add("v.blk.0.ffn_up.bias", gguf.F32, gguf.F32, 4304)
	add("v.blk.0.attn_out.weight", gguf.F32, gguf.Q8_0, 1152, 1152)
	add("v.patch_embd.weight", gguf.F16, gguf.F16, 14, 14, 3, 1152)
	add("v.patch_embd.weight.1", gguf.F32, gguf.F32, 14, 14, 3, 1152)
	add("v.position_embd.weight", gguf.F32, gguf.F32, 1152, 4096)
	add("mm.patch_merger.weight", gguf.F16, gguf.F16, 2, 2, 1152, 1152)
	add("mm.input_projection.weight", gguf.F16, gguf.Q8_0, 2560, 1152)
	add("a.conv1d.1.weight", gguf.F16, gguf.F16, 3, 128, 1280)
	add("a.position_embd.weight", gguf.F32, gguf.F32, 1280, 1500)
	f, err := w.Outline()
	if err != nil {
		t.Fatal(err)
	}
	mix, err := quant.ParseMix("Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	choices, err := quant.Choose(f, mix, quant.Options{})
	if err != nil || len(choices) != len(want) {
		t.Fatalf("%d choices, %v", len(choices), err)
	}
	for _, c := range choices {
		if c.To != want[c.Name] {
			t.Errorf("%s becomes %s, want %s", c.Name, c.To, want[c.Name])
		}
	}
}
