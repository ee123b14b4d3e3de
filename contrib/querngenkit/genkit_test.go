package querngenkit_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/querngenkit"
	"github.com/quern-llm/quern/go/querntest"
	"github.com/quern-llm/quern/go/scripted"
)

type place struct {
	City string `json:"city"`
}

type degrees struct {
	Celsius int `json:"celsius"`
}

// start returns a Genkit with one model, quern/m.
func start(t *testing.T, m *quern.Model, options quern.Request) *genkit.Genkit {
	t.Helper()
	return genkit.Init(t.Context(), genkit.WithDefaultModel("quern/m"), genkit.WithPlugins(&querngenkit.Plugin{
		Models: map[string]*quern.Model{"m": m}, Options: options,
	}))
}

// Genkit has the model work with two tools, whole and as a stream.
func TestTools(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		g := start(t, querntest.Agent(t, `{"city": "Rome"}`, `{"celsius": 21}`), quern.Request{Temperature: new(0.0)})
		var asked []string
		weather := genkit.DefineTool(g, "weather", "The weather in a city.", func(_ *ai.ToolContext, p place) (int, error) {
			asked = append(asked, "weather "+p.City)
			return 21, nil
		})
		convert := genkit.DefineTool(g, "convert", "Degrees Celsius in Fahrenheit.", func(_ *ai.ToolContext, d degrees) (string, error) {
			if d.Celsius != 21 {
				t.Errorf("convert was asked for %+v", d)
			}
			asked = append(asked, "convert")
			return querntest.Fahrenheit, nil
		})
		options := []ai.GenerateOption{ai.WithSystem("Be brief."), ai.WithPrompt("How warm is it in Rome?"), ai.WithTools(weather, convert)}
		order, text := "", ""
		if streams {
			options = append(options, ai.WithStreaming(func(_ context.Context, c *ai.ModelResponseChunk) error {
				kind := "text "
				switch {
				case c.Role == ai.RoleTool:
					kind = "result "
				case c.Content[0].IsToolRequest():
					kind = "call " + c.Content[0].ToolRequest.Name + " "
				default:
					text += c.Text()
				}
				if !strings.HasSuffix(order, kind) {
					order += kind
				}
				return nil
			}))
		}
		r, err := genkit.Generate(t.Context(), g, options...)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"weather Rome", "convert"}; r.Text() != querntest.Answer || !slices.Equal(asked, want) {
			t.Errorf("%q after %v", r.Text(), asked)
		}
		if want := "call weather result call convert result text "; streams && (order != want || text != querntest.Answer) {
			t.Errorf("%q, want %q; said %q", order, want, text)
		}
	}
}

// Several calls of one answer, and a required one that is not required again once it is answered.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	both := querntest.Call("weather", `{"city": "Rome"}`) + "\n" + querntest.Call("weather", `{"city": "Oslo"}`)
	g := start(t, querntest.Speaker(t,
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "Warm."}, scripted.Script{When: "not tools", Text: "No."}, scripted.Script{Text: both},
	), quern.Request{Temperature: new(0.0)})
	weather := genkit.DefineTool(g, "weather", "The weather in a city.", func(_ *ai.ToolContext, p place) (map[string]any, error) {
		return map[string]any{"in": p.City, "degrees": 21}, nil
	})
	for choice, want := range map[ai.ToolChoice]string{ai.ToolChoiceRequired: "Warm.", ai.ToolChoiceAuto: "Warm.", ai.ToolChoiceNone: "No."} {
		r, err := genkit.Generate(t.Context(), g, ai.WithPrompt("How warm is it?"), ai.WithTools(weather), ai.WithToolChoice(choice))
		if err != nil || r.Text() != want || r.FinishReason != ai.FinishReasonStop {
			t.Errorf("%s: %+v, %v", choice, r, err)
		}
	}
	cut, err := genkit.Generate(t.Context(), g, ai.WithPrompt("How warm is it?"), ai.WithTools(weather),
		ai.WithConfig(querngenkit.Config{MaxOutputTokens: 15}), ai.WithStreaming(func(context.Context, *ai.ModelResponseChunk) error { return nil }))
	if err != nil || cut.FinishReason != ai.FinishReasonLength || len(cut.ToolRequests()) != 0 {
		t.Errorf("a call that was cut: %+v, %v", cut, err)
	}
	r, err := genkit.Generate(t.Context(), g, ai.WithPrompt("How warm is it?"), ai.WithTools(weather), ai.WithReturnToolRequests(true))
	if err != nil || len(r.ToolRequests()) != 2 || r.ToolRequests()[0].Ref == "" || r.ToolRequests()[0].Ref == r.ToolRequests()[1].Ref {
		t.Errorf("%+v, %v", r, err)
	}
}

// A value comes of an answer that is held to its type.
func TestData(t *testing.T) {
	t.Parallel()
	g := start(t, querntest.Storyteller(t), quern.Request{Temperature: new(0.0), MaxTokens: 200})
	type verdict struct {
		Good bool   `json:"good"`
		Kind string `json:"kind" jsonschema:"enum=dog,enum=cat"`
	}
	v, r, err := genkit.GenerateData[verdict](t.Context(), g, ai.WithPrompt("Once upon a time"))
	if err != nil || v.Kind != "dog" && v.Kind != "cat" {
		t.Errorf("%+v, %v, %v", v, r, err)
	}
	r, err = genkit.Generate(t.Context(), g, ai.WithPrompt("Once upon a time"), ai.WithOutputEnums("yes", "no"))
	if err != nil || r.Text() != "yes" && r.Text() != "no" {
		t.Errorf("%q, %v", r.Text(), err)
	}
}

// Reasoning is apart from the text, and comes first.
func TestReasoning(t *testing.T) {
	t.Parallel()
	g := start(t, querntest.Thinker(t, "It is warm, I guess.", "Yes, it is."), quern.Request{Temperature: new(0.0)})
	thought, said := "", ""
	r, err := genkit.Generate(t.Context(), g, ai.WithPrompt("Is it warm?"), ai.WithStreaming(func(_ context.Context, c *ai.ModelResponseChunk) error {
		for _, p := range c.Content {
			switch {
			case !p.IsReasoning():
				said += p.Text
			case said == "":
				thought += p.Text
			default:
				t.Errorf("%q after %q", p.Text, said)
			}
		}
		return nil
	}))
	if err != nil || r.Reasoning() != "It is warm, I guess." || r.Text() != "Yes, it is." || thought != r.Reasoning() || said != r.Text() {
		t.Errorf("%q and %q, %+v, %v", thought, said, r, err)
	}
	again, err := genkit.Generate(t.Context(), g, ai.WithMessages(r.History()...), ai.WithPrompt("And now?"), ai.WithConfig(&querngenkit.Config{ReasoningTokens: new(2)}))
	if err != nil || len(again.Reasoning()) >= len(thought) {
		t.Errorf("thought %q within 2 tokens, %v", again.Reasoning(), err)
	}
}

// Options are those of the call, else those of the plugin.
func TestOptions(t *testing.T) {
	t.Parallel()
	g := start(t, querntest.Storyteller(t), quern.Request{MaxTokens: 3, Temperature: new(0.0)})
	generate := func(config any) *ai.ModelResponse {
		t.Helper()
		options := []ai.GenerateOption{ai.WithPrompt("Once upon a time")}
		if config != nil {
			options = append(options, ai.WithConfig(config))
		}
		r, err := genkit.Generate(t.Context(), g, options...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := generate(nil)
	if u := r.Usage; u.OutputTokens != 3 || u.TotalTokens != u.InputTokens+3 || u.InputTokens == 0 || r.FinishReason != ai.FinishReasonLength {
		t.Errorf("%+v, %s", u, r.FinishReason)
	}
	greedy := generate(&ai.GenerationCommonConfig{MaxOutputTokens: 12})
	one := generate(querngenkit.Config{MaxOutputTokens: 12, Temperature: new(1.5), Seed: new(uint64(1))})
	again := generate(map[string]any{"maxOutputTokens": 12, "temperature": 1.5, "seed": 1})
	other := generate(&querngenkit.Config{MaxOutputTokens: 12, Temperature: new(1.5), Seed: new(uint64(2))})
	if one.Text() != again.Text() || one.Text() == other.Text() {
		t.Errorf("seeds: %q, %q, %q", one.Text(), again.Text(), other.Text())
	}
	for name, c := range map[string]querngenkit.Config{
		"top-p": {TopP: new(0.0001)}, "top-k": {TopK: new(1)}, "min-p": {MinP: new(1.0)}, "temperature": {Temperature: new(0.0)},
	} {
		c.MaxOutputTokens = 12
		if c.Temperature == nil {
			c.Temperature = new(1.5)
		}
		if r := generate(c); r.Text() != greedy.Text() {
			t.Errorf("%s: %q, want %q", name, r.Text(), greedy.Text())
		}
	}
	if r := generate(querngenkit.Config{MaxOutputTokens: 12, RepeatPenalty: new(2.0), PresencePenalty: new(2.0), FrequencyPenalty: new(2.0)}); r.Text() == greedy.Text() {
		t.Errorf("with penalties: %q", r.Text())
	}
	word := strings.Fields(greedy.Text())[2]
	if r := generate(querngenkit.Config{MaxOutputTokens: 12, StopSequences: []string{word}}); strings.Contains(r.Text(), word) || r.FinishReason != ai.FinishReasonStop {
		t.Errorf("stopped at %q: %q, %s", word, r.Text(), r.FinishReason)
	}
}

// Pictures of the user and of tools are seen.
func TestPictures(t *testing.T) {
	t.Parallel()
	g := start(t, querntest.Viewer(t), quern.Request{Temperature: new(0.0), MaxTokens: 8})
	picture := ai.NewMediaPart("image/png", "data:image/png;base64,"+base64.StdEncoding.EncodeToString(querntest.RedSquare(t)))
	question := ai.NewTextPart("What colour is it?")
	shown := &ai.ToolResponse{Name: "look", Ref: "1", Output: "", Content: []*ai.Part{picture, question}}
	for name, messages := range map[string][]*ai.Message{
		"a user": {ai.NewUserMessage(picture, question)},
		"a tool": {
			ai.NewUserTextMessage("Hello"), ai.NewModelMessage(ai.NewToolRequestPart(&ai.ToolRequest{Name: "look", Ref: "1", Input: map[string]any{}})),
			ai.NewMessage(ai.RoleTool, nil, ai.NewToolResponsePart(shown)),
		},
	} {
		got, err := genkit.Generate(t.Context(), g, ai.WithMessages(messages...))
		if err != nil || strings.TrimSpace(got.Text()) != "Red." {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// What is not valid or not there is an error.
func TestErrors(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	g := start(t, m, quern.Request{MaxTokens: 1})
	prompt := ai.WithPrompt("Hello")
	for name, c := range map[string]struct {
		options []ai.GenerateOption
		says    string
	}{
		"an image":      {[]ai.GenerateOption{ai.WithMessages(ai.NewUserMessage(ai.NewMediaPart("image/png", "data:image/png;base64,iVBORw0KGgo=")))}, "picture"},
		"a version":     {[]ai.GenerateOption{prompt, ai.WithConfig(&ai.GenerationCommonConfig{Version: "2"})}, "version"},
		"an option":     {[]ai.GenerateOption{prompt, ai.WithConfig(map[string]any{"mood": "good"})}, "mood"},
		"a temperature": {[]ai.GenerateOption{prompt, ai.WithConfig(map[string]any{"temperature": "hot"})}, "temperature"},
		"a top-p":       {[]ai.GenerateOption{prompt, ai.WithConfig(querngenkit.Config{TopP: new(-1.0)})}, "top"},
		"no tools":      {[]ai.GenerateOption{prompt, ai.WithToolChoice(ai.ToolChoiceRequired)}, "Tools"},
		"a role":        {[]ai.GenerateOption{ai.WithMessages(ai.NewTextMessage("judge", "Hello"))}, "judge"},
		"a long text":   {[]ai.GenerateOption{ai.WithPrompt(strings.Repeat("Hello ", 300))}, "256"},
	} {
		if _, err := genkit.Generate(t.Context(), g, c.options...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mine := errors.New("mine")
	_, err := genkit.Generate(t.Context(), g, prompt, ai.WithStreaming(func(context.Context, *ai.ModelResponseChunk) error { return mine }))
	if !errors.Is(err, mine) {
		t.Errorf("an error of the function: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := genkit.Generate(cancelled, g, prompt); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
	m.Close()
	if _, err := genkit.Generate(t.Context(), g, prompt); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// Models and embedders are defined without the plugin too, and vectors are the model's.
func TestEmbedder(t *testing.T) {
	t.Parallel()
	m := querntest.Storyteller(t)
	g := start(t, m, quern.Request{})
	if got := querngenkit.DefineModel(g, "later", m, quern.Request{MaxTokens: 1}).Name(); got != "quern/later" {
		t.Errorf("the model %s", got)
	}
	if r, err := genkit.Generate(t.Context(), g, ai.WithModelName("quern/later"), ai.WithPrompt("Hello")); err != nil || r.Usage.OutputTokens != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	querngenkit.DefineEmbedder(g, "later", m)
	want, err := m.Embed(t.Context(), "A cat.", "A dog.")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"quern/m", "quern/later"} {
		r, err := genkit.Embed(t.Context(), g, ai.WithEmbedderName(name), ai.WithTextDocs("A cat.", "A dog."))
		if err != nil || len(r.Embeddings) != 2 || !slices.Equal(r.Embeddings[0].Embedding, want[0]) || !slices.Equal(r.Embeddings[1].Embedding, want[1]) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	picture := &ai.Document{Content: []*ai.Part{ai.NewMediaPart("image/png", "data:image/png;base64,iVBORw0KGgo=")}}
	if _, err := genkit.Embed(t.Context(), g, ai.WithEmbedderName("quern/m"), ai.WithDocs(picture)); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("an image: %v", err)
	}
	if _, err := genkit.Embed(t.Context(), g, ai.WithEmbedderName("quern/m"), ai.WithTextDocs("A cat."), ai.WithConfig(map[string]any{"size": 3})); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("options: %v", err)
	}
}
