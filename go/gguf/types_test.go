package gguf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// Numbers, names and sizes as ggml has them, written out apart from the table.
func TestTypes(t *testing.T) {
	rows := []struct {
		typ          Type
		id           uint32
		name         string
		elems, bytes int
	}{
		{F32, 0, "F32", 1, 4},
		{F16, 1, "F16", 1, 2},
		{Q4_0, 2, "Q4_0", 32, 18},
		{Q4_1, 3, "Q4_1", 32, 20},
		{Q5_0, 6, "Q5_0", 32, 22},
		{Q5_1, 7, "Q5_1", 32, 24},
		{Q8_0, 8, "Q8_0", 32, 34},
		{Q8_1, 9, "Q8_1", 32, 36},
		{Q2_K, 10, "Q2_K", 256, 84},
		{Q3_K, 11, "Q3_K", 256, 110},
		{Q4_K, 12, "Q4_K", 256, 144},
		{Q5_K, 13, "Q5_K", 256, 176},
		{Q6_K, 14, "Q6_K", 256, 210},
		{Q8_K, 15, "Q8_K", 256, 292},
		{IQ2_XXS, 16, "IQ2_XXS", 256, 66},
		{IQ2_XS, 17, "IQ2_XS", 256, 74},
		{IQ3_XXS, 18, "IQ3_XXS", 256, 98},
		{IQ1_S, 19, "IQ1_S", 256, 50},
		{IQ4_NL, 20, "IQ4_NL", 32, 18},
		{IQ3_S, 21, "IQ3_S", 256, 110},
		{IQ2_S, 22, "IQ2_S", 256, 82},
		{IQ4_XS, 23, "IQ4_XS", 256, 136},
		{I8, 24, "I8", 1, 1},
		{I16, 25, "I16", 1, 2},
		{I32, 26, "I32", 1, 4},
		{I64, 27, "I64", 1, 8},
		{F64, 28, "F64", 1, 8},
		{IQ1_M, 29, "IQ1_M", 256, 56},
		{BF16, 30, "BF16", 1, 2},
		{TQ1_0, 34, "TQ1_0", 256, 54},
		{TQ2_0, 35, "TQ2_0", 256, 66},
		{MXFP4, 39, "MXFP4", 32, 17},
		{NVFP4, 40, "NVFP4", 64, 36},
		{Q1_0, 41, "Q1_0", 128, 18},
		{Q2_0, 42, "Q2_0", 64, 18},
		{IQ2_K, 137, "IQ2_K", 256, 76},
		{IQ3_K, 138, "IQ3_K", 256, 110},
		{IQ4_K, 139, "IQ4_K", 256, 144},
		{IQ5_K, 140, "IQ5_K", 256, 176},
		{IQ6_K, 141, "IQ6_K", 256, 212},
		{IQ4_KS, 144, "IQ4_KS", 256, 136},
		{IQ2_KS, 145, "IQ2_KS", 256, 70},
		{IQ4_KSS, 146, "IQ4_KSS", 256, 128},
		{IQ5_KS, 152, "IQ5_KS", 256, 168},
		{IQ3_KS, 156, "IQ3_KS", 256, 102},
		{IQ2_KL, 157, "IQ2_KL", 256, 86},
		{IQ1_KT, 158, "IQ1_KT", 256, 56},
		{IQ2_KT, 153, "IQ2_KT", 256, 68},
		{IQ3_KT, 154, "IQ3_KT", 256, 100},
		{IQ4_KT, 155, "IQ4_KT", 256, 128},
	}
	heads := map[Type]int{
		IQ4_KS: 4, IQ4_KSS: 4, IQ5_KS: 4, IQ2_KS: 2, IQ3_KS: 2, IQ2_KL: 2, IQ1_KT: 4, IQ2_KT: 4, IQ3_KT: 4, IQ4_KT: 4,
	}
	if got := len(Types()); got != len(rows) {
		t.Errorf("%d known types, want %d", got, len(rows))
	}
	for _, r := range rows {
		if uint32(r.typ) != r.id || r.typ.String() != r.name || !r.typ.Known() {
			t.Errorf("type %d is %q, known: %v; want %d, %q", uint32(r.typ), r.typ, r.typ.Known(), r.id, r.name)
		}
		if r.typ.BlockElems() != r.elems || r.typ.BlockBytes() != r.bytes {
			t.Errorf("%s: block of %d elements in %d bytes, want %d in %d",
				r.name, r.typ.BlockElems(), r.typ.BlockBytes(), r.elems, r.bytes)
		}
		for _, s := range []string{r.name, strings.ToLower(r.name)} {
			if got, err := ParseType(s); got != r.typ || err != nil {
				t.Errorf("ParseType(%q) = %v, %v", s, got, err)
			}
		}
		if got, err := r.typ.Size([]uint64{512, 3, 2}); got != uint64((512/r.elems*r.bytes+heads[r.typ])*6) || err != nil {
			t.Errorf("%s.Size(512, 3, 2) = %d, %v", r.name, got, err)
		}
	}
}

// ik_llama.cpp's numbers of types with interleaved rows, and sizes, which are those of the rows.
func TestInterleavedTypes(t *testing.T) {
	rows := []struct {
		id   Type
		name string
		of   Type
		n    int
	}{
		{202, "Q4_0_R8", Q4_0, 8}, {206, "Q5_0_R4", Q5_0, 4}, {208, "Q8_0_R8", Q8_0, 8}, {210, "Q2_K_R4", Q2_K, 4},
		{211, "Q3_K_R4", Q3_K, 4}, {212, "Q4_K_R4", Q4_K, 4}, {213, "Q5_K_R4", Q5_K, 4}, {214, "Q6_K_R4", Q6_K, 4},
		{220, "IQ4_NL_R4", IQ4_NL, 4}, {223, "IQ4_XS_R8", IQ4_XS, 8}, {337, "IQ2_K_R4", IQ2_K, 4},
		{338, "IQ3_K_R4", IQ3_K, 4}, {339, "IQ4_K_R4", IQ4_K, 4}, {340, "IQ5_K_R4", IQ5_K, 4},
		{344, "IQ4_KS_R4", IQ4_KS, 4}, {352, "IQ5_KS_R4", IQ5_KS, 4}, {353, "MXFP4_R8", MXFP4, 8},
	}
	if len(rows) != len(interleaved) {
		t.Errorf("%d types, want %d", len(interleaved), len(rows))
	}
	for _, r := range rows {
		of, n := r.id.Apart()
		if r.id.String() != r.name || !r.id.Known() || of != r.of || n != r.n || r.id.RowHead() != of.RowHead() {
			t.Errorf("type %d is %v, %v by %d; want %s, %v by %d", uint32(r.id), r.id, of, n, r.name, r.of, r.n)
		}
		want, _ := of.Size([]uint64{512, 8, 3})
		if got, err := r.id.Size([]uint64{512, 8, 3}); got != want || err != nil {
			t.Errorf("%s.Size(512, 8, 3) = %d, %v; want %d", r.name, got, err, want)
		}
		for _, dims := range [][]uint64{{512}, {512, 7}, {512, 2, 4}} {
			if _, err := r.id.Size(dims); !errors.Is(err, ErrFormat) {
				t.Errorf("%s.Size(%v): %v", r.name, dims, err)
			}
		}
	}
}

// The numbers that other programs gave to types that are not read, and what each error advises.
func TestTypesThatAreNotRead(t *testing.T) {
	const (
		old   = "is no longer in use, convert the file to "
		rows  = "with interleaved rows, which is not supported: want the file with "
		never = "is not supported, supported are F32 F16 Q4_0"
	)
	for id, want := range map[Type]string{
		4: "(Q4_2) " + old + "Q4_0", 5: "(Q4_3) " + old + "Q4_1",
		31: "(Q4_0_4_4) " + old + "Q4_0", 32: "(Q4_0_4_8) " + old + "Q4_0", 33: "(Q4_0_8_8) " + old + "Q4_0",
		36: "(IQ4_NL_4_4) " + old + "IQ4_NL", 37: "(IQ4_NL_4_8) " + old + "IQ4_NL", 38: "(IQ4_NL_8_8) " + old + "IQ4_NL",
		216: "(IQ2_XXS_R4) is IQ2_XXS " + rows + "IQ2_XXS", 217: "(IQ2_XS_R4) is IQ2_XS " + rows + "IQ2_XS",
		218: "(IQ3_XXS_R4) is IQ3_XXS " + rows + "IQ3_XXS", 219: "(IQ1_S_R4) is IQ1_S " + rows + "IQ1_S",
		221: "(IQ3_S_R4) is IQ3_S " + rows + "IQ3_S", 222: "(IQ2_S_R4) is IQ2_S " + rows + "IQ2_S",
		229: "(IQ1_M_R4) is IQ1_M " + rows + "IQ1_M", 230: "(BF16_R16) is BF16 " + rows + "BF16",
		133: "(Q6_0) " + never, 134: "(IQ1_BN) " + never, 135: "(IQ2_BN) " + never, 151: "(Q8_KV) " + never,
		233: "(Q6_0_R4) " + never, 335: "(IQ2_BN_R4) " + never, 397: "(Q8_K_R16) " + never, 398: "(Q8_KV_R8) " + never,
		399: "(Q8_K_R8) " + never,
		43:  "is unknown", 254: "is unknown", 256: "is unknown",
	} {
		_, err := id.Size([]uint64{512, 16})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("type %d ", uint32(id))+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A file of packed matrices has their bytes, of a type that is no program's but this one's: such files are kept, so its
// number stays.
func TestPanels(t *testing.T) {
	if Panels != 255 || Panels.String() != "PANELS" || !Panels.Known() || slices.Contains(Types(), Panels) {
		t.Errorf("the type of packed matrices is %d, %v", uint32(Panels), Panels)
	}
	if n, err := Panels.Size([]uint64{1000, 3}); n != 3000 || err != nil {
		t.Errorf("1000 bytes in 3 rows are %d bytes, %v", n, err)
	}
}

func TestUnknownTypes(t *testing.T) {
	for _, typ := range []Type{4, 5, 31, 32, 33, 36, 37, 38, 43, 133, 151, 216, 230, 999, math.MaxUint32} {
		if typ.Known() || typ.BlockElems() != 0 || typ.BlockBytes() != 0 {
			t.Errorf("type %d is known", uint32(typ))
		}
		if _, err := typ.Size([]uint64{256}); !errors.Is(err, ErrFormat) {
			t.Errorf("type %d: error %v does not wrap ErrFormat", uint32(typ), err)
		}
	}
	if s := Type(99).String(); s != "type 99" {
		t.Errorf("String() = %q", s)
	}
	for _, s := range []string{"", "Q4_K_M", "type 99", "Q4_2"} {
		if _, err := ParseType(s); err == nil || !strings.Contains(err.Error(), "IQ4_XS") {
			t.Errorf("ParseType(%q): %v, want an error that lists the types", s, err)
		}
	}
}

func TestTypeSize(t *testing.T) {
	for _, r := range []struct {
		typ  Type
		dims []uint64
		want uint64 // 0 for an error
	}{
		{F32, []uint64{3}, 12},
		{F16, []uint64{2, 5}, 20},
		{Q4_K, []uint64{256}, 144},
		{Q4_K, []uint64{4096, 4096}, 9437184},
		{I8, []uint64{math.MaxInt64}, math.MaxInt64},
		{Q1_0, []uint64{1 << 62}, 1 << 62 / 128 * 18},
		{Q4_K, []uint64{100}, 0},    // not whole blocks
		{Q4_K, []uint64{128, 2}, 0}, // blocks do not cross rows
		{F32, nil, 0},
		{F32, []uint64{1, 1, 1, 1, 1}, 0},
		{F32, []uint64{0}, 0},
		{F32, []uint64{4, 0}, 0},
		{F32, []uint64{1 << 40, 1 << 40}, 0},           // elements overflow
		{F32, []uint64{1 << 32, 1 << 32, 1 << 32}, 0},  // to zero
		{I8, []uint64{1 << 63}, 0},                     // elements beyond int64
		{F64, []uint64{1 << 61}, 0},                    // bytes overflow to zero
		{F32, []uint64{math.MaxInt64/4 + 1}, 0},        // bytes beyond int64
		{Q8_0, []uint64{math.MaxInt64 &^ 31, 1, 1}, 0}, // the same with blocks
	} {
		got, err := r.typ.Size(r.dims)
		if got != r.want || (err == nil) != (r.want != 0) {
			t.Errorf("%s.Size(%v) = %d, %v; want %d", r.typ, r.dims, got, err, r.want)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s.Size(%v): %v does not wrap ErrFormat", r.typ, r.dims, err)
		}
	}
}
