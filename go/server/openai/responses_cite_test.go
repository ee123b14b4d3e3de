package openai_test

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// What an answer names of the pages that were found is annotated, whole and in a stream, and not what it names besides.
func TestResponsesCite(t *testing.T) {
	t.Parallel()
	_, e := fake.OpenIndex(t)
	const said = "See [One](https://one.example/a), not https://three.example/: \u00fc https://two.example/."
	says := scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"}, Scripts: []scripted.Script{
		{When: "messages[-1].role == 'tool'", Text: said}, {When: "messages[-1].content == 'say'", Text: said},
		{Text: fake.ToolCall("web_search", `{"query": "quern"}`)},
	}}
	s := fake.Demo(t, fake.Setup{Server: server.Config{Web: agent.Web{Search: e.Search}}, File: fake.ScriptFile(t, says), Ctx: 4096})
	type response struct {
		Output []struct {
			Type    string
			Content []struct {
				Text        string
				Annotations []struct {
					Type       string
					StartIndex int `json:"start_index"`
					EndIndex   int `json:"end_index"`
					URL, Title string
				}
			}
		}
	}
	shown := func(r response) (all string) {
		for _, part := range r.Output[len(r.Output)-1].Content {
			all += part.Text
			for _, a := range part.Annotations {
				all += "; " + a.Type + " " + a.Title + " " + a.URL + " " + string([]rune(part.Text)[a.StartIndex:a.EndIndex])
			}
		}
		return all
	}
	const want = said + "; url_citation One https://one.example/a [One](https://one.example/a)" +
		"; url_citation Two https://two.example/ https://two.example/"
	if got := shown(fake.Post[response](s, "/v1/responses", agentBody("search", searchTool, ""))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	kinds, last := streamed[response](t, s, agentBody("search", searchTool, `,"stream":true`))
	if got := shown(last); got != want {
		t.Errorf("a stream: %s\nwant\n%s", got, want)
	}
	if text := strings.Join(kinds, " "); !strings.HasSuffix(text, "output_text.delta output_text.annotation.added output_text.annotation.added "+
		"output_text.done content_part.done output_item.done completed") {
		t.Errorf("the events are %s", text)
	}
	if got := shown(fake.Post[response](s, "/v1/responses", agentBody("say", searchTool, ""))); got != said { // nothing was found
		t.Errorf("without a search: %s", got)
	}
}
