// Models has two models on one device, with one budget of memory: models [MODEL MODEL]. The second goes on where the first
// ends.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/quern-llm/quern"
)

func main() {
	names := []string{quern.Demo, quern.Demo}
	if len(os.Args) == 3 {
		names = os.Args[1:]
	}
	ctx := context.Background()
	device, err := quern.NewDevice(quern.DeviceConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close() // and its models
	text := "Once upon a time"
	for _, name := range names {
		m, err := quern.Open(ctx, name, quern.WithDevice(device), quern.WithContextLength(512))
		if err != nil {
			log.Fatal(err)
		}
		result, err := m.Complete(ctx, quern.Request{Prompt: text, MaxTokens: 40})
		if err != nil {
			log.Fatal(err)
		}
		text += result.Text()
	}
	fmt.Println(text)
	st := device.Status()
	fmt.Printf("%d models, %d threads, %d of %d MiB\n", st.Models, st.Threads, st.Used>>20, st.Limit>>20)
}
