// Tools has a model call Go functions: tools MODEL "What is 1234 times 5678?". The model needs a chat template that knows
// tools, such as Qwen 3's.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/quern-llm/quern"
)

type numbers struct {
	A  float64 `json:"a"`
	B  float64 `json:"b"`
	By string  `json:"by" jsonschema:"plus, minus, times or over"`
}

func calculate(_ context.Context, n numbers) (float64, error) {
	switch n.By {
	case "plus":
		return n.A + n.B, nil
	case "minus":
		return n.A - n.B, nil
	case "times":
		return n.A * n.B, nil
	case "over":
		return n.A / n.B, nil
	}
	return 0, errors.New("by is plus, minus, times or over") // the model is told, and may try again
}

func main() {
	name, question := quern.Demo, "What is 12 times 34?"
	if len(os.Args) == 3 {
		name, question = os.Args[1], os.Args[2]
	}
	calculator, err := quern.NewTool("calculate", "Calculates with two numbers.", calculate)
	if err != nil {
		log.Fatal(err)
	}
	clock, err := quern.NewTool("clock", "The time now.", func(context.Context, struct{}) (time.Time, error) {
		return time.Now(), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	m, err := quern.Open(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	r := quern.Request{
		Messages: []quern.Message{quern.User(question)}, Tools: []quern.Tool{calculator, clock}, MaxTokens: 200,
	}
	for ev, err := range m.Run(ctx, r) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Call != nil {
			fmt.Printf("[%s %s]\n", ev.Call.Name, ev.Call.Arguments)
		}
		fmt.Print(ev.Text)
	}
	fmt.Println()
}
