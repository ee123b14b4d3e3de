package server

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
)

// Clients compact a conversation that is too long if they know the message by these words.
func TestAnthropicPromptIsTooLong(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	known := regexp.MustCompile(`prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)`)
	prompt := `"messages":[{"role":"user","content":"` + strings.Repeat("a dog and ", 2000) + `"}]`
	for _, fields := range []string{`"max_tokens":8,`, `"max_tokens":8,"stream":true,`} {
		status, b, _ := s.do("POST", "/v1/messages", `{`+fields+prompt+`}`)
		var a struct {
			Type  string `json:"type"`
			Error struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		got := known.FindStringSubmatch(a.Error.Message)
		if status != 400 || a.Type != "error" || a.Error.Type != "invalid_request_error" || got == nil || len(got[1]) != 4 || got[2] != "1024" || !strings.Contains(a.Error.Message, "--ctx-size") {
			t.Errorf("%s: status %d, %s", fields, status, b)
		}
	}
	if got := anthropicTooLong(&engine.TooLongError{Prompt: 1024, Ctx: 1024}); !strings.Contains(got, "1024 tokens > 1023 maximum") {
		t.Errorf("a prompt as large as the context: %s", got)
	}
}
