package gguf

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestAccessors(t *testing.T) {
	f, err := Parse(write(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(key string) (any, error){
		"Uint":   func(k string) (any, error) { return f.Uint(k) },
		"Int":    func(k string) (any, error) { return f.Int(k) },
		"Float":  func(k string) (any, error) { return f.Float(k) },
		"Bool":   func(k string) (any, error) { return f.Bool(k) },
		"Str":    func(k string) (any, error) { return f.Str(k) },
		"Strs":   func(k string) (any, error) { return f.Strs(k) },
		"Bools":  func(k string) (any, error) { return f.Bools(k) },
		"Floats": func(k string) (any, error) { return f.Floats(k) },
		"Ints":   func(k string) (any, error) { return f.Ints(k) },
	}
	for _, r := range []struct {
		call, key string
		want      any    // the value, or
		wantErr   string // in the error
	}{
		{"Uint", "u8", uint64(255), ""},
		{"Uint", "u16", uint64(65535), ""},
		{"Uint", "u32", uint64(math.MaxUint32), ""},
		{"Uint", "u64", uint64(math.MaxUint64), ""},
		{"Uint", "i8", nil, `key "i8": malformed GGUF: -128, want 0 or more`},
		{"Uint", "i64", nil, "-9223372036854775808, want 0 or more"},
		{"Uint", "str", nil, `key "str": malformed GGUF: string, want an integer`},
		{"Uint", "f32", nil, "float32, want an integer"},
		{"Uint", "[]u32", nil, "array of 2 uint32, want an integer"},
		{"Int", "u8", int64(255), ""},
		{"Int", "i8", int64(-128), ""},
		{"Int", "i16", int64(-32768), ""},
		{"Int", "i32", int64(math.MinInt32), ""},
		{"Int", "u32", int64(math.MaxUint32), ""},
		{"Int", "i64", int64(math.MinInt64), ""},
		{"Int", "u64", nil, "18446744073709551615, want at most 9223372036854775807"},
		{"Int", "true", nil, "bool, want an integer"},
		{"Float", "f32", float64(float32(math.Pi)), ""},
		{"Float", "f64", math.Inf(-1), ""},
		{"Float", "u32", nil, "uint32, want a float"},
		{"Bool", "true", true, ""},
		{"Bool", "false", false, ""},
		{"Bool", "u8", nil, "uint8, want a bool"},
		{"Str", "str", "héllo\x00\xff\n", ""},
		{"Str", "[]str", nil, "array of 5 string, want a string"},
		{"Strs", "[]str", []string{"", "a", "", "bcd", "é"}, ""},
		{"Strs", "[][]", nil, "array of 4 array, want an array of strings"},
		{"Bools", "[]bool", []bool{true, false, true}, ""},
		{"Bools", "true", nil, "bool, want an array of bools"},
		{"Floats", "[]f32", []float32{1.5, float32(math.Inf(1))}, ""},
		{"Floats", "[]f64", nil, "array of 1 float64, want an array of float32"},
		{"Ints", "[]u8", []int64{0, 255}, ""},
		{"Ints", "[]i8", []int64{-128, 127}, ""},
		{"Ints", "[]u16", []int64{1, 65535}, ""},
		{"Ints", "[]i16", []int64{-32768, 3}, ""},
		{"Ints", "[]u32", []int64{1, 1 << 31}, ""},
		{"Ints", "[]i32", []int64{-5, 6}, ""},
		{"Ints", "[]i64", []int64{math.MinInt64, 9}, ""},
		{"Ints", "none u32", []int64{}, ""},
		{"Ints", "[]u64", nil, "element 0 is 9223372036854775808"},
		{"Ints", "[]f32", nil, "want an array of integers"},
	} {
		got, err := calls[r.call](r.key)
		if r.wantErr != "" {
			if err == nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), r.wantErr) {
				t.Errorf("%s(%q): error %v, want %q", r.call, r.key, err, r.wantErr)
			}
		} else if err != nil || !reflect.DeepEqual(got, r.want) {
			t.Errorf("%s(%q) = %#v, %v; want %#v", r.call, r.key, got, err, r.want)
		}
	}
	for name, call := range calls {
		if _, err := call("other"); !errors.Is(err, ErrMissing) || errors.Is(err, ErrFormat) {
			t.Errorf("%s of a missing key: %v", name, err)
		}
	}
}

// A value may be given in place of the file's, but not where the directory of tensors depends on it.
func TestSet(t *testing.T) {
	w := NewWriter()
	w.Set("a", "first")
	f, err := Parse(write(t, w))
	if err != nil {
		t.Fatal(err)
	}
	before := f.KVs
	for _, key := range []string{"a", "b"} {
		if err := f.Set(key, "given"); err != nil {
			t.Errorf("Set(%q): %v", key, err)
		}
		if got, err := f.Str(key); got != "given" || err != nil {
			t.Errorf("%s is %q, %v", key, got, err)
		}
	}
	if before[0].Value != "first" || len(f.KVs) != 2 {
		t.Errorf("the list that was read is %v, the new one %v", before, f.KVs)
	}
	for _, key := range []string{"general.alignment", "general.architecture", "split.count", ""} {
		if err := f.Set(key, uint32(64)); err == nil {
			t.Errorf("Set(%q) is allowed", key)
		}
	}
}

// The least and the largest of each width are read as they are, and what is below zero is refused where that has no meaning.
func TestIntegersOfAnyWidth(t *testing.T) {
	for _, r := range []struct {
		v        any
		want     int64
		unsigned bool
	}{
		{uint8(0), 0, true}, {uint16(0), 0, true}, {uint32(0), 0, true}, {uint64(0), 0, true}, {int8(0), 0, true}, {int16(0), 0, true}, {int32(0), 0, true}, {int64(0), 0, true},
		{int8(-1), -1, false}, {int16(-1), -1, false}, {int32(-1), -1, false}, {int64(-1), -1, false}, {int8(127), 127, true}, {int16(1), 1, true}, {int32(1), 1, true},
		{int64(math.MaxInt64), math.MaxInt64, true}, {uint64(math.MaxInt64), math.MaxInt64, true},
	} {
		w := NewWriter()
		w.Set("x", r.v)
		f, err := Parse(write(t, w))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Int("x"); got != r.want || err != nil {
			t.Errorf("%T %v: %d, %v", r.v, r.v, got, err)
		}
		if got, err := f.Uint("x"); (err == nil) != r.unsigned || r.unsigned && got != uint64(r.want) {
			t.Errorf("%T %v without a sign: %d, %v", r.v, r.v, got, err)
		}
	}
	w := NewWriter()
	w.Set("x", []uint64{0, math.MaxInt64})
	f, err := Parse(write(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Ints("x"); !reflect.DeepEqual(got, []int64{0, math.MaxInt64}) || err != nil {
		t.Errorf("a list: %v, %v", got, err)
	}
}

// Wherever the head of a file ends early, the error is that it does.
func TestHeadsCutShort(t *testing.T) {
	w := NewWriter()
	w.Set("a", "text")
	w.Set("b", []string{"x", "yz"})
	w.AddTensor("t", F32, []uint64{1, 1}, Bytes(make([]byte, 4)))
	whole := write(t, w)
	f, err := Parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int(f.DataOffset) - 31 {
		_, err := Parse(whole[:n])
		if !errors.Is(err, ErrFormat) || !regexp.MustCompile("truncated| left|holds at most").MatchString(err.Error()) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
}
