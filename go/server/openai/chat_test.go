package openai_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

func TestChat(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	for _, path := range []string{"/v1/chat/completions", "/chat/completions"} {
		a := fake.Post[chatAnswer](s, path, `{`+fake.Hi+`}`)
		c := a.Choices[0]
		if c.Message.Role != "assistant" || *c.Message.Content != "Hello world" || c.Finish != "stop" {
			t.Errorf("%s: got %+v", path, c)
		}
		if a.Object != "chat.completion" || !strings.HasPrefix(a.ID, "chatcmpl-") || a.Fingerprint != "test" ||
			a.Model != "fake/model" || a.Created == 0 {
			t.Errorf("%s: got %+v", path, a)
		}
		if u := a.Usage; u.PromptTokens < 10 || u.CompletionTokens != 8 || u.TotalTokens != u.PromptTokens+8 ||
			u.Details.CachedTokens != 4 {
			t.Errorf("usage %+v", u)
		}
		if tm := a.Timings; tm.CacheN != 4 || tm.PromptN != a.Usage.PromptTokens-4 || tm.PredictedN != 8 || tm.PromptMS != 1 {
			t.Errorf("timings %+v", tm)
		}
	}
	want := "<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	if got := s.Tok.Detokenize(s.Last().Prompt, true); got != want {
		t.Errorf("prompt %q, want %q", got, want)
	}
}

// A chunk is a chatChunk as clients read it.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Choices []struct {
		Index int
		Delta struct {
			Role, Content string
			Reasoning     string `json:"reasoning_content"`
		}
		Logprobs *chatProbs
		Finish   *string `json:"finish_reason"`
	}
	Usage    *tokenUsage     `json:"usage"`
	Timings  *timings        `json:"timings"`
	Progress *promptProgress `json:"prompt_progress"`
	Verbose  any             `json:"__verbose"`
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world \U0001F600!", nil)
	events := s.Events("/v1/chat/completions", `{`+fake.Hi+`,"stream":true,"stream_options":{"include_usage":true}}`)
	if last := events[len(events)-1]; last != "[DONE]" {
		t.Fatalf("the last event is %q", last)
	}
	text, role, finish := "", 0, ""
	for i, e := range events[:len(events)-2] {
		c := fake.Parse[chunk](t, []byte(e))
		if c.Object != "chat.completion.chunk" || c.Usage != nil || len(c.Choices) != 1 {
			t.Errorf("event %d is %s", i, e)
		}
		d := c.Choices[0].Delta
		if d.Role != "" {
			role++
		}
		text += d.Content
		if c.Choices[0].Finish != nil {
			finish = *c.Choices[0].Finish
		}
		if strings.Contains(e, "\uFFFD") {
			t.Errorf("event %d has half a character: %s", i, e)
		}
	}
	if text != "Hello world \U0001F600!" || role != 1 || finish != "stop" {
		t.Errorf("got %q, %d roles, %q", text, role, finish)
	}
	u := fake.Parse[chunk](t, []byte(events[len(events)-2]))
	if len(u.Choices) != 0 || u.Usage == nil || u.Usage.CompletionTokens != 14 {
		t.Errorf("usage event %s", events[len(events)-2])
	}
}

func TestChatSeveral(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	a := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+fake.Hi+`,"n":3,"seed":7}`)
	if len(a.Choices) != 3 || a.Choices[2].Index != 2 || a.Usage.CompletionTokens != 24 || a.Usage.PromptTokens > 60 {
		t.Errorf("got %+v, usage %+v", a.Choices, a.Usage)
	}
	var seeds []uint64
	for _, r := range s.Requests {
		seeds = append(seeds, r.Sampling.Seed)
	}
	if !slices.Equal(seeds, []uint64{7, 8, 9}) {
		t.Errorf("seeds %d", seeds)
	}
	by := map[int]string{}
	for _, e := range s.Events("/v1/chat/completions", `{`+fake.Hi+`,"n":3,"stream":true}`) {
		if e == "[DONE]" {
			continue
		}
		for _, c := range fake.Parse[chunk](t, []byte(e)).Choices {
			by[c.Index] += c.Delta.Content
		}
	}
	for i := range 3 {
		if by[i] != "Hello world" {
			t.Errorf("choice %d is %q", i, by[i])
		}
	}
}

func TestChatLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello \u00e9", nil)
	type reply struct {
		Choices []struct {
			Logprobs chatProbs
		}
	}
	a := fake.Post[reply](s, "/v1/chat/completions", `{`+fake.Hi+`,"logprobs":true,"top_logprobs":2}`)
	l := a.Choices[0].Logprobs.Content
	if len(l) != 4 || l[0].Token != "Hello" || !slices.Equal(l[0].Bytes, []int{'H', 'e', 'l', 'l', 'o'}) ||
		l[0].Logprob != -0.5 || len(l[0].Top) != 2 {
		t.Fatalf("got %+v", l)
	}
	if l[2].Token != "\uFFFD" || !slices.Equal(l[2].Bytes, []int{0xC3}) || !slices.Equal(l[3].Bytes, []int{0xA9}) {
		t.Errorf("the halves of a character are %+v", l[2:])
	}
	n := 0
	for _, e := range s.Events("/v1/chat/completions", `{`+fake.Hi+`,"logprobs":true,"stream":true}`) {
		if e != "[DONE]" {
			if p := fake.Parse[chunk](t, []byte(e)).Choices[0].Logprobs; p != nil {
				n += len(p.Content)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d log-probabilities streamed, want 4", n)
	}
	if _, b, _ := s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`}`); strings.Contains(string(b), "logprobs") {
		t.Errorf("log-probabilities that nobody asked for: %s", b)
	}
}

func TestChatReasoning(t *testing.T) {
	t.Parallel()
	const reply = "<think>\nLet me see.\n</think>\n\nHello"
	for _, c := range []struct{ name, fields, content, reasoning string }{
		{"auto", ``, "Hello", "Let me see."},
		{"deepseek", `,"reasoning_format":"deepseek"`, "Hello", "Let me see."},
		{"none", `,"reasoning_format":"none"`, reply, ""},
		{"legacy", `,"reasoning_format":"deepseek-legacy"`, reply, "Let me see."},
		{"cut short", `,"max_tokens":10`, "", "Let me"},
		{"stop within", `,"stop":"see"`, "", "Let me"},
	} {
		s := fake.New(t, reply, nil)
		m := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+fake.Hi+c.fields+`}`).Choices[0].Message
		if c.name == "cut short" {
			if *m.Content != "" || m.Reasoning == "" || strings.Contains(m.Reasoning, "<") {
				t.Errorf("%s: got %q and %q", c.name, *m.Content, m.Reasoning)
			}
			continue
		}
		if *m.Content != c.content || m.Reasoning != c.reasoning {
			t.Errorf("%s: got %q and %q, want %q and %q", c.name, *m.Content, m.Reasoning, c.content, c.reasoning)
		}
	}
	opened := fake.New(t, "Let me see.\n</think>\nHello",
		func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = fake.Template(t, true) })
	content, reasoning := "", ""
	for _, e := range opened.Events("/v1/chat/completions", `{`+fake.Hi+`,"stream":true}`) {
		if e == "[DONE]" {
			continue
		}
		d := fake.Parse[chunk](t, []byte(e)).Choices[0].Delta
		reasoning += d.Reasoning
		content += d.Content
	}
	if content != "Hello" || reasoning != "Let me see." {
		t.Errorf("opened by the template: got %q and %q", content, reasoning)
	}
}

// The marks of the reasoning are control tokens of some models.
func TestChatReasoningInControlTokens(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(append([]string{"[THINK]", "[/THINK]"}, fake.Controls...))
	tok, err := tokenizer.New(meta)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse("{% for m in messages %}{{ m.content }}{% endfor %}{# [THINK] #}", chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "[THINK]Let me see.[/THINK]<|im_start|>Hello", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		m.Template, m.Tokenizer, m.Metadata, f.Tok = tmpl, tok, meta, tok
	})
	for format, want := range map[string][2]string{
		"auto": {"Hello", "Let me see."},
		"none": {"[THINK]Let me see.[/THINK]Hello", ""},
	} {
		got := fake.Post[chatAnswer](s, "/v1/chat/completions",
			`{`+fake.Hi+`,"reasoning_format":"`+format+`"}`).Choices[0].Message
		if *got.Content != want[0] || got.Reasoning != want[1] {
			t.Errorf("%s: got %+v, want %q", format, got, want)
		}
	}
	if got := fake.Post[struct{ Content string }](s, "/completion", `{"prompt":"x"}`).Content; got != "Let me see.Hello" {
		t.Errorf("of a plain prompt: got %q", got)
	}
}

func TestChatTemplateInput(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	const start = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct{ body, want string }{
		{`{` + fake.Hi + `}`, start},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, start},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well,"}]}`, start + "Well,"},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well,"}],"continue_final_message":false,"add_generation_prompt":false}`,
			"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nWell,<|im_end|>\n"},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""}]}`, start},
		{`{` + fake.Hi + `,"chat_template_kwargs":{"mark":1.5}}`, start + "[1.5]"},
		{`{` + fake.Hi + `,"reasoning_effort":"none"}`, start + "<think>\n\n</think>\n\n"},
	} {
		if got := fake.Post[renderedPrompt](s, "/apply-template", c.body).Prompt; got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
	if n := fake.Post[tokenCount](s, "/v1/chat/completions/input_tokens",
		`{`+fake.Hi+`}`); n.Tokens != len(s.Tok.Encode(start, tokenizer.Options{ParseSpecial: true})) {
		t.Errorf("counted %d tokens", n.Tokens)
	}
}

func TestStreamOfProgress(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{` + fake.Hi + `,"stream":true,"return_progress":true,"timings_per_token":true}`,
		"/completion":          `{"prompt":"hi there","stream":true,"return_progress":true,"timings_per_token":true}`,
		"/v1/completions":      `{"prompt":"hi there","stream":true,"return_progress":true,"timings_per_token":true}`,
	} {
		var progress []promptProgress
		timed := 0
		for _, e := range s.Events(path, body) {
			if e == "[DONE]" {
				continue
			}
			got := fake.Parse[struct {
				Progress *promptProgress `json:"prompt_progress"`
				Timings  *timings        `json:"timings"`
			}](t, []byte(e))
			if got.Progress != nil {
				progress = append(progress, *got.Progress)
			}
			if got.Timings != nil {
				timed++
			}
		}
		if len(progress) != 2 || progress[1].Processed != progress[1].Total || progress[0].Cache != 4 || timed < 2 {
			t.Errorf("%s: progress %+v, %d with timings", path, progress, timed)
		}
	}
}

func TestDefaultsAndFields(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Sampling.TopK, m.MaxTokens = 7, 9 })
	fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+fake.Hi+`,"temperature":null,"frequency_penalty":0.5,"logit_bias":{"271":-1,"Hello":2},
		"cache_prompt":false,"priority":3,"deadline_ms":60000,"id_slot":2,"made_up":{"x":[1]}}`)
	r := s.Last()
	if r.Sampling.Temp != 0.8 || r.Sampling.TopK != 7 || r.Sampling.FrequencyPenalty != 0.5 || r.MaxTokens != 9 ||
		r.TopLogprobs != -1 {
		t.Errorf("request %+v", r)
	}
	if !r.NoCache || r.Priority != 3 || r.Slot != 2 || time.Until(r.Deadline) > time.Minute ||
		time.Until(r.Deadline) < 50*time.Second || r.Flow == "" {
		t.Errorf("request %+v", r)
	}
	if len(r.Bias) != 2 {
		t.Errorf("biases %+v", r.Bias)
	}
	fake.Post[json.RawMessage](s, "/completion",
		`{"prompt":"x","max_tokens":16.0,"samplers":["temperature","top_k","dry","top_k"],"seed":4294967295}`)
	r = s.Last()
	if r.MaxTokens != 16 || r.Sampling.Chain != "tkdk" || r.Sampling.Temp != 0.8 || r.Sampling.Seed == 1<<32-1 {
		t.Errorf("request %+v", r)
	}
	if r.NoCache || r.Slot != -1 || !r.Deadline.IsZero() {
		t.Errorf("request %+v", r)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Delay = 5 * time.Millisecond })
	resp, err := http.Post(s.URL+"/v1/chat/completions", "application/json",
		strings.NewReader("{"+fake.Hi+`,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	id := fake.Parse[chunk](t, []byte(strings.TrimPrefix(lines.Text(), "data: "))).ID
	if resp.Header.Get("X-Completion-Id") != id {
		t.Errorf("the header says %q, the stream %q", resp.Header.Get("X-Completion-Id"), id)
	}
	// It is no response, and goes on where one is to be cancelled.
	if status, b, _ := s.Do("POST", "/v1/responses/"+id+"/cancel", ""); status != 404 {
		t.Errorf("as a response: %d %s", status, b)
	}
	for range 16 {
		if !lines.Scan() || strings.Contains(lines.Text(), "error") {
			t.Fatalf("as a response it is cancelled: %s", lines.Text())
		}
	}
	if status, b, _ := s.Do("DELETE", "/v1/chat/completions/"+id, ""); status != 200 ||
		!fake.Parse[cancellation](t, b).Cancelled {
		t.Errorf("got %d %s", status, b)
	}
	var last [2]string
	for lines.Scan() {
		if lines.Text() != "" {
			last[0], last[1] = last[1], lines.Text()
		}
	}
	if !strings.Contains(last[0], "cancelled_error") || last[1] != "data: [DONE]" {
		t.Errorf("the last lines are %q", last)
	}
	fake.Eventually(t, "ended", func() bool { return s.Active() == 0 })
	if status, _, _ := s.Do("DELETE", "/v1/chat/completions/"+id, ""); status != 404 {
		t.Errorf("again: status %d", status)
	}
}
