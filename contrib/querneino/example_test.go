package querneino_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/contrib/querneino"
)

func Example() {
	ctx := context.Background()
	m, err := quern.Open(ctx, quern.Demo) // or a file, or a name such as hf.co/ORG/REPO
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	model := querneino.NewChatModel(m, quern.Request{Temperature: new(0.0), MaxTokens: 100})
	chain, err := compose.NewChain[[]*schema.Message, *schema.Message]().AppendChatModel(model).Compile(ctx)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := chain.Invoke(ctx, []*schema.Message{schema.UserMessage("Tell me a story.")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.ResponseMeta.Usage.CompletionTokens)
	// Output: 100
}
