package querneino_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/embedding"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/querneino"
	"github.com/quern-llm/quern/go/querntest"
	"github.com/quern-llm/quern/go/scripted"
)

type place struct {
	City string `json:"city" jsonschema:"required"`
}

type degrees struct {
	Celsius int `json:"celsius" jsonschema:"required"`
}

// twoTools are those of querntest.Agent. What is asked of them is added to asked.
func twoTools(t *testing.T, asked *[]string) []tool.BaseTool {
	t.Helper()
	weather, err := utils.InferTool("weather", "The weather in a city.", func(_ context.Context, p place) (string, error) {
		*asked = append(*asked, p.City)
		return querntest.Celsius, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	convert, err := utils.InferTool("convert", "Degrees Celsius in Fahrenheit.", func(_ context.Context, d degrees) (string, error) {
		if d.Celsius != 21 {
			t.Errorf("convert was asked for %+v", d)
		}
		*asked = append(*asked, "convert")
		return querntest.Fahrenheit, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return []tool.BaseTool{weather, convert}
}

func agent(t *testing.T) *querneino.ChatModel {
	m := querntest.Agent(t, `{"city": "Rome"}`, `{"celsius": 21}`)
	return querneino.NewChatModel(m, quern.Request{Temperature: new(0.0)})
}

var worked = []string{"Rome", "convert"}

// Eino's runner of agents has the model work with two tools, whole and as a stream.
func TestRunner(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		var asked []string
		a, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
			Name: "traveller", Description: "Knows the weather.", Instruction: "Be brief.", Model: agent(t),
			ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: twoTools(t, &asked)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: a, EnableStreaming: streams})
		var last string
		chunks := 0
		for events := runner.Query(t.Context(), "How warm is it in Rome?"); ; {
			e, ok := events.Next()
			if !ok {
				break
			}
			if e.Err != nil {
				t.Fatal(e.Err)
			}
			out := e.Output.MessageOutput
			if !out.IsStreaming {
				last = out.Message.Content
				continue
			}
			last = ""
			for chunk, err := out.MessageStream.Recv(); !errors.Is(err, io.EOF); chunk, err = out.MessageStream.Recv() {
				if err != nil {
					t.Fatal(err)
				}
				last += chunk.Content
				chunks++
			}
		}
		if last != querntest.Answer || !slices.Equal(asked, worked) || (chunks > 5) != streams {
			t.Errorf("streams %v: %q after %v, in %d pieces", streams, last, asked, chunks)
		}
	}
}

// So does its agent that is a graph.
func TestReact(t *testing.T) {
	t.Parallel()
	var asked []string
	a, err := react.NewAgent(t.Context(), &react.AgentConfig{
		ToolCallingModel: agent(t), ToolsConfig: compose.ToolsNodeConfig{Tools: twoTools(t, &asked)},
	})
	if err != nil {
		t.Fatal(err)
	}
	message, err := a.Generate(t.Context(), []*schema.Message{schema.UserMessage("How warm is it in Rome?")})
	if err != nil || message.Content != querntest.Answer || !slices.Equal(asked, worked) {
		t.Errorf("%+v after %v, %v", message, asked, err)
	}
}

// received reads a stream to its end.
func received(t *testing.T, stream *schema.StreamReader[*schema.Message]) []*schema.Message {
	t.Helper()
	var chunks []*schema.Message
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return chunks
		}
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
}

// The pieces of a stream are in order, and put together they are the whole message.
func TestStream(t *testing.T) {
	t.Parallel()
	both := querntest.Call("weather", `{"city": "Rome"}`) + "\n" + querntest.Call("weather", `{"city": "Oslo"}`)
	infos := []*schema.ToolInfo{{Name: "weather", ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{
		"city": {Type: schema.String, Required: true},
	})}}
	caller, err := querneino.NewChatModel(querntest.Speaker(t, scripted.Script{Text: "I look.\n" + both}), quern.Request{}).WithTools(infos)
	if err != nil {
		t.Fatal(err)
	}
	thinker := querneino.NewChatModel(querntest.Thinker(t, "It is warm, I guess.", "Yes, it is."), quern.Request{})
	for name, c := range map[string]struct {
		model           model.BaseChatModel
		text, reasoning string
		calls           []string
		finish          string
	}{
		"calls":     {model: caller, text: "I look.", calls: []string{`{"city": "Rome"}`, `{"city": "Oslo"}`}, finish: "tool_calls"},
		"reasoning": {model: thinker, text: "Yes, it is.", reasoning: "It is warm, I guess.", finish: "stop"},
	} {
		input := []*schema.Message{schema.UserMessage("How warm is it?")}
		whole, err := c.model.Generate(t.Context(), input, model.WithTemperature(0))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.model.Stream(t.Context(), input, model.WithTemperature(0))
		if err != nil {
			t.Fatal(err)
		}
		chunks := received(t, stream)
		order := ""
		for _, chunk := range chunks {
			for _, one := range []struct {
				is   bool
				kind string
			}{
				{chunk.ReasoningContent != "", "r"}, {chunk.Content != "", "t"},
				{len(chunk.ToolCalls) > 0, "c"}, {chunk.ResponseMeta != nil, "e"},
			} {
				if one.is && !strings.HasSuffix(order, one.kind) {
					order += one.kind
				}
			}
		}
		if order != map[string]string{"calls": "tce", "reasoning": "rte"}[name] || len(chunks) < 5 {
			t.Errorf("%s: the order %s of %d pieces", name, order, len(chunks))
		}
		joined, err := schema.ConcatMessages(chunks)
		if err != nil {
			t.Fatal(err)
		}
		for way, m := range map[string]*schema.Message{"whole": whole, "joined": joined} {
			var calls []string
			for _, call := range m.ToolCalls {
				if calls = append(calls, call.Function.Arguments); call.ID == "" || call.Function.Name != "weather" {
					t.Errorf("%s: %+v", way, call)
				}
			}
			u := m.ResponseMeta.Usage
			if m.Content != c.text || m.ReasoningContent != c.reasoning || !slices.Equal(calls, c.calls) || m.ResponseMeta.FinishReason != c.finish ||
				u.PromptTokens == 0 || u.CompletionTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
				t.Errorf("%s, %s: %+v, usage %+v", name, way, m, u)
			}
		}
	}
}

// Options are those of the call, else those of the model.
func TestOptions(t *testing.T) {
	t.Parallel()
	c := querneino.NewChatModel(querntest.Storyteller(t), quern.Request{MaxTokens: 3, Temperature: new(0.0)})
	ask := []*schema.Message{schema.UserMessage("Once upon a time")}
	generate := func(options ...model.Option) *schema.Message {
		t.Helper()
		m, err := c.Generate(t.Context(), ask, options...)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := generate(); m.ResponseMeta.Usage.CompletionTokens != 3 || m.ResponseMeta.FinishReason != "length" {
		t.Errorf("%+v", m.ResponseMeta)
	}
	greedy := generate(model.WithMaxTokens(12))
	if greedy.ResponseMeta.Usage.CompletionTokens != 12 {
		t.Errorf("%+v", greedy.ResponseMeta.Usage)
	}
	seed := func(n uint64) model.Option { return querneino.With(func(r *quern.Request) { r.Seed = new(n) }) }
	hot := []model.Option{model.WithMaxTokens(12), model.WithTemperature(1.5)}
	one, again, other := generate(append(hot, seed(1))...), generate(append(hot, seed(1))...), generate(append(hot, seed(2))...)
	if one.Content != again.Content || one.Content == other.Content {
		t.Errorf("seeds: %q, %q, %q", one.Content, again.Content, other.Content)
	}
	if cold := generate(append(hot, model.WithTopP(0.0001), seed(3))...); cold.Content != greedy.Content {
		t.Errorf("the likeliest tokens: %q, want %q", cold.Content, greedy.Content)
	}
	word := strings.Fields(greedy.Content)[2]
	if m := generate(model.WithMaxTokens(12), model.WithStop([]string{word})); strings.Contains(m.Content, word) || m.ResponseMeta.FinishReason != "stop" {
		t.Errorf("stopped at %q: %q, %s", word, m.Content, m.ResponseMeta.FinishReason)
	}
	m := generate(querneino.With(func(r *quern.Request) { r.TopLogprobs = new(2) }))
	if p := m.ResponseMeta.LogProbs; p == nil || len(p.Content) != 3 || len(p.Content[0].TopLogProbs) != 2 || len(p.Content[0].Bytes) != len(p.Content[0].Token) {
		t.Errorf("%+v", p)
	}
	held := generate(model.WithMaxTokens(40), querneino.With(func(r *quern.Request) { r.Format = quern.Choice("yes", "no") }))
	if held.Content != "yes" && held.Content != "no" {
		t.Errorf("a choice: %q", held.Content)
	}
}

// Which tools may be called is what the call says.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	infos := []*schema.ToolInfo{{Name: "weather"}, {Name: "clock"}}
	c, err := querneino.NewChatModel(querntest.Speaker(t, scripted.Script{Text: "Hello."}), quern.Request{MaxTokens: 60}).WithTools(infos)
	if err != nil {
		t.Fatal(err)
	}
	ask := []*schema.Message{schema.UserMessage("Hello")}
	for _, o := range []struct {
		option model.Option
		want   string
	}{
		{model.WithToolChoice(schema.ToolChoiceForbidden), ""},
		{model.WithToolChoice(schema.ToolChoiceAllowed, "clock"), ""},
		{model.WithToolChoice(schema.ToolChoiceForced, "clock"), "clock"},
		{model.WithToolChoice(schema.ToolChoiceForced, "weather"), "weather"},
	} {
		m, err := c.Generate(t.Context(), ask, o.option)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(m.ToolCalls) > 0 {
			got = m.ToolCalls[0].Function.Name
		}
		if got != o.want {
			t.Errorf("%q was called, want %q", got, o.want)
		}
	}
}

// Pictures of the user and of tools are seen.
func TestPictures(t *testing.T) {
	t.Parallel()
	c := querneino.NewChatModel(querntest.Viewer(t), quern.Request{Temperature: new(0.0), MaxTokens: 8})
	square := base64.StdEncoding.EncodeToString(querntest.RedSquare(t))
	parts := []schema.MessageInputPart{
		{Type: schema.ChatMessagePartTypeImageURL, Image: &schema.MessageInputImage{MessagePartCommon: schema.MessagePartCommon{Base64Data: &square}}},
		{Type: schema.ChatMessagePartTypeText, Text: "What colour is it?"},
	}
	call := schema.AssistantMessage("", []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "look", Arguments: "{}"}}})
	for name, input := range map[string][]*schema.Message{
		"a user": {{Role: schema.User, UserInputMultiContent: parts}},
		"a tool": {schema.UserMessage("Hello"), call, {Role: schema.Tool, ToolCallID: "1", UserInputMultiContent: parts}},
	} {
		got, err := c.Generate(t.Context(), input)
		if err != nil || strings.TrimSpace(got.Content) != "Red." {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// What is not valid or not there is one line.
func TestErrors(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	c := querneino.NewChatModel(m, quern.Request{})
	data, link := "iVBORw0KGgo=", "https://example.com/cat.png"
	image := func(common schema.MessagePartCommon) *schema.Message {
		return &schema.Message{Role: schema.User, UserInputMultiContent: []schema.MessageInputPart{
			{Type: schema.ChatMessagePartTypeText, Text: "What is it?"},
			{Type: schema.ChatMessagePartTypeImageURL, Image: &schema.MessageInputImage{MessagePartCommon: common}},
		}}
	}
	hello := schema.UserMessage("Hello")
	for name, bad := range map[string]struct {
		message *schema.Message
		option  model.Option
		want    error
	}{
		"an image":      {image(schema.MessagePartCommon{Base64Data: &data}), model.WithMaxTokens(1), quern.ErrUnsupported},
		"a link":        {image(schema.MessagePartCommon{URL: &link}), model.WithMaxTokens(1), quern.ErrUnsupported},
		"a nil message": {nil, model.WithMaxTokens(1), quern.ErrInvalid},
		"a role":        {&schema.Message{Role: "judge", Content: "Hello"}, model.WithMaxTokens(1), quern.ErrInvalid},
		"a model":       {hello, model.WithModel("other"), quern.ErrUnsupported},
		"a choice":      {hello, model.WithToolChoice("perhaps"), quern.ErrInvalid},
		"a nil tool":    {hello, model.WithTools([]*schema.ToolInfo{nil}), quern.ErrInvalid},
		"no tools":      {hello, model.WithToolChoice(schema.ToolChoiceForced), quern.ErrInvalid},
		"temperature":   {hello, model.WithTemperature(float32(math.NaN())), quern.ErrInvalid},
		"a long text":   {schema.UserMessage(strings.Repeat("Hello ", 300)), model.WithMaxTokens(1), quern.ErrContextFull},
	} {
		_, whole := c.Generate(t.Context(), []*schema.Message{bad.message}, bad.option)
		_, streamed := c.Stream(t.Context(), []*schema.Message{bad.message}, bad.option)
		for _, err := range []error{whole, streamed} {
			if !errors.Is(err, bad.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %v", name, err, bad.want)
			}
		}
	}
	if _, err := c.WithTools([]*schema.ToolInfo{nil}); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("a nil tool: %v", err)
	}
	m.Close()
	if _, err := c.Generate(t.Context(), []*schema.Message{hello}); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
	if _, err := querneino.NewEmbedder(m).EmbedStrings(t.Context(), []string{"Hello"}); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// A context that ends, and a stream that is closed, end the answer.
func TestCancel(t *testing.T) {
	t.Parallel()
	c := querneino.NewChatModel(querntest.Storyteller(t), quern.Request{})
	forever := querneino.With(func(r *quern.Request) { r.IgnoreEnd = true })
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.Stream(ctx, []*schema.Message{schema.UserMessage("Once upon a time")}, forever)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := (&schema.Message{}); err == nil; chunk, err = stream.Recv() {
		if chunk.Content != "" {
			cancel()
		}
	}
	// The pieces that are waiting come first; a text that ended before it was looked at has no error.
	if !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	stream.Close()
	if stream, err = c.Stream(t.Context(), []*schema.Message{schema.UserMessage("Once upon a time")}, forever); err != nil {
		t.Fatal(err)
	}
	stream.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Generate(cancelled, []*schema.Message{schema.UserMessage("Hello")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// One model serves many goroutines, with options that they share.
func TestMany(t *testing.T) {
	t.Parallel()
	shared := quern.Request{Messages: append(make([]quern.Message, 0, 8), quern.System("Be brief.")), Temperature: new(0.0), MaxTokens: 10}
	c := querneino.NewChatModel(querntest.Storyteller(t), shared)
	ask := []*schema.Message{schema.UserMessage("Once upon a time")}
	want, err := c.Generate(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			stream, err := c.Stream(t.Context(), ask)
			if err != nil {
				t.Error(err)
				return
			}
			var chunks []*schema.Message
			for chunk, err := stream.Recv(); err == nil; chunk, err = stream.Recv() {
				chunks = append(chunks, chunk)
			}
			if m, err := schema.ConcatMessages(chunks); err != nil || m.Content != want.Content {
				t.Errorf("%+v, %v; want %q", m, err, want.Content)
			}
		})
	}
	wg.Wait()
}

func TestEmbedder(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	vectors, err := querneino.NewEmbedder(m).EmbedStrings(t.Context(), []string{"A cat.", "A dog."})
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Embed(t.Context(), "A cat.", "A dog.")
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		for k := range want[i] {
			if vectors[i][k] != float64(want[i][k]) {
				t.Fatalf("vector %d: %v, want %v", i, vectors[i], want[i])
			}
		}
	}
	if _, err := querneino.NewEmbedder(m).EmbedStrings(t.Context(), []string{"A cat."}, embedding.WithModel("other")); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("another model: %v", err)
	}
}
