package openai_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/quota"
)

// agentSite serves a model that calls the tool that it is told, and then says what it answered.
func agentSite(t *testing.T, box agent.Servers, c server.Config) *fake.Site {
	t.Helper()
	says := scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"}}
	call := func(name string) string { return fake.ToolCall(name, `{"name": "Ann"}`) }
	says.Scripts = append(says.Scripts,
		scripted.Script{When: "messages[-1].role == 'tool' and messages[0].content == 'again' and tools", Text: call("door__greet")},
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "So it is done."},
		scripted.Script{When: "messages[-1].content == 'both'", Text: call("door__greet") + "\n" + call("own")},
		scripted.Script{When: "messages[-1].content == 'twice'", Text: call("door__greet") + "\n" + call("door__look")},
		scripted.Script{When: "messages[-1].content == 'again'", Text: call("door__greet")},
		scripted.Script{When: "messages[-1].content == 'longer'", Text: call("door__long") + "\n" + call("door__greet") + "\n" + call("door__long")},
		scripted.Script{When: "messages[-1].content == 'late'", Text: call("door__wait") + "\n" + call("door__greet")})
	for _, name := range []string{"greet", "look", "jam", "long", "wait"} {
		says.Scripts = append(says.Scripts, scripted.Script{When: "messages[-1].content == '" + name + "'", Text: call("door__" + name)})
	}
	says.Scripts = append(says.Scripts, scripted.Script{Text: "Nothing to do."})
	c.MCP = box
	return fake.Demo(t, fake.Setup{Server: c, File: fake.ScriptFile(t, says), Ctx: 4096})
}

type agentItem struct {
	ID, Type, Status, Name, Arguments string
	Output                            *string
	Label                             string `json:"server_label"`
	Approval                          string `json:"approval_request_id"`
	Tools                             []struct{ Name string }
	Content                           []struct{ Text string }
	Error                             *struct {
		Type, Message string
		Content       []struct{ Text string }
	}
}

type agentResponse struct {
	ID, Status string
	Output     []agentItem
	Usage      struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// shown is the output in short.
func (r *agentResponse) shown() string {
	var all []string
	for _, it := range r.Output {
		text := it.Type
		switch {
		case it.Type == "mcp_list_tools":
			text += fmt.Sprint(" ", len(it.Tools))
		case it.Type == "message":
			text += " " + it.Content[0].Text
		case it.Error != nil:
			text += " " + it.Name + " " + it.Status + " " + it.Error.Type + " " + it.Error.Message
			for _, c := range it.Error.Content {
				text += c.Text
			}
		case it.Output != nil:
			text += " " + it.Name + " " + it.Status + " " + *it.Output
		default:
			text += " " + it.Name
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

const mcpTool = `{"type":"mcp","server_label":"door","require_approval":"never"}`

func agentBody(input, tools, more string) string {
	return `{"input":"` + input + `","temperature":0,"tools":[` + tools + `]` + more + `}`
}

// streamed returns the kinds of the events of a response, and what the last says of it.
func streamed[R any](t *testing.T, s *fake.Site, body string) (kinds []string, last R) {
	t.Helper()
	for i, data := range s.NamedEvents("/v1/responses", body) {
		e := fake.Parse[struct {
			Type     string
			Sequence int `json:"sequence_number"`
			Response R
		}](t, []byte(data))
		if kinds, last = append(kinds, strings.TrimPrefix(e.Type, "response.")), e.Response; e.Sequence != i {
			t.Errorf("event %d has the number %d", i, e.Sequence)
		}
	}
	return kinds, last
}

// The server calls what the model wants called, and the model goes on: whole, as a stream and in the background.
func TestResponsesCallMCP(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{ToolCalls: 3, ToolResult: 1000})
	const path = "/v1/responses"
	own := `{"type":"function","name":"own","parameters":{"type":"object"}}`
	for _, c := range []struct{ input, tools, more, want string }{
		{"greet", mcpTool, "", "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done."},
		{"twice", mcpTool, "", "mcp_list_tools 5; mcp_call greet completed Hello Ann; mcp_call look completed Hello Ann; message So it is done."},
		{"jam", mcpTool, "", "mcp_list_tools 5; mcp_call jam failed mcp_tool_execution_error error: the door is jammed; message So it is done."},
		{"both", mcpTool + "," + own, "", "mcp_list_tools 5; mcp_call greet completed Hello Ann; function_call own"},
		{"long", mcpTool, "", "mcp_list_tools 5; mcp_call long completed " + strings.Repeat("é", 500) + "\n(cut after 1000 bytes); message So it is done."},
		{"greet", strings.Replace(mcpTool, `"type"`, `"allowed_tools":["greet"],"type"`, 1), "", "mcp_list_tools 1; mcp_call greet completed Hello Ann; message So it is done."},
		{"again", mcpTool, "", "mcp_list_tools 5; mcp_call greet completed Hello Ann; mcp_call greet completed Hello Ann; mcp_call greet completed Hello Ann; message So it is done."},
		{"again", mcpTool, `,"max_tool_calls":1`, "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done."},
		{"again", mcpTool + "," + own, `,"max_tool_calls":1`, "mcp_list_tools 5; mcp_call greet completed Hello Ann; function_call own"},
		{"twice", mcpTool, `,"max_tool_calls":1`, "mcp_list_tools 5; mcp_call greet completed Hello Ann; mcp_call look failed mcp_protocol_error not called: the response has had its 1 calls; message So it is done."},
		{"greet", mcpTool, `,"max_tool_calls":0`, "mcp_list_tools 5; message <tool_call>\n{\"name\": \"door__greet\", \"arguments\": {\"name\": \"Ann\"}}\n</tool_call>"},
		{"greet", mcpTool, `,"tool_choice":"required"`, "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done."},
		{"greet", `{"type":"mcp","server_label":"door"}`, "", "mcp_list_tools 5; mcp_approval_request greet"},
		{"look", `{"type":"mcp","server_label":"door","require_approval":{"never":{"read_only":true}}}`, "", "mcp_list_tools 5; mcp_call look completed Hello Ann; message So it is done."},
		{"greet", `{"type":"mcp","server_label":"door","require_approval":{"never":{"read_only":true}}}`, "", "mcp_list_tools 5; mcp_approval_request greet"},
		{"greet", `{"type":"mcp","server_label":"door","require_approval":{"never":{"tool_names":["greet"]}}}`, "", "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done."},
	} {
		whole := fake.Post[agentResponse](s, path, agentBody(c.input, c.tools, c.more))
		if got := whole.shown(); got != c.want || whole.Status != "completed" || whole.Usage.Total != whole.Usage.Input+whole.Usage.Output {
			t.Errorf("%s %s: %s\n%s, want\n%s", c.input, c.more, whole.Status, got, c.want)
		}
		kinds, last := streamed[agentResponse](t, s, agentBody(c.input, c.tools, c.more+`,"stream":true`))
		if got := last.shown(); got != c.want || last.Usage != whole.Usage {
			t.Errorf("%s %s: a stream ends with\n%s, want\n%s; %+v, want %+v", c.input, c.more, got, c.want, last.Usage, whole.Usage)
		}
		text := strings.Join(kinds, " ")
		if want := "created in_progress output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done output_item.added"; !strings.HasPrefix(text, want) ||
			!strings.HasSuffix(text, " completed") {
			t.Errorf("%s: the events are %s", c.input, text)
		}
		if calls := strings.Count(c.want, "mcp_call"); strings.Count(text, "mcp_call.in_progress") != calls ||
			strings.Count(text, "mcp_call_arguments.done") != calls || strings.Count(text, "mcp_call.failed") != strings.Count(c.want, " failed ") ||
			strings.Count(text, "output_item.done") != len(last.Output) || strings.Count(text, "output_item.added") != len(last.Output) {
			t.Errorf("%s: the events are %s", c.input, text)
		}
	}
	if d.Greeted.Load() == 0 {
		t.Error("nobody was greeted")
	}
	one := fake.Post[agentResponse](s, path, agentBody("nothing", mcpTool, ""))
	two := fake.Post[agentResponse](s, path, agentBody("greet", mcpTool, ""))
	if two.Usage.Input < one.Usage.Input*3/2 || two.Usage.Output < one.Usage.Output {
		t.Errorf("two passes use %+v, one %+v", two.Usage, one.Usage)
	}
	for _, more := range []string{`,"background":true`, `,"background":true,"stream":true`} {
		status, b, _ := s.Do("POST", path, agentBody("greet", mcpTool, more))
		text := string(b)
		at := strings.Index(text, `"id":"resp_`)
		if status != 200 || at < 0 {
			t.Fatalf("%d %s", status, b)
		}
		id := text[at+6 : at+6+strings.Index(text[at+6:], `"`)]
		fake.Eventually(t, "the response ends", func() bool {
			r := fake.Parse[agentResponse](t, s.Get(path+"/"+id))
			return r.Status == "completed" && r.shown() == "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done."
		})
	}
}

// A document of the input is got and read once, however many passes the model has.
func TestResponsesReadOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "Tom has a boat.")
	}))
	t.Cleanup(site.Close)
	f, err := fetch.New(strings.TrimPrefix(site.URL, "http://"), "")
	if err != nil {
		t.Fatal(err)
	}
	d, box := fake.OpenDoor(t)
	c := server.Config{MCP: box, Fetch: f}
	says := scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"}, Scripts: []scripted.Script{
		{When: "messages[-1].role == 'tool' and 'Tom has a boat.' in messages[0].content", Text: "So it is done."},
		{When: "'Tom has a boat.' in messages[0].content", Text: fake.ToolCall("door__greet", `{"name": "Ann"}`)},
		{Text: "There is no document."}}}
	s := fake.Demo(t, fake.Setup{Server: c, File: fake.ScriptFile(t, says), Ctx: 4096})
	for _, more := range []string{"", `,"stream":true`, `,"background":true`} {
		body := `{"temperature":0,"tools":[` + mcpTool + `],"input":[{"role":"user","content":[{"type":"input_file","file_url":"` + site.URL + `/tom.txt"}]}]` + more + `}`
		var r agentResponse
		if asked.Store(0); strings.Contains(more, "stream") {
			_, r = streamed[agentResponse](t, s, body)
		} else {
			r = fake.Post[agentResponse](s, "/v1/responses", body)
		}
		fake.Eventually(t, "the response ends", func() bool {
			r = fake.Parse[agentResponse](t, s.Get("/v1/responses/"+r.ID))
			return r.Status != "in_progress"
		})
		if r.shown() != "mcp_list_tools 5; mcp_call greet completed Hello Ann; message So it is done." || asked.Load() != 1 {
			t.Errorf("%s: %s, asked %d times", more, r.shown(), asked.Load())
		}
	}
	if n := d.Greeted.Load(); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// A call that needs an approval is made once the client has given it, and never where it refuses.
func TestResponsesApproveMCP(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	const path, asks = "/v1/responses", `{"type":"mcp","server_label":"door"}`
	first := fake.Post[agentResponse](s, path, agentBody("greet", asks, ""))
	request := first.Output[1]
	if request.Type != "mcp_approval_request" || request.Name != "greet" || request.Label != "door" || request.Arguments != `{"name": "Ann"}` {
		t.Fatalf("%+v", request)
	}
	decide := func(approve, more string) string {
		return `{"temperature":0,"tools":[` + asks + `],"input":[{"type":"mcp_approval_response","approval_request_id":"` + request.ID +
			`","approve":` + approve + `}]` + more + `}`
	}
	after := `,"previous_response_id":"` + first.ID + `"`
	second := strings.Replace(decide("true", after), `"approve":true}`, `"approve":true},{"type":"mcp_approval_response","approval_request_id":"`+request.ID+`","approve":false}`, 1)
	s.Refused(path, second, 400, "input") // both in one input
	// What the request does not offer is refused, and what is wrong with a request is said before a call is made.
	s.Refused(path, strings.Replace(decide("true", after), asks, "", 1), 400, "input")
	s.Refused(path, decide("true", after+`,"include":["x"]`), 400, "include")
	s.Refused(path, decide("true", after+`,"text":{"format":{"type":"json_schema","name":"x","schema":{"type":"nothing"}}}`), 400, "text")
	if n := d.Greeted.Load(); n != 0 {
		t.Errorf("%d calls for requests that were refused", n)
	}
	if r := fake.Post[agentResponse](s, path, decide("false", after)); r.shown() != "message So it is done." || d.Greeted.Load() != 0 {
		t.Errorf("refused: %s, %d calls", r.shown(), d.Greeted.Load())
	}
	made := fake.Post[agentResponse](s, path, decide("true", after))
	if made.shown() != "mcp_call greet completed Hello Ann; message So it is done." || made.Output[0].Approval != request.ID || d.Greeted.Load() != 1 {
		t.Errorf("approved: %s, %d calls", made.shown(), d.Greeted.Load())
	}
	// Nor may it be decided again.
	for _, approve := range []string{"true", "false"} {
		s.Refused(path, decide(approve, `,"previous_response_id":"`+made.ID+`"`), 400, "input")
	}
	// It is not called again where the conversation goes on.
	third := fake.Post[agentResponse](s, path, `{"input":"and?","temperature":0,"tools":[`+asks+`],"previous_response_id":"`+made.ID+`"}`)
	if third.shown() != "message Nothing to do." || d.Greeted.Load() != 1 {
		t.Errorf("after that: %s, %d calls", third.shown(), d.Greeted.Load())
	}
	// A client without a store sends the items back.
	items := `{"temperature":0,"store":false,"tools":[` + asks + `],"input":[{"role":"user","content":"greet"},{"type":"mcp_approval_request","id":"r1","server_label":"door","name":"greet","arguments":"{\"name\":\"Bob\"}"},{"type":"mcp_approval_response","approval_request_id":"r1","approve":true}]}`
	if r := fake.Post[agentResponse](s, path, items); r.shown() != "mcp_list_tools 5; mcp_call greet completed Hello Bob; message So it is done." {
		t.Errorf("of items: %s", r.shown())
	}
	// What the request does not offer is not called, whoever approves it.
	if r := fake.Post[agentResponse](s, path, strings.Replace(items, `"type":"mcp",`, `"type":"mcp","allowed_tools":["look"],`, 1)); !strings.Contains(r.shown(),
		"mcp_call greet failed mcp_protocol_error not called") || d.Greeted.Load() != 2 {
		t.Errorf("not offered: %s", r.shown())
	}
	var kinds []string
	for _, data := range s.NamedEvents(path, decide("true", after+`,"stream":true`)) {
		kinds = append(kinds, strings.TrimPrefix(fake.Parse[struct{ Type string }](t, []byte(data)).Type, "response."))
	}
	if text := strings.Join(kinds, " "); !strings.HasPrefix(text, "created in_progress output_item.added mcp_call.in_progress mcp_call.completed output_item.done output_item.added") ||
		!strings.HasSuffix(text, " completed") || d.Greeted.Load() != 3 {
		t.Errorf("%d calls, the events are %s", d.Greeted.Load(), text)
	}
	// In the background the response is there while the call runs.
	wait := fake.Post[agentResponse](s, path, agentBody("wait", asks, ""))
	body := strings.Replace(decide("true", `,"background":true,"previous_response_id":"`+wait.ID+`"`), request.ID, wait.Output[1].ID, 1)
	for _, more := range []string{"", `,"stream":true`} {
		begun, id := d.Ended.Load(), ""
		if more == "" {
			id = fake.Post[agentResponse](s, path, body).ID
		} else {
			for line := range s.Lines("POST", path, strings.TrimSuffix(body, "}")+more+"}") {
				if _, rest, ok := strings.Cut(line, `"id":"resp_`); ok && id == "" {
					id = "resp_" + rest[:strings.Index(rest, `"`)]
				}
				if strings.Contains(line, "mcp_call.in_progress") {
					break
				}
			}
		}
		d.Awaits(t)
		if r := fake.Parse[agentResponse](t, s.Get(path+"/"+id)); r.Status != "in_progress" {
			t.Errorf("in the background: %s", r.Status)
		}
		s.Do("POST", path+"/"+id+"/cancel", "")
		fake.Eventually(t, "the call ends", func() bool { return d.Ended.Load() > begun })
	}
	s.Refused(path, decide("true", ""), 400, "input")
	s.Refused(path, `{"input":[{"type":"mcp_approval_response","approval_request_id":"x"}]}`, 400, "input")
}

// A server that has died, and one that is slow, are failed calls that the model is told of; a client that goes ends its call.
func TestResponsesMCPFails(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{ToolTime: 300 * time.Millisecond})
	const path = "/v1/responses"
	if r := fake.Post[agentResponse](s, path, agentBody("wait", mcpTool, "")); !strings.Contains(r.shown(), "mcp_call wait failed mcp_protocol_error no answer in 300ms; message So it is done.") {
		t.Errorf("slow: %s", r.shown())
	}
	d.Awaits(t)
	patient := agentSite(t, box, server.Config{})
	for _, more := range []string{"", `,"stream":true`} {
		before := d.Ended.Load()
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", patient.URL+path, strings.NewReader(agentBody("wait", mcpTool, more)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if r, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		}()
		d.Awaits(t)
		leave()
		<-gone
		fake.Eventually(t, "the call ends", func() bool { return d.Ended.Load() > before })
	}
	id := fake.Post[agentResponse](patient, path, agentBody("wait", mcpTool, `,"background":true`)).ID
	d.Awaits(t)
	before := d.Ended.Load()
	if status, b, _ := patient.Do("POST", path+"/"+id+"/cancel", ""); status != 200 || !strings.Contains(string(b), `"cancelled"`) {
		t.Errorf("cancel: %d %s", status, b)
	}
	fake.Eventually(t, "the call ends", func() bool { return d.Ended.Load() > before })
	d.Shut()
	at, _ := box.At("door")
	status, b, _ := patient.Do("POST", path, agentBody("greet", mcpTool, ""))
	r := fake.Parse[agentResponse](t, b)
	if status != 200 || !strings.Contains(r.shown(), "mcp_call greet failed mcp_protocol_error the MCP server cannot be reached, or has ended the connection; message So it is done.") ||
		strings.Contains(string(b), fake.DoorKey) || strings.Contains(string(b), at) {
		t.Errorf("dead: %d %s", status, b)
	}
}

// What goes wrong after a call ends the response, which has the call, and is stored; the status is not one after which
// clients send the request again.
func TestResponsesMCPKeepCalls(t *testing.T) {
	t.Parallel()
	_, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	const path = "/v1/responses"
	type broken struct {
		agentResponse
		Error *struct{ Code, Message string }
	}
	check := func(name string, r broken, status, code, output string) {
		t.Helper()
		if r.Status != status || r.Error == nil || r.Error.Code != code || len(r.Output) != 2 || !strings.HasPrefix(r.shown(), "mcp_list_tools 5; mcp_call "+output) ||
			r.Usage.Total == 0 || r.Usage.Total != r.Usage.Input+r.Usage.Output {
			t.Errorf("%s: %s %+v %+v %.200s", name, r.Status, r.Error, r.Usage, r.shown())
		}
	}
	everyWay := func(name, input, more, status, code, output string) string {
		t.Helper()
		whole := fake.Post[broken](s, path, agentBody(input, mcpTool, more))
		check(name, whole, status, code, output)
		check(name+", stored", fake.Parse[broken](t, s.Get(path+"/"+whole.ID)), status, code, output)
		events := s.NamedEvents(path, agentBody(input, mcpTool, more+`,"stream":true`))
		last := fake.Parse[struct {
			Type     string
			Response broken
		}](t, []byte(events[len(events)-1]))
		check(name+", a stream", last.Response, status, code, output)
		if last.Type != "response."+status {
			t.Errorf("%s: a stream ends with %s", name, last.Type)
		}
		check(name+", a stream, stored", fake.Parse[broken](t, s.Get(path+"/"+last.Response.ID)), status, code, output)
		id := fake.Post[broken](s, path, agentBody(input, mcpTool, more+`,"background":true`)).ID
		var r broken
		fake.Eventually(t, "the response ends", func() bool {
			r = fake.Parse[broken](t, s.Get(path+"/"+id))
			return r.Status != "in_progress"
		})
		check(name+", in the background", r, status, code, output)
		return whole.ID
	}
	// A conversation that fills the context, so that there is no room for any result.
	full := func(of string, spare int) string {
		count := fake.Post[struct {
			Tokens int `json:"input_tokens"`
		}](s, path+"/input_tokens", `{"input":"`+of+`","instructions":"x","tools":[`+mcpTool+`]}`)
		return `,"instructions":"` + strings.Repeat("x", 4096-spare-count.Tokens) + `"`
	}
	everyWay("full", "long", full("long", 90), "incomplete", "context_length_exceeded", "long completed (left out: the context has no room")
	// A call that outlives its request's time.
	id := everyWay("late", "wait", `,"deadline_ms":1500`, "failed", "timeout_error", "wait failed mcp_protocol_error no answer before the request's time was over")
	if r := fake.Post[agentResponse](s, path, `{"input":"and?","temperature":0,"tools":[`+mcpTool+`],"previous_response_id":"`+id+`"}`); r.shown() != "message Nothing to do." {
		t.Errorf("after one that failed: %s", r.shown())
	}
}

// Results share what the context has room for, and the model goes on, told what was cut.
func TestResponsesMCPFit(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	const path, note = "/v1/responses", ": the context has no room for more)"
	cut := func(name string, it agentItem, least int) int {
		t.Helper()
		if it.Output == nil || it.Status != "completed" {
			t.Fatalf("%s: %+v", name, it)
		}
		text, end, ok := strings.Cut(*it.Output, "\n(cut after ")
		if n := len(text); !ok || text != strings.Repeat("é", n/2) || end != fmt.Sprint(n, " bytes", note) || n < least {
			t.Errorf("%s: %d bytes, %s", name, n, end)
		}
		return len(text)
	}
	said := func(name string, r agentResponse) {
		t.Helper()
		if last := r.Output[len(r.Output)-1]; r.Status != "completed" || last.Type != "message" || last.Content[0].Text != "So it is done." {
			t.Errorf("%s: %s, %.300s", name, r.Status, r.shown())
		}
	}
	one := fake.Post[agentResponse](s, path, agentBody("long", mcpTool, ""))
	said("one", one)
	n := cut("one", one.Output[1], 2000)
	// What the answer may not have is the result's.
	short := fake.Post[agentResponse](s, path, agentBody("long", mcpTool, `,"max_output_tokens":150`))
	said("a short answer", short)
	if m := cut("a short answer", short.Output[1], 2000); m <= n {
		t.Errorf("%d bytes beside a short answer, %d beside a long one", m, n)
	}
	// The conversation can go on.
	next := fake.Post[agentResponse](s, path, `{"temperature":0,"tools":[`+mcpTool+`],"input":"and?","previous_response_id":"`+one.ID+`"}`)
	if next.shown() != "message Nothing to do." {
		t.Errorf("after it: %s", next.shown())
	}
	several := fake.Post[agentResponse](s, path, agentBody("longer", mcpTool, ""))
	said("several", several)
	if a, b := cut("the first of several", several.Output[1], 500), cut("the last", several.Output[3], 500); a > n/2 || b < a || a+b > n || d.Greeted.Load() != 1 {
		t.Errorf("%d and %d bytes of several, %d of one", a, b, n)
	}
	// A call that was approved, and a response in the background.
	asks := `{"type":"mcp","server_label":"door"}`
	first := fake.Post[agentResponse](s, path, agentBody("long", asks, ""))
	approved := fake.Post[agentResponse](s, path, `{"temperature":0,"background":true,"tools":[`+asks+`],"previous_response_id":"`+first.ID+
		`","input":[{"type":"mcp_approval_response","approval_request_id":"`+first.Output[1].ID+`","approve":true}]}`)
	fake.Eventually(t, "the response ends", func() bool {
		approved = fake.Parse[agentResponse](t, s.Get(path+"/"+approved.ID))
		return approved.Status != "in_progress"
	})
	said("approved", approved)
	cut("approved", approved.Output[0], 2000)
}

// A response is cancelled by its id while a call runs: the call ends, and the response with what it has.
func TestResponsesMCPCancelled(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	const path = "/v1/responses"
	const want = "mcp_list_tools 5; mcp_call wait failed mcp_protocol_error the response was cancelled before it answered; " +
		"mcp_call greet failed mcp_protocol_error not called: the response was cancelled"
	for _, way := range []struct{ more, method, path string }{
		{`,"stream":true`, "POST", path + "/%s/cancel"},
		{`,"stream":true`, "DELETE", "/v1/chat/completions/%s"},
		{`,"stream":true,"background":true`, "POST", path + "/%s/cancel"},
		{`,"stream":true,"background":true`, "DELETE", "/v1/chat/completions/%s"},
		{`,"background":true`, "POST", path + "/%s/cancel"},
	} {
		name, begun, id := way.method+" of"+way.more, d.Ended.Load(), ""
		var lines <-chan string
		if strings.Contains(way.more, "stream") {
			lines = s.Lines("POST", path, agentBody("late", mcpTool, way.more))
			<-lines
			id = fake.Parse[struct{ Response agentResponse }](t, []byte(strings.TrimPrefix(<-lines, "data: "))).Response.ID
		} else {
			id = fake.Post[agentResponse](s, path, agentBody("late", mcpTool, way.more)).ID
		}
		d.Awaits(t)
		status, b, _ := s.Do(way.method, fmt.Sprintf(way.path, id), "")
		if r := fake.Parse[agentResponse](t, b); status != 200 || r.ID != id || way.method == "POST" && r.Status != "cancelled" {
			t.Errorf("%s: %d %s", name, status, b)
		}
		if lines != nil {
			last := ""
			for line := range lines {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					last = data
				}
			}
			e := fake.Parse[struct {
				Type     string
				Response agentResponse
			}](t, []byte(last))
			if e.Type != "response.failed" || e.Response.Status != "cancelled" || e.Response.shown() != want {
				t.Errorf("%s: the last event is %s", name, last)
			}
		}
		var r agentResponse
		fake.Eventually(t, "the response ends", func() bool {
			r = fake.Parse[agentResponse](t, s.Get(path+"/"+id))
			return len(r.Output) > 0 && r.Status != "in_progress"
		})
		if r.Status != "cancelled" || r.shown() != want {
			t.Errorf("%s: stored is %s %s", name, r.Status, r.shown())
		}
		fake.Eventually(t, "the call ends", func() bool { return d.Ended.Load() == begun+1 })
		if status, _, _ := s.Do(way.method, fmt.Sprintf(way.path, id), ""); way.method == "DELETE" && status != 404 {
			t.Errorf("%s, again: %d", name, status)
		}
	}
	if d.Greeted.Load() != 0 {
		t.Errorf("%d calls after a response was cancelled", d.Greeted.Load())
	}
}

// A quota that a pass has spent ends the response after its calls, and refuses a request before the calls that it approves.
func TestResponsesMCPQuota(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	account := quota.New(quota.Limits{Day: quota.Amounts{Input: 5500, Output: 25}}, nil)
	s := agentSite(t, box, server.Config{Caller: func(*gin.Context) answer.Caller { return answer.Caller{Owner: "ann", Account: account} }})
	const path, asks = "/v1/responses", `{"type":"mcp","server_label":"door"}`
	approval := func(tool string) string {
		first := fake.Post[agentResponse](s, path, agentBody(tool, asks, ""))
		return `{"temperature":0,"tools":[` + asks + `],"previous_response_id":"` + first.ID +
			`","input":[{"type":"mcp_approval_response","approval_request_id":"` + first.Output[1].ID + `","approve":true}]}`
	}
	approve, greets := approval("long"), approval("greet")
	input := account.Usage().Sum(quota.Day).Input
	full := fake.Post[agentResponse](s, path, approve) // whose result is more than the quota has
	if stored := fake.Parse[agentResponse](t, s.Get(path+"/"+full.ID)); full.Status != "failed" || stored.shown() != full.shown() ||
		!strings.HasPrefix(full.shown(), "mcp_call long completed é") {
		t.Errorf("%s %.200s, stored is %.200s", full.Status, full.shown(), stored.shown())
	}
	if again := account.Usage().Sum(quota.Day).Input; again != input {
		t.Errorf("a prompt that was not computed counts %d tokens", again-input)
	}
	wide := strings.Replace(greets, `{"temperature"`, `{"instructions":"`+strings.Repeat("x y z ", 400)+`","temperature"`, 1)
	if status, b, _ := s.Do("POST", path, wide); status != 429 || !strings.Contains(string(b), "are left") || d.Greeted.Load() != 0 {
		t.Errorf("a prompt beyond the quota: %d %.200s, %d calls", status, b, d.Greeted.Load())
	}
	spent := fake.Post[struct {
		agentResponse
		Error struct{ Code string }
	}](s, path, agentBody("greet", mcpTool, ""))
	if spent.Status != "failed" || spent.Error.Code != "rate_limit_exceeded" || spent.shown() != "mcp_list_tools 5; mcp_call greet completed Hello Ann" || d.Greeted.Load() != 1 {
		t.Errorf("%s %+v %s, %d calls", spent.Status, spent.Error, spent.shown(), d.Greeted.Load())
	}
	if status, b, _ := s.Do("POST", path, greets); status != 429 {
		t.Errorf("%d %.200s, want 429", status, b)
	}
	if d.Greeted.Load() != 1 {
		t.Errorf("%d calls", d.Greeted.Load())
	}
}

// A request may have the URL that an MCP server has in the configuration, which clients of OpenAI's API always send.
func TestResponsesMCPURL(t *testing.T) {
	t.Parallel()
	_, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	at, _ := box.At("door")
	for _, url := range []string{`"` + at + `"`, `null`, `""`} {
		tool := `{"type":"mcp","server_label":"door","require_approval":"never","server_url":` + url + `}`
		r := fake.Post[agentResponse](s, "/v1/responses", agentBody("greet", tool, ""))
		if want := "mcp_list_tools 5; mcp_call greet completed Hello Ann"; !strings.HasPrefix(r.shown(), want) {
			t.Errorf("%s: %s, want %s", url, r.shown(), want)
		}
	}
}

// What a request may not say of MCP servers.
func TestResponsesMCPRefused(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	s := agentSite(t, box, server.Config{})
	const path = "/v1/responses"
	for more, want := range map[string]string{
		`"server_label":"wall"`: "no MCP server has the name",
		`"x":1`:                 "server_label: missing",
		`"server_label":"door","server_url":"http://10.0.0.1/"`:      "server_url: the server reaches",
		`"server_label":"door","authorization":"tok-secret"`:         "authorization: the server reaches",
		`"server_label":"door","headers":{"X-Key":"tok-secret"}`:     "headers: the server reaches",
		`"server_label":"door","require_approval":"sometimes"`:       "require_approval",
		`"server_label":"door","require_approval":{"never":3}`:       "never: ",
		`"server_label":"door","allowed_tools":"greet"`:              "allowed_tools: ",
		`"server_label":"door","require_approval":{}`:                "want always, never or an object",
		`"server_label":"door","require_approval":{"nevr":["look"]}`: "nevr",
		`"server_label":"door"},{"type":"mcp","server_label":"door"`: "a second tool with the MCP server",
	} {
		status, b, _ := s.Do("POST", path, agentBody("greet", `{"type":"mcp",`+more+`}`, ""))
		if status != 400 || !strings.Contains(string(b), want) || strings.Contains(string(b), "tok-secret") {
			t.Errorf("%s: %d %s, want %q", more, status, b, want)
		}
	}
	// A filter with a typo would select every tool.
	for filter, want := range map[string]string{
		`{"tool_name":["look"]}`:                  "tool_name",
		`{"tool_names":["look"],"readonly":true}`: "readonly",
		`{}`:                                   "want an array of names",
		`{"tool_names":null}`:                  "want an array of names",
		`{"tool_names":null,"read_only":null}`: "want an array of names",
		`{"tool_names":"look"}`:                "tool_names",
		`{"tool_names":[1]}`:                   "tool_names",
		`{"tool_names":["look"],"read_only":"yes"}`: "read_only",
		`[1]`:  "number",
		`true`: "want an array of names",
	} {
		for _, of := range []string{`"allowed_tools":%s`, `"require_approval":{"never":%s}`, `"require_approval":{"always":%s}`} {
			tool := fmt.Sprintf(`{"type":"mcp","server_label":"door",`+of+`}`, filter)
			status, b, _ := s.Do("POST", path, agentBody("greet", tool, ""))
			if status != 400 || !strings.Contains(string(b), want) {
				t.Errorf("%s: %d %s, want %q", tool, status, b, want)
			}
		}
	}
	if n := d.Greeted.Load(); n != 0 {
		t.Errorf("%d calls", n)
	}
	without := agentSite(t, nil, server.Config{})
	if status, b, _ := without.Do("POST", path, agentBody("greet", mcpTool, "")); status != 400 || !strings.Contains(string(b), "no tools") {
		t.Errorf("without servers: %d %s", status, b)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(agentBody("greet", mcpTool, "")))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "https://elsewhere.example")
	if r, err := http.DefaultClient.Do(req); err != nil || r.StatusCode != 403 {
		t.Errorf("from another page: %v %v", r.StatusCode, err)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(agentBody("greet", mcpTool, "")))
	req.Header.Set("Content-Type", "text/plain")
	if r, err := http.DefaultClient.Do(req); err != nil || r.StatusCode != 415 {
		t.Errorf("as a form: %v %v", r.StatusCode, err)
	}
}

// A request of a batch, which is sent again when the server ends, has no tool called.
func TestBatchesCallNoMCP(t *testing.T) {
	t.Parallel()
	d, box := fake.OpenDoor(t)
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := agentSite(t, box, server.Config{Batches: store})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Server.RunBatches(ctx) }()
	defer func() { cancel(); <-done }()
	in, err := store.AddFile("me", "in", "batch", strings.NewReader(
		`{"custom_id":"a","method":"POST","url":"/v1/responses","body":`+agentBody("greet", mcpTool, "")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.AddBatch("me", in.ID, "/v1/responses", "24h", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	fake.Eventually(t, "the batch ends", func() bool {
		b, err = store.Batch("me", b.ID)
		return err != nil || b.ErrorFile != "" || b.Output != ""
	})
	f, err := store.Content("me", b.ErrorFile)
	if err != nil {
		t.Fatal(b, err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || !strings.Contains(string(text), `"status_code":400`) || !strings.Contains(string(text), "a request of a batch may not have tools") ||
		d.Greeted.Load() != 0 {
		t.Errorf("%d calls, %s, %v", d.Greeted.Load(), text, err)
	}
}
