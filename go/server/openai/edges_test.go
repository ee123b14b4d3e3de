package openai_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// The role comes once, first, whatever that event says; and each token has its log-probability, also one that is only part
// of a character.
func TestFirstAndPartialTokens(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "aé", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Parts = 2 })
	for _, fields := range []string{``, `,"return_progress":true`} {
		roles := ""
		for i, data := range s.Events("/v1/chat/completions", `{`+fake.Hi+`,"stream":true`+fields+`}`) {
			if strings.Contains(data, `"role":"assistant"`) {
				roles += fmt.Sprint(i)
			}
		}
		if roles != "0" {
			t.Errorf("%s: events %s have the role", fields, roles)
		}
	}
	type read struct {
		Choices []struct {
			Logprobs *struct{ Content []struct{ Bytes []int } }
		}
	}
	const body = `{` + fake.Hi + `,"logprobs":true`
	tokens := func(list ...read) string {
		all := ""
		for _, r := range list {
			for _, c := range r.Choices {
				if c.Logprobs != nil {
					all += fmt.Sprint(c.Logprobs.Content)
				}
			}
		}
		return strings.NewReplacer("[", "", "]", "", "{", "", "}", "", " ", "").Replace(all)
	}
	var streamed []read
	for _, data := range s.Events("/v1/chat/completions", body+`,"stream":true}`) {
		if data != "[DONE]" {
			streamed = append(streamed, fake.Parse[read](t, []byte(data)))
		}
	}
	if whole, got := tokens(fake.Post[read](s, "/v1/chat/completions", body+"}")), tokens(streamed...); whole != "97195169" || got != whole {
		t.Errorf("tokens of the bytes %s, streamed %s", whole, got)
	}
}

// What cannot go together is refused also where no alternatives are asked for, and an echo has the prompt's tokens.
func TestNoAlternatives(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	s.Refused("/v1/completions", `{"prompt":"x","logprobs":0,"echo":true,"suffix":"y"}`, 400, "suffix")
	s.Refused("/v1/completions", `{"prompt":"x","prompt_logprobs":0,"stream":true}`, 400, "prompt_logprobs")
	type answer struct {
		Choices []struct {
			Text     string
			Logprobs struct {
				Tokens []string
				Top    []map[string]float64 `json:"top_logprobs"`
			}
			Prompt []map[string]any `json:"prompt_logprobs"`
		}
	}
	c := fake.Post[answer](s, "/v1/completions", `{"prompt":"Once upon a time","logprobs":0,"echo":true,"max_tokens":2,"temperature":0}`).Choices[0]
	if n := len(s.Tokens("Once upon a time")); len(c.Logprobs.Tokens) != n+2 || !strings.HasPrefix(c.Text, "Once upon a time") {
		t.Errorf("%d tokens for %q, want %d", len(c.Logprobs.Tokens), c.Text, n+2)
	}
	c = fake.Post[answer](s, "/v1/completions",
		`{"prompt":"Once upon a time","logprobs":3,"prompt_logprobs":1,"echo":true,"max_tokens":2,"temperature":0}`).Choices[0]
	for i, at := range c.Prompt[1:] {
		if len(at) > 2 || len(c.Logprobs.Top[i+1]) < 3 {
			t.Errorf("token %d has %v and %v, want one alternative and three", i, at, c.Logprobs.Top[i+1])
		}
	}
}

// Counting refuses what answering would, and models without vectors of texts say so.
func TestRefusalsOfOtherEndpoints(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, func(m *ask.Model) { m.Pooling = nn.PoolNone })
	s.Refused("/v1/embeddings", `{"input":"a"}`, 400, "")
	s.Refused("/v1/chat/completions/input_tokens", `{"messages":7}`, 400, "messages")
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1/responses/input_tokens", `{"input":"a","previous_response_id":"resp_none"}`, "resp_none", 404},
		{"/v1/responses/input_tokens", `{"input":"a","tools":7}`, "tools: ", 400},
		{"/v1/responses", `{"input":[{"type":"function_call_output","call_id":"c","output":7}]}`, "output: ", 400},
		{"/v1/responses", `{"input":[{"type":"function_call_output","output":"x"}]}`, "call_id: missing", 400},
		{"/v1/responses", `{"input":[{"type":"item_reference"}]}`, "id: missing", 400},
		{"/v1/responses", `{"input":[{"type":"function_call","call_id":"c"}]}`, "name: missing", 400},
		{"/v1/batches", `{"endpoint":"/v1/completions"}`, "input_file_id: missing", 400},
	} {
		if status, b, _ := s.Do("POST", c.path, c.body); status != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.path, c.body, status, b, c.status, c.want)
		}
	}
}

// Log-probabilities come with the first alternative that is asked for, and parts of items are numbered from 0.
func TestEventsOfResponses(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for fields, want := range map[string]bool{``: false, `,"top_logprobs":1`: true, `,"include":["message.output_text.logprobs"]`: true} {
		parts := 0
		for _, data := range s.NamedEvents("/v1/responses", `{"input":"hi","stream":true,"max_output_tokens":1`+fields+`}`) {
			e := fake.Parse[struct {
				Type     string
				Content  *int `json:"content_index"`
				Logprobs []any
			}](t, []byte(data))
			if e.Content != nil {
				if parts++; *e.Content != 0 {
					t.Errorf("%s", data)
				}
			}
			if e.Type == "response.output_text.delta" && (len(e.Logprobs) > 0) != want {
				t.Errorf("%s: %s", fields, data)
			}
		}
		if parts < 4 {
			t.Errorf("%s: %d events are about a part", fields, parts)
		}
	}
}

// Files are listed with the newest first, where the request does not say; pages have a size at most, and a batch's metadata
// too.
func TestLists(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Batches = store })
	var ids []string
	for range 3 {
		f, err := store.AddFile("", "in.jsonl", "batch", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, f.ID)
	}
	newest := slices.Clone(ids)
	slices.Reverse(newest)
	for query, want := range map[string][]string{"": newest, "?order=desc": newest, "?order=asc": ids, "?limit=1": newest[:1],
		"?limit=10000": newest, "?order=asc&after=" + ids[0]: ids[1:], "?purpose=batch_output": nil} {
		var got []string
		for _, f := range fake.Parse[struct{ Data []struct{ ID string } }](t, s.Get("/v1/files"+query)).Data {
			got = append(got, f.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	for path, status := range map[string]int{"/v1/files?limit=10001": 400, "/v1/batches?limit=10000": 200, "/v1/batches?limit=10001": 400,
		"/v1/files?limit=0": 400, "/v1/files?order=up": 400} {
		if got, b, _ := s.Do("GET", path, ""); got != status {
			t.Errorf("%s: %d %s", path, got, b)
		}
	}
	var made []string
	for range 2 {
		made = append(made, fake.Post[struct{ ID string }](s, "/v1/batches", `{"input_file_id":"`+ids[0]+`","endpoint":"/v1/completions"}`).ID)
	}
	for query, want := range map[string]string{"": made[1] + made[0], "?order=asc": made[0] + made[1]} {
		got := ""
		for _, b := range fake.Parse[struct{ Data []struct{ ID string } }](t, s.Get("/v1/batches"+query)).Data {
			got += b.ID
		}
		if got != want {
			t.Errorf("batches%s: %s, want %s", query, got, want)
		}
	}
	if status, b, _ := s.Do("POST", "/v1/files", `{}`); status != 400 || !strings.Contains(string(b), "the body is no form, want a form") {
		t.Errorf("a file as JSON: %d %s", status, b)
	}
	texts := func(n, name, value int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%s%02d":"%s"`, strings.Repeat("n", name-2), i, strings.Repeat("v", value)))
		}
		return strings.Join(all, ",")
	}
	for metadata, status := range map[string]int{texts(16, 64, 512): http.StatusOK, texts(17, 3, 1): 400, texts(1, 65, 1): 400, texts(1, 3, 513): 400} {
		got, b, _ := s.Do("POST", "/v1/batches", `{"input_file_id":"`+ids[0]+`","endpoint":"/v1/completions","metadata":{`+metadata+`}}`)
		if got != status || status != http.StatusOK && fake.ErrorOf(t, b).Param != "metadata" {
			t.Errorf("%.60s: %d %s", metadata, got, b)
		}
	}
}

// What cannot be kept is refused by its cause, and leaves nothing; a batch that is cancelled says so.
func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 200, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Batches = store })
	send := func(parts ...string) (int, string) {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		for _, p := range parts {
			name, value, _ := strings.Cut(p, "=")
			if name == "file" {
				part, _ := w.CreateFormFile("file", "in.jsonl")
				_, _ = io.WriteString(part, value)
			} else {
				_ = w.WriteField(name, value)
			}
		}
		w.Close()
		resp, err := http.Post(s.URL+"/v1/files", w.FormDataContentType(), &form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, c := range []struct {
		parts  []string
		status int
		want   string
	}{
		{[]string{"purpose=batch"}, 400, "file: missing"}, {[]string{"purpose=assistants", "file=x"}, 400, `purpose: \"assistants\", want batch`},
		{[]string{"file=x"}, 400, "purpose: "}, {[]string{"purpose=batch", "file=x", "file=y"}, 400, "file: given twice"},
		{[]string{"file=x", "purpose=batch", "expires=1"}, 400, "expires: not supported"},
		{[]string{"purpose=batch", "file=" + strings.Repeat("x", 201)}, 413, "used up"},
	} {
		if status, b := send(c.parts...); status != c.status || !strings.Contains(b, c.want) || len(store.Files("")) != 0 {
			t.Errorf("%.60q: %d %s, %d files", c.parts, status, b, len(store.Files("")))
		}
	}
	_, b := send("file=x", "purpose=vision")
	seen := fake.Parse[struct{ ID, Purpose string }](t, []byte(b))
	if kept, err := store.File("", seen.ID); err != nil || seen.Purpose != "vision" || kept.Purpose != "vision" {
		t.Errorf("a file for vision: %s, kept %+v, %v", b, kept, err)
	}
	if status, b, _ := s.Do("DELETE", "/v1/files/"+seen.ID, ""); status != 200 {
		t.Fatal(status, b)
	}
	_, b = send("file={}", "purpose=batch")
	f := fake.Parse[struct{ ID string }](t, []byte(b))
	made := fake.Post[struct{ ID, Status string }](s, "/v1/batches", `{"input_file_id":"`+f.ID+`","endpoint":"/v1/completions"}`)
	if status, b, _ := s.Do("DELETE", "/v1/files/"+f.ID, ""); status != 409 {
		t.Errorf("a file in use: %d %s", status, b)
	}
	if got := fake.Post[struct{ ID, Status string }](s, "/v1/batches/"+made.ID+"/cancel", ""); got.Status != "cancelling" || got.ID != made.ID || made.Status != "validating" {
		t.Errorf("%+v, then %+v", made, got)
	}
	if got := fake.Parse[struct{ ID string }](t, s.Get("/v1/files/"+f.ID)); got.ID != f.ID {
		t.Errorf("%+v", got)
	}
	if got := fake.Parse[struct{ ID string }](t, s.Get("/v1/batches/"+made.ID)); got.ID != made.ID {
		t.Errorf("%+v", got)
	}
}

// Parts of items are texts of known types, and thoughts come back sealed.
func TestPartsOfItems(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for parts, want := range map[string]string{
		`[{"type":"input_text","text":"a"},{"type":"refusal","refusal":"b"}]`: "", `[{"type":"input_image","image_url":"x"}]`: "reads text only, and the request has a picture",
		`[{"type":"video","text":"a"}]`: `part 0: type: the string \"video\", want input_text, output_text, input_image, input_file, input_audio or input_video`, `[{"type":"input_text"}]`: "part 0: text: missing, want a string",
		`[{"type":"text","text":"a"},{"type":"text","text":7}]`: "part 1: ",
	} {
		status, b, _ := s.Do("POST", "/v1/responses", `{"max_output_tokens":1,"input":[{"role":"user","content":`+parts+`}]}`)
		if (status == 200) != (want == "") || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s, want %q", parts, status, b, want)
		}
	}
	for fields, want := range map[string]string{
		`"reasoning":{"effort":"low","summary":"auto","more":7}`: "", `"reasoning":{"effort":"some"}`: "reasoning: effort: ", `"reasoning":{"summary":"long"}`: "reasoning: summary: ",
		`"reasoning":{"effort":null}`: "", `"text":{"verbosity":"low","format":null,"more":1}`: "", `"text":{"verbosity":"loud"}`: "text: verbosity: ",
		`"include":["nonsense"]`: "include: ", `"background":true,"store":false`: "background: true without store",
	} {
		status, b, _ := s.Do("POST", "/v1/responses", `{"max_output_tokens":1,"input":"a",`+fields+`}`)
		if (status == 200) != (want == "") || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s, want %q", fields, status, b, want)
		}
	}
}

// What is stored counts with all that is kept of it.
func TestMemoryOfWhatIsStored(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	stored := func() uint64 {
		limit, reason := s.Device.Budget().Limit()
		s.Device.Adjust(engine.Reading{Limit: limit, Reason: reason}) // which counts what is stored
		return s.Device.Budget().ByPurpose()["stored responses"]
	}
	const long = 800
	text := strings.Repeat("x", long)
	var metadata []string
	for i := range 16 {
		metadata = append(metadata, fmt.Sprintf(`"m%d":"%s"`, i, text[:long/16]))
	}
	for _, c := range []struct{ path, body, more string }{
		{"/v1/chat/completions", fake.Hi + `,"store":true,"max_tokens":1`, `"metadata":{` + strings.Join(metadata, ",") + `}`},
		{"/v1/responses", `"input":"hi","max_output_tokens":1`, `"metadata":{` + strings.Join(metadata, ",") + `}`},
		{"/v1/responses", `"input":"hi","max_output_tokens":1`, `"tools":[{"type":"function","name":"f","description":"` + text + `"}]`},
		{"/v1/responses", `"input":"hi","max_output_tokens":1`, `"text":{"format":{"type":"json_schema","name":"n","schema":{"description":"` + text + `"}}}`},
	} {
		before := stored()
		fake.Post[struct{}](s, c.path, "{"+c.body+"}")
		short := stored() - before
		fake.Post[struct{}](s, c.path, "{"+c.body+","+c.more+"}")
		if more := stored() - before - short; more < short+long {
			t.Errorf("%s with %.20s takes %d bytes, %d without", c.path, c.more, more, short)
		}
	}
}
