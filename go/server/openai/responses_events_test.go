package openai_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A response has the log-probabilities of its text, whose tokens are those of the text alone.
func TestResponsesLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].content == 'call'",
				Text: "<think>\nHm, a < b.\n</think>\n\nOne < moment, 21 °C.\n<tool_call>\n{\"name\": \"get_weather\", " +
					"\"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
			{Text: "It is 21 °C in Rome. <END> More"},
		}})
	type token struct {
		Token   string
		Logprob *float64
		Bytes   []int
		Top     []struct{ Token string } `json:"top_logprobs"`
	}
	type part struct {
		Type, Text string
		Logprobs   []token
	}
	type item struct {
		Type    string
		Content []part
	}
	check := func(name, text string, tokens []token, top int) {
		t.Helper()
		all := ""
		for _, one := range tokens {
			for _, b := range one.Bytes {
				all += string([]byte{byte(b)})
			}
			if one.Logprob == nil || *one.Logprob > 0 || len(one.Top) != top {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if !strings.HasPrefix(strings.TrimSpace(all), strings.TrimSpace(text)) || len(all) > len(text)+8 {
			t.Errorf("%s: the tokens say %q, the text %q", name, all, text)
		}
	}
	for input, want := range map[string]string{"call": "One < moment, 21 °C.", "say": "It is 21 °C in Rome. "} {
		for fields, top := range map[string]int{`"include":["message.output_text.logprobs"]`: 0, `"top_logprobs":3`: 3} {
			body := fmt.Sprintf(`{"input":%q,"temperature":0,"stop":"<END>","tools":[{"type":"function","name":"get_weather","parameters":{}}],%s`, input, fields)
			name := input + " " + fields
			r := fake.Post[struct{ Output []item }](s, "/v1/responses", body+`}`)
			n := 0
			for _, it := range r.Output {
				for _, p := range it.Content {
					if p.Type == "output_text" {
						n++
						check(name, want, p.Logprobs, top)
					} else if p.Logprobs != nil {
						t.Errorf("%s: a %s has log-probabilities", name, p.Type)
					}
				}
			}
			if n != 1 {
				t.Fatalf("%s: %d texts in %+v", name, n, r)
			}
			var tokens []token
			for _, data := range s.NamedEvents("/v1/responses", body+`,"stream":true}`) {
				e := fake.Parse[struct {
					Type, Text string
					Logprobs   []token
					Part       part
				}](t, []byte(data))
				switch e.Type {
				case "response.output_text.delta":
					tokens = append(tokens, e.Logprobs...)
				case "response.output_text.done":
					check(name+" done", want, e.Logprobs, top)
					check(name+" streamed", want, tokens, top)
					if a, b := fmt.Sprint(len(e.Logprobs)), fmt.Sprint(len(tokens)); a != b || e.Text != want {
						t.Errorf("%s: %s tokens at the end, %s before, of %q", name, a, b, e.Text)
					}
				}
			}
			if tokens == nil {
				t.Errorf("%s: a stream has none", name)
			}
		}
	}
	if _, b, _ := s.Do("POST", "/v1/responses", `{"input":"say"}`); !strings.Contains(string(b), `"logprobs":[]`) {
		t.Errorf("without being asked: %s", b)
	}
}

// A response in the background goes on when the client of its stream has gone, and another client has its events from
// where the first one was.
func TestResponsesBackgroundStream(t *testing.T) {
	t.Parallel()
	const says = "Once there was a mill that ground all that was said, word by word."
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{{Text: says}}})
	type event struct {
		Type     string
		Sequence int `json:"sequence_number"`
		Delta    string
		Response resp
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/responses",
		strings.NewReader(`{"input":"hi","background":true,"stream":true,"temperature":0}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var first event
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			first = fake.Parse[event](t, []byte(data))
			break
		}
	}
	cancel()
	r.Body.Close()
	id := first.Response.ID
	if first.Type != "response.created" || first.Sequence != 0 || !strings.HasPrefix(id, "resp_") {
		t.Fatalf("it begins with %+v", first)
	}
	follow := func(query string) (events []event) {
		for _, block := range strings.Split(strings.TrimSpace(string(s.Get("/v1/responses/"+id+"?stream=true"+query))),
			"\n\n") {
			name, data, _ := strings.Cut(block, "\ndata: ")
			e := fake.Parse[event](t, []byte(data))
			if name != "event: "+e.Type {
				t.Errorf("the event %q", block)
			}
			events = append(events, e)
		}
		return events
	}
	rest := follow("&starting_after=0")
	text := ""
	for i, e := range rest {
		if e.Sequence != i+1 {
			t.Errorf("event %d has the number %d", i+1, e.Sequence)
		}
		text += e.Delta
	}
	last := rest[len(rest)-1]
	if text != says || last.Type != "response.completed" || last.Response.shown() != "message output_text "+says ||
		last.Response.Usage == nil {
		t.Errorf("%q, at the end %+v", text, last)
	}
	if again := follow(""); len(again) != len(rest)+1 {
		t.Errorf("%d events from the first on, %d after it", len(again), len(rest))
	}
	if got := follow(fmt.Sprint("&starting_after=", last.Sequence-1)); len(got) != 1 || got[0].Type != last.Type {
		t.Errorf("the last: %+v", got)
	}
	if got := fake.Parse[resp](t, s.Get("/v1/responses/"+id)); got.Status != "completed" ||
		got.shown() != "message output_text "+says {
		t.Errorf("stored: %+v", got)
	}
	for query, want := range map[string]string{"?stream=true&starting_after=x": "starting_after",
		"?stream=true&starting_after=-2": "starting_after"} {
		if status, b, _ := s.Do("GET", "/v1/responses/"+id+query, ""); status != 400 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s", query, status, b)
		}
	}
	plain := fake.Post[resp](s, "/v1/responses", `{"input":"hi","temperature":0}`).ID
	if status, b, _ := s.Do("GET", "/v1/responses/"+plain+"?stream=true", ""); status != 400 ||
		!strings.Contains(string(b), "sent whole") {
		t.Errorf("one without a stream: %d %s", status, b)
	}

	slow := fake.New(t, "Hello", nil)
	slow.Delay = 20 * time.Millisecond
	stream := slow.Lines("POST", "/v1/responses", `{"input":"x","background":true,"stream":true,"ignore_eos":true}`)
	<-stream // the name of the first event
	running := fake.Parse[event](t, []byte(strings.TrimPrefix(<-stream, "data: "))).Response.ID
	if r := fake.Post[resp](slow, "/v1/responses/"+running+"/cancel", ""); r.Status != "cancelled" {
		t.Errorf("cancelled: %+v", r)
	}
	end := ""
	for line := range stream {
		end = line
	}
	if e := fake.Parse[event](t, []byte(strings.TrimPrefix(end, "data: "))); e.Type != "response.failed" ||
		e.Response.Status != "cancelled" {
		t.Errorf("a cancelled one ends with %s", end)
	}
}
