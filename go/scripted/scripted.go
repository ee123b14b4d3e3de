// Package scripted makes models for tests that say known texts: real GGUF files, run by
// the real engine, whose weights are chosen so that each token of a script makes the next
// one the likeliest by far, at any usual temperature.
package scripted

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/gguf"
)

// A Script is an answer, and when it is given.
type Script struct {
	When string // a condition in Jinja on the variables of a chat template; "": always
	Text string // the answer
}

// A Model answers by the first script whose condition holds. Where the output is
// constrained to something else, it says what ends JSON soonest.
type Model struct {
	Template string   // a chat template; its prompts end with a token that tells which script is meant
	Opens    string   // what prompts have after that token: a control token with which the only script begins
	Controls []string // texts that are control tokens. A script has each once, and no other has it.
	Scripts  []Script
}

const (
	end   = "<|end_of_script|>"
	width = 1 << 10 // of the embedding, and of the codes
)

// Start is the text of the token that makes a model say its i-th script.
func Start(i int) string { return fmt.Sprintf("<|script_%d|>", i) }

// Source is the chat template of the model.
func (m *Model) Source() string {
	var b strings.Builder
	b.WriteString(m.Template + "{% if add_generation_prompt %}")
	for i, s := range m.Scripts {
		when := s.When
		if when == "" {
			when = "true"
		}
		fmt.Fprintf(&b, "{%% %s %s %%}%s", map[bool]string{true: "if", false: "elif"}[i == 0], when, Start(i)+m.Opens)
	}
	b.WriteString("{% endif %}{% endif %}")
	return b.String()
}

// A builder collects the vocabulary and which token follows which.
type builder struct {
	tokens []string
	types  []int32
	ids    map[string]int32
	next   map[int32]int32
}

func (b *builder) add(text string, kind int32) int32 {
	id := int32(len(b.tokens))
	b.tokens = append(b.tokens, text)
	b.types = append(b.types, kind)
	b.ids[text] = id
	return id
}

// Kinds of tokens, as GGUF numbers them.
const (
	normal  = 1
	control = 3
)

// GGUF returns the file.
func (m *Model) GGUF() ([]byte, error) {
	b := &builder{ids: map[string]int32{}, next: map[int32]int32{}}
	for c := range 256 {
		b.add(spell(string([]byte{byte(c)})), normal)
	}
	eos := b.add(end, control)
	for _, c := range m.Controls {
		b.add(c, control)
	}
	for i := range m.Scripts {
		b.add(Start(i), control)
	}
	for i, s := range m.Scripts {
		if err := b.script(b.ids[Start(i)], s.Text, m.Controls, eos); err != nil {
			return nil, fmt.Errorf("script %d: %w", i, err)
		}
	}
	if len(b.tokens) >= width {
		return nil, fmt.Errorf("the scripts need %d tokens, want less than %d", len(b.tokens), width)
	}
	return b.file(m.Source(), eos)
}

// script adds the tokens of a text. Each is new, so that what follows it is known.
func (b *builder) script(from int32, text string, controls []string, eos int32) error {
	follow := func(id int32) error {
		if _, twice := b.next[from]; twice {
			return fmt.Errorf("%q comes twice", b.tokens[from])
		}
		b.next[from] = id
		from = id
		return nil
	}
	for text != "" {
		at, mark := len(text), ""
		for _, c := range controls {
			if i := strings.Index(text, c); i >= 0 && i < at {
				at, mark = i, c
			}
		}
		for _, piece := range b.cut(text[:at]) {
			if err := follow(b.add(spell(piece), normal)); err != nil {
				return err
			}
		}
		if mark != "" {
			if err := follow(b.ids[mark]); err != nil {
				return err
			}
		}
		text = text[at+len(mark):]
	}
	return follow(eos)
}

// cut cuts a text into pieces of some characters, of which none is a token already.
func (b *builder) cut(text string) (pieces []string) {
	seen := map[string]bool{}
	fresh := func(piece string) bool {
		_, old := b.ids[spell(piece)]
		return !old && !seen[piece]
	}
	for text != "" {
		n := 0
		for k := 0; n < len(text) && (k < 4 || !fresh(text[:n])); k++ {
			_, size := utf8.DecodeRuneInString(text[n:])
			n += size
		}
		piece := text[:n]
		for !fresh(piece) && len(pieces) > 0 { // at the end: a part of the piece before
			last := len(pieces) - 1
			delete(seen, pieces[last])
			piece, pieces = pieces[last]+piece, pieces[:last]
		}
		seen[piece] = true
		pieces = append(pieces, piece)
		text = text[n:]
	}
	return pieces
}

// spell writes bytes as byte-level vocabularies do.
func spell(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(spelling[text[i]])
	}
	return b.String()
}

var spelling = func() (table [256]rune) {
	stand := rune(0x100)
	for c := range rune(256) {
		if c >= '!' && c <= '~' || c >= 0xa1 && c != 0xad {
			table[c] = c
		} else {
			table[c] = stand
			stand++
		}
	}
	return table
}()

// code is the i-th of width vectors of ones and minus ones that are orthogonal.
func code(i int) []float32 {
	v := make([]float32, width)
	for k := range v {
		v[k] = 1 - 2*float32(bits.OnesCount(uint(i&k))&1)
	}
	return v
}

// Logits, apart from rounding: of the token that follows, and of those that are said where it
// may not be, best first, each a step above the next. All others have 0. A step of 20 leaves the next
// 2e-9 at a temperature of 1: with 5 one answer of some hundred was another.
const (
	likeliest = 300
	step      = 20
)

var otherwise = []string{end, `"`, "}", "]", ")", ">", "{", "[", ":", ",", "0", "e", "a"}

// file writes the model. A token's embedding is its code and the code 0, the layer adds
// nothing, and the output is the products with the codes.
func (b *builder) file(template string, eos int32) ([]byte, error) {
	n := len(b.tokens)
	embd, out := make([]float32, n*width), make([]float32, n*width)
	const scale = float32(1.4142135) / width // the norm divides by the root of 2
	constant := code(0)
	for i := range n {
		own := code(i + 1)
		for k := range own {
			embd[i*width+k] = own[k] + constant[k]
		}
		if to, ok := b.next[int32(i)]; ok {
			for k := range own {
				out[int(to)*width+k] += likeliest * scale * own[k]
			}
		}
	}
	for rank, text := range otherwise {
		id, ok := b.ids[text]
		if !ok {
			id = b.ids[spell(text)]
		}
		for k := range width {
			out[int(id)*width+k] += float32(step*(len(otherwise)-rank)) * scale
		}
	}

	g := gguf.NewWriter()
	for key, value := range map[string]any{
		"block_count": uint32(1), "context_length": uint32(4096), "embedding_length": uint32(width),
		"feed_forward_length": uint32(32), "attention.head_count": uint32(1), "attention.head_count_kv": uint32(1),
		"attention.key_length": uint32(32), "attention.value_length": uint32(32),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.dimension_count": uint32(32), "vocab_size": uint32(n),
	} {
		g.Set("llama."+key, value)
	}
	g.Set("general.architecture", "llama")
	g.Set("general.name", "scripted")
	g.Set("tokenizer.ggml.model", "gpt2")
	g.Set("tokenizer.ggml.pre", "default")
	g.Set("tokenizer.ggml.tokens", b.tokens)
	g.Set("tokenizer.ggml.token_type", b.types)
	g.Set("tokenizer.ggml.merges", []string{})
	g.Set("tokenizer.ggml.eos_token_id", uint32(eos))
	g.Set("tokenizer.ggml.bos_token_id", uint32(eos))
	g.Set("tokenizer.ggml.add_bos_token", false)
	g.Set("tokenizer.chat_template", template)
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	for _, t := range []struct {
		name       string
		cols, rows int
		values     []float32 // nil: zeros
	}{
		{"token_embd.weight", width, n, embd},
		{"blk.0.attn_norm.weight", width, 0, ones},
		{"blk.0.attn_q.weight", width, 32, nil}, {"blk.0.attn_k.weight", width, 32, nil}, {"blk.0.attn_v.weight", width, 32, nil},
		{"blk.0.attn_output.weight", 32, width, nil},
		{"blk.0.ffn_norm.weight", width, 0, ones},
		{"blk.0.ffn_gate.weight", width, 32, nil}, {"blk.0.ffn_up.weight", width, 32, nil}, {"blk.0.ffn_down.weight", 32, width, nil},
		{"output_norm.weight", width, 0, ones},
		{"output.weight", width, n, out},
	} {
		dims := []uint64{uint64(t.cols)}
		if t.rows > 0 {
			dims = append(dims, uint64(t.rows))
		}
		values := t.values
		if values == nil {
			values = make([]float32, t.cols*t.rows)
		}
		data, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			return nil, err
		}
		g.AddTensor(t.name, gguf.F32, dims, gguf.Bytes(data))
	}
	var file bytes.Buffer
	_, err := g.WriteTo(&file)
	return file.Bytes(), err
}
