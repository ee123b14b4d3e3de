package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A quantizedCase is a checkpoint of testdata/quantized.json. scripts/golden_quantized.py writes it, and says what its fields
// are.
type quantizedCase struct {
	Name    string
	Config  json.RawMessage
	Tensors [][]any
	Hashes  map[string]string
	Types   string
	Sampled [][]float64
}

// quantizedCases returns the prompt and the cases.
func quantizedCases(tb testing.TB) ([]int32, []quantizedCase) {
	tb.Helper()
	var archive struct {
		Prompt []int32
		Cases  []quantizedCase
	}
	if err := json.Unmarshal(must(os.ReadFile("testdata/quantized.json")), &archive); err != nil {
		tb.Fatal(err)
	}
	if len(archive.Cases) == 0 {
		tb.Fatal("no cases")
	}
	return archive.Prompt, archive.Cases
}

// inLayer returns a name with the beginning that all names of a layer have.
func inLayer(name string) string { return strings.Replace(name, "@", "model.layers.0.", 1) }

// write writes the checkpoint.
func (c quantizedCase) write(tb testing.TB, dir string) {
	tb.Helper()
	header, data := map[string]any{}, []byte{}
	for _, t := range c.Tensors {
		name, shape, begin := inLayer(t[0].(string)), []int{}, len(data)
		for _, d := range t[2].([]any) {
			shape = append(shape, int(d.(float64)))
		}
		data = append(data, madeBytes(tb, name, t[1].(string), shape, t[3].(string), t[4:])...)
		header[name] = map[string]any{"dtype": t[1], "shape": shape, "data_offsets": []int{begin, len(data)}}
	}
	save(tb, dir, "config.json", string(c.Config))
	save(tb, dir, "tokenizer.json", anyTokenizer(272))
	save(tb, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
	save(tb, dir, "model.safetensors", string(safetensorsOf(tb, header, data)))
}

// madeBytes returns a tensor as made() of golden_quantized.py does.
func madeBytes(tb testing.TB, name, dtype string, shape []int, how string, args []any) (data []byte) {
	tb.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	number := func(i int) float64 { return args[i].(float64) }
	hash := hashOf(name)
	if how == "text" {
		return []byte(args[0].(string))
	}
	for i := range n {
		var x float64
		w := mixed(hash, i)
		switch how {
		case "noise":
			x = number(1) + float64(number(0)*noise(hash, i))
		case "words":
			x = float64(w)
		case "span":
			x = number(0) + float64(w>>8%uint32(number(1)))
		case "fill":
			x = number(0)
		case "third":
			w >>= 8
			x = float64(w%3 | w/3%3<<2 | w/9%3<<4 | w/27%3<<6)
		case "list":
			x = number(i)
		case "group":
			x = float64(int(number(1)) * i % n / int(number(0)))
		default:
			tb.Fatalf("%s: no way %q to make a tensor", name, how)
		}
		switch dtype {
		case "F32":
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
		case "F16", "BF16":
			typ, b := must(gguf.ParseType(dtype)), make([]byte, 2)
			if err := quant.Encode(typ, b, []float32{float32(x)}, 1, nil); err != nil {
				tb.Fatal(err)
			}
			data = append(data, b...)
		case "I32":
			data = binary.LittleEndian.AppendUint32(data, uint32(int64(x)))
		case "I64":
			data = binary.LittleEndian.AppendUint64(data, uint64(int64(x)))
		default:
			data = append(data, byte(int64(x)))
		}
	}
	return data
}

// TestQuantized reads small checkpoints of each method. Their matrices have the numbers, to the bit, that the method's own
// library computes; the whole model computes what transformers does with these; and the types that are chosen without being
// asked for have the numbers exactly, or as near as F16.
func TestQuantized(t *testing.T) {
	prompt, cases := quantizedCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.write(t, dir)
			m, err := Open(dir, Options{Type: "f32", Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for name, want := range c.Hashes {
				v := must(m.of(inLayer(name)))
				numbers, b := make([]float32, v.Elems()), []byte{}
				for at := uint64(0); at < v.Elems(); at += 1001 { // pieces that begin and end anywhere
					if err := v.Read(numbers[at:min(at+1001, v.Elems())], at); err != nil {
						t.Fatal(err)
					}
				}
				for _, x := range numbers {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
				if sum := sha256.Sum256(b); hex.EncodeToString(sum[:6]) != want {
					t.Errorf("%s has other numbers: %v", name, numbers[:8])
				}
			}
			var b bytes.Buffer
			if _, err := m.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			worst, rows := 0.0, logitsOf(t, b.Bytes(), prompt, nil)
			for i, want := range c.Sampled {
				for k, id := range sampledAt(prompt, i, len(want), len(rows[i])) {
					worst = max(worst, math.Abs(logprob(rows[i], id)-want[k]))
				}
			}
			if !(worst <= nearTransformers) {
				t.Errorf("a log-probability is %.2g from that of transformers", worst)
			}
			c.compareTypes(t, dir, must(gguf.Parse(b.Bytes())))
		})
	}
}

// compareTypes compares the types of matrices in layers with those that are expected, and their numbers with those of a file
// in F32.
func (c quantizedCase) compareTypes(t *testing.T, dir string, floats *gguf.File) {
	auto, err := Open(dir, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer auto.Close()
	f, types := written(t, &auto.output), strings.Fields(c.Types)
	for _, x := range f.Tensors {
		if len(x.Dims) < 2 || !strings.HasPrefix(x.Name, "blk.") || strings.Contains(x.Name, "gate_inp") {
			continue
		}
		want := types[0]
		if strings.Contains(x.Name, "ffn_") {
			want = types[len(types)-1]
		}
		if x.Type.String() != want {
			t.Errorf("%s is %v, want %s", x.Name, x.Type, want)
			continue
		}
		exact := floatsOf(t, floats, x.Name)
		most := 0.0
		if _, ok := f.Tensor(strings.TrimSuffix(x.Name, ".weight") + ".scale"); ok {
			most = 1.0 / (1 << 23) // products of F32
			for i, scale := range floatsOf(t, f, strings.TrimSuffix(x.Name, ".weight")+".scale") {
				for k, n := 0, int(x.Dims[0]*x.Dims[1]); k < n; k++ {
					exact[i*n+k] /= scale
				}
			}
		}
		l, err := distanceOf(x, exact)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(auto.Loss(), want+" without loss") {
			most = 1.0 / (1 << 11)
		}
		if l > most {
			t.Errorf("%s as %v is %.2g from its numbers; %s", x.Name, x.Type, l, auto.Loss())
		}
	}
	if c.Types != "F32" && !strings.Contains(auto.Loss(), types[0]) {
		t.Errorf("the loss is said as %q", auto.Loss())
	}
}

// distanceOf returns the relative error of a tensor.
func distanceOf(x gguf.Tensor, exact []float32) (float64, error) {
	squares, errors, err := measure(x.Type, exact, x.Data, int(x.Dims[0]))
	return math.Sqrt(errors / squares), err
}

// TestQuantizedMinimums asks for Q4_1, which holds integers of 4 bits with zeros but for the rounding of minimums.
func TestQuantizedMinimums(t *testing.T) {
	dir := t.TempDir()
	caseOf(t, "awq").write(t, dir)
	exact, err := converted(t, dir, Options{Type: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := converted(t, dir, Options{Type: "Q4_1"})
	if err != nil {
		t.Fatal(err)
	}
	x, ok := f.Tensor("blk.0.attn_q.weight")
	if !ok || x.Type != gguf.Q4_1 {
		t.Fatalf("got %v", x)
	}
	if l, err := distanceOf(*x, floatsOf(t, exact, x.Name)); err != nil || l == 0 || l > 1.0/(1<<11) {
		t.Errorf("a relative error of %.2g, %v", l, err)
	}
}

// TestQuantizedScales computes with matrices in NVFP4 and the factors beside them, one for each and one for each expert, what
// transformers does of their numbers, but for the rounding of what is multiplied by them.
func TestQuantizedScales(t *testing.T) {
	prompt, _ := quantizedCases(t)
	for _, name := range []string{"compressed-tensors NVFP4", "compressed-tensors NVFP4, experts"} {
		dir, c := t.TempDir(), caseOf(t, name)
		c.write(t, dir)
		m, err := Open(dir, Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var b bytes.Buffer
		if _, err := m.Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(m.Loss(), "as NVFP4 without loss") {
			t.Errorf("%s: the loss is said as %q", name, m.Loss())
		}
		sum, n, rows := 0.0, 0, logitsOf(t, b.Bytes(), prompt, nil)
		for i, want := range c.Sampled {
			for k, id := range sampledAt(prompt, i, len(want), len(rows[i])) {
				sum, n = sum+math.Abs(logprob(rows[i], id)-want[k]), n+1
			}
		}
		if mean := sum / float64(n); !(mean < 0.2) { // 0.06; with a factor that is wrong by 30 % it is 0.6
			t.Errorf("%s: log-probabilities are %.2g from those of transformers", name, mean)
		}
	}
}
