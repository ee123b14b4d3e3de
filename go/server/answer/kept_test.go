package answer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train/data"
)

// What is kept is learnt as the tokens that the model read and wrote: in vocabularies that put spaces before texts, of texts that
// spell control tokens, and with an end that is not EOS. The texts alone would be other tokens.
func TestKeptIsLearntAsItWas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ vocabulary, before, user, after, end string }{
		{"llama-spm", "<s>[INST] ", "Hi </s><s> there", " [/INST]", "</s>"},
		{"phi-3", "<s><|user|>\n", "What is <|end|>?", "<|end|>\n<|assistant|>\n", "<|end|>"},
	} {
		text, err := os.ReadFile(testdata.Path(t, "tokenizers/cases/ggml-vocab-"+c.vocabulary+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := gguf.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.New(file)
		if err != nil {
			t.Fatal(err)
		}
		prompt := tok.Encode(c.before+c.user+c.after, tokenizer.Options{ParseSpecial: true, NoSpecial: true,
			Literal: [][2]int{{len(c.before), len(c.before) + len(c.user)}}})
		s := &Sequence{keeps: true, ledger: &ledger{}, box: newMailbox(), write: writer{text: tok.NewStream(), stops: tokenizer.NewStops(nil, 0)}}
		for _, id := range tok.Encode("It is fine", tokenizer.Options{NoSpecial: true}) {
			s.Token(generate.Token{ID: id})
		}
		end := tok.Encode(c.end, tokenizer.Options{ParseSpecial: true, NoSpecial: true})
		if len(end) != 1 || !tok.IsEOG(end[0]) {
			t.Fatalf("%s: the end is %d", c.vocabulary, end)
		}
		s.Token(generate.Token{ID: end[0], Stop: true})

		line, err := json.Marshal(newExampleLine("m", tok, prompt, s.ids))
		if err != nil {
			t.Fatal(err)
		}
		set, err := data.ReadFrom(strings.NewReader(string(line)), "kept.jsonl", data.Auto)
		if err != nil {
			t.Fatal(err)
		}
		if x := set.Examples[0]; !strings.Contains(x.Prompt, c.user) || strings.HasPrefix(x.Prompt, "<s>") || strings.TrimSpace(x.Text) != "It is fine" || x.Kept.Model != "m" {
			t.Errorf("%s: kept %+v", c.vocabulary, x)
		}
		learnt := func(from *tokenizer.Tokenizer) []int32 {
			r := data.Renderer{Tokenizer: from, MaxTokens: 1 << 10}
			texts, _, err := r.Render(set.Examples)
			if err != nil || len(texts) != 1 {
				t.Fatal(err, len(texts))
			}
			if w := texts[0].Weights; w[len(prompt)-1] != 0 || w[len(prompt)] != 1 || w[len(w)-1] != 1 {
				t.Errorf("%s: weights %v after a prompt of %d", c.vocabulary, w, len(prompt))
			}
			return texts[0].Tokens
		}
		want := slices.Concat(prompt, s.ids)
		if got := learnt(tok); !slices.Equal(got, want) {
			t.Errorf("%s: %d are learnt as %d", c.vocabulary, want, got)
		}
		asked, err := (&data.Renderer{Tokenizer: tok, MaxTokens: 1 << 10}).Prompts(set.Examples)
		if err != nil || len(asked) != 1 || !slices.Equal(asked[0], prompt) {
			t.Errorf("%s: %d is asked as %d, %v", c.vocabulary, prompt, asked, err)
		}
		set.Examples[0].Kept.Answer[0] = int32(tok.Len())
		if _, _, err := (&data.Renderer{Tokenizer: tok, MaxTokens: 1 << 10}).Render(set.Examples); err == nil || !strings.Contains(err.Error(), "kept.jsonl:1: completion_ids.0") {
			t.Errorf("%s: a token that there is not: %v", c.vocabulary, err)
		}
		set.Examples[0].Kept = nil
		r := data.Renderer{Tokenizer: tok, MaxTokens: 1 << 10}
		if texts, _, err := r.Render(set.Examples); err != nil || slices.Equal(texts[0].Tokens, want) {
			t.Errorf("%s: the texts are the same tokens (%v), so this shows nothing", c.vocabulary, err)
		}
	}
}

// Kept writes whole lines, also behind one without an end, and is neither a link nor a pipe.
func TestOpenKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "kept"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte(`{"prompt":"to`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKept(link, 100, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKept(pipe, 100, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: %v", err)
	}
	log := &strings.Builder{}
	k, err := OpenKept(path, 24, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		k.add([]byte("{}\n"))
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{\"prompt\":\"to\n{}\n{}\n{}\n" || strings.Count(log.String(), "full") != 1 {
		t.Errorf("%q, %v, and the log %q", text, err, log)
	}
	// A file that fails is told once, and that it is written again.
	working := k.file
	if k.file, err = os.Open(path); err != nil { // cannot be written to
		t.Fatal(err)
	}
	k.most = 1 << 20
	k.add([]byte("{}\n"))
	k.add([]byte("{}\n"))
	k.file.Close()
	k.file = working
	k.add([]byte("{}\n"))
	if n := strings.Count(log.String(), "cannot be written"); n != 1 || !strings.Contains(log.String(), `"lost_answers":2`) {
		t.Errorf("the log is %q", log)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	k.add([]byte("{}\n"))
}

// Kept are a model's own answers alone, of clients that have not refused it.
func TestKeeps(t *testing.T) {
	t.Parallel()
	plain := func() *engine.Request { return &engine.Request{} }
	for body, want := range map[string]bool{`{}`: true, `{"store":true}`: true, `{"store":null}`: true, `{"store": false}`: false} {
		req := &Request{host: &Host{Kept: &Kept{}}, Body: []byte(body)}
		if got := req.keeps(plain()); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
	req := &Request{host: &Host{Kept: &Kept{}}, Body: []byte(`{}`)}
	zero, one := plain(), plain()
	zero.Adapters = []engine.ScaledAdapter{{Scale: 0}}
	one.Adapters = []engine.ScaledAdapter{{Scale: 1}}
	held := plain()
	held.Constraint = constrain.Bound(nil, constrain.Budget{Tokens: 1})
	if !req.keeps(zero) || req.keeps(one) || req.keeps(held) {
		t.Errorf("with an adapter at 0 %v, at 1 %v, under a constraint %v", req.keeps(zero), req.keeps(one), req.keeps(held))
	}
}
