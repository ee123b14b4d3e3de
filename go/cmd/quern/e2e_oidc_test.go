package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/server/oidc/oidctest"
)

// issuersFile writes a file of one issuer, with members besides in its entry.
func issuersFile(t *testing.T, i *oidctest.Issuer, besides string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "oidc.json")
	text := fmt.Sprintf(`{"issuers":[{"issuer":%q,"name":"corp","audiences":["quern"]%s}]}`, i.URL, besides)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Tokens of an issuer stand for keys, beside a file of keys: with roles, quotas and models, counted by subject and by tenant, and
// named in the audit log, which has no token.
func TestServeTokens(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s, address := loopback(t, "--audit-log", audit, "--api-key-file", keyFile(t, "key-of-web name=web\n"), "--oidc-config", issuersFile(t, i,
		`,"claims":{"rpd":"rpd","tenant":"org"},"grants":[{"claim":"groups","has":"ops","key":"admin"},{"claim":"groups","has":"no","key":"models=other"},{"key":"user rpd=2"}]`))
	status := func(token, method, path, body string, want int) (*http.Response, string) {
		t.Helper()
		r, text := exchange(t, address, method, path, body, "Authorization: Bearer "+token)
		if r.StatusCode != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, r.StatusCode, text, want)
		}
		return r, text
	}
	const ask = `{"prompt":"Once","max_tokens":3,"ignore_eos":true}`
	ann, again := i.Token(map[string]any{"org": "acme"}), i.Token(map[string]any{"org": "acme", "jti": "2"})
	status(ann, "POST", "/v1/completions", ask, 200)
	if r, _ := status(again, "POST", "/v1/completions", ask, 200); r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("headers %v", r.Header)
	}
	status(ann, "POST", "/v1/completions", ask, 429)
	status(i.Token(map[string]any{"sub": "bob", "rpd": 1}), "POST", "/v1/completions", ask, 200)
	status(i.Token(map[string]any{"sub": "eve", "groups": "no"}), "POST", "/v1/completions", ask, 403)
	status("key-of-web", "POST", "/v1/completions", ask, 200)
	status(ann, "POST", "/models/unload", `{"model":"demo"}`, 403)
	r, text := status(i.Token(map[string]any{"exp": 1}), "POST", "/v1/completions", ask, 401)
	if got := r.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_token", error_description="the token has expired"`) || !strings.Contains(text, "invalid_api_key") {
		t.Errorf("%q %s", got, text)
	}
	if r, _ := exchange(t, address, "GET", "/props", "", "X-Api-Key: "+strings.Repeat("a", 1<<20)); r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a token of 1 MB: %d", r.StatusCode)
	}
	status(i.Token(map[string]any{"x": strings.Repeat("a", 20_000)}), "GET", "/props", "", 401)

	var usage struct {
		Data []struct {
			Name, Tenant, Role string
			Day                struct{ Requests int }
		}
	}
	_, text = status(ann, "GET", "/v1/usage", "", 200)
	if err := json.Unmarshal([]byte(text), &usage); err != nil || len(usage.Data) != 1 || usage.Data[0].Name != "corp:ann" || usage.Data[0].Tenant != "acme" || usage.Data[0].Day.Requests != 2 {
		t.Errorf("%v %s", err, text)
	}
	root := i.Token(map[string]any{"sub": "root", "groups": []string{"ops"}})
	_, text = status(root, "GET", "/v1/usage", "", 200)
	if err := json.Unmarshal([]byte(text), &usage); err != nil || len(usage.Data) != 5 || !strings.Contains(text, `"corp:bob"`) || !strings.Contains(text, `"web"`) {
		t.Errorf("%v %s", err, text)
	}
	_, text = status(root, "GET", "/metrics", "", 200)
	for _, want := range []string{
		`quern_key_requests_total{key="corp:acme"} 2`, `quern_key_refused_total{key="corp:acme"} 1`, `quern_key_generated_tokens_total{key="corp:acme"} 6`,
		`quern_key_requests_total{key="web"} 1`, `quern_key_requests_total{key="corp:(none)"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(text, "ann") || strings.Contains(text, "bob") {
		t.Error("metrics name subjects")
	}
	lines := audited(t, audit, 8)
	for n, want := range map[int]string{0: "corp:ann 200", 1: "corp:ann 200", 2: "corp:ann 429", 3: "corp:bob 200", 4: "corp:eve 403", 5: "web 200", 6: "corp:ann 403", 7: " 401"} {
		if got := fmt.Sprint(lines[n].Client, " ", lines[n].Status); got != want {
			t.Errorf("line %d: %q, want %q", n, got, want)
		}
	}
	b, err := os.ReadFile(audit)
	if err != nil || strings.Contains(string(b), "eyJ") || strings.Contains(s.log.String(), "eyJ") {
		t.Error("a log has a token")
	}
}

// Keys of an issuer change while an answer is streamed: it goes on, tokens of the new key are accepted, and those of the old one are not.
func TestServeTokensRotate(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	_, address := loopback(t, "--oidc-config", issuersFile(t, i, ""))
	old := i.Token(nil)
	r, err := http.NewRequest("POST", "http://"+address+"/completion", strings.NewReader(`{"prompt":"Once","n_predict":400,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+old)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines, parts, last := bufio.NewScanner(answer.Body), 0, ""
	if !lines.Scan() {
		t.Fatal("no stream")
	}
	i.Rotate("EdDSA")
	is := i.Token(map[string]any{"sub": "bob"})
	statusSoon(t, address, is, 200)
	statusSoon(t, address, old, 401)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			parts, last = parts+1, lines.Text()
		}
	}
	if answer.StatusCode != 200 || parts < 100 || !strings.Contains(last, `"stop":true`) {
		t.Errorf("%d, %d parts, the last %s", answer.StatusCode, parts, last)
	}
	i.Down(true)
	for range 50 {
		if r, body := exchange(t, address, "GET", "/props", "", "Authorization: Bearer "+old); r.StatusCode != 401 {
			t.Fatalf("%d %s", r.StatusCode, body)
		}
	}
	statusSoon(t, address, is, 200)
	if n := i.Fetches(); n > 4 {
		t.Errorf("the keys were asked for %d times", n)
	}
}

// A server does not start with issuers that it could not verify tokens of, but for keys that it had before.
func TestServeTokensRefused(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	path := issuersFile(t, i, "")
	i.Down(true)
	quern(t, "serve", "-m", demo.Name, "--port", "0", "--oidc-config", path).refused(t, 2, "--oidc-config: ", i.URL, "502")
	for text, want := range map[string]string{
		`{"issuers":[{"issuer":"https://x.example","audiences":["a"],"grants":[{"key":"rpm=many"}]}]}`: "grant 1: rpm= is not followed by an integer",
		`{"issuers":[{"issuer":"https://x.example","audiences":["a"],"algorithms":["none"]}]}`:         `"none" is none of`,
		`{`: "oidc.json",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		quern(t, "serve", "-m", demo.Name, "--port", "0", "--oidc-config", path).refused(t, 2, "--oidc-config: ", want)
	}
	quern(t, "serve", "-m", demo.Name, "--port", "0", "--oidc-config", path+".none").refused(t, 2, "--oidc-config: ", path+".none")
}

// With issuers and without keys, nobody asks without a token, wherever from.
func TestServeTokensAlone(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	s, address := loopback(t, "--oidc-config", issuersFile(t, i, ""), "--host", "0.0.0.0", "--require-key")
	if strings.Contains(s.log.String(), "ANYBODY") {
		t.Error("the log says that anybody can use the model")
	}
	statusSoon(t, address, i.Token(nil), 200)
	statusSoon(t, address, "nothing", 401)
	if r, body := exchange(t, address, "POST", "/completion", shortText); r.StatusCode != 401 {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	if r, body := exchange(t, address, "GET", "/v1/models", ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, body)
	}
}
