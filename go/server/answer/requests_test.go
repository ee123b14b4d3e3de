package answer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A body is read as it is, and an answer has its id in the header as well, whole or as a stream.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	send := func(name, value, body string) (*http.Response, string) {
		t.Helper()
		r, _ := http.NewRequest("POST", s.URL+"/v1/completions", strings.NewReader(body))
		r.Header.Set(name, value)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b := make([]byte, 1<<16)
		n, _ := resp.Body.Read(b)
		return resp, string(b[:n])
	}
	for how, want := range map[string]int{"": 200, "identity": 200, "Identity": 200, "gzip": 415, "br": 415} {
		if resp, b := send("Content-Encoding", how, `{"prompt":"x"}`); resp.StatusCode != want || want == 415 && fake.ErrorOf(t, []byte(b)).Param != "Content-Encoding" {
			t.Errorf("%q: %d %s", how, resp.StatusCode, b)
		}
	}
	for _, body := range []string{`{"prompt":"x"}`, `{"prompt":"x","stream":true}`} {
		resp, b := send("X-Nothing", "", body)
		if id := resp.Header.Get("X-Completion-Id"); !strings.HasPrefix(id, "cmpl-") || !strings.Contains(b, `"id":"`+id+`"`) {
			t.Errorf("%s: the id %q is not in %s", body, id, b)
		}
	}
}

// The tokens of the text of an answer are told apart from those of its thoughts and calls, and of stop words.
func TestTokensOfTheText(t *testing.T) {
	t.Parallel()
	s := fake.Says(t, scripted.Script{When: "tools", Text: "<think>\nA tool?\n</think>\n\nI look.\n" + fake.Calls[strings.Index(fake.Calls, "<tool_call>"):]},
		scripted.Script{Text: "<think>\nHm, no.\n</think>\n\nHello thére."})
	type response struct {
		Output []struct {
			Type    string
			Content []struct {
				Text     string
				Logprobs []struct {
					Token string
					Bytes []byte
				}
			}
		}
	}
	for fields, want := range map[string]string{
		`"input":"hi"`:              "Hello thére.",
		`"input":"hi","stop":"ére"`: "Hello th", `"input":"hi","tools":[{"type":"function","name":"get_weather"},{"type":"function","name":"get_time"}]`: "I look.",
	} {
		got := fake.Post[response](s, "/v1/responses", `{`+fields+`,"top_logprobs":1,"temperature":0}`)
		text, tokens := "", ""
		for _, item := range got.Output {
			if item.Type != "message" {
				continue
			}
			for _, part := range item.Content {
				text += part.Text
				for _, one := range part.Logprobs {
					tokens += one.Token
				}
			}
		}
		if text != want || !strings.HasPrefix(strings.TrimLeft(tokens, "\n"), want[:len(want)-4]) || strings.Contains(tokens, "think") {
			t.Errorf("%s: the text is %q, its tokens are %q, want %q", fields, text, tokens, want)
		}
	}
}
