package gguf

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// raw builds files by hand, right or wrong, without the encoder under test.
type raw []byte

// fields appends numbers as they are, and strings with a 64-bit length.
func (r raw) fields(fields ...any) raw {
	for _, v := range fields {
		if s, ok := v.(string); ok {
			r = append(binary.LittleEndian.AppendUint64(r, uint64(len(s))), s...)
			continue
		}
		var err error
		if r, err = binary.Append(r, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return r
}

func (r raw) zeros(n int) raw { return append(r, make([]byte, n)...) }

// pad brings the length to a multiple of n.
func (r raw) pad(n int) raw { return r.zeros((n - len(r)%n) % n) }

func header(version uint32, nTensors, nKVs uint64) raw {
	return raw("GGUF").fields(version, nTensors, nKVs)
}

// u is an index or a count in a file.
func u(n int) uint64 { return uint64(n) }

// alignedTo is a file of tensors a and b with the given alignment, at 0 and
// second.
func alignedTo(align any, kind uint32, second uint64) raw {
	return header(3, 2, 1).fields("general.alignment", kind, align).
		fields("a", uint32(1), u(4), uint32(F32), u(0)).
		fields("b", uint32(1), u(4), uint32(F32), second).
		pad(4096).zeros(8192)
}

// one is a file of one F32 tensor in a shape, with n bytes of data.
func one(typ, nDims uint32, dims []uint64, offset uint64, n int) raw {
	return header(3, 1, 0).fields("w", nDims, dims, typ, offset).pad(32).zeros(n)
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("n", MaxNameBytes+1)
	deep := header(3, 0, 1).fields("k", kindArray)
	for range MaxDepth {
		deep = deep.fields(kindArray, u(1))
	}
	deep = deep.fields(kindUint8, u(1), uint8(1))
	halves := header(3, 0, 2)
	for _, key := range []string{"j", "k"} { // each more than half of what a file may have
		halves = halves.fields(key, kindArray, kindArray, u(MaxArrays/2+1)).zeros(12 * (MaxArrays/2 + 1))
	}
	two := func(nameA, nameB string, offB uint64) raw {
		return header(3, 2, 0).
			fields(nameA, uint32(1), u(16), uint32(F32), u(0)).
			fields(nameB, uint32(1), u(16), uint32(F32), offB).pad(32).zeros(256)
	}
	for _, r := range []struct {
		name string
		data raw
		want string // in the error
	}{
		{"nothing", nil, "truncated"},
		{"magic cut", raw("GGU"), "truncated"},
		{"magic", raw("ggjt").zeros(40), `begins with "ggjt"`},
		{"magic swapped", raw("FUGG").zeros(40), "big-endian"},
		{"version cut", raw("GGUF\x03\x00"), "truncated"},
		{"version 0", header(0, 0, 0), "version 0"},
		{"version 1", header(1, 0, 0), "version 1"},
		{"version 4", header(4, 0, 0), "version 4"},
		{"version swapped", header(3<<24, 0, 0), "big-endian"},
		{"header cut", header(3, 0, 0)[:23], "truncated"},
		{"tensor count absurd", header(3, 1<<63, 0).zeros(100), "9223372036854775808 tensors"},
		{"tensor count beyond the bytes", header(3, 5, 0).zeros(100), "at most 4"},
		{"tensor count beyond the bytes by one", header(3, 1000, 0).zeros(1000*25 - 1), "at most 999"},
		{"KV count beyond the bytes by one", header(3, 0, 1000).zeros(1000*14 - 1), "at most 999"},
		{"tensor count beyond the limit", header(3, MaxTensors+1, 0).zeros(MaxTensors * 26), "at most 262144"},
		{"KV count absurd", header(3, 0, math.MaxUint64).zeros(100), "metadata entries"},
		{"KV count beyond the bytes", header(3, 0, 8).zeros(100), "at most 7"},
		{"KV count beyond the limit", header(3, 0, MaxKVs+1).zeros(MaxKVs * 15), "at most 65536"},

		{"key cut", header(3, 0, 1).fields(u(20)).zeros(14), "metadata entry 0 of 1"},
		{"key length absurd", header(3, 0, 1).fields(uint64(math.MaxUint64)).zeros(14), "string of 18446744073709551615 bytes"},
		{"key empty", header(3, 0, 1).fields("").zeros(14), "empty key"},
		{"key too long", header(3, 0, 1).fields(strings.Repeat("k", MaxKeyBytes+1), kindUint8, uint8(0)), "the most is 65535"},
		{"key twice", header(3, 0, 2).fields("k", kindUint8, uint8(1), "k", kindUint8, uint8(1)), `"k": malformed GGUF: comes twice`},
		{"value type", header(3, 0, 1).fields("k", uint32(13), u(0)), "value type 13"},
		{"value type absurd", header(3, 0, 1).fields("k", uint32(math.MaxUint32), u(0)), "value type 4294967295"},
		{"value cut", header(3, 0, 1).fields("k", kindUint64, uint32(1)), `key "k"`},
		{"string beyond the file", header(3, 0, 1).fields("k", kindString, u(9), uint64(0)), "string of 9 bytes, 8 left"},
		{"string length absurd", header(3, 0, 1).fields("k", kindString, uint64(1<<63), u(0)), "string of"},
		{"bool", header(3, 0, 1).fields("k", kindBool, uint8(2)), "bool is 2"},
		{"bool in an array", header(3, 0, 1).fields("k", kindArray, kindBool, u(3), uint8(1), uint8(0), uint8(255)), "bool 2 of 3 is 255"},
		{"array type", header(3, 0, 1).fields("k", kindArray, uint32(99), u(0)), "array element type 99"},
		{"array cut", header(3, 0, 1).fields("k", kindArray, kindUint8), "truncated"},
		{"array of numbers too long", header(3, 0, 1).fields("k", kindArray, kindUint32, u(3), u(0)), "array of 3 uint32"},
		{"array length overflows", header(3, 0, 1).fields("k", kindArray, kindUint64, uint64(1<<61+1), u(0)), "array of 2305843009213693953 uint64"},
		{"array of strings too long", header(3, 0, 1).fields("k", kindArray, kindString, u(2), ""), "at most 1"},
		{"array of strings cut", header(3, 0, 1).fields("k", kindArray, kindString, u(2), "a", u(9)), "string 1 of 2"},
		{"array of arrays too long", header(3, 0, 1).fields("k", kindArray, kindArray, u(2), kindUint8, u(0)), "at most 1"},
		{"arrays too many", header(3, 0, 1).fields("k", kindArray, kindArray, u(MaxArrays+1)).zeros(12 * (MaxArrays + 1)), "1048576 arrays"},
		{"arrays too many in two values", halves, "1048576 arrays"},
		{"arrays too deep", deep, "deeper than 4"},

		{"alignment 0", alignedTo(uint32(0), 4, 32), `"general.alignment"`},
		{"alignment 4", alignedTo(uint32(4), 4, 32), "power of two from 8"},
		{"alignment 24", alignedTo(uint32(24), 4, 48), "power of two from 8"},
		{"alignment above a huge page", alignedTo(uint32(1<<22), 4, 1<<22), "4194304"},
		{"alignment absurd", alignedTo(uint32(1<<31), 4, 32), "2147483648"},
		{"alignment of another type", alignedTo(u(64), 10, 64), "uint64, want uint32"},

		{"tensor name cut", header(3, 1, 0).fields(u(40)).zeros(30), "tensor 0 of 1"},
		{"tensor name empty", header(3, 1, 0).fields("").zeros(40), "empty name"},
		{"tensor name too long", header(3, 1, 0).fields(long).zeros(40), "of 1025 bytes"},
		{"tensor entry cut", header(3, 1, 0).fields("w", uint32(1), u(4), uint32(F32), uint32(0)), `tensor "w": malformed GGUF: truncated`},
		{"tensor name twice", two("a", "a", 64), `"a": malformed GGUF: comes twice`},
		{"5 dimensions", one(0, 5, []uint64{1, 1, 1, 1, 1}, 0, 64), "5 dimensions"},
		{"dimensions absurd", one(0, math.MaxUint32, nil, 0, 64), "4294967295 dimensions"},
		{"dimension 0", one(0, 2, []uint64{4, 0}, 0, 64), "[4 0]"},
		{"elements overflow", one(0, 2, []uint64{1 << 33, 1 << 33}, 0, 64), "too many elements"},
		{"bytes overflow", one(uint32(F64), 1, []uint64{1 << 62}, 0, 64), "too many bytes"},
		{"row is not whole blocks", one(uint32(Q4_0), 2, []uint64{172, 64}, 0, 8192), "rows of 172 elements, Q4_0 needs a multiple of 32"},
		{"unknown type", one(99, 1, []uint64{4}, 0, 64), "type 99 is unknown, supported are F32 F16"},
		{"type no longer in use", one(31, 1, []uint64{32}, 0, 64), "type 31 (Q4_0_4_4) is no longer in use, convert the file to Q4_0"},
		{"offset misaligned", one(0, 1, []uint64{4}, 8, 64), "offset 8 is not a multiple of the alignment, 32"},
		{"offset misaligned for a larger alignment", alignedTo(uint32(64), 4, 32), "alignment, 64"},
		{"offset outside", one(0, 1, []uint64{4}, 64, 64), "truncated"},
		{"offset absurd", one(0, 1, []uint64{4}, math.MaxUint64&^31, 64), "truncated"},
		{"offset and size overflow", one(uint32(I8), 1, []uint64{math.MaxInt64}, 1<<63, 64), "truncated"},
		{"data one byte short", one(0, 1, []uint64{4}, 0, 15), "16 bytes wanted at 0 of the tensor data, which is 15"},
		{"no data section", header(3, 1, 0).fields("w", uint32(1), u(4), uint32(F32), u(0)), "which is 0 bytes"},
		{"overlap", two("a", "b", 32), `tensor "b": malformed GGUF: its data overlaps that of "a"`},
		{"same place", two("a", "b", 0), "overlaps"},
	} {
		t.Run(r.name, func(t *testing.T) {
			f, err := Parse(r.data)
			if f != nil || err == nil {
				t.Fatalf("error %v, returned a file: %v; want an error alone", err, f != nil)
			}
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v: does not wrap ErrFormat", err)
			}
			if !strings.Contains(err.Error(), r.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("error %q, want one line with %q", err, r.want)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	for _, r := range []struct {
		name string
		data raw
		dims []uint64 // of tensor w, if any
		from uint64   // its offset in the file
	}{
		{"empty", header(3, 0, 0), nil, 0},
		{"version 2", header(2, 0, 1).fields("k", kindUint8, uint8(1)), nil, 0},
		{"no tensors, bytes after", header(3, 0, 0).zeros(7), nil, 0},
		{"scalar", one(0, 0, nil, 0, 4), []uint64{1}, 64},
		{"no padding after the last", one(0, 1, []uint64{3}, 0, 12), []uint64{3}, 64},
		{"four dimensions", one(uint32(Q8_0), 4, []uint64{32, 2, 1, 3}, 0, 6*34), []uint64{32, 2, 1, 3}, 96},
		{"gap before", one(0, 1, []uint64{4}, 96, 112), []uint64{4}, 160},
	} {
		t.Run(r.name, func(t *testing.T) {
			f, err := Parse(r.data)
			if err != nil {
				t.Fatal(err)
			}
			w, ok := f.Tensor("w")
			if ok != (r.dims != nil) {
				t.Fatalf("tensor w there: %v", ok)
			}
			if !ok {
				return
			}
			if !slices.Equal(w.Dims, r.dims) || w.Offset != r.from {
				t.Errorf("dims %v at %d, want %v at %d", w.Dims, w.Offset, r.dims, r.from)
			}
			if size, _ := w.Type.Size(w.Dims); uint64(len(w.Data)) != size || cap(w.Data) != len(w.Data) {
				t.Errorf("%d bytes of data, capacity %d, want %d", len(w.Data), cap(w.Data), size)
			}
			if &w.Data[0] != &r.data[w.Offset] {
				t.Error("data is not a view at Offset")
			}
		})
	}
	if f, err := Parse(alignedTo(uint32(4096), 4, 4096)); err != nil || f.Alignment != 4096 || f.DataOffset != 4096 {
		t.Errorf("alignment of 4096: %+v, %v", f, err)
	}
}

// Every cut of a good file is refused, or leaves only the last padding out.
func TestParseCut(t *testing.T) {
	whole := write(t, sample())
	for n := range whole {
		f, err := Parse(whole[:n])
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatalf("%d of %d bytes: %v does not wrap ErrFormat", n, len(whole), err)
		}
		if last := whole[n:]; err == nil && (len(last) >= 32 || len(f.Tensors) != 3) {
			t.Fatalf("%d of %d bytes were accepted", n, len(whole))
		}
	}
}

// The largest alignment is a huge page.
func TestLargestAlignment(t *testing.T) {
	const page = 1 << 21
	data := header(3, 1, 1).fields("general.alignment", uint32(4), uint32(page)).
		fields("a", uint32(1), u(4), uint32(F32), u(0)).pad(page).zeros(16)
	if f, err := Parse(data); err != nil || f.Alignment != page || f.Tensors[0].Offset != page {
		t.Errorf("%v", err)
	}
}
