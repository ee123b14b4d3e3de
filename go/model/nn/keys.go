package nn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// Keys read the metadata keys of an architecture into a Config. They stop at the first error, which ReadKeys and
// ReadHeadKeys return. Keys are named without the architecture, which all but those of Own begin with.
type Keys struct {
	File   *gguf.File
	Config *Config
	head   bool // of a file that drafts for another model

	asked map[string]bool // keys that were read, or looked for
}

// Own begins the names of keys that GGUF lacks and Quern's converter writes. They are without an architecture's name.
const Own = "quern."

// Name returns the full name of a key, which counts as read.
func (k *Keys) Name(key string) string {
	if k.asked == nil {
		k.asked = map[string]bool{}
	}
	k.asked[key] = true
	if strings.HasPrefix(key, Own) {
		return key
	}
	return k.Config.Arch + "." + key
}

// Check stops at an error.
func (k *Keys) Check(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// Fail stops with what is wrong with a key.
func (k *Keys) Fail(key, format string, args ...any) {
	k.Check(fmt.Errorf("key %q: %s", k.Name(key), fmt.Sprintf(format, args...)))
}

// Has reports whether the file has a key, which counts as read.
func (k *Keys) Has(key string) bool {
	_, ok := k.File.Value(k.Name(key))
	return ok
}

// within returns n, which must be from lo to hi.
func (k *Keys) within(key string, n int64, lo, hi int) int {
	if n < int64(lo) || n > int64(hi) {
		k.Fail(key, "%d, want %d to %d", n, lo, hi)
	}
	return int(n)
}

// Int returns a key from lo to hi. It may be an array, as some converters write it, if all elements are equal.
func (k *Keys) Int(key string, lo, hi int) int {
	n, err := k.File.Int(k.Name(key))
	if errors.Is(err, gguf.ErrFormat) {
		if all, arrErr := k.File.Ints(k.Name(key)); arrErr == nil && len(all) > 0 {
			n, err = all[0], nil
			if i := slices.IndexFunc(all, func(v int64) bool { return v != n }); i >= 0 {
				k.Fail(key, "%d for layer 0 and %d for layer %d, layers that differ in this are not supported", n,
					all[i], i)
			}
		}
	}
	k.Check(err)
	return k.within(key, n, lo, hi)
}

// IntOr is Int, or def if the file does not have the key.
func (k *Keys) IntOr(key string, def, lo, hi int) int {
	if !k.Has(key) {
		return def
	}
	return k.Int(key, lo, hi)
}

// ForLayers checks that an array of n elements has one for each layer. The file may have more layers than are run.
func (k *Keys) ForLayers(key string, n int) {
	layers := len(k.Config.Layers)
	if n != layers && n != layers+k.Config.NNext {
		k.Fail(key, "%d elements, want one for each of the %d layers", n, layers+k.Config.NNext)
	}
}

// Each calls set with a key from lo to hi for each layer: one number for all, or an array.
func (k *Keys) Each(key string, lo, hi int, set func(l *LayerConfig, n int)) {
	layers := k.Config.Layers
	if all, err := k.File.Ints(k.Name(key)); err == nil {
		k.ForLayers(key, len(all))
		for i := range layers {
			set(&layers[i], k.within(key, all[i], lo, hi))
		}
		return
	}
	n := k.Int(key, lo, hi)
	for i := range layers {
		set(&layers[i], n)
	}
}

// eachOr is Each if the file has the key.
func (k *Keys) eachOr(key string, lo, hi int, set func(l *LayerConfig, n int)) {
	if k.Has(key) {
		k.Each(key, lo, hi, set)
	}
}

// Float returns a finite key from lo to hi.
func (k *Keys) Float(key string, lo, hi float64) float64 {
	v, err := k.File.Float(k.Name(key))
	k.Check(err)
	if !(v >= lo && v <= hi) || math.IsInf(v, 0) { // NaN is out of every range
		k.Fail(key, "%v, want %v to %v", v, lo, hi)
	}
	return v
}

// EachConstant calls set with a constant for each layer: one number for all, or an array. name is the whole key.
func (k *Keys) EachConstant(name string, set func(l *LayerConfig, v float64)) {
	layers := k.Config.Layers
	v, err := k.File.Float(name)
	all, arrErr := k.File.Floats(name)
	if err != nil && arrErr != nil {
		k.Check(err)
	}
	if n := len(all); err != nil && n != len(layers) && n != len(layers)+k.Config.NNext {
		k.Check(fmt.Errorf("key %q: %d elements, want one for each of the %d layers", name, n, len(layers)))
	}
	for il := range layers {
		if err != nil {
			v = float64(all[il])
		}
		if math.IsNaN(v) || math.Abs(v) > 1e3 {
			k.Check(fmt.Errorf("key %q: %v, want -1000 to 1000", name, v))
		}
		set(&layers[il], v)
	}
}

// Layered returns a list of truths, one for each layer, or otherwise if the file does not have it.
func (k *Keys) Layered(key string, otherwise func(il int) bool) func(il int) bool {
	if !k.Has(key) {
		return otherwise
	}
	all, err := k.File.Bools(k.Name(key))
	k.Check(err)
	k.ForLayers(key, len(all))
	return func(il int) bool { return all[il] }
}

// BoolOr returns a key, or def if the file does not have it.
func (k *Keys) BoolOr(key string, def bool) bool {
	if !k.Has(key) {
		return def
	}
	v, err := k.File.Bool(k.Name(key))
	k.Check(err)
	return v
}

// FloatOr is Float, or def if the file does not have the key.
func (k *Keys) FloatOr(key string, def, lo, hi float64) float64 {
	if !k.Has(key) {
		return def
	}
	return k.Float(key, lo, hi)
}
