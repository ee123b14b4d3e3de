package gguf

import (
	"fmt"
	"math"
)

// Uint returns the value of key, an integer of any width that is not negative.
// An error wraps ErrMissing when the file has no such key, ErrFormat when the
// value is of another type or out of range; so it is for every accessor.
func (f *File) Uint(key string) (uint64, error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, missing(key)
	}
	n, negative, ok := integer(v)
	switch {
	case !ok:
		return 0, mismatch(key, v, "an integer")
	case negative:
		return 0, fmt.Errorf("key %s: %w", quote(key), malformed("%v, want 0 or more", v))
	}
	return n, nil
}

// Int returns the value of key, an integer of any width that fits in an int64.
func (f *File) Int(key string) (int64, error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, missing(key)
	}
	n, negative, ok := integer(v)
	switch {
	case !ok:
		return 0, mismatch(key, v, "an integer")
	case !negative && n > math.MaxInt64:
		return 0, fmt.Errorf("key %s: %w", quote(key), malformed("%d, want at most %d", n, int64(math.MaxInt64)))
	}
	return int64(n), nil
}

// Float returns the value of key, a float32 or float64.
func (f *File) Float(key string) (float64, error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, missing(key)
	}
	switch v := v.(type) {
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	}
	return 0, mismatch(key, v, "a float")
}

// Bool returns the value of key, a bool.
func (f *File) Bool(key string) (bool, error) { return exactly[bool](f, key, "a bool") }

// Str returns the value of key, a string.
func (f *File) Str(key string) (string, error) { return exactly[string](f, key, "a string") }

// Strs returns the value of key, an array of strings. The slices that this and
// the accessors below return belong to the File: do not change them.
func (f *File) Strs(key string) ([]string, error) {
	return exactly[[]string](f, key, "an array of strings")
}

// Bools returns the value of key, an array of bools.
func (f *File) Bools(key string) ([]bool, error) {
	return exactly[[]bool](f, key, "an array of bools")
}

// Floats returns the value of key, an array of float32.
func (f *File) Floats(key string) ([]float32, error) {
	return exactly[[]float32](f, key, "an array of float32")
}

// Ints returns the value of key, an array of integers of any width, each of
// which fits in an int64.
func (f *File) Ints(key string) ([]int64, error) {
	v, ok := f.Value(key)
	if !ok {
		return nil, missing(key)
	}
	switch v := v.(type) {
	case []int64:
		return v, nil
	case []uint8:
		return widen(v), nil
	case []int8:
		return widen(v), nil
	case []uint16:
		return widen(v), nil
	case []int16:
		return widen(v), nil
	case []uint32:
		return widen(v), nil
	case []int32:
		return widen(v), nil
	case []uint64:
		for i, n := range v {
			if n > math.MaxInt64 {
				return nil, fmt.Errorf("key %s: %w", quote(key),
					malformed("element %d is %d, want at most %d", i, n, int64(math.MaxInt64)))
			}
		}
		return widen(v), nil
	}
	return nil, mismatch(key, v, "an array of integers")
}

// exactly returns the value of key, which is a T: in words, want.
func exactly[T any](f *File, key, want string) (T, error) {
	var zero T
	v, ok := f.Value(key)
	if !ok {
		return zero, missing(key)
	}
	t, ok := v.(T)
	if !ok {
		return zero, mismatch(key, v, want)
	}
	return t, nil
}

// integer returns an integer of any type as 64 bits in two's complement, and
// whether it is below zero.
func integer(v any) (n uint64, negative, ok bool) {
	switch v := v.(type) {
	case uint8:
		return uint64(v), false, true
	case int8:
		return uint64(v), v < 0, true
	case uint16:
		return uint64(v), false, true
	case int16:
		return uint64(v), v < 0, true
	case uint32:
		return uint64(v), false, true
	case int32:
		return uint64(v), v < 0, true
	case uint64:
		return v, false, true
	case int64:
		return uint64(v), v < 0, true
	}
	return 0, false, false
}

func widen[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64](s []T) []int64 {
	wide := make([]int64, len(s))
	for i, v := range s {
		wide[i] = int64(v)
	}
	return wide
}

func missing(key string) error {
	return fmt.Errorf("key %s: %w", quote(key), ErrMissing)
}

func mismatch(key string, v any, want string) error {
	return fmt.Errorf("key %s: %w", quote(key), malformed("%s, want %s", typeName(v), want))
}
