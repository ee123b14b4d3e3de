package oidc

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/quern-llm/quern/go/server/oidc/oidctest"
)

// config reads a file of issuers.
func config(t testing.TB, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "oidc.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadConfig(path, func(words []string) error {
		if slices.Contains(words, "bad") {
			return errors.New("bad is no word")
		}
		return nil
	})
}

// opened returns a verifier of an issuer, with members besides in its entry.
func opened(t testing.TB, i *oidctest.Issuer, besides string) *Verifier {
	t.Helper()
	c, err := config(t, fmt.Sprintf(`{"issuers":[{"issuer":%q,"audiences":["quern"]%s}]}`, i.URL, besides))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), c, func(string, string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// reason returns why a token is refused; empty: it is not.
func reason(v *Verifier, token string) string {
	if _, err := v.Check(context.Background(), token); err != nil {
		return err.Error()
	}
	return ""
}

// What a token claims of its times, its audience, its issuer and its subject is checked.
func TestCheck(t *testing.T) {
	i := oidctest.New(t)
	v := opened(t, i, "")
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, test := range []struct {
		claims map[string]any
		want   string // "" is accepted
	}{
		{nil, ""},
		{map[string]any{"aud": []string{"other", "quern"}}, ""},
		{map[string]any{"exp": in(-30 * time.Second)}, ""},
		{map[string]any{"nbf": in(30 * time.Second)}, ""},
		{map[string]any{"exp": float64(in(time.Hour)) + 0.5}, ""},
		{map[string]any{"exp": in(-2 * time.Minute)}, "expired"},
		{map[string]any{"exp": -1e300}, "expired"},
		{map[string]any{"exp": nil}, "no time at which it expires"},
		{map[string]any{"exp": "tomorrow"}, "wrong type"},
		{map[string]any{"nbf": in(2 * time.Minute)}, "not valid yet"},
		{map[string]any{"nbf": []int{1}}, "wrong type"},
		{map[string]any{"aud": "querns"}, "another audience"},
		{map[string]any{"aud": []string{}}, "another audience"},
		{map[string]any{"aud": nil}, "another audience"},
		{map[string]any{"aud": map[string]any{"quern": 1}}, "wrong type"},
		{map[string]any{"aud": []any{"quern", 1}}, "wrong type"},
		{map[string]any{"sub": nil}, "no claim sub"},
		{map[string]any{"sub": ""}, "claim sub is no text"},
		{map[string]any{"sub": 7}, "claim sub is no text"},
		{map[string]any{"sub": strings.Repeat("a", 256)}, "claim sub is no text"},
		{map[string]any{"iss": i.URL + "/"}, errUnknown.Reason},
		{map[string]any{"iss": 1}, errForm.Reason},
		{map[string]any{"x": strings.Repeat("a", maxToken)}, errForm.Reason},
	} {
		if got := reason(v, i.Token(test.claims)); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q", test.claims, got, test.want)
		}
	}
}

// Each algorithm verifies, and only with a key of its own type.
func TestAlgorithms(t *testing.T) {
	for _, name := range []string{"RS256", "PS256", "EdDSA", "ES256"} {
		i := oidctest.New(t)
		i.Rotate(name)
		v := opened(t, i, "")
		if got := reason(v, i.Token(nil)); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		token := i.Token(nil)
		dot := strings.LastIndexByte(token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
		if err != nil {
			t.Fatal(err)
		}
		signature[len(signature)/2] ^= 1
		if got := reason(v, token[:dot+1]+base64.RawURLEncoding.EncodeToString(signature)); got != errUnknown.Reason {
			t.Errorf("%s, another signature: %q", name, got)
		}
		if got := reason(opened(t, i, `,"algorithms":["ES384"]`), token); got != errUnknown.Reason {
			t.Errorf("%s, which is not allowed: %q", name, got)
		}
	}
}

// forged returns a token with a header, which is not signed.
func forged(i *oidctest.Issuer, header string, sign func(text string) []byte) string {
	enc := base64.RawURLEncoding.EncodeToString
	payload := fmt.Sprintf(`{"iss":%q,"sub":"ann","aud":"quern","exp":%d}`, i.URL, time.Now().Add(time.Hour).Unix())
	text := enc([]byte(header)) + "." + enc([]byte(payload))
	return text + "." + enc(sign(text))
}

// Nobody makes a token without a private key of the issuer.
func TestForgeries(t *testing.T) {
	i := oidctest.New(t)
	i.Rotate("RS256")
	v := opened(t, i, "")
	mine := i.Key()
	public, err := x509.MarshalPKIXPublicKey(mine.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	armored := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	other := oidctest.New(t)
	other.Rotate("RS256")
	stolen := other.Key()
	stolen.KeyID = i.Key().KeyID
	embedded, err := json.Marshal(stolen.Public())
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: i.Key().KeyID}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := s.Sign([]byte(fmt.Sprintf(`{"iss":%q,"sub":"ann","aud":"quern","exp":%d}`, i.URL, time.Now().Add(time.Hour).Unix())))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := signed.CompactSerialize()
		return text
	}
	nothing := func(string) []byte { return nil }
	for name, token := range map[string]string{
		"none":                        forged(i, `{"alg":"none"}`, nothing),
		"None":                        forged(i, `{"alg":"None","kid":"key-2"}`, nothing),
		"no algorithm":                forged(i, `{"kid":"key-2"}`, nothing),
		"no signature":                forged(i, `{"alg":"RS256","kid":"key-2"}`, nothing),
		"HS256 with the public key":   hmac(public),
		"HS256 with it in PEM":        hmac(armored),
		"another key of that name":    i.Sign(stolen, nil),
		"a key that it brings":        forged(i, `{"alg":"RS256","kid":"key-2","jwk":`+string(embedded)+`}`, nothing),
		"a URL of keys that it names": forged(i, `{"alg":"RS256","jku":"`+other.URL+`/keys"}`, nothing),
		"another issuer":              other.Token(nil),
	} {
		if got := reason(v, token); got != errUnknown.Reason && got != errForm.Reason {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, text := range []string{"", ".", "..", "a.b.c", "....", strings.Repeat(".", 1<<20), strings.Repeat("a", 1<<20), i.Token(nil) + ".x", i.Token(nil) + " "} {
		if got := reason(v, text); got != errForm.Reason && text != ".." {
			t.Errorf("%.20q: %q", text, got)
		}
	}
	if other.Fetches() != 0 {
		t.Error("keys were asked for where a token says")
	}
}

// A token without a name of a key is of the only key that fits, and of none where several do.
func TestNoKeyID(t *testing.T) {
	i := oidctest.New(t)
	i.Add("EdDSA")
	k := i.Key()
	k.KeyID = ""
	if got := reason(opened(t, i, ""), i.Sign(k, nil)); got != "" {
		t.Errorf("one key fits: %q", got)
	}
	i.Add("EdDSA")
	if got := reason(opened(t, i, ""), i.Sign(k, nil)); got != errSeveral.Error() {
		t.Errorf("two keys fit: %q", got)
	}
}

// claimed returns the subject of claims by an issuer's entry.
func claimed(t *testing.T, entry, payload string) (*Subject, error) {
	t.Helper()
	c, err := config(t, `{"issuers":[{"issuer":"x","jwks":"x","audiences":["a"],`+entry+`}]}`)
	if err != nil {
		t.Fatal(err)
	}
	all := claims{}
	if err := json.Unmarshal([]byte(payload), &all); err != nil {
		t.Fatal(err)
	}
	return c.Issuers[0].subject(all)
}

// Claims say what a key of the same rights would have.
func TestMapping(t *testing.T) {
	const grants = `"grants":[{"claim":"groups","has":"ops","key":"admin 3"},{"claim":"realm_access.roles","has":"llm","key":"user rpm=5 models=a"}]`
	const direct = `"claims":{"role":"role","weight":"w","priority":"p","models":"m","rpm":"limits.rpm","tenant":"org","tpd-out":"https://x.example/out"}`
	for _, test := range []struct{ entry, payload, want string }{
		{`"name":"corp"`, `{"sub":"a"}`, `user`},
		{`"name":"corp"`, `{"sub":"a","role":"admin","groups":["ops"]}`, `user`},
		{grants, `{"sub":"a","groups":["x","ops"]}`, `3 admin`},
		{grants, `{"sub":"a","groups":"ops"}`, `3 admin`},
		{grants, `{"sub":"a","realm_access":{"roles":["llm"]}}`, `models=a rpm=5 user`},
		{grants, `{"sub":"a","realm_access.roles":["llm"]}`, `models=a rpm=5 user`},
		{grants, `{"sub":"a","groups":["ops2"]}`, `! the token grants nothing on this server`},
		{grants, `{"sub":"a","groups":{"ops":true}}`, `! the token grants nothing on this server`},
		{grants, `{"sub":"a","groups":["ops",1]}`, `! the token grants nothing on this server`},
		{grants + `,` + direct, `{"sub":"a","groups":["ops"],"w":2.5,"role":"guest","limits":{"rpm":7}}`, `2.5 rpm=7 user`},
		{direct, `{"sub":"a","role":["x","admin"],"p":-3,"m":["b","c"],"https://x.example/out":9}`, `admin models=b,c priority=-3 tpd-out=9`},
		{direct, `{"sub":"a","m":"b,c","w":null,"org":"acme"}`, `models=b,c user @acme`},
		{direct, `{"sub":"a","m":[]}`, `! the claim m is no list of names of models`},
		{direct, `{"sub":"a","m":["b,c"]}`, `! the claim m is no list of names of models`},
		{direct, `{"sub":"a","m":7}`, `! the claim m is no list of names of models`},
		{direct, `{"sub":"a","w":"2"}`, `! the claim w is no number`},
		{direct, `{"sub":"a","limits":{"rpm":[1]}}`, `! the claim limits.rpm is no number`},
		{direct, `{"sub":"a","limits":7}`, `user`},
		{direct, `{"sub":"a","role":true}`, `! the claim role is no text or list of texts`},
		{direct, `{"sub":"a","org":"two words"}`, `! the claim org is not 1 to 64 of letters, digits and the signs . _ -`},
		{direct, `{"sub":"a","org":{}}`, `! the claim org is no text of 1 to 255 bytes`},
		{`"claims":{"subject":"email"}`, `{"sub":"a","email":"a@b"}`, `user =a@b`},
		{`"claims":{"subject":"email"}`, `{"sub":"a"}`, `! the token has no claim email`},
	} {
		got := ""
		switch s, err := claimed(t, test.entry, test.payload); {
		case err != nil:
			got = "! " + err.Error()
		default:
			got = strings.Join(s.Words, " ")
			if s.Tenant != "" {
				got += " @" + s.Tenant
			}
			if s.ID != "a" {
				got += " =" + s.ID
			}
		}
		if got != test.want {
			t.Errorf("%s of %s: %q, want %q", test.payload, test.entry, got, test.want)
		}
	}
}

// Mistakes in the file have a line that says what would be right.
func TestConfig(t *testing.T) {
	one := func(besides string) string {
		return `{"issuers":[{"issuer":"https://a.example","audiences":["a"]` + besides + `}]}`
	}
	for _, test := range []struct{ text, want string }{ // want: "" is none
		{one(""), ""},
		{one(`,"jwks":"http://127.0.0.1:1/keys","name":"corp"`), ""},
		{`{"leeway_seconds":0,"issuers":[{"issuer":"http://localhost:9/x","audiences":["a"]}]}`, ""},
		{``, "oidc.json"},
		{`{"issuers":[]}`, "0 issuers"},
		{`{"issuer":{}}`, "issuer"},
		{one(`,"audience":"a"`), "audience"},
		{`{"leeway_seconds":-1,"issuers":[]}`, "leeway_seconds is -1"},
		{`{"issuers":[{"issuer":"https://a.example"}]}`, "audiences"},
		{`{"issuers":[{"issuer":"http://a.example","audiences":["a"]}]}`, "want https"},
		{`{"issuers":[{"issuer":"a.example","audiences":["a"]}]}`, "is no URL"},
		{`{"issuers":[{"audiences":["a"]}]}`, "issuer is empty"},
		{one(`,"jwks":"http://a.example/keys"`), "want https"},
		{one(`,"algorithms":["none"]`), `"none" is none of RS256`},
		{one(`,"algorithms":["HS256"]`), `"HS256" is none of RS256`},
		{one(`,"name":"a b"`), "name is"},
		{one(`,"claims":{"roles":"r"}`), `"roles" is none of subject`},
		{one(`,"claims":{"role":"a\"b"}`), "is no name of a claim"},
		{one(`,"grants":[{"has":"x"}]`), "grant 1: has"},
		{one(`,"grants":[{"claim":"x"}]`), "grant 1: has is empty"},
		{one(`,"grants":[{"key":"user bad"}]`), "bad is no word"},
		{one(`,"grants":[{"key":"name=x"}]`), "name= is of one key"},
		{`{"issuers":[{"issuer":"https://a.example","audiences":["a"]},{"issuer":"https://b.example","audiences":["a"]}]}`, "want each once"},
		{strings.Repeat(" ", maxConfig) + one(""), "more than 1024 KiB"},
		{`{"issuers":[{"url":"https://a.example"}]}`, `"/issuers/0/url" is not known`},
		{`{"issuers":7}`, `"/issuers" is of the wrong type: number`},
	} {
		_, err := config(t, test.text)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%.200s: %v, want %q", test.text, err, test.want)
		}
	}
}

// counted is a transport that answers from memory, so that time may be that of the test.
type counted struct {
	mu   sync.Mutex
	set  []byte
	down bool
	hung bool
	n    int
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.hung {
		c.mu.Unlock()
		<-r.Context().Done()
		c.mu.Lock()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	if c.down {
		return nil, errors.New("no route")
	}
	w.Write(c.set)
	return w.Result(), nil
}

func (c *counted) change(set []byte, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set, c.down = set, down
}

func (c *counted) hang(hung bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hung = hung
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Keys are asked for when they must be, and not by request: neither where tokens name keys that do not exist, nor where the issuer is gone.
func TestWhenKeysAreAskedFor(t *testing.T) {
	i := oidctest.New(t)
	first := i.Set()
	was := i.Token(map[string]any{"exp": 4e9})
	i.Rotate("ES256")
	second, is := i.Set(), i.Token(map[string]any{"exp": 4e9})
	synctest.Test(t, func(t *testing.T) {
		at := &counted{set: first}
		var told []error
		s := &source{
			issuer: Issuer{URL: i.URL, Name: "oidc", Keys: "https://x.example/keys", Audiences: []string{"quern"}, Algorithms: usualAlgorithms},
			client: &http.Client{Transport: at}, ctx: t.Context(), clock: time.Now, log: func(_, _ string, err error) { told = append(told, err) },
		}
		v := &Verifier{clock: time.Now, sources: map[string]*source{i.URL: s}}
		if old, err := s.open(t.Context()); old || err != nil {
			t.Fatal(old, err)
		}
		step := func(what, token, want string, n int) {
			t.Helper()
			if got := reason(v, token); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			synctest.Wait()
			if at.count() != n {
				t.Errorf("%s: asked %d times, want %d", what, at.count(), n)
			}
		}
		step("a known key", was, "", 1)
		at.change(second, false)
		for range 100 {
			step("a storm", is, errUnknown.Reason, 1)
		}
		time.Sleep(retryEvery)
		step("a new key", is, "", 2)
		step("a key that was withdrawn", was, errUnknown.Reason, 2)
		time.Sleep(retryEvery)
		for range 100 {
			step("a storm of the past", was, errUnknown.Reason, 3)
		}
		time.Sleep(refreshEvery + time.Second)
		step("old keys, and they still are the issuer's", is, "", 4)
		at.change(first, false)
		time.Sleep(refreshEvery + time.Second)
		step("old keys, and this one was withdrawn", is, errUnknown.Reason, 5)
		step("the key in its place", was, "", 5)
		at.change(second, false)
		time.Sleep(5 * time.Hour)
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := v.Check(ended, was); err == nil {
			t.Error("old keys judge where nobody waits for those of now")
		}
		synctest.Wait()
		step("those of now have come meanwhile", was, errUnknown.Reason, 6)
		at.change(nil, true)
		time.Sleep(refreshEvery + time.Second)
		step("an issuer that is gone", is, "", 7)
		step("again", is, "", 7)
		if len(told) != 1 || told[0] == nil {
			t.Errorf("told %v", told)
		}
		time.Sleep(keptFor)
		step("for a day", is, errOld.Error(), 8)
		step("still", is, errOld.Error(), 8)
		at.change(second, false)
		time.Sleep(retryEvery)
		step("an issuer that is back", is, "", 9)
		if len(told) != 2 || told[1] != nil {
			t.Errorf("told %v", told)
		}
		at.change([]byte(`{"keys":[]}`), false)
		time.Sleep(refreshEvery + time.Second)
		step("an issuer that loses its keys", is, "", 10)
		at.hang(true)
		time.Sleep(retryEvery)
		begun := time.Now()
		step("an issuer that failed and now hangs", is, "", 11)
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("it is waited for %v, a moment after a failure", waited)
		}
		time.Sleep(refreshEvery)
		begun = time.Now()
		step("an issuer that hangs", is, "", 12)
		if waited := time.Since(begun); waited != fetchTime {
			t.Errorf("it is waited for %v, want %v", waited, fetchTime)
		}
	})
}

// Many verify tokens while their issuer changes its keys: each is accepted while its key is in the set, and not after.
func TestCheckConcurrently(t *testing.T) {
	i := oidctest.New(t)
	first, was := i.Set(), i.Token(map[string]any{"exp": 4e9})
	i.Rotate("EdDSA")
	second, is := i.Set(), i.Token(map[string]any{"exp": 4e9})
	synctest.Test(t, func(t *testing.T) {
		at := &counted{set: first}
		s := &source{
			issuer: Issuer{URL: i.URL, Name: "oidc", Keys: "https://x.example/keys", Audiences: []string{"quern"},
				Algorithms: usualAlgorithms},
			client: &http.Client{Transport: at}, ctx: t.Context(), clock: time.Now, log: func(string, string, error) {},
		}
		v := &Verifier{clock: time.Now, sources: map[string]*source{i.URL: s}}
		if _, err := s.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := func(token, want string) {
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					if got := reason(v, token); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				})
			}
			wait.Wait()
		}
		all(was, "")
		at.change(second, false)
		var wait sync.WaitGroup
		for n := range 16 {
			wait.Go(func() {
				for range 20 {
					reason(v, []string{was, is}[n%2])
					time.Sleep(time.Second)
				}
			})
		}
		wait.Wait()
		all(was, errUnknown.Reason)
		all(is, "")
		if at.count() > 4 {
			t.Errorf("asked %d times", at.count())
		}
		at.change(first, false)
		time.Sleep(refreshEvery + time.Second)
		all(is, errUnknown.Reason)
		all(was, "")
	})
}

// What came over HTTPS has no keys come in clear, not even from this machine.
func TestStaysSecure(t *testing.T) {
	s := &source{issuer: Issuer{URL: "https://x.example"}, client: &http.Client{Transport: &counted{
		set: []byte(`{"issuer":"https://x.example","jwks_uri":"http://127.0.0.1:1/keys"}`)}}}
	if _, err := s.discover(t.Context()); !errors.Is(err, errClear) {
		t.Errorf("jwks_uri: %v", err)
	}
	to := func(at string) *http.Request { return httptest.NewRequest(http.MethodGet, at, nil) }
	check := newClient().CheckRedirect
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"https://x.example/a", "https://y.example/b", true},
		{"http://127.0.0.1:1/a", "http://127.0.0.1:1/b", true},
		{"http://127.0.0.1:1/a", "https://y.example/b", true},
		{"https://x.example/a", "http://127.0.0.1:1/b", false},
	} {
		if err := check(to(test.to), []*http.Request{to(test.from)}); (err == nil) != test.want {
			t.Errorf("from %s to %s: %v", test.from, test.to, err)
		}
	}
}

// A start without the issuer is an error, but for keys of the cache of the last day.
func TestStartWithoutIssuer(t *testing.T) {
	i := oidctest.New(t)
	dir := filepath.Join(t.TempDir(), "cache")
	text := fmt.Sprintf(`{"cache":%q,"issuers":[{"issuer":%q,"audiences":["quern"]}]}`, dir, i.URL)
	c, err := config(t, text)
	if err != nil {
		t.Fatal(err)
	}
	start := func() (v *Verifier, told error, err error) {
		v, err = Open(t.Context(), c, func(_, what string, err error) { told = fmt.Errorf("%s: %w", what, err) })
		return v, told, err
	}
	i.Down(true)
	if _, _, err := start(); err == nil || !strings.Contains(err.Error(), "502") || !strings.Contains(err.Error(), i.URL) {
		t.Errorf("no cache yet: %v", err)
	}
	i.Down(false)
	if _, told, err := start(); told != nil || err != nil {
		t.Fatal(told, err)
	}
	i.Down(true)
	v, told, err := start()
	if told == nil || !strings.HasPrefix(told.Error(), ofCache) || err != nil {
		t.Fatalf("with the cache: told %v, %v", told, err)
	}
	if got := reason(v, i.Token(nil)); got != "" {
		t.Error(got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	old := time.Now().Add(-keptFor - time.Minute)
	if err := os.Chtimes(files[0], old, old); err != nil {
		t.Fatal(err)
	}
	if _, _, err := start(); err == nil {
		t.Error("an old cache is used")
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := start(); err == nil {
		t.Error("a broken cache is used")
	}
}

// What an issuer says of itself is not believed where it could be another's.
func TestDiscovery(t *testing.T) {
	for _, test := range []struct {
		name, value, want string
	}{
		{"issuer", "https://other.example", "it is of the issuer"},
		{"jwks_uri", "http://other.example/keys", "want https"},
		{"jwks_uri", "file:///etc/passwd", "no URL"},
		{"jwks_uri", "", "no URL"},
	} {
		i := oidctest.New(t)
		i.Say(test.name, test.value)
		c, err := config(t, fmt.Sprintf(`{"issuers":[{"issuer":%q,"audiences":["quern"]}]}`, i.URL))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Open(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: %v, want %q", test.name, test.value, err, test.want)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"more than 256 KiB": func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, maxSet+1)) },
		"404":               http.NotFound,
		"want https": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://x.example/", http.StatusFound)
		},
		"redirects":       func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"no JSON Web Key": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"can verify tokens": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"XX"},7]}`))
		},
		"want at most": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"keys":[` + strings.Repeat("{},", maxInSet) + `{}]}`))
		},
	} {
		s := httptest.NewServer(h)
		c, err := config(t, fmt.Sprintf(`{"issuers":[{"issuer":"x","jwks":%q,"audiences":["quern"]}]}`, s.URL))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Open(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
		s.Close()
	}
}

// Keys of a file are read again as those of a URL are.
func TestKeysOfFile(t *testing.T) {
	i := oidctest.New(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, i.Set(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config(t, fmt.Sprintf(`{"issuers":[{"issuer":%q,"audiences":["quern"],"jwks":%q}]}`, i.URL, path))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	v, err := open(t.Context(), c, func(_, what string, err error) { t.Error(what, err) }, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	was := i.Token(map[string]any{"exp": 4e9})
	if got := reason(v, was); got != "" {
		t.Error(got)
	}
	i.Rotate("EdDSA")
	is := i.Token(map[string]any{"exp": 4e9})
	if err := os.WriteFile(path, i.Set(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := reason(v, was) + reason(v, is); got != errUnknown.Reason {
		t.Errorf("before the file is read again: %q", got)
	}
	now = now.Add(refreshEvery + time.Second)
	if got := reason(v, was); got != errUnknown.Reason {
		t.Errorf("the key that the file had: %q", got)
	}
	if got := reason(v, is); got != "" {
		t.Errorf("the key that the file has: %q", got)
	}
	if i.Fetches() != 0 {
		t.Error("the issuer was asked")
	}
}

// FuzzClaims reads payloads that are anything: words that a key could have after it, or a reason in a line.
func FuzzClaims(f *testing.F) {
	c := Config{Issuers: []Issuer{{
		URL: "x", Keys: "x", Audiences: []string{"a"},
		Claims: map[string]string{"role": "r", "weight": "w", "priority": "p", "models": "m.n", "rpm": "q", "tenant": "t", "tpd-in": "o"},
		Grants: []Grant{{Claim: "g.h", Has: "x", Key: "admin 3 models=z"}, {Key: "user"}},
	}}}
	if err := c.check(func([]string) error { return nil }); err != nil {
		f.Fatal(err)
	}
	v := &Verifier{clock: time.Now}
	f.Add(`{"iss":"x","sub":"s","aud":["a"],"exp":4e9,"g":{"h":["x"]},"w":1e3,"t":"acme"}`)
	f.Add(`{"sub":"s","aud":"a","exp":4e9,"m":{"n":["b","c"]},"q":-1,"r":["admin"]}`)
	f.Add(`{"sub":"\u0000","aud":"a","exp":1e999}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, payload string) {
		s, err := v.subject(&c.Issuers[0], []byte(payload))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || strings.ContainsAny(e.Reason, "\"\\\n\r") {
				t.Fatalf("%q: %v", payload, err)
			}
			return
		}
		if s.ID == "" || len(s.ID) > maxText || s.Tenant != "" && !plain(s.Tenant) {
			t.Fatalf("%q: %+v", payload, s)
		}
		seen := map[string]bool{}
		for _, word := range s.Words {
			if to := targetOf(word); seen[to] || !slices.Contains(targets, to) {
				t.Fatalf("%q: %q", payload, s.Words)
			} else {
				seen[to] = true
			}
		}
	})
}

// FuzzToken verifies texts that are anything: none is accepted, and none has the issuer asked for keys.
func FuzzToken(f *testing.F) {
	i := oidctest.New(f)
	v := opened(f, i, "")
	f.Add(forged(i, `{"alg":"none"}`, func(string) []byte { return nil }))
	f.Add("eyJhbGciOiJFUzI1NiIsImtpZCI6ImtleS0xIn0.e30.AAAA")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if got := reason(v, token); got == "" {
			t.Fatalf("%q is accepted", token)
		}
	})
}
