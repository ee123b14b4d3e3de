// Typed has a model answer with Go values: typed [MODEL] TEXT. A task shows it first, by examples, how a text is read.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/quern-llm/quern"
)

// A person is what is looked for in a text.
type person struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

func main() {
	name, texts := quern.Demo, []string{"Tom is three years old.", "Anna was seven when she learned to swim."}
	if len(os.Args) > 2 {
		name, texts = os.Args[1], os.Args[2:]
	}
	ctx := context.Background()
	m, err := quern.Open(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	r := quern.Request{
		Messages:    []quern.Message{quern.System("Who is the text about? Answer in JSON.")},
		Temperature: new(0.0), MaxTokens: 60,
	}
	read, err := quern.NewTask(ctx, m, r, quern.Example[person]{Input: "Lily turned five today.", Answer: person{"Lily", 5}})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range texts {
		who, err := read.Do(ctx, text)
		if err != nil {
			fmt.Printf("%s: %v\n", text, err)
			continue
		}
		fmt.Printf("%s: %s, %d\n", text, who.Name, who.Age)
	}
}
