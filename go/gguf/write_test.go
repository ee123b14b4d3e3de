package gguf

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

// everyKind has a value of every type that metadata can have.
func everyKind() []KV {
	return []KV{
		{"u8", uint8(math.MaxUint8)}, {"i8", int8(math.MinInt8)},
		{"u16", uint16(math.MaxUint16)}, {"i16", int16(math.MinInt16)},
		{"u32", uint32(math.MaxUint32)}, {"i32", int32(math.MinInt32)},
		{"u64", uint64(math.MaxUint64)}, {"i64", int64(math.MinInt64)},
		{"f32", float32(math.Pi)}, {"f64", math.Inf(-1)},
		{"true", true}, {"false", false},
		{"str", "héllo\x00\xff\n"}, {"empty", ""},
		{"[]u8", []uint8{0, 255}}, {"[]i8", []int8{-128, 127}},
		{"[]u16", []uint16{1, 65535}}, {"[]i16", []int16{-32768, 3}},
		{"[]u32", []uint32{1, 1 << 31}}, {"[]i32", []int32{-5, 6}},
		{"[]u64", []uint64{1 << 63}}, {"[]i64", []int64{math.MinInt64, 9}},
		{"[]f32", []float32{1.5, float32(math.Inf(1))}}, {"[]f64", []float64{-0.5}},
		{"[]bool", []bool{true, false, true}}, {"[]str", []string{"", "a", "", "bcd", "é"}},
		{"none u32", []uint32{}}, {"none str", []string{}}, {"none bool", []bool{}}, {"none", []any{}},
		{"[][]", []any{[]int32{1, 2}, []string{"x", ""}, []bool{}, []any{[]uint8{7}, []any{}}}},
	}
}

// sample writes every kind of value and three tensors.
func sample() *Writer {
	w := NewWriter()
	for _, kv := range everyKind() {
		w.Set(kv.Key, kv.Value)
	}
	w.AddTensor("a", F32, []uint64{3}, Bytes([]byte("abcdefghijkl")))
	w.AddTensor("b.weight", Q4_0, []uint64{64, 2}, Bytes(bytes.Repeat([]byte("b"), 4*18)))
	w.AddTensor("c", I8, []uint64{1, 1, 1, 5}, Bytes([]byte("ccccc")))
	return w
}

func write(tb testing.TB, w *Writer) []byte {
	tb.Helper()
	var b bytes.Buffer
	n, err := w.WriteTo(&b)
	if err != nil {
		tb.Fatal(err)
	}
	if n != int64(b.Len()) {
		tb.Fatalf("WriteTo returned %d, wrote %d", n, b.Len())
	}
	return b.Bytes()
}

// rewrite writes a parsed file again.
func rewrite(tb testing.TB, f *File) []byte {
	tb.Helper()
	w := NewWriter()
	for _, kv := range f.KVs {
		w.Set(kv.Key, kv.Value)
	}
	for _, t := range f.Tensors {
		w.AddTensor(t.Name, t.Type, t.Dims, Bytes(t.Data))
	}
	return write(tb, w)
}

func TestRoundTrip(t *testing.T) {
	data := write(t, sample())
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != 3 || f.Alignment != 32 {
		t.Errorf("version %d, alignment %d", f.Version, f.Alignment)
	}
	if want := everyKind(); !reflect.DeepEqual(f.KVs, want) {
		t.Errorf("KVs are\n%#v, want\n%#v", f.KVs, want)
	}
	for _, kv := range everyKind() {
		if v, ok := f.Value(kv.Key); !ok || !reflect.DeepEqual(v, kv.Value) {
			t.Errorf("Value(%q) = %#v, %v; want %#v", kv.Key, v, ok, kv.Value)
		}
	}
	if _, ok := f.Value("other"); ok {
		t.Error("a key that was not set is there")
	}
	want := []struct {
		name  string
		elems uint64
		data  string
	}{{"a", 3, "abcdefghijkl"}, {"b.weight", 128, strings.Repeat("b", 72)}, {"c", 5, "ccccc"}}
	for i, r := range want {
		x, ok := f.Tensor(r.name)
		if !ok || x != &f.Tensors[i] || x.Elems() != r.elems || string(x.Data) != r.data || x.Shard != 0 {
			t.Errorf("tensor %q is %+v", r.name, x)
		}
		if x.Offset%32 != 0 || string(data[x.Offset:][:len(x.Data)]) != r.data {
			t.Errorf("tensor %q: offset %d", r.name, x.Offset)
		}
	}
	if again := rewrite(t, f); !bytes.Equal(again, data) {
		t.Error("writing what was read gives other bytes")
	}
}

// The bytes, spelled out: the format rather than our reading of it.
func TestWriteBytes(t *testing.T) {
	w := NewWriter()
	w.Set("general.alignment", uint32(8))
	w.Set("s", "gone")
	w.Set("a", []any{[]uint16{1}})
	w.Set("s", "hi") // replaces, in the first place
	w.AddTensor("w", F16, []uint64{3, 1}, Bytes([]byte("abcdef")))
	w.AddTensor("x", I8, []uint64{1}, Bytes([]byte("x")))
	want := header(3, 2, 3).
		fields("general.alignment", uint32(4), uint32(8)).
		fields("s", uint32(8), "hi").
		fields("a", uint32(9), uint32(9), u(1), uint32(2), u(1), uint16(1)).
		fields("w", uint32(2), u(3), u(1), uint32(1), u(0)).
		fields("x", uint32(1), u(1), uint32(24), u(8)).pad(8)
	want = append(want, "abcdef\x00\x00x\x00\x00\x00\x00\x00\x00\x00"...)
	if got := write(t, w); !bytes.Equal(got, want) {
		t.Errorf("wrote\n%q, want\n%q", got, []byte(want))
	}
}

func TestWriterRefuses(t *testing.T) {
	data := Bytes([]byte("abcd"))
	errDisk := errors.New("disk full")
	tooDeep := any([]uint8{1})
	for range MaxDepth {
		tooDeep = []any{tooDeep}
	}
	for _, r := range []struct {
		name string
		fill func(w *Writer)
		want string
	}{
		{"key empty", func(w *Writer) { w.Set("", true) }, "empty key"},
		{"int", func(w *Writer) { w.Set("k", 5) }, `key "k": malformed GGUF: a value of type int`},
		{"nil", func(w *Writer) { w.Set("k", nil) }, "<nil>"},
		{"scalar in an array of arrays", func(w *Writer) { w.Set("k", []any{true}) }, "bool in an array of arrays"},
		{"arrays too deep", func(w *Writer) { w.Set("k", tooDeep) }, "deeper than 4"},
		{"arrays too many", func(w *Writer) { w.Set("k", make([]any, MaxArrays+1)) }, "1048576 arrays"},
		{"arrays too many in two values", func(w *Writer) {
			half := make([]any, MaxArrays/2+1)
			for i := range half {
				half[i] = []bool{}
			}
			w.Set("j", half)
			w.Set("k", half)
		}, `"k": malformed GGUF: more than 1048576 arrays`},
		{"alignment", func(w *Writer) { w.Set("general.alignment", uint32(48)) }, "48, want a power of two"},
		{"alignment of another type", func(w *Writer) { w.Set("general.alignment", int32(64)) }, "int32, want uint32"},
		{"name empty", func(w *Writer) { w.AddTensor("", F32, []uint64{1}, data) }, "empty name"},
		{"name twice", func(w *Writer) {
			w.AddTensor("w", F32, []uint64{1}, data)
			w.AddTensor("w", F32, []uint64{1}, data)
		}, "comes twice"},
		{"rows", func(w *Writer) { w.AddTensor("w", Q4_K, []uint64{128, 2}, data) }, "multiple of 256"},
		{"file too large", func(w *Writer) {
			w.AddTensor("v", I8, []uint64{math.MaxInt64 / 2}, data)
			w.AddTensor("w", I8, []uint64{math.MaxInt64/2 + 1}, data)
		}, `"w": malformed GGUF: the file would be too large`},
		{"too little data", func(w *Writer) { w.AddTensor("w", F32, []uint64{2}, data) }, "4 bytes written of 8"},
		{"too much data", func(w *Writer) { w.AddTensor("w", F16, []uint64{1}, data) }, "more bytes written"},
		{"too much data, error dropped", func(w *Writer) {
			w.AddTensor("w", F32, []uint64{1}, func(o io.Writer) error {
				data(o)
				data(o)
				return nil
			})
		}, "more bytes written"},
		{"data fails", func(w *Writer) {
			w.AddTensor("w", F32, []uint64{1}, func(io.Writer) error { return errDisk })
		}, `tensor "w": disk full`},
		{"the first error stays", func(w *Writer) {
			w.Set("", true)
			w.Set("general.alignment", uint32(3))
		}, "empty key"},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := NewWriter()
			r.fill(w)
			_, err := w.WriteTo(io.Discard)
			if err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("error %v, want %q", err, r.want)
			}
		})
	}
}

// An outline is the file without data: its directory, and its errors.
func TestOutline(t *testing.T) {
	want, err := Parse(write(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := sample().Outline()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.KVs, want.KVs) || got.Version != want.Version || got.Alignment != want.Alignment {
		t.Errorf("outline has version %d, alignment %d, metadata %v", got.Version, got.Alignment, got.KVs)
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("outline has %d tensors", len(got.Tensors))
	}
	for _, x := range want.Tensors {
		o, ok := got.Tensor(x.Name)
		if !ok || o.Name != x.Name || o.Type != x.Type || !reflect.DeepEqual(o.Dims, x.Dims) || o.Data != nil {
			t.Errorf("tensor %q is %+v", x.Name, o)
		}
	}
	w := NewWriter()
	w.Set("k", 5)
	if _, err := w.Outline(); err == nil || !strings.Contains(err.Error(), "a value of type int") {
		t.Errorf("the outline of a file that cannot be: %v", err)
	}
}

// A limitedWriter fails after n bytes.
type limitedWriter struct{ n int }

var errFull = errors.New("full")

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.n {
		n := l.n
		l.n = 0
		return n, errFull
	}
	l.n -= len(p)
	return len(p), nil
}

// An output that fails is reported wherever it happens, with the bytes written.
func TestWriterOutputFails(t *testing.T) {
	whole := len(write(t, sample()))
	for n := range whole {
		if got, err := sample().WriteTo(&limitedWriter{n}); !errors.Is(err, errFull) || got != int64(n) {
			t.Fatalf("output of %d bytes: WriteTo = %d, %v", n, got, err)
		}
	}
}
