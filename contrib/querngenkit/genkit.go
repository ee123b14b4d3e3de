// Package querngenkit has models of Quern answer in programs that are built with Genkit, and make vectors for them.
//
//	m, err := quern.Open(ctx, "model.gguf")
//	...
//	g := genkit.Init(ctx, genkit.WithPlugins(&querngenkit.Plugin{Models: map[string]*quern.Model{"story": m}}))
//	text, err := genkit.GenerateText(ctx, g, ai.WithModelName("quern/story"), ai.WithPrompt("Why is the sky blue?"))
//
// The program opens the models and closes them. Errors are those of the package quern, as Genkit wraps them.
package querngenkit

import (
	"context"
	"maps"
	"slices"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core"
	"github.com/firebase/genkit/go/core/api"
	"github.com/firebase/genkit/go/genkit"

	"github.com/quern-llm/quern"
)

// provider is what names of models begin with.
const provider = "quern"

// A Plugin brings models, and an embedder of each, whose names are quern/ and that in the map.
type Plugin struct {
	Models  map[string]*quern.Model
	Options quern.Request // of each call, where its own configuration says nothing; its Messages come before those of the call
}

var _ api.Plugin = (*Plugin)(nil)

// Name implements api.Plugin.
func (p *Plugin) Name() string { return provider }

// Init implements api.Plugin.
func (p *Plugin) Init(context.Context) []api.Action {
	var actions []api.Action
	for _, name := range slices.Sorted(maps.Keys(p.Models)) {
		m := p.Models[name]
		full := api.NewName(provider, name)
		actions = append(actions,
			ai.NewModel(full, modelOptions(name), generator(m, p.Options)).(api.Action),
			ai.NewEmbedder(full, embedderOptions(name, m), embedder(m)).(api.Action))
	}
	return actions
}

// DefineModel adds a model to g, where there is no plugin or it is opened later. Its name is quern/ and name.
func DefineModel(g *genkit.Genkit, name string, m *quern.Model, options quern.Request) ai.Model {
	return genkit.DefineModel(g, api.NewName(provider, name), modelOptions(name), generator(m, options))
}

// DefineEmbedder adds to g what makes vectors of length 1. Its name is quern/ and name.
func DefineEmbedder(g *genkit.Genkit, name string, m *quern.Model) ai.Embedder {
	return genkit.DefineEmbedder(g, api.NewName(provider, name), embedderOptions(name, m), embedder(m))
}

func modelOptions(name string) *ai.ModelOptions {
	return &ai.ModelOptions{
		Label: "Quern - " + name, ConfigSchema: core.InferSchemaMap(Config{}),
		Supports: &ai.ModelSupports{
			Constrained: ai.ConstrainedSupportAll, Media: true, Multiturn: true, SystemRole: true, ToolChoice: true, Tools: true,
		},
	}
}

func embedderOptions(name string, m *quern.Model) *ai.EmbedderOptions {
	return &ai.EmbedderOptions{
		Label: "Quern - " + name, Dimensions: m.Info().VectorSize, Supports: &ai.EmbedderSupports{Input: []string{"text"}},
	}
}

// generator returns what answers the calls of a model. A call of a tool is one chunk, once it is whole.
func generator(m *quern.Model, options quern.Request) ai.ModelFunc {
	return func(ctx context.Context, in *ai.ModelRequest, stream ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		r, err := request(options, in)
		if err != nil {
			return nil, err
		}
		var result *quern.Result
		for e, err := range m.Chat(ctx, r) {
			if err != nil {
				return nil, err
			}
			parts := partsOf(quern.Part{Text: e.Text, Reasoning: e.Reasoning, Call: e.Call})
			if stream != nil && len(parts) > 0 {
				if err := stream(ctx, &ai.ModelResponseChunk{Role: ai.RoleModel, Content: parts}); err != nil {
					return nil, err
				}
			}
			result = e.Result // the last event has one
		}
		return response(in, result), nil
	}
}

// embedder returns what makes vectors of texts.
func embedder(m *quern.Model) ai.EmbedderFunc {
	return func(ctx context.Context, in *ai.EmbedRequest) (*ai.EmbedResponse, error) {
		if in.Options != nil {
			return nil, unsupported("options of an embedder: there are none")
		}
		texts := make([]string, len(in.Input))
		for i, d := range in.Input {
			for _, p := range d.Content {
				if !p.IsText() {
					return nil, unsupported("document %d: a part that is no text; models read text only", i)
				}
				texts[i] += p.Text
			}
		}
		vectors, err := m.Embed(ctx, texts...)
		if err != nil {
			return nil, err
		}
		out := &ai.EmbedResponse{}
		for _, v := range vectors {
			out.Embeddings = append(out.Embeddings, &ai.Embedding{Embedding: v})
		}
		return out, nil
	}
}
