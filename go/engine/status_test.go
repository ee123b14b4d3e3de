package engine

import (
	"reflect"
	"testing"
)

// leaves returns the numbers of a value, and of the arrays and structs in it.
func leaves(v reflect.Value) (list []reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			list = append(list, leaves(v.Field(i))...)
		}
	case reflect.Array:
		for i := range v.Len() {
			list = append(list, leaves(v.Index(i))...)
		}
	default:
		list = append(list, v)
	}
	return list
}

// Every count has its part in a sum.
func TestCountsPlus(t *testing.T) {
	var a Counts
	for i, f := range leaves(reflect.ValueOf(&a).Elem()) {
		if f.CanUint() {
			f.SetUint(uint64(i + 1))
		} else {
			f.SetInt(int64(i + 1))
		}
	}
	sum := a.Plus(a)
	for i, f := range leaves(reflect.ValueOf(sum)) {
		if n := 2 * (i + 1); f.CanUint() && f.Uint() != uint64(n) || f.CanInt() && f.Int() != int64(n) {
			t.Errorf("number %d of %+v is %v, want %d", i, sum, f, n)
		}
	}
}
