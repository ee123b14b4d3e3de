package arch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// keys reads the keys of an architecture into a Config. The first error is a stop.
type keys struct {
	f    *gguf.File
	c    *Config
	head bool // of a file that drafts for another model

	asked map[string]bool // keys that were read, or looked for
}

func (k *keys) name(key string) string {
	if k.asked == nil {
		k.asked = map[string]bool{}
	}
	k.asked[key] = true
	return k.c.Arch + "." + key
}

// keep stops at an error.
func (k *keys) keep(err error) {
	if err != nil {
		panic(stop{err})
	}
}

func (k *keys) fail(key, format string, args ...any) {
	k.keep(fmt.Errorf("key %q: %s", k.name(key), fmt.Sprintf(format, args...)))
}

func (k *keys) has(key string) bool {
	_, ok := k.f.Value(k.name(key))
	return ok
}

// within returns n, which must be from lo to hi.
func (k *keys) within(key string, n int64, lo, hi int) int {
	if n < int64(lo) || n > int64(hi) {
		k.fail(key, "%d, want %d to %d", n, lo, hi)
	}
	return int(n)
}

// int returns a key from lo to hi. It may be an array, as some converters write
// it, as long as all elements are equal.
func (k *keys) int(key string, lo, hi int) int {
	n, err := k.f.Int(k.name(key))
	if errors.Is(err, gguf.ErrFormat) {
		if all, arrErr := k.f.Ints(k.name(key)); arrErr == nil && len(all) > 0 {
			n, err = all[0], nil
			if i := slices.IndexFunc(all, func(v int64) bool { return v != n }); i >= 0 {
				k.fail(key, "%d for layer 0 and %d for layer %d, layers that differ in this are not supported", n, all[i], i)
			}
		}
	}
	k.keep(err)
	return k.within(key, n, lo, hi)
}

func (k *keys) intOr(key string, def, lo, hi int) int {
	if !k.has(key) {
		return def
	}
	return k.int(key, lo, hi)
}

// forLayers checks that an array of n has an element for each layer; the file may have more layers than are computed.
func (k *keys) forLayers(key string, n int) {
	layers := len(k.c.Layers)
	if n != layers && n != layers+k.c.NNext {
		k.fail(key, "%d elements, want one for each of the %d layers", n, layers+k.c.NNext)
	}
}

// each has set take a key for each layer, from lo to hi: one number for all, or
// an array of as many as there are layers.
func (k *keys) each(key string, lo, hi int, set func(l *Layer, n int)) {
	layers := k.c.Layers
	if all, err := k.f.Ints(k.name(key)); err == nil {
		k.forLayers(key, len(all))
		for i := range layers {
			set(&layers[i], k.within(key, all[i], lo, hi))
		}
		return
	}
	n := k.int(key, lo, hi)
	for i := range layers {
		set(&layers[i], n)
	}
}

// eachOr is each where the file has the key.
func (k *keys) eachOr(key string, lo, hi int, set func(l *Layer, n int)) {
	if k.has(key) {
		k.each(key, lo, hi, set)
	}
}

func (k *keys) float(key string, lo, hi float64) float64 {
	v, err := k.f.Float(k.name(key))
	k.keep(err)
	if !(v >= lo && v <= hi) || math.IsInf(v, 0) { // NaN is out of every range
		k.fail(key, "%v, want %v to %v", v, lo, hi)
	}
	return v
}

// eachConstant has set take a constant of each layer, whose key carries no name of an
// architecture: one number for all, or an array.
func (k *keys) eachConstant(name string, set func(l *Layer, v float64)) {
	layers := k.c.Layers
	v, err := k.f.Float(name)
	all, arrErr := k.f.Floats(name)
	if err != nil && arrErr != nil {
		k.keep(err)
	}
	if n := len(all); err != nil && n != len(layers) && n != len(layers)+k.c.NNext {
		k.keep(fmt.Errorf("key %q: %d elements, want one for each of the %d layers", name, n, len(layers)))
	}
	for il := range layers {
		if err != nil {
			v = float64(all[il])
		}
		if math.IsNaN(v) || math.Abs(v) > 1e3 {
			k.keep(fmt.Errorf("key %q: %v, want -1000 to 1000", name, v))
		}
		set(&layers[il], v)
	}
}

func (k *keys) boolOr(key string, def bool) bool {
	if !k.has(key) {
		return def
	}
	v, err := k.f.Bool(k.name(key))
	k.keep(err)
	return v
}

func (k *keys) floatOr(key string, def, lo, hi float64) float64 {
	if !k.has(key) {
		return def
	}
	return k.float(key, lo, hi)
}
