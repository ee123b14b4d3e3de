package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/scripted"
)

// address returns where a service listens that was told --host 127.0.0.1 --port 0.
func (s *service) address() string {
	s.t.Helper()
	s.logged(`"message":"ready"`)
	for line := range strings.Lines(s.log.String()) {
		var v struct {
			Message string
			Address []string
		}
		if json.Unmarshal([]byte(line), &v) == nil && v.Message == "ready" {
			return "http://" + v.Address[len(v.Address)-1]
		}
	}
	s.t.Fatalf("the log has no address: %s", s.log)
	return ""
}

func serveClients(t *testing.T) *service {
	return serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key")
}

// Clients of OpenAI's API and of Ollama's find what they expect.
func TestNodeClients(t *testing.T) {
	s := serveClients(t)
	for _, program := range []string{"openai.mjs", "ollama.mjs"} {
		t.Run(program, func(t *testing.T) { runNode(t, s, program) })
	}
}

// OpenAI's client for Node fine-tunes a model, talks to it and deletes it.
func TestNodeClientFineTunes(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key",
		"--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning")
	runNode(t, s, "tune.mjs")
}

// runNode runs a program of a client for Node, which says what was wrong.
func runNode(t *testing.T, s *service, program string) {
	t.Helper()
	const dir = "../../../scripts/clients"
	for _, name := range []string{"openai", "@anthropic-ai/sdk", "ollama", "ai", "@ai-sdk/openai-compatible", "@langchain/openai"} {
		if _, err := os.Stat(dir + "/node_modules/" + name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("a client is missing; scripts/setup.sh installs it")
			}
			t.Skip("a client is missing; scripts/setup.sh installs it")
		}
	}
	cmd := exec.Command("node", program, s.address())
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v\n%s", err, out)
	}
}

// scriptedModel is a model that thinks, calls tools and says known texts.
func scriptedModel(t *testing.T) string {
	t.Helper()
	const thought = "<think>\n%s\n</think>\n\n%s"
	call := func(name, arguments string) string {
		return fmt.Sprintf("<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>", name, arguments)
	}
	says := scripted.Model{
		Template: "{# <tool_call> <think> #}{% if tools %}<|im_start|>tools\n{{ tools|tojson }}<|im_end|>\n{% endif %}" +
			"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
		Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			// An agent that lists the files, reads one and patches it.
			{When: "tools and messages[-1].content == 'Comment the program.'", Text: fmt.Sprintf(thought, "Which files are there?", call("list_files", `{}`))},
			{When: "messages[-1].content == 'main.go'", Text: fmt.Sprintf(thought, "One only.", "I will read it.\n"+call("read_file", `{"path": "main.go"}`))},
			{When: "'package main' in messages[-1].content", Text: call("apply_patch", `{"input": "*** Begin Patch\n+// main does nothing.\n*** End Patch\n"}`)},
			{When: "'patched:' in messages[-1].content", Text: "The comment is there now."},

			{When: "'venus.pdf' in messages[-1].content and 'Venus turns backwards.' in messages[-1].content", Text: "It turns backwards."},
			{When: "tools and messages[-1].content == 'Describe a planet.'", Text: call("planet", `{"name": "Venus", "moons": 0}`)},
			{When: "messages[-1].content == 'Describe a planet.'", Text: `{"name": "Venus", "moons": 0}`},
			{When: "messages[-1].role == 'tool'", Text: "It is noon in Rome."},
			{When: "tools and messages[-1].content == 'Patch it.'", Text: call("apply_patch", `{"input": "*** Begin Patch\n+1\n"}`)},
			{When: "tools and messages[-1].content == 'Show the log.'", Text: call("mcp__git__log", `{}`)},
			{When: "tools", Text: fmt.Sprintf(thought, "I have a tool for that.", "One moment.\n"+call("get_time", `{"place": "Rome"}`))},
			{When: "enable_thinking", Text: fmt.Sprintf(thought, "What do they know?", "A day on Venus is longer than its year.")},
			{Text: "A day on Venus is longer than its year."},
		},
	}
	return writtenModel(t, says)
}

// writtenModel is the file of a scripted model.
func writtenModel(t *testing.T, says scripted.Model) string {
	t.Helper()
	data, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scripted.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Clients of Anthropic's API, of OpenAI's Responses and of tools, on one server.
func TestNodeClientsOfAgents(t *testing.T) {
	s := serve(t, "", "-m", scriptedModel(t), "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key", "--temp", "0")
	for _, program := range []string{"anthropic.mjs", "responses.mjs", "tools.mjs", "agents.mjs", "ai.mjs", "langchain.mjs", "ollama-tools.mjs"} {
		t.Run(program, func(t *testing.T) { runNode(t, s, program) })
	}
}

// venusPDF is a PDF of one page.
const venusPDF = "%PDF-1.7\n1 0 obj << /Type /Catalog /Pages << /Kids [2 0 R] >> >> endobj\n" +
	"2 0 obj << /Type /Page /Contents 3 0 R /Resources << /Font << /F << /Subtype /Type1 /BaseFont /Helvetica >> >> >> >> endobj\n" +
	"3 0 obj << >> stream\nBT /F 12 Tf 72 720 Td (Venus turns backwards.) Tj ET\nendstream endobj\ntrailer << /Root 1 0 R >>"

// Calls of tools, streamed and put together by the client for Go, and their results.
func TestGoClientTools(t *testing.T) {
	s := serve(t, "", "-m", scriptedModel(t), "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key", "--temp", "0")
	client := openai.NewClient(option.WithBaseURL(s.address()+"/v1"), option.WithAPIKey("a-secret-key"), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{
		Model:    "scripted",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What time is it in Rome?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "get_time", Strict: openai.Bool(true),
			Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"place": map[string]any{"type": "string"}}, "required": []string{"place"}},
		})},
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	finished := 0
	for stream.Next() {
		acc.AddChunk(stream.Current())
		if call, ok := acc.JustFinishedToolCall(); ok {
			if finished++; call.Name != "get_time" || call.Arguments != `{"place": "Rome"}` {
				t.Errorf("streamed: %+v", call)
			}
		}
	}
	if err := stream.Err(); err != nil || finished != 1 || acc.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("%v, %d calls, %+v", err, finished, acc.Choices)
	}
	message := acc.Choices[0].Message
	params.Messages = append(params.Messages, message.ToParam(), openai.ToolMessage("noon", message.ToolCalls[0].ID))
	if got, err := client.Chat.Completions.New(t.Context(), params); err != nil || got.Choices[0].Message.Content != "It is noon in Rome." {
		t.Errorf("after the result: %v, %+v", err, got)
	}

	pdf := "data:application/pdf;base64," + base64.StdEncoding.EncodeToString([]byte(venusPDF))
	asked, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: "scripted", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{Filename: openai.String("venus.pdf"), FileData: openai.String(pdf)}),
			openai.TextContentPart("How does it turn?"),
		})},
	})
	if err != nil || asked.Choices[0].Message.Content != "It turns backwards." {
		t.Errorf("of a document: %v, %+v", err, asked)
	}

	planet, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: "scripted", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is Venus?")}, // to which the answer would be a text
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "planet", Strict: openai.Bool(true), Schema: map[string]any{
				"type": "object", "properties": map[string]any{"moons": map[string]any{"type": "integer", "maximum": 99}}, "required": []string{"moons"}, "additionalProperties": false,
			}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var is struct{ Moons *int }
	if text := planet.Choices[0].Message.Content; json.Unmarshal([]byte(text), &is) != nil || is.Moons == nil || planet.Choices[0].FinishReason != "stop" {
		t.Errorf("of a schema: %q, %+v", text, planet.Choices[0])
	}
}

// And so does the one for Go.
func TestGoClient(t *testing.T) {
	s := serveClients(t)
	ctx := t.Context()
	client := openai.NewClient(option.WithBaseURL(s.address()+"/v1"), option.WithAPIKey("a-secret-key"), option.WithMaxRetries(0))
	models, err := client.Models.List(ctx)
	if err != nil || len(models.Data) != 1 {
		t.Fatal(models, err)
	}
	params := openai.ChatCompletionNewParams{
		Model:       models.Data[0].ID,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You tell stories."), openai.UserMessage("Tell me one about a cat.")},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(20),
	}
	whole, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	text := whole.Choices[0].Message.Content
	if text == "" || whole.Usage.CompletionTokens == 0 || whole.Usage.TotalTokens != whole.Usage.PromptTokens+whole.Usage.CompletionTokens {
		t.Errorf("%+v", whole)
	}
	// A stream, put together by the client's own accumulator.
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || acc.Choices[0].Message.Content != text || acc.Choices[0].FinishReason != whole.Choices[0].FinishReason {
		t.Errorf("streamed %q, whole %q, %v", acc.Choices[0].Message.Content, text, err)
	}
	// One that is given up.
	gone, cancel := context.WithCancel(ctx)
	long := params
	long.MaxTokens = openai.Int(400)
	stream = client.Chat.Completions.NewStreaming(gone, long, option.WithJSONSet("ignore_eos", true)) // more than its buffer holds
	for n := 0; stream.Next(); n++ {
		if n == 2 {
			cancel()
		}
	}
	cancel()
	if err := stream.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("a stream that was given up ended with %v", err)
	}
	logs := params
	logs.Logprobs, logs.TopLogprobs, logs.MaxTokens = openai.Bool(true), openai.Int(2), openai.Int(3)
	if r, err := client.Chat.Completions.New(ctx, logs); err != nil || len(r.Choices[0].Logprobs.Content) != 3 || len(r.Choices[0].Logprobs.Content[0].TopLogprobs) != 2 {
		t.Errorf("logprobs: %+v, %v", r, err)
	}
	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: models.Data[0].ID, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a cat", "a dog"}}, Dimensions: openai.Int(32),
	})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 32 || vectors.Data[1].Index != 1 || vectors.Usage.PromptTokens == 0 {
		t.Errorf("vectors: %+v, %v", vectors, err)
	}
	// Errors can be told apart.
	bad := params
	bad.Temperature = openai.Float(500)
	var apiErr *openai.Error
	if _, err := client.Chat.Completions.New(ctx, bad); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusBadRequest || !strings.Contains(apiErr.Message, "temperature") {
		t.Errorf("a bad temperature: %v", err)
	}
	tooLong := params
	tooLong.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("a dog and ", 2000))}
	if _, err := client.Chat.Completions.New(ctx, tooLong); !errors.As(err, &apiErr) || apiErr.Code != "context_length_exceeded" || apiErr.StatusCode != http.StatusBadRequest {
		t.Errorf("a long prompt: %v", err)
	}
	stranger := openai.NewClient(option.WithBaseURL(s.address()+"/v1"), option.WithAPIKey("another-key"), option.WithMaxRetries(0))
	if _, err := stranger.Chat.Completions.New(ctx, params); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong key: %v", err)
	}
	// An answer that takes longer than the client waits is cancelled on both sides.
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := client.Chat.Completions.New(short, long); err == nil {
		t.Log("the answer came in 5 ms")
	}
}

// The examples of docs/api.md run as they stand, and get what the page says: an
// answer, or one of the errors that it shows.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 10 {
		t.Fatalf("%d examples", len(blocks))
	}
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0")
	refused := map[string]string{ // by what is in the example: this model cannot, or it is the point
		"/infill": "not_supported_error",
		"/rerank": "not_supported_error", "/v1/classify": "not_supported_error", "/embed_sparse": "not_supported_error",
		"DELETE": "not_found_error", "/control": "not_found_error",
		`"hot"`: "temperature", "/api/create": "it was started with -m",
	}
	for _, b := range blocks {
		cmd := exec.Command("sh", "-e", "-c", b[1])
		cmd.Env = append(os.Environ(), "URL="+s.address())
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s\n%v", b[1], err)
			continue
		}
		want := ""
		for part, word := range refused {
			if strings.Contains(b[1], part) {
				want = word
			}
		}
		got := string(out)
		if isError := strings.HasPrefix(got, `{"error"`); len(got) == 0 || isError != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s\ngave %.500s", b[1], got)
		}
	}
}

// A server searches and calls tools of an MCP server for Anthropic's client.
func TestNodeClientOfServerTools(t *testing.T) {
	t.Parallel()
	search := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"results":[{"url":"https://planets.example/venus","title":"Venus","content":"Venus turns backwards."},{"url":"https://elsewhere.example/","title":"None","content":"Nothing."}]}`)
	}))
	defer search.Close()
	call := func(name, arguments string) string {
		return fmt.Sprintf("<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>", name, arguments)
	}
	venus := call("web_search", `{"query": "Venus"}`)
	model := writtenModel(t, scripted.Model{Controls: []string{"<|im_start|>", "<|im_end|>"},
		Template: "{# <tool_call> #}{% if tools %}<|im_start|>tools\n{{ tools|tojson }}<|im_end|>\n{% endif %}" +
			"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
		Scripts: []scripted.Script{
			{When: "messages[0].content == 'Search for ever.'", Text: venus},
			{When: "messages[-1].role == 'tool' and 'Hello' in messages[-1].content", Text: "She is greeted."},
			{When: "messages[-1].role == 'tool' and 'error: ' in messages[-1].content", Text: "I cannot read it."},
			{When: "messages[-1].role == 'tool'", Text: "It turns backwards: [Venus](https://planets.example/venus)."},
			{When: "messages[-1].content == 'Read it.'", Text: call("web_fetch", `{"url": "https://planets.example/venus"}`)},
			{When: "messages[-1].content == 'Greet Ann.'", Text: call("door__greet", `{"name": "Ann"}`)},
			{When: "messages[-1].content == 'What was that?'", Text: "I remember Venus."},
			{Text: venus},
		}})
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"door": map[string]any{"command": os.Args[0], "env": map[string]string{asGreeter: "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "", "-m", model, "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key", "--temp", "0", "--ctx-size", "4096",
		"--web-search", search.URL, "--web-fetch", "public", "--mcp", string(config), "--mcp-calls", "2")
	runNode(t, s, "servertools.mjs")
}
