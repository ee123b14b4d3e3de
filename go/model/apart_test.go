package model

import (
	"bytes"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/synth"
)

// Each type with interleaved rows, by its name.
func interleavedTypes() map[string]gguf.Type {
	types := map[string]gguf.Type{}
	for t := range gguf.Type(512) {
		if _, n := t.Apart(); n > 1 {
			types[t.String()] = t
		}
	}
	return types
}

// Rows that ik_llama.cpp's program quantized, as they are and interleaved: taken apart the ones are the others. Files
// and kernels agree on which types there are.
func TestRowsApart(t *testing.T) {
	path, err := filepath.Abs("testdata/rows-interleaved.gguf")
	if err != nil {
		t.Fatal(err)
	}
	d := read(t, path)
	types := interleavedTypes()
	if len(types) == 0 || len(d.tensors) != 2*len(types) {
		t.Errorf("%d types, the file has %d tensors", len(types), len(d.tensors))
	}
	for name, typ := range types {
		x, of := d.tensor(name), typeOf(&gguf.Tensor{Type: typ})
		want := d.tensor(of.String())
		if x.Type != typ || kernel.Type(want.Type) != of || together(x) != kernel.RowsTogether(of) {
			t.Errorf("%s: types %v and %v, rows by %d and %d", name, x.Type, want.Type, together(x), kernel.RowsTogether(of))
			continue
		}
		in := int(x.Dims[0])
		got, err := apart(make([]byte, len(x.Data)), x, in, x.Data)
		if err != nil || !bytes.Equal(got, want.Data) {
			t.Errorf("%s: not the rows of %v: %v", name, of, err)
		}
		turned, err := transpose(make([]byte, 4*in*int(x.Dims[1])), x)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if plain, err := transpose(make([]byte, len(turned)), want); err != nil || !bytes.Equal(turned, plain) {
			t.Errorf("%s: transposed they are others, %v", name, err)
		}
		if !bytes.Equal(interleave(t, x, want.Data), x.Data) {
			t.Errorf("%s: interleaved again they are others", name)
		}
		row := kernel.RowBytes(of, in)
		for _, n := range []int{0, 1, row, len(x.Data) - row} {
			if err := kernel.RowsApart(of, got[:n], x.Data[:n], in); err == nil {
				t.Errorf("%s: %d bytes were taken apart", name, n)
			}
		}
	}
	for _, typ := range kernel.Types() {
		n := kernel.RowsTogether(typ)
		if n > 1 != slices.ContainsFunc(d.tensors, func(x gguf.Tensor) bool { return kernel.Type(x.Type) == typ }) {
			t.Errorf("%v: %d rows together, and files have others", typ, n)
		}
	}
}

// interleave is what apart undoes: it moves bits, and where each of a group of rows comes from shows when the bits of
// its number go through it, one after the other.
func interleave(tb testing.TB, x *gguf.Tensor, rows []byte) []byte {
	tb.Helper()
	in := int(x.Dims[0])
	group := together(x) * kernel.RowBytes(typeOf(x), in)
	digit, moved := make([]byte, group), make([]byte, group)
	from := make([]int, group*8)
	for n := range bits.Len(uint(group * 8)) {
		for bit := range from {
			set(digit, bit, bit>>n&1)
		}
		if err := kernel.RowsApart(typeOf(x), moved, digit, in); err != nil {
			tb.Fatal(err)
		}
		for bit := range from {
			from[bit] |= get(moved, bit) << n
		}
	}
	out := make([]byte, len(rows))
	for g := 0; g < len(rows); g += group {
		for bit, f := range from {
			set(out[g:g+group], f, get(rows[g:g+group], bit))
		}
	}
	return out
}

func get(b []byte, bit int) int { return int(b[bit/8] >> (bit % 8) & 1) }

func set(b []byte, bit, to int) { b[bit/8] = b[bit/8]&^(1<<(bit%8)) | byte(to)<<(bit%8) }

// A file with interleaved rows computes what the file without computes: plain matrices, experts and the heads of
// latents, whether the others are packed or not.
func TestInterleavedFiles(t *testing.T) {
	model, err := synth.ParseShape("tiny-latent/2:Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plain.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	m, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 5, 3, 2}
	want := logits(t, m, ids)
	d, changed := read(t, path), 0
	for i := range d.tensors {
		x := &d.tensors[i]
		for _, typ := range interleavedTypes() {
			of, n := typ.Apart()
			if x.Name != "token_embd.weight" && of == x.Type && x.Dims[1]%uint64(n) == 0 {
				rows := x.Data
				x.Type = typ
				x.Data = interleave(t, x, rows)
				changed++
			}
		}
	}
	if changed < 20 {
		t.Errorf("%d tensors interleaved", changed)
	}
	path = d.write(t, "interleaved.gguf")
	for _, r := range []Residency{Packed, Mapped} {
		m, err := load(t, path, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := logits(t, m, ids); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("residency %v: other logits", r)
		}
	}
}

// Rows that are looked up are refused in one line.
func TestInterleavedTable(t *testing.T) {
	d := read(t, "tiny-llama-mixed32.gguf")
	x := d.tensor("token_embd.weight")
	x.Type = gguf.Type(206) // Q5_0_R4
	x.Dims[1] = 64
	size, err := x.Type.Size(x.Dims)
	if err != nil {
		t.Fatal(err)
	}
	x.Data = make([]byte, size)
	const want = `tensor "token_embd.weight": type Q5_0_R4, want Q5_0, since rows that are looked up cannot be interleaved`
	if _, err := load(t, d.write(t, "x.gguf"), Packed); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
