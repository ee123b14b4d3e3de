package kvcache

import (
	"fmt"
	"strings"
)

// Type is a type in which keys or values are stored.
type Type int

const (
	I16 Type = iota // integers of 16 bits, with a scale for each position of a head: the default
	F16
	F32
	BF16
	Q8 // as I16, in 8 bits
	Q4 // in 4
)

// Types are the types of keys and of values.
type Types struct{ K, V Type }

// Both returns one type for keys and values.
func Both(t Type) Types { return Types{t, t} }

// String returns the name of the type, or both as in "q8_0/f16" if they differ.
func (t Types) String() string {
	if t.K == t.V {
		return t.K.String()
	}
	return t.K.String() + "/" + t.V.String()
}

var typeNames = [...]string{I16: "i16", F16: "f16", F32: "f32", BF16: "bf16", Q8: "q8_0", Q4: "q4_0"}

// TypeNames returns the names of all types, the default first.
func TypeNames() []string { return typeNames[:] }

// ParseType returns the type with that name; case-insensitive.
func ParseType(s string) (Type, error) {
	for i, name := range typeNames {
		if strings.EqualFold(s, name) {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("unknown KV type %q, want one of %s", s, strings.Join(typeNames[:], " "))
}

// String returns the name of the type.
func (t Type) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", int(t))
}

// Bits returns the bits per element, without the scales.
func (t Type) Bits() int {
	switch t {
	case F32:
		return 32
	case Q8:
		return 8
	case Q4:
		return 4
	}
	return 16
}
