package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A golden is what the model says, as testdata/greedy.json has it.
type golden struct {
	Prompt string          `json:"prompt"`
	Chat   bool            `json:"chat,omitempty"` // the prompt is a user's message
	Text   string          `json:"text"`
	Finish generate.Finish `json:"finish"`
}

const goldenFile = "testdata/greedy.json"

// The likeliest texts are those that were read and committed, wherever the weights
// lie and however many threads there are.
func TestGreedyTexts(t *testing.T) {
	tok := vocabulary(t)
	say := func(e *engine.Engine, g golden) golden {
		prompt := g.Prompt
		if g.Chat {
			prompt = render(t, tok, true, user(g.Prompt))
		}
		g.Text, g.Finish = greedy(t, e, tok, prompt, 200)
		return g
	}
	if *update {
		e := open(t, 1, engine.Config{})
		var all []golden
		for _, g := range []golden{
			{}, {Prompt: "Once upon a time"}, {Prompt: "One day, a little dog"}, {Prompt: `"Where are you going?" asked the cat.`},
			{Prompt: "Tell me a story about a bird.", Chat: true}, {Prompt: "Hello!", Chat: true},
		} {
			all = append(all, say(e, g))
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(b, &all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d texts, %v", goldenFile, len(all), err)
	}
	for i, c := range []engine.Config{{}, {Residency: model.Mapped, Batch: 3}} {
		e := open(t, i+1, c)
		for _, want := range all {
			if got := say(e, want); got != want {
				t.Errorf("%d threads, %v:\ngot  %+v\nwant %+v", i+1, c.Residency, got, want)
			}
		}
	}
}

// A text is a sequence as package eval reads it.
type text struct {
	*engine.Engine
	seq *engine.Sequence
}

func (t text) Eval(ctx context.Context, ids []int32, from int, visit func(int, []float32) error) error {
	return t.Engine.Eval(ctx, t.seq, ids, from, visit)
}

func (t text) Fork() eval.Text { return text{t.Engine, t.seq.Fork()} }
func (t text) Close()          { t.seq.Close() }

// How well it predicts a text that it was not trained on is what it was, and
// coarser keys and values hardly change it.
func TestPerplexity(t *testing.T) {
	const name, bound = "testdata/heldout.txt", "testdata/heldout.ppl"
	heldOut, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tok := vocabulary(t)
	perplexity := func(kv kvcache.Types) float64 {
		e := open(t, 2, engine.Config{KV: kv})
		c := eval.Chunks{Ctx: 256, AddBOS: tok.AddBOS()}
		c.BOS, _ = tok.BOS()
		est, err := eval.Perplexity(t.Context(), func() eval.Text { return text{e, e.NewSequence()} },
			tok.Encode(string(heldOut), tokenizer.Options{}), c, nil, func(eval.Estimate) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return est.PPL
	}
	got := perplexity(kvcache.Types{})
	if *update {
		if err := os.WriteFile(bound, fmt.Appendf(nil, "%.4f\n", got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(bound)
	if err != nil {
		t.Fatal(err)
	}
	var want float64
	if _, err := fmt.Sscan(string(b), &want); err != nil {
		t.Fatalf("%s: %v", bound, err)
	}
	if math.Abs(got-want) > 1e-4*want {
		t.Errorf("perplexity %.4f, want %.4f", got, want)
	}
	if coarse := perplexity(kvcache.Both(kvcache.Q8)); math.Abs(coarse/got-1) > 0.005 {
		t.Errorf("perplexity %.4f with keys and values of 8 bits, %.4f with those of 16", coarse, got)
	}
}

func user(text string) chat.Message {
	return chat.Message{Role: "user", Content: chat.Text(text)}
}

func assistant(text string) chat.Message {
	return chat.Message{Role: "assistant", Content: chat.Text(text)}
}

// render makes the prompt of a conversation by the model's template.
func render(tb testing.TB, tok *tokenizer.Tokenizer, answer bool, messages ...chat.Message) string {
	tb.Helper()
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	source, err := f.Str("tokenizer.chat_template")
	if err != nil {
		tb.Fatal(err)
	}
	var tokens chat.SpecialTokens
	if id, ok := tok.BOS(); ok {
		tokens.BOS = tok.Token(id)
	}
	if id, ok := tok.EOS(); ok {
		tokens.EOS = tok.Token(id)
	}
	tmpl, err := chat.Parse(source, tokens)
	if err != nil {
		tb.Fatal(err)
	}
	prompt, err := tmpl.Render(chat.Input{Messages: messages, AddGenerationPrompt: answer})
	if err != nil {
		tb.Fatal(err)
	}
	return prompt.Text
}

// A conversation goes on where it was, so that nothing of it is computed twice,
// and an answer in it ends with a token at which a generation ends.
func TestChatTemplate(t *testing.T) {
	tok := vocabulary(t)
	system := chat.Message{Role: "system", Content: chat.Text("You tell stories.")}
	const answer = "A bird sat in a tree."
	for _, before := range [][]chat.Message{{user("Tell me a story.")}, {system, user("Tell me a story.")}} {
		first := render(t, tok, true, before...)
		second := render(t, tok, true, append(before, assistant(answer), user("And then?"))...)
		if !strings.Contains(first, "Tell me a story.") || len(before) > 1 && !strings.Contains(first, "You tell stories.") {
			t.Errorf("the prompt %q lacks a message", first)
		}
		if !strings.HasPrefix(second, first+answer) {
			t.Errorf("%q does not go on from %q", second, first)
		}
		ids := tok.Encode(strings.TrimPrefix(second, first+answer), tokenizer.Options{ParseSpecial: true, NoSpecial: true})
		if len(ids) == 0 || !tok.IsEOG(ids[0]) {
			t.Errorf("what follows an answer in %q does not begin with the end of one", second)
		}
	}
}
