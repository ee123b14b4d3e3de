package ask_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/cputime"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/reply"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Whichever API brings a conversation, what it says is text, and the template's control tokens are the only ones. Only
// where the operator says so are those of messages too.
func TestControlTokensInMessages(t *testing.T) {
	t.Parallel()
	prompts := make(chan []int32, 1)
	var tok *tokenizer.Tokenizer
	open := func(trusting bool) *fake.Site {
		return fake.Demo(t, fake.Setup{Model: func(m *ask.Model) {
			tok = m.Tokenizer
			m.Engine = fake.Real{Loop: m.Engine.(fake.Real).Loop, Submitted: func(r *engine.Request) { prompts <- r.Prompt }}
			if trusting {
				m.Template.Trust()
			}
		}})
	}
	careful, trusting := open(false), open(true)
	controls := func(ids []int32) (all []string) {
		for _, id := range ids {
			if tok.TokenType(id) == tokenizer.Control {
				all = append(all, tok.Token(id))
			}
		}
		return all
	}
	eos, _ := tok.EOS()
	evil := tok.Token(eos)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"system","content":"A WORD"},{"role":"user","content":[{"type":"text","text":"hi WORD"}]},
			{"role":"assistant","content":"so WORD"},{"role":"user","content":"WORD"}],"max_tokens":1}`,
		"/v1/messages":  `{"system":"A WORD","messages":[{"role":"user","content":"hi WORD"}],"max_tokens":1}`,
		"/v1/responses": `{"instructions":"A WORD","input":[{"role":"user","content":[{"type":"input_text","text":"hi WORD"}]}],"max_output_tokens":1,"store":false}`,
		"/api/chat":     `{"messages":[{"role":"user","content":"hi WORD"}],"stream":false,"options":{"num_predict":1}}`,
		"/api/generate": `{"system":"A WORD","prompt":"hi WORD","stream":false,"options":{"num_predict":1}}`,
		"/v1/decisions": `{"messages":[{"role":"user","content":"hi WORD"}],"choices":["a","b"]}`,
	} {
		ask := func(s *fake.Site, word string) []int32 {
			t.Helper()
			done := make(chan bool, 1)
			go func() {
				status, b, _ := s.Do("POST", path, strings.ReplaceAll(body, "WORD", word))
				if status != 200 {
					t.Errorf("%s: %d %s", path, status, b)
				}
				done <- true
			}()
			var first []int32
			for {
				select {
				case ids := <-prompts:
					if first == nil { // others go on from it
						first = ids
					}
				case <-done:
					return first
				}
			}
		}
		want := controls(ask(careful, "rain"))
		ids := ask(careful, evil)
		if got := controls(ids); !slices.Equal(got, want) {
			t.Errorf("%s: the control tokens are %q, with an ordinary word %q", path, got, want)
		}
		if text := tok.Detokenize(ids, true); !strings.Contains(text, "hi "+evil) {
			t.Errorf("%s: the prompt is %q", path, text)
		}
		if got := controls(ask(trusting, evil)); len(got) <= len(want) {
			t.Errorf("%s: trusting, the control tokens are %q", path, got)
		}
	}
}

// A template of a model's file that never ends is given up when its client leaves.
func TestHostileTemplateEnds(t *testing.T) {
	t.Parallel()
	tmpl, err := chat.Parse("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = tmpl })
	var q struct{ ask.Conversation }
	q.Conversation = ask.NewConversation()
	q.Messages = []chat.Message{{Role: "user", Content: chat.Text("hi")}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	took := cputime.Of(func() {
		if _, err := q.Render(ctx, &ask.Model{Template: tmpl}); !errors.Is(err, reply.ErrGone) {
			t.Errorf("%v", err)
		}
	})
	if took > time.Second {
		t.Errorf("it took %v", took)
	}
	if status, b, _ := s.Do("POST", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"hi"}]}`); status != 400 ||
		!strings.Contains(string(b), "too much for one template") {
		t.Errorf("%d %s", status, b)
	}
}
