package llamaserver_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A real engine's answers to llama-server's requests: how they end, what is asked of them, and the same in a stream.
func TestCompletionOnTheEngine(t *testing.T) {
	t.Parallel()
	s := fake.Says(t, scripted.Script{Text: "One two\n  three\n four five."})
	prompt := scripted.Start(0)
	for fields, want := range map[string][3]string{ // the content, how it ended, the word
		``:                         {"One two\n  three\n four five.", "eos", ""},
		`,"stop":["zero","fo"]`:    {"One two\n  three\n ", "word", "fo"},
		`,"n_indent":2`:            {"One two\n  three\n ", "limit", ""},
		`,"n_predict":3`:           {"One", "limit", ""},
		`,"n_predict":0`:           {"", "limit", ""},
		`,"t_max_predict_ms":9000`: {"One two\n  three\n four five.", "eos", ""},
	} {
		type answer struct {
			Content string  `json:"content"`
			Stop    bool    `json:"stop"`
			Type    string  `json:"stop_type"`
			Word    string  `json:"stopping_word"`
			Tokens  []int32 `json:"tokens"`
			Made    int     `json:"tokens_predicted"`
		}
		body := fmt.Sprintf(`{"prompt":%q,"temperature":0,"return_tokens":true%s`, prompt, fields)
		whole := fake.Post[answer](s, "/completion", body+`}`)
		var streamed answer
		var last answer
		for _, e := range s.Events("/completion", body+`,"stream":true}`) {
			last = fake.Parse[answer](t, []byte(e))
			streamed.Content += last.Content
			streamed.Tokens = append(streamed.Tokens, last.Tokens...)
		}
		if fields == `,"n_predict":3` { // whatever three tokens are
			want[0] = whole.Content
			if whole.Made != 3 || !strings.HasPrefix("One two\n  three\n four five.", whole.Content) || whole.Content == "" {
				t.Errorf("three tokens: %+v", whole)
			}
		}
		if got := [3]string{whole.Content, whole.Type, whole.Word}; got != want || !whole.Stop {
			t.Errorf("%s: got %q, want %q", fields, got, want)
		}
		if got := [3]string{streamed.Content, last.Type, last.Word}; got != want || !last.Stop ||
			fmt.Sprint(streamed.Tokens) != fmt.Sprint(whole.Tokens) {
			t.Errorf("%s: streamed %q and %v, want %q and %v", fields, got, streamed.Tokens, want, whole.Tokens)
		}
	}
	some := fake.Post[map[string]any](s, "/completion",
		fmt.Sprintf(`{"prompt":%q,"temperature":0,"n_predict":1,"response_fields":["stop_type","generation_settings/n_predict","nothing/here"]}`, prompt))
	if want := map[string]any{"stop_type": "limit", "generation_settings/n_predict": 1.0}; !reflect.DeepEqual(some, want) {
		t.Errorf("some fields: %v", some)
	}
	two := fake.Post[[]struct {
		Index   int    `json:"index"`
		Content string `json:"content"`
	}](s, "/completion", fmt.Sprintf(`{"prompt":[%q,%q],"temperature":0}`, prompt, prompt))
	if len(two) != 2 || two[1].Index != 1 || two[1].Content != "One two\n  three\n four five." {
		t.Errorf("two prompts: %+v", two)
	}
}
