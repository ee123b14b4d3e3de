package nn

import (
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
)

// activations are the functions of feed-forwards, as transformers names them.
var activations = map[string]kernel.Fn{
	"silu": kernel.SiLU, "gelu": kernel.GELUErf, "gelu_pytorch_tanh": kernel.GELU, "relu": kernel.ReLU, "relu2": kernel.ReLU2,
}

// activation reads the function of feed-forwards, if the file says it.
func (k *Keys) activation() {
	const key = "quern.feed_forward.activation"
	if !k.Has(key) {
		return
	}
	name, err := k.File.Str(k.Name(key))
	k.Check(err)
	if _, ok := activations[name]; !ok {
		k.Fail(key, "%.40q is not supported, supported are %s", name,
			strings.Join(slices.Sorted(maps.Keys(activations)), " "))
	}
	k.Config.Activation = name
}

// fn returns the function of feed-forwards: that of the file, or else the architecture's own.
func (c *Config) fn(own kernel.Fn) kernel.Fn {
	if fn, ok := activations[c.Activation]; ok {
		return fn
	}
	return own
}
