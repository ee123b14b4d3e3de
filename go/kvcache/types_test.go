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
