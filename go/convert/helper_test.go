package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// A checkpoint is the folder of a model made for a test: its config.json, and its tensors as testdata/README.md
// describes.
type checkpoint struct {
	config  string
	tensors string
	differ  []string       // see testdata/README.md
	beyond  *regexp.Regexp // or nil
}

// write writes the folder, with a tokenizer of a few tokens.
func (c checkpoint) write(tb testing.TB, dir string) {
	tb.Helper()
	save(tb, dir, "config.json", c.config)
	save(tb, dir, "tokenizer.json", smallTokenizer(512))
	save(tb, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ messages }}"}`)
	header, data := map[string]any{}, []byte{}
	for _, t := range c.list(tb) {
		n := 1
		for _, d := range t.shape {
			n *= d
		}
		begin := len(data)
		switch t.dtype {
		case "U8":
			for i := range n {
				data = append(data, byte(i*37+len(t.name)))
			}
		default:
			for i := range n {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(valueOf(t.name, i)))
			}
		}
		header[t.name] = map[string]any{"dtype": t.dtype, "shape": t.shape, "data_offsets": []int{begin, len(data)}}
	}
	save(tb, dir, "model.safetensors", string(safetensorsOf(tb, header, data)))
}

// safetensorsOf returns a file of a header and data.
func safetensorsOf(tb testing.TB, header map[string]any, data []byte) []byte {
	tb.Helper()
	text, err := json.Marshal(header)
	if err != nil {
		tb.Fatal(err)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(b, text...), data...)
}

// valueOf returns a number for element i of a tensor.
func valueOf(name string, i int) float32 {
	h := uint32(2166136261)
	for _, c := range []byte(name) {
		h = (h ^ uint32(c)) * 16777619
	}
	h ^= uint32(i) * 2654435761
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return float32(h%4096)/2048 - 1
}

type madeTensor struct {
	name  string
	shape []int
	dtype string
}

func (c checkpoint) list(tb testing.TB) []madeTensor {
	tb.Helper()
	var all []madeTensor
	for line := range strings.Lines(c.tensors) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		layers := []int{-1}
		if of, rest, ok := strings.Cut(line, ": "); ok {
			layers, line = numbers(tb, of), rest
		}
		words := strings.Fields(line)
		t := madeTensor{dtype: "F32"}
		for _, w := range words[1:] {
			if n, err := strconv.Atoi(w); err == nil {
				t.shape = append(t.shape, n)
			} else if t.dtype = w; w != "U8" {
				tb.Fatalf("%q: the type %s, want U8 or none", line, w)
			}
		}
		if t.shape == nil {
			t.shape = []int{}
		}
		for _, il := range layers {
			name := strings.ReplaceAll(words[0], "#", strconv.Itoa(il))
			if before, after, ok := strings.Cut(name, "*"); ok {
				for x := range 8 {
					all = append(all, madeTensor{before + strconv.Itoa(x) + after, t.shape, t.dtype})
				}
				continue
			}
			all = append(all, madeTensor{name, t.shape, t.dtype})
		}
	}
	return all
}

// numbers reads a list such as 0-3,5.
func numbers(tb testing.TB, s string) (all []int) {
	tb.Helper()
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			tb.Fatalf("%q are no numbers", s)
		}
		for i := a; i <= b; i++ {
			all = append(all, i)
		}
	}
	return all
}

// smallTokenizer returns byte-level BPE of at most n tokens.
func smallTokenizer(n int) string {
	vocab := map[string]int{}
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			continue
		}
		vocab[string(r)] = len(vocab) + 2
	}
	for i := 0; len(vocab) < 256; i++ {
		vocab[string(rune(256+i))] = len(vocab) + 2
	}
	vocab["th"], vocab["the"] = 258, 259
	file := map[string]any{
		"added_tokens": []any{
			map[string]any{"id": 0, "content": "<s>", "special": true},
			map[string]any{"id": 1, "content": "</s>", "special": true},
			map[string]any{"id": 260, "content": "<think>", "special": false},
		},
		"normalizer": map[string]any{"type": "NFC"},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": map[string]any{"Regex": `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{"t h", []any{"th", "e"}}, "ignore_merges": false},
	}
	text, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func save(tb testing.TB, dir, name, text string) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// converted opens and converts a folder.
func converted(tb testing.TB, dir string, o Options) (*gguf.File, error) {
	tb.Helper()
	m, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return written(tb, &m.output), nil
}

func written(tb testing.TB, o *output) *gguf.File {
	tb.Helper()
	var b bytes.Buffer
	o.threads = 2
	if _, err := o.Write(context.Background(), &b); err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// floatsOf returns the numbers of a tensor in F32.
func floatsOf(tb testing.TB, f *gguf.File, name string) []float32 {
	tb.Helper()
	t, ok := f.Tensor(name)
	if !ok {
		tb.Fatalf("no %s", name)
	}
	if t.Type != gguf.F32 {
		tb.Fatalf("%s is %v", name, t.Type)
	}
	all := make([]float32, len(t.Data)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return all
}

// shapes returns a line for each tensor: its name, type and dimensions.
func shapes(f *gguf.File) []string {
	var all []string
	for _, t := range f.Tensors {
		all = append(all, fmt.Sprintf("%s %v %v", t.Name, t.Type, t.Dims))
	}
	slices.Sort(all)
	return all
}
