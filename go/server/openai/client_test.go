package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A GET of a model that is not there has OpenAI's code.
func TestUnknownModelIsNotFound(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	status, b, _ := s.Do("GET", "/v1/models/none", "")
	e := fake.Parse[struct {
		Error struct {
			Code  string `json:"code"`
			Type  string `json:"type"`
			Param string `json:"param"`
		} `json:"error"`
	}](t, b).Error
	if status != 404 || e.Code != "model_not_found" || e.Type != "invalid_request_error" || e.Param != "model" {
		t.Errorf("%d %s", status, b)
	}
}

// Items that were given as texts have typed content, as OpenAI lists them.
func TestInputItemsAreTyped(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	id := fake.Post[struct{ ID string }](s, "/v1/responses", `{"max_output_tokens":4,"input":[{"role":"developer","content":"Be brief."},{"role":"user","content":"Hi \"you\""},
		{"role":"assistant","content":"Hello","id":"msg_own"},{"type":"message","role":"user","content":[{"type":"input_text","text":"What?"}]}]}`).ID
	_, b, _ := s.Do("GET", "/v1/responses/"+id+"/input_items?order=asc", "")
	list := fake.Parse[struct {
		Data []struct {
			ID      string `json:"id"`
			Type    string `json:"type"`
			Role    string `json:"role"`
			Status  string `json:"status"`
			Content []struct {
				Type        string `json:"type"`
				Text        string `json:"text"`
				Annotations []any  `json:"annotations"`
			} `json:"content"`
		} `json:"data"`
	}](t, b)
	got := ""
	for _, item := range list.Data {
		got += fmt.Sprintf("%s %s %s %s;", item.Type, item.Role, item.Content[0].Type, item.Content[0].Text)
		if (item.Role == "assistant") != (item.Content[0].Annotations != nil) || item.ID == "" {
			t.Errorf("%s", b)
		}
	}
	if want := `message developer input_text Be brief.;message user input_text Hi "you";message assistant output_text Hello;message user input_text What?;`; got != want || list.Data[2].ID != "msg_own" {
		t.Errorf("got %s\nof %s", got, b)
	}
}

// TGI has the schema of json_object under another name.
func TestJSONObjectWithValue(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	const form = `"response_format":{"type":"json_object","value":{"type":"object","properties":{"colour":{"enum":["red","green"]}},"required":["colour"],"additionalProperties":false}}`
	a := fake.Post[struct {
		Choices []struct {
			Message struct{ Content string } `json:"message"`
		} `json:"choices"`
	}](s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"A colour?"}],"max_tokens":200,"temperature":0,`+form+`}`)
	var got map[string]string
	if err := json.Unmarshal([]byte(a.Choices[0].Message.Content), &got); err != nil || len(got) != 1 ||
		got["colour"] != "red" && got["colour"] != "green" {
		t.Errorf("%v: %q", err, a.Choices[0].Message.Content)
	}
	status, b, _ := s.Do("POST", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object","schema":{},"value":{"type":"object"}}}`)
	if status != 400 || !strings.Contains(string(b), "value: given together with schema") {
		t.Errorf("two schemas: %d %s", status, b)
	}
}
