// Complete continues a text: complete [MODEL] "Once upon a time".
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/quern-llm/quern"
)

func main() {
	name, prompt := quern.Demo, "Once upon a time"
	if len(os.Args) == 3 {
		name, prompt = os.Args[1], os.Args[2]
	}
	ctx := context.Background()
	m, err := quern.Open(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	result, err := m.Complete(ctx, quern.Request{Prompt: prompt, MaxTokens: 100})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prompt + result.Text())
	fmt.Fprintf(os.Stderr, "%d tokens in %s\n", result.Usage.AnswerTokens, result.Usage.AnswerTime)
}
