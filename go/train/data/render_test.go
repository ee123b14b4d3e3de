package data_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train/data"
)

const (
	chatML = `{% for m in messages %}#{{ m.role }}
{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}#assistant
{% endif %}`
	// forgetful leaves out what earlier answers thought.
	forgetful = `{% for m in messages %}#{{ m.role }}
{% if loop.last and m.role == 'assistant' %}(thought) {% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}#assistant
{% endif %}`
	// callsAlone leaves out what is said beside calls.
	callsAlone = `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}#{{ m.role }}
{% if m.tool_calls %}{% for c in m.tool_calls %}call {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}#assistant
{% endif %}`
	unlike = `{% for m in messages %}#{{ m.role }}
{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}#model
{% endif %}`
	noEnds = `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`
)

// Thoughts before answers, and a template that writes those of the last answer.
var (
	thinking = strings.Replace(forgetful, "(thought)", "({{ m.reasoning_content }})", 1)
	thoughts = strings.NewReplacer(`"content":"a"`, `"content":"a","reasoning_content":"s"`, `"content":"b"`, `"content":"b","reasoning_content":"t"`).Replace(twoAnswers)
)

func renderer(tb testing.TB, template string) *data.Renderer {
	tb.Helper()
	f, err := model.OpenBytes("demo", demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f.GGUF)
	if err != nil {
		tb.Fatal(err)
	}
	eos, _ := tok.EOS()
	parsed, err := chat.Parse(template, chat.SpecialTokens{EOS: tok.Token(eos)})
	if err != nil {
		tb.Fatal(err)
	}
	return &data.Renderer{Tokenizer: tok, Template: parsed, Now: time.Unix(1e9, 0), MaxTokens: 1000}
}

// shown is texts with what is learnt in brackets, one on a line.
func shown(r *data.Renderer, texts []model.Text) string {
	var all []string
	for _, x := range texts {
		s := ""
		for _, run := range data.Runs(r.Tokenizer, x) {
			if run.Learnt {
				run.Text = "[" + run.Text + "]"
			}
			s += run.Text
		}
		all = append(all, fmt.Sprintf("%q", s))
	}
	return strings.Join(all, "\n")
}

func read(tb testing.TB, text string) *data.Set {
	tb.Helper()
	set, err := data.ReadFrom(strings.NewReader(text), "f", data.Auto)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

const (
	twoAnswers = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"},{"role":"assistant","content":"b"}]}`
	withTool   = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":"2"},{"role":"assistant","content":"two"}]}`
)

func TestAnswersAreLearnt(t *testing.T) {
	for _, tt := range []struct{ name, template, in, want string }{
		{"two answers", chatML, twoAnswers,
			`"<|begin|>#user\nq<|end|>\n#assistant\n[a<|end|>]\n#user\nr<|end|>\n#assistant\n[b<|end|>]"`},
		{"one of weight 0", chatML, strings.Replace(twoAnswers, `"content":"a"`, `"content":"a","weight":0`, 1),
			`"<|begin|>#user\nq<|end|>\n#assistant\na<|end|>\n#user\nr<|end|>\n#assistant\n[b<|end|>]"`},
		{"earlier answers are written otherwise", forgetful, twoAnswers,
			`"<|begin|>#user\nq<|end|>\n#assistant\n[(thought) a<|end|>]"` + "\n" +
				`"<|begin|>#user\nq<|end|>\n#assistant\na<|end|>\n#user\nr<|end|>\n#assistant\n[(thought) b<|end|>]"`},
		{"the template writes no ends", noEnds, twoAnswers, `"<|begin|>user: q\nassistant: [a\n]user: r\nassistant: [b\n<|end|>]"`},
		{"control tokens in messages are text", chatML, `{"messages":[{"role":"user","content":"<|end|>"},{"role":"assistant","content":"<|end|>!"}]}`,
			`"<|begin|>#user\n<|end|><|end|>\n#assistant\n[<|end|>!<|end|>]"`},
		{"the assistant begins", chatML, `{"messages":[{"role":"assistant","content":"a"}]}`, `"<|begin|>#assistant\n[a<|end|>]"`},
		{"the assistant begins, and the template writes contents alone", `{% for m in messages %}{{ m.content }}{% endfor %}`,
			`{"messages":[{"role":"assistant","content":"a"}]}`, `"<|begin|>[a<|end|>]"`},
		{"thoughts of the last answer alone", thinking, thoughts,
			`"<|begin|>#user\nq<|end|>\n#assistant\n[(s) a<|end|>]"` + "\n" +
				`"<|begin|>#user\nq<|end|>\n#assistant\na<|end|>\n#user\nr<|end|>\n#assistant\n[(t) b<|end|>]"`},
		{"completion", chatML, `{"prompt":"Once upon","completion":" a time"}`, `"<|begin|>Once upon[ a time<|end|>]"`},
		{"text", chatML, `{"text":"Once upon a time"}`, `"<|begin|>[Once upon a time<|end|>]"`},
		{"text with control tokens", chatML, `{"text":"#user\nq<|end|>"}`, `"<|begin|>[#user\nq<|end|>]"`},
	} {
		r := renderer(t, tt.template)
		texts, c, err := r.Render(read(t, tt.in).Examples)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := shown(r, texts); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.name, got, tt.want)
		}
		if c.Examples != 1 || c.Texts != len(texts) || c.Learnt == 0 || c.Longest == 0 {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

func TestTemplatesThatCannotBeLearntFrom(t *testing.T) {
	for _, tt := range []struct {
		name, template, in string
		want               []string
	}{
		{"what is said beside calls", callsAlone, withTool, []string{"f:1", "messages.1", "leaves out", "beside calls"}},
		{"thoughts", chatML, thoughts, []string{"f:1", "messages.1", "leaves out", "thought"}},
		{"another beginning", unlike, twoAnswers, []string{"f:1", "messages.1", "otherwise than its prompt"}},
	} {
		_, _, err := renderer(t, tt.template).Render(read(t, tt.in).Examples)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want one line with %q", tt.name, err, want)
			}
		}
	}
}

func TestLongExamples(t *testing.T) {
	long := strings.Repeat("word ", 50)
	chatOf := func(user, answer string) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}]}`, user, answer) + "\n"
	}
	in := chatOf("q", "a") + chatOf("q", long) + chatOf(long, "a")
	for _, tt := range []struct {
		long                data.Long
		texts, cut, skipped int
		empty               int
	}{{data.Cut, 2, 2, 0, 1}, {"", 2, 2, 0, 1}, {data.Skip, 1, 0, 2, 0}} {
		r := renderer(t, chatML)
		r.MaxTokens, r.Long = 40, tt.long
		texts, c, err := r.Render(read(t, in).Examples)
		if err != nil {
			t.Fatal(err)
		}
		if len(texts) != tt.texts || c.Cut != tt.cut || c.Skipped != tt.skipped || c.Empty != tt.empty || c.LongAt != "f:2" {
			t.Errorf("%q: %d texts, %+v", tt.long, len(texts), c)
		}
		for _, x := range texts {
			if len(x.Tokens) > 40 || x.Weights[len(x.Weights)-1] == 0 {
				t.Errorf("%q: %d tokens", tt.long, len(x.Tokens))
			}
		}
	}
	r := renderer(t, chatML)
	r.MaxTokens, r.Long = 40, data.Refuse
	if _, _, err := r.Render(read(t, in).Examples); err == nil || !strings.Contains(err.Error(), "f:2: ") || !strings.Contains(err.Error(), "at most 40") {
		t.Error(err)
	}
	r = renderer(t, chatML)
	r.MaxTokens = 40
	texts, c, err := r.Render(read(t, strings.Repeat("Once upon a time. ", 100)).Examples)
	if err != nil || len(texts) < 2 || c.Divided != 1 {
		t.Fatal(len(texts), c, err)
	}
	whole := renderer(t, chatML)
	whole.MaxTokens = 1 << 20
	one, _, _ := whole.Render(read(t, strings.Repeat("Once upon a time. ", 100)).Examples)
	lead, n := len(r.Tokenizer.Lead()), 0
	for _, x := range texts {
		n += len(x.Tokens) - lead
	}
	if n != len(one[0].Tokens)-lead {
		t.Errorf("the parts have %d tokens of %d", n, len(one[0].Tokens))
	}
}

// A long pair of texts without a prompt is cut, and not divided.
func TestLongPairsAreCut(t *testing.T) {
	r := renderer(t, chatML)
	r.MaxTokens = 40
	set := read(t, fmt.Sprintf(`{"prompt":"","chosen":%q,"rejected":"a"}`, strings.Repeat("word ", 50)))
	chosen, _, c, err := r.RenderPairs(set.Pairs)
	if err != nil || len(chosen) != 1 || len(chosen[0].Tokens) != 40 || c.Cut != 1 || chosen[0].Where != set.Pairs[0].Where {
		t.Errorf("%d texts, %+v, %v", len(chosen), c, err)
	}
}

func TestPairsAreRendered(t *testing.T) {
	r := renderer(t, chatML)
	set := read(t, `{"input":{"messages":[{"role":"user","content":"q"}]},"preferred_output":[{"role":"assistant","content":"a"}],
		"non_preferred_output":[{"role":"assistant","content":"b"}]}`)
	chosen, rejected, c, err := r.RenderPairs(set.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := shown(r, chosen), shown(r, rejected); a != `"<|begin|>#user\nq<|end|>\n#assistant\n[a<|end|>]"` ||
		b != strings.Replace(a, "[a", "[b", 1) || c.Examples != 1 || c.Texts != 2 {
		t.Errorf("%s, %s, %+v", a, b, c)
	}
}

// What renders examples ends with the context, and a conversation that would be written again too often is refused.
func TestRenderEnds(t *testing.T) {
	before := *data.MostRendered
	defer func() { *data.MostRendered = before }()
	*data.MostRendered = 250
	examples := read(t, twoAnswers).Examples
	r := renderer(t, chatML)
	if _, _, err := r.Render(examples); err != nil {
		t.Error(err)
	}
	*data.MostRendered = 100
	if _, _, err := r.Render(examples); err == nil || !strings.HasPrefix(err.Error(), "f:1: messages.3: too many answers") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r = renderer(t, chatML)
	r.Until, r.Workers = ctx, 1
	if _, _, err := r.Render(examples); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, _, _, err := r.RenderPairs([]data.Pair{{Chosen: examples[0], Rejected: examples[0]}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
