package gguf

import (
	"encoding/binary"
	"fmt"
)

// An encoder appends fields to b. The first error sticks.
type encoder struct {
	b      []byte
	arrays int // inner arrays so far, held to MaxArrays
	err    error
}

func (e *encoder) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }

func (e *encoder) str(s string) {
	e.u64(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = malformed(format, args...)
	}
}

// value appends a metadata value with its type before it.
func (e *encoder) value(v any) {
	if _, _, ok := arrayKind(v); ok {
		e.u32(uint32(kindArray))
		e.array(v, 1)
		return
	}
	k, ok := scalarKind(v)
	if !ok {
		e.fail("a value of type %T, want one of the types of KV", v)
		return
	}
	e.u32(uint32(k))
	if s, ok := v.(string); ok {
		e.str(s)
		return
	}
	e.fixed(v)
}

// array appends an array that is depth deep: 1 for one not within another.
func (e *encoder) array(v any, depth int) {
	k, n, ok := arrayKind(v)
	if !ok {
		e.fail("%s in an array of arrays, want a slice", typeName(v))
		return
	}
	e.u32(uint32(k))
	e.u64(uint64(n))
	switch v := v.(type) {
	case []string:
		for _, s := range v {
			e.str(s)
		}
	case []any:
		if depth == MaxDepth {
			e.fail("arrays nested deeper than %d", MaxDepth)
			return
		}
		if e.arrays += n; e.arrays > MaxArrays {
			e.fail("more than %d arrays within arrays", MaxArrays)
			return
		}
		for _, inner := range v {
			e.array(inner, depth+1)
		}
	default:
		e.fixed(v)
	}
}

// fixed appends a number, a bool, or a slice of them.
func (e *encoder) fixed(v any) {
	b, err := binary.Append(e.b, binary.LittleEndian, v)
	if err != nil {
		e.err = fmt.Errorf("%T: %w", v, err)
		return
	}
	e.b = b
}
