package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Chat completions with store are kept, whole and streamed: they can be had, listed, labelled and deleted.
func TestChatsStored(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "tools", Text: "<think>A tool?</think>One moment.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " +
				"{\"place\": \"Rome\"}}\n</tool_call>"},
			{Text: "Hello there."},
		}})
	const path = "/v1/chat/completions"
	var whole map[string]any
	status, b, _ := s.Do("POST", path, `{`+fake.Hi+`,"store":true,"metadata":{"kind":"greeting"},"temperature":0}`)
	if err := json.Unmarshal(b, &whole); err != nil || status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	id := whole["id"].(string)
	if _, has := whole["metadata"]; has {
		t.Errorf("the answer has metadata: %s", b)
	}
	whole["metadata"] = map[string]any{"kind": "greeting"}
	got := fake.Parse[map[string]any](t, s.Get(path+"/"+id))
	if a, b := fmt.Sprint(whole), fmt.Sprint(got); a != b {
		t.Errorf("stored is\n%s, sent was\n%s", b, a)
	}
	events := s.Events(path, `{`+withTools+`,"store":true,"stream":true,"metadata":{"kind":"tools"}}`)
	streamed := fake.Parse[struct{ ID string }](t, []byte(events[0])).ID
	c := fake.Parse[chatAnswer](t, s.Get(path+"/"+streamed))
	if m := c.Choices[0].Message; c.Object != "chat.completion" || *m.Content != "One moment." ||
		m.Reasoning != "A tool?" || len(m.Calls) != 1 || m.Calls[0].Function.Arguments != `{"place": "Rome"}` ||
		c.Choices[0].Finish != "tool_calls" || c.Usage.CompletionTokens == 0 {
		t.Errorf("a stream is stored as %+v", c)
	}
	fake.Post[chatAnswer](s, path, `{`+fake.Hi+`}`) // which is not
	type list struct {
		Object string
		Data   []struct {
			ID, Role, Content string
			Metadata          map[string]string
		}
		More  bool   `json:"has_more"`
		First string `json:"first_id"`
		Last  string `json:"last_id"`
	}
	for query, want := range map[string]string{
		"": id + streamed, "?order=desc": streamed + id, "?limit=1": id, "?after=" + id: streamed,
		"?metadata[kind]=tools":        streamed,
		"?metadata%5Bkind%5D=greeting": id, "?metadata[kind]=none": "", "?model=scripted": id + streamed, "?model=other": "",
		"?other]=none": id + streamed, "?metadata[kind=none": id + streamed,
	} {
		l := fake.Parse[list](t, s.Get(path+query))
		all := ""
		for _, d := range l.Data {
			all += d.ID
		}
		if all != want || l.Object != "list" || l.More != (query == "?limit=1") ||
			want != "" && (l.First != l.Data[0].ID || l.Last != l.Data[len(l.Data)-1].ID) {
			t.Errorf("%s: %+v, want %s", query, l, want)
		}
	}
	if l := fake.Parse[list](t, s.Get(path+"/"+id+"/messages")); len(l.Data) != 1 || l.Data[0].Role != "user" ||
		l.Data[0].Content != "hi" || l.Data[0].ID == "" {
		t.Errorf("messages %+v", l)
	}
	again := fake.Post[chatAnswer](s, path,
		`{"messages":[{"id":"`+id+`-0","role":"user","content":"hi"}],"store":true,"metadata":{"kind":"again"}}`).ID
	if l := fake.Parse[list](t, s.Get(path+"/"+again+"/messages")); len(l.Data) != 1 || l.Data[0].ID != again+"-0" ||
		l.Data[0].Content != "hi" {
		t.Errorf("messages that were listed before: %+v", l)
	}
	s.Do("DELETE", path+"/"+again, "")
	if m := fake.Post[list](s, path+"/"+id, `{"metadata":{"kind":"other"}}`); m.Object != "chat.completion" {
		t.Errorf("labelled: %+v", m)
	}
	if l := fake.Parse[list](t, s.Get(path+"?metadata[kind]=other")); len(l.Data) != 1 ||
		l.Data[0].Metadata["kind"] != "other" {
		t.Errorf("labelled: %+v", l)
	}
	if status, b, _ := s.Do("DELETE", path+"/"+id, ""); status != 200 || !fake.Parse[deletion](t, b).Deleted {
		t.Errorf("deleted: %d %s", status, b)
	}
	for request, want := range map[string]int{
		"GET " + path + "/" + id: 404, "DELETE " + path + "/" + id: 404, "GET " + path + "/" + id + "/messages": 404,
		"GET /v1/responses/" + streamed:    404,
		"DELETE /v1/responses/" + streamed: 404, "GET " + path + "?limit=0": 400, "GET " + path + "?after=" + id: 400,
	} {
		method, at, _ := strings.Cut(request, " ")
		if status, b, _ := s.Do(method, at, ""); status != want {
			t.Errorf("%s: %d %s, want %d", request, status, b, want)
		}
	}
	for body, want := range map[string]int{`{}`: 400, `{"metadata":5}`: 400, `{"metadata":{}}`: 404} {
		if status, b, _ := s.Do("POST", path+"/"+id, body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, b, want)
		}
	}
	limit, reason := s.Device.Budget().Limit()
	s.Device.Adjust(engine.Reading{Limit: limit, Reason: reason}) // which counts what is stored
	if n := s.Device.Budget().ByPurpose()["stored responses"]; n < 4<<10 || n > 16<<10 {
		t.Errorf("one is stored in %d bytes", n)
	}
}
