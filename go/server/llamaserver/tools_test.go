package llamaserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tools"
)

// hands are two tools: one answers with its parameters, one writes chunks.
type hands struct{}

func (hands) Tools() []tools.Tool {
	return []tools.Tool{{Name: "say", Display: "Say", Definition: json.RawMessage(`{"type":"function","function":{"name":"say"}}`)},
		{Name: "count", Display: "Count", Writes: true, Streams: true, Definition: json.RawMessage(`{"type":"function","function":{"name":"count"}}`)}}
}

func (hands) Do(_ context.Context, c tools.Call) (json.RawMessage, error) {
	switch {
	case c.Tool == "say" && c.Chunk != nil:
		return nil, tools.ErrNoStream
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
		{`{"tool":"count","stream":true,"params":{"a":"break"}}`, 200, "data: {\"done\":true,\"error\":\"it broke\"}"},
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
	if w := get("GET", other.URL+"/away"); w.Code != 302 {
		t.Errorf("a redirect: %d %s", w.Code, w.Body)
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
