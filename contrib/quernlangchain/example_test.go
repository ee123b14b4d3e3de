package quernlangchain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tmc/langchaingo/llms"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/quernlangchain"
)

func Example() {
	ctx := context.Background()
	m, err := quern.Open(ctx, quern.Demo) // or a file, or a name such as hf.co/ORG/REPO
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	llm := quernlangchain.New(m, quern.Request{MaxTokens: 100})
	ask := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Tell me a story.")}
	answer, err := llm.GenerateContent(ctx, ask, llms.WithTemperature(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Choices[0].GenerationInfo["CompletionTokens"])
	// Output: 100
}
