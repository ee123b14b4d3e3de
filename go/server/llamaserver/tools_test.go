package llamaserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tools"
)

// hands are two tools: one answers with its parameters, one writes chunks. Of calls that are to wait, each says that it has begun,
// and ends when it may.
type hands struct{ begun, end chan struct{} }

func (hands) Tools() []tools.Tool {
	return []tools.Tool{{Name: "say", Display: "Say", Definition: json.RawMessage(`{"type":"function","function":{"name":"say"}}`)},
		{Name: "count", Display: "Count", Writes: true, Streams: true, Definition: json.RawMessage(`{"type":"function","function":{"name":"count"}}`)}}
}

func (h hands) Do(_ context.Context, c tools.Call) (json.RawMessage, error) {
	switch {
	case strings.Contains(string(c.Params), "wait"):
		h.begun <- struct{}{}
		<-h.end
		return json.RawMessage("{}"), nil
	case c.Tool == "say":
		return json.Marshal(map[string]any{"params": c.Params, "dir": c.Dir, "bytes": c.Base64})
	case c.Tool != "count":
		return nil, tools.ErrUnknown
	case c.Chunk == nil:
		return nil, errors.New("it broke")
	}
	err := errors.Join(c.Chunk("one"), c.Chunk("two"))
	if strings.Contains(string(c.Params), "break") {
		err = errors.New("it broke")
	}
	return nil, err
}

// A caller has half of the turns at most, and all have them together; what is above is refused, not kept waiting.
func TestOwnTurns(t *testing.T) {
	t.Parallel()
	own := hands{make(chan struct{}), make(chan struct{})}
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) {
		c.Own, c.Caller = own, func(c *gin.Context) answer.Caller {
			return answer.Caller{Flow: c.GetHeader("X-Who"), Admin: c.GetHeader("X-Who") != "ann"}
		}
	})
	call := func(who, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/tools", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Who", who)
		w := httptest.NewRecorder()
		s.Server.Handler().ServeHTTP(w, r)
		return w
	}
	const waits, says = `{"tool":"say","params":{"a":"wait"}}`, `{"tool":"say"}`
	ended := make(chan int)
	fill := func(who string) {
		t.Helper()
		for range 4 {
			go func() { ended <- call(who, waits).Code }()
			<-own.begun
		}
	}
	fill("ann")
	if w := call("ann", says); w.Code != 429 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "this caller") {
		t.Errorf("a fifth call: %d %s", w.Code, w.Body)
	}
	if w := call("bob", says); w.Code != 200 {
		t.Errorf("somebody else's: %d %s", w.Code, w.Body)
	}
	fill("bob")
	if w := call("eve", says); w.Code != 429 || strings.Contains(w.Body.String(), "this caller") {
		t.Errorf("a ninth call: %d %s", w.Code, w.Body)
	}
	close(own.end)
	for range 8 {
		if status := <-ended; status != 200 {
			t.Errorf("a call that had a turn: %d", status)
		}
	}
	if w := call("ann", says); w.Code != 200 {
		t.Errorf("when all have ended: %d %s", w.Code, w.Body)
	}

	// Who is no administrator reads only, and is shown what reads.
	if w := call("ann", `{"tool":"count"}`); w.Code != 403 || !strings.Contains(w.Body.String(), "role") {
		t.Errorf("ann writes: %d %s", w.Code, w.Body)
	}
	if w := call("bob", `{"tool":"count","stream":true}`); w.Code != 200 {
		t.Errorf("bob writes: %d %s", w.Code, w.Body)
	}
	for who, want := range map[string]bool{"ann": false, "bob": true} {
		r := httptest.NewRequest("GET", "/tools", nil)
		r.Header.Set("X-Who", who)
		w := httptest.NewRecorder()
		s.Server.Handler().ServeHTTP(w, r)
		if got := w.Body.String(); strings.Contains(got, `"count"`) != want || !strings.Contains(got, `"say"`) {
			t.Errorf("%s is shown %s", who, got)
		}
	}
}

func TestOwnTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) {
		c.Own, c.Tools, c.ToolTime = hands{}, fake.Weather{}, time.Second
	})
	var list []struct {
		Name, Display, Type string
		Tool                string
		Permissions         struct{ Write bool }
		Dir                 bool `json:"uses_cwd"`
		Definition          struct {
			Type     string
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
	}
	_, b, _ := s.Do("GET", "/tools", "")
	if err := json.Unmarshal(b, &list); err != nil || len(list) != 3 {
		t.Fatalf("the list is %s", b)
	}
	if say, count, sky := list[0], list[1], list[2]; say.Tool != "say" || say.Type != "builtin" || !say.Dir || say.Permissions.Write ||
		!count.Permissions.Write || sky.Tool != "sky_get_weather" || sky.Type != "mcp" || sky.Definition.Function.Name != "sky_get_weather" ||
		sky.Definition.Type != "function" || !strings.Contains(string(sky.Definition.Function.Parameters), "place") {
		t.Errorf("the list is %s", b)
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"tool":"say","params":{"a":1}}`, 200, `"params":{"a":1}`},
		{`{"tool":"say"}`, 200, `"params":{}`},
		{`{"tool":"say","params":[]}`, 400, `"param":"params"`},
		{`{"tool":"say","stream":true}`, 400, `"param":"stream"`},
		{`{"params":{}}`, 400, `"param":"tool"`},
		{`{"tool":"dig"}`, 404, "GET /tools says"},
		{`{"tool":"count"}`, 500, ""},
		{`{"tool":"count","stream":true}`, 200, "data: {\"chunk\":\"one\"}\n\ndata: {\"chunk\":\"two\"}\n\ndata: {\"done\":true}\n\n"},
		{`{"tool":"count","stream":true,"params":{"a":"break"}}`, 200, "data: {\"done\":true,\"error\":\"internal error\"}"},
		{`{"tool":"sky_get_weather","params":{"place":"Rome"}}`, 200, `"plain_text_response":"get_weather{\"place\":\"Rome\"}"`},
		{`{"tool":"sky_get_weather","params":{"as":"shown"}}`, 200, `"parts":[{"type":"text"`},
		{`{"tool":"sky_get_weather","params":{"place":"nowhere"}}`, 200, `{"error":"the connection is closed"}`},
		{`{"tool":"sky_get_weather","params":{"place":"nothing"}}`, 200, `{"error":"no such place"}`},
		{`{"tool":"sky_get_weather","params":{"place":"slow"}}`, 200, `"error":`},
		{`{"tool":"sky_get_weather","stream":true}`, 400, `"param":"stream"`},
		{`{"tool":"get_weather"}`, 404, "GET /tools says"},
	} {
		if status, b, _ := s.Do("POST", "/tools", c.body); status != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.body, status, b, c.status, c.want)
		}
	}
	for header, want := range map[[2]string]string{
		{"X-Tool-Cwd", "sub"}:                          `"dir":"sub"`,
		{"X-Resp-Type", "base64"}:                      `"bytes":true`,
		{"X-Tool-Runtime", "moon:x"}:                   "unknown tool runtime",
		{"X-Tool-Runtime", "ssh:-oProxyCommand=x"}:     "invalid ssh target",
		{"X-Tool-Runtime", "docker-container:--x"}:     "invalid container id",
		{"Origin", "http://localhost:1"}:               "another origin",
		{"Content-Type", "application/x-www-form-url"}: "application/json",
	} {
		r := httptest.NewRequest("POST", "/tools", strings.NewReader(`{"tool":"say"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(header[0], header[1])
		w := httptest.NewRecorder()
		if s.Server.Handler().ServeHTTP(w, r); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%v: %d %s, want %s", header, w.Code, w.Body, want)
		}
	}
	without := fake.New(t, "Hello", nil)
	for _, method := range []string{"GET", "POST"} {
		if status, b, _ := without.Do(method, "/tools", "{}"); status != 501 || !strings.Contains(string(b), "--tools") {
			t.Errorf("%s without tools: %d %s", method, status, b)
		}
	}
}

// The proxy sends on what it is told to and nothing of its own.
func TestProxy(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		case "/on":
			for _, name := range []string{"Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints", "Location"} {
				w.Header().Set(name, "/cors-proxy?url=http://127.0.0.1:1/")
			}
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		case "/broken":
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Mcp-Protocol-Version", "7")
		body := new(strings.Builder)
		_, _ = http.MaxBytesReader(nil, r.Body, 1<<10).Read(nil)
		r.Header.Del("User-Agent")
		for _, name := range []string{"Accept", "Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization"} {
			body.WriteString(name + "=" + r.Header.Get(name) + ";")
		}
		_, _ = w.Write([]byte(body.String()))
	}))
	defer other.Close()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Proxy = true })
	get := func(method, to string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/cors-proxy?url="+url.QueryEscape(to), strings.NewReader("{}"))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.Server.Handler().ServeHTTP(w, r)
		return w
	}
	w := get("GET", other.URL+"/x", "Authorization", "Bearer mine", "Cookie", "c=d", "X-Api-Key", "mine",
		"x-llama-server-proxy-header-accept", "text/html", "X-Llama-Server-Proxy-Header-Authorization", "Bearer theirs")
	if want := "Accept=text/html;Authorization=Bearer theirs;Cookie=;X-Api-Key=;Proxy-Authorization=;"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	h := w.Header()
	if h.Get("Mcp-Protocol-Version") != "7" || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("headers %v", h)
	}
	if w := get("POST", other.URL+"/none"); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("nothing: %d %s", w.Code, w.Body)
	}
	for path, status := range map[string]int{"/away": 302, "/on": 307} { // where they lead may be this server
		w := get("POST", other.URL+path)
		for _, name := range []string{"Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints", "Location"} {
			if w.Header().Get(name) != "" {
				t.Errorf("%s: the header %s is passed on", path, name)
			}
		}
		if w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	front := httptest.NewServer(s.Server.Handler())
	defer front.Close()
	resp, err := http.Get(front.URL + "/cors-proxy?url=" + url.QueryEscape(other.URL+"/broken"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "half" || err == nil {
		t.Errorf("an answer that breaks off: %q and %v", b, err)
	}
	for _, to := range []string{"", "x", "file:///etc/passwd", "http://", "http://a:b@localhost/", "ftp://localhost/"} {
		if w := get("GET", to); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"url"`) {
			t.Errorf("%s: %d %s", to, w.Code, w.Body)
		}
	}
	if w := get("GET", "http://127.0.0.1:1/"); w.Code != 502 {
		t.Errorf("a server that is not there: %d %s", w.Code, w.Body)
	}
	if w := get("GET", other.URL, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("another page: %d %s", w.Code, w.Body)
	}
	without := fake.New(t, "Hello", nil)
	if status, b, _ := without.Do("GET", "/cors-proxy", ""); status != 403 || !strings.Contains(string(b), "--ui-mcp-proxy") {
		t.Errorf("without the flag: %d %s", status, b)
	}
}
