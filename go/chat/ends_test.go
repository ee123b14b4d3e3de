package chat

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// special is what special tokens look like in templates.
var special = regexp.MustCompile(`<quern-eos>|<\|[^<>|]+\|>|<\x{ff5c}[^<>\x{ff5c}]+\x{ff5c}>|<[a-z_]+\|>|<\|[a-z_]+>|</?[a-z_]+>|\[\|[a-z]+\|\]|\[e~\[`)

// What a template writes after an answer that is followed by a question ends a generation, where that is a special token: it is the
// model's EOS, or its text says so, whatever the file's EOS is.
func TestRepliesEnd(t *testing.T) {
	const said, next = "quernsaid", "quernnext"
	tokens := SpecialTokens{BOS: "<quern-bos>", EOS: "<quern-eos>"}
	all := templates(t)
	for name := range builtins {
		all["built in: "+name] = builtins[name]
	}
	ended := 0
	for name, source := range all {
		tmpl, err := Parse(source, tokens)
		if err != nil {
			t.Fatal(err)
		}
		in := input(t, `[{"role":"user","content":"Hello"},{"role":"assistant","content":"`+said+`"},{"role":"user","content":"`+next+`"}]`, `{"functions":"","datetime":""}`, now)
		text, _, err := tmpl.prompt(in)
		var refused *RequestError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, after, ok := strings.Cut(text, said)
		if !ok {
			t.Errorf("%s: no answer in %q", name, text)
			continue
		}
		after, _, _ = strings.Cut(after, next)
		written := special.FindAllString(after, -1)
		if len(written) == 0 || byFile[written[0]] != "" {
			continue
		}
		ended++
		stops := ends(t, append(special.FindAllString(source, -1), written...))
		if !slices.ContainsFunc(written, func(text string) bool { return stops[text] }) {
			t.Errorf("%s: replies end with %q, which does not stop them", name, written)
		}
	}
	if ended < 60 {
		t.Errorf("only %d of %d templates write an end", ended, len(all))
	}
}

// byFile are what templates write behind answers that only files tell to be an end, and which key of theirs, or is none.
var byFile = map[string]string{
	"<|user|>":        "of GLM, whose EOT and EOM are the beginnings of turns; of Falcon 3 none: its EOS is not written",
	"<role>":          "of Ling 1, whose EOS is not written",
	"<|message_sep|>": "EOS of GigaChat",
	"<|separator|>":   "EOS of Grok 2",
	"<|eos|>":         "EOS of Hunyuan",
	"<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>": "EOS of Hunyuan",
	"<step>":       "EOS of Code Llama 70B",
	"</assistant>": "EOS of Laguna",
}

// ends returns the texts of the tokens that end replies, in a vocabulary with these special tokens.
func ends(t *testing.T, special []string) map[string]bool {
	w := gguf.NewWriter()
	texts, types, seen := []string{"<quern-eos>"}, []int32{3}, map[string]bool{"<quern-eos>": true}
	for _, text := range special {
		if !seen[text] {
			seen[text] = true
			texts, types = append(texts, text), append(types, 3)
		}
	}
	for _, r := range "abc" {
		texts, types = append(texts, string(r)), append(types, 1)
	}
	w.Set("tokenizer.ggml.model", "gpt2")
	w.Set("tokenizer.ggml.pre", "gpt-2")
	w.Set("tokenizer.ggml.tokens", texts)
	w.Set("tokenizer.ggml.token_type", types)
	w.Set("tokenizer.ggml.merges", []string{"a b"})
	w.Set("tokenizer.ggml.eos_token_id", uint32(0))
	var b strings.Builder
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, id := range tok.EOG() {
		found[texts[id]] = true
	}
	return found
}
