package gguf

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// A Type says how a tensor's elements are stored. The numbers are ggml's, and those above 130 ik_llama.cpp's.
type Type uint32

// The types that ggml stores in files. Elements are grouped in blocks within a
// row; see BlockElems and BlockBytes.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42

	IQ2_K   Type = 137
	IQ3_K   Type = 138
	IQ4_K   Type = 139
	IQ5_K   Type = 140
	IQ6_K   Type = 141
	IQ4_KS  Type = 144
	IQ2_KS  Type = 145
	IQ4_KSS Type = 146
	IQ5_KS  Type = 152
	IQ2_KT  Type = 153
	IQ3_KT  Type = 154
	IQ4_KT  Type = 155
	IQ3_KS  Type = 156
	IQ2_KL  Type = 157
	IQ1_KT  Type = 158
)

// Panels is Quern's own: bytes of a matrix as its kernels read it, without elements of their own. Other programs know no
// such type, and refuse the file.
const Panels Type = 255

// types is indexed by Type; a row without elements is a number not in use. The
// sums show what a block is made of: scales first, then the elements' bits.
var types = [...]struct {
	name         string
	elems, bytes int // in a block
}{
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	Q4_0:    {"Q4_0", 32, 2 + 16},
	Q4_1:    {"Q4_1", 32, 2 + 2 + 16},
	Q5_0:    {"Q5_0", 32, 2 + 4 + 16},
	Q5_1:    {"Q5_1", 32, 2 + 2 + 4 + 16},
	Q8_0:    {"Q8_0", 32, 2 + 32},
	Q8_1:    {"Q8_1", 32, 2 + 2 + 32},
	Q2_K:    {"Q2_K", 256, 2 + 2 + 16 + 64},
	Q3_K:    {"Q3_K", 256, 2 + 12 + 32 + 64},
	Q4_K:    {"Q4_K", 256, 2 + 2 + 12 + 128},
	Q5_K:    {"Q5_K", 256, 2 + 2 + 12 + 32 + 128},
	Q6_K:    {"Q6_K", 256, 2 + 16 + 64 + 128},
	Q8_K:    {"Q8_K", 256, 4 + 2*16 + 256},
	IQ2_XXS: {"IQ2_XXS", 256, 2 + 64},
	IQ2_XS:  {"IQ2_XS", 256, 2 + 8 + 64},
	IQ3_XXS: {"IQ3_XXS", 256, 2 + 96},
	IQ1_S:   {"IQ1_S", 256, 2 + 32 + 16},
	IQ4_NL:  {"IQ4_NL", 32, 2 + 16},
	IQ3_S:   {"IQ3_S", 256, 2 + 4 + 8 + 32 + 64},
	IQ2_S:   {"IQ2_S", 256, 2 + 8 + 8 + 64},
	IQ4_XS:  {"IQ4_XS", 256, 2 + 2 + 4 + 128},
	I8:      {"I8", 1, 1},
	I16:     {"I16", 1, 2},
	I32:     {"I32", 1, 4},
	I64:     {"I64", 1, 8},
	F64:     {"F64", 1, 8},
	IQ1_M:   {"IQ1_M", 256, 8 + 16 + 32},
	BF16:    {"BF16", 1, 2},
	TQ1_0:   {"TQ1_0", 256, 2 + 4 + 48},
	TQ2_0:   {"TQ2_0", 256, 2 + 64},
	MXFP4:   {"MXFP4", 32, 1 + 16},
	NVFP4:   {"NVFP4", 64, 4 + 32},
	Q1_0:    {"Q1_0", 128, 2 + 16},
	Q2_0:    {"Q2_0", 64, 2 + 16},
	IQ2_K:   {"IQ2_K", 256, 2 + 2 + 8 + 64},
	IQ3_K:   {"IQ3_K", 256, 2 + 2 + 2 + 8 + 32 + 64},
	IQ4_K:   {"IQ4_K", 256, 2 + 2 + 4 + 8 + 128},
	IQ5_K:   {"IQ5_K", 256, 2 + 2 + 4 + 8 + 32 + 128},
	IQ6_K:   {"IQ6_K", 256, 2 + 2 + 16 + 64 + 128},
	IQ4_KS:  {"IQ4_KS", 256, 8 + 128},
	IQ2_KS:  {"IQ2_KS", 256, 2 + 4 + 64},
	IQ4_KSS: {"IQ4_KSS", 256, 128},
	IQ5_KS:  {"IQ5_KS", 256, 8 + 32 + 128},
	IQ3_KS:  {"IQ3_KS", 256, 2 + 4 + 32 + 64},
	IQ2_KL:  {"IQ2_KL", 256, 2 + 4 + 16 + 64},
	IQ1_KT:  {"IQ1_KT", 256, 8 + 32 + 16},
	IQ2_KT:  {"IQ2_KT", 256, 4 + 64},
	IQ3_KT:  {"IQ3_KT", 256, 4 + 64 + 32},
	IQ4_KT:  {"IQ4_KT", 256, 32 + 64 + 32},
}

// rowHeads has the bytes of the types whose rows begin with a scale.
var rowHeads = map[Type]int{
	IQ4_KS: 4, IQ4_KSS: 4, IQ5_KS: 4, IQ2_KS: 2, IQ3_KS: 2, IQ2_KL: 2, IQ1_KT: 4, IQ2_KT: 4, IQ3_KT: 4, IQ4_KT: 4,
}

// interleaved has ik_llama.cpp's types of rows that lie together by fours or eights, as its kernels read them. Their
// bytes are those of the rows by themselves in another order.
var interleaved = map[Type]struct {
	name string
	of   Type
	rows int
}{
	202: {"Q4_0_R8", Q4_0, 8}, 206: {"Q5_0_R4", Q5_0, 4}, 208: {"Q8_0_R8", Q8_0, 8}, 210: {"Q2_K_R4", Q2_K, 4},
	211: {"Q3_K_R4", Q3_K, 4}, 212: {"Q4_K_R4", Q4_K, 4}, 213: {"Q5_K_R4", Q5_K, 4}, 214: {"Q6_K_R4", Q6_K, 4},
	220: {"IQ4_NL_R4", IQ4_NL, 4}, 223: {"IQ4_XS_R8", IQ4_XS, 8}, 337: {"IQ2_K_R4", IQ2_K, 4},
	338: {"IQ3_K_R4", IQ3_K, 4}, 339: {"IQ4_K_R4", IQ4_K, 4}, 340: {"IQ5_K_R4", IQ5_K, 4},
	344: {"IQ4_KS_R4", IQ4_KS, 4}, 352: {"IQ5_KS_R4", IQ5_KS, 4}, 353: {"MXFP4_R8", MXFP4, 8},
}

// retired maps numbers that older files use to a type to convert them to. The
// interleaved ones were layouts for one CPU each, now made at load.
var retired = map[Type]struct {
	name string
	use  Type
}{
	4:  {"Q4_2", Q4_0},
	5:  {"Q4_3", Q4_1},
	31: {"Q4_0_4_4", Q4_0},
	32: {"Q4_0_4_8", Q4_0},
	33: {"Q4_0_8_8", Q4_0},
	36: {"IQ4_NL_4_4", IQ4_NL},
	37: {"IQ4_NL_4_8", IQ4_NL},
	38: {"IQ4_NL_8_8", IQ4_NL},
}

// foreign maps ik_llama.cpp's numbers of other types to their names, and for those with interleaved rows to what they
// are otherwise.
var foreign = map[Type]struct {
	name string
	of   Type
}{
	133: {"Q6_0", 0}, 134: {"IQ1_BN", 0}, 135: {"IQ2_BN", 0}, 151: {"Q8_KV", 0},
	216: {"IQ2_XXS_R4", IQ2_XXS}, 217: {"IQ2_XS_R4", IQ2_XS}, 218: {"IQ3_XXS_R4", IQ3_XXS}, 219: {"IQ1_S_R4", IQ1_S}, 221: {"IQ3_S_R4", IQ3_S}, 222: {"IQ2_S_R4", IQ2_S},
	229: {"IQ1_M_R4", IQ1_M}, 230: {"BF16_R16", BF16}, 233: {"Q6_0_R4", 0}, 335: {"IQ2_BN_R4", 0},
	397: {"Q8_K_R16", 0}, 398: {"Q8_KV_R8", 0}, 399: {"Q8_K_R8", 0},
}

// Types returns every known type, by number, without those that are another one with interleaved rows.
func Types() []Type {
	var known []Type
	for t := range Type(len(types)) {
		if t.Known() {
			known = append(known, t)
		}
	}
	return known
}

// ParseType returns the type called s, such as "Q4_K", in any case.
func ParseType(s string) (Type, error) {
	for _, t := range Types() {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %s, want one of %s", quote(s), typeList())
}

// Known reports whether t is a type whose size this package knows.
func (t Type) Known() bool { return t.BlockElems() != 0 }

// Apart returns the type of rows by themselves, and how many of them a file interleaves: for most types t and 1.
func (t Type) Apart() (of Type, rows int) {
	if x, ok := interleaved[t]; ok {
		return x.of, x.rows
	}
	return t, 1
}

// String returns ggml's name in capitals, such as "Q4_K".
func (t Type) String() string {
	if t == Panels {
		return "PANELS"
	}
	if x, ok := interleaved[t]; ok {
		return x.name
	}
	if t.Known() {
		return types[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// BlockElems returns how many elements of a row a block holds, 0 for a type
// that is not Known.
func (t Type) BlockElems() int {
	if t == Panels {
		return 1
	}
	if t, _ = t.Apart(); int64(t) < int64(len(types)) {
		return types[t].elems
	}
	return 0
}

// BlockBytes returns the size of a block, 0 for a type that is not Known.
func (t Type) BlockBytes() int {
	if t == Panels {
		return 1
	}
	if t, _ = t.Apart(); int64(t) < int64(len(types)) {
		return types[t].bytes
	}
	return 0
}

// RowHead returns the bytes that a row has before its blocks, 0 for most types.
func (t Type) RowHead() int {
	t, _ = t.Apart()
	return rowHeads[t]
}

// Size returns the bytes that a tensor of this type and shape takes, or an
// error that wraps ErrFormat when there can be no such tensor. The size and
// the number of elements both fit in an int64.
func (t Type) Size(dims []uint64) (uint64, error) {
	if !t.Known() {
		if old, ok := retired[t]; ok {
			return 0, malformed("type %d (%s) is no longer in use, convert the file to %s", uint32(t), old.name, old.use)
		}
		if f, ok := foreign[t]; ok && f.of != 0 {
			return 0, malformed("type %d (%s) is %s with interleaved rows, which is not supported: want the file with %s", uint32(t), f.name, f.of, f.of)
		} else if ok {
			return 0, malformed("type %d (%s) is not supported, supported are %s", uint32(t), f.name, typeList())
		}
		return 0, malformed("type %d is unknown, supported are %s", uint32(t), typeList())
	}
	if len(dims) == 0 || len(dims) > MaxDims {
		return 0, malformed("%d dimensions, want 1 to %d", len(dims), MaxDims)
	}
	elems := uint64(1)
	for _, d := range dims {
		if d == 0 {
			return 0, malformed("shape %v has a dimension of 0", dims)
		}
		hi, lo := bits.Mul64(elems, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, malformed("shape %v has too many elements", dims)
		}
		elems = lo
	}
	block := uint64(t.BlockElems())
	if dims[0]%block != 0 {
		return 0, malformed("rows of %d elements, %s needs a multiple of %d", dims[0], t, block)
	}
	if of, n := t.Apart(); n > 1 && (len(dims) < 2 || dims[1]%uint64(n) != 0) {
		return 0, malformed("shape %v, %s is %s with rows interleaved by %d and needs a multiple of so many", dims, t, of, n)
	}
	hi, size := bits.Mul64(elems/block, uint64(t.BlockBytes()))
	if hi != 0 || size > math.MaxInt64 {
		return 0, malformed("shape %v of %s has too many bytes", dims, t)
	}
	size += elems / dims[0] * uint64(t.RowHead()) // less than the blocks of the rows, so below 2^64
	if size > math.MaxInt64 {
		return 0, malformed("shape %v of %s has too many bytes", dims, t)
	}
	return size, nil
}

// typeList names all types, for errors.
func typeList() string {
	var names []string
	for _, t := range Types() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}
