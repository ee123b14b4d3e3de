package data_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// refusing are published templates that cannot be learnt from, and what is said of each.
var refusing = map[string]string{
	"CohereForAI-c4ai-command-r-plus-tool_use": "otherwise than its prompt", // of answers with tools alone
	"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "otherwise than its prompt", // prompts begin a thought, which answers lack
	"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "otherwise than its prompt",
	"llama-cpp-deepseek-r1":                    "otherwise than its prompt",
}

// Conversations of two answers are rendered by published templates, such that both answers are learnt, and nothing that is asked.
func TestPublishedTemplates(t *testing.T) {
	var files []string
	for _, pattern := range []string{"llama.cpp/*.jinja", "ollama/model/renderers/testdata/*.jinja*"} {
		some, err := filepath.Glob(filepath.Join(testdata.Path(t, "templates"), pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	if len(files) < 20 {
		t.Fatalf("%d templates", len(files))
	}
	const in = `{"messages":[{"role":"user","content":"Query one?"},{"role":"assistant","content":"Reply one."},
		{"role":"user","content":"Query two?"},{"role":"assistant","content":"Reply two."}]}`
	apart := 0
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), ".jinja")
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := renderer(t, string(source))
		r.MaxTokens = 1 << 20
		texts, c, err := r.Render(read(t, in).Examples)
		if err != nil {
			if want, ok := refusing[name]; !ok || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %q", name, err.Error())
			}
			continue
		}
		if refusing[name] != "" {
			t.Errorf("%s is not refused any more", name)
		}
		apart += c.Apart
		got := shown(r, texts)
		var learnt []string
		for _, part := range strings.Split(got, "[")[1:] {
			text, _, _ := strings.Cut(part, "]")
			learnt = append(learnt, text)
		}
		all := strings.Join(learnt, " ")
		for _, want := range []string{"Reply one.", "Reply two."} {
			if !slices.ContainsFunc(learnt, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("%s: %q is not learnt: %s", name, want, got)
			}
		}
		if strings.Contains(all, "Query") {
			t.Errorf("%s: what is asked is learnt: %s", name, got)
		}
	}
	t.Logf("%d templates, %d with answers apart", len(files), apart)
}
