package nn

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// activations are the functions of feed-forwards, as transformers names them.
var activations = map[string]kernel.Fn{
	"silu": kernel.SiLU, "gelu": kernel.GELUErf, "gelu_pytorch_tanh": kernel.GELU, "relu": kernel.ReLU, "relu2": kernel.ReLU2,
}

// activationKey is the key of the function of feed-forwards.
const activationKey = Own + "feed_forward.activation"

// activation reads the function of feed-forwards, if the file says it.
func (k *Keys) activation() {
	if !k.Has(activationKey) {
		return
	}
	k.Config.Activation = k.oneOf(activationKey, slices.Sorted(maps.Keys(activations))...)
}

// Activation reads the function of a gate, if the file says it.
func (k *Keys) Activation(key string, otherwise kernel.Fn) kernel.Fn {
	switch {
	case !k.Has(key):
		return otherwise
	case k.oneOf(key, "silu", "sigmoid") == "silu":
		return kernel.SiLU
	}
	return kernel.Sigmoid
}

// fn returns the function of feed-forwards: that of the file, or else the architecture's own. A function with constants or
// limits of its own is not replaced.
func (c *Config) fn(own kernel.Fn, fixed bool) kernel.Fn {
	fn, ok := activations[c.Activation]
	switch {
	case !ok:
		return own
	case fixed || own == kernel.SwiGLUClamp || c.GateCap > 0:
		check(fmt.Errorf("key %q: %s is not supported by %s, whose feed-forwards have another kind of function",
			activationKey, c.Activation, c.Arch))
	}
	return fn
}
