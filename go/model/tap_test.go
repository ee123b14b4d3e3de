package model

import (
	"math"
	"testing"
	"unsafe"
)

// Where layers run several times, the products of a tensor are those of all of its uses, in one place.
func TestTapProducts(t *testing.T) {
	m, err := load(t, "testdata/archs/nanbeige.gguf", Packed)
	if err != nil {
		t.Fatal(err)
	}
	if m.Config.Loops < 2 {
		t.Fatalf("%d loops", m.Config.Loops)
	}
	ids := []int32{1, 20, 30, 40, 50}
	s := newStepper(t, m, len(ids))
	s.r.Tap(true)
	s.r.TapProducts(func(string) int { return 1 << 14 })
	s.step(t, ids)
	type sum struct {
		products []float32
		columns  []float64
		uses     int
	}
	all := map[string]*sum{}
	s.r.Tapped(func(tap Tapped) {
		if tap.Products == nil {
			t.Fatalf("%s: no products", tap.Tensor)
		}
		a := all[tap.Tensor]
		if a == nil {
			a = &sum{products: tap.Products, columns: make([]float64, len(tap.Sums))}
			all[tap.Tensor] = a
		}
		if unsafe.SliceData(a.products) != unsafe.SliceData(tap.Products) {
			t.Errorf("%s: other products for another use", tap.Tensor)
		}
		for i, x := range tap.Sums {
			a.columns[i] += x
		}
		a.uses++
	})
	again := 0
	for name, a := range all {
		if n := len(a.columns); len(a.products) != n*n {
			t.Fatalf("%s: %d products of %d columns", name, len(a.products), n)
		}
		for i, want := range a.columns {
			if got := float64(a.products[i*len(a.columns)+i]); math.Abs(got-want) > 1e-4*want {
				t.Fatalf("%s, column %d: squares of %g, in %d uses %g", name, i, got, a.uses, want)
			}
		}
		if a.uses == m.Config.Loops {
			again++
		}
	}
	if again == 0 {
		t.Error("no tensor is used once in each loop")
	}
	s.r.Tap(false)
}
