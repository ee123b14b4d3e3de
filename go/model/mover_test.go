package model

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// unshiftable says why contexts of some models here cannot be shifted.
var unshiftable = map[string]string{
	"bloom": "", "mpt": "", // biases by distance do not depend on positions
	"gpt2": "embedding of each position", "starcoder": "embedding of each position",
	"llama4": "chunks", "t5": "as a whole", "deepseek4": "entries",
}

// Keys and values of the first layer depend on a token and its position alone. So after a shift they are as if the
// tokens that are left had been evaluated at their new positions.
func TestShiftedKeys(t *testing.T) {
	compared := 0
	for _, path := range smallModels(t) {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := f.GGUF.Str("general.architecture")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := arch.Lookup(name); err != nil {
			f.Close()
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			const n, keep, by = 60, 5, 21
			s, err := NewSurvey(f, kvF32, 0)
			if err != nil {
				t.Fatal(err)
			}
			recurrent := s.Layout.Shiftable(n) < 0
			if err := s.Shiftable(n); err != nil {
				why, known := unshiftable[name]
				if !errors.Is(err, ErrShift) || !known && !recurrent && !s.Config.OnePass() || !strings.Contains(err.Error(), why) {
					t.Error(err)
				}
				f.Close()
				return
			}
			if unshiftable[name] != "" || recurrent {
				t.Error("it can be shifted")
			}
			m, err := loadFile(t, f, Packed, kvF32)
			if err != nil {
				t.Fatal(err)
			}
			v, err := m.NewMover(true)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			rng := rand.New(rand.NewPCG(2, 2))
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = rng.Int32N(int32(m.Config.NVocab))
			}
			old, fresh := newStepper(t, m, n), newStepper(t, m, n)
			old.fill(t, ids)
			move, err := old.table.Shift(keep, by)
			if err != nil {
				t.Fatal(err)
			}
			v.Move(old.r.pool, old.kv, move, n-by)
			move.Done()
			fresh.fill(t, slices.Concat(ids[:keep], ids[keep+by:]))
			for g := range m.Layout {
				for _, k := range keptIn(&nn.Program{Begin: m.program.Begin, Layers: m.program.Layers[:1]}, g) {
					sameKeys(t, k, old.kv.Units(g).Memory[m.Layout[g].Bytes*int(old.table.Blocks(g)[0]):], fresh.kv.Units(g).Memory[m.Layout[g].Bytes*int(fresh.table.Blocks(g)[0]):], n-by)
					compared++
				}
			}
			for _, row := range old.step(t, ids[:4]) { // and it goes on
				if math.IsNaN(float64(row[0])) {
					t.Fatal("logits are NaN")
				}
			}
		})
	}
	if compared < 20 {
		t.Errorf("keys of %d models", compared)
	}
}

// sameKeys compares a layer's floats of the first n positions in two blocks.
func sameKeys(t *testing.T, k kernel.KeptKV, got, want []byte, n int) {
	t.Helper()
	d, vd := k.HeadDim, k.ValueDim
	if vd == 0 {
		vd = d
	}
	pad := (vd + 15) / 16 * 16
	if k.InKeys {
		vd, pad = 0, 0
	}
	each := (d + pad) * kernel.KVBlock // of a head: keys by channel, then values by position
	at := func(b []byte, i int) float64 {
		b = b[k.KVOffset+4*i:]
		return float64(math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24))
	}
	compare := func(what string, i, p int) {
		if a, b := at(got, i), at(want, i); !(math.Abs(a-b) <= 2e-5*(1+math.Abs(b))) {
			t.Fatalf("%s of position %d: %g, evaluated there %g", what, p, a, b)
		}
	}
	for h := range k.NHeadKV {
		for p := range n {
			for i := range d {
				compare("a key", h*each+i*kernel.KVBlock+p, p)
			}
			for i := range vd {
				compare("a value", h*each+(d*kernel.KVBlock)+p*pad+i, p)
			}
		}
	}
}
