package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/engine"
)

// Answers are one of the choices, whichever way they are asked for and whatever
// else runs.
func TestAnswersAreOneOfTheChoices(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	choices := []string{"yes", "no", "no, thanks", "\u00fcber \u2603 alles", " 42", "Once upon a time, there was nothing at all."}
	list, _ := json.Marshal(choices)
	var mu sync.Mutex
	seen := map[string]int{}
	check := func(how, text, reason string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		seen[text]++
		if !slices.Contains(choices, text) || reason != "stop" {
			t.Errorf("%s: %q, %s", how, text, reason)
		}
	}
	type answer struct {
		Choices []struct {
			Text, Finish_reason string
			Message, Delta      struct{ Content string }
			Index               int
		}
	}
	free := func() { // beside them
		if got := post[answer](s, "/v1/completions", `{"prompt":"Once","max_tokens":30,"seed":1}`).Choices[0].Text; len(got) < 30 {
			t.Errorf("a free answer is %q", got)
		}
	}
	var wg sync.WaitGroup
	for seed := range 12 {
		wg.Go(free)
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":"Is it?","n":4,"seed":%d,"temperature":10,"top_k":0,"top_p":1,"min_p":0,"guided_choice":%s}`, seed*4, list)
			for _, c := range post[answer](s, "/v1/completions", body).Choices {
				check("completions", c.Text, c.Finish_reason)
			}
			body = fmt.Sprintf(`{"messages":[{"role":"user","content":"Is it?"}],"n":4,"seed":%d,"temperature":3,"structured_outputs":{"choice":%s,"regex":null}}`, seed, list)
			for _, c := range post[answer](s, "/v1/chat/completions", body).Choices {
				check("chat", c.Message.Content, c.Finish_reason)
			}
		})
		wg.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Is it?"}],"n":4,"seed":%d,"temperature":5,"stream":true,"logprobs":true,"top_logprobs":3,"guided_choice":%s}`, seed, list)
			texts, reasons := [4]string{}, [4]string{}
			for _, data := range s.events("/v1/chat/completions", body) {
				if data == "[DONE]" {
					break
				}
				for _, c := range parse[answer](t, []byte(data)).Choices {
					texts[c.Index] += c.Delta.Content
					reasons[c.Index] += c.Finish_reason
				}
			}
			for i := range texts {
				check("stream", texts[i], reasons[i])
			}
		})
		wg.Go(func() { // gone before it ends
			ctx, cancel := context.WithCancel(t.Context())
			body := fmt.Sprintf(`{"prompt":"Is it?","n_predict":500,"n":4,"stream":true,"guided_choice":[%q]}`, strings.Repeat("never ", 400))
			req, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/completion", strings.NewReader(body))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				cancel()
				return
			}
			io.ReadFull(resp.Body, make([]byte, 200))
			cancel()
			resp.Body.Close()
		})
	}
	wg.Wait()
	if len(seen) < 4 {
		t.Errorf("only %v were chosen: the test does not test that", seen)
	}
	// The likeliest of the choices, and a limit.
	type native struct {
		Content, Stop_type string
	}
	if got := post[native](s, "/completion", `{"prompt":"Once upon a","temperature":0,"guided_choice":[" car"," time"," the"]}`); got != (native{" time", "eos"}) {
		t.Errorf("the likeliest is %+v", got)
	}
	if got := post[native](s, "/completion", `{"prompt":"Once","n_predict":2,"guided_choice":["xxxxxxxxxxxxxxxxxxxx"]}`); got.Stop_type != "limit" || !strings.HasPrefix("xxxxxxxxxxxxxxxxxxxx", got.Content) {
		t.Errorf("with a limit %+v", got)
	}
	if got := post[native](s, "/completion", `{"prompt":"Once","ignore_eos":true,"guided_choice":["on"]}`); got.Content != "on" {
		t.Errorf("with ignore_eos %+v", got)
	}
}

func TestChoicesRefused(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	for _, tt := range []struct{ field, want string }{
		{`"guided_choice":[]`, "guided_choice: 0 choices, want 1 to 4096"},
		{`"guided_choice":["a",""]`, "a choice is empty"},
		{`"guided_choice":["a",3]`, "want an array of strings"},
		{`"guided_choice":"a"`, "want an array of strings"},
		{`"structured_outputs":["a"]`, "want an object"},
		{`"structured_outputs":{"choice":"a"}`, "choice: "},
		{`"structured_outputs":{"regex":"a"}`, `"regex" is not supported yet, want choice`},
		{`"guided_choice":["` + strings.Repeat("a", 70000) + `"]`, "70000 bytes"},
	} {
		status, b, _ := s.do("POST", "/completion", `{"prompt":"Once",`+tt.field+`}`)
		if status != 400 || !strings.Contains(parse[struct{ Error struct{ Message string } }](t, b).Error.Message, tt.want) {
			t.Errorf("%.60s: %d %.300s, want %q", tt.field, status, b, tt.want)
		}
	}
}
