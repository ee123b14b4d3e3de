package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// A decoder reads fields from b. The first error sticks: after it every read
// gives a zero, so that a record can be read whole and checked once.
type decoder struct {
	b      []byte
	size   int // of the file, of which b may be the first bytes
	off    int // of the next byte; never beyond len(b)
	arrays int // inner arrays so far, held to MaxArrays
	err    error
}

// left returns the bytes of the file not yet read.
func (d *decoder) left() uint64 { return uint64(d.size - d.off) }

// has reports whether the next n bytes, which the file has, are among those that were given.
func (d *decoder) has(n uint64) bool {
	if d.err == nil && n > uint64(len(d.b)-d.off) {
		d.err = ErrShort
	}
	return d.err == nil
}

// fail records an error unless there is one.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = malformed(format, args...)
	}
}

// next returns the next n bytes, nil after an error.
func (d *decoder) next(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > d.left() {
		d.fail("truncated: %d bytes wanted at byte %d, %d left", n, d.off, d.left())
		return nil
	}
	if !d.has(n) {
		return nil
	}
	p := d.b[d.off:][:n]
	d.off += int(n)
	return p
}

func (d *decoder) u8() uint8 {
	if p := d.next(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if p := d.next(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if p := d.next(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if p := d.next(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// bool reads a byte that must be 0 or 1.
func (d *decoder) bool() bool {
	v := d.u8()
	if v > 1 {
		d.fail("bool is %d, want 0 or 1", v)
	}
	return v == 1
}

// bytes reads a length and so many bytes, without copying them.
func (d *decoder) bytes() []byte {
	n := d.u64()
	if n > d.left() {
		d.fail("string of %d bytes, %d left", n, d.left())
	}
	return d.next(n)
}

func (d *decoder) str() string { return string(d.bytes()) }

// value reads a value of kind k.
func (d *decoder) value(k kind) any {
	switch k {
	case kindUint8:
		return d.u8()
	case kindInt8:
		return int8(d.u8())
	case kindUint16:
		return d.u16()
	case kindInt16:
		return int16(d.u16())
	case kindUint32:
		return d.u32()
	case kindInt32:
		return int32(d.u32())
	case kindFloat32:
		return math.Float32frombits(d.u32())
	case kindBool:
		return d.bool()
	case kindString:
		return d.str()
	case kindArray:
		return d.array(1)
	case kindUint64:
		return d.u64()
	case kindInt64:
		return int64(d.u64())
	case kindFloat64:
		return math.Float64frombits(d.u64())
	}
	d.fail("value type %d is unknown, want 0 to %d", uint32(k), len(kinds)-1)
	return nil
}

// array reads an array that is depth deep: 1 for one not within another.
func (d *decoder) array(depth int) any {
	k, n := kind(d.u32()), d.u64()
	if d.err != nil {
		return nil
	}
	if !k.known() {
		d.fail("array element type %d is unknown, want 0 to %d", uint32(k), len(kinds)-1)
		return nil
	}
	if most := d.left() / k.minBytes(); n > most {
		d.fail("array of %d %s, the %d bytes left hold at most %d", n, k, d.left(), most)
		return nil
	}
	if !d.has(n * k.minBytes()) { // before memory is allocated for them
		return nil
	}
	switch k {
	case kindUint8:
		return decodeNumbers[uint8](d, k, n)
	case kindInt8:
		return decodeNumbers[int8](d, k, n)
	case kindUint16:
		return decodeNumbers[uint16](d, k, n)
	case kindInt16:
		return decodeNumbers[int16](d, k, n)
	case kindUint32:
		return decodeNumbers[uint32](d, k, n)
	case kindInt32:
		return decodeNumbers[int32](d, k, n)
	case kindFloat32:
		return decodeNumbers[float32](d, k, n)
	case kindUint64:
		return decodeNumbers[uint64](d, k, n)
	case kindInt64:
		return decodeNumbers[int64](d, k, n)
	case kindFloat64:
		return decodeNumbers[float64](d, k, n)
	case kindBool:
		return d.bools(n)
	case kindString:
		return d.strs(n)
	}
	return d.nested(n, depth)
}

// decodeNumbers reads n numbers of kind k. The caller has checked that they
// are there.
func decodeNumbers[T any](d *decoder, k kind, n uint64) []T {
	s := make([]T, n)
	if _, err := binary.Decode(d.next(n*k.minBytes()), binary.LittleEndian, s); err != nil {
		d.fail("array of %d %s: %v", n, k, err)
	}
	return s
}

// bools reads n bools. The caller has checked that they are there.
func (d *decoder) bools(n uint64) []bool {
	s := make([]bool, n)
	for i, v := range d.next(n) {
		if v > 1 {
			d.fail("bool %d of %d is %d, want 0 or 1", i, n, v)
			break
		}
		s[i] = v == 1
	}
	return s
}

// strs reads n strings. A vocabulary has some 150 000 of them, so a first pass
// measures, and a second copies them into one allocation that they share.
func (d *decoder) strs(n uint64) []string {
	again := *d
	for i := range n {
		if d.bytes(); d.err != nil {
			d.err = fmt.Errorf("string %d of %d: %w", i, n, d.err)
			return nil
		}
	}
	var text strings.Builder
	text.Grow(d.off - again.off - 8*int(n))
	s := make([]string, n)
	for i := range s {
		from := text.Len()
		text.Write(again.bytes())
		s[i] = text.String()[from:] // the buffer does not move: it never grows
	}
	return s
}

// nested reads n arrays of an array that is depth deep. An inner array takes
// as little as 12 bytes and becomes three objects, hence the limit on them.
func (d *decoder) nested(n uint64, depth int) []any {
	if depth == MaxDepth {
		d.fail("arrays nested deeper than %d", MaxDepth)
		return nil
	}
	if n > uint64(MaxArrays-d.arrays) {
		d.fail("more than %d arrays within arrays", MaxArrays)
		return nil
	}
	d.arrays += int(n)
	s := make([]any, n)
	for i := range s {
		if s[i] = d.array(depth + 1); d.err != nil {
			return nil
		}
	}
	return s
}
