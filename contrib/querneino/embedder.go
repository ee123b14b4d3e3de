package querneino

import (
	"context"
	"fmt"

	"github.com/cloudwego/eino/components/embedding"

	"github.com/quern-llm/quern"
)

// An Embedder makes vectors of texts. It is safe for concurrent use.
type Embedder struct{ m *quern.Model }

var _ embedding.Embedder = (*Embedder)(nil)

// NewEmbedder returns an embedder.
func NewEmbedder(m *quern.Model) *Embedder { return &Embedder{m} }

// GetType implements components.Typer.
func (e *Embedder) GetType() string { return "Quern" }

// EmbedStrings implements embedding.Embedder. Vectors have the length 1.
func (e *Embedder) EmbedStrings(ctx context.Context, texts []string, options ...embedding.Option) ([][]float64, error) {
	if name := embedding.GetCommonOptions(nil, options...).Model; name != nil {
		return nil, fmt.Errorf("%w: WithModel(%q): the model is the one that NewEmbedder was given", quern.ErrUnsupported, *name)
	}
	vectors, err := e.m.Embed(ctx, texts...)
	if err != nil {
		return nil, err
	}
	wide := make([][]float64, len(vectors))
	for i, v := range vectors {
		wide[i] = make([]float64, len(v))
		for k, x := range v {
			wide[i][k] = float64(x)
		}
	}
	return wide, nil
}
