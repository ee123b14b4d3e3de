package quern_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/scripted"
)

// says opens a model that says known texts, which examples can show: with another one they say what it says.
func says(scripts ...scripted.Script) *quern.Model {
	const template = `{% for t in tools or [] %}{{ t|tojson }}<tool_call>{"name": <function-name>}</tool_call>{% endfor %}` +
		"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% for c in m.tool_calls or [] %}" +
		"<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}{% endfor %}"
	data, err := (&scripted.Model{Template: template, Scripts: scripts}).GGUF()
	if err != nil {
		log.Fatal(err)
	}
	return must(quern.Open(context.Background(), "a script", quern.WithReaderAt(bytes.NewReader(data), int64(len(data))),
		quern.WithThreads(1), quern.WithContextLength(2048), quern.WithKVMemory(32<<20)))
}

// must is for examples: programs look at errors.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func ExampleOpen() {
	m, err := quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256), quern.WithMemory(1<<30))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Info().Architecture, m.Info().ContextLength)
	// Output: llama 256
}

func ExampleModel_Chat() {
	m := says(scripted.Script{Text: "Light scatters, blue the most."})
	defer m.Close()
	r := quern.Request{Messages: []quern.Message{
		quern.System("Answer in a sentence."), quern.User("Why is the sky blue?"),
	}}
	for ev, err := range m.Chat(context.Background(), r) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(ev.Text)
	}
	// Output: Light scatters, blue the most.
}

func ExampleModel_Complete() {
	m := must(quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256)))
	defer m.Close()
	result, err := m.Complete(context.Background(), quern.Request{
		Prompt: "Once upon a time", MaxTokens: 100, Temperature: new(0.0), Stop: []string{"."},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text(), result.Finish)
	// Output: , there was a little girl named Lily stop
}

func ExampleModel_Run() {
	m := says(
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "It is 21 degrees in Rome."},
		scripted.Script{Text: "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"})
	defer m.Close()
	type place struct {
		City string `json:"city" jsonschema:"such as Paris"`
	}
	weather, err := quern.NewTool("weather", "The weather in a city.", func(_ context.Context, p place) (string, error) {
		fmt.Println("asked for", p.City)
		return "21 degrees", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	r := quern.Request{Messages: []quern.Message{quern.User("How warm is it in Rome?")}, Tools: []quern.Tool{weather}}
	for ev, err := range m.Run(context.Background(), r) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(ev.Text)
	}
	// Output:
	// asked for Rome
	// It is 21 degrees in Rome.
}

func ExampleInto() {
	m := says(scripted.Script{Text: `{"name":"Anna","age":7}`})
	defer m.Close()
	type person struct {
		Name string `json:"name"`
		Age  int    `json:"age" jsonschema:"in years"`
	}
	anna, _, err := quern.Into[person](context.Background(), m, quern.Request{
		Messages: []quern.Message{quern.User("Anna was seven when she learned to swim.")}, Temperature: new(0.0),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(anna.Name, anna.Age)
	// Output: Anna 7
}

func ExampleTask() {
	m := says(scripted.Script{Text: "good"})
	defer m.Close()
	ctx := context.Background()
	mood, err := quern.NewTask(ctx, m, quern.Request{Messages: []quern.Message{quern.System("Say good or bad.")}},
		quern.Example[string]{Input: "It rains.", Answer: "bad"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mood.Do(ctx, "The sun shines."))
	// Output: good <nil>
}

func ExampleSession_Fork() {
	m := says(
		scripted.Script{When: "'end' in messages[-1].content", Text: "They all went home."},
		scripted.Script{When: "'twist' in messages[-1].content", Text: "It was a dream."},
		scripted.Script{Text: "A dog ran away."})
	defer m.Close()
	ctx := context.Background()
	story := must(m.NewSession(quern.Request{Temperature: new(0.0)}))
	fmt.Println(must(story.Complete(ctx, quern.User("Begin a story."))).Text())
	other := must(story.Fork()) // what was said is evaluated once
	fmt.Println(must(story.Complete(ctx, quern.User("Now the end."))).Text())
	fmt.Println(must(other.Complete(ctx, quern.User("Now a twist."))).Text())
	fmt.Println(len(story.Messages()), len(other.Messages()))
	// Output:
	// A dog ran away.
	// They all went home.
	// It was a dream.
	// 4 4
}

func ExampleModel_Embed() {
	m := must(quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256)))
	defer m.Close()
	vectors, err := m.Embed(context.Background(), "The cat sleeps.", "A dog barks.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(vectors), len(vectors[0]) == m.Info().VectorSize)
	// Output: 2 true
}

func ExampleModel_Rerank() {
	m := must(quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256)))
	defer m.Close()
	documents := []string{"The car is fast.", "Once upon a time, there was a cat."}
	ranked, err := m.Rerank(context.Background(), "Once upon a time, there was a dog.", documents...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(documents[ranked[0].Index])
	// Output: Once upon a time, there was a cat.
}

func ExampleModel_Tokenize() {
	m := must(quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256)))
	defer m.Close()
	tokens := must(m.Tokenize("Once upon a time"))
	fmt.Println(must(m.Detokenize(tokens)))
	// Output: Once upon a time
}

func ExampleModel_Decide() {
	m := must(quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256)))
	defer m.Close()
	all, err := m.Decide(context.Background(), quern.Request{Prompt: "Once upon a time, there was a little"}, " girl", " stone")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q of %d\n", all[0].Answer, len(all))
	// Output: " girl" of 2
}

func ExampleModel_Transcribe() {
	m := must(quern.Open(context.Background(), "whisper-small.gguf"))
	defer m.Close()
	speech := quern.Speech{Audio: must(os.ReadFile("talk.mp3"))}
	for segment, err := range m.Transcribe(context.Background(), speech) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s to %s (%s):%s\n", segment.Start, segment.End, segment.Language, segment.Text)
	}
}

func ExampleDevice() {
	device := must(quern.NewDevice(quern.DeviceConfig{Threads: 1}))
	defer device.Close() // and its models
	ctx := context.Background()
	for range 2 {
		must(quern.Open(ctx, quern.Demo, quern.WithDevice(device), quern.WithContextLength(128)))
	}
	fmt.Println(device.Status().Models)
	// Output: 2
}
