package launch

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// An Override is metadata in place of what a model's file has. A key that begins with a dot is one of its
// architecture.
type Override struct {
	Key   string
	Value any // int64, float64, bool or string
}

// Overrides are applied in order.
type Overrides []Override

// Apply changes the metadata of an open file, of which nothing was read yet.
func (o Overrides) Apply(f *gguf.File) error {
	for _, v := range o {
		if strings.HasPrefix(v.Key, ".") {
			arch, err := f.Str("general.architecture")
			if err != nil {
				return err
			}
			v.Key = arch + v.Key
		}
		if err := f.Set(v.Key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// Keys returns what a file is to have instead: numbers are of 32 bits and whole ones have no sign, as llama-quantize
// writes them, where they fit.
func (o Overrides) Keys() []gguf.KV {
	var kvs []gguf.KV
	for _, v := range o {
		kv := gguf.KV{Key: v.Key, Value: v.Value}
		switch x := v.Value.(type) {
		case int64:
			if n := max(x, -x); uint64(n) <= math.MaxUint32 {
				kv.Value = uint32(n)
			}
		case float64:
			kv.Value = float32(x)
		}
		kvs = append(kvs, kv)
	}
	return kvs
}
