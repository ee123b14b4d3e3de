package quernlangchain_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/embeddings"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/prompts"
	"github.com/tmc/langchaingo/tools"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/quernlangchain"
	"github.com/quern-llm/quern/go/querntest"
	"github.com/quern-llm/quern/go/scripted"
)

// A function is a tool that answers one question.
type function struct {
	name, question, answer string
	asked                  *[]string
}

func (f function) Name() string        { return f.name }
func (f function) Description() string { return "Answers " + f.question }

func (f function) Call(_ context.Context, input string) (string, error) {
	*f.asked = append(*f.asked, f.name+" "+input)
	if input != f.question {
		return "", fmt.Errorf("%s was asked %q, want %q", f.name, input, f.question)
	}
	return f.answer, nil
}

// LangChainGo's executor of agents has the model work with two tools.
func TestExecutor(t *testing.T) {
	t.Parallel()
	var asked []string
	l := quernlangchain.New(querntest.Agent(t, `{"__arg1": "Rome"}`, `{"__arg1": "21 C"}`), quern.Request{Temperature: new(0.0)})
	agent := agents.NewOpenAIFunctionsAgent(l, []tools.Tool{
		function{"weather", "Rome", querntest.Celsius, &asked}, function{"convert", "21 C", querntest.Fahrenheit, &asked},
	}, agents.NewOpenAIOption().WithSystemMessage("Be brief."))
	got, err := chains.Run(t.Context(), agents.NewExecutor(agent), "How warm is it in Rome?")
	if want := []string{"weather Rome", "convert 21 C"}; err != nil || got != querntest.Answer || !slices.Equal(asked, want) {
		t.Errorf("%q after %q, %v", got, asked, err)
	}
}

func ask(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

func generate(t *testing.T, l *quernlangchain.LLM, options ...llms.CallOption) *llms.ContentChoice {
	t.Helper()
	r, err := l.GenerateContent(t.Context(), ask("Once upon a time"), options...)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Choices) != 1 {
		t.Fatalf("%d choices", len(r.Choices))
	}
	return r.Choices[0]
}

// weather is a tool that needs a city.
var weather = llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
	Name: "weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
}}})

// Pieces come in order: what is thought, what is said; calls are in the answer.
func TestStream(t *testing.T) {
	t.Parallel()
	both := querntest.Call("weather", `{"city": "Rome"}`) + "\n" + querntest.Call("weather", `{"city": "Oslo"}`)
	caller := quernlangchain.New(querntest.Speaker(t, scripted.Script{Text: "I look.\n" + both}), quern.Request{Temperature: new(0.0)})
	text, pieces := "", 0
	c := generate(t, caller, weather, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
		text += string(chunk)
		pieces++
		return nil
	}))
	if text != "I look." || c.Content != text || pieces < 2 || c.StopReason != "tool_calls" || len(c.ToolCalls) != 2 {
		t.Fatalf("%q in %d pieces, %+v", text, pieces, c)
	}
	for i, want := range []string{`{"city": "Rome"}`, `{"city": "Oslo"}`} {
		if call := c.ToolCalls[i]; call.ID == "" || call.Type != "function" || call.FunctionCall.Name != "weather" || call.FunctionCall.Arguments != want {
			t.Errorf("%+v", call.FunctionCall)
		}
	}
	if c.FuncCall != c.ToolCalls[0].FunctionCall {
		t.Errorf("%+v", c.FuncCall)
	}

	thinker := quernlangchain.New(querntest.Thinker(t, "It is warm, I guess.", "Yes, it is."), quern.Request{Temperature: new(0.0)})
	thought, said := "", ""
	c = generate(t, thinker, llms.WithStreamingReasoningFunc(func(_ context.Context, reasoning, chunk []byte) error {
		if said != "" && len(reasoning) > 0 {
			t.Errorf("%q after %q", reasoning, said)
		}
		thought, said = thought+string(reasoning), said+string(chunk)
		return nil
	}))
	if thought != "It is warm, I guess." || said != "Yes, it is." || c.Content != said || c.ReasoningContent != thought || c.StopReason != "stop" {
		t.Errorf("%q, %q, %+v", thought, said, c)
	}
	short := generate(t, thinker, llms.WithThinkingBudget(2))
	if len(short.ReasoningContent) >= len(thought) {
		t.Errorf("thought %q within 2 tokens", short.ReasoningContent)
	}
	if !thinker.SupportsReasoning() && llms.SupportsReasoningModel(thinker) {
		t.Error("the model reasons only for the framework")
	}
}

// Options are those of the call, else those of the model.
func TestOptions(t *testing.T) {
	t.Parallel()
	l := quernlangchain.New(querntest.Storyteller(t), quern.Request{MaxTokens: 3, Temperature: new(0.0)})
	c := generate(t, l)
	if c.GenerationInfo["CompletionTokens"] != 3 || c.StopReason != "length" || c.GenerationInfo["PromptTokens"].(int)+3 != c.GenerationInfo["TotalTokens"] {
		t.Errorf("%+v", c)
	}
	greedy := generate(t, l, llms.WithMaxTokens(12))
	hot := []llms.CallOption{llms.WithMaxTokens(12), llms.WithTemperature(1.5)}
	one, again, other := generate(t, l, append(hot, llms.WithSeed(1))...), generate(t, l, append(hot, llms.WithSeed(1))...), generate(t, l, append(hot, llms.WithSeed(2))...)
	if one.Content != again.Content || one.Content == other.Content {
		t.Errorf("seeds: %q, %q, %q", one.Content, again.Content, other.Content)
	}
	for name, o := range map[string]llms.CallOption{
		"temperature": llms.WithTemperature(0), "top-p": llms.WithTopP(0.0001), "top-k": llms.WithTopK(1),
	} {
		if cold := generate(t, l, append(hot, o)...); cold.Content != greedy.Content {
			t.Errorf("%s: %q, want %q", name, cold.Content, greedy.Content)
		}
	}
	if unlike := generate(t, l, llms.WithMaxTokens(12), llms.WithPresencePenalty(2), llms.WithFrequencyPenalty(2), llms.WithRepetitionPenalty(2)); unlike.Content == greedy.Content {
		t.Errorf("with penalties: %q", unlike.Content)
	}
	word := strings.Fields(greedy.Content)[2]
	if c := generate(t, l, llms.WithMaxTokens(12), llms.WithStopWords([]string{word})); strings.Contains(c.Content, word) || c.StopReason != "stop" {
		t.Errorf("stopped at %q: %q, %s", word, c.Content, c.StopReason)
	}
	form := func(r *quern.Request) {
		r.Format = quern.JSONSchema([]byte(`{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}`))
	}
	long := llms.WithMaxTokens(150)
	for name, o := range map[string]llms.CallOption{"a schema": quernlangchain.With(form), "JSON": llms.WithJSONMode(), "a type": llms.WithResponseMIMEType("application/json")} {
		var got map[string]any
		c := generate(t, l, long, o)
		if err := json.Unmarshal([]byte(c.Content), &got); c.StopReason == "stop" && err != nil || !strings.HasPrefix(strings.TrimSpace(c.Content), "{") {
			t.Errorf("%s: %q, %v", name, c.Content, err)
		}
		if _, ok := got["age"].(float64); name == "a schema" && c.StopReason == "stop" && !ok {
			t.Errorf("%s: %q", name, c.Content)
		}
	}
	if text, err := l.Call(t.Context(), "Once upon a time", llms.WithPromptCaching(true), long, llms.WithMaxTokens(12)); err != nil || text != greedy.Content {
		t.Errorf("%q, %v", text, err)
	}
}

// Which tools may be called is what the call says.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	l := quernlangchain.New(querntest.Speaker(t, scripted.Script{Text: "Hello."}), quern.Request{MaxTokens: 80})
	named := llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "weather"}}
	for _, c := range []struct {
		choice any
		calls  bool
	}{{nil, false}, {"none", false}, {"auto", false}, {"required", true}, {"any", true}, {named, true}, {&named, true}} {
		if got := generate(t, l, weather, llms.WithToolChoice(c.choice)); (len(got.ToolCalls) > 0) != c.calls {
			t.Errorf("%v: %+v", c.choice, got)
		}
	}
}

// Pictures are seen, as bytes and as data URLs.
func TestPictures(t *testing.T) {
	t.Parallel()
	l := quernlangchain.New(querntest.Viewer(t), quern.Request{MaxTokens: 8})
	square := querntest.RedSquare(t)
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(square)
	for _, picture := range []llms.ContentPart{llms.BinaryPart("image/png", square), llms.ImageURLPart(url)} {
		got, err := l.GenerateContent(t.Context(), []llms.MessageContent{{
			Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{picture, llms.TextPart("What colour is it?")},
		}}, llms.WithTemperature(0))
		if err != nil || strings.TrimSpace(got.Choices[0].Content) != "Red." {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// What is not valid or not there is one line, of a kind that the framework knows and of one that quern does.
func TestErrors(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	l := quernlangchain.New(m, quern.Request{})
	hello, one := ask("Hello"), llms.WithMaxTokens(1)
	human := func(p ...llms.ContentPart) []llms.MessageContent {
		return []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: p}}
	}
	for name, bad := range map[string]struct {
		messages []llms.MessageContent
		option   llms.CallOption
		code     error
		want     error
	}{
		"an image":    {human(llms.BinaryPart("image/png", []byte("\x89PNG\r\n\x1a\n"))), one, llms.ErrNotImplemented, quern.ErrUnsupported},
		"a link":      {human(llms.ImageURLPart("https://example.com/cat.png")), one, llms.ErrNotImplemented, quern.ErrUnsupported},
		"a role":      {[]llms.MessageContent{llms.TextParts("judge", "Hello")}, one, llms.ErrInvalidRequest, quern.ErrInvalid},
		"a call":      {human(llms.ToolCall{FunctionCall: &llms.FunctionCall{Name: "f"}}), one, llms.ErrInvalidRequest, quern.ErrInvalid},
		"a model":     {hello, llms.WithModel("other"), llms.ErrNotImplemented, quern.ErrUnsupported},
		"n":           {hello, llms.WithN(2), llms.ErrNotImplemented, quern.ErrUnsupported},
		"candidates":  {hello, llms.WithCandidateCount(2), llms.ErrNotImplemented, quern.ErrUnsupported},
		"a length":    {hello, llms.WithMaxLength(2), llms.ErrNotImplemented, quern.ErrUnsupported},
		"a type":      {hello, llms.WithResponseMIMEType("text/html"), llms.ErrNotImplemented, quern.ErrUnsupported},
		"metadata":    {hello, llms.WithMetadata(map[string]any{"mood": "good"}), llms.ErrNotImplemented, quern.ErrUnsupported},
		"a choice":    {hello, llms.WithToolChoice("perhaps"), llms.ErrInvalidRequest, quern.ErrInvalid},
		"a tool":      {hello, llms.WithTools([]llms.Tool{{Type: "web"}}), llms.ErrInvalidRequest, quern.ErrInvalid},
		"no tools":    {hello, llms.WithToolChoice("required"), llms.ErrInvalidRequest, quern.ErrInvalid},
		"parameters":  {hello, llms.WithFunctions([]llms.FunctionDefinition{{Name: "f", Parameters: make(chan int)}}), llms.ErrInvalidRequest, quern.ErrInvalid},
		"a long text": {ask(strings.Repeat("Hello ", 300)), one, llms.ErrTokenLimit, quern.ErrContextFull},
	} {
		_, err := l.GenerateContent(t.Context(), bad.messages, bad.option)
		if !errors.Is(err, bad.code) || !errors.Is(err, bad.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", name, err, bad.want)
		}
	}
	mine := errors.New("mine")
	if _, err := l.GenerateContent(t.Context(), hello, llms.WithMaxTokens(5), llms.WithStreamingFunc(func(context.Context, []byte) error { return mine })); !errors.Is(err, mine) {
		t.Errorf("an error of the function: %v", err)
	}
	m.Close()
	if _, err := l.GenerateContent(t.Context(), hello); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
	if _, err := l.CreateEmbedding(t.Context(), []string{"Hello"}); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// A context that ends ends the answer.
func TestCancel(t *testing.T) {
	t.Parallel()
	l := quernlangchain.New(querntest.Storyteller(t), quern.Request{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.GenerateContent(cancelled, ask("Hello"))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, llms.ErrCanceled) {
		t.Error(err)
	}
}

// A recorder keeps what a handler is told.
type recorder struct {
	callbacks.SimpleHandler
	told []string
}

func (r *recorder) HandleLLMGenerateContentStart(context.Context, []llms.MessageContent) {
	r.told = append(r.told, "start")
}

func (r *recorder) HandleLLMGenerateContentEnd(context.Context, *llms.ContentResponse) {
	r.told = append(r.told, "end")
}
func (r *recorder) HandleLLMError(context.Context, error) { r.told = append(r.told, "error") }

// A chain asks the model, and its handler is told.
func TestChain(t *testing.T) {
	t.Parallel()
	var h recorder
	l := quernlangchain.New(querntest.Speaker(t, scripted.Script{When: "'Rome' in messages[-1].content", Text: "Warm."}, scripted.Script{Text: "What?"}), quern.Request{})
	l.CallbacksHandler = &h
	chain := chains.NewLLMChain(l, prompts.NewPromptTemplate("How is it in {{.city}}?", []string{"city"}))
	got, err := chains.Run(t.Context(), chain, "Rome", chains.WithTemperature(0))
	if err != nil || got != "Warm." {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := l.Call(t.Context(), "Hello", llms.WithModel("other")); err == nil {
		t.Error("another model")
	}
	if want := []string{"start", "end", "start", "error"}; !slices.Equal(h.told, want) {
		t.Errorf("the handler was told %v, want %v", h.told, want)
	}
}

// LangChainGo's embedder has the model make vectors.
func TestEmbedder(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	e, err := embeddings.NewEmbedder(quernlangchain.New(m, quern.Request{}))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"A cat.", "A dog."}
	vectors, err := e.EmbedDocuments(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Embed(t.Context(), texts...)
	if err != nil {
		t.Fatal(err)
	}
	query, err := e.EmbedQuery(t.Context(), texts[1])
	if err != nil || !slices.Equal(vectors[0], want[0]) || !slices.Equal(vectors[1], want[1]) || !slices.Equal(query, want[1]) {
		t.Errorf("%v and %v, want %v: %v", vectors, query, want, err)
	}
}
