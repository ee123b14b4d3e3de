package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMetadata reads what the files of a checkpoint say beside config.json and the tokenizer: chat templates, recommended
// parameters of sampling, and how vectors are pooled.
func TestMetadata(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string // keys with one of these beginnings: their lines, in order
	}{
		{"nothing", map[string]string{"tokenizer_config.json": `{}`}, nil},
		{"a template", nil, []string{"tokenizer.chat_template {{ messages }}"}},
		{"a template of its own file", map[string]string{"tokenizer_config.json": `{}`, "chat_template.jinja": "{{ a }}"},
			[]string{"tokenizer.chat_template {{ a }}"}},
		{"an older file", map[string]string{"tokenizer_config.json": `{}`, "chat_template.json": `{"chat_template": "{{ b }}"}`},
			[]string{"tokenizer.chat_template {{ b }}"}},
		{"the default of a list", map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "default", "template": "x"}]}`},
			[]string{"tokenizer.chat_template x"}},
		{"a list", map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "y"}, {"name": "default", "template": "x"}, {"name": "tool_use", "template": "z"}]}`},
			[]string{"tokenizer.chat_template.rag y", "tokenizer.chat_template x", "tokenizer.chat_template.tool_use z", "tokenizer.chat_templates [rag tool_use]"}},
		{"sampling", map[string]string{"tokenizer_config.json": `{}`, "generation_config.json": `{"temperature": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0.25,
"repetition_penalty": 1.5, "max_length": 9}`},
			[]string{"general.sampling.temp 0.5", "general.sampling.top_k 20", "general.sampling.top_p 0.75", "general.sampling.min_p 0.25", "general.sampling.penalty_repeat 1.5"}},
		{"half of a token", map[string]string{"tokenizer_config.json": `{}`, "generation_config.json": `{"top_k": 1.5, "top_p": "1", "do_sample": true, "min_p": 0.5}`},
			[]string{"general.sampling.min_p 0.5"}},
		{"no sampling", map[string]string{"tokenizer_config.json": `{}`, "generation_config.json": `{"temperature": 0.5, "do_sample": false}`}, nil},
		{"no advice", map[string]string{"tokenizer_config.json": `{}`, "generation_config.json": `{`}, nil},
		{"the mean", map[string]string{"tokenizer_config.json": `{}`, "modules.json": `[{"type": "Pooling"}]`, "1_Pooling/config.json": `{"pooling_mode_mean_tokens": true}`},
			[]string{"qwen3.pooling_type 1"}},
		{"the first token", map[string]string{"tokenizer_config.json": `{}`, "modules.json": `[{"type": "Pooling"}]`,
			"1_Pooling/config.json": `{"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true}`}, []string{"qwen3.pooling_type 2"}},
		{"the last token", map[string]string{"tokenizer_config.json": `{}`, "modules.json": `[{"type": "Pooling"}]`, "1_Pooling/config.json": `{"pooling_mode_lasttoken": true}`},
			[]string{"qwen3.pooling_type 3"}},
		{"another module", map[string]string{"tokenizer_config.json": `{}`, "modules.json": `[{"type": "Normalize"}]`, "1_Pooling/config.json": `{"pooling_mode_lasttoken": true}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			readCheckpoint(t, "qwen3").write(t, dir)
			for name, text := range c.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				save(t, dir, name, text)
			}
			m := must(Open(dir, Options{Type: "f16"}))
			defer m.Close()
			var got []string
			for _, kv := range m.keys {
				if key := kv.Key; strings.HasPrefix(key, "tokenizer.chat_template") || strings.HasPrefix(key, "general.sampling") || strings.HasSuffix(key, "pooling_type") {
					got = append(got, fmt.Sprintf("%s %v", key, kv.Value))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for _, text := range []string{`[{"name": "a b", "template": "x"}]`, `[{"template": "x"}]`, `[{"name": "a"}]`, `[7]`, `{}`} {
		dir := t.TempDir()
		readCheckpoint(t, "qwen3").write(t, dir)
		save(t, dir, "tokenizer_config.json", `{"chat_template": `+text+`}`)
		_, err := Open(dir, Options{})
		refused(t, text, err, "tokenizer_config.json", "chat_template")
	}
}

// TestTypes converts to each type that matrices can be written in, and to a mix.
func TestTypes(t *testing.T) {
	dir := t.TempDir()
	readCheckpoint(t, "qwen3").write(t, dir)
	for _, c := range []struct {
		typ, name, matrix string
		file              any // general.file_type
	}{
		{"", "f32", "F32", uint32(0)}, {"auto", "f32", "F32", uint32(0)}, {"F16", "f16", "F16", uint32(1)}, {"bf16", "bf16", "BF16", uint32(32)},
		{"q8_0", "q8_0", "Q8_0", uint32(7)}, {"q4_0", "q4_0", "Q4_0", uint32(2)},
	} {
		if err := CheckType(c.typ); err != nil {
			t.Errorf("%s: %v", c.typ, err)
		}
		m := must(Open(dir, Options{Type: c.typ}))
		if got := m.Name(); got != filepath.Base(dir)+"-"+c.name {
			t.Errorf("%s: the name %s", c.typ, got)
		}
		f := written(t, &m.output)
		x, _ := f.Tensor("blk.0.ffn_up.weight")
		norm, _ := f.Tensor("blk.0.ffn_norm.weight")
		if v, _ := f.Value("general.file_type"); v != c.file || x.Type.String() != c.matrix || norm.Type.String() != "F32" {
			t.Errorf("%s: a matrix of %s, a norm of %s, the file type %v", c.typ, x.Type, norm.Type, v)
		}
		size := uint64(0)
		for _, x := range f.Tensors {
			size += uint64(len(x.Data))
		}
		if m.Size() != size {
			t.Errorf("%s: %d bytes, want %d", c.typ, m.Size(), size)
		}
		m.Close()
	}
	for _, typ := range []string{"q9_9", "i8"} {
		refused(t, typ, CheckType(typ), typ, "q8_0")
		_, err := Open(dir, Options{Type: typ})
		refused(t, typ, err, typ, "q8_0")
	}
}

// TestPre names the pre-tokenizer of a tokenizer that does not, which has to be one that this program has.
func TestPre(t *testing.T) {
	dir := t.TempDir()
	readCheckpoint(t, "qwen3").write(t, dir)
	save(t, dir, "tokenizer.json", strings.Replace(smallTokenizer(512), `p{L}+`, `p{L}{2,7}`, 1))
	f := must(converted(t, dir, Options{Pre: "qwen2"}))
	if pre, err := f.Str("tokenizer.ggml.pre"); pre != "qwen2" {
		t.Errorf("the pre-tokenizer %q, %v", pre, err)
	}
	_, err := Open(dir, Options{Pre: "nonsense"})
	refused(t, "another", err, dir, "nonsense")
}
