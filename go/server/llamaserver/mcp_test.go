package llamaserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func TestMCP(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) {
		c.Tools, c.ToolTime = fake.Weather{}, time.Second
	})
	_, b, _ := s.Do("GET", "/v1/mcp/tools", "")
	if list := fake.Parse[toolList](t, b); len(list.Data) != 1 || list.Data[0].Server != "sky" ||
		!strings.Contains(string(list.Data[0].Function), `"name":"get_weather"`) {
		t.Errorf("the list is %s", b)
	}
	if p := fake.Parse[props](t, second(s.Do("GET", "/props", ""))); !p.MCP {
		t.Error("/props does not say that there are tools")
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"name":"get_weather","arguments":{"place":"Rome"}}`, 200, `"content":"get_weather{\"place\":\"Rome\"}"`},
		{`{"name":"get_weather","arguments":"{\"place\":\"Rome\"}"}`, 200, `"server":"sky"`},
		{`{"name":"get_weather","arguments":{"as":"shown"}}`, 200, `"content":"sunny\n(a picture)","parts":[{"type":"text","text":"sunny"},` +
			`{"type":"image_url","image_url":{"url":"data:application/octet-stream;base64,UE5H"}}]`},
		{`{"name":"get_weather"}`, 200, `"content":"get_weather"`},
		{`{"name":"get_weather","arguments":[]}`, 400, `"param":"arguments"`},
		{`{"name":7}`, 400, `"param":"name"`},
		{`{}`, 400, `"param":"name"`},
		{`[]`, 400, "an object"},
		{`{"name":"get_fish"}`, 404, "/v1/mcp/tools says"},
		{`{"name":"get_weather","arguments":{"place":"nowhere"}}`, 502, "the connection is closed"},
		{`{"name":"get_weather","arguments":{"place":"slow"}}`, 504, "no answer in 1s"},
	} {
		if status, b, _ := s.Do("POST", "/v1/mcp/call", c.body); status != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.body, status, b, c.status, c.want)
		}
	}
	without := fake.New(t, "Hello", nil)
	for _, r := range [][2]string{{"GET", "/v1/mcp/tools"}, {"POST", "/v1/mcp/call"}} {
		if status, b, _ := without.Do(r[0], r[1], "{}"); status != 501 || !strings.Contains(string(b), "--mcp") {
			t.Errorf("%s without tools: %d %s", r, status, b)
		}
	}
}

func second(_ int, b []byte, _ http.Header) []byte { return b }

// Another origin's page cannot call tools, nor can a form.
func TestMCPOrigins(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Tools = fake.Weather{} })
	for _, c := range []struct {
		kind, header, value string
		status              int
	}{
		{"application/json", "", "", 200},
		{"application/json; charset=utf-8", "Sec-Fetch-Site", "same-origin", 200},
		{"application/json", "Origin", s.URL, 200},
		{"application/json", "Origin", "http://localhost:1", 403},
		{"application/json", "Origin", "null", 403},
		{"application/json", "Sec-Fetch-Site", "cross-site", 403},
		{"application/json", "Sec-Fetch-Site", "same-site", 403},
		{"text/plain", "", "", 415},
		{"application/x-www-form-urlencoded", "", "", 415},
		{"", "", "", 415},
	} {
		r, _ := http.NewRequest("POST", s.URL+"/v1/mcp/call", strings.NewReader(`{"name":"get_weather"}`))
		r.Header.Set("Content-Type", c.kind)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%+v: %d", c, resp.StatusCode)
		}
	}
}
