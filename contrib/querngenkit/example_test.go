package querngenkit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/querngenkit"
)

func Example() {
	ctx := context.Background()
	m, err := quern.Open(ctx, quern.Demo) // or a file, or a name such as hf.co/ORG/REPO
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	g := genkit.Init(ctx, genkit.WithDefaultModel("quern/story"), genkit.WithPlugins(&querngenkit.Plugin{
		Models: map[string]*quern.Model{"story": m},
	}))
	answer, err := genkit.Generate(ctx, g, ai.WithPrompt("Tell me a story."),
		ai.WithConfig(querngenkit.Config{Temperature: new(0.0), MaxOutputTokens: 100}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Usage.OutputTokens)
	// Output: 100
}
