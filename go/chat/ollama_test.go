package chat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// ollamaForm names Ollama's own template for a model, which the test data has
// three prompts of. A template for the same model should write the same; why
// says why it does not.
var ollamaForm = []struct{ template, form, why string }{
	{"builtin chatml", "chatml", ""},
	{"builtin llama3", "llama3-instruct", ""},
	{"builtin mistral-v3", "mistral-instruct", ""},
	{"builtin phi3", "phi-3", ""},
	{"builtin vicuna", "vicuna", ""},
	{"builtin zephyr", "zephyr", "llama.cpp ends turns with <|endoftext|>"},
	{"builtin openchat", "openchat", "llama.cpp gives the system message no head"},
	{"builtin command-r", "command-r", "Ollama ends the last turn twice"},
	{"builtin gemma", "gemma3-instruct", "Ollama writes one more line end"},
	{"builtin llama2-sys", "llama2-chat", "Ollama writes a system head in each turn"},
	{"chatml of line 01", "chatml", "the system message has no head"},
	{"chatml of line 02", "chatml", ""},
	{"zephyr of line 03", "zephyr", ""},
	{"chatml of line 04", "chatml", ""},
	{"openchat of line 05", "openchat", ""},
	{"chatml of line 06", "chatml", ""},
	{"chatml of line 07", "chatml", ""},
	{"chatml of line 08", "chatml", "it has a system message of its own"},
	{"chatml of line 09", "chatml", "it has a system message of its own"},
	{"zephyr of line 10", "zephyr", "users' turns have no end"},
	{"mistral-instruct of line 11", "mistral-instruct", "the spaces of an older version"},
	{"starcoder2-instruct of line 12", "starcoder2-instruct", "it has a system message of its own"},
	{"llama2-chat of line 13", "llama2-chat", "Ollama writes a system head in each turn"},
	{"codellama-70b-instruct of line 14", "codellama-70b-instruct", "it writes BOS itself"},
	{"mistral-instruct of line 15", "mistral-instruct", "the spaces of an older version"},
	{"chatml of line 16", "chatml", ""},
	{"chatml of line 17", "chatml", ""},
	{"chatml of line 18", "chatml", "it has a system message of its own"},
	{"chatml of line 19", "chatml", "it has a system message of its own"},
	{"alpaca of line 20", "alpaca", "it has a system message of its own"},
	{"chatqa of line 21", "chatqa", "it ends answers with EOS"},
	{"gemma-instruct of line 22", "gemma-instruct", "the system message is followed by an empty line"},
	{"llama3-instruct of line 23", "llama3-instruct", ""},
	{"granite-instruct of line 24", "granite-instruct", ""},
	{"magicoder of line 25", "magicoder", "it has a system message of its own"},
	{"alfred of line 26", "alfred", ""},
	{"llama2-chat of line 27", "llama2-chat", "Ollama writes a system head in each turn"},
	{"phi-3 of line 28", "phi-3", "it knows no system messages"},
	{"phi-3 of line 29", "phi-3", "it knows no system messages"},
	{"phi-3 of line 30", "phi-3", ""},
	{"chatqa of line 31", "chatqa", "it has a system message of its own"},
	{"falcon-instruct of line 32", "falcon-instruct", "a space after the head of a turn"},
	{"falcon-instruct of line 33", "falcon-instruct", "text on the line of the head"},
	{"solar-instruct of line 34", "solar-instruct", "answers have no end"},
	{"chatml of line 35", "chatml", "it has a system message of its own"},
}

func TestOllama(t *testing.T) {
	sources := templates(t)
	for name, source := range builtins {
		sources["builtin "+name] = source
	}
	talk := []Message{
		{Role: "system", Content: Text("You are a helpful assistant.")},
		{Role: "user", Content: Text("Hello, how are you?")},
		{Role: "assistant", Content: Text("I'm doing great. How can I help you today?")},
		{Role: "user", Content: Text("I'd like to show off how chat templating works!")},
	}
	for _, c := range ollamaForm {
		tmpl, err := Parse(sources[c.template], SpecialTokens{EOS: "</s>"})
		if err != nil {
			t.Fatalf("%s: %v", c.template, err)
		}
		different := false
		for name, messages := range map[string][]Message{
			"user": talk[1:2], "user-assistant-user": talk[1:], "system-user-assistant-user": talk,
		} {
			want, err := os.ReadFile(filepath.Join(testdata.Dir(), "templates/ollama/template/testdata", c.form+".gotmpl", name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Render(Input{Messages: messages, AddGenerationPrompt: true})
			if err != nil {
				t.Errorf("%s: %s: %v", c.template, name, err)
			}
			if got.Text != string(want) {
				different = true
				if c.why == "" {
					t.Errorf("%s: %s:\n got %q\nwant %q", c.template, name, got.Text, want)
				}
			}
		}
		if c.why != "" && !different {
			t.Errorf("%s is the same as Ollama's, though %s", c.template, c.why)
		}
	}
}
