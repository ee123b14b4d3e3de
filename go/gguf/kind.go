package gguf

import "fmt"

// A kind is the type of a metadata value. The numbers are the format's.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

var kinds = [...]struct {
	name string
	min  uint64 // bytes of a value: exactly, or at least where it has a length
}{
	kindUint8:   {"uint8", 1},
	kindInt8:    {"int8", 1},
	kindUint16:  {"uint16", 2},
	kindInt16:   {"int16", 2},
	kindUint32:  {"uint32", 4},
	kindInt32:   {"int32", 4},
	kindFloat32: {"float32", 4},
	kindBool:    {"bool", 1},
	kindString:  {"string", 8},
	kindArray:   {"array", 4 + 8},
	kindUint64:  {"uint64", 8},
	kindInt64:   {"int64", 8},
	kindFloat64: {"float64", 8},
}

func (k kind) known() bool      { return uint64(k) < uint64(len(kinds)) }
func (k kind) minBytes() uint64 { return kinds[k].min }
func (k kind) String() string   { return kinds[k].name }

// scalarKind returns the kind of a value that is not an array.
func scalarKind(v any) (k kind, ok bool) {
	switch v.(type) {
	case uint8:
		return kindUint8, true
	case int8:
		return kindInt8, true
	case uint16:
		return kindUint16, true
	case int16:
		return kindInt16, true
	case uint32:
		return kindUint32, true
	case int32:
		return kindInt32, true
	case float32:
		return kindFloat32, true
	case bool:
		return kindBool, true
	case string:
		return kindString, true
	case uint64:
		return kindUint64, true
	case int64:
		return kindInt64, true
	case float64:
		return kindFloat64, true
	}
	return 0, false
}

// arrayKind returns the kind of an array's elements and their number.
func arrayKind(v any) (k kind, n int, ok bool) {
	switch v := v.(type) {
	case []uint8:
		return kindUint8, len(v), true
	case []int8:
		return kindInt8, len(v), true
	case []uint16:
		return kindUint16, len(v), true
	case []int16:
		return kindInt16, len(v), true
	case []uint32:
		return kindUint32, len(v), true
	case []int32:
		return kindInt32, len(v), true
	case []float32:
		return kindFloat32, len(v), true
	case []bool:
		return kindBool, len(v), true
	case []string:
		return kindString, len(v), true
	case []any:
		return kindArray, len(v), true
	case []uint64:
		return kindUint64, len(v), true
	case []int64:
		return kindInt64, len(v), true
	case []float64:
		return kindFloat64, len(v), true
	}
	return 0, 0, false
}

// typeName names the type of a metadata value, for errors.
func typeName(v any) string {
	if k, ok := scalarKind(v); ok {
		return k.String()
	}
	if k, n, ok := arrayKind(v); ok {
		return fmt.Sprintf("array of %d %s", n, k)
	}
	return fmt.Sprintf("%T", v)
}
