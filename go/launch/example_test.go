package launch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A program opens a model and has it continue a text.
func Example() {
	m, err := launch.Open(demo.Name, launch.Settings{Ctx: 256}, launch.DeviceSettings{Threads: 1}, launch.Events{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	text, err := m.NewSequence()
	if err != nil {
		log.Fatal(err)
	}
	defer text.Close()
	tok := m.Head.Tokenizer
	prompt := tok.Begin(tok.Encode("Once upon a time", tokenizer.Options{}))
	out := tok.NewStream()
	greedy := sample.Defaults()
	greedy.Temp = 0
	p := generate.Params{Prompt: prompt, MaxTokens: 12, Sampling: greedy, TopLogprobs: -1}
	_, err = m.Engine.Generate(context.Background(), text, p, func(id int32) error {
		fmt.Print(out.Write(id))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: , there was a little girl named Lily. Lily lived by
}
