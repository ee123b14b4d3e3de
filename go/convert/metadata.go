package convert

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// quantizationVersion is the version of the layouts of blocks.
const quantizationVersion = 2

// metadata returns all keys of the file.
func (m *Model) metadata(k *lang.Keys) ([]gguf.KV, error) {
	v, err := vocab.Read(m.dir, m.family.Arch, m.Pre, m.embeddings(), m.config)
	if err != nil {
		return nil, err
	}
	if m.family.Vocab != nil {
		m.family.Vocab(m.config, v)
	}
	all := m.general("model")
	all = append(all, m.sampling()...)
	all = append(all, k.KVs...)
	all = append(all, v.Keys()...)
	templates, err := m.templates()
	if err != nil {
		return nil, err
	}
	all = append(all, templates...)
	return all, m.config.Err()
}

// general returns the keys that all files have.
func (m *Model) general(kind string) []gguf.KV {
	all := []gguf.KV{
		{Key: "general.architecture", Value: m.family.Arch}, {Key: "general.type", Value: kind},
		{Key: "general.name", Value: m.folder()}, {Key: "general.size_label", Value: gguf.SizeName(m.params())},
	}
	if n, ok := m.kind.fileType(); ok {
		all = append(all, gguf.KV{Key: "general.file_type", Value: n})
	}
	return append(all, gguf.KV{Key: "general.quantization_version", Value: uint32(quantizationVersion)})
}

// params returns the number of parameters.
func (m *Model) params() uint64 {
	n := uint64(0)
	for _, t := range m.targets {
		n += t.Elems()
	}
	return n
}

// embeddings returns the number of tokens that the model has embeddings for. Some checkpoints have them as the output
// matrix alone.
func (m *Model) embeddings() int {
	rows := func(name string) int {
		for _, t := range m.targets {
			if t.Name == name && len(t.Dims) == 2 {
				return int(min(t.Dims[1], math.MaxInt32))
			}
		}
		return 0
	}
	return cmp.Or(rows("token_embd.weight"), rows("output.weight"))
}

// templates returns the chat templates, from tokenizer_config.json or from a file of their own.
func (m *Model) templates() ([]gguf.KV, error) {
	const key = "tokenizer.chat_template"
	settings, err := hf.ReadFile(filepath.Join(m.dir, "tokenizer_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	value, _ := settings.Find("chat_template")
	if value == nil {
		text, err := safetensors.ReadText(filepath.Join(m.dir, "chat_template.jinja"))
		if err == nil {
			value = string(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if value == nil {
		other, err := hf.ReadFile(filepath.Join(m.dir, "chat_template.json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		value, _ = other.Find("chat_template")
	}
	switch value := value.(type) {
	case nil:
	case string:
		return []gguf.KV{{Key: key, Value: value}}, nil
	case []any:
		var all []gguf.KV
		var names []string
		for _, v := range value {
			o, _ := v.(map[string]any)
			name, isName := o["name"].(string)
			text, isText := o["template"].(string)
			switch {
			case !isName || !isText || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }):
				settings.Fail("chat_template has %.40v, want a name and a template", v)
			case name == "default":
				all = append(all, gguf.KV{Key: key, Value: text})
			default:
				names = append(names, name)
				all = append(all, gguf.KV{Key: key + "." + name, Value: text})
			}
		}
		if names != nil {
			all = append(all, gguf.KV{Key: "tokenizer.chat_templates", Value: names})
		}
		return all, settings.Err()
	default:
		settings.Fail("chat_template is %.40v, want a string", value)
	}
	return nil, settings.Err()
}

// sampling returns the parameters that generation_config.json recommends.
func (m *Model) sampling() []gguf.KV {
	c, err := hf.ReadFile(filepath.Join(m.dir, "generation_config.json"))
	if err != nil {
		return nil // these are recommendations, and many checkpoints have none
	}
	if on, set := c.Value("do_sample").(bool); set && !on {
		return nil
	}
	var all []gguf.KV
	for _, s := range []struct {
		from, to string
		whole    bool
	}{
		{"temperature", "temp", false}, {"top_k", "top_k", true}, {"top_p", "top_p", false}, {"min_p", "min_p", false},
		{"repetition_penalty", "penalty_repeat", false},
	} {
		v, ok := c.Value(s.from).(float64)
		if n, whole := hf.AsCount(v); ok && s.whole && whole {
			all = append(all, gguf.KV{Key: "general.sampling." + s.to, Value: int32(n)})
		} else if ok && !s.whole {
			all = append(all, gguf.KV{Key: "general.sampling." + s.to, Value: float32(v)})
		}
	}
	return all
}
