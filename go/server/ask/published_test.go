package ask_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

var update = flag.Bool("update", false, "write testdata/requests.txt anew")

// What all requests that generate may have, and those with a conversation or a prompt, changes on purpose only.
func TestPublishedFields(t *testing.T) {
	t.Parallel()
	o, c := ask.NewOptions(&ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}), ask.NewConversation()
	fake.PublishedFields(t, *update, slices.Concat(o.Fields(), c.Fields(),
		[]field.Field{ask.PromptField(new(ask.Prompts)), ask.NProbs(&o), ask.ResponseFormat(&o.Form)}))
}
