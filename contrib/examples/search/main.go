// Search finds the texts that are nearest to a question, by vectors in a store of chromem-go: search [MODEL QUESTION].
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	chromem "github.com/philippgille/chromem-go"

	"github.com/quern-llm/quern"
)

var texts = []string{
	"The cat sleeps on the warm stove.", "Rain falls on the fields in spring.", "A dog barks at the postman.",
	"Bread is baked from flour, water and salt.", "The sun rises in the east.",
}

func main() {
	name, question := quern.Demo, "Which animal sleeps?"
	if len(os.Args) == 3 {
		name, question = os.Args[1], os.Args[2]
	}
	ctx := context.Background()
	m, err := quern.Open(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	vectors, err := m.Embed(ctx, texts...) // in batches, which share passes
	if err != nil {
		log.Fatal(err)
	}
	one := func(ctx context.Context, text string) ([]float32, error) {
		v, err := m.Embed(ctx, text)
		if err != nil {
			return nil, err
		}
		return v[0], nil
	}
	store, err := chromem.NewDB().CreateCollection("texts", nil, one)
	if err != nil {
		log.Fatal(err)
	}
	for i, text := range texts {
		err := store.AddDocument(ctx, chromem.Document{ID: fmt.Sprint(i), Content: text, Embedding: vectors[i]})
		if err != nil {
			log.Fatal(err)
		}
	}
	found, err := store.Query(ctx, question, 3, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range found {
		fmt.Printf("%.3f  %s\n", f.Similarity, f.Content)
	}
}
