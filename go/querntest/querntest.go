// Package querntest opens models that say known texts, for tests of what uses the package at the root, in this module and
// in those of contrib.
package querntest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"testing"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/scripted"
)

// hermes is a template of models that write calls as Hermes does. Scripts can look at messages
// and tools.
const hermes = `{% for t in tools or [] %}{{ t|tojson }}<tool_call>{"name": <function-name>}</tool_call>{% endfor %}` +
	`{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}{% endfor %}`

// Speaker opens a model that says these scripts.
func Speaker(t testing.TB, scripts ...scripted.Script) *quern.Model {
	t.Helper()
	return open(t, &scripted.Model{Template: hermes, Scripts: scripts})
}

// Thinker opens a model that always reasons so before it says a text.
func Thinker(t testing.TB, reasoning, text string) *quern.Model {
	t.Helper()
	return open(t, &scripted.Model{
		Template: "{% for m in messages %}{{ m.role }}: {{ m.content }}<think>{{ m.reasoning_content }}</think>{% endfor %}",
		Controls: []string{"<think>", "</think>"}, Scripts: []scripted.Script{{Text: "<think>" + reasoning + "</think>" + text}},
	})
}

// Storyteller opens the demo model, with a context of 256 tokens.
func Storyteller(t testing.TB) *quern.Model {
	t.Helper()
	m, err := quern.Open(t.Context(), quern.Demo, quern.WithThreads(1), quern.WithContextLength(256), quern.WithKVMemory(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Viewer opens the demo model that sees. Of a conversation it reads the last message alone, whoever's it is.
func Viewer(t testing.TB) *quern.Model {
	t.Helper()
	m, err := quern.Open(t.Context(), quern.DemoVision, quern.WithThreads(1),
		quern.WithChatTemplate("{{ bos_token }}<|user|>{{ messages[-1].content }}<|end|><|assistant|>"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// RedSquare is a picture, of which the Viewer says "A red square." and, asked for the colour, "Red."
func RedSquare(t testing.TB) []byte {
	t.Helper()
	pixels := image.NewRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(pixels, pixels.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(pixels, image.Rect(14, 14, 50, 50), image.NewUniform(color.RGBA{220, 30, 30, 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, pixels); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t testing.TB, s *scripted.Model) *quern.Model {
	t.Helper()
	data, err := s.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	m, err := quern.Open(t.Context(), "a script", quern.WithReaderAt(bytes.NewReader(data), int64(len(data))),
		quern.WithThreads(1), quern.WithContextLength(4096), quern.WithKVMemory(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Call is what a [Speaker] says to call a tool with arguments, which are JSON.
func Call(tool, arguments string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", tool, arguments)
}

// What an [Agent] says, and what its tools have to answer.
const (
	Celsius    = "21"
	Fahrenheit = "69.8"
	Answer     = "It is 69.8 °F in Rome."
)

// Agent opens a model that works with two tools: it asks weather for the weather in Rome, with these arguments; when that
// says [Celsius], it has convert make [Fahrenheit] of it, with those; then it says [Answer]. Anything else it is told makes
// it say that it does not know.
func Agent(t testing.TB, weather, convert string) *quern.Model {
	t.Helper()
	last := func(role, holds string) string {
		return fmt.Sprintf("messages[-1].role == %q and %q in messages[-1].content", role, holds)
	}
	return Speaker(t,
		scripted.Script{When: last("tool", Fahrenheit), Text: Answer},
		scripted.Script{When: last("tool", Celsius), Text: Call("convert", convert)},
		scripted.Script{When: last("user", "Rome"), Text: Call("weather", weather)},
		scripted.Script{Text: "I do not know."})
}
