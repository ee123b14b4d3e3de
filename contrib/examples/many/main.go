// Many asks a model a hundred things at once: many [MODEL]. The texts share each pass over the weights.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/quern-llm/quern"
)

func main() {
	name := quern.Demo
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	ctx := context.Background()
	m, err := quern.Open(ctx, name, quern.WithContextLength(256))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	start := time.Now()
	var wg sync.WaitGroup
	tokens := make([]int, 100)
	for i := range tokens {
		wg.Go(func() {
			r, err := m.Complete(ctx, quern.Request{
				Messages:  []quern.Message{quern.User(fmt.Sprintf("Tell a story of %d animals.", i+2))},
				MaxTokens: 50, Seed: new(uint64(i)),
			})
			if err != nil {
				log.Print(err)
				return
			}
			tokens[i] = r.Usage.AnswerTokens
		})
	}
	wg.Wait()
	n := 0
	for _, t := range tokens {
		n += t
	}
	fmt.Printf("100 chats, %d tokens, %.0f tokens per second\n", n, float64(n)/time.Since(start).Seconds())
}
