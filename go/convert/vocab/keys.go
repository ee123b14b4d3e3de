package vocab

import (
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// Keys returns the keys of the file that are about the tokenizer.
func (v *Vocabulary) Keys() []gguf.KV {
	const prefix = "tokenizer.ggml."
	all := []gguf.KV{{Key: prefix + "model", Value: v.Model}}
	if v.pre != "" {
		all = append(all, gguf.KV{Key: prefix + "pre", Value: v.pre})
	}
	all = append(all, gguf.KV{Key: prefix + "tokens", Value: v.Tokens})
	if v.scores != nil {
		all = append(all, gguf.KV{Key: prefix + "scores", Value: v.scores})
	}
	all = append(all, gguf.KV{Key: prefix + "token_type", Value: v.Types})
	if v.merges != nil {
		all = append(all, gguf.KV{Key: prefix + "merges", Value: v.merges})
	}
	for _, s := range v.special {
		all = append(all, gguf.KV{Key: prefix + kinds[order(s.name)].key + "_token_id", Value: uint32(s.id)})
	}
	for _, a := range v.add {
		all = append(all, gguf.KV{Key: prefix + "add_" + a.name + "_token", Value: a.on})
	}
	for _, kv := range v.more {
		key := prefix + kv.Key
		if strings.HasPrefix(kv.Key, "quern.") {
			key = kv.Key
		}
		all = append(all, gguf.KV{Key: key, Value: kv.Value})
	}
	return all
}

// Set sets a key, which is given without the prefix tokenizer.ggml, unless it is one of the program's own.
func (v *Vocabulary) Set(key string, value any) {
	for i := range v.more {
		if v.more[i].Key == key {
			v.more[i].Value = value
			return
		}
	}
	v.more = append(v.more, gguf.KV{Key: key, Value: value})
}
