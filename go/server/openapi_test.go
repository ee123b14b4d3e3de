package server_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// Every route that does something is in the document and nothing else is; each example is right by
// its schema, is answered, and the answer is right by its own.
func TestDocument(t *testing.T) {
	t.Parallel()
	device, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	s := fake.New(t, "Hello world", func(c *server.Config, _ *ask.Model, _ *fake.Engine) {
		c.SlotPath, c.Device, c.Tools, c.Library = t.TempDir(), device, fake.Weather{}, &fake.Shelf{}
		all := quota.New(quota.Limits{Concurrent: 5}, nil)
		c.Keys = func() []quota.Key { return []quota.Key{{ID: "0a1b2c3d", Name: "web", Account: all}} }
		c.Caller = func(*gin.Context) answer.Caller {
			return answer.Caller{Admin: true, Priority: ask.MaxPriority, Account: all}
		}
	})
	document := s.Document()
	var d struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			RequestBody *struct {
				Required bool
				Content  map[string]struct{ Example json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(document.JSON, &d); err != nil {
		t.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %q", d.OpenAPI)
	}
	var want, got []string
	refused := map[string]bool{} // routes that only say why they are not here
	for _, a := range server.Absent() {
		for _, path := range a.Paths {
			for _, method := range a.Methods {
				refused[method+" "+path] = true
			}
		}
	}
	for _, r := range s.Server.Handler().(*gin.Engine).Routes() {
		if refused[r.Method+" "+r.Path] || r.Method == "HEAD" { // which is where GET is
			continue
		}
		want = append(want, strings.ToLower(r.Method)+" "+server.OpenPath(r.Path))
	}
	want = append(want, "get /models/sse", "get /v2/models/{id}/ready") // by the wildcards of models
	stored := fake.Post[struct{ ID string }](s, "/v1/responses", `{"input":"x","background":true}`).ID
	chat := fake.Post[struct{ ID string }](s, "/v1/chat/completions", `{`+fake.Hi+`,"store":true}`).ID
	ids := map[string]bool{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			got = append(got, method+" "+path)
			if ids[o.OperationID] {
				t.Errorf("operation %q is there twice", o.OperationID)
			}
			ids[o.OperationID] = true
			if path == "/models/sse" || path == "/docs" || path == "/cors-proxy" || path == "/v1/stream" {
				continue // it does not end, it is a page, see TestReference, it answers as another server, and as another request
			}
			at := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + method
			body, kind := "", "application/json"
			if o.RequestBody != nil {
				if _, form := o.RequestBody.Content["multipart/form-data"]; form {
					kind = "multipart/form-data"
				}
				body = string(o.RequestBody.Content[kind].Example)
				if o.RequestBody.Required != (body != "") {
					t.Errorf("%s %s: with the example %q the body is required: %v", method, path, body, o.RequestBody.Required)
				}
				if err := fake.Valid(t, document.Schema(at+"/requestBody/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema"),
					[]byte(orObject(body))); err != nil && body != "" {
					t.Errorf("%s %s: the example: %v", method, path, err)
				}
			}
			if kind == "multipart/form-data" {
				continue // TestTranscriptions sends such forms
			}
			real := strings.NewReplacer("{id}", "0").Replace(path)
			switch {
			case strings.HasPrefix(path, "/slots/"):
				real += "?action=erase"
			case strings.Contains(path, "models/{id}"):
				real = strings.Replace(path, "{id}", "fake/model", 1)
			case strings.Contains(path, "responses/{id}") && method != "delete":
				real = strings.Replace(path, "{id}", stored, 1)
			case strings.Contains(path, "chat/completions/{id}") && method != "delete":
				real = strings.Replace(path, "{id}", chat, 1)
			case path == "/models" && method == "delete":
				real += "?model=small"
			case path == "/models/load", path == "/models/unload":
				real, body = path, `{"model":"fake/model"}`
			case path == "/tools" && method == "post":
				body = `{"tool":"sky_get_weather","params":{"place":"Rome"}}`
			case path == "/api/create":
				body = strings.Replace(body, `"qwen3:0.6b"`, `"fake/model","stream":false`, 1)
			case path == "/lora-adapters" && method == "post":
				body = "[]"
			}
			status, b, _ := s.Do(strings.ToUpper(method), real, body)
			check := document.Schema(at + "/responses/200/content/application~1json/schema")
			if status != 200 {
				check = document.Schema(at + "/responses/default/content/application~1json/schema")
			}
			if status == 501 && (strings.HasSuffix(path, "load_lora_adapter") || strings.HasPrefix(path, "/v1/files") ||
				strings.HasPrefix(path, "/v1/batches") || strings.HasPrefix(path, "/v1/fine_tuning")) {
				continue // without --lora-dir, --batch-dir and --fine-tuning, which the tests of cmd/quern have
			}
			if status == 501 && path == "/embed_sparse" {
				continue // of a model without sparse vectors
			}
			expected := method != "delete" && path != "/props" && !strings.HasSuffix(path, "/control") || method == "get"
			if expected && status != 200 {
				t.Errorf("%s %s %s: status %d: %s", method, path, body, status, b)
			}
			if err := fake.Valid(t, check, b); err != nil {
				t.Errorf("%s %s: the answer %s: %v", method, path, b, err)
			}
			if path == "/models/unload" { // requests that read do not bring it back
				fake.Post[struct{}](s, "/models/load", body)
				fake.Post[struct{}](s, "/tokenize", `{"content":"x"}`)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the document has\n%q, the routes are\n%q", got, want)
	}
}

// What is wrong is told as the document says for each path, in the form that the API's clients know, and in no other.
func TestErrorsAreAsDocumented(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	document := s.Document()
	var d struct {
		Paths map[string]map[string]struct {
			RequestBody *struct{}
		}
	}
	if err := json.Unmarshal(document.JSON, &d); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for path, methods := range d.Paths {
		for method, o := range methods {
			if o.RequestBody == nil {
				continue
			}
			sent++
			status, b, _ := s.Do(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", "0"), "{")
			if status < 400 {
				t.Errorf("%s %s: status %d: %s", method, path, status, b)
			} else if err := fake.Valid(t, document.Answers(method, path, "default"), b); err != nil {
				t.Errorf("%s %s: the error %s: %v", method, path, b, err)
			}
		}
	}
	if sent < 40 {
		t.Errorf("only %d routes", sent)
	}
	for _, version := range []string{"", "2023-06-01"} { // which Anthropic's clients send
		r := httptest.NewRequest("GET", "/v1/models/none", nil)
		r.Header.Set("anthropic-version", version)
		w := httptest.NewRecorder()
		s.Server.Handler().ServeHTTP(w, r)
		if err := fake.Valid(t, document.Answers("get", "/v1/models/{id}", "default"), w.Body.Bytes()); w.Code != 404 ||
			err != nil {
			t.Errorf("a model that is not there, %q: %d %s: %v", version, w.Code, w.Body, err)
		}
	}
	long := strings.Repeat("x", 600)
	type refusal struct {
		clients, path, body string
		answer              []byte
	}
	all := []refusal{
		{clients: "OpenAI", path: "/v1/chat/completions", body: `{"messages":[{"role":"user","content":"` + long + `"}]}`},
		{clients: "OpenAI", path: "/v1/responses", body: `{"input":"` + long + `"}`},
		{clients: "OpenAI", path: "/completion", body: `{"prompt":"` + long + `"}`},
		{clients: "Anthropic", path: "/v1/messages",
			body: `{"max_tokens":1,"messages":[{"role":"user","content":"` + long + `"}]}`},
		{clients: "Ollama", path: "/api/chat", body: `{"messages":[{"role":"user","content":"` + long + `"}]}`},
	}
	for i := range all {
		_, all[i].answer, _ = s.Do("POST", all[i].path, all[i].body)
	}
	for _, to := range all {
		for _, of := range all {
			if to.clients == of.clients && to.path != of.path {
				continue
			}
			err := fake.Valid(t, document.Answers("post", to.path, "default"), of.answer)
			if (err == nil) != (to.path == of.path) {
				t.Errorf("%s, by its document, and the error of %s, %s: %v", to.path, of.path, of.answer, err)
			}
		}
	}
}

func orObject(body string) string {
	if body == "" {
		return "{}"
	}
	return body
}

// What validation refuses for its type or range, the document's schema does too,
// and both take the same.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	document := s.Document()
	for path, example := range map[string]string{
		"/v1/chat/completions": fake.Hi, "/v1/completions": `"prompt":"x"`, "/completion": `"prompt":"x"`,
		"/infill":      `"input_prefix":"x"`,
		"/v1/messages": fake.Hi + `,"max_tokens":100`, "/v1/responses": `"input":"x"`,
	} {
		to := fake.Body(t, s.Server.Routes(), path)
		check := document.Schema("/components/schemas/" + to.Name)
		for _, fields := range []string{
			`"temperature":0.5`, `"temperature":null`, `"temperature":-1`, `"temperature":101`, `"temperature":"x"`,
			`"top_k":1.5`, `"n_predict":-2`, `"stop":"x"`, `"stop":["x"]`,
			`"stop":[1]`, `"stream":1`, `"n":0`, `"n":1`, `"logit_bias":{"1":1}`, `"logit_bias":[[1,false]]`, `"logit_bias":1`,
			`"seed":-1`, `"made_up":[]`,
			`"samplers":["top_k"]`, `"samplers":1`, `"priority":5000`,
		} {
			body := []byte("{" + example + "," + fields + "}")
			err := field.Read(body, to.Defaults(&ask.Model{}).Fields())
			if byDoc := fake.Valid(t, check, body); (err == nil) != (byDoc == nil) {
				t.Errorf("%s: validation says %v, the document %v", body, err, byDoc)
			}
		}
	}
}

// The page of the endpoints has each path, and what a text of the program has of markup is text.
func TestReference(t *testing.T) {
	s := fake.New(t, "Hello world", nil)
	status, b, header := s.Do("GET", "/docs", "")
	page := string(b)
	if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" || header.Get("Content-Security-Policy") == "" {
		t.Fatalf("%d %v", status, header)
	}
	for _, r := range s.Server.Routes() {
		path := regexp.MustCompile(`[:*](\w+)`).ReplaceAllString(r.Paths[0], "{$1}")
		if !strings.Contains(page, "<code>"+r.Method+" "+path+"</code></h2>") {
			t.Errorf("%s %s is not there", r.Method, path)
		}
	}
	for _, want := range []string{"<code>n_predict, max_tokens, max_completion_tokens</code><td>-1<td>", `{&#34;type&#34;: &#34;json_object&#34;}`, "/v1/chat/completions -d &#39;{"} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not there", want)
		}
	}
	for _, tag := range []string{"table", "pre", "h2", "ul", "p"} {
		if n, ended := strings.Count(page, "<"+tag+">")+strings.Count(page, "<"+tag+" "), strings.Count(page, "</"+tag+">"); n == 0 || n != ended {
			t.Errorf("%d of %s, and %d ends", n, tag, ended)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("it has a script")
	}
}

// Aliases of paths and fields say what they are the same as, and fields that must be there come first on the page.
func TestAliases(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	type property struct {
		Description string
		Default     any
	}
	d := fake.Parse[struct {
		Paths map[string]map[string]struct {
			Summary     string
			RequestBody struct{ Required bool }
			Parameters  []struct {
				In, Name, Description string
				Required              bool
				Schema                struct{ Type string }
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]property
				Required   []string
			}
		}
	}](t, s.Get("/openapi.json"))
	if a, b := d.Paths["/completion"]["post"].Summary, d.Paths["/completions"]["post"].Summary; a != "Continue a text, as llama-server does" || b != "The same as /completion" {
		t.Errorf("the summaries are %q and %q", a, b)
	}
	if p := d.Paths["/props"]["get"].Parameters; len(p) != 1 || p[0].In != "query" || p[0].Name != "model" || p[0].Required || p[0].Schema.Type != "string" || p[0].Description == "" {
		t.Errorf("the parameters of /props are %+v", p)
	}
	if p := d.Paths["/slots/{id}"]["post"]; len(p.Parameters) != 3 || p.Parameters[0].In != "path" || !p.Parameters[0].Required || p.RequestBody.Required {
		t.Errorf("/slots/{id} has %+v", p)
	}
	if p := d.Paths["/completion"]["post"]; len(p.Parameters) != 0 || !p.RequestBody.Required {
		t.Errorf("/completion has %+v", p)
	}
	native := d.Components.Schemas["NativeRequest"]
	for name, want := range map[string]property{
		"n_predict":  {native.Properties["n_predict"].Description, -1.0},
		"max_tokens": {"The same as n_predict.", -1.0},
		"prompt":     {"What to continue: text, token ids, both mixed, or an array of these for several answers.", nil},
	} {
		if got := native.Properties[name]; got != want || strings.HasPrefix(native.Properties["n_predict"].Description, "The same") {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if len(native.Required) != 1 || native.Required[0] != "prompt" {
		t.Errorf("required are %q", native.Required)
	}
	unsupported := 0
	for _, schema := range d.Components.Schemas {
		for _, p := range schema.Properties {
			if strings.HasSuffix(p.Description, ".") && strings.Contains(p.Description, " Not supported yet: only ") {
				unsupported++
			}
		}
	}
	if unsupported == 0 {
		t.Error("no field says that it is not supported")
	}
	page := string(s.Get("/docs"))
	part := func(from, to string) string {
		_, rest, _ := strings.Cut(page, from)
		text, _, _ := strings.Cut(rest, to)
		return text
	}
	if !strings.HasPrefix(page, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Quern API</title>") {
		t.Errorf("it begins with %.100s", page)
	}
	for section, want := range map[string]string{
		"POST /completion":  "<p>Continue a text, as llama-server does. Also: <code>/completions</code>.</p>",
		"POST /infill":      "<p>Fill a gap in a text.</p>",
		"POST /models/load": "<p>Load a model; GET /models says when it is loaded. For keys with the role admin.</p>",
		"POST /v1/rerank": "<p>Order documents by what they have to say on a query. Also: <code>/rerank, /v1/reranking, " +
			"/reranking</code>.</p>",
	} {
		if got := part("<code>"+section+"</code></h2>\n", "\n"); got != want {
			t.Errorf("%s: %s, want %s", section, got, want)
		}
	}
	if !strings.Contains(page, "<style>:root{color-scheme") {
		t.Error("it has no style")
	}
	for section, has := range map[string]bool{"GET /props": true, "GET /health": false} {
		if strings.Contains(part("<code>"+section+"</code></h2>", "<h2"), "<th>parameter") != has {
			t.Errorf("%s has parameters: %v", section, !has)
		}
	}
	if first := part("<code>POST /completion</code></h2>", "</tr>"); !strings.Contains(first[strings.Index(first, "<th>field"):][:90], "<code>prompt</code><td>required") {
		t.Errorf("the first field is %.300s", first[strings.Index(first, "<th>field"):])
	}
}

// A method that a path does not have is told which it has, and a batch which endpoints it may have.
func TestOtherMethodsAndEndpoints(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	if status, b, _ := s.Do("PUT", "/completion", ""); status != 405 || fake.ErrorOf(t, b).Message != `PUT is not for "/completion", want POST` {
		t.Errorf("%d %s", status, b)
	}
	if status, b, _ := s.Do("GET", "/nothing", ""); status != 404 || fake.ErrorOf(t, b).Message != `there is no "/nothing"; /openapi.json says what there is` {
		t.Errorf("%d %s", status, b)
	}
	_, b, _ := s.Do("POST", "/v1/batches", `{"input_file_id":"x","endpoint":"/v1/models"}`)
	const want = `endpoint: "/v1/models", want one of /v1/chat/completions, `
	all := fake.ErrorOf(t, b).Message
	if !strings.HasPrefix(all, want) || strings.Contains(all, "/completion,") || strings.Contains(all, "load") || strings.Contains(all, "mcp") {
		t.Errorf("%s", all)
	}
	for _, path := range []string{"/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/rerank", "/v1/decisions", "/v1/systemone"} {
		if !strings.Contains(all+",", " "+path+",") {
			t.Errorf("%s is not among %s", path, all)
		}
	}
}

// Pages that the program serves beside the API are told, and Anthropic's clients get the id of their request.
func TestPagesAndIDs(t *testing.T) {
	t.Parallel()
	for _, pages := range [][]server.Page{nil, {{Path: "/", Summary: "Chat", ContentType: "text/html"}}, {{Path: "/metrics", Summary: "Metrics", ContentType: "text/plain"}}} {
		s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Besides = pages })
		p := fake.Parse[struct {
			UI      bool
			Metrics bool `json:"endpoint_metrics"`
		}](t, s.Get("/props"))
		if has := fmt.Sprint(pages); p.UI != strings.Contains(has, "Chat") || p.Metrics != strings.Contains(has, "Metrics") {
			t.Errorf("%v: %+v", pages, p)
		}
		for _, page := range pages {
			if !strings.Contains(string(s.Get("/openapi.json")), `"`+page.Path+`":{"get":{"operationId"`) || !strings.Contains(string(s.Get("/docs")), "<code>GET "+page.Path+"</code>") {
				t.Errorf("%s is not in the documents", page.Path)
			}
		}
		_, _, h := s.Do("POST", "/v1/messages", `{"max_tokens":1,`+fake.Hi+"}")
		_, _, other := s.Do("POST", "/v1/chat/completions", "{"+fake.Hi+"}")
		if id := h.Get("Request-Id"); !strings.HasPrefix(id, "req_") || len(id) < 20 || other.Get("Request-Id") != "" {
			t.Errorf("the ids are %q and %q", id, other.Get("Request-Id"))
		}
	}
}

// Personas are models for clients.
func TestPersonasAreListed(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	mario, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "fake/model"})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: mario, Base: "fake/model"}})
	if list := fake.Parse[fake.ModelList](t, s.Get("/v1/models")); len(list.Data) != 2 || list.Data[1].ID != "mario" {
		t.Errorf("%+v", list)
	}
	if a := fake.Post[fake.TextAnswer](s, "/v1/completions", `{"model":"mario","prompt":"x"}`); a.Model != "mario" {
		t.Errorf("%+v", a)
	}
}

var update = flag.Bool("update", false, "write the tables of docs/api.md anew")

// The tables of fields in the documentation are those of the program.
func TestDocs(t *testing.T) {
	t.Parallel()
	const path = "../../docs/api.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}
	routes := server.New(server.Config{}).Routes()
	of := func(path string) field.Query { return fake.Body(t, routes, path).Defaults(m) }
	common := ask.NewOptions(m)
	tables := map[string]field.Query{
		"generate": &common, "chat": of("/v1/chat/completions"), "completions": of("/v1/completions"),
		"native": of("/completion"),
		"infill": of("/infill"), "tokenize": of("/tokenize"), "detokenize": of("/detokenize"),
		"template": of("/apply-template"),
		"slots":    of("/slots/:id"), "anthropic": of("/v1/messages"), "responses": of("/v1/responses"),
		"embeddings": of("/v1/embeddings"), "transcriptions": of("/v1/audio/transcriptions"),
		"sparse": of("/embed_sparse"),
		"rerank": of("/v1/rerank"), "score": of("/v1/score"), "classify": of("/v1/classify"), "pooling": of("/pooling"), "decisions": of("/v1/decisions"),
		"systemone":  of("/v1/systemone"),
		"ollamaChat": fieldList(of("/api/chat").Fields()), "ollamaGenerate": fieldList(of("/api/generate").Fields()),
		"ollamaCreate": of("/api/create"),
	}
	seen := 0
	text := regexp.MustCompile(`(?s)<!-- fields (\w+) -->\n.*?<!-- end -->`).ReplaceAllStringFunc(string(b),
		func(old string) string {
			name := regexp.MustCompile(`fields (\w+)`).FindStringSubmatch(old)[1]
			seen++
			return "<!-- fields " + name + " -->\n" + fieldTable(tables[name]) + "<!-- end -->"
		})
	if seen != len(tables) {
		t.Errorf("%d tables in %s, want %d", seen, path, len(tables))
	}
	if text == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s has other fields than the program; go test ./go/server -update writes them", path)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A fieldList is a query that has all of its fields in its table.
type fieldList []field.Field

func (l fieldList) Fields() []field.Field { return l }

// fieldTable is the fields of a query, less those that all have which generate.
func fieldTable(q field.Query) string {
	var b strings.Builder
	b.WriteString("| field | takes | default | |\n| --- | --- | --- | --- |\n")
	fields := q.Fields()
	if _, ok := q.(answer.Prompter); ok {
		var common []string
		for _, f := range new(ask.Options).Fields() {
			common = append(common, f.Names[0])
		}
		fields = field.Without(fields, common...)
	}
	for _, f := range fields {
		s := f.To.Schema()
		takes := fmt.Sprint(s["type"])
		switch {
		case s["enum"] != nil:
			takes = strings.Join(s["enum"].([]string), ", ")
		case s["minimum"] != nil:
			takes += rangeOf(s)
		}
		if n, ok := f.To.(ask.Neutral); ok {
			takes = n.Want
		}
		if text, ok := s["description"].(string); ok && takes == "<nil>" {
			takes = text
		}
		standard := ""
		if !f.Input {
			v, err := reply.Encode(f.To.Value())
			if err != nil {
				return err.Error()
			}
			standard = "`" + string(v) + "`"
		}
		if f.Need {
			standard = "required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", strings.Join(f.Names, "` `"), strings.ReplaceAll(takes, "|", "\\|"),
			standard, f.Doc)
	}
	return b.String()
}

func rangeOf(s field.Schema) string {
	hi := fake.Bound(s["maximum"])
	lo := fake.Bound(s["minimum"])
	if hi >= 1<<31-1 && lo <= -(1<<40) {
		return ""
	}
	if hi >= 1<<31-1 {
		return " from " + number(lo)
	}
	return " " + number(lo) + " to " + number(hi)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
