package kvcache

import "testing"

// A type's name is the one that is parsed.
func TestTypeNames(t *testing.T) {
	for i, name := range typeNames {
		if got, err := ParseType(name); got != Type(i) || err != nil || got.String() != name {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
	for typ, want := range map[Type]string{-1: "type -1", Type(len(typeNames)): "type 6"} {
		if got := typ.String(); got != want {
			t.Errorf("%d is %q, want %q", int(typ), got, want)
		}
	}
	if _, err := ParseType("q3_0"); err == nil {
		t.Error("q3_0 is a type")
	}
}

// How many bits an element takes, and both types in one word.
func TestTypes(t *testing.T) {
	for typ, want := range map[Type]int{I16: 16, F16: 16, BF16: 16, F32: 32, Q8: 8, Q4: 4} {
		if got := typ.Bits(); got != want {
			t.Errorf("%v has %d bits, want %d", typ, got, want)
		}
	}
	if a, b := Both(Q8).String(), (Types{K: Q8, V: F16}).String(); a != "q8_0" || b != "q8_0/f16" {
		t.Errorf("%q and %q", a, b)
	}
}
