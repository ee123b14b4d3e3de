package lang

import "strings"

// activations are the functions of feed-forwards: transformers' names for them, with those of gated ones that some
// configurations have, and the name in a GGUF file.
var activations = map[string]string{
	"silu": "silu", "swish": "silu", "swiglu": "silu",
	"gelu": "gelu", "gelu_python": "gelu", "geglu": "gelu",
	"gelu_new": "gelu_pytorch_tanh", "gelu_pytorch_tanh": "gelu_pytorch_tanh", "gelu_fast": "gelu_pytorch_tanh",
	"relu": "relu", "reglu": "relu",
	"relu2": "relu2",
}

// activation sets the function of feed-forwards if it is another than the architecture's.
func (k *Keys) activation(architecture string) {
	name := k.Text("hidden_activation hidden_act mlp_hidden_act activation_function activation_fn_name activation dense_act_fn")
	if kind := k.Text("feed_forward_proj"); kind != "" { // T5's, which decides what dense_act_fn is
		fn, gated := strings.CutPrefix(kind, "gated-")
		if name = fn; gated && fn == "gelu" {
			name = "gelu_new"
		}
	}
	fn := activations[strings.ToLower(name)]
	switch {
	case name == "", name == architecture, fn != "" && fn == activations[architecture]:
	case fn == "":
		k.Fail("feed-forwards with the activation %.40q are not computed for %s", name, k.Arch)
	default:
		k.Set("quern.feed_forward.activation", fn)
	}
}

// SetActivation sets a key to a function that transformers names: one of feed-forwards, or tanh.
func (k *Keys) SetActivation(key, name string) {
	fn := activations[strings.ToLower(name)]
	if name == "tanh" {
		fn = name
	}
	if fn == "" {
		k.Fail("the activation %.40q is not computed", name)
		return
	}
	k.Set(key, fn)
}
