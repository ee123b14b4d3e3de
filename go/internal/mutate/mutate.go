// Package mutate changes what files say of themselves, for tests of what reads them: by a script of bytes, which a
// fuzzer chooses, so that a change is always the same.
package mutate

import (
	"math"
	"reflect"

	"github.com/quern-llm/quern/go/gguf"
)

// Dice are numbers that a script of bytes chooses; behind its end are zeros.
type Dice struct{ Left []byte }

// Below returns a number from 0 to below n.
func (d *Dice) Below(n int) int {
	v := 0
	for size := 1; size < n && len(d.Left) > 0; size <<= 8 {
		v = v<<8 | int(d.Left[0])
		d.Left = d.Left[1:]
	}
	return v % n
}

// values are what keys of metadata become.
var values = []any{
	uint32(0), uint32(1), uint32(2), uint32(3), uint32(5), uint32(8), uint32(16), uint32(64), uint32(100), uint32(1 << 10), uint32(1 << 14), uint32(1 << 20),
	uint32(1 << 28), uint32(math.MaxUint32), int32(-1), int32(math.MinInt32), uint64(1 << 40), uint64(math.MaxUint64), int64(math.MinInt64),
	float32(0), float32(-1), float32(1e30), float32(math.NaN()), math.Inf(1), "", "none", "yarn", "longrope", "linear", true, false,
	[]int32{}, []int32{0}, []int32{1, 0}, []float32{0, 1}, []bool{}, []bool{true}, []string{}, []uint64{math.MaxUint64}, []any{},
}

// Any returns a value of any type that metadata may have, near to limits more often than not.
func (d *Dice) Any() any { return values[d.Below(len(values))] }

// Nudge returns a value of the same type that differs a little: a number is larger or smaller, a list longer or
// shorter.
func (d *Dice) Nudge(v any) any {
	switch v := v.(type) {
	case uint32:
		return []uint32{v + 1, v - 1, 2 * v, v / 2, 3 * v, v + 16, 0, 1}[d.Below(8)]
	case int32:
		return []int32{v + 1, v - 1, 2 * v, -v, 0, 1}[d.Below(6)]
	case float32:
		return []float32{0, -v, 2 * v, v / 2, 1, 1e-9, 1e9}[d.Below(7)]
	case bool:
		return !v
	case string:
		return v + "x"
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice || list.Len() == 0 {
		return v
	}
	all := reflect.AppendSlice(reflect.MakeSlice(list.Type(), 0, list.Len()), list)
	switch d.Below(5) {
	case 0:
		all = all.Slice(0, all.Len()-1)
	case 1:
		all = all.Slice(0, d.Below(all.Len()))
	case 2:
		all = reflect.Append(all, all.Index(0))
	case 3:
		all.Index(d.Below(all.Len())).SetZero()
	case 4:
		at := all.Index(d.Below(all.Len()))
		at.Set(reflect.ValueOf(d.Nudge(at.Interface())))
	}
	return all.Interface()
}

// KVs changes one entry of metadata, or removes it.
func (d *Dice) KVs(kvs []gguf.KV) []gguf.KV {
	if len(kvs) == 0 {
		return kvs
	}
	at := d.Below(len(kvs))
	switch d.Below(4) {
	case 0:
		return append(kvs[:at:at], kvs[at+1:]...)
	case 1:
		kvs[at].Value = d.Any()
	default:
		kvs[at].Value = d.Nudge(kvs[at].Value)
	}
	return kvs
}
