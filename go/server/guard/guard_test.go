package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

const secret = "a-long-secret-key"

func digest(key string) string {
	h := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(h[:])
}

func TestKeys(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	k, err := NewKeys([]string{secret, digest("another-key")})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.AddFile(file("# ours\n\nthird-key-here\n" + digest("fourth-key") + " \t2.5 \n")); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{
		secret: 1, "another-key": 1, "third-key-here": 1, "fourth-key": 2.5,
		"": 0, "a-long-secret-kez": 0, digest("another-key"): 0, "# ours": 0,
	} {
		if got, ok := k.Check(key); ok != (want > 0) || got.Weight != want || ok && (len(got.Name) != 8 || strings.Contains(key, got.Name) || !got.Admin || got.Priority != 1000) {
			t.Errorf("key %q: %+v, %v", key, got, ok)
		}
	}
	for _, bad := range []string{"", "sha256:12", "sha256:" + strings.Repeat("g", 64), "with a space", "ünïcödes"} {
		if _, err := NewKeys([]string{secret, bad}); err == nil || !strings.HasPrefix(err.Error(), "API key 2: ") {
			t.Errorf("key %q: %v", bad, err)
		}
	}
	for text, want := range map[string]string{"# none\n": "no keys", "good-key-1\nsha256:1\n": "line 2", "good-key-1 0\n": "line 1", "good-key-1 nan\n": "weight", "good-key-1 x y\n": "weight", "good-key-1 admin user\n": "word 2 after the key is a second role", "good-key-1 2 admin x\n": "word 3 after the key is no weight", "good-key-1 priority=2000\n": "-1000 to 1000", "good-key-1 priority=\n": "-1000 to 1000", "good-key-1\nx" + strings.Repeat("y", 1<<20): "line 2: bufio.Scanner: token too long",
		"good-key-1 2\n\ngood-key-1 admin": "line 3: the key is that of " + "FILE, line 1",
		secret:                             "line 1: the key is that of API key 1",
		digest("good-key-1") + "\n" + digest("good-key-1")[:16] + strings.Repeat("0", 55): "line 2: the key's hash begins like that of FILE, line 1",
		"good-key-1 name=0123abcd": "hexadecimal digits"} {
		path := file(text)
		want = strings.ReplaceAll(want, "FILE", path)
		if err := k.AddFile(path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "good-key") {
			t.Errorf("file %.20q: %v, want %q", text, err, want)
		}
	}
	// Every printable character but the space may be in a key, and a key of eight is not weak.
	for text, want := range map[string]string{"!234567~": "", "123456\x7f": "printable", "12345678\t": "printable", "1234567": ""} {
		odd, err := NewKeys([]string{text})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("key %q: %v", text, err)
		} else if err == nil && (odd.Weak() == nil) != (len(text) == 8) {
			t.Errorf("key %q: %v", text, odd.Weak())
		}
	}
	for text, want := range map[string]bool{"good-key-1 1000\n": true, "good-key-1 1000.5\n": false, "good-key-1 -1\n": false,
		"good-key-1 priority=1000\n": true, "good-key-1 priority=1001\n": false, "good-key-1 priority=-1000\n": true,
		"good-key-1 priority=-1001\n": false, "good-key-1 user user": false, "good-key-1 name=web rpm=60 tpd-in=5 models=a,b": true,
		"good-key-1 rpm=0": false, "good-key-1 rpm=1 rpm=2": false, "good-key-1 models=": false, "good-key-1 name=": false,
		"good-key-1 name=a name=b": false, "good-key-1 name=a/b": false, "good-key-1 name=a\ngood-key-2 name=a": false,
		"good-key-1 name=a\ngood-key-2 name=b": true, "good-key-1 name=0123abc\ngood-key-2 name=0123abcde": true,
		"good-key-1 models=" + strings.Repeat("a-model-of-a-long-name-of-about-as-many-bytes-as-they-often-have,", 999) + "b": true, "good-key-1\ngood-key-2": true} {
		if err := new(Keys).AddFile(file(text)); (err == nil) != want {
			t.Errorf("file %q: %v", text, err)
		}
	}
	if err := k.Weak(); err != nil {
		t.Errorf("none of the keys is short: %v", err)
	}
	if err := k.AddFile(file("good-key-1\nshort\n")); err != nil {
		t.Error(err)
	}
	if err := k.Weak(); err == nil || !strings.Contains(err.Error(), "line 2: it has 5 characters") {
		t.Errorf("a short key: %v", err)
	}
	if _, ok := k.Check("short"); !ok {
		t.Error("a short key is not accepted")
	}
	if err := k.AddFile("no-such-file"); err == nil || !strings.Contains(err.Error(), "no-such-file") {
		t.Error(err)
	}
}

// Without roles every key is an admin. Once a line has one, those without are users, whose requests have no priority
// above that of others.
func TestRoles(t *testing.T) {
	for _, tt := range []struct {
		file string
		want map[string]Key
	}{
		{"one-of-file\n", map[string]Key{"by-a-flag": {Admin: true, Priority: 1000, Weight: 1}, "one-of-file": {Admin: true, Priority: 1000, Weight: 1}}},
		{"one-of-file priority=5\n", map[string]Key{"by-a-flag": {Admin: true, Priority: 1000, Weight: 1}, "one-of-file": {Admin: true, Priority: 5, Weight: 1}}},
		{"one-of-file user\n", map[string]Key{"by-a-flag": {Weight: 1}, "one-of-file": {Weight: 1}}},
		{"one-of-file 2 admin\n" + digest("other-of-file") + " priority=7 \t 0.5\nthird-of-file admin priority=-1", map[string]Key{
			"by-a-flag": {Weight: 1}, "one-of-file": {Admin: true, Priority: 1000, Weight: 2}, "other-of-file": {Priority: 7, Weight: 0.5}, "third-of-file": {Admin: true, Priority: -1, Weight: 1},
		}},
	} {
		k, _ := keysOf(t, tt.file)
		for text, want := range tt.want {
			want.Name = digest(text)[7:15]
			got, ok := k.Check(text)
			if want.Account = got.Account; !ok || got.Account == nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q, key %s: %+v, want %+v", tt.file, text, got, want)
			}
		}
	}
}

// serve returns what a handler behind the whole guard answers.
func serve(t *testing.T, keys []string, origins []string, handler gin.HandlerFunc, r *http.Request) (*httptest.ResponseRecorder, string) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	k, err := NewKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	cross, err := NewOrigins(origins)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	g := gin.New()
	g.Use(Identify(), Recover(zerolog.New(&log)), CrossOrigin(cross), Auth(k, []string{"/health"}), Body(100, nil))
	g.Any("/x", handler)
	g.Any("/health", handler)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w, log.String()
}

func ok(c *gin.Context) { c.String(http.StatusOK, c.GetString(Client)) }

func TestAuth(t *testing.T) {
	for _, tt := range []struct {
		name, path, header, value string
		keys                      []string
		want                      int
		client                    string
	}{
		{"no keys", "/x", "", "", nil, 200, "192.0.2.1"},
		{"bearer", "/x", "Authorization", "Bearer " + secret, []string{secret}, 200, digest(secret)[7:15]},
		{"bearer in small letters", "/x", "Authorization", "bearer " + secret, []string{secret}, 200, digest(secret)[7:15]},
		{"x-api-key", "/x", "X-Api-Key", secret, []string{digest(secret)}, 200, digest(secret)[7:15]},
		{"none", "/x", "", "", []string{secret}, 401, ""},
		{"wrong", "/x", "Authorization", "Bearer nonsense", []string{secret}, 401, ""},
		{"basic", "/x", "Authorization", "Basic " + secret, []string{secret}, 401, ""},
		{"public", "/health", "", "", []string{secret}, 200, ""},
		{"public, to change something", "POST /health", "", "", []string{secret}, 401, ""},
		{"public, to remove something", "DELETE /health", "", "", []string{secret}, 401, ""},
	} {
		method, path, named := strings.Cut(tt.path, " ")
		if !named {
			method, path = "GET", tt.path
		}
		r := httptest.NewRequest(method, path, nil)
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		w, _ := serve(t, tt.keys, nil, ok, r)
		if w.Code != tt.want || tt.want == 200 && w.Body.String() != tt.client {
			t.Errorf("%s: %d %q, want %d %q", tt.name, w.Code, w.Body, tt.want, tt.client)
		}
		if tt.want == 401 && (!strings.Contains(w.Body.String(), `"authentication_error"`) || !strings.Contains(w.Body.String(), `"code":"invalid_api_key"`) || strings.Contains(w.Body.String(), secret)) {
			t.Errorf("%s: %s", tt.name, w.Body)
		}
	}
}

// Clients of Ollama read an error as a text.
func TestAuthOfOllama(t *testing.T) {
	w, _ := serve(t, []string{secret}, nil, ok, httptest.NewRequest("POST", "/api/chat", nil))
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); w.Code != 401 || err != nil || !strings.Contains(body.Error, "API key") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRecover(t *testing.T) {
	w, log := serve(t, nil, nil, func(*gin.Context) { panic("a secret fault") }, httptest.NewRequest("GET", "/x", nil))
	id := w.Header().Get("X-Request-Id")
	if w.Code != 500 || !strings.Contains(w.Body.String(), id) || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log, id) || !strings.Contains(log, "a secret fault") || !strings.Contains(log, "guard_test.go") {
		t.Errorf("log %s", log)
	}
	// What has begun cannot become an error any more: it is cut off.
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("panic %v", p)
		}
	}()
	serve(t, nil, nil, func(c *gin.Context) { c.String(200, "begun"); panic("late") }, httptest.NewRequest("GET", "/x", nil))
	t.Error("an answer that had begun was ended as if it were whole")
}

func TestIdentify(t *testing.T) {
	for given, kept := range map[string]bool{"abc-1.2_Z": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
		"azAZ09": true, "a/b": false, "a:b": false, "a@b": false, "a[b": false, "a`b": false, "a{b": false} {
		r := httptest.NewRequest("GET", "/x", nil)
		r.Header["X-Request-Id"] = []string{given}
		w, _ := serve(t, nil, nil, ok, r)
		if got := w.Header().Get("X-Request-Id"); (got == given) != kept || !kept && len(got) != 16 {
			t.Errorf("%q became %q", given, got)
		}
	}
}

func TestCrossOrigin(t *testing.T) {
	ask := func(origins []string, method, origin string) (int, string) {
		r := httptest.NewRequest(method, "/x", nil)
		r.Header.Set("Origin", origin)
		w, _ := serve(t, nil, origins, ok, r)
		return w.Code, w.Header().Get("Access-Control-Allow-Origin")
	}
	for _, tt := range []struct {
		origins []string
		origin  string
		want    string // the origin that may read; empty: none, and it can change nothing
	}{
		{nil, "https://a.example", ""},
		{nil, "http://localhost", ""},
		{nil, "null", ""},
		{[]string{"https://a.example"}, "https://a.example", "https://a.example"},
		{[]string{"https://A.example:443/"}, "https://a.example", "https://a.example"},
		{[]string{"http://a.example:80", " "}, "http://a.example", "http://a.example"},
		{[]string{"https://a.example"}, "https://b.example", ""},
		{[]string{"https://a.example"}, "https://a.example:444", ""},
		{[]string{"https://a.example"}, "http://a.example", ""},
		{[]string{"https://a.example"}, "https://a.example.b.example", ""},
		{[]string{"localhost"}, "http://localhost:5173", "http://localhost:5173"},
		{[]string{"localhost"}, "https://127.0.0.2", "https://127.0.0.2"},
		{[]string{"localhost"}, "http://[::1]:80", "http://[::1]:80"},
		{[]string{"localhost"}, "http://localhost.example", ""},
		{[]string{"localhost"}, "http://127.0.0.1.example", ""},
		{[]string{"localhost"}, "null", ""},
		{[]string{"localhost"}, "://", ""},
		{[]string{"*"}, "https://b.example", "*"},
		{[]string{"*"}, "null", "*"},
	} {
		if status, got := ask(tt.origins, "GET", tt.origin); got != tt.want || status != 200 {
			t.Errorf("%v, GET from %s: %d and %q, want %q", tt.origins, tt.origin, status, got, tt.want)
		}
		if status, got := ask(tt.origins, "POST", tt.origin); got != tt.want || (status == 200) != (tt.want != "") {
			t.Errorf("%v, POST from %s: %d and %q, want %q", tt.origins, tt.origin, status, got, tt.want)
		}
	}
	for _, bad := range []string{"nonsense", "https://", "//a.example", "https://a.example/b", "https://a.example?b", "https://u@a.example", "https://*.a.example", "a b"} {
		if _, err := NewOrigins([]string{"*", bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A question whether a page may ask is answered here, whoever asks; what may not be is told with the page.
func TestPreflight(t *testing.T) {
	handled := false
	handler := func(*gin.Context) { handled = true }
	for _, origin := range []string{"https://a.example", "https://b.example", ""} {
		r := httptest.NewRequest("OPTIONS", "/x", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		if w, _ := serve(t, []string{secret}, []string{"https://a.example"}, handler, r); w.Code != 200 || handled {
			t.Errorf("from %q: %d %s", origin, w.Code, w.Body)
		}
	}
	for origin, want := range map[string]string{"https://b.example": "a page of https://b.example may not", "null": "a page of another site may not"} {
		r := httptest.NewRequest("POST", "/x", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w, _ := serve(t, nil, nil, handler, r); w.Code != 403 || !strings.Contains(w.Body.String(), want) || handled {
			t.Errorf("from %q: %d %s", origin, w.Code, w.Body)
		}
	}
}

// Answers are nothing but what they say they are, and nobody keeps them; redirects go nowhere else.
func TestHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	Headers()(c)
	if h := w.Header(); h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", h)
	}
	r := httptest.NewRequest("GET", "/x", nil)
	r.Header.Set("X-Forwarded-Prefix", "//evil.example")
	passed := false
	Unprefixed(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r.Header.Get("X-Forwarded-Prefix") == "" })).ServeHTTP(w, r)
	if !passed {
		t.Error("the prefix is passed on")
	}
}

func TestHosts(t *testing.T) {
	for _, at := range []string{"local", "open", "keyed"} {
		check := Hosts([]string{"known.example", " Upper.example ", "::5"}, func(*http.Request) bool { return at == "local" }, func(*http.Request) bool { return at == "open" })
		private := map[string]bool{"[::2]": true, "10.0.0.1:80": true, "quern:8080": true, "quern.default.svc": true, "box.local": true, "a.b.internal": true}
		for host, want := range map[string]bool{
			"localhost": true, "localhost:1": true, "a.localhost.": true, "127.3.2.1:80": true, "[::1]": true, "[::1]:8": true, "": true,
			"known.example:8": true, "KNOWN.example": true, "upper.example": true, "[::5]:1": true,
			"unknown.example": false, "[::2]": false, "10.0.0.1:80": false, "localhost.example": false, "10.0.0.1.example": false, "a:b:c": false,
			"quern:8080": false, "quern.default.svc": false, "box.local": false, "a.b.internal": false, "local.example": false, "internal.example:80": false,
		} {
			w := httptest.NewRecorder()
			c, _ := gin.CreateTestContext(w)
			c.Request = httptest.NewRequest("GET", "/x", nil)
			c.Request.Host = host
			check(c)
			if passed := !c.IsAborted(); passed != (want || at == "keyed" || at == "open" && private[host]) {
				t.Errorf("%q, %s: %v", host, at, passed)
			}
		}
	}
}

func TestBody(t *testing.T) {
	read := func(c *gin.Context) {
		if _, err := io.ReadAll(c.Request.Body); err != nil {
			c.String(413, "%v", err)
			return
		}
		c.String(200, "")
	}
	for n, want := range map[int]int{0: 200, 100: 200, 101: 413} {
		for _, said := range []bool{true, false} {
			r := httptest.NewRequest("POST", "/x", strings.NewReader(strings.Repeat("x", n)))
			if !said {
				r.ContentLength = -1
			}
			if w, _ := serve(t, nil, nil, read, r); w.Code != want {
				t.Errorf("%d bytes, said so: %v: %d %s, want %d", n, said, w.Code, w.Body, want)
			} else if said && want == 413 && !strings.Contains(w.Body.String(), fmt.Sprintf("%d bytes", n)) {
				t.Errorf("%s", w.Body)
			}
		}
	}
}

// Without keys everybody is an admin by their address; with some, a request is what its key is.
func TestKeyOf(t *testing.T) {
	with, err := NewKeys([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		keys *Keys
		want Key
	}{
		{&Keys{}, Key{Name: "192.0.2.1", Admin: true, Priority: 1000}},
		{with, Key{Name: digest(secret)[7:15], Weight: 1, Admin: true, Priority: 1000}},
	} {
		var got Key
		named := ""
		g := gin.New()
		g.Use(Auth(tt.keys, nil))
		g.GET("/x", func(c *gin.Context) { got, named = KeyOf(c, tt.keys), ClientOf(c) })
		r := httptest.NewRequest("GET", "/x", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		g.ServeHTTP(httptest.NewRecorder(), r)
		tt.want.Account = got.Account
		if !reflect.DeepEqual(got, tt.want) || named != tt.want.Name {
			t.Errorf("%+v of %q, want %+v", got, named, tt.want)
		}
	}
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequest("GET", "/x", nil)
	if got := KeyOf(c, with); !reflect.DeepEqual(got, Key{}) || ClientOf(c) != "192.0.2.1" {
		t.Errorf("without a key %+v of %q", got, ClientOf(c))
	}
	if c.Request.RemoteAddr = "@"; ClientOf(c) != "local" {
		t.Errorf("a client of a socket is %q", ClientOf(c))
	}
}
