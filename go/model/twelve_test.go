package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// brainFloats makes the matrices of a draft BF16. Of those whose names have the suffix, weights get exponents of all sizes.
func brainFloats(d *draft, wide string) {
	r := rand.New(rand.NewPCG(7, 1))
	for i := range d.tensors {
		x := &d.tensors[i]
		if x.Type != gguf.F32 || len(x.Dims) < 2 {
			continue
		}
		b := make([]byte, 0, len(x.Data)/2)
		for at := 0; at < len(x.Data); at += 4 {
			f := math.Float32frombits(binary.LittleEndian.Uint32(x.Data[at:]))
			if wide != "" && strings.HasSuffix(x.Name, wide) {
				f = float32(math.Ldexp(float64(f), -r.IntN(40)))
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(f)>>16))
		}
		x.Type, x.Data = gguf.BF16, b
	}
}

// layouts counts the matrices of products by layout.
func layouts(m *Model) map[kernel.Layout]int {
	n := map[kernel.Layout]int{}
	for _, x := range m.weights.mats {
		if !x.rows {
			n[x.Layout]++
		}
	}
	return n
}

// Weights of BF16 are held in 12 bits wherever they are panels, but for matrices that do not fit, and logits have the same bits
// as with weights that lie in the file.
func TestTwelve(t *testing.T) {
	defer func(pays func() bool) { twelvePays = pays }(twelvePays)
	ids := []int32{5, 30, 17, 22, 9, 41, 3}
	for _, tt := range []struct {
		name, wide string
		most       int // matrices that do not fit
	}{{"all fit", "", 0}, {"two do not", "ffn_up.weight", 2}, {"none fit", "weight", math.MaxInt}} {
		t.Run(tt.name, func(t *testing.T) {
			twelvePays = func() bool { return true }
			d := read(t, "tiny-llama-f32.gguf")
			brainFloats(d, tt.wide)
			path := d.write(t, "bf16.gguf")
			mapped, err := load(t, path, Mapped)
			if err != nil {
				t.Fatal(err)
			}
			want := logits(t, mapped, ids)
			all := 0 // whose rows 12 bits take
			for _, x := range mapped.weights.mats {
				if !x.rows && x.Twelve() {
					all++
				}
			}
			others, wide := layouts(mapped)[kernel.Rows]-all, min(tt.most, all)
			if all < 10 || others == 0 {
				t.Fatalf("%d matrices for 12 bits, and %d others", all, others)
			}

			pool, err := kernel.NewPool(2, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			budget := mem.NewBudget(1<<28, "test")
			check := func(what string, f *File, o Options, twelve, x16 int) *Model {
				t.Helper()
				s, err := NewSurvey(f, kvF32, 0)
				if err != nil {
					t.Fatal(err)
				}
				budget := budget
				if o.Pack = pool.PackInto; o.Budget != nil {
					budget = o.Budget
				}
				o.Budget = budget
				before := budget.Used()
				m, err := s.Load(o)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				t.Cleanup(m.Close)
				if n := budget.Used() - before; m.Residency == Packed && n != m.WeightBytes() {
					t.Errorf("%s: it takes %d bytes, and says %d", what, n, m.WeightBytes())
				}
				if got := layouts(m); got[kernel.X12] != twelve || got[kernel.X16] != x16 {
					t.Errorf("%s: layouts %v, want %d of 12 bits and %d of 16", what, got, twelve, x16)
				}
				for i, l := range logits(t, m, ids) {
					if !slices.Equal(l, want[i]) {
						t.Fatalf("%s: logits of token %d differ", what, i)
					}
				}
				return m
			}
			file := func(path string) *File {
				t.Helper()
				f, err := OpenFile(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			plain, shared := file(path), NewShared()
			one := check("plain", plain, Options{Residency: Packed, Shared: shared}, all-wide, others+wide)
			some := false
			for _, x := range check("plain, shared", plain, Options{Residency: Packed, Shared: shared}, all-wide, others+wide).weights.mats {
				some = some || x.shared != nil
				if x.sharable() && x.shared == nil {
					t.Errorf("%s is not shared", x.Name)
				}
			}
			if !some {
				t.Error("nothing is shared")
			}
			// Matrices that do not fit had room in 12 bits before: there is none for both.
			least := mem.NewBudget(one.WeightBytes()+one.weights.checkBytes(), "test")
			check("plain, in just enough memory", plain, Options{Residency: Packed, Budget: least}, all-wide, others+wide)
			check("plain, in two places", plain, Options{Residency: Packed, Nodes: []int{-1, -1}}, all-wide, others+wide)
			early := func() func() { return func() {} }
			check("plain, begun early", plain, Options{Residency: Packed, Early: early}, all-wide, others+wide)

			var out bytes.Buffer
			if _, err := Pack(&out, plain, Options{Pack: pool.PackInto, Budget: budget}); err != nil {
				t.Fatal(err)
			}
			packed := written(t, out.Bytes())
			for _, r := range []Residency{Mapped, Packed, Streamed} {
				check("packed file, "+r.String(), packed, Options{Residency: r}, all-wide, others+wide)
			}
			if err := packed.Verify(func(uint64, uint64) {}); err != nil {
				t.Error(err)
			}

			twelvePays = func() bool { return false } // plain files are packed to 16 bits, files in 12 are read
			check("plain, where 12 bits do not pay", plain, Options{Residency: Packed}, 0, others+all)
			for _, r := range []Residency{Mapped, Packed} {
				check("packed file, where 12 bits do not pay, "+r.String(), packed, Options{Residency: r}, all-wide, others+wide)
			}
		})
	}
}

// toPack opens a small model of BF16, of whose matrices those with the ending do not fit 12 bits, and threads that pack it, to 12
// bits until the test ends.
func toPack(t *testing.T, wide string) (*File, *kernel.Pool) {
	t.Helper()
	before := twelvePays
	t.Cleanup(func() { twelvePays = before })
	twelvePays = func() bool { return true }
	d := read(t, "tiny-llama-f32.gguf")
	brainFloats(d, wide)
	f, err := OpenFile(d.write(t, "bf16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return f, pool
}

// Packing reads weights of BF16 twice: progress is of both times, and either can be ended.
func TestPackTwice(t *testing.T) {
	f, pool := toPack(t, "ffn_up.weight")
	var all, last uint64
	o := Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Progress: func(done, total uint64) {
		if done < last || done > total || all != 0 && total != all {
			t.Errorf("%d of %d after %d of %d", done, total, last, all)
		}
		last, all = done, total
	}}
	if _, err := Pack(io.Discard, f, o); err != nil {
		t.Fatal(err)
	}
	if last != all || all <= f.Size() {
		t.Errorf("%d of %d at the end, of a file of %d", last, all, f.Size())
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.Until = ctx
	o.Progress = func(uint64, uint64) { cancel() }
	var out bytes.Buffer
	if _, err := Pack(&out, f, o); !errors.Is(err, context.Canceled) || out.Len() != 0 {
		t.Errorf("ended in the first reading: %v, and %d bytes are written", err, out.Len())
	}
}

// A packed file whose panels in 12 bits are any bytes is no reason to read or write elsewhere.
func TestTwelveOfAnyBytes(t *testing.T) {
	f, pool := toPack(t, "")
	var out bytes.Buffer
	if _, err := Pack(&out, f, Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test")}); err != nil {
		t.Fatal(err)
	}
	packed := written(t, out.Bytes())
	b, r := bytes.Clone(out.Bytes()), rand.New(rand.NewPCG(3, 1))
	for _, x := range packed.packed.file.Tensors {
		if strings.HasPrefix(x.Name, prefixPanels) {
			at := bytes.Index(b, x.Data)
			for i := range x.Data {
				b[at+i] = byte(r.IntN(256))
			}
		}
	}
	m, err := loadFile(t, written(t, b), Mapped, kvF32)
	if err != nil {
		t.Fatal(err)
	}
	logits(t, m, []int32{5, 30, 17})
	if err := written(t, b).Verify(func(uint64, uint64) {}); err == nil {
		t.Error("checksums match")
	}
}
