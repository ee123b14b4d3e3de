package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// Commands that write models and have no room for them end with one line that names the file, and leave nothing behind. What limits the
// size of files is met where a full disk is: in the middle of writing.
func TestNoRoom(t *testing.T) {
	dir, parts := t.TempDir(), t.TempDir()
	succeed(t, "split", demo.Name, filepath.Join(parts, "part"), "--split-max-tensors", "20")
	model := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	out := filepath.Join(dir, "out.gguf")
	for _, args := range [][]string{
		{"convert", testdata.Path(t, "models/src/TinyStories-656K"), "-o", out},
		{"quantize", model, out, "Q8_0"},
		{"merge-lora", model, testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf"), "-o", out},
		{"split", model, filepath.Join(dir, "out"), "--split-max-size", "2M"},
		{"join", filepath.Join(parts, names(t, parts)[0]), out},
		{"pack", model, out},
		{"export-demo", out},
	} {
		r := invocation{args: args, limits: "ulimit -f 200"}.run(t) // some 100 KB
		if r.code != 1 || !strings.HasPrefix(r.stderr, "quern: ") || !strings.Contains(r.stderr, dir+"/out") || !strings.Contains(r.stderr, "file too large; free some room") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", args[0], r.code, r.stderr)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Fatalf("%s: %v are left", args[0], left)
		}
	}
}

// A checkpoint of 600 MB, of which hardly anything is on the disk, is converted with less memory than it has, to other types too, and what
// comes of it is quantized so.
func TestConvertTakesLittleMemory(t *testing.T) {
	t.Parallel()
	src, dir, work := testdata.Path(t, "models/src/TinyStories-656K"), t.TempDir(), t.TempDir()
	for _, name := range []string{"generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"} {
		if err := os.Symlink(filepath.Join(src, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const narrow, wide = 384, 400384
	write("config.json", []byte(strings.Replace(string(read("config.json")), `"intermediate_size": 384`, `"intermediate_size": 400384`, 1)))
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []uint64 `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	raw := read("model.safetensors")
	header, end := map[string]any{}, uint64(0)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+binary.LittleEndian.Uint64(raw)], &all); err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		var e entry
		if err := json.Unmarshal(text, &e); err != nil || e.Shape == nil {
			header[name] = text // which tensors share their numbers
			continue
		}
		n := uint64(2)
		for i, d := range e.Shape {
			if d == narrow && strings.Contains(name, "mlp.") {
				e.Shape[i] = wide
			}
			n *= e.Shape[i]
		}
		e.DType, e.Offsets = "BF16", []uint64{end, end + n}
		header[name], end = e, end+n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	write("model.safetensors", append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), int64(8+uint64(len(text))+end)); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(work, "plain.gguf")
	for _, args := range [][]string{
		{"convert", dir, "-o", plain, "-t", "2"},
		{"convert", dir, "-o", filepath.Join(work, "mixed.gguf"), "--outtype", "Q4_0", "-t", "2"},
		{"quantize", plain, filepath.Join(work, "small.gguf"), "Q4_0", "2"},
	} {
		r := invocation{args: args, limits: "ulimit -d 393216"}.run(t)
		if r.code != 0 {
			t.Errorf("%s: exit code %d, %.300q", args, r.code, r.stderr)
		}
	}
	if n := bytesOf(t, plain); n < int64(end) {
		t.Errorf("%d bytes, want %d at least", n, end)
	}
}
