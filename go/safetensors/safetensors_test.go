package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file returns a file of a header and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func TestHeader(t *testing.T) {
	b := file(`{"__metadata__": {"format": "pt"}, "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]}, "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "none": {"dtype": "I64", "shape": [0], "data_offsets": [4, 4]}}  `, 28)
	h, err := readHeader(bytes.NewReader(b), int64(len(b)), "x")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range h.tensors {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"a", "none", "b"}) || h.meta["format"] != "pt" {
		t.Errorf("got %q, %v", names, h.meta)
	}
	x := h.tensors[2]
	p := make([]byte, 4)
	if n, err := x.ReadAt(p, 4); n != 4 || err != nil || !bytes.Equal(p, []byte{8, 9, 10, 11}) {
		t.Errorf("read %v, %v", p, err)
	}
	if _, err := x.ReadAt(p, 21); err == nil {
		t.Error("read beyond the end")
	}
	if x.Elems() != 6 {
		t.Errorf("%d elements", x.Elems())
	}
}

func TestHeaderRefused(t *testing.T) {
	entry := func(s string) []byte { return file(`{"a": `+s+`}`, 8) }
	huge := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "header"},
		{"short", []byte{1, 2, 3}, "header"},
		{"a header of 2^64 - 1 bytes", huge, "header"},
		{"a header beyond the file", append(binary.LittleEndian.AppendUint64(nil, 9), "{}"...), "header"},
		{"no JSON", file("{", 0), "JSON"},
		{"a list", file("[]", 0), "JSON"},
		{"an entry twice", file(`{"a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}, "a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}`, 1), "JSON"},
		{"metadata of numbers", file(`{"__metadata__": {"x": 3}}`, 0), "__metadata__"},
		{"no entry", entry("null"), "type"},
		{"an unknown type", entry(`{"dtype": "F7", "shape": [], "data_offsets": [0, 1]}`), "F7"},
		{"offsets backwards", entry(`{"dtype": "U8", "shape": [1], "data_offsets": [2, 1]}`), "data_offsets"},
		{"offsets beyond", entry(`{"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}`), "data_offsets"},
		{"one offset", entry(`{"dtype": "U8", "shape": [9], "data_offsets": [0]}`), "data_offsets"},
		{"negative offsets", entry(`{"dtype": "U8", "shape": [1], "data_offsets": [-1, 0]}`), ""},
		{"a shape that overflows", entry(`{"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 4]}`), "elements"},
		{"another size", entry(`{"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}`), "8 bytes"},
		{"many dimensions", entry(`{"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 1]}`), "dimensions"},
		{"overlap", file(`{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [4], "data_offsets": [3, 7]}}`, 8), "overlap"},
	} {
		_, err := readHeader(bytes.NewReader(c.b), int64(len(c.b)), "x")
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

const one = `{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}`
const other = `{"b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}`

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // in the error; empty: none
	}{
		{"whole", map[string]string{"model.safetensors": string(file(one, 1))}, ""},
		{"shards without an index", map[string]string{"model-00001-of-00001.safetensors": string(file(one, 1))}, ""},
		{"shards", map[string]string{indexName: `{"weight_map": {"a": "model-1.safetensors"}}`, "model-1.safetensors": string(file(one, 1))}, ""},
		{"a shard is missing", map[string]string{indexName: `{"weight_map": {"a": "model-1.safetensors"}}`}, "model-1.safetensors is not there"},
		{"a tensor is missing", map[string]string{indexName: `{"weight_map": {"a": "m", "b": "m"}}`, "m": string(file(one, 1))}, `"b" is missing`},
		{"a tensor elsewhere", map[string]string{indexName: `{"weight_map": {"b": "m"}}`, "m": string(file(one, 1))}, "not where"},
		{"outside", map[string]string{indexName: `{"weight_map": {"a": "../secret"}}`}, "same folder"},
		{"absolute", map[string]string{indexName: `{"weight_map": {"a": "/etc/passwd"}}`}, "same folder"},
		{"itself", map[string]string{indexName: `{"weight_map": {"a": ".."}}`}, "same folder"},
		{"an index of nothing", map[string]string{indexName: `{}`}, "weight_map"},
		{"a broken index", map[string]string{indexName: `{"weight_map": 3}`}, indexName},
		{"one machine's and all others'", map[string]string{"m-1-TP-common.safetensors": string(file(`{}`, 0)), "m-2-TP-000.safetensors": string(file(one, 1)), "m-2-TP-001.safetensors": string(file(one, 1))}, ""},
		{"no first machine", map[string]string{"m-2-TP-001.safetensors": string(file(one, 1))}, "part 1, and 0 are"},
		{"a machine is missing", map[string]string{"m-2-TP-000.safetensors": string(file(one, 1)), "m-2-TP-002.safetensors": string(file(one, 1))}, "part 2, and 1 are"},
		{"a last machine is missing", map[string]string{"m-1-TP-000.safetensors": string(file(one, 1)), "m-2-TP-000.safetensors": string(file(other, 1)), "m-2-TP-001.safetensors": string(file(other, 1))}, "others are in 2"},
		{"of all machines and of one", map[string]string{"m-1-TP-000.safetensors": string(file(one, 1)), "m-1-TP-common.safetensors": string(file(one, 1))}, "another file too"},
		{"parts that differ", map[string]string{"m-1-TP-000.safetensors": string(file(one, 1)), "m-1-TP-001.safetensors": string(file(strings.Replace(one, "[1]", "[1, 1]", 1), 1))}, "want the same"},
		{"pickles", map[string]string{"pytorch_model.bin": "x"}, "pytorch_model.bin"},
		{"nothing", nil, "no model.safetensors"},
		{"a broken file", map[string]string{"model.safetensors": "x"}, "model.safetensors: malformed"},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		x, err := Open(dir)
		switch {
		case c.want == "" && err == nil:
			if !slices.Equal(x.Names(), []string{"a"}) || x.Tensor("a") == nil || x.Tensor("b") != nil || !Has(dir) {
				t.Errorf("%s: %q", c.name, x.Names())
			}
		case err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err == nil {
			x.Close()
		}
	}
}

// TestTwins finds tensors that share their memory with one of another name.
func TestTwins(t *testing.T) {
	dir := t.TempDir()
	b := file(`{"__metadata__": {"format": "pt", "embed": "a"}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}`, 1)
	if err := os.WriteFile(filepath.Join(dir, wholeName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !slices.Equal(c.Names(), []string{"a", "embed"}) {
		t.Errorf("got %q", c.Names())
	}
}

func TestFloats(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		b     []byte
		want  []float32
	}{
		{F32, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, []float32{1, -2}},
		{F64, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, []float32{1}},
		{BF16, []byte{0x80, 0x3f, 0x40, 0xc0}, []float32{1, -3}},
		{F16, []byte{0, 0x3c, 0, 0xc2, 1, 0, 0xff, 0x7b, 0, 0x80, 0, 0x7c}, []float32{1, -3, 1. / (1 << 24), 65504, 0, float32(math.Inf(1))}},
		{F8E4M3, []byte{0x38, 0xc0, 1, 0x7e, 0x08}, []float32{1, -2, 1. / 512, 448, 1. / 64}},
		{F8E5M2, []byte{0x3c, 0xc0, 0x7b}, []float32{1, -2, 57344}},
		{F8E8M0, []byte{127, 128, 126}, []float32{1, 2, 0.5}},
		{I32, []byte{0xff, 0xff, 0xff, 0xff}, []float32{-1}},
		{I64, []byte{7, 0, 0, 0, 0, 0, 0, 0}, []float32{7}},
	} {
		x := &Tensor{Name: "x", DType: c.dtype, size: uint64(len(c.b)), from: bytes.NewReader(c.b)}
		got := make([]float32, len(c.want))
		if err := x.Floats(got, 0); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.dtype, got, err, c.want)
		}
		got = got[:1]
		if err := x.Floats(got, uint64(len(c.want)-1)); err != nil || got[0] != c.want[len(c.want)-1] {
			t.Errorf("%s: the last is %v, %v", c.dtype, got, err)
		}
		if err := x.Floats(got, uint64(len(c.want))); err == nil {
			t.Errorf("%s: read beyond the end", c.dtype)
		}
	}
	x := &Tensor{Name: "x", DType: "BOOL", size: 1, from: bytes.NewReader([]byte{1})}
	if err := x.Floats(make([]float32, 1), 0); err == nil || !strings.Contains(err.Error(), "BOOL") {
		t.Errorf("got %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(file(one, 1))
	f.Add(file(`{"__metadata__": {"x": "a"}, "b": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}, "a": {"dtype": "F32", "shape": [], "data_offsets": [8, 12]}}`, 12))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b), int64(len(b)), "x")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		for _, x := range h.tensors {
			if _, err := x.ReadAt(make([]byte, x.size), 0); err != nil {
				t.Errorf("%s cannot be read: %v", x.Name, err)
			}
		}
	})
}

// FuzzIndex opens a folder with two shards by an index that is anything: it has each tensor that the index names, or the error is a
// line that names a file.
func FuzzIndex(f *testing.F) {
	const one, two = `{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`, `{"__metadata__": {"c": "b"}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`
	dir := f.TempDir()
	for name, head := range map[string]string{"1.safetensors": one, "2.safetensors": two} {
		if err := os.WriteFile(filepath.Join(dir, name), file(head, 4), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Add([]byte(`{"metadata": {"total_size": 8}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "../1.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "` + indexName + `"}}`))
	f.Add([]byte(`{"weight_map": []}`))
	f.Fuzz(func(t *testing.T, index []byte) {
		if err := os.WriteFile(filepath.Join(dir, indexName), index, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), dir) {
				t.Errorf("%q is no line that names a file", err)
			}
			return
		}
		defer c.Close()
		for name, x := range c.tensors {
			if _, err := x.ReadAt(make([]byte, 4), 0); err != nil || !slices.Contains([]string{"a", "b", "c"}, name) {
				t.Errorf("tensor %q: %v", name, err)
			}
		}
	})
}
