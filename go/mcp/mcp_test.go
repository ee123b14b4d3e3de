package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// asServer makes this test binary a server over its standard input and output.
const asServer = "QUERN_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(asServer) {
	case "":
		os.Exit(m.Run())
	case "broken":
		fmt.Fprintln(os.Stderr, "reading settings\nno settings: give --settings")
		os.Exit(1)
	}
	if err := newServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if mark := os.Getenv(asServer + "_MARK"); mark != "" { // goes on after its input has ended
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		<-told
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			panic(err)
		}
	}
}

func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type place struct {
		Place string `json:"place"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "get_weather", Description: "The weather of a place"}, func(_ context.Context, _ *sdk.CallToolRequest, in place) (*sdk.CallToolResult, any, error) {
		if in.Place == "" {
			return nil, nil, errors.New("which place?")
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "21 °C in " + in.Place}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte{1}}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "long"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("é", MaxResult)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "crash"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(3)
		return nil, nil, nil
	})
	return s
}

// stdio is a server that is started.
func stdio(kind string) Server {
	return Server{Command: os.Args[0], Env: map[string]string{asServer: kind}}
}

// A program that goes on after its input has ended is asked to end by a signal, and may tidy up.
func TestCloseBusy(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no such signal")
	}
	busy := stdio("good")
	mark := filepath.Join(t.TempDir(), "told")
	busy.Env[asServer+"_MARK"] = mark
	b, err := Open(t.Context(), map[string]Server{"a": busy}, "1")
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

// Tools of a started server and of one at a URL, which has the same names.
func TestToolbox(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	remote := Server{URL: web.URL, Headers: map[string]string{"Authorization": "Bearer key"}}
	b, err := Open(t.Context(), map[string]Server{"a": stdio("good"), "web": remote}, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if want := []string{"crash", "get_weather", "long", "wait", "web_crash", "web_get_weather", "web_long", "web_wait"}; !slices.Equal(b.Names(), want) || len(b.Specs()) != len(want) {
		t.Fatalf("tools %q, want %q", b.Names(), want)
	}
	if got := string(b.Specs()[1]); !strings.Contains(got, `"description":"The weather of a place"`) || !strings.Contains(got, `"place":{"type":"string"}`) || !strings.Contains(got, `"type":"function"`) {
		t.Errorf("spec %s", got)
	}
	for _, c := range []struct{ name, arguments, want string }{
		{"get_weather", `{"place":"Rome"}`, "21 °C in Rome\n(a picture)"},
		{"web_get_weather", `{"place":"Oslo"}`, "21 °C in Oslo\n(a picture)"},
		{"get_weather", `{"place":""}`, "error: which place?"},
		{"get_weather", `{"place":`, "error: the arguments are not a JSON object"},
		{"get_weather", `null`, "error: the arguments are not a JSON object"},
		{"get_fish", `{}`, "error: there is no tool with the name get_fish"},
	} {
		if got, err := b.Call(t.Context(), c.name, c.arguments); got.Named() != c.want || err != nil {
			t.Errorf("%s(%s): %q and %v, want %q", c.name, c.arguments, got, err, c.want)
		}
	}
	if got, err := b.Call(t.Context(), "long", ""); err != nil || len(got.Text) > MaxResult+100 || !strings.HasSuffix(got.Text, "é\n(cut after 256 KiB)") {
		t.Errorf("%d bytes and %v", len(got.Text), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := b.Call(ctx, "wait", "{}"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `the tool wait of the MCP server "a"`) {
		t.Errorf("%q and %v", got, err)
	}
}

// A server that crashed is started again for the next call.
func TestServerCrashes(t *testing.T) {
	b, err := Open(t.Context(), map[string]Server{"a": stdio("good")}, "1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := b.Call(t.Context(), "crash", "{}"); err == nil || !strings.Contains(err.Error(), "it wrote: out of cheese") {
			t.Errorf("%q and %v", got, err)
		}
		if got, err := b.Call(t.Context(), "get_weather", `{"place":"Rome"}`); err != nil || !strings.HasPrefix(got.Named(), "21") {
			t.Errorf("%q and %v", got, err)
		}
	}
	b.Close()
	if _, err := b.Call(t.Context(), "get_weather", `{"place":"Rome"}`); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// A server that cannot be used changes no names of others' tools, and leaves nothing of its own.
func TestOpenAny(t *testing.T) {
	for _, c := range []struct {
		servers map[string]Server
		want    []string
		failed  int
	}{
		{map[string]Server{"b": stdio("good")}, []string{"crash", "get_weather", "long", "wait"}, 0},
		{map[string]Server{"a": {Command: "/nowhere/mcp"}, "b": stdio("good")}, []string{"b_crash", "b_get_weather", "b_long", "b_wait"}, 1},
		{map[string]Server{"a": stdio("good"), "b": stdio("good")}, []string{"a_crash", "a_get_weather", "a_long", "a_wait",
			"b_crash", "b_get_weather", "b_long", "b_wait"}, 0},
		// A name that would be that of another server's tool is not taken while that cannot be used.
		{map[string]Server{"a": stdio("good"), "a_get": {Command: "/nowhere/mcp"}, "b": stdio("good")},
			[]string{"a_crash", "a_long", "a_wait", "b_crash", "b_get_weather", "b_long", "b_wait"}, 2},
	} {
		failed := 0
		b, err := OpenAny(t.Context(), c.servers, "1", func(error) { failed++ })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.Names(), c.want) || len(b.Specs()) != len(c.want) || failed != c.failed {
			t.Errorf("tools %q, %d failed, want %q and %d", b.Names(), failed, c.want, c.failed)
		}
		b.Close()
	}
}

// What a server that is left out has described does not count for those after it.
func TestForgottenSpecs(t *testing.T) {
	b := &Toolbox{tools: map[string]tool{}, offer: map[string][]Offer{}}
	links := map[string]*link{}
	take := func(server, name string) error {
		if links[server] == nil {
			links[server] = &link{name: server, lock: make(chan struct{}, 1)}
			b.links = append(b.links, links[server])
		}
		return b.take(links[server], &sdk.Tool{Name: name, Description: strings.Repeat("x", maxSpecs*3/5)})
	}
	if err := take("a", "one"); err != nil {
		t.Fatal(err)
	}
	if err := take("a", "two"); err == nil || !strings.Contains(err.Error(), "MiB of descriptions") {
		t.Errorf("too much: %v", err)
	}
	b.forget(links["a"])
	if err := take("b", "one"); err != nil || len(b.Specs()) != 1 || b.Server("one") != "b" {
		t.Errorf("after another: %v, %d tools", err, len(b.Specs()))
	}
	if err := take("b", "two"); err == nil {
		t.Error("what is there does not count")
	}
}

func TestServerFails(t *testing.T) {
	for _, c := range []struct {
		server Server
		want   string
	}{
		{stdio("broken"), "it wrote: no settings: give --settings"},
		{Server{Command: "/nowhere/mcp"}, "no such file"},
		{Server{URL: "http://127.0.0.1:1/mcp"}, "refused"},
	} {
		_, err := Open(t.Context(), map[string]Server{"x": c.server}, "1")
		if err == nil || !strings.HasPrefix(err.Error(), `the MCP server "x": `) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.server, err, c.want)
		}
	}
}

// A server that redirects to another one does not give it the key.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked with the key %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer web.Close()
	_, err := Open(t.Context(), map[string]Server{"x": {URL: web.URL, Headers: map[string]string{"Authorization": "Bearer key"}}}, "1")
	if err == nil || !strings.Contains(err.Error(), "redirected to another server, "+other.URL) {
		t.Error(err)
	}
}

// A call that is given up does not wait for a connection that another call makes.
func TestConnectingIsLeft(t *testing.T) {
	asked, free := make(chan struct{}, 100), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-free
	}))
	defer web.Close()
	defer close(free)
	l := &link{server: Server{URL: web.URL}, lock: make(chan struct{}, 1)}
	first, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := l.call(first, &sdk.CallToolParams{Name: "x"})
		ended <- err
	}()
	<-asked
	second, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.call(second, &sdk.CallToolParams{Name: "x"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the first call ended with %v", err)
	default:
	}
	stop()
	<-ended
}

// An answer that never ends is given up, whatever form it has, and takes no more memory than a long one.
func TestEndlessAnswer(t *testing.T) {
	spaces := bytes.Repeat([]byte(" "), 1<<16)
	for _, c := range []struct {
		name, kind, begin string
		status            int
		each              []byte
	}{
		{"JSON", "application/json", `{"jsonrpc":"2.0",`, 200, spaces},
		{"an error", "application/json", `{"jsonrpc":"2.0",`, 500, spaces},
		{"one line of events", "text/event-stream", "data: ", 200, spaces},
		{"many events", "text/event-stream", "", 200, []byte(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<14) + "\"}}\n\n")},
		{"comments", "text/event-stream", "", 200, []byte(":" + strings.Repeat("x", 1000) + "\n\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int64
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() }, nil)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if !bytes.Contains(body, []byte(`"tools/call"`)) {
					r.Body = io.NopCloser(bytes.NewReader(body))
					handler.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.begin)
				for sent.Load() < 1<<28 {
					n, err := w.Write(c.each)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			}))
			defer web.Close()
			b, err := Open(t.Context(), map[string]Server{"x": {URL: web.URL}}, "1")
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			got, err := b.Call(t.Context(), "get_weather", `{"place":"Rome"}`)
			if err == nil || !errors.Is(err, errLong) && c.status == 200 {
				t.Errorf("%q and %v, want the answer to be too long", got, err)
			}
			if n := sent.Load(); n > 64<<20 {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

// Whatever a server answers to a call: it is an error that says so, in one line and in time, and the next call goes on.
func TestHostileAnswers(t *testing.T) {
	const asJSON, asEvents = "application/json", "text/event-stream"
	write := func(kind, body string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		}
	}
	var other atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	t.Cleanup(func() {
		elsewhere.Close()
		if n := other.Load(); n != 0 {
			t.Errorf("%d requests were sent elsewhere", n)
		}
	})
	binary := string([]byte{0, 0xff, 0xfe, 0x80, 0x1b, '[', '2', 'J', 0})
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":            write(asJSON, "<html>hello"),
		"half of JSON":       write(asJSON, `{"jsonrpc":"2.0","id":1,"result":{"content":[`),
		"binary":             write(asJSON, binary),
		"binary events":      write(asEvents, "data: "+binary+"\n\n"),
		"binary kind":        write("application/octet-stream", binary),
		"nothing":            write(asJSON, ""),
		"no events":          write(asEvents, ""),
		"another id":         write(asJSON, `{"jsonrpc":"2.0","id":987654,"result":{"content":[{"type":"text","text":"wrong"}]}}`),
		"an id of text":      write(asJSON, `{"jsonrpc":"2.0","id":"x","result":{"content":[]}}`),
		"events of another":  write(asEvents, `data: {"jsonrpc":"2.0","id":987654,"result":{"content":[]}}`+"\n\n"),
		"deep JSON":          write(asJSON, `{"jsonrpc":"2.0","id":1,"result":`+strings.Repeat("[", 1_000_000)),
		"another version":    write(asJSON, `{"jsonrpc":"9","id":1}`),
		"a batch of nothing": write(asJSON, `[]`),
		"many headers": func(w http.ResponseWriter, r *http.Request) {
			for i := range 4000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
			write(asJSON, "{}")(w, r)
		},
		"a long header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mcp-Session-Id", strings.Repeat("x", 20<<20))
			write(asJSON, "{}")(w, r)
		},
		"drip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", asJSON)
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"to itself": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
		"of a scheme": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusTemporaryRedirect)
		},
		"a hijack": func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"))
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spoilt atomic.Bool
			spoilt.Store(true)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() }, nil)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if spoilt.Load() && bytes.Contains(body, []byte(`"tools/call"`)) {
					answer(w, r)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				handler.ServeHTTP(w, r)
			}))
			defer web.Close()
			b, err := Open(t.Context(), map[string]Server{"x": {URL: web.URL}}, "1")
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			begun := time.Now()
			got, err := b.Call(ctx, "get_weather", `{"place":"Rome"}`)
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("the call took %v", took)
			}
			if err == nil && !strings.HasPrefix(got.Named(), "error") || err != nil && (strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 1000) {
				t.Errorf("%.300q and %.300q, want an error of one line", got, fmt.Sprint(err))
			}
			spoilt.Store(false)
			if got, err := b.Call(t.Context(), "get_weather", `{"place":"Rome"}`); err != nil || !strings.HasPrefix(got.Named(), "21") {
				t.Errorf("the next call: %q and %v", got, err)
			}
		})
	}
}

// Of what nobody waits for, such as the answer to a notification, no more is read either.
func TestBodyIsBounded(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer web.Close()
	client := http.Client{Transport: bounded{http.DefaultTransport}}
	answer, err := client.Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); n > maxAnswer || !errors.Is(err, errLong) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"mcpServers": {"a": {"command": "x", "args": ["-v"], "type": "stdio", "alwaysAllow": []}, "b": {"disabled": true}}, "theme": 1}`, ""},
		{`{"mcpServers": {"a": {"url": "https://example.org/mcp"}}}`, ""},
		{`{`, "is not JSON"},
		{``, "is not JSON"},
		{`{}`, "no servers"},
		{`{"mcpServers": {"a": {"disabled": true}}}`, "no servers"},
		{`{"mcpServers": {"a": {}}}`, `server "a": want either a command or a url`},
		{`{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}`, `server "a": want either a command or a url`},
		{`{"mcpServers": {"a": {"url": "ws://x"}}}`, `url is "ws://x", want one that begins with http`},
		{`{"mcpServers": {"a": {"command": ["x"]}}}`, "got array, want string"},
		{`{"mcpServers": [1]}`, "mcpServers: got array, want object"},
		{strings.Repeat(" ", maxConfig+1), "more than 1024 KiB"},
	} {
		path := filepath.Join(t.TempDir(), "mcp.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		servers, err := ReadConfig(path)
		if c.want == "" && (err != nil || len(servers) != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path)) {
			t.Errorf("%.60s: %v and %v, want %q", c.text, servers, err, c.want)
		}
	}
	if _, err := ReadConfig("/nowhere/mcp.json"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A session that panics is forgotten, and the next call makes another.
func TestPanics(t *testing.T) {
	broken := &sdk.ClientSession{} // of no connection
	l := &link{server: stdio("server"), name: "x", version: "1", lock: make(chan struct{}, 1), session: broken}
	l.watch(broken)
	r, err := l.call(t.Context(), &sdk.CallToolParams{Name: "get_weather", Arguments: map[string]any{"place": "Rome"}})
	if err != nil || !strings.Contains(result(r).Named(), "in Rome") {
		t.Errorf("%v, %v", r, err)
	}
	if err := l.close(); err != nil && !strings.Contains(err.Error(), "terminated") { // a slow one is told to end
		t.Error(err)
	}
}

// A result has texts, pictures and sounds, and names what is something else.
func TestResults(t *testing.T) {
	long := strings.Repeat("x", MaxResult-5)
	text := func(s string) *sdk.TextContent { return &sdk.TextContent{Text: s} }
	resource := func(mimeType string) *sdk.EmbeddedResource {
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "a:b", MIMEType: mimeType, Blob: []byte("FILE")}}
	}
	for _, c := range []struct {
		content []sdk.Content
		failed  bool
		want    []string // a medium is its kind and data
	}{
		{nil, false, []string{""}},
		{nil, true, []string{"error: "}},
		{[]sdk.Content{text("a"), text("b")}, true, []string{"error: a\nb"}},
		{[]sdk.Content{text("a"), &sdk.ImageContent{Data: []byte("PNG")}, text("b"), text("c")}, false, []string{"a", "picture PNG", "b\nc"}},
		{[]sdk.Content{&sdk.AudioContent{Data: []byte("WAV"), MIMEType: "audio/wav"}}, true, []string{"error: ", "sound WAV"}},
		{[]sdk.Content{resource("image/png"), resource("audio/mpeg"), resource("text/csv")}, false,
			[]string{"picture FILE", "sound FILE", "(a resource that is no text)"}},
		{[]sdk.Content{&sdk.ImageContent{}}, false, []string{"(something that is no text)"}},
		{[]sdk.Content{text(long), text("y\xff"), &sdk.ImageContent{Data: []byte("PNG")}, text("zz"), &sdk.ImageContent{Data: []byte("2")}}, false,
			[]string{long + "\ny\ufffd", "picture PNG", "z\n(cut after 256 KiB)"}},
	} {
		got := result(&sdk.CallToolResult{Content: c.content, IsError: c.failed})
		parts := []string{got.Text}
		if got.Parts != nil {
			parts = nil
		}
		for _, p := range got.Parts {
			if p.Medium != nil {
				p.Text = p.Medium.Kind.String() + " " + string(p.Medium.Data)
			}
			parts = append(parts, p.Text)
		}
		if !slices.Equal(parts, c.want) {
			t.Errorf("%.100q, want %.100q", parts, c.want)
		}
	}
}
